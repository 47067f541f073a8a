"""Verification of the whole trail: every file, every line, every checkpoint; streaming, in constant memory.

Invariant: nothing that the trail says about itself is believed before it was checked against its bytes; what
is wrong is named with its file and line, and all of it is counted. The key is the one of the first event unless
another is given.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, TrailError, Unavailable
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.trail.chain import (
    MARKING,
    Chain,
    ChainError,
    open_segment,
    read_lines,
    segment_path,
    segment_paths,
)
from threegate.trail.checkpoint import TrailCheckpoint
from threegate.trail.event import Event, LineError, parse_line
from threegate.trail.payloads import TreeAnnounced, WorkspaceAdopted, WorkspaceCreated
from threegate.trail.tree import Frontier
from threegate.trail.workspace_key import VerifierKey


@dataclass(frozen=True, slots=True)
class TrailProblem:
    """One thing that is wrong: in which file, on which line (0: the file as a whole)."""

    place: str
    line: int
    message: str

    def __str__(self) -> str:
        where = f"{self.place}:{self.line}" if self.line else self.place
        return f"{where}: {self.message}"


@dataclass(slots=True)
class Verification:
    """What verification found. `problems` is cut at limits.VERIFY_PROBLEMS, `problem_count` is not."""

    lines: int = 0
    seq: int = 0
    head: str = ""
    root: bytes = b""
    workspace_id: str = ""
    segments: int = 0
    checkpoints: int = 0
    last_time: str = ""
    problem_count: int = 0
    problems: list[TrailProblem] = field(default_factory=list)
    cosigned: list[tuple[str, int, str]] = field(default_factory=list)
    """Of each witness that was asked for and cosigned the newest checkpoint: name, size, time (UTC)."""
    notes: list[TrailProblem] = field(default_factory=list)
    """Remarks that are worth knowing but not problems; cut at limits.VERIFY_PROBLEMS."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem_count == 0

    def note(self, place: str | Path, message: str) -> None:
        """Note what is not a problem."""
        if len(self.notes) < limits.VERIFY_PROBLEMS:
            self.notes.append(TrailProblem(str(place), 0, message))

    def add(self, place: str | Path, line: int, message: str) -> None:
        """Note a problem."""
        self.problem_count += 1
        if len(self.problems) < limits.VERIFY_PROBLEMS:
            self.problems.append(TrailProblem(str(place), line, message))


def trail_checkpoint_folder(workspace: Workspace) -> Path:
    """The folder of the signed checkpoints: ``audit/checkpoints/<size>``."""
    return workspace.audit / "checkpoints"


