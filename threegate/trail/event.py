"""One event of the trail: its kind, its values, its canonical line, and the strict reader of a line.

Invariant: a line is exactly the RFC 8785 rendering of its own parse; `hash` is the SHA-256 of that rendering
without the key `hash`. Values are ASCII strings, whole numbers, booleans and null (in lists and objects), for
which orjson with sorted keys gives the canonical form; a property test holds it against rfc8785. A kind of the core is
its own whatever plugins give, and a kind that nobody gives is read, hashed and counted like any other, has the effects
of its reserved keys (`trail.reserved`), and is never written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

import orjson

from threegate.core import limits
from threegate.core.canonical import INTEGER_MAX
from threegate.core.plugins import Place
from threegate.core.printable import escape_of
from threegate.trail.payloads import PAYLOADS, Payload
from threegate.trail.payloads.payload import History, frozen_fields

VERSION: Final = 1

_FIELD_COUNT: Final = 9
_fields = itemgetter("v", "seq", "time", "type", "request_id", "actor", "data", "prev", "hash")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z").fullmatch
_loads, _dumps, _SORTED, _sha256 = orjson.loads, orjson.dumps, orjson.OPT_SORT_KEYS, hashlib.sha256
HASH_MARK: Final = b',"hash":"'
"""Stands last in a line at its own hash: within a string the quotes would be escaped, and behind it no object comes."""
HASH_PART: Final = len(HASH_MARK) + 64 + 1
_APART: Final = "\n\0\n"
"""Between texts that are searched together. A form may begin or end at a line's end as at that of a text, and none goes
on over this: so what is a secret in one of them is found in all of them.
"""
_LEVELS: Final = 5
"""Lists and objects within each other in an event's data (4), and the list that the data is in."""
RESERVED: Final = ("files", "ids_sha256", "nonce", "signed")
"""The keys that have a meaning for the core in every kind of a plugin, known or not (`trail.reserved`)."""


KINDS: Final[Place[tuple[type[Payload], ...]]] = Place("kinds")
"""The classes of a plugin's kinds. They stay when it is turned off, since the trail has its events already."""

KIND: Final = re.compile(r"[a-z][a-z0-9_]{0,39}(\.[a-z][a-z0-9_]{0,39})?", re.ASCII).fullmatch
"""What the `type` of an event may be, known or not; new kinds of plugins are named ``plugin.kind``."""


NOT_KNOWN: Final = "a kind of event that is not known here"
"""What all that people read about such an event."""


@frozen_fields
class Opaque(Payload):
    """An event of a kind that nothing here knows: its plugin was deleted, or a later version wrote it."""

    type: str
    """The event's."""

    def sentence(self) -> str:
        return f"recorded {self.type}, {NOT_KNOWN}"

    def change(self, history: History, event: object) -> None:
        history.unknown = history.unknown or self.type


@cache
def plugin_kinds() -> dict[str, type[Payload]]:
    """The class of each kind that a plugin gives, by the event's `type`."""
    # No plugin may change what an event of the core means for a request.
    return {cls.kind: cls for classes in KINDS.given().values() for cls in classes if cls.kind not in PAYLOADS}


def class_of(kind: str) -> type[Payload] | None:
    """The class of a kind; None for one that is not known. A plugin is asked only for what the core does not know."""
    return PAYLOADS.get(kind) or plugin_kinds().get(kind)


def known_kinds() -> dict[str, type[Payload]]:
    """All of them."""
    return {**PAYLOADS, **plugin_kinds()}


class LineError(ValueError):
    """A line that is not an event. The text says what is wrong with it and never repeats it."""


class _Line(NamedTuple):
    seq: int
    time: str
    """UTC with milliseconds: ``2026-11-22T05:06:07.123Z``."""
    type: str
    request_id: str | None
    actor: str
    data: Mapping[str, Any]
    """As it is in the line. To read it, take `payload`."""
    prev: str
    hash: str
    line: bytes


