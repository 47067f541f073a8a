"""The section [cluster] of threegate.toml, and what the daemon's unit needs for it.

Invariant: it imports nothing heavy, because every command may read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.core import limits
from threegate.core.settings import Section, Settings
from threegate.core.toml_table import Table, setting

if TYPE_CHECKING:
    from threegate.core.workspace import Workspace
    from threegate.setup.service_unit import UnitNeeds


BROKER_URL = r"amqps://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?(/[A-Za-z0-9._-]{1,64})?"


class ClusterSettings(Table):
    """Runs on other machines, through RabbitMQ; off while `broker` is empty (docs/cluster.md)."""

    broker: str = setting(
        default="",
        pattern=rf"({BROKER_URL})?",
        description="URL of the broker; runs then go to its workers and none runs here",
    )
    identity: str = setting(
        default="", description="absolute path of the folder with ca.pem, tls.pem and tls.key of this daemon"
    )
    workers: tuple[str, ...] = setting(default=(), description="enrolled workers: the verifier key that each printed")
    away_sec: int = setting(
        default=20,
        ge=limits.CLUSTER_AWAY_LEAST,
        le=limits.CLUSTER_AWAY_MOST,
        description="seconds that the broker or this daemon may be away before a worker ends its runs",
    )
    slots: int = setting(
        default=256, ge=1, le=limits.CLUSTER_SLOTS, description="requests that are with workers at once"
    )


SECTION = Section(ClusterSettings, addresses=("broker",))


def unit_needs(workspace: Workspace, settings: Settings, uid: int | None, era: bool) -> UnitNeeds:
    """The daemon itself speaks to the broker."""
    from threegate.setup.service_unit import UnitNeeds

    return UnitNeeds(network=bool(settings.section(ClusterSettings).broker))
