"""The folders of `--read`: what an agent may read besides its project, as they were when its run began.

Invariant: a folder is surveyed like a project before it is visible. A name with a secret, and a name that was not
there at the start, is not in the jail: the folder is an overlay of its names over its bytes, or a copy where the kernel
has no such overlay.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from threegate.core.errors import Unavailable
from threegate.core.held_folder import hold_path
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.names_layer import make_names, names_work
from threegate.plugins.agents.project_survey import Reason, Survey, survey
from threegate.plugins.agents.work_copy import copy_entries
from threegate.runners.jail.jail import Account, Bound, Layered


@dataclass(frozen=True, slots=True)
class ReadFolder:
    """One of them. `place` is the layer of names, or the copy."""

    folder: Path
    place: Path
    layered: tuple[Layered, ...]
    bound: tuple[Bound, ...]
    hidden: dict[str, Reason]
    """By absolute path."""

    @classmethod
    def make(
        cls,
        run: AgentRun,
        number: int,
        folder: Path,
        *,
        account: Account,
        shown: Collection[str] = (),
        cache: Path | None = None,
    ) -> ReadFolder:
        """Survey a folder, whose path is real, and make its layer or copy. Raises InvalidInput, Unavailable."""
        start = survey(folder, shown=shown, cache=cache, project=False)
        try:
            place = run.read / str(number)
            place.mkdir(parents=True)
            layered = names_work(account, folder, run.work)
            # A program that this account may run and not read cannot come through an overlay or a copy.
            programs = [path for path in start.entries if _only_run(start, folder, path)]
            with hold_path(folder) as source:
                if layered:
                    make_names(start, source.fileno(), place, exact=not account.is_own)
                else:
                    copy_entries(start, source.fileno(), place)
                    for path in programs:
                        (place / path).touch()
        except OSError as error:
            raise Unavailable(
                f"{folder}: cannot be made readable for the agent ({error.strerror or error}); make room, or leave out "
                "--read"
            ) from None
        return cls(
            folder,
            place,
            (Layered(place, (folder,), str(folder)),) if layered else (),
            (
                *(() if layered else (Bound(place, str(folder)),)),
                *(Bound(folder / path, str(folder / path)) for path in programs),
            ),
            {str(folder / path): why for path, why in start.hidden.items()},
        )


def _only_run(start: Survey, folder: Path, path: str) -> bool:
    """Whether a file is a program that cannot be read."""
    entry = start.entries[path]
    return entry.kind == "file" and bool(entry.mode & 0o111) and not os.access(folder / path, os.R_OK)
