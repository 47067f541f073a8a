"""The hashes of whole blocks of lines: here, or in a second process beside who reads what the lines say.

Invariant: what is hashed are the very bytes that the caller parses (they are sent, not read a second time), and a
second process that is missing, dies or answers nonsense changes nothing but the time: the block is hashed here.
Of every other block the second process also checks that its lines follow each other, by the same code as the first.
"""

from __future__ import annotations

import hashlib
import os
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, Final, NamedTuple

from threegate import limits
from threegate.audit.chain import MARKING, Chain
from threegate.audit.event import HASH_MARK, HASH_PART, LineError, parse_line
from threegate.audit.tree import LEAF_PREFIX

_ASKED = struct.Struct(">Q?")
"""The length of a block, and whether its lines are to be linked."""
_ANSWER = struct.Struct(">QQ")
"""How many lines are good, and how many runs of linked ones follow."""
_RUN = struct.Struct(">QQ")
_WAITING: Final = 4
"""Blocks between the two processes: that many megabytes at most."""
_PROGRAM = "from threegate.audit.hashing import serve; serve()"


class Hashed(NamedTuple):
    """What the hashes of a block say: how many lines from its first on have the hash that they name, and the leaves."""

    good: int
    leaves: bytes
    """RFC 6962 leaf hashes of those lines, 32 bytes each."""
    runs: tuple[tuple[int, int], ...] = ()
    """Stretches (first, end) of plain events of which each but the first was checked to be the next one of the one before."""

    def linked(self, at: int, until: int) -> int:
        """Behind the last line up to `until` that is linked to line `at`; `at` when nobody linked any to it."""
        for first, end in self.runs:
            if first <= at < end:
                return min(end, until)
        return at


def hash_block(block: bytes) -> Hashed:
    """Hash each whole line of a block up to the first one that does not have the hash that it names."""
    sha256 = hashlib.sha256
    leaves: list[bytes] = []
    keep = leaves.append
    lines = block.split(b"\n")
    lines.pop()
    for line in lines:
        at = line.rfind(HASH_MARK)
        end = at + HASH_PART
        if at < 0 or sha256(line[:at] + line[end:]).hexdigest().encode() != line[end - 65 : end - 1]:
            break
        keep(sha256(LEAF_PREFIX + line).digest())
    return Hashed(len(leaves), b"".join(leaves))


def link_block(block: bytes) -> Hashed:
    """`hash_block`, and which of its good lines are plain events that follow each other."""
    hashed = hash_block(block)
    lines = block.split(b"\n")
    if not block.isascii() or max(map(len, lines)) > limits.TRAIL_LINE_BYTES:
        return hashed
    runs, at = [], 0
    while at < hashed.good:
        chain = Chain()
        with suppress(LineError):
            chain.follow(parse_line(lines[at]))
        end = (
            chain.take_plain(lines, at + 1, hashed.good, None) if chain.type not in ("", *MARKING) else at + 1
        )
        if end > at + 1:
            runs.append((at, end))
        at = end
    return hashed._replace(runs=tuple(runs))


def hashed_blocks(
    blocks: Iterable[bytes], size: int, *, linked: bool = False
) -> Iterator[tuple[bytes, Hashed]]:
    """Each block with its hashes, in order; `size` bytes are to come: many are hashed in a second process.

    With `linked` that process also says which lines of every other block follow each other.
    """
    worker = _start() if size >= limits.TRAIL_SECOND_PROCESS_BYTES else None
    if worker is None:
        for block in blocks:
            yield block, hash_block(block)
        return
    yield from _beside(worker, blocks, linked)


def _start() -> subprocess.Popen[bytes] | None:
    """The second process, where there is a second processor and a process can be had."""
    if len(os.sched_getaffinity(0)) < 2:
        return None
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def _beside(
    worker: subprocess.Popen[bytes], blocks: Iterable[bytes], linked: bool
) -> Iterator[tuple[bytes, Hashed]]:
    """Send blocks ahead from a thread, and give each one out with its answer."""
    assert worker.stdin is not None and worker.stdout is not None
    sent: queue.Queue[bytes | BaseException | None] = queue.Queue(_WAITING)
    stop = threading.Event()
    sender = threading.Thread(target=_send, args=(worker.stdin, blocks, linked, sent, stop), daemon=True)
    sender.start()
    believed = True
    try:
        while (block := sent.get()) is not None:
            if isinstance(block, BaseException):
                raise block
            hashed = _answer(worker.stdout, block) if believed else None
            believed = hashed is not None
            yield block, hashed or hash_block(block)
    finally:
        stop.set()
        worker.kill()
        while sender.is_alive():
            while not sent.empty():
                sent.get()
            sender.join(0.01)
        worker.stdout.close()
        worker.wait()


def _send(
    pipe: IO[bytes],
    blocks: Iterable[bytes],
    linked: bool,
    sent: queue.Queue[bytes | BaseException | None],
    stop: threading.Event,
) -> None:
    """Read and send until the end; a reader's error is handed on, a lost process is not one."""
    alive = True
    try:
        for number, block in enumerate(blocks):
            if stop.is_set():
                break
            sent.put(block)
            if alive:
                try:
                    pipe.write(_ASKED.pack(len(block), linked and number % 2 == 1))
                    pipe.write(block)
                    pipe.flush()
                except OSError:
                    alive = False
                    _close(pipe)
        sent.put(None)
    except OSError as error:
        sent.put(error)
    finally:
        _close(pipe)


def _close(pipe: IO[bytes]) -> None:
    with suppress(OSError):
        pipe.close()


def _answer(pipe: IO[bytes], block: bytes) -> Hashed | None:
    """The second process's answer to a block, or None when it has none."""
    try:
        good, count = _ANSWER.unpack(pipe.read(_ANSWER.size))
        if good >= len(block) or count > good:
            return None
        runs = tuple(_RUN.iter_unpack(pipe.read(count * _RUN.size)))
        leaves = pipe.read(good * 32)
    except (OSError, ValueError, struct.error):
        return None
    places = [0, *(place for run in runs for place in run), good]
    formed = len(leaves) == good * 32 and len(runs) == count and places == sorted(places)
    return Hashed(good, leaves, runs) if formed else None


def serve() -> None:
    """The second process: blocks come on standard input, each with its length; hashes go out."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(_ASKED.size)) == _ASKED.size:
        length, linked = _ASKED.unpack(head)
        block = source.read(length)
        good, leaves, runs = link_block(block) if linked else hash_block(block)
        told = [_ANSWER.pack(good, len(runs)), *(_RUN.pack(*run) for run in runs), leaves]
        target.write(b"".join(told))
        target.flush()
