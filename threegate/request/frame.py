"""Where the front matter and the body of a file are that has no well-formed front matter, as far as it can be known.

Invariant: this is only asked for a file that was refused, so nothing that is guessed here can become a request. It is
what lets one reading show the findings of a broken front matter and of the body below it, and what the fixes of the
fences start from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from threegate.core import limits
from threegate.core.strict_yaml import YamlNode
from threegate.request.backend import BACKENDS
from threegate.request.front_matter import nearest_key
from threegate.request.problem import Problem
from threegate.request.source import SourceRefused, read_mapping

_MARK = re.compile(r"[ \t]*(?:-{2,}|[\u2010-\u2015]+|\.{3}|\*{3,}|\+{3,}|_{3,})[ \t]*")
_WRAP = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*[A-Za-z]*[ \t]*")
_PLAIN_WRAP = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*")
_KEY_LINE = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9_ -]{0,40}?)[ \t]*:")
_TITLE = re.compile(r"#{1,6}[ \t]")


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts of a file as indexes of its lines, from 0; each end is the index behind it."""

    opening: int | None
    """The line that is the front matter's first fence, in whatever form; None where there is none."""
    first: int
    last: int
    """The front matter's lines, without fences."""
    closing: int | None
    body: int
    end: int
    """The body's lines."""
    around: tuple[int, ...]
    """The filled lines that belong to neither: words before and behind, and the two lines of a fence around it all."""


def find_frame(lines: Sequence[str]) -> Frame | None:
    """The parts of a file; None where no key of the front matter begins a line."""
    first = _first_key(lines)
    if first is None:
        return None
    heading = next((index for index in range(first + 1, len(lines)) if section_of(lines[index])), len(lines))
    above = [index for index in range(first) if lines[index].strip()]
    near = next((index for index in reversed(above) if not lines[index].startswith("#")), None)
    opening = near if near is not None and _is_like(lines[near], _MARK) else None
    wrap = next((index for index in reversed(above) if _is_like(lines[index], _WRAP)), None)
    keys = max(index for index in range(first, heading) if index == first or is_key_line(lines[index]))
    closing = next((index for index in range(keys, heading) if _is_like(lines[index], _MARK)), None)
    if opening is None and wrap is not None and closing is None:
        # A fence of code in the place of the front matter's own: its two lines are the marks.
        closing = next((index for index in range(keys, heading) if _is_like(lines[index], _PLAIN_WRAP)), None)
        if closing is not None:
            opening, wrap = wrap, None
    last, body = (closing, closing + 1) if closing is not None else (_without_title(lines, first, heading),) * 2
    end, behind = (len(lines), body) if wrap is None else _end_of_wrap(lines, body, wrap)
    if behind > body and end == len(lines):
        around, body = [*above, behind - 1], behind
    else:
        around = [*above, *(index for index in range(end, len(lines)) if lines[index].strip())]
    kept = range(first if opening is None else opening, first)
    return Frame(opening, first, last, closing, body, end, tuple(index for index in around if index not in kept))


def is_key_line(line: str) -> bool:
    """Whether a line begins with a key of the front matter, in whatever spelling."""
    match = _KEY_LINE.match(line)
    return match is not None and nearest_key(match[1]) is not None


def section_of(line: str) -> str | None:
    """The section that a heading names, in whatever form it is written; None where a line is not such a heading."""
    if len(line) > limits.FRAME_LINE_CHARS or line[:1] not in ("#", "*", "_", " "):
        return None
    plain = re.sub(r"^[ ]{0,3}(?:#{1,6}[ \t]*|\*\*|__)+(?:[0-9]{1,2}[.)][ \t]*)?", "", line)
    plain = plain.rstrip(" \t#:*_")
    if plain == line.rstrip(" \t#:*_"):
        return None
    return next((name for name in section_names() if name.casefold() == plain.casefold()), None)


def section_names() -> dict[str, None]:
    """The names of the sections of all backends."""
    return dict.fromkeys(name for backend in BACKENDS.values() for name in backend.sections)


def read_entries(lines: Sequence[str], frame: Frame) -> tuple[YamlNode, dict[str, Problem]]:
    """The entries of a front matter, each read by itself: those that can be read, as one mapping, and what is wrong
    with each of the others, by its key."""
    root = YamlNode({}, "", frame.first + 1, 1)
    wrong: dict[str, Problem] = {}
    for start, entry in _entries(lines, frame):
        try:
            read = read_mapping("\n".join(entry), first_line=start + 1)
        except SourceRefused as error:
            for line in entry:
                match = _KEY_LINE.match(line)
                wrong.setdefault((nearest_key(match[1]) if match else None) or entry[0], error.problem)
        else:
            for name, (key, value) in read.value.items():
                if name in root.value:
                    message = f"this key occurs twice; the first is on line {root.value[name][0].line}"
                    wrong.setdefault(f"{name}:{key.line}", Problem("TG114", key.line, key.column, message))
                root.value.setdefault(name, (key, value))
    return root, wrong


def _entries(lines: Sequence[str], frame: Frame) -> Iterator[tuple[int, list[str]]]:
    """Index and lines of each entry: a line at column 1, and what is below it."""
    start, entry = frame.first, list[str]()
    for index in range(frame.first, frame.last):
        line = lines[index]
        if entry and line and line[0] not in " \t#-":
            yield start, entry
            start, entry = index, []
        entry.append(line)
    yield start, entry


def _first_key(lines: Sequence[str]) -> int | None:
    """The line that the front matter begins with: a known key below something like a fence, otherwise the first of two
    known keys below each other."""
    known = [index for index, line in enumerate(lines) if is_key_line(line)]
    keys = set(known)
    filled = [index for index, line in enumerate(lines) if line.strip()]
    before = dict(zip(filled[1:], filled, strict=False))
    marked = (index for index in known if index in before and _is_like(lines[before[index]], _MARK))
    paired = (index for index in known if index + 1 in keys)
    return next(marked, None) or next(paired, None)


def _is_like(line: str, form: re.Pattern[str]) -> bool:
    return len(line) <= limits.FRAME_LINE_CHARS and form.fullmatch(line) is not None


def _without_title(lines: Sequence[str], first: int, heading: int) -> int:
    """Index behind the last line above the first section that belongs to the front matter."""
    end = heading
    while end > first + 1 and (not lines[end - 1].strip() or _TITLE.match(lines[end - 1])):
        end -= 1
    return end


def _end_of_wrap(lines: Sequence[str], body: int, wrap: int) -> tuple[int, int]:
    """Where the body ends if a fence opens above the front matter, and where it begins: behind the fence's last line if
    only the front matter is in it, otherwise before the line that would open a block which nothing closes."""
    mark = lines[wrap].strip()[0]
    first = next((index for index in range(body, len(lines)) if lines[index].strip()), len(lines))
    opened: int | None = None
    for index in range(first, len(lines)):
        if lines[index].strip()[:1] != mark or not _is_like(lines[index], _WRAP):
            continue
        plain = _is_like(lines[index], _PLAIN_WRAP)
        if index == first and plain:
            return len(lines), first + 1
        if opened is None:
            opened = index
        elif plain:
            opened = None
    if opened is None or not _is_like(lines[opened], _PLAIN_WRAP):
        return len(lines), body
    return opened, body
