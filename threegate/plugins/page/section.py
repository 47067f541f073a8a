"""The section [notify] of threegate.toml, and what the daemon's unit needs for it.

Invariant: it imports nothing heavy, because every command may read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.core.settings import Section, Settings
from threegate.core.toml_table import Table, setting

if TYPE_CHECKING:
    from threegate.core.workspace import Workspace
    from threegate.setup.service_unit import UnitNeeds


class NotifySettings(Table):
    """Who is notified that something waits or has ended ([notify] extra); docs/notices.md says what a notice has."""

    urls: tuple[str, ...] = setting(default=(), description="apprise URLs to notify when a draft is waiting")
    requester_hook: str = setting(default="", description="apprise URL to notify when a request has ended")
    link: bool = setting(
        default=False,
        description="whether a notice of a draft has a link to it on the page of `threegate serve passkeys`"
        " (docs/approve-from-elsewhere.md)",
    )


NOTIFY = Section(NotifySettings, addresses=("urls", "requester_hook"))


def unit_needs(workspace: Workspace, settings: Settings, uid: int | None, era: bool) -> UnitNeeds:
    """The daemon itself sends notices."""
    from threegate.setup.service_unit import UnitNeeds

    notify = settings.section(NotifySettings)
    return UnitNeeds(network=bool(notify.urls or notify.requester_hook))
