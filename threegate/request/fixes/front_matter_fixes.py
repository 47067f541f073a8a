"""Fixes of the file and its front matter: a value with one right spelling, or one that is out of range.

Invariant: nothing is invented. A fix only corrects a spelling, takes the nearest bound, or writes the value
that has no alternative (and, for a missing limit, what `threegate draft` would have written).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal

from threegate.core.risk_domains import RISK_DOMAINS
from threegate.request.backend import BACKENDS
from threegate.request.characters import escaped
from threegate.request.fixes.edit import Draft
from threegate.request.front_matter import KEYS, nearest_key
from threegate.request.hosts import HostError, read_target
from threegate.request.render_draft import file_name, render_time, slug_of
from threegate.request.report import Finding, Fix

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_ -]*")
_NAME_TIME = re.compile(r"TR-([0-9]{8})-([0-9]{6})Z-(.*)\.md")
_HASH = re.compile(r"(.*\bsha256:[ ]*)[\"']?([0-9A-Fa-f]{64})[\"']?([ },].*)?")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}")
_WORDS = {"backend": tuple(BACKENDS), "network": ("none", "allowlist"), "risk_domain": RISK_DOMAINS}
_NO_NETWORK = frozenset({"false", "no", "off", "disabled", "deny", "denied", "null", "~", "0"})
_FENCE = re.compile(r"\ufeff?-{2,}[ \t]*|\.\.\.[ \t]*")


def renamed(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A name of the recommended form, from what the old name says."""
    match = _NAME_TIME.fullmatch(draft.name)
    words = match[3] if match else re.sub(r"^TR-|\.md$", "", draft.name)
    yield Fix(finding.rule, "rename", 1, file_name(_moment(draft), slug_of(words)))


