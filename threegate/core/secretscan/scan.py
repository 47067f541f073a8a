"""Which patterns of a set occur in a text, then where; and with the set of all forms, which secrets are in it.

RE2 (google-re2) works on bytes. Text is therefore handed to it with one byte for each character: what Latin-1 cannot
say becomes DEL, which no pattern asks for. Any string has such a form, lone surrogates included, and places in it are
places in the text.

Invariant: linear time. One pass answers for all patterns of a set at once; only a form that occurs is searched for, and
each search goes on where the last secret ended. No text with a secret is kept.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2

from threegate.core.secretscan.assignments import assigned_value, is_metavariable
from threegate.core.secretscan.patterns import ASSIGNED_NAME, FORMS

_HANDLER: Final = "threegate-one-byte"
_MEMORY: Final = 64 << 20
"""Bytes that the compiled form of a pattern may take. Here and not in core/limits.py: this room imports no other."""
OPTIONS: Final = re2.Options()
"""Of every pattern: one byte is one character, and nothing is written to standard error."""
OPTIONS.encoding = re2.Options.Encoding.LATIN1
OPTIONS.max_mem = _MEMORY
OPTIONS.log_errors = False
_LONG_RUN: Final = r"[A-Za-z0-9+/_-]{60}"
"""What pictures in notebooks, keys and hashes have, and lines of prose or code have not."""
_LONG_RUN_SET: Final = re2.Set.SearchSet(OPTIONS)
"""A set of one: to ask it takes a tenth of what a search does, which would give the place too."""
_LONG_RUN_SET.Add(_LONG_RUN.encode("ascii"))
_LONG_RUN_SET.Compile()
_SMALL: Final = 8 << 10
_BEGINNING: Final = re.compile(r"(?:\\b)?[A-Za-z0-9_-]{3,}[\[(]", re.ASCII)
"""A pattern that begins with letters of its own."""


def _as_delete(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "\x7f" * (error.end - error.start), error.end


codecs.register_error(_HANDLER, _as_delete)


def one_byte_each(text: str) -> bytes:
    """The text with exactly one byte for each character."""
    return text.encode("latin-1", _HANDLER)


@functools.cache
def compiled(pattern: str) -> Any:
    """A pattern for `one_byte_each` bytes; compiled once."""
    return re2.compile(pattern.encode("ascii"), OPTIONS)


class PatternSet:
    """Several patterns, asked in one pass. Compiled when first asked.

    One automaton for all patterns takes 5 ns a byte for prose and code, but 500 ns for base64, in which nearly each
    byte may begin several of them: it makes a new state for each byte. There only the patterns that begin with letters
    of their own share an automaton. Of the others, the literals that they cannot do without are looked for first (RE2's
    FilteredRE2), and then each pattern whose literals are there is looked for alone. Both ways give the same answer.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(patterns)
        begun = [_BEGINNING.match(pattern) is not None for pattern in patterns]
        self._begun = [number for number, has in enumerate(begun) if has]
        self._others = [number for number, has in enumerate(begun) if not has]

    @functools.cached_property
    def _together(self) -> Any:
        """All patterns in one automaton."""
        made = re2.Set.SearchSet(OPTIONS)
        for pattern in self._patterns:
            made.Add(pattern.encode("ascii"))
        made.Compile()
        return made

    @functools.cached_property
    def _apart(self) -> tuple[Any, Any]:
        """The automaton of those that begin with letters of their own, and the filter of the others."""
        begun, others = re2.Set.SearchSet(OPTIONS), re2.Filter()
        for number in self._begun:
            begun.Add(self._patterns[number].encode("ascii"))
        for number in self._others:
            others.Add(self._patterns[number].encode("ascii"), OPTIONS)
        begun.Compile()
        if self._others:  # RE2 complains of an empty filter
            others.Compile()
        return begun, others

    def which(self, data: bytes) -> list[int]:
        """Numbers of the patterns that occur in `data`, in order."""
        # For long data a search, which stops at the first; a set goes on to the end.
        if not (_LONG_RUN_SET.Match(data) if len(data) <= _SMALL else compiled(_LONG_RUN).search(data)):
            return sorted(self._together.Match(data) or [])
        begun, others = self._apart
        found = [self._begun[place] for place in begun.Match(data) or []] if self._begun else []
        for place in others.Match(data, potential=True) or [] if self._others else []:
            number = self._others[place]
            if compiled(self._patterns[number]).search(data) is not None:
                found.append(number)
        return sorted(found)

    def places(self, text: str, *, most: int) -> Iterator[tuple[int, int, int]]:
        """For each pattern that occurs its number and its `spans`: where they begin and end."""
        data = one_byte_each(text)
        for number in self.which(data):
            for start, end in spans(self._patterns[number], data, most=most):
                yield number, start, end


