"""File systems of a few MiB, and what fills them up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MIB = 1 << 20


@contextmanager
def small_disk(folder: Path, kind: str = "tmpfs", *, mib: int = 64, names: int = 4_000) -> Iterator[Path]:
    """A file system with so many MiB and names, mounted at a folder: `tmpfs`, or `ext4` in a file beside the folder.
    Only root can make one.
    """
    folder.mkdir(exist_ok=True)
    if kind == "ext4":
        image = folder.with_name(f"{folder.name}.img")
        with image.open("wb") as stream:
            stream.truncate(mib * MIB)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-N", str(names), str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    else:
        options = f"size={mib}m,nr_inodes={names},mode=755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_bytes(folder: Path) -> Path:
    """Use up every last block; what was freed since, when it is called again."""
    path = folder / "filler"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (MIB, 4096, 1):
        try:
            while os.write(descriptor, b"x" * size):
                pass
        except OSError:
            continue
    os.close(descriptor)
    return path


def fill_names(folder: Path) -> Path:
    """Use up every last inode, with empty files in one folder; those that were freed since, when it is called again."""
    path = folder / "fillers"
    path.mkdir(exist_ok=True)
    number = len(os.listdir(path))
    while True:
        try:
            os.close(os.open(path / f"{number}", os.O_WRONLY | os.O_CREAT))
        except OSError:
            return path
        number += 1


FILL: dict[str, Callable[[Path], Path]] = {"bytes": fill_bytes, "names": fill_names}