def cleared(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """Every line without what cannot be seen; a lone carriage return ends a line."""
    for number, line in enumerate(draft.lines, start=1):
        text = escaped(line.replace("\r", "\n"), lambda char: "")
        if text != line:
            yield Fix(finding.rule, "replace", number, text)


def fenced(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The two lines that must be exactly ---, where there is something similar."""
    first = next((number for number, line in enumerate(draft.lines, start=1) if line.strip()), 1)
    yield from (Fix(finding.rule, "delete", number) for number in range(1, first))
    marks = [number for number in range(first, len(draft.lines) + 1) if _FENCE.fullmatch(draft.line(number))]
    begins = marks[:1] == [first]
    if not begins:
        yield Fix(finding.rule, "insert", first, "---")
    for number in marks[: 2 if begins else 1]:
        if draft.line(number) != "---":
            yield Fix(finding.rule, "replace", number, "---")


def quoted(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The value as a quoted text, where YAML takes a plain one for something else."""
    key, value = _key_and_value(draft, finding.line)
    if key in KEYS and value and value[0] not in "\"'[{|>":
        yield Fix(finding.rule, "replace", finding.line, f"{key}: {json.dumps(value, ensure_ascii=False)}")


def repeated(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A key that says the same twice says it once."""
    if draft.line(finding.line) in draft.lines[: finding.line - 1] and ":" in draft.line(finding.line)[:-1]:
        yield Fix(finding.rule, "delete", finding.line)


def known_key(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The key's right spelling, where only case, dashes or blanks differ."""
    key, mark, rest = _split_key(draft.line(finding.line))
    known = nearest_key(key) if mark else None
    if known and not any(line.startswith(f"{known}:") for line in draft.lines[1 : draft.end]):
        yield Fix(finding.rule, "replace", finding.line, f"{known}:{rest}")


def missing_key(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The line of a missing key that has a value without a choice. The finding names the key after 'the key'."""
    key = finding.message.split(" ")[2]
    value = {
        "request_type": "tool_request",
        "schema_version": '"1"',
        "request_id": _id(draft),
        "created_utc": render_time(_moment(draft)),
        "language": "python",
        "network": "none",
        "cpu_limit": '"1"',
        "memory_limit_mb": "256",
        "time_limit_sec": "60",
    }.get(key)
    if value and not re.search(r"[\n\t]", value):
        yield Fix(finding.rule, "insert", draft.end, f"{key}: {value}")


def valued(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The value of one key, respelled or brought within its bound."""
    key, value = _key_and_value(draft, finding.line)
    make = _VALUES.get(key)
    new = make(draft, value) if make else None
    if new is None and finding.rule == "TG122" and key in KEYS:
        plain = re.fullmatch(r"-?[0-9][0-9A-Za-z.:+-]*", value)
        new = json.dumps(value) if plain else None
    if new is not None and new != value:
        yield Fix(finding.rule, "replace", finding.line, f"{key}: {new}")


def left_out(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A line that means nothing goes."""
    yield Fix(finding.rule, "delete", finding.line)


def digest(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A sha256 in lower case, as quoted text."""
    match = _HASH.fullmatch(draft.line(finding.line))
    if match:
        text = f'{match[1]}"{match[2].lower()}"{match[3] or ""}'
        yield Fix(finding.rule, "replace", finding.line, text)


def host(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A URL's host, in lower case, if the entry has a line of its own."""
    match = re.fullmatch(r"([ ]*-[ ]+)[\"']?(?:https?://)?([^/\"' ]+)(?:/.*)?", draft.line(finding.line), re.IGNORECASE)
    if not match:
        return
    name = match[2].lower()
    try:
        read_target(name)
    except HostError:
        return
    yield Fix(finding.rule, "replace", finding.line, f"{match[1]}{name}")


def _key_and_value(draft: Draft, number: int) -> tuple[str, str]:
    key, mark, rest = _split_key(draft.line(number)) if number < draft.end else ("", "", "")
    return (key, rest.strip()) if mark else ("", "")


def _split_key(line: str) -> tuple[str, str, str]:
    """Key, colon and what follows; three empty texts where no key begins the line."""
    key, mark, rest = line.partition(":")
    key = key.rstrip(" \t")
    good = mark and _KEY.fullmatch(key) and (not rest or rest[0] in " \t")
    return (key, mark, rest) if good else ("", "", "")


def _moment(draft: Draft) -> datetime:
    """When the draft was written, as its name says; else now."""
    match = _NAME_TIME.fullmatch(draft.name)
    if match:
        try:
            return datetime.strptime(match[1] + match[2], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        except ValueError:
            pass
    return draft.now.astimezone(UTC).replace(microsecond=0)


def _id(draft: Draft) -> str | None:
    """The file's name without its ending is an id that no other file of the inbox has."""
    name = draft.name.removesuffix(".md")
    return name if _ID.fullmatch(name) else None


def _bare(value: str) -> str:
    return value.strip("\"' ")


def _bounded(least: str, most: Callable[[Draft], Decimal], shape: str) -> Callable[[Draft, str], str | None]:
    def make(draft: Draft, value: str) -> str | None:
        if not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", _bare(value)):
            return None
        number = min(max(Decimal(_bare(value)), Decimal(least)), most(draft))
        return shape.format(number if "." in shape or '"' in shape else int(number))

    return make


def _word(name: str) -> Callable[[Draft, str], str | None]:
    def make(_draft: Draft, value: str) -> str | None:
        plain = _bare(value).casefold()
        if name == "network" and plain in _NO_NETWORK:
            return "none"
        return next((word for word in _WORDS[name] if word.casefold() == plain), None)

    return make


def _stripped(_draft: Draft, value: str) -> str | None:
    """A quoted text without the blanks at its ends."""
    if value[:1] not in ("'", '"') or value[-1] != value[0] or re.search(r"[\\\"']", value[1:-1]):
        return None
    return json.dumps(value[1:-1].strip(), ensure_ascii=False)


_VALUES: dict[str, Callable[[Draft, str], str | None]] = {
    "request_type": lambda draft, value: (
        "tool_request" if re.fullmatch(r"tool[ _-]?request", _bare(value), re.IGNORECASE) else None
    ),
    "schema_version": lambda draft, value: '"1"' if re.fullmatch(r"1(?:\.0{1,4})?", _bare(value)) else None,
    "request_id": lambda draft, value: _id(draft),
    "created_utc": lambda draft, value: render_time(_moment(draft)),
    "requested_by": _stripped,
    "purpose": _stripped,
    "backend": _word("backend"),
    "network": _word("network"),
    "risk_domain": _word("risk_domain"),
    "cpu_limit": _bounded("0.05", lambda draft: Decimal(str(draft.settings.max_cpu)), '"{}"'),
    "memory_limit_mb": _bounded("8", lambda draft: Decimal(draft.settings.max_memory_mb), "{}"),
    "time_limit_sec": _bounded("1", lambda draft: Decimal(draft.settings.max_time_sec), "{}"),
}

MAKERS: dict[str, Callable[[Draft, Finding], Iterator[Fix]]] = {
    "TG101": renamed,
    "TG102": renamed,
    "TG105": cleared,
    "TG106": cleared,
    "TG107": cleared,
    "TG108": fenced,
    "TG110": quoted,
    "TG112": quoted,
    "TG113": quoted,
    "TG114": repeated,
    "TG120": known_key,
    "TG121": missing_key,
    **dict.fromkeys(("TG122", "TG130", "TG131", "TG132", "TG133", "TG134", "TG135", "TG136"), valued),
    **dict.fromkeys(("TG138", "TG139", "TG140", "TG141", "TG164"), valued),
    "TG145": left_out,
    "TG152": digest,
    "TG159": host,
}
"""Who answers a finding of which rule."""
