"""Secrets and personal data in an event: whether, where, and how to describe the event without them.

Invariant: one pass over all texts decides whether there is anything; only then are the places searched. All
patterns are linear (RE2). What was found leaves this module only as its kind (D9).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import re2

from threegate.core import limits
from threegate.core.secretscan.scan import find_secrets, mask_secrets

_LEFT: Final = r"(?:^|[^\pL\pN_])"
_RIGHT: Final = r"(?:$|[^\pL\pN_])"
_BLANK: Final = r"[\s\x{0b}\x{1c}-\x{1f}\x{85}\pZ]"
_KEY: Final = r"(?:^|[^A-Za-z0-9_])(sk-[A-Za-z0-9_-]{12,})"
_CLOUD_KEY: Final = _LEFT + r"(AKIA[0-9A-Z]{16})" + _RIGHT
_ASSIGNED: Final = (
    r"(?i)" + _LEFT + rf"(?:api[_-]?key|secret|token|password){_BLANK}*[:=]{_BLANK}*['\"]?" + r"([a-z0-9_.\-]{8,})"
)
_SOCIAL: Final = _LEFT + r"(\p{Nd}{3}-\p{Nd}{2}-\p{Nd}{4})" + _RIGHT
_CARD: Final = _LEFT + r"((?:\p{Nd}[ -]*){12,15}\p{Nd}[ -]*)" + _RIGHT
_EMAIL: Final = r"(?i)([a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,})" + _RIGHT
_PHONE: Final = (
    _LEFT
    + rf"((?:\+?1(?:[-.]|{_BLANK})?)?\(?\p{{Nd}}{{3}}\)?(?:[-.]|{_BLANK})?\p{{Nd}}{{3}}(?:[-.]|{_BLANK})?\p{{Nd}}{{4}})"
    + _RIGHT
)


@cache
def _compiled(*patterns: str) -> Any:
    """Compiled where it is first asked: most are for events in which something was found."""
    return re2.compile("|".join(f"(?:{pattern})" for pattern in patterns).encode())


# Secrets that the documented SDK knows in a reference; `secretscan` knows many more (D7).
_PLAIN: Final = (_KEY, _CLOUD_KEY, _ASSIGNED, _SOCIAL, _CARD)
_PERSONAL: Final = (_EMAIL, _PHONE)
_LEAKS: Final = (*_PLAIN, *_PERSONAL)
# A router's key of any length, in every text.
_ROUTER: Final = r"(?:^|[^A-Za-z0-9_])(sk-or-v1-[A-Za-z0-9]{20,})"
# Stands between texts that are looked through at once: no value can begin in one and be named in another.
_BETWEEN: Final = "\n\0\n"
# Each pattern's only group is what must not be shown.
_MASKS: Final = (
    (_KEY, b"[key]"),
    (_CLOUD_KEY, b"[key]"),
    (_ASSIGNED, b"[assigned-secret]"),
    (_SOCIAL, b"[number]"),
    (_CARD, b"[number]"),
    (_EMAIL, b"[email]"),
    (_PHONE, b"[phone]"),
)
# What the documented SDK writes behind a reference that is only a string, and reads with it.
_QUICKSTART: Final = " Quickstart evidence reference supplied by the agent runtime. runtime_quickstart"
# What the plain rules read for leaks, besides a reference's source.
_READ_FIELDS: Final = ("summary", "citation_url", "retrieval_url", "provenance")
_OTHER_FIELDS: Final = ("user_intent", "request_id", "agent_id")
# Neighbours share the character between them, so that one pass finds every other one.
_MASK_PASSES: Final = 2


class Leaks(NamedTuple):
    """The places of secrets and personal data."""

    evidence_secret: bool
    """One that the documented SDK knows, in the texts of a reference that it reads."""
    evidence_personal: bool
    """Personal data in a reference that is not `redacted`."""
    evidence_hidden: bool
    """Any other, or one in the rest of a reference: supports, contradicts, freshness (D7)."""
    arguments: bool
    """A secret in values or keys of the arguments (D7)."""
    elsewhere: bool
    """A secret in the tool's name, the intent or an id (D7)."""


