"""Every change of state: the event first, synced, then the rename or the delivery, under the trail's lock.

Invariant: no file appears in a state folder, in `results/` or in `runs/` through this module before the event
that announces it is on disk; nothing is ever replaced. A taken name gets ``.2``, ``.3`` … before its suffix.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from threegate.core import durable
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Unavailable
from threegate.core.file_names import request_of_companion
from threegate.core.workspace import STATES, Workspace
from threegate.trail.event import Event, trail_text
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Payload, Placed
from threegate.trail.trail import LockedTrail

NUMBERS = 10_000
"""How many files of one name a folder takes."""


def announce(held: LockedTrail, payload: Payload, *, request_id: str | None = None, actor: str) -> Event:
    """Append one event and sync it. Raises TrailError (the process must stop), Unavailable (no space)."""
    event = held.append(payload, request_id=request_id, actor=actor)
    held.sync()
    return event


def move(
    held: LockedTrail,
    source: Path,
    target: Path,
    payload: Placed,
    *,
    request_id: str | None,
    actor: str,
    then: Sequence[Payload] = (),
    signatures: Collection[str] | None = None,
    settled: bool = True,
) -> Path:
    """Announce, then rename `source` to `target` without replacing, its signatures after it, both folders synced.

    `signatures` as in `relocate`. `then` are events of the same request that the same sync puts on disk, behind the one
    that announces the move. With `settled` false the folders are left to be synced by `settle`, when the lock is given
    back and before anything is done that hangs on the new place.

    The payload gets `state` (the target's folder) and `file` (its name). Returns where the file now is: `target`, or a
    numbered name when that was taken. Raises TrailError, Unavailable, OSError (FileNotFoundError before anything
    is announced).
    """
    os.lstat(source)
    target = free_name(target)
    placed = replace(payload, state=target.parent.name, file=target.name)
    for event in (placed, *then):
        held.append(event, request_id=request_id, actor=actor)
    held.sync()
    relocate(source, target, signatures=signatures, settled=settled)
    return target


def relocate(source: Path, target: Path, *, signatures: Collection[str] | None = None, settled: bool = True) -> None:
    """The rename that an event announced: the file, then its signatures, then both folders synced. Raises OSError.

    For recovery, which finds the event and not yet the rename; everybody else uses `move`. `settled` as there.
    `signatures`: what follows the file's name in the names of its signatures, for a caller that knows all that there
    can be; one that is not there is passed over. Without it the folder is listed, which takes long in a long queue.
    """
    # The request first: a signature without its request is moved after it by recovery, and never the other way round.
    if source != target:
        durable.rename(source, target)
    if signatures is None:
        signatures = [signature.name.removeprefix(source.name) for signature in companions(source)]
    for suffix in sorted(signatures):
        with suppress(FileNotFoundError):
            durable.rename(source.with_name(source.name + suffix), target.with_name(target.name + suffix))
    if settled:
        settle(source, target)


def settle(source: Path, target: Path) -> None:
    """Make a rename durable: the folder where the file now is, then the one where it was. Raises OSError."""
    durable.sync_folder(target.parent)
    if source.parent != target.parent:
        durable.sync_folder(source.parent)


def deliver(
    held: LockedTrail,
    files: Sequence[tuple[Path, bytes, int]],
    payload: Placed,
    *,
    request_id: str | None,
    actor: str,
    prepare: Callable[[], None] | None = None,
) -> tuple[Path, ...]:
    """Announce, then make each file (path, bytes, mode) appear whole and durable, in order.

    The bytes are on disk before that, under temporary names: a full disk refuses the whole of it, and after the event
    only the renames are left.

    The payload gets `state` and `file` of the last one, which is the one that is state, and `files`, the digest of
    each. All get the same number when one of the names is taken. `prepare` brings what the event names besides; it is
    called before the first file. Returns the paths. Raises TrailError, Unavailable, OSError.
    """
    if not files:
        raise ValueError("nothing to deliver")
    number = _free_number([path for path, _, _ in files])
    placed = [(numbered(path, number), content, mode) for path, content, mode in files]
    last = placed[-1][0]
    digests = digests_beside(last.name, {path.name: content for path, content, _ in placed})
    named = replace(payload, state=last.parent.name, file=last.name, files=digests)
    with ExitStack() as temporary:
        written = []
        for path, content, mode in placed:
            written.append(durable.write_new(path, content, mode))
            temporary.callback(written[-1].unlink, missing_ok=True)
        announce(held, named, request_id=request_id, actor=actor)
        if prepare is not None:
            prepare()
        for source, (path, _, _) in zip(written, placed, strict=True):
            durable.rename(source, path)
            durable.sync_folder(path.parent)
    return tuple(path for path, _, _ in placed)


def change_file(
    held: LockedTrail, path: Path, data: bytes, payload: Payload, *, request_id: str | None = None, actor: str
) -> None:
    """Put a file's next bytes on disk next to it, record them in the trail, and replace the file. The payload
    names their digest.

    After a crash at any point there is the old file, or what `settle_changes` needs to make the new one.
    Raises TrailError, Unavailable, OSError.
    """
    staged = durable.staged(path)
    durable.deliver(staged, data)
    announce(held, payload, request_id=request_id, actor=actor)
    durable.replace(staged, path)
    durable.sync_folder(path.parent)


def remove_file(held: LockedTrail, path: Path, payload: Payload, *, actor: str) -> None:
    """The same for a file that goes, if it is there: it is out of its place before the event, and gone after it."""
    staged = durable.staged(path)
    with suppress(FileNotFoundError):
        durable.rename(path, staged)
        durable.sync_folder(path.parent)
    announce(held, payload, actor=actor)
    with suppress(FileNotFoundError):
        durable.unlink(staged)
        durable.sync_folder(path.parent)


def settle_changes(folder: Path, announced: Mapping[str, str], *, max_bytes: int) -> None:
    """End what a crash or a full disk cut off of `change_file` and `remove_file` in a folder: all of it, or nothing.

    `announced` has the digest of each file that is to be there, by its name; `max_bytes` is the most that one has. Call
    it under the trail's lock, whose index says it. Raises OSError.
    """
    for path in sorted(folder.glob(f"*{durable.STAGED}")):
        target = path.with_suffix("")
        if sha256_hex(durable.read_regular(path, max_bytes=max_bytes)) == announced.get(target.name):
            durable.replace(path, target)
        else:
            durable.unlink(path)
        durable.sync_folder(folder)


def digests_beside(name: str, files: Mapping[str, bytes]) -> dict[str, str]:
    """What an event names in `files`: the digest of the file `name` as "", and of each beside it by what follows its
    name.
    """
    return {other.removeprefix(name): sha256_hex(data) for other, data in files.items()}


def numbered(path: Path, number: int) -> Path:
    """``TR-a.md`` and 2 give ``TR-a.2.md``; ``TR-a.md.sig`` gives ``TR-a.2.md.sig``; 1 gives the path itself."""
    if number == 1:
        return path
    stem, mark, rest = path.name.partition(".md")
    if not mark:
        stem, rest = path.stem, path.suffix
    return path.with_name(f"{stem}.{number}{mark}{rest}")


def told_name(name: str) -> str:
    """A file's name, if the trail can hold it as it is; else (too long, unprintable, a secret in it) one made of its
    digest.
    """
    if trail_text(name) == name:
        return name
    return f"name-{sha256_hex(name.encode('utf-8', 'surrogateescape'))}.md"


def free_name(path: Path) -> Path:
    """`path` with its `told_name`, or the first numbered name that is not taken. Raises Unavailable after thousands."""
    path = path.with_name(told_name(path.name))
    return numbered(path, _free_number([path]))


def _free_number(paths: Sequence[Path]) -> int:
    """The first number with which none of the names is taken. Raises Unavailable after thousands."""
    for number in range(1, NUMBERS):
        if not any(os.path.lexists(numbered(path, number)) for path in paths):
            return number
    raise Unavailable(f"{paths[-1]}: there are already {NUMBERS} files with this name; clean up the folder")


def companions(request: Path) -> list[Path]:
    """The signatures next to a request file: ``NAME.sig`` and ``NAME.sig.<operator>``, sorted."""
    try:
        names = os.listdir(request.parent)
    except FileNotFoundError:
        return []
    own = request.name
    # In a long queue few names are worth the grammar.
    beside = sorted(name for name in names if name.startswith(own))
    found = ((name, request_of_companion(name)) for name in beside)
    return [request.with_name(name) for name, of in found if of is not None and of[0] == own]


def find_file(workspace: Workspace, history: RequestHistory) -> Path | None:
    """Where a request's file is now: at the place that its last move was announced to, else where that move began.

    Places and not names: another request's file may have the same name in another folder.
    """
    for event in (history.end, history.claimed, history.approved):
        placed = Placed.of(event)
        if placed is None or placed.state not in STATES or placed.file is None:
            continue
        path = workspace.state_folder(placed.state) / placed.file
        # A link was put there by somebody else; nothing here makes one.
        if path.is_file() and not path.is_symlink():
            return path
    return None
