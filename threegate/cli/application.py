"""The terminal application that a plugin gives for `review` and `status --watch`; without it they print lines."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from threegate.cli.invocation import ROOT
from threegate.cli.nouns import off_in
from threegate.core.plugins import Place
from threegate.core.workspace import Workspace

if TYPE_CHECKING:  # `status` shows it too, and approves nothing
    from threegate.acts.approve import Promoted


@dataclass
class Decided:
    """What was decided in the application, in order."""

    approved: list[Promoted] = field(default_factory=list)
    rejected: list[Path] = field(default_factory=list)
    left: int = 0


class Application(Protocol):
    """Shows the requests of a workspace until its user quits."""

    def __call__(
        self, workspace: Workspace, *, undecided: bool, name: str = "", key: Path | None = None, ended: int = 20
    ) -> Decided:
        """`undecided`: start with those to decide on, which needs the key of an operator. Raises InvalidInput before
        anything is shown, TrailError.
        """


APPLICATION: Final = Place[Application]("application")


def application_here(plain: bool) -> Application | None:
    """The application if one can be shown: its plugin is there and on, and the terminal is not a dumb one."""
    if plain or os.environ.get("TERM", "dumb") == "dumb":
        return None
    return next(iter(APPLICATION.given(off_in(ROOT.workspace)).values()), None)