@contextmanager
def standing_still(workspace: Workspace) -> Iterator[None]:
    """Keep everybody from changing a state meanwhile; a copy that cannot be locked is taken as it is."""
    try:
        lock = os.open(workspace.audit / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def verify_trail(
    workspace: Workspace,
    *,
    external: Iterable[tuple[str, bytes]] = (),
    key: VerifierKey | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Verification:
    """Check chain, form, segments, tree, checkpoints (ours and `external`: name and bytes) and the outside head.

    `on_event` sees each event that is in its place. Never raises for what is in the files; OSError only when
    the folder cannot be read at all.
    """
    run = _Run(workspace, key, on_event)
    run.load_checkpoints(external)
    try:
        paths = segment_paths(workspace.audit)
    except TrailError as error:
        run.result.add(workspace.audit, 0, str(error))
        return run.result
    for path in paths:
        run.read(path)
        if segment_path(workspace.audit, run.chain.seq) != path or run.chain.type != "rotated":
            run.result.add(path, 0, "the closed segment does not end with the event that closed it")
    run.read(workspace.trail_file)
    run.finish()
    return run.result


class _Run:
    """One pass over the trail."""

    def __init__(self, workspace: Workspace, key: VerifierKey | None, on_event: Callable[[Event], None] | None) -> None:
        self.workspace = workspace
        self.result = Verification()
        self.chain = Chain()
        self.frontier = Frontier()
        self._key = key
        self._given = key is not None
        self._on_event = on_event
        self._notes: list[tuple[int, str, TrailCheckpoint]] = []
        self._adopted_keys: list[VerifierKey] = []
        self._kept_seq = 0
        self._kept_hash = ""
        self._sound = True

    def load_checkpoints(self, external: Iterable[tuple[str, bytes]]) -> None:
        """Read all notes; they are checked when the tree has their size.

        Files of cosignatures (``<size>.<witness>``) are compared by their announced digest (`audit.folder_audit`).
        """
        notes = []
        folder = trail_checkpoint_folder(self.workspace)
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        sources: list[tuple[str, bytes | None]] = [(str(folder / name), None) for name in names if "." not in name]
        for name, data in [*sources, *external]:
            try:
                note = TrailCheckpoint.parse(
                    durable.read_regular(Path(name), max_bytes=limits.TRAIL_CHECKPOINT_BYTES) if data is None else data
                )
            except InvalidInput as error:
                self.result.add(name, 0, str(error))
            except OSError as error:
                self.result.add(name, 0, f"cannot be read ({error.strerror or error})")
            else:
                notes.append((note.size, name, note))
        self._notes = sorted(notes, key=lambda item: (-item[0], item[1]))

    def read(self, path: Path) -> None:
        """Check one file of the trail."""
        try:
            descriptor = open_segment(path)
        except FileNotFoundError:
            if self.chain.type != "rotated":
                self.result.add(path, 0, "the trail is missing")
            return
        except TrailError as error:
            self.result.add(path, 0, str(error))
            return
        self.result.segments += 1
        try:
            number = 0
            with standing_still(self.workspace):
                size = os.fstat(descriptor).st_size
            for number, raw in enumerate(read_lines(descriptor, 0, size), start=1):
                if raw.whole:
                    self._read_line(path, number, raw.data)
                else:
                    torn = LineError("has no end: it was cut off, or is being written")
                    self._bad(path, number, raw.data, torn)
            self.result.lines += number
        finally:
            os.close(descriptor)

    def _read_line(self, path: Path, number: int, line: bytes) -> None:
        """Check one line, and report everything that is wrong with it."""
        try:
            event = self.chain.take(line)
        except LineError as error:
            self._bad(path, number, line, error)
            return
        if event.seq == 1:
            self._begin(path, event)
        match event.payload if event.type in MARKING else None:
            case TreeAnnounced(size=size, root=root):
                # After a wrong line every later tree differs, and the first problem says enough.
                if self._sound and (size != self.frontier.size or root != self.frontier.root().hex()):
                    self.result.add(path, number, "announces a tree that is not the one before it")
            case WorkspaceAdopted(vkey=str(vkey)) if not self._given:
                self._adopted(path, number, vkey)
        self.frontier.add(line)
        if self._notes and self._notes[-1][0] <= self.frontier.size:
            self._check_notes()
        if event.seq == self._kept_seq and event.hash != self._kept_hash:
            self.result.add(path, number, "is another event than the head kept outside names")
        if self._on_event is not None:
            self._on_event(event)

    def _bad(self, path: Path, number: int, line: bytes, error: LineError) -> None:
        """Report a line that is out of place, and continue after it if it is an event."""
        self.result.add(path, number, f"the line {error}")
        self._sound = False
        if isinstance(error, ChainError):
            self.chain.follow(parse_line(line))
            self.frontier.add(line)

    def _begin(self, path: Path, event: Event) -> None:
        """The first event names the workspace and its key."""
        self.result.workspace_id = event.prev
        try:
            created = WorkspaceCreated.of(event)
            named = VerifierKey.parse((created and created.vkey) or "")
        except InvalidInput as error:
            self.result.add(path, 1, f"names no key: {error}")
            named = None
        if self._given and named != self._key:
            self.result.add(path, 1, "names another key than the one given: this is another trail")
        if not self._given:
            self._key = named
        try:
            kept = UserState.of(event.prev).read_head() or {}
        except Unavailable as error:
            self.result.add(path, 0, str(error))
            return
        if isinstance(kept.get("seq"), int):
            self._kept_seq, self._kept_hash = int(kept["seq"]), str(kept.get("hash"))

    def _adopted(self, path: Path, number: int, vkey: str) -> None:
        """An adoption on another machine brings its own key; it counts unless the auditor named one."""
        try:
            self._adopted_keys.append(VerifierKey.parse(vkey))
        except InvalidInput as error:
            self.result.add(path, number, f"names no key: {error}")

    def _verify_note(self, note: TrailCheckpoint) -> None:
        """Whether one of the keys signed it. Raises InvalidInput."""
        if self._key is None:
            raise InvalidInput("cannot be checked: no key is known")
        for key in self._adopted_keys:
            if any(item.key_id == key.key_id for item in note.signatures):
                note.verify(key)
                return
        note.verify(self._key)

    def _check_notes(self) -> None:
        while self._notes and self._notes[-1][0] <= self.frontier.size:
            size, name, note = self._notes.pop()
            self.result.checkpoints += 1
            try:
                self._verify_note(note)
            except InvalidInput as error:
                self.result.add(name, 0, str(error))
                continue
            if size == self.frontier.size and note.root != self.frontier.root():
                self.result.add(name, 0, f"signs another tree: something in the first {size} lines was changed since")

    def finish(self) -> None:
        """Checks that are possible only at the end."""
        chain, result = self.chain, self.result
        result.seq, result.head, result.root = chain.seq, chain.hash, self.frontier.root()
        result.last_time = chain.time
        if chain.seq == 0 and result.ok:
            result.add(self.workspace.trail_file, 0, "the trail is empty")
        for size, name, _ in self._notes:
            result.add(name, 0, f"signs {size} lines, the trail has {self.frontier.size}: its end was cut off")
        if self._kept_seq > chain.seq:
            result.add(
                self.workspace.trail_file,
                chain.seq,
                f"ends here; the head kept outside says that there were {self._kept_seq} events: the end was cut off",
            )
