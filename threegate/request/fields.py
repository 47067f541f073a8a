"""Small readers for single values of the front matter: text, numbers, times, names, paths.

Invariant: every value is matched completely against an ASCII grammar; nothing is trimmed, guessed or
converted. A reader returns the typed value, or raises FieldError with the rule and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from decimal import Decimal

from threegate.core import limits
from threegate.core.strict_yaml import YamlNode

TIME = (
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?(?:Z|\+00:00)",
    r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})(?:([0-9]{2})(?:\.([0-9]{1,6}))?)?(?:Z|\+00:00)",
)
"""A UTC time in ISO 8601's extended and basic form: a calendar date, hours and minutes, and perhaps
seconds with a fraction. Neither mixes with the other."""
_TIMES = tuple(map(re.compile, TIME))
_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,5})(?:\.[0-9]{1,6})?")
FILE_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{limits.FILE_NAME_CHARS}}}")
SHA256 = re.compile(r"[0-9a-f]{64}")


class FieldError(Exception):
    """A value breaks a rule."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def read_text(node: YamlNode, rule: str, *, most: int) -> str:
    """One line of text, 1 to `most` characters, without blanks at its ends. A block scalar may end with a newline."""
    if not isinstance(node.value, str):
        raise FieldError("TG122", "must be text; put it in quotes")
    text = node.value.rstrip("\n") if node.style in ("|", ">") else node.value
    if not text.strip():
        raise FieldError(rule, "must not be empty")
    if "\n" in text:
        raise FieldError(rule, "must be one line")
    if text != text.strip():
        raise FieldError(rule, "must not begin or end with a blank")
    if len(text) > most:
        raise FieldError(rule, f"{len(text)} characters; at most {most}")
    return text


def read_word(node: YamlNode, rule: str, allowed: Collection[str]) -> str:
    """One of a few exact words; another spelling is refused with the right one named."""
    if not isinstance(node.value, str):
        raise FieldError("TG122", f"must be text: {' or '.join(allowed)}")
    if node.value in allowed:
        return node.value
    wanted = [word for word in allowed if word.casefold() == node.value.strip().casefold()]
    hint = f"; it is spelled {wanted[0]}" if wanted else ""
    raise FieldError(rule, f"must be {' or '.join(allowed)}{hint}")


def read_integer(node: YamlNode, rule: str, *, least: int, most: int, unit: str) -> int:
    """A plain whole number within bounds."""
    if not isinstance(node.value, int) or isinstance(node.value, bool):
        raise FieldError("TG122", f"must be a whole number of {unit}, without quotes")
    if not least <= node.value <= most:
        raise FieldError(rule, f"must lie between {least} and {most} {unit}")
    return node.value


def read_cores(node: YamlNode, *, most: float) -> Decimal:
    """A decimal number of cores, quoted or plain: 0.05 to `most`."""
    if isinstance(node.value, bool) or not isinstance(node.value, str | int | float):
        raise FieldError("TG122", 'must be a decimal number of cores, such as "0.5"')
    if not _DECIMAL.fullmatch(node.text):
        raise FieldError("TG139", 'must be a plain decimal number of cores, such as "0.5" or "2"; 500m is "0.5"')
    cores = Decimal(node.text)
    if not Decimal("0.05") <= cores <= Decimal(str(most)):
        raise FieldError("TG139", f"must lie between 0.05 and {most:g} cores")
    return cores


def read_time(node: YamlNode, rule: str) -> datetime:
    """An ISO-8601 moment in UTC: ``2026-11-22T05:00:00Z``, also without seconds, in basic form, or with ``+00:00``."""
    written = node.value if isinstance(node.value, str) else ""
    match = next((found for form in _TIMES if (found := form.fullmatch(written))), None)
    if match is None:
        raise FieldError(rule, "must be a UTC time such as 2026-11-22T05:00:00Z or 20261122T050000Z")
    year, month, day, hour, minute, second = (int(part or "0") for part in match.groups()[:6])
    try:
        return datetime(year, month, day, hour, minute, second, int((match[7] or "").ljust(6, "0")), tzinfo=UTC)
    except ValueError:
        raise FieldError(rule, "is not a date and time that exists") from None


def check_file_name(name: str) -> str | None:
    """What is wrong with an input's file name (docs/spec/1-tool-request.md, `inputs`); None if it is a good one."""
    if not FILE_NAME.fullmatch(name):
        return f"must be a bare file name of A-Z a-z 0-9 . _ - (at most {limits.FILE_NAME_CHARS}), without folders"
    if name in (".", ".."):
        return "must name a file, not a folder"
    return None


def check_output_path(path: str) -> tuple[str, str | None]:
    """The path below /out/ that `path` means, and what is wrong with it (None when nothing is)."""
    if path.startswith("/"):
        if not path.startswith("/out/"):
            return path, "must be under /out/"
        bare = path.removeprefix("/out/")
    else:
        bare = path
    if len(path) > limits.PATH_CHARS or "\\" in path or "\n" in path or bare != bare.strip():
        return path, "must be a plain path under /out/, without backslashes or blanks at its ends"
    if not bare or bare.endswith("/"):
        return path, "must name a file under /out/, not a folder"
    segments = bare.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        return path, "must not have '..', '.' or empty segments"
    if any(len(segment.encode()) > limits.SEGMENT_BYTES for segment in segments):
        return path, f"has a name of more than {limits.SEGMENT_BYTES} bytes"
    return f"/out/{bare}", None
