"""What a stopped process had done and not yet put on disk: noted through the seam, and taken away afterwards."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

from tests.crash.place import KILLED
from threegate.core.durable import is_temporary


class Journal:
    """Notes what was done and what is not yet on disk; ends the process, or raises, at operation `stop`.

    The lanes of a daemon call it at the same time: what belongs to one operation is kept by thread, or a rename of one
    lane would be taken back to where the file of another one was.
    """

    def __init__(self, folder: Path, stop: int, fault: int | None = None) -> None:
        self.folder, self.stop, self.fault = folder, stop, fault
        self.count = 0
        self.counting = threading.Lock()
        self.mine = threading.local()
        self.file = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __call__(self, moment: str, operation: str, path: str) -> None:
        if moment == "from":
            self.mine.source = path
            return
        if self.fault is not None and moment == "after":
            return
        with self.counting:
            self.count += 1
            number = self.count
        if moment == "before":
            self.before(operation, path, number)
        else:
            self.after(operation, path)
        if number == self.stop:
            self.halt(moment, operation, path)

    def halt(self, moment: str, operation: str, path: str) -> None:
        self.note({"op": "stopped", "moment": moment, "at": f"{operation} {Path(path).name}"})
        if self.fault is None:
            os._exit(KILLED)
        raise OSError(self.fault, os.strerror(self.fault), path)

    def before(self, operation: str, path: str, number: int) -> None:
        if operation == "write":
            self.note({"op": "dirty", "path": path, "size": size_of(path)})
        elif operation in ("replace", "unlink"):
            kept = None
            if os.path.isfile(path):
                kept = str(self.folder / f"kept-{number}")
                shutil.copy2(path, kept)
            self.note({"op": f"kept-{operation}", "path": path, "kept": kept})

    def after(self, operation: str, path: str) -> None:
        entry: dict[str, object] = {"op": operation, "path": path}
        if operation in ("rename", "exchange", "replace"):
            entry["source"] = self.mine.source
        elif operation == "sync":
            entry["size"] = size_of(path)
        self.note(entry)

    def note(self, entry: dict[str, object]) -> None:
        os.write(self.file, json.dumps(entry).encode() + b"\n")


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def read_journal(folder: Path) -> list[dict]:
    try:
        return [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    except FileNotFoundError:
        return []


def lose(folder: Path, *, torn: bool) -> bool:
    """Take away what was not synced, as a power cut may; `torn`: half of the unsynced bytes survive. False: nothing
    was.
    """
    pending: list[tuple[str, str, str | None]] = []
    dirty: dict[str, int] = {}
    kept: dict[str, str | None] = {}
    for entry in read_journal(folder):
        operation, path = entry["op"], entry.get("path", "")
        if operation == "dirty":
            dirty.setdefault(path, entry["size"])
        elif operation == "sync":
            dirty.pop(path, None)
        elif operation == "sync_all":
            dirty.clear()
            pending.clear()
        elif operation == "create":
            pending.append(("create", path, None))
        elif operation == "rename":
            pending.append(("rename", path, entry["source"]))
            if entry["source"] in dirty:
                dirty[path] = dirty.pop(entry["source"])
        elif operation == "exchange":
            pending.append(("exchange", path, entry["source"]))
        elif operation in ("kept-replace", "kept-unlink"):
            kept[path] = entry["kept"]
        elif operation in ("replace", "unlink"):
            pending.append((operation, path, kept.get(path)))
            if operation == "replace" and not is_temporary(Path(entry["source"]).name):
                pending.append(("rename", path, entry["source"]))  # taken back first: then the old file comes back
        elif operation == "sync_folder":
            pending = [item for item in pending if os.path.dirname(item[1]) != path]
    did = False
    for path, size in dirty.items():
        now = size_of(path)
        if now > size:
            os.chmod(path, 0o600)  # an output is read-only, and not everybody is root
            os.truncate(path, size + (now - size) // 2 if torn else size)
            did = True
    if torn:
        return did
    for operation, path, other in reversed(pending):
        did = True
        if operation == "create" and os.path.exists(path):
            os.unlink(path)
        elif operation == "rename" and os.path.exists(path) and not os.path.exists(str(other)):
            os.rename(path, str(other))
        elif operation == "exchange" and os.path.exists(path) and os.path.exists(str(other)):
            os.rename(path, path + ".swap")
            os.rename(str(other), path)
            os.rename(path + ".swap", str(other))
        elif operation in ("replace", "unlink"):
            if other is not None:
                os.makedirs(os.path.dirname(path), exist_ok=True)  # that it was removed afterwards is lost, too
                shutil.copy2(other, path)
            elif os.path.exists(path):
                os.unlink(path)
    return did