def spans(pattern: str, data: bytes, *, most: int = 1_000_000) -> Iterator[tuple[int, int]]:
    """Places of a pattern's first group (or of all of it), at most `most`. Text after a group may begin the
    next match.
    """
    regexp = compiled(pattern)
    group = 1 if regexp.groups else 0
    position = 0
    for _ in range(most):
        match = regexp.search(data, position)
        if match is None:
            return
        start, end = match.span(group)
        if start < 0:  # another branch of the pattern matched, without the group
            start, end = match.span()
        yield start, end
        position = max(end, position + 1)


_SET: Final = PatternSet((*(form.pattern for form in FORMS), ASSIGNED_NAME))
_SHORT: Final = 200
_MANY: Final = 4096
_clean: set[str] = set()
"""At most _MANY texts of at most _SHORT characters in which no form occurs. Every event of the trail has the same
names and digests, and RE2 gives Python's lock away for each search, which costs a busy process far more than the
search.
"""


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """A secret's place: ``text[start:end]``, and its kind in words. It holds no part of the value."""

    start: int
    end: int
    kind: str


def find_secrets(text: str) -> list[Found]:
    """All secrets in a text, by place; none overlaps the next. Linear in the length of the text; never raises."""
    if text in _clean:
        return []
    data = one_byte_each(text)
    hits = _SET.which(data)
    if hits:
        return _disjoint([found for index in hits for found in _spans(index, data, text)])
    if len(text) <= _SHORT:
        if len(_clean) >= _MANY:
            _clean.clear()
        _clean.add(text)
    return []


def has_secret(text: str) -> bool:
    """Whether there is any secret in a text."""
    return bool(find_secrets(text))


def mask_secrets(text: str) -> str:
    """The text with each secret replaced by its kind in brackets; the number of lines stays the same."""
    secrets = find_secrets(text)
    if not secrets:
        return text
    pieces: list[str] = []
    end = 0
    for found in secrets:
        lines = text[found.start : found.end].count("\n")
        pieces += (text[end : found.start], f"[{found.kind}]", "\n" * lines)
        end = found.end
    pieces.append(text[end:])
    return "".join(pieces)


