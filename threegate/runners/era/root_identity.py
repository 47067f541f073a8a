"""Which root file system a run without an engine sees, and the digest that its Job names (docs/spec/6-runners.md).

Two kinds: this machine's /usr, named by its packages, and a folder that `threegate settings images --rootfs` unpacked,
named by the digest of its tree, which is written beside it. Neither promises what a file contains: root can replace it.

Invariant: what is not known is refused (`Unavailable`), never guessed. An answer is taken again only while what it was
read from has the same times, sizes and inodes. Nobody but root and the account of this process may change an unpacked
root.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.core import canonical, durable, limits
from threegate.core.errors import Unavailable
from threegate.core.settings import EraSettings
from threegate.runners.seccomp import BUBBLEWRAP_SECCOMP_SHA256

MASKED: Final = ("/usr/etc", "/usr/local")
"""Folders of this machine's /usr that are empty in a run: `.pth` files there run code, and `npmrc` may hold tokens."""
PREFIX: Final = "root:sha256:"
TREE: Final = "tree"
"""The root file system in the folder that `runners.era.root` names."""
DESCRIPTION: Final = "root.json"
"""The file next to it that describes it (`describe`)."""
TYPE: Final = "threegate-root/1"
UNPACK: Final = "threegate settings images --rootfs /var/lib/threegate/root"
"""What to type for a root of one's own."""

DPKG: Final = Path("/var/lib/dpkg/status")
DPKG_FOLDER: Final = Path("/var/lib/dpkg/status.d")
RPM: Final = tuple(
    Path(folder, name)
    for folder in ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
    for name in ("rpmdb.sqlite", "Packages.db", "Packages")
)
ASK_RPM: Final = ("rpm", "-qa", "--qf", "%{NAME} %{ARCH} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\n")
ALTERNATIVES: Final = Path("/etc/alternatives")
_FIELD: Final = re.compile(r"^(Package|Status|Architecture|Version): *(.*)$", re.MULTILINE)
_NOT_THERE: Final = frozenset({"not-installed", "config-files"})
"""States of dpkg in which none of a package's programs is on the disk."""

_PATH_FOLDERS: Final = ("usr/sbin", "usr/bin", "sbin", "bin")
_PACKAGES: Final = ("lib/python3/dist-packages", "lib/python3.*/dist-packages", "lib*/python3.*/site-packages")
"""Where packages put modules besides the standard library; /usr/local is masked."""
_MODULE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\.py|(\.cpython-[^.]+|\.abi3)?\.so)?")
_ASK_PYTHON: Final = (
    "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(*sys.builtin_module_names); print(*sys.path)"
)
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

_Stamp = tuple[tuple[str, int, int, int], ...]
_known: dict[str, tuple[_Stamp, Root]] = {}


@dataclass(frozen=True, slots=True)
class Root:
    """A root file system, and what a request can use of it."""

    path: Path | None
    """The unpacked tree; None: this machine's /usr."""
    digest: str
    """``root:sha256:`` and 64 hex digits."""
    programs: frozenset[str]
    """Names of the executables on a run's PATH."""
    modules: frozenset[str]
    """Names of the modules that its Python imports."""
    python: str
    """Version of its Python as in ``3.11.2``; empty: it has none."""


def identify(settings: EraSettings) -> Root:
    """The root that the settings name. Raises Unavailable with one line that says what to do."""
    if settings.root:
        folder = Path(settings.root)
        refuse_writable(folder)  # each time: a mode can change without anything that is compared below
        return _again(settings.root, lambda: _unpacked(folder), [folder / DESCRIPTION, *_watched(folder / TREE)])
    return _again("", _host, _host_places())


def _again(name: str, read: Callable[[], Root], places: Iterable[Path]) -> Root:
    """What is known, if `places` are as they were when it was read."""
    stamp = tuple(_stamps(places))
    found = _known.get(name)
    if found is None or found[0] != stamp:
        # The stamp is older than the answer, so a change in between is found by the next question.
        found = _known[name] = (stamp, read())
    return found[1]


