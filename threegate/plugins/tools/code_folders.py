"""What is pinned for a path that a command line reaches.

Invariant: code is never pinned without what is loaded beside it: its installed tree (a virtual environment,
node_modules, a prefix with bin and lib), or its folder with the package that this belongs to; and what links, `.pth`
files and editable installs in there lead to. Of what the system installed below /usr (not /usr/local), it is the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.tools.reached_code import Named, parts_of
from threegate.runners.jail.program_folder import holds_home, is_shared, tree_of

Entries = list[tuple[str, os.stat_result]]
"""Each entry of a tree by its path below the root, which is ".": what lstat says of it."""
SYSTEM_FOLDER: Final = Path("/usr")
_LOCAL: Final = Path("/usr/local")
_SHARED: Final = frozenset(
    map(Path, ("/", "/tmp", "/var/tmp", "/dev/shm", "/etc", "/opt", "/srv", "/home", "/var", "/run"))
)
"""Folders that do not belong to one server."""
_LINES: Final = (".pth", ".egg-link")
"""Files of site-packages whose lines are folders, or code."""
_SITES: Final = frozenset(("site-packages", "dist-packages"))
_NODE_ENDINGS: Final = frozenset((".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".jsx", ".tsx", ".node"))
_CODE_ENDINGS: Final = _NODE_ENDINGS | frozenset(
    ".py .pyc .pyz .pyw .pyi .pth .zip .whl .egg .so .rb .pl .pm .php .lua .jar .war .class .sh .bash .zsh .fish .ps1 "
    ".tcl .r .jl .ex .exs .beam .erl .groovy .kts .scala .clj .lisp .scm .rkt .ml .wasm .dll .exe .awk .sed".split()
)
_BINARY: Final = b"\x7fELF"


def places_of(named: Named) -> Iterator[Path]:
    """What is pinned for a path: itself, or the folder that its code was installed into. Raises Unavailable."""
    beside, real = forms_of(named.path)
    if beside != real and not is_system(beside):
        yield tree_of(beside)  # a virtual environment's python is a link to a file outside of it
    if is_system(real):
        yield real
        yield from _of_the_machine(real)
    elif real.is_dir():
        yield real
        if named.node:
            yield from _node_modules_above(real)
    elif named.role == "file" and not _is_code(real):
        yield real
    else:
        yield from _folders_of(real, node=named.node or real.suffix in _NODE_ENDINGS)


def refuse_shared(place: Path) -> None:
    """Refuse a folder that does not belong to one server. Raises Refused `tools_unsafe`."""
    home = Path.home().resolve()
    if place.is_dir() and (is_shared(place, home) or place in _SHARED):
        raise Refused(
            "tools_unsafe",
            f"{place}: the server's code is in this folder, which has much more in it; install the server into a "
            "folder of its own",
        )


def _folders_of(real: Path, *, node: bool) -> Iterator[Path]:
    """Where the code of a file is: its installed tree, or its folder with the package that this belongs to."""
    tree = tree_of(real)
    binary = _head(real).startswith(_BINARY)
    if tree == real and binary and (real.parent.name == "bin" or holds_home(real.parent, Path.home().resolve())):
        yield real  # it loads nothing from a folder of other programs
        return
    folder = real.parent if tree == real else tree
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    if node and tree == real:
        scope = next((above for above in (folder, *folder.parents) if (above / "package.json").is_file()), folder)
        broad = holds_home(scope, Path.home().resolve())
        folder = folder if broad else scope
        if broad:
            yield scope / "package.json"
    if node:
        yield from _node_modules_above(folder)
    yield folder


def _node_modules_above(folder: Path) -> Iterator[Path]:
    """Where Node.js looks for what a file in a folder requires."""
    return (above / "node_modules" for above in folder.parents if (above / "node_modules").is_dir())


def _of_the_machine(real: Path) -> Iterator[Path]:
    """What an interpreter that the system installed loads from /usr/local."""
    for name in ("site-packages", "dist-packages"):
        for folder in (_LOCAL / "lib" / real.name / name, _LOCAL / "lib" / "python3" / name):
            if real.name.startswith("python3") and folder.is_dir() and any(folder.iterdir()):
                yield folder


def led_to(place: Path, entries: Entries) -> Iterator[Path]:
    """What links, `.pth` files, editable installs and venvs in a folder lead to. Raises OSError, Unavailable."""
    for name, facts in entries:
        link = stat.S_ISLNK(facts.st_mode)
        if not link and not name.endswith((*_LINES, "pyvenv.cfg")) and "__editable__" not in name:
            continue
        path = place if name == "." else place / name
        targets: list[str] = []
        if link:
            targets = [str(path)]
        elif path.name == "pyvenv.cfg":
            keys = dict(line.partition("=")[::2] for line in _text(path).replace(" ", "").splitlines())
            targets = [f"{keys['home']}/python3"] if "home" in keys else []
        elif path.parent.name in _SITES and (path.suffix in _LINES or path.name.startswith("__editable__")):
            text = _text(path)
            lines = text.splitlines() if path.suffix in _LINES else []
            targets = [os.path.join(path.parent, line.strip()) for line in lines if line.strip()]
            named = [Path(part) for part in parts_of(text) if part.startswith("/")]
            targets += [str(part) for part in named if part.is_dir() or (part.is_file() and _is_code(part))]
        for target in map(Path, dict.fromkeys(map(os.path.realpath, targets))):
            if target != Path("/") and not within_any(target, [place]) and target.exists():
                yield from places_of(Named(target, "file", "node_modules" in place.parts))


def _text(path: Path) -> str:
    return path.read_text("utf-8", "surrogateescape")


def _is_code(real: Path) -> bool:
    """Whether a file that is named anywhere on a command line is code, by its name, its bits or its first bytes."""
    return (
        real.suffix.lower() in _CODE_ENDINGS
        or bool(os.stat(real).st_mode & 0o111)
        or _head(real).startswith((b"#!", _BINARY))
    )


def _head(path: Path) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(limits.CHANGE_HEAD_BYTES)
    except OSError as error:
        raise unread(error, path) from None


def unread(error: OSError, path: Path) -> Unavailable:
    """The error for a file of the program."""
    return Unavailable(
        f"{error.filename or path}: cannot be read, so the program cannot be pinned ({error.strerror or error})"
    )


def forms_of(path: Path) -> tuple[Path, Path]:
    """A path by the real path of its folder, and by its own."""
    return Path(os.path.realpath(path.parent), path.name), Path(os.path.realpath(path))


def is_system(path: Path) -> bool:
    """Whether the system itself installed what is there."""
    real = Path(os.path.realpath(path.parent), path.name)
    return _within(real, SYSTEM_FOLDER) and not _within(real, _LOCAL)


def _within(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def within_any(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path is in one of these folders."""
    return any(_within(path, folder) for folder in folders)


def overlap(one: Path, other: Path) -> bool:
    """Whether one of two folders contains the other."""
    return _within(one, other) or _within(other, one)
