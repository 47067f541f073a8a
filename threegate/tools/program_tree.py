"""The program of a tool server: the files on this machine that its command line starts, and their digest.

Invariant: every file named in the command line that is in no folder bound for data belongs to the program:
its whole installed tree (a virtual environment, node_modules, a prefix with bin and lib) is pinned, and is
read-only in the jail. For files that the system itself installed below /usr, only the named file is pinned. A
launcher that fetches code when it starts is refused.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.jail.program_folder import folder_of, interpreter_of

_FETCHERS: Final = {
    "npx": "npm install --prefix DIR PACKAGE",
    "pnpx": "npm install --prefix DIR PACKAGE",
    "bunx": "npm install --prefix DIR PACKAGE",
    "uvx": "python3 -m venv DIR && DIR/bin/pip install PACKAGE",
    "pipx run": "python3 -m venv DIR && DIR/bin/pip install PACKAGE",
    "uv run": "python3 -m venv DIR && DIR/bin/pip install PACKAGE",
    "uv tool": "python3 -m venv DIR && DIR/bin/pip install PACKAGE",
    "npm exec": "npm install --prefix DIR PACKAGE",
    "npm x": "npm install --prefix DIR PACKAGE",
    "npm start": "npm install --prefix DIR PACKAGE",
    "npm run": "npm install --prefix DIR PACKAGE",
    "pnpm dlx": "npm install --prefix DIR PACKAGE",
    "pnpm exec": "npm install --prefix DIR PACKAGE",
    "yarn dlx": "npm install --prefix DIR PACKAGE",
    "bun x": "npm install --prefix DIR PACKAGE",
    "deno run": "npm install --prefix DIR PACKAGE",
    "docker run": "npm install --prefix DIR PACKAGE",
    "podman run": "npm install --prefix DIR PACKAGE",
    "go run": "go build -o DIR/NAME",
}
"""Launchers that fetch or build code when they start, and the command that installs it first."""
_SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "env", "busybox", "xargs", "sudo", "su"))
_known: dict[str, tuple[str, str]] = {}
"""For each hashed tree: the lstat results of all its entries, and the digest."""


def pinned_command(words: Sequence[str]) -> tuple[str, ...]:
    """The command line with an absolute program. Raises Refused `tools_fetched`, InvalidInput, Unavailable."""
    refuse_words(words)
    place = shutil.which(words[0])
    if place is None:
        raise Unavailable(f"{words[0]}: missing or not a program; install it first")
    relative = next((word for word in words[1:] if not Path(word).is_absolute() and _is_file(word)), None)
    if relative is not None:
        raise InvalidInput(f"{relative}: a file in this folder; give its full path: {Path.cwd() / relative}")
    return (str(Path(place).absolute()), *words[1:])


def refuse_words(words: Sequence[str]) -> None:
    """A command line that pins nothing, wherever it runs. Raises Refused `tools_fetched`, InvalidInput."""
    if not words:
        raise InvalidInput("no command; give it after --, as in: threegate tools add NAME -- /opt/server/bin/server")
    if len(words) > limits.TOOLS_ARGUMENTS or any(
        len(word) > limits.TOOLS_ARGUMENT_CHARS or "\0" in word for word in words
    ):
        raise InvalidInput("the command line is too long")
    base, first = (
        os.path.basename(words[0]),
        next((word for word in words[1:] if not word.startswith("-")), ""),
    )
    install = _FETCHERS.get(base) or _FETCHERS.get(f"{base} {first}")
    if install is not None:
        raise Refused(
            "tools_fetched",
            f"{words[0]}: fetches code when it starts, so nothing could be pinned; install the server first"
            f" ({install}) and add the program that this installs",
        )
    if base in _SHELLS:
        raise InvalidInput(
            f"{words[0]}: starts another program; name the server's own program; for variables use --env"
        )


def program_places(argv: Sequence[str], data: Sequence[str]) -> tuple[Path, ...]:
    """The files and trees of a command line, by real path; `data` are folders in which nothing belongs to the
    program. Raises Unavailable.
    """
    found: dict[Path, None] = {}
    named = [
        Path(argv[0]),
        *(Path(word) for word in argv[1:] if Path(word).is_absolute() and _is_file(word)),
    ]
    for path in named:
        real = path.resolve()
        if path != named[0] and any(_within(real, Path(folder)) for folder in data):
            continue
        interpreter = interpreter_of(real)
        beside = Path(
            os.path.realpath(path.parent), path.name
        )  # a virtual environment's python is a link to a file outside it
        for item in (beside, real, *(() if interpreter is None else (interpreter,))):
            found[folder_of(item) or real] = None
    return tuple(sorted(found))


def program_digests(argv: Sequence[str], data: Sequence[str]) -> dict[str, str]:
    """The digest of each, by path. Raises Unavailable."""
    return {str(place): tree_digest(place) for place in program_places(argv, data)}


def search_path(argv: Sequence[str]) -> tuple[str, ...]:
    """Folders for PATH, before the system's: the program's own, and its interpreter's. Raises Unavailable."""
    interpreter = interpreter_of(Path(argv[0]).resolve())
    places = [os.path.dirname(argv[0]), *([] if interpreter is None else [str(interpreter.parent)])]
    return tuple(dict.fromkeys(place for place in places if not place.startswith("/usr/")))


