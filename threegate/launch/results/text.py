"""Text of a run made safe to print and to embed: visible, masked, cut, and fenced so that nothing ends the fence."""

from __future__ import annotations

import re
from dataclasses import dataclass

from threegate.core import limits
from threegate.core.printable import escape_of, is_plain
from threegate.core.secretscan.scan import find_secrets, mask_secrets

_TICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class ShownText:
    """What is shown of a stream: safe lines, how many lines it had, and how many secrets were masked."""

    lines: tuple[str, ...]
    total_lines: int
    masked: int


def visible(text: str) -> str:
    """`text` on one line with every control, invisible or unprintable character written as an escape; tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char == "\t" or is_plain(char) else escape_of(char) for char in text)


def one_line(text: str, limit: int = 500) -> str:
    """A foreign text for a line of prose: masked, visible, no tabs, at most `limit` characters, no Markdown that
    acts.
    """
    shown = visible(mask_secrets(text)).replace("\t", " ")
    shown = shown if len(shown) <= limit else shown[: limit - 3] + "..."
    return shown.replace("<", "\\x3c").replace("`", "'")


def show_stream(data: bytes) -> ShownText:
    """Bytes of stdout or stderr as safe lines: secrets masked first, then cut, then made visible."""
    text = data.decode("utf-8", "backslashreplace")
    masked = len(find_secrets(text))
    if masked:
        text = mask_secrets(text)
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    shown = []
    for line in lines[: limits.RESULT_STDOUT_LINES]:
        line = visible(line.removesuffix("\r"))
        again = len(find_secrets(line))
        if again:
            masked += again
            line = mask_secrets(line)
        if len(line) > limits.RESULT_LINE_CHARS:
            line = f"{line[: limits.RESULT_LINE_CHARS]} [... {len(line) - limits.RESULT_LINE_CHARS} characters more]"
        shown.append(line)
    return ShownText(tuple(shown), len(lines), masked)


def fence(lines: tuple[str, ...]) -> list[str]:
    """The lines inside a fence of backticks that is longer than any run of them within."""
    longest = max((len(run) for line in lines for run in _TICKS.findall(line)), default=0)
    mark = "`" * max(3, longest + 1)
    return [f"{mark}text", *lines, mark]
