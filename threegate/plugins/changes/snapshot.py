"""The project as one tar that says nothing but names, kinds and bytes, so that the same project is the same tar.

Invariant: sorted, no times, no owners, modes 0644, 0755 for what is executable and for folders; no protected
file, no link, no file with several names. `.git` comes along only for the git lanes, and then only what reading needs:
no hooks, no configuration that names a program, no pointer outside.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections import Counter
from dataclasses import dataclass
from typing import Final

from threegate.core import limits
from threegate.plugins.changes.project import Project, ProjectEntry, ProjectError, read_at
from threegate.plugins.changes.project_paths import folded

_LARGEST_NAMED: Final = 5
_GIT_FILES: Final = frozenset({"HEAD", "index", "packed-refs", "shallow"})
_GIT_FOLDERS: Final = frozenset({"refs", "objects"})
_GIT_LEFT_OUT: Final = frozenset({"alternates", "http-alternates"})
_CONFIG_LINE: Final = re.compile(r"\s*(\w+)\s*=\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The bytes of project.tar, and the paths that were left out, with the reason."""

    data: bytes
    withheld: tuple[tuple[str, str], ...]


def take_snapshot(project: Project, *, with_git: bool) -> Snapshot:
    """Read the whole project into a deterministic tar. Raises ProjectError: too large, or no repository."""
    withheld: list[tuple[str, str]] = []
    sizes: Counter[str] = Counter()
    buffer = io.BytesIO()
    count = 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry, folder in project.walk():
            reason = _reason_to_leave_out(entry)
            if reason is not None:
                if entry.parts != (".git",):
                    withheld.append((entry.path.encode("utf-8", "replace").decode(), reason))
                continue
            count += 1
            _add(archive, entry, folder, sizes, count)
        if with_git:
            _add_git(archive, project, sizes, count)
    return Snapshot(buffer.getvalue(), tuple(withheld))


def _reason_to_leave_out(entry: ProjectEntry) -> str | None:
    if entry.protected:
        return "protected"
    if entry.kind not in ("file", "folder"):
        return entry.kind
    return None


def _add(archive: tarfile.TarFile, entry: ProjectEntry, folder: int, sizes: Counter[str], count: int) -> None:
    """Add one file or folder from the descriptor of its folder."""
    if count > limits.SNAPSHOT_ENTRIES:
        raise ProjectError(f"the project has more than {limits.SNAPSHOT_ENTRIES} names; most are in {_largest(sizes)}")
    info = tarfile.TarInfo(entry.path)
    if entry.kind == "folder":
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(info)
        return
    sizes[entry.parts[0]] += entry.size
    if sizes.total() > limits.SNAPSHOT_BYTES:
        raise ProjectError(
            f"the project is larger than {limits.SNAPSHOT_BYTES // limits.MIB} MiB; the largest are {_largest(sizes)}"
        )
    try:
        data = read_at(folder, entry.parts[-1], max_bytes=limits.SNAPSHOT_BYTES)
        executable = os.stat(entry.parts[-1], dir_fd=folder, follow_symlinks=False).st_mode & 0o100
    except OSError as error:
        raise ProjectError(f"a file changed or cannot be read ({error.strerror or error})") from None
    info.size, info.mode = len(data), 0o755 if executable else 0o644
    archive.addfile(info, io.BytesIO(data))


def _largest(sizes: Counter[str]) -> str:
    named = [f"{name[:60]} ({size // limits.MIB} MiB)" for name, size in sizes.most_common(_LARGEST_NAMED)]
    return ", ".join(named) or "its top folder"


def _add_git(archive: tarfile.TarFile, project: Project, sizes: Counter[str], count: int) -> None:
    """Add what reading a repository needs, and a configuration of our own."""
    with project.folder(()) as top:
        if ".git" not in os.listdir(top):
            raise ProjectError("the project is not a git repository of its own; git proposals need one")
    _add(archive, ProjectEntry((".git",), "folder", 0, False), -1, sizes, count + 1)
    for number, (entry, folder) in enumerate(project.walk((".git",), into_protected=True), start=count + 2):
        inner = entry.parts[1:]
        if inner[0] not in _GIT_FILES | _GIT_FOLDERS or inner[-1] in _GIT_LEFT_OUT:
            continue
        if entry.kind == "linked file":
            raise ProjectError("the repository shares files with another (git clone --local); run: git repack -ad")
        if entry.kind not in ("file", "folder"):
            raise ProjectError("the repository has links in it; git proposals need a plain one")
        _add(archive, entry, folder, sizes, number)
    config = git_config(project)
    info = tarfile.TarInfo(".git/config")
    info.size, info.mode = len(config), 0o644
    archive.addfile(info, io.BytesIO(config))


def git_config(project: Project, parts: tuple[str, ...] = (".git",)) -> bytes:
    """A configuration with nothing but the format of the repository in a folder of the project. Raises ProjectError
    for formats that git must be configured for.
    """
    with project.folder(parts) as folder:
        try:
            text = read_at(folder, "config", max_bytes=limits.MIB).decode("utf-8", "replace")
        except OSError as error:
            raise ProjectError(f"the repository's config cannot be read ({error.strerror or error})") from None
    kept = {"repositoryformatversion": "0"}
    extensions = []
    section = ""
    for line in text.splitlines():
        if line.strip().startswith("["):
            section = folded(line.strip().strip("[]"))
        elif match := _CONFIG_LINE.fullmatch(line):
            key, value = match[1].lower(), match[2].lower()
            if section == "core" and key == "repositoryformatversion" and value in ("0", "1"):
                kept[key] = value
            if section == "extensions" and key == "objectformat" and value in ("sha1", "sha256"):
                extensions.append(f"\tobjectformat = {value}\n")
            if section == "extensions" and key == "refstorage" and value != "files":
                raise ProjectError("the repository keeps its refs in a form that is not supported (reftable)")
    lines = ["[core]\n"]
    lines += [f"\t{key} = {value}\n" for key, value in kept.items()]
    lines += ["\tfilemode = false\n", "\tbare = false\n"]
    if extensions:
        lines += ["[extensions]\n", *extensions]
    return "".join(lines).encode()
