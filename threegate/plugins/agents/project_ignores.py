"""What git knows of a project besides its `.gitignore` files: what is tracked, and what its owner's own rules ignore.

Invariant: only files are read. git runs in an empty folder of our own, on a copy of the index, with no configuration
that could name a program.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.plugins.agents.git_repository import NoHistory, Repository, scratch_repository
from threegate.plugins.changes.ignored import Ignoring
from threegate.plugins.changes.machine_programs import find_program

_ALONE: Final = {
    "PATH": os.defpath,
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}


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
    """What `from_bytes` reads."""
    value = {"tracked": sorted(known.tracked), "patterns": known.patterns, "repository": known.repository}
    return json.dumps(value).encode()


def from_bytes(data: bytes) -> Ignoring:
    """Raises ValueError, KeyError, TypeError."""
    value = json.loads(data)
    return Ignoring(
        frozenset(value["tracked"]),
        tuple((prefix, text) for prefix, text in value["patterns"]),
        value["repository"],
    )


def _patterns(repository: Repository, top: Path, root: Path) -> Iterator[tuple[str, str]]:
    """The texts of rules that are not in the project, the strongest first, each with what comes before a path in it."""
    for folder in root.parents if top != root else ():
        yield from _text(folder / ".gitignore", f"{root.relative_to(folder)}/")
        if folder == top:
            break
    prefix = "" if top == root else f"{root.relative_to(top)}/"
    yield from _text(repository.common / "info" / "exclude", prefix)
    yield from _text(_excludes_file(), prefix)


def _text(path: Path, prefix: str) -> Iterator[tuple[str, str]]:
    with suppress(OSError):  # without its rules nothing is ignored: the person sees more, not less
        data = durable.read_regular(Path(os.path.realpath(path)), max_bytes=limits.IGNORE_FILE_BYTES)
        yield prefix, data.decode("utf-8", "replace")


def _excludes_file() -> Path:
    """The `core.excludesFile` of the person's own configuration, else the usual place. That of the project does not
    count, because it could name any file.
    """
    home = Path(os.environ.get("HOME") or Path.home())
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    for file in (home / ".gitconfig", config / "config", Path("/etc/gitconfig")):
        if file.is_file():
            words = ["config", "--file", str(file), "--includes", "--type=path", "--get", "core.excludesFile"]
            value = _git(words, {"HOME": str(home)}).removesuffix(b"\n")
            if value:
                return Path(os.fsdecode(value))
    return config / "ignore"


def _index(repository: Repository) -> Iterator[str]:
    """The paths in the index; nothing if there is none, or git cannot read it alone."""
    config = b""
    with suppress(OSError):
        config = durable.read_regular(repository.common / "config", max_bytes=limits.IGNORE_FILE_BYTES)
    with suppress(OSError), scratch_repository(sha256=b"sha256" in config) as scratch:
        for file in (repository.own / "index", *repository.own.glob("sharedindex.*")):
            (scratch / file.name).write_bytes(durable.read_regular(file, max_bytes=limits.SNAPSHOT_BYTES))
        made = str(scratch)
        listed = _git(["ls-files", "-z", "--sparse"], {"GIT_DIR": made, "GIT_WORK_TREE": made, "HOME": made})
        yield from (os.fsdecode(path) for path in listed.split(b"\0") if path)


def _git(words: list[str], environment: dict[str, str]) -> bytes:
    """What git prints; nothing if it fails, or is not installed."""
    program = find_program("git")
    if program is None:
        return b""
    with suppress(subprocess.SubprocessError):
        return subprocess.run(
            [program, *words],
            env={**_ALONE, **environment},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=limits.AGENT_HISTORY_SECONDS,
        ).stdout
    return b""