class Event(_Line):
    """One event. `line` is the canonical rendering without the newline; `prev` of the first is the workspace's id."""

    @property
    def payload(self) -> Payload:
        """What the event says, typed; made of `data` when it is first asked for (verification never asks)."""
        known = vars(self)
        if "payload" not in known:
            cls = class_of(self.type)
            known["payload"] = Opaque(type=self.type) if cls is None else cls.from_data(self.data)
        payload: Payload = known["payload"]
        return payload

    @property
    def when(self) -> datetime:
        """`time` as an aware datetime."""
        return parse_time(self.time)

    def to_json(self) -> dict[str, Any]:
        """The event as a JSON object, as it is in the trail."""
        value: dict[str, Any] = orjson.loads(self.line)
        return value


def format_time(moment: datetime) -> str:
    """A time as the trail writes it. Sorting the texts sorts the times."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def parse_time(text: str) -> datetime:
    """Parse a trail's time. Raises ValueError for any other spelling, so that render∘parse is the
    identity.
    """
    if len(text) != 24 or text[23] != "Z" or text[10] != "T" or not text.isascii():
        raise ValueError("no time of the form YYYY-MM-DDThh:mm:ss.mmmZ")
    moment = datetime.fromisoformat(text[:23]).replace(tzinfo=UTC)
    if format_time(moment) != text:
        raise ValueError("no time of the form YYYY-MM-DDThh:mm:ss.mmmZ")
    return moment


Mask = Callable[[str], str]
"""What takes the secrets out of a text."""


def trail_text(text: str, limit: int = limits.TRAIL_STRING_CHARS, mask: Mask | None = None) -> str:
    """A foreign string as printable ASCII of at most `limit` characters; backslash is the escape, ``...``
    marks the cut.

    Secrets are masked before the cut, by `mask` or else by their forms: whatever a file is named, or a reason says, the
    trail never contains one.
    """
    from threegate.core.secretscan.scan import mask_secrets  # here: only who appends pays for the patterns

    text = (mask or mask_secrets)(text[: limits.TRAIL_MASKED_CHARS])
    if len(text) <= limit and text.isascii() and text.isprintable() and "\\" not in text:
        return text
    pieces: list[str] = []
    length = kept = 0
    for char in text[: limit + 1]:
        piece = "\\\\" if char == "\\" else char if " " <= char <= "~" else escape_of(char)
        length += len(piece)
        if length > limit:
            return "".join(pieces[:kept]) + "..."
        pieces.append(piece)
        if length <= limit - 3:
            kept = len(pieces)
    return "".join(pieces)


def trail_value(value: Any, mask: Mask | None = None, depth: int = 4) -> Any:
    """Any value as one that the trail can hold; it never fails, so that no foreign value can stop the trail.

    Strings go through `trail_text`; numbers that are not whole or beyond 2**53, and every other type, become text.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return trail_text(value, mask=mask)
    if isinstance(value, int):
        # `str` raises for an integer of thousands of digits, and no value may stop the trail.
        return value if -INTEGER_MAX <= value <= INTEGER_MAX else trail_text(hex(value), mask=mask)
    if depth > 0 and isinstance(value, Mapping):
        return {trail_text(str(key), mask=mask): trail_value(item, mask, depth - 1) for key, item in value.items()}
    if depth > 0 and isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)
        kept = [trail_value(item, mask, depth - 1) for item in items[: limits.TRAIL_LIST_ITEMS]]
        return kept if len(kept) == len(items) else [*kept, f"... {len(items) - len(kept)} more"]
    return trail_text(str(value), mask=mask)


def _masked(value: list[Any]) -> list[Any]:
    """The values as the trail holds them. One search tells whether there is any secret in all of their texts: each is
    looked at alone only then.
    """
    from threegate.core.secretscan.scan import has_secret  # here: only who appends pays for the patterns

    texts: list[str] = []

    def noted(text: str) -> str:
        texts.append(text)
        return text

    clean: list[Any] = trail_value(value, noted, _LEVELS)
    return trail_value(value, None, _LEVELS) if has_secret(_APART.join(texts)) else clean


