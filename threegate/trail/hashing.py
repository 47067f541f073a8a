"""The hashes of whole blocks of lines: here, or in a second process beside who reads what the lines say.

Invariant: what is hashed are the very bytes that the caller parses (they are sent, not read a second time), and a
second process that is missing, dies or answers nonsense changes nothing but the time: the block is hashed here.
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

from threegate.core import limits
from threegate.trail.event import HASH_MARK, HASH_PART
from threegate.trail.tree import LEAF_PREFIX

_LENGTH = struct.Struct(">Q")
_WAITING: Final = 4
"""Blocks between the two processes: that many megabytes at most."""
_PROGRAM = "from threegate.trail.hashing import serve; serve()"


class Hashed(NamedTuple):
    """What the hashes of a block say: how many lines from its first on have the hash that they name, and the leaves."""

    good: int
    leaves: bytes
    """RFC 6962 leaf hashes of those lines, 32 bytes each."""


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


def hashed_blocks(blocks: Iterable[bytes], size: int) -> Iterator[tuple[bytes, Hashed]]:
    """Each block with its hashes, in order; `size` bytes are to come: many are hashed in a second process."""
    worker = _start() if size >= limits.TRAIL_SECOND_PROCESS_BYTES else None
    if worker is None:
        for block in blocks:
            yield block, hash_block(block)
        return
    yield from _beside(worker, blocks)


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


def _beside(worker: subprocess.Popen[bytes], blocks: Iterable[bytes]) -> Iterator[tuple[bytes, Hashed]]:
    """Send blocks ahead from a thread, and give each one out with its answer."""
    assert worker.stdin is not None and worker.stdout is not None
    sent: queue.Queue[bytes | BaseException | None] = queue.Queue(_WAITING)
    stop = threading.Event()
    sender = threading.Thread(target=_send, args=(worker.stdin, blocks, sent, stop), daemon=True)
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
    sent: queue.Queue[bytes | BaseException | None],
    stop: threading.Event,
) -> None:
    """Read and send until the end; a reader's error is handed on, a lost process is not one."""
    alive = True
    try:
        for block in blocks:
            if stop.is_set():
                break
            sent.put(block)
            if alive:
                try:
                    pipe.write(_LENGTH.pack(len(block)))
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
        head = pipe.read(_LENGTH.size)
        good = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else len(block)
        if good >= len(block):
            return None
        leaves = pipe.read(good * 32)
    except (OSError, ValueError):
        return None
    return Hashed(good, leaves) if len(leaves) == good * 32 else None


def serve() -> None:
    """The second process: blocks come on standard input, each with its length; hashes go out."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(_LENGTH.size)) == _LENGTH.size:
        block = source.read(_LENGTH.unpack(head)[0])
        good, leaves = hash_block(block)
        target.write(_LENGTH.pack(good) + leaves)
        target.flush()
