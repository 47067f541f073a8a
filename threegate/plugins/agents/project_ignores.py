"""What git knows of a project besides its `.gitignore` files: what is tracked, and what its owner's own rules ignore.

Invariant: only files are read. git runs in an empty folder, on a copy of the index, with no configuration that could
name a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.errors import Unavailable
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.git_repository import NoHistory, Repository, excludes_file, git_environment, run_git
from threegate.plugins.changes.ignored import Ignoring

_SHA256: Final = b"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"


def gather(root: Path) -> Ignoring:
    """What is known of the repository that a project is in, at its top or further down. A repository that is above and
    tracks nothing in the project is not the project's: a home folder may be one.
    """
    for top in (root, *root.parents):
        if not os.path.lexists(top / ".git"):
            continue
        try:
            repository = Repository.of(top)
        except NoHistory:
            return Ignoring(repository=top == root)
        prefix = "" if top == root else f"{root.relative_to(top)}/"
        tracked = frozenset(path[len(prefix) :] for path in _index(repository) if path.startswith(prefix))
        if top != root and not tracked:
            break
        return Ignoring(tracked, tuple(_patterns(repository, top, root)), repository=True)
    return Ignoring(repository=False)


def to_bytes(known: Ignoring) -> bytes:
    """What `read_ignoring` reads."""
    value = {"tracked": sorted(known.tracked), "patterns": known.patterns, "repository": known.repository}
    return json.dumps(value).encode()


def read_ignoring(run: AgentRun) -> Ignoring:
    """What git knew of a run's project at the start. Raises Unavailable."""
    try:
        value = json.loads(durable.read_regular(run.ignores, max_bytes=limits.AGENT_MANIFEST_BYTES))
        patterns = tuple((prefix, text) for prefix, text in value["patterns"])
        return Ignoring(frozenset(value["tracked"]), patterns, value["repository"])
    except (OSError, ValueError, KeyError, TypeError):
        raise Unavailable(f"{run.ignores}: cannot be read; the work copy can only be inspected by hand") from None


def _patterns(repository: Repository, top: Path, root: Path) -> Iterator[tuple[str, str]]:
    """The texts of rules outside the project, the strongest first, each with what comes before a path in it."""
    for folder in root.parents if top != root else ():
        yield from _text(folder / ".gitignore", f"{root.relative_to(folder)}/")
        if folder == top:
            break
    prefix = "" if top == root else f"{root.relative_to(top)}/"
    yield from _text(repository.common / "info" / "exclude", prefix)
    yield from _text(excludes_file(), prefix)


def _text(path: Path, prefix: str) -> Iterator[tuple[str, str]]:
    with suppress(OSError):  # without its rules nothing is ignored: the person sees more, not less
        data = durable.read_regular(Path(os.path.realpath(path)), max_bytes=limits.IGNORE_FILE_BYTES)
        yield prefix, data.decode("utf-8", "replace")


def _index(repository: Repository) -> Iterator[str]:
    """The paths in the index; none if there is no index, or git cannot read it."""
    config = b""
    with suppress(OSError):
        config = durable.read_regular(repository.common / "config", max_bytes=limits.IGNORE_FILE_BYTES)
    with (
        suppress(OSError, NoHistory, subprocess.SubprocessError),
        tempfile.TemporaryDirectory(prefix="threegate-git-") as made,
    ):
        for folder in ("objects", "refs"):
            Path(made, folder).mkdir()
        Path(made, "HEAD").write_bytes(b"ref: refs/heads/none\n")
        if b"sha256" in config:
            Path(made, "config").write_bytes(_SHA256)
        repository.copy_index(Path(made))
        listed = run_git(["ls-files", "-z", "--sparse"], git_environment(GIT_DIR=made, GIT_WORK_TREE=made))
        yield from (os.fsdecode(path) for path in listed.split(b"\0") if path)