NOTHING: Final = Leaks(False, False, False, False, False)


def find_leaks(event: dict[str, Any], lines: list[str]) -> Leaks:
    """All leaks of a well-formed event; `lines` are the texts of its arguments."""
    refs = event["evidence_refs"]
    texts, hidden = [], []
    for ref in refs:
        if isinstance(ref, str):
            texts.append(ref + _QUICKSTART)
            continue
        texts.append(" ".join((ref["source_id"], *(ref.get(field, "") for field in _READ_FIELDS))))
        freshness = ref.get("freshness", {})
        times = (ref.get("retrieved_at", ""), freshness.get("checked_at", ""), freshness.get("source", ""))
        hidden.append("\n".join((*times, *ref.get("supports", ()), *ref.get("contradicts", ()))))
    other = [event["tool_name"], *(event[field] for field in _OTHER_FIELDS if field in event)]
    if "authorization_subject" in event:
        other.append(event["authorization_subject"].get("subject_ref", ""))
    parts = [*texts, *hidden, *lines, *other]
    places = _secret_parts(parts)
    in_evidence = bool(texts) and _search(_LEAKS, "\n".join(texts))
    if not places and not in_evidence:
        return NOTHING
    secret = personal = hidden_secret = False
    for index, (ref, text) in enumerate(zip(refs, texts, strict=True)):
        if in_evidence and _search(_PLAIN, text):
            secret = True
        elif index in places:
            hidden_secret = True
        elif in_evidence and not isinstance(ref, str) and ref.get("redaction_status") != "redacted":
            personal = personal or _search(_PERSONAL, text)
    arguments = len(texts) + len(hidden)
    others = arguments + len(lines)
    return Leaks(
        secret,
        personal,
        hidden_secret or any(len(texts) <= index < arguments for index in places),
        any(arguments <= index < others for index in places),
        any(index >= others for index in places),
    )


def _secret_parts(parts: list[str]) -> set[int]:
    """Which of the texts hold a secret; all are looked through at once."""
    everything = _BETWEEN.join(parts).encode("utf-8", "replace").decode()  # no lone surrogate, the same length
    starts = [found.start for found in find_secrets(everything)]
    if "sk-or-v1-" in everything:
        starts += [match.start(1) for match in re2.finditer(_ROUTER, everything)]
    if not starts:
        return set()
    ends = list(accumulate(len(part) + len(_BETWEEN) for part in parts))
    return {bisect_right(ends, start) for start in starts}


def masked(text: str) -> str:
    """`text` with every secret and all personal data replaced by their kind."""
    data = mask_secrets(text).encode("utf-8", "replace")
    if _compiled(*_LEAKS).search(data) is None:
        return data.decode("utf-8", "replace")  # the same patterns as _MASKS, in one search
    for pattern, kind in _MASKS:
        for _ in range(_MASK_PASSES):
            data, found = _compiled(pattern).subn(lambda match, kind=kind: match[0].replace(match[1], kind), data)
            if not found:
                break
    return data.decode("utf-8", "replace")


def masked_all(texts: list[str]) -> list[str]:
    """Each of the texts, masked; done at once, since there may be thousands of them."""
    together = masked(_BETWEEN.join(texts)).split(_BETWEEN)
    return together if len(together) == len(texts) else [masked(text) for text in texts]


def masked_names(values: Sequence[Any]) -> list[str | None]:
    """Identifiers, masked (all at once) before they are cut; None for what is none."""
    names = [value if isinstance(value, str) and len(value) <= limits.AANA_EVENT_BYTES else None for value in values]
    safe = iter(masked_all([name for name in names if name is not None]))
    return [None if name is None else next(safe)[: limits.AANA_NAME_CHARS] for name in names]


def _search(patterns: tuple[str, ...], text: str) -> bool:
    return _compiled(*patterns).search(text.encode("utf-8", "replace")) is not None