def _stamps(places: Iterable[Path]) -> Iterator[tuple[str, int, int, int]]:
    for place in places:
        try:
            facts = os.stat(place)
        except OSError:
            yield (str(place), 0, 0, 0)
        else:
            yield (str(place), facts.st_mtime_ns, facts.st_size, facts.st_ino)


# ---- this machine's /usr


def _host_places() -> list[Path]:
    folders = [Path("/", name) for name in _PATH_FOLDERS]
    return [DPKG, DPKG_FOLDER, *RPM, ALTERNATIVES, *folders, *_module_folders(Path("/"))]


def _host() -> Root:
    packages = _packages()
    digest = canonical.digest(
        {
            "type": TYPE,
            "packages": packages,
            "alternatives": dict(_links(ALTERNATIVES)),
            "masked": list(MASKED),
            "seccomp": BUBBLEWRAP_SECCOMP_SHA256,
        }
    )
    python, modules = python_in(Path("/"), ["/usr/bin/python3"])
    return Root(None, PREFIX + digest, programs_in(Path("/")), modules, python)


def _packages() -> list[str]:
    """``name architecture version`` of each installed package, sorted. Raises Unavailable."""
    found = set(_of_dpkg())
    if not found and any(file.exists() for file in RPM):
        found = set(_of_rpm())
    if not found:
        raise Unavailable(
            "this machine has no database of dpkg or rpm, so nothing says what is in its /usr; use a root of your "
            f"own: {UNPACK}"
        )
    return sorted(found)