def tree_digest(root: Path) -> str:
    """sha256 of the canonical JSON of [path below root, kind, executable, sha256 or target of a link],
    sorted; links are not followed.

    A tree that has not changed since it was last hashed, according to the lstat of each entry (including
    change times), is not read again in this process. Raises Unavailable.
    """
    try:
        entries = _entries(root)
        looked = canonical.sha256_hex(
            repr(
                [
                    (name, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
                    for name, facts in entries
                ]
            ).encode("utf-8", "surrogateescape")
        )
        known = _known.get(str(root))
        if known is None or known[0] != looked:
            rows = [_row(root, name, facts) for name, facts in entries]
            known = _known[str(root)] = (looked, canonical.digest(rows))
        return known[1]
    except OSError as error:
        raise Unavailable(
            f"{error.filename or root}: cannot be read, so the program cannot be pinned ({error.strerror})"
        ) from None
    except ValueError:
        raise Unavailable(f"{root}: contains a name that is not UTF-8, so the program cannot be pinned") from None


def _entries(root: Path) -> list[tuple[str, os.stat_result]]:
    """Each entry below a root (the root itself as "."), sorted by path. Raises OSError, Unavailable."""
    facts = os.lstat(root)
    found = [(".", facts)]
    folders = [""] if stat.S_ISDIR(facts.st_mode) else []
    size = facts.st_size
    while folders:
        folder = folders.pop()
        with os.scandir(root / folder) as listed:
            for entry in listed:
                name, facts = f"{folder}{entry.name}", entry.stat(follow_symlinks=False)
                found.append((name, facts))
                size += facts.st_size
                if stat.S_ISDIR(facts.st_mode):
                    folders.append(f"{name}/")
        if len(found) > limits.TOOLS_TREE_ENTRIES or size > limits.TOOLS_TREE_BYTES:
            raise Unavailable(f"{root}: too large to be pinned; install the server into a separate folder")
    return sorted(found, key=lambda item: item[0])


def _row(root: Path, name: str, facts: os.stat_result) -> list[object]:
    path = root if name == "." else root / name
    if stat.S_ISDIR(facts.st_mode):
        return [name, "folder", False, ""]
    if stat.S_ISLNK(facts.st_mode):
        return [name, "link", False, str(path.readlink())]
    if not stat.S_ISREG(facts.st_mode):
        return [name, "other", False, ""]
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return [name, "file", bool(facts.st_mode & 0o111), hashlib.file_digest(file, "sha256").hexdigest()]


def _within(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _is_file(word: str) -> bool:
    """Also for a word that is too long to be a path."""
    return os.path.isfile(word)  # noqa: PTH113
