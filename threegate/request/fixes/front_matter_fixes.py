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
from threegate.request.frame import is_key_line, section_of
from threegate.request.front_matter import KEYS, nearest_key
from threegate.request.render_draft import file_name, render_time, slug_of
from threegate.request.report import Finding, Fix

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_ -]*")
_NAME_TIME = re.compile(r"TR-([0-9]{8})-([0-9]{6})Z-(.*)\.md")
_HASH = re.compile(r"(.*?\bsha256:[ ]*)[\"']?(?:sha256:)?([0-9A-Fa-f]{64})[\"']?([ },].*)?")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}")
_WORDS = {"backend": tuple(BACKENDS), "network": ("none", "allowlist"), "risk_domain": RISK_DOMAINS}
_NO_NETWORK = frozenset(
    ("false", "no", "off", "disabled", "deny", "denied", "null", "~", "0", "no network", "not needed", "isolated", "[]")
)
_WORDS_AROUND = 20
"""Lines around a file that may be what an agent says before and behind it."""
_TEXT_KEYS = ("purpose", "requested_by", "session_id", "workflow", "role", "tool", "language")
_RISK_LABELS = {"risk_level": "risk level", "data_sensitivity": "data sensitivity"}
NOTHING = re.compile(r"|null|~|none|n/?a|\[[ ]*\]|\{[ ]*\}|\"\"|''", re.IGNORECASE)
_OTHER_NAMES = {
    "author": "requested_by",
    "requester": "requested_by",
    "cpu": "cpu_limit",
    "cpus": "cpu_limit",
    "cpu_cores": "cpu_limit",
    "created": "created_utc",
    "created_at": "created_utc",
    "id": "request_id",
    "memory_mb": "memory_limit_mb",
    "allowed_hosts": "network_allowlist",
    "allowlist": "network_allowlist",
    "outputs": "outputs_expected",
    "time_limit_seconds": "time_limit_sec",
    "timeout_sec": "time_limit_sec",
    "timeout_seconds": "time_limit_sec",
    "type": "request_type",
    "version": "schema_version",
}
"""Other names that mean one key and nothing else."""
_UNITS = {
    "memory_limit_mb": (r"mi?b?|megabytes?", r"gi?b?|gigabytes?", 1024),
    "time_limit_sec": (r"s|secs?|seconds?", r"m|mins?|minutes?", 60),
    "cpu_limit": (r"cores?|cpus?", r"$^", 1),
}
"""How values of a key are written with their unit: with its own one, with a greater one, and how much that is."""


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