def mask_json(value: Any) -> Any:
    """A JSON value with the secrets in each of its strings masked; keys are left as they are."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, list):
        return [mask_json(item) for item in value]
    return {key: mask_json(item) for key, item in value.items()} if isinstance(value, dict) else value


def _spans(index: int, data: bytes, text: str) -> Iterator[Found]:
    """Places of one form; the number after the last stands for the assignments."""
    if index == len(FORMS):
        yield from _assignments(data, text)
        return
    form = FORMS[index]
    genuine = _GENUINE.get(form.kind)
    for start, end in spans(form.pattern, data):
        if genuine is None or genuine(data, start, end):
            yield Found(start, end, form.kind)


def _assignments(data: bytes, text: str) -> Iterator[Found]:
    """Places of assigned values."""
    end = 0
    for match in compiled(ASSIGNED_NAME).finditer(data):
        if match.start() < end:
            continue
        value = assigned_value(text, match.start(), match.end(1), password=match[2] is not None)
        if value is not None:
            end = value.end
            yield Found(value.start, value.end, "password" if match[2] is not None else "token")


def _disjoint(spans: list[Found]) -> list[Found]:
    """Overlapping places joined into one; the kind of the widest form that begins first stays."""
    spans.sort(key=lambda found: (found.start, -found.end))
    joined: list[Found] = []
    for found in spans:
        if joined and found.start < joined[-1].end:
            last = joined[-1]
            joined[-1] = Found(last.start, max(last.end, found.end), last.kind)
        else:
            joined.append(found)
    return joined


def _is_token(data: bytes, start: int, end: int) -> bool:
    """Whether letters and digits stand together, as in a made token and not in a word."""
    value = data[start:end]
    return any(48 <= byte <= 57 for byte in value[3:]) and value.lower() != value.upper()


def _is_jwt(data: bytes, start: int, end: int) -> bool:
    """Whether the first part of a JWT is base64url of what looks like a whole JSON object."""
    head = data[start:end].split(b".", 1)[0].rstrip(b"=")
    try:
        decoded = base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4))
    except binascii.Error:
        return False
    return decoded.startswith(b"{") and decoded.rstrip().endswith(b"}")


def _is_credential(data: bytes, start: int, end: int) -> bool:
    """Whether a password is one and no placeholder."""
    value = data[start:end]
    return not (value.startswith((b"<", b"$", b"{", b"%", b"*", b"[")) or value in _PLACEHOLDERS)


def _is_header_value(data: bytes, start: int, end: int) -> bool:
    """Whether the value of an Authorization header is one and no placeholder in capitals."""
    return not is_metavariable(data[start:end].decode("latin-1"))


def _is_bearer(data: bytes, start: int, end: int) -> bool:
    """Whether what follows the word Bearer is a token: with digits, or longer without a break than words are."""
    value = data[start:end]
    return _is_header_value(data, start, end) and _UNBROKEN.search(value) is not None


def _is_of_a_web_client(data: bytes, start: int, end: int) -> bool:
    """Whether user:password is an option of a web client; -u means other things elsewhere (docker run -u 1000:1000)."""
    before = data[max(0, start - _CLIENT_BYTES) : start].lower()
    return _is_credential(data, start, end) and _WEB_CLIENT.search(before) is not None


def _is_registry_auth(data: bytes, start: int, end: int) -> bool:
    """Whether the value is base64 of user:password, as Docker's and npm's configuration files have it."""
    value = data[start:end]
    try:
        return b":" in base64.b64decode(value.rstrip(b"=") + b"=" * (-len(value.rstrip(b"=")) % 4))
    except binascii.Error:
        return False


_PLACEHOLDERS: Final = frozenset({b"password", b"pass", b"xxx", b"PASSWORD", b"PASS", b"..."})
_UNBROKEN: Final = re.compile(rb"[0-9]|[A-Za-z_+=~]{20}")
_CLIENT_BYTES: Final = 400
"""How far before its user:password a web client is looked for."""
_WEB_CLIENT: Final = re.compile(rb"(?:^|[^a-z0-9_.-])(?:curl(?:\.exe)?|https?|xh)[\s\"',]")
_GENUINE: Final[dict[str, Callable[[bytes, int, int], bool]]] = {
    "artifactory-token": _is_token,
    "json-web-token": _is_jwt,
    "url-credentials": _is_credential,
    "user-credentials": _is_of_a_web_client,
    "basic-credentials": _is_credential,
    "sshpass-password": _is_credential,
    "authorization-header": _is_header_value,
    "bearer-token": _is_bearer,
    "registry-credentials": _is_registry_auth,
}
"""What a linear pattern cannot say about a form."""