def make_event(
    *,
    seq: int,
    time: str,
    type: str,
    request_id: str | None,
    actor: str,
    data: Mapping[str, Any],
    prev: str,
) -> Event:
    """Render one event. Raises ValueError for a kind that is not known, and for a plugin's that announces more than a
    line takes (internal errors, before anything is written).
    """
    if class_of(type) is None:
        raise ValueError(f"no event type {type!r}")
    request_id, actor, clean = _masked([request_id, actor, dict(data)])
    body: dict[str, Any] = {
        "v": VERSION,
        "seq": seq,
        "time": time,
        "type": type,
        "request_id": request_id,
        "actor": actor,
        "data": clean,
        "prev": prev,
    }
    bare = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    if len(bare) > limits.TRAIL_LINE_BYTES - 128:
        digest = hashlib.sha256(orjson.dumps(clean, option=orjson.OPT_SORT_KEYS)).hexdigest()
        # The digest still identifies what was left out.
        kept = {key: item for key, item in clean.items() if not isinstance(item, (dict, list))}
        small = dict(list(kept.items())[: limits.TRAIL_LIST_ITEMS // 2])
        # What a plugin's event does to the core must not depend on how long the event is.
        effects = {} if type in PAYLOADS else {key: clean[key] for key in RESERVED if key in clean}
        body["data"] = clean = {**small, **effects, "cut_sha256": digest}
        bare = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
        if len(bare) > limits.TRAIL_LINE_BYTES - 128:
            raise ValueError(f"{type} announces more than a line takes")
    digest = hashlib.sha256(bare).hexdigest()
    # The last one is the event's own: `data`, which may have a key `prev`, is sorted before it.
    at = bare.rindex(b',"prev":"')
    line = b"".join((bare[:at], HASH_MARK, digest.encode(), b'"', bare[at:]))
    return Event(seq, time, type, request_id, actor, clean, prev, digest, line)


def parse_line(line: bytes) -> Event:
    """Read one line without its newline, whole or not at all. Raises LineError.

    Checks form, canonical rendering, types and the line's own hash; `seq`, `prev` and the order of time are
    the chain's business.
    """
    if len(line) > limits.TRAIL_LINE_BYTES:
        raise LineError(f"longer than {limits.TRAIL_LINE_BYTES} bytes")
    try:
        value = _loads(line)
    except orjson.JSONDecodeError:
        raise LineError("is not JSON") from None
    try:
        version, seq, time, kind, request_id, actor, data, prev, digest = _fields(value)
    except (KeyError, TypeError, IndexError):
        raise LineError("does not have exactly the keys of an event") from None
    if type(value) is not dict or len(value) != _FIELD_COUNT:
        raise LineError("does not have exactly the keys of an event")
    # This also finds duplicate keys, which `orjson` reads without complaint.
    try:
        canonical = _dumps(value, None, _SORTED)
    except orjson.JSONEncodeError:  # it reads deeper than it writes
        raise LineError("is nested too deeply") from None
    if canonical != line:
        raise LineError("is not in canonical form")
    # Beyond ASCII, orjson and RFC 8785 sort keys differently.
    if not line.isascii():
        raise LineError("is not in canonical form (it is not ASCII)")
    at = line.rfind(HASH_MARK)
    if type(digest) is not str or len(digest) != 64 or at < 0:
        raise LineError("has no hash of 64 hex digits")
    if _sha256(line[:at] + line[at + HASH_PART :]).hexdigest() != digest:
        raise LineError("does not have the hash that it names: it was changed")
    if (
        type(version) is not int
        or version != VERSION
        or type(kind) is not str
        or (kind not in PAYLOADS and not KIND(kind))
        or type(time) is not str
        or not TIME(time)
        or not _is_day(time[:10])
        or type(seq) is not int
        or type(actor) is not str
        or type(prev) is not str
        or type(data) is not dict
        or not (request_id is None or type(request_id) is str)
    ):
        raise LineError("has a value of a wrong type")
    check_values(data)
    # Verification makes one for each line: a tuple's own way is a third faster than the class's.
    return tuple.__new__(Event, (seq, time, kind, request_id, actor, data, prev, digest, line))


@lru_cache(maxsize=64)
def _is_day(text: str) -> bool:
    """Whether there is a day ``YYYY-MM-DD``. A trail has few of them, and each of its lines names one."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def check_values(data: dict[str, Any]) -> None:
    """Only whole numbers, strings, booleans and null: with floats orjson and RFC 8785 would differ."""
    for item in data.values():
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if not -INTEGER_MAX <= item <= INTEGER_MAX:
                raise LineError("has a number beyond 2**53")
        elif kind is dict:
            check_values(item)
        elif kind is list:
            check_values(dict(enumerate(item)))  # type: ignore[arg-type]
        else:
            raise LineError("has a number that is not whole")