def framed(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The two lines that must be exactly ---, and nothing around the file: no words, no fence."""
    frame = draft.frame
    if frame is None:
        return
    around = [draft.lines[index] for index in frame.around]
    if len(around) > _WORDS_AROUND or any(is_key_line(line) or section_of(line) for line in around):
        return  # a second file, or a part of this one
    start = frame.first if frame.opening is None else frame.opening
    gone = {*range(start), *frame.around}
    yield from (Fix(finding.rule, "delete", index + 1) for index in sorted(gone))
    for mark, place in ((frame.opening, frame.first), (frame.closing, frame.last)):
        if mark is None:
            yield Fix(finding.rule, "insert", place + 1, "---")
        elif draft.lines[mark] != "---":
            yield Fix(finding.rule, "replace", mark + 1, "---")


def as_yaml(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A front matter that nothing closes is closed; a line that YAML cannot read is indented, split and quoted as it
    must have been meant."""
    frame = draft.frame
    if frame is not None and (frame.closing is None or draft.lines[frame.closing] != "---"):
        yield from framed(draft, finding)
        return
    line = draft.line(finding.line)
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" in indent or "\xa0" in indent:
        text = indent.expandtabs(2).replace("\xa0", " ") + line.lstrip()
        yield Fix(finding.rule, "replace", finding.line, text)
        return
    spaced = list(_spaced(draft, finding))
    yield from spaced or quoted(draft, finding)


def _spaced(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A blank behind the colon of each key that has none."""
    for number in range(1, draft.end):
        close = re.fullmatch(r"([a-z][a-z0-9_]*):([^ \t\[{].*)", draft.line(number))
        if close and close[1] in KEYS:
            yield Fix(finding.rule, "replace", number, f"{close[1]}: {close[2]}")


def quoted(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The value as a quoted text, where YAML takes it for something else."""
    key, value = key_and_value(draft, finding.line)
    text = key in _TEXT_KEYS or (key in KEYS and value[:1] not in ("[", "{", "|", ">", '"', "'"))
    if not value or not text or value[0] in "|>":
        return
    mark = value[0]
    if mark in ("'", '"') and len(value) > 2 and value[-1] == mark:
        value = value[1:-1].replace("\\'", "'") if mark == "'" else value[1:-1]
        if "\\" in value:
            return
    elif mark in ("'", '"') and value.count(mark) % 2:
        return  # which text the quote was to hold is not known
    yield Fix(finding.rule, "replace", finding.line, f"{key}: {json.dumps(value, ensure_ascii=False)}")


def at_column_1(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """Keys that are all indented alike begin their lines."""
    frame = draft.frame
    if frame is None or frame.closing is None or draft.lines[frame.closing] != "---":
        yield from framed(draft, finding)
        return
    if draft.line(finding.line).strip() == "...":
        yield Fix(finding.rule, "delete", finding.line)
        return
    if spaced := list(_spaced(draft, finding)):
        yield from spaced
        return
    entries = [
        (number, draft.lines[number]) for number in range(frame.first, frame.last) if draft.lines[number].strip()
    ]
    indents = {line[: len(line) - len(line.lstrip(" "))] for _, line in entries}
    least = min(indents, key=len)
    if least:
        yield from (Fix(finding.rule, "replace", number + 1, line.removeprefix(least)) for number, line in entries)


def repeated(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A key that says the same twice says it once."""
    if draft.line(finding.line) in draft.lines[: finding.line - 1] and ":" in draft.line(finding.line)[:-1]:
        yield Fix(finding.rule, "delete", finding.line)


def known_key(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The key's right spelling, where only case, dashes or blanks differ, or where another name means the same. A key
    that says nothing, or what the risk assessment says too, goes."""
    line = draft.line(finding.line)
    key, mark, rest = _split_key(line)
    if not mark:
        return
    plain, known = _plain(key), _meant(key)
    if known:
        if not any(line.startswith(f"{known}:") for line in draft.lines[1 : draft.end]):
            yield Fix(finding.rule, "replace", finding.line, f"{known}:{rest}")
        return
    empty = NOTHING.fullmatch(rest.strip()) and not continued(draft, finding.line)
    if empty or (plain in _RISK_LABELS and _says(draft, _RISK_LABELS[plain], _bare(rest))):
        yield Fix(finding.rule, "delete", finding.line)


def _plain(key: str) -> str:
    return key.casefold().replace("-", "_").replace(" ", "_")


def _meant(key: str) -> str | None:
    """The key that a name means, in any spelling."""
    return nearest_key(key) or _OTHER_NAMES.get(_plain(key))


def _says(draft: Draft, label: str, value: str) -> bool:
    """Whether the risk assessment has this value for a label."""
    said = re.compile(rf"[-*_ \t]*{label}[*_]*:[*_ \t]*{re.escape(value)}[*_. \t]*", re.IGNORECASE)
    return any(len(line) < 200 and said.fullmatch(line) for line in draft.lines[draft.end :])


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
    there = any(_meant(_split_key(line.strip())[0]) == key for line in draft.lines[: draft.end])
    if value and not there and not re.search(r"[\n\t]", value):
        yield Fix(finding.rule, "insert", draft.end, f"{key}: {value}")


def valued(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The value of one key, respelled or brought within its bound; an optional key without a value goes."""
    key, value = key_and_value(draft, finding.line)
    if key in KEYS and not KEYS[key].required and NOTHING.fullmatch(value):
        if not continued(draft, finding.line):
            yield Fix(finding.rule, "delete", finding.line)
        return
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


def key_and_value(draft: Draft, number: int) -> tuple[str, str]:
    """The key that begins a line of the front matter, and what follows it there; two empty texts where none does."""
    key, mark, rest = _split_key(draft.line(number)) if number < draft.end else ("", "", "")
    return (key, rest.strip()) if mark else ("", "")


def continued(draft: Draft, number: int) -> bool:
    """Whether the value of the key on a line goes on below."""
    return re.match(r"[ \t]+\S|-[ \t]", draft.line(number + 1)) is not None


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


def _bounded(key: str, least: str, most: Callable[[Draft], Decimal], shape: str) -> Callable[[Draft, str], str | None]:
    own, greater, factor = _UNITS[key]
    written = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,6}})?)[ ]?(?:({greater})|(?:{own})?)", re.IGNORECASE)

    def make(draft: Draft, value: str) -> str | None:
        plain = _bare(value)
        if key == "cpu_limit" and re.fullmatch(r"[0-9]{1,6}m", plain):
            plain = str(Decimal(plain[:-1]) / 1000)
        match = written.fullmatch(plain)
        if match is None:
            return None
        number = Decimal(match[1]) * (factor if match[2] else 1)
        number = min(max(number, Decimal(least)), most(draft))
        return shape.format(number if '"' in shape else int(number))

    return make


def _time(draft: Draft, value: str) -> str:
    """The moment that is written in another form of UTC, otherwise when the draft was written."""
    form = r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?[ ]?(?:Z|UTC|\+00:?00)?"
    match = re.fullmatch(form, _bare(value))
    if match:
        try:
            moment = datetime.fromisoformat(f"{match[1]}T{match[2]}+00:00")
        except ValueError:
            moment = draft.now
        if moment < draft.now:
            return render_time(moment)
    return render_time(_moment(draft))


def _language(_draft: Draft, value: str) -> str | None:
    """Python in any version is python."""
    return (
        "python" if re.fullmatch(r"python[ ]?[0-9.]{0,8}|py|c?python[ -]?3[0-9.]*", _bare(value).casefold()) else None
    )


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
    "schema_version": lambda draft, value: '"1"' if re.fullmatch(r"v?1(?:\.0{1,4})?", _bare(value)) else None,
    "request_id": lambda draft, value: _id(draft),
    "created_utc": _time,
    "language": _language,
    "requested_by": _stripped,
    "purpose": _stripped,
    "backend": _word("backend"),
    "network": _word("network"),
    "risk_domain": _word("risk_domain"),
    "cpu_limit": _bounded("cpu_limit", "0.05", lambda draft: Decimal(str(draft.settings.max_cpu)), '"{}"'),
    "memory_limit_mb": _bounded("memory_limit_mb", "8", lambda draft: Decimal(draft.settings.max_memory_mb), "{}"),
    "time_limit_sec": _bounded("time_limit_sec", "1", lambda draft: Decimal(draft.settings.max_time_sec), "{}"),
}

MAKERS: dict[str, Callable[[Draft, Finding], Iterator[Fix]]] = {
    "TG101": renamed,
    "TG102": renamed,
    "TG105": cleared,
    "TG106": cleared,
    "TG107": cleared,
    "TG108": framed,
    "TG110": as_yaml,
    "TG112": quoted,
    "TG113": quoted,
    "TG114": repeated,
    "TG115": at_column_1,
    "TG120": known_key,
    "TG121": missing_key,
    **dict.fromkeys(("TG122", "TG130", "TG131", "TG132", "TG133", "TG134", "TG135", "TG136", "TG137"), valued),
    **dict.fromkeys(("TG138", "TG139", "TG140", "TG141", "TG155", "TG162", "TG164"), valued),
    "TG145": left_out,
    "TG152": digest,
}
"""Who answers a finding of which rule."""
