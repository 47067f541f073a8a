"""The change of a file as a patch for programs, the output of `file.diff`; screens show a `TextChange`.

Invariant: `git apply` takes the patch, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from threegate.core.file_diff import CONTEXT, Piece
from threegate.review.line_diff import differing


def unified_patch(before: bytes, after: bytes, path: str) -> bytes:
    """A unified diff that `git apply` takes, byte for byte; of what git would call binary only that it differs."""
    # git's own rule for what is binary.
    if b"\0" in before or b"\0" in after:
        return f"Binary files a/{path} and b/{path} differ\n".encode()
    lines = list(_unified(_ended(before), _ended(after)))
    head = [f"--- a/{path}", f"+++ b/{path}"] if lines else []
    return "".join(f"{line}\n" for line in (*head, *lines)).encode("utf-8", "surrogateescape")


def _ended(data: bytes) -> list[str]:
    """Lines with git's mark where the last one does not end."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _unified(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """A unified diff without the two lines that name the files. Each line of a text has its mark before it."""
    pieces = differing(old, new)
    first = 0
    for last, piece in enumerate(pieces):
        if last + 1 == len(pieces) or pieces[last + 1].old_start - piece.old_end > 2 * CONTEXT:
            yield from _hunk(old, new, pieces[first : last + 1])
            first = last + 1


def _hunk(old: Sequence[str], new: Sequence[str], pieces: Sequence[Piece]) -> Iterator[str]:
    lead = min(CONTEXT, pieces[0].old_start)
    tail = min(CONTEXT, len(old) - pieces[-1].old_end)
    at, end = pieces[0].old_start - lead, pieces[-1].old_end + tail
    yield f"@@ -{_range(at, end)} +{_range(pieces[0].new_start - lead, pieces[-1].new_end + tail)} @@"
    for piece in pieces:
        yield from (f" {line}" for line in old[at : piece.old_start])
        yield from (f"-{line}" for line in old[piece.old_start : piece.old_end])
        yield from (f"+{line}" for line in new[piece.new_start : piece.new_end])
        at = piece.old_end
    yield from (f" {line}" for line in old[at:end])


def _range(start: int, end: int) -> str:
    """Lines from `start` (the first is 0) to before `end`, as the head of a hunk writes them."""
    return f"{end}" if end - start == 1 else f"{start + (end > start)},{end - start}"