def _of_dpkg() -> Iterator[str]:
    files = [DPKG]
    if DPKG_FOLDER.is_dir():  # an image without dpkg has a file for each package
        files += sorted(file for file in DPKG_FOLDER.iterdir() if file.suffix != ".md5sums")
    for file in files:
        try:
            text = durable.read_regular(file, max_bytes=limits.ROOT_DATABASE_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Unavailable(f"{file}: cannot be read ({error.strerror or error})") from None
        for stanza in text.split("\n\n"):
            fields = dict(_FIELD.findall(stanza))
            if "Package" in fields and fields.get("Status", "installed").split()[-1] not in _NOT_THERE:
                yield " ".join(fields.get(name, "") for name in ("Package", "Architecture", "Version"))


def _of_rpm() -> Iterator[str]:
    yield from _output(ASK_RPM, "rpm -qa").splitlines()


def _links(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    yield entry.name, str(Path(entry.path).readlink())
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unavailable(f"{folder}: cannot be read ({error.strerror})") from None


# ---- what a root has


def programs_in(root: Path) -> frozenset[str]:
    """The names of the executables on a run's PATH."""
    # With a merged /usr, /bin is a link to what was listed already.
    folders = [root / name for name in _PATH_FOLDERS if not (root / name).is_symlink()]
    return frozenset(entry.name for folder in folders for entry in _listed(folder) if _is_program(entry, root))


def _is_program(entry: os.DirEntry[str], root: Path) -> bool:
    # An absolute link in an unpacked tree leads elsewhere from here than in a run.
    if root != Path("/") and entry.is_symlink() and (target := Path(entry.path).readlink()).is_absolute():
        return os.access(root / target.relative_to("/"), os.X_OK)
    return entry.is_file() and bool(entry.stat().st_mode & 0o111)


def python_in(root: Path, words: Sequence[str]) -> tuple[str, frozenset[str]]:
    """Version and modules of a root's Python, which `words` start there; empty if there is none."""
    try:
        answer = _output([*words, "-I", "-S", "-c", _ASK_PYTHON], "python3")
    except Unavailable:
        return "", frozenset()
    version, builtin, folders = answer.splitlines()
    found = set(builtin.split())
    for folder in [*(root / name.lstrip("/") for name in folders.split()), *_module_folders(root)]:
        found |= {match[1] for entry in _listed(folder) if (match := _MODULE.fullmatch(entry.name))}
    return version, frozenset(found - {"__pycache__"})


def _module_folders(root: Path) -> list[Path]:
    return [folder for pattern in _PACKAGES for folder in sorted((root / "usr").glob(pattern))]


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _output(words: Sequence[str], shown: str) -> str:
    """What a program prints. Raises Unavailable."""
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            env=_ENVIRONMENT,
            cwd="/",
            stdin=subprocess.DEVNULL,
            timeout=limits.ROOT_ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{shown}: does not answer ({type(error).__name__})") from None
    return done.stdout.decode("utf-8", "replace")


# ---- an unpacked root


def describe(tree: Path, digest: str, python: Sequence[str]) -> bytes:
    """The bytes of `DESCRIPTION` for a tree with this digest (64 hex digits). `python` starts the tree's Python."""
    version, modules = python_in(tree, python)
    return canonical.canonical_bytes(
        {
            "type": TYPE,
            "digest": PREFIX + digest,
            "programs": sorted(programs_in(tree)),
            "modules": sorted(modules),
            "python": version,
            "times": _times(tree),
        }
    )


def refuse_writable(folder: Path) -> None:
    """Raises Unavailable if anybody but root and this account could change the folder, or put another in its place."""
    if not folder.is_absolute() or not folder.is_dir():
        raise Unavailable(f"runners.era.root: {folder} is not a folder (as an absolute path); {_MAKE}")
    if (real := folder.resolve()) != folder:
        raise Unavailable(f"runners.era.root: {folder} leads through a link; write {real}")
    tree = folder / TREE
    inside = {folder, folder / DESCRIPTION, tree, *_watched(tree)}
    for place in [*folder.parents, *sorted(inside)]:
        try:
            facts = place.lstat()
        except FileNotFoundError:
            continue  # what must be there is read below, and missed there
        # In a folder such as /tmp nobody moves what is another's, and the mode of a link says nothing.
        shared = place in folder.parents and facts.st_mode & stat.S_ISVTX
        open_to_others = facts.st_mode & 0o022 and not shared and not stat.S_ISLNK(facts.st_mode)
        if facts.st_uid not in (0, os.geteuid()) or open_to_others:
            raise Unavailable(
                f"runners.era.root: {place} can be changed by others ({stat.filemode(facts.st_mode)}, uid "
                f"{facts.st_uid}), so it would not say what runs; chown it to this account or root, and chmod go-w"
            )


_MAKE: Final = f"make one: {UNPACK}"


def _unpacked(folder: Path) -> Root:
    file = folder / DESCRIPTION
    try:
        found = canonical.loads_strict(
            durable.read_regular(file, max_bytes=limits.ROOT_DATABASE_BYTES), max_bytes=limits.ROOT_DATABASE_BYTES
        )
        if found["type"] != TYPE or not re.fullmatch(PREFIX + "[0-9a-f]{64}", found["digest"]):
            raise ValueError("of another kind")
        programs, modules = frozenset(map(str, found["programs"])), frozenset(map(str, found["modules"]))
        root = Root(folder / TREE, found["digest"], programs, modules, str(found["python"]))
        times = found["times"]
    except OSError as error:
        raise Unavailable(f"{file}: cannot be read ({error.strerror or error}); {_MAKE}") from None
    except (ValueError, KeyError, TypeError):
        raise Unavailable(f"{file}: does not describe a root of this version; {_MAKE}") from None
    if times != _times(folder / TREE):
        raise Unavailable(f"{folder / TREE}: changed since it was unpacked; unpack it again: {UNPACK}")
    return root


def _watched(tree: Path) -> list[Path]:
    return [tree, *(tree / name for name in ("usr", "etc", *_PATH_FOLDERS)), *_module_folders(tree)]


def _times(tree: Path) -> dict[str, str]:
    """When the folders that matter most were last changed, in nanoseconds: a whole digest takes seconds."""
    return {str(place.relative_to(tree)): str(place.stat().st_mtime_ns) for place in _watched(tree) if place.exists()}
