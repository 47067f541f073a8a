"""What one evidence reference supports, how old it is, and how it contradicts the call.

Invariant: support depends only on kind, tier, freshness and words; a reference's own claims never raise it
above what its kind and tier allow (D5, D13, D16), and negated words support nothing (D4). `Findings.claimed`
is the documented SDK's reading, so that every difference can be named. Where words are read, errors are on the side
of "about another call" and of "negated": then the evidence supports less, which is never laxer. Plain scans only,
linear in the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import re2

from threegate.aana import vocabulary as words
from threegate.core import canonical, limits

_AHEAD: Final = timedelta(seconds=limits.AANA_AHEAD_SECONDS)
_MAX_AGE: Final = timedelta(hours=limits.AANA_MAX_AGE_HOURS)

_QUICKSTART: Final = ("other", "runtime", "redacted", "fresh")
_MISSING: Final[dict[str, Any]] = {}
_VALIDATING: Final = {"tool_result": words.RESULT_VALIDATION_WORDS, "policy": words.POLICY_VALIDATION_WORDS}
_AUTHORIZATION: Final = r"auth(?:ori[sz]ation)?"
# Authorization that is missing or was taken away, in words or in an identifier: `[^a-z]+` takes `_` and `.` too.
_GONE: Final = re2.compile(
    (
        r"(?:^|[^a-z])(?:missing|lacks|lacking|removes|removed|revokes|revoked|withdraws|withdrawn)"
        rf"(?:[^a-z]+[a-z]+){{0,3}}[^a-z]+{_AUTHORIZATION}(?:$|[^a-z])"
        rf"|(?:^|[^a-z]){_AUTHORIZATION}(?:[^a-z]+(?:context|state|is|are|was|were|has|have|been|now))*[^a-z]+"
        r"(?:missing|absent|lacking|removed|revoked|withdrawn|not[^a-z]+(?:available|found|given|granted|present))"
        rf"|(?:^|[^a-z])no(?:[^a-z]+[a-z]+){{0,3}}[^a-z]+{_AUTHORIZATION}(?:[^a-z]+[a-z]+){{0,2}}[^a-z]+"
        r"(?:available|found|given|granted|present)"
    ).encode()
)


class EvidenceFindings(NamedTuple):
    """What was read from one reference. Ranks are those of `vocabulary.STATES`."""

    source_id: str
    redaction: str
    claimed: int
    """The state that the contract's plain rules would take this for."""
    supported: int
    """The state that it supports here."""
    deviations: tuple[str, ...]
    """Why `supported` is below `claimed`, and D8 where only that rule finds it stale."""
    stale: bool
    invalid_time: bool
    contradicts: bool
    missing: bool
    gone: bool
    """It says that authorization is missing or was taken away."""
    gone_plainly: bool
    """The documented SDK sees that too; otherwise it is D16."""
    weak: tuple[str, ...]
    """The fields that let it support at most user_claimed, each with why (D5)."""
    warnings: tuple[str, ...]


def examine(
    ref: dict[str, Any] | str, tool: str, arguments: Mapping[str, Any], now: datetime, *, warn: bool
) -> EvidenceFindings:
    """Read one well-formed reference of a call of `tool` with `arguments` at `now`. `warn` asks for the warnings of
    weak evidence.
    """
    fields = _MISSING if isinstance(ref, str) else ref
    if isinstance(ref, str):
        source, summary, times = ref, "", _MISSING
        kind, tier, redaction, status = _QUICKSTART
        stale_plain = stale = invalid = contradicts = False
    else:
        source = ref["source_id"]
        summary = ref.get("summary", "").lower()
        kind = ref.get("kind", "other")
        tier = ref.get("trust_tier", "unknown")
        redaction = ref.get("redaction_status", "unknown")
        times = ref.get("freshness", _MISSING)
        status = times.get("status", "unknown")
        stale_plain, stale, invalid = _age(ref, times, status, now)
        contradicts = bool(ref.get("contradicts"))
    lowered = source.lower()
    text = f"{lowered} {summary}"
    own, claimed = _claims(kind, tier, text)
    supported = own
    deviations: tuple[str, ...] = ("D8",) if stale and not stale_plain else ()
    weak: tuple[str, ...] = ()
    # Words of confirmation count without an approval where they are verified, and about this tool by its whole name.
    may_confirm = claimed == words.CONFIRMED > own and tier == "verified" and kind not in words.NEVER_CONFIRMING_KINDS
    if may_confirm and _is_about(fields, text, tool, arguments, by_words=False):
        own = supported = words.CONFIRMED
    another = kind == "approval" and not _is_about(fields, text, tool, arguments, by_words=True)
    if another:  # it shows who agreed, and not to what
        supported = words.AUTHENTICATED
    if claimed > own:
        supported = max(own, words.USER_CLAIMED)
        plain = kind in words.CLAIMING_KINDS or claimed < words.CONFIRMED
        deviations += ("D13",) if plain else ("D16",)
    if claimed > words.NONE:
        if _is_negated(lowered, summary, kind, own if own > words.USER_CLAIMED else claimed):
            supported = words.NONE
            deviations += ("D4",)
        elif another:
            deviations += ("D16",)
        if claimed > words.USER_CLAIMED and (status != "fresh" or stale or tier in words.WEAK_TIERS):
            supported = min(supported, words.USER_CLAIMED)
            deviations += ("D5",)
            weak = _weak(fields, tier, status, stale=stale)
    missing = False
    if summary:
        missing = any(word in summary for word in words.MISSING_WORDS)
        contradicts = contradicts or any(word in summary for word in words.CONTRADICTION_WORDS)
    gone_plainly = source.startswith(words.AUTHORIZATION_GONE_SOURCE) or (
        kind == "system_state" and any(word in summary for word in words.AUTHORIZATION_GONE_WORDS)
    )
    gone = gone_plainly or ("auth" in text and _GONE.search(text.encode("utf-8", "replace")) is not None)
    return EvidenceFindings(
        source,
        redaction,
        claimed,
        supported,
        deviations,
        stale,
        invalid,
        contradicts,
        missing,
        gone,
        gone_plainly,
        weak,
        _warnings(tier, redaction, status) if warn else (),
    )


def _claims(kind: str, tier: str, text: str) -> tuple[int, int]:
    """The state that this kind may support by itself (docs/spec/3-aana.md), and the one that the documented SDK reads,
    which takes words of any kind of evidence.
    """
    if kind == "approval":
        own = words.CONFIRMED
    elif kind in _VALIDATING and any(word in text for word in _VALIDATING[kind]):
        own = words.VALIDATED
    elif kind == "auth_event":
        own = words.AUTHENTICATED
    elif kind == "user_message" or tier == "user_claimed":
        own = words.USER_CLAIMED
    else:
        own = words.NONE
    if any(word in text for word in words.CONFIRMATION_WORDS):
        return own, words.CONFIRMED
    if "authenticated" in text:
        return own, max(own, words.AUTHENTICATED)
    return own, max(own, words.USER_CLAIMED) if "user claimed" in text else own


def _weak(ref: dict[str, Any], tier: str, status: str, *, stale: bool) -> tuple[str, ...]:
    """The fields of a reference that D5 lowers it for: ``freshness is missing``, ``trust_tier is unverified``."""
    found = []
    if tier in words.WEAK_TIERS:
        found.append(f"trust_tier is {tier if 'trust_tier' in ref else 'missing'}")
    if "freshness" not in ref:
        found.append("freshness is missing")
    elif status != "fresh":
        found.append(f"freshness.status is {status if 'status' in ref['freshness'] else 'missing'}")
    elif stale:
        found.append("freshness is stale by its times")
    return tuple(found)


def _age(ref: dict[str, Any], times: dict[str, Any], status: str, now: datetime) -> tuple[bool, bool, bool]:
    """(stale by the plain rules, stale here, timestamp unreadable). Plain: says so, or older than 168 h."""
    plain = status == "stale"
    stale = plain
    limit = times.get("max_age_hours", limits.AANA_MAX_AGE_HOURS)
    if times.get("age_hours", 0) > limit:
        stale = True
    moment = ref.get("retrieved_at") or times.get("checked_at")
    if not moment:
        return plain, stale, False
    try:
        read = datetime.fromisoformat(f"{moment[:-1]}+00:00" if moment[-1] == "Z" else moment)
        if read.tzinfo is None:
            read = read.replace(tzinfo=UTC)
        age = now - read
    except ValueError:
        return plain, stale, True
    if age > _MAX_AGE:
        return True, True, False
    if age < -_AHEAD or ("max_age_hours" in times and age.total_seconds() > 3600 * limit):
        stale = True
    return plain, stale, False


def _warnings(tier: str, redaction: str, status: str) -> tuple[str, ...]:
    facts = (
        (tier in ("unverified", "unknown"), "weak_trust_tier"),
        (redaction == "unknown", "unknown_redaction_status"),
        (status == "unknown", "unknown_freshness"),
    )
    return tuple(code for holds, code in facts if holds)


# ---- whether it is about this call (D16)

_WORD: Final = re.compile(r"[a-z0-9]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME: Final = re.compile(r"\w+")
_IDENTIFIER: Final = re2.compile(rb"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]*)+")
_ARGUMENTS: Final = re2.compile(rb"arguments[.:_ -]sha-?256[.:_ -]([0-9a-f]{64})(?:$|[^0-9a-f])")

_ENDINGS: Final = (
    "ations", "ation", "ating", "ates", "ated", "ate", "ments", "ment", "ions", "ion", "ings", "ing", "als", "al",
    "ure", "ies", "ied", "es", "ed", "e", "s",
)  # fmt: skip
_SHORTEST: Final = 3
_IRREGULAR: Final = {
    "sent": "send", "paid": "pay", "wrote": "write", "written": "write", "overwrote": "overwrite",
    "overwritten": "overwrite", "withdrew": "withdraw", "withdrawn": "withdraw", "revocation": "revoke",
    "revocations": "revoke", "publication": "publish", "destruction": "destroy", "submission": "submit",
    "subscription": "subscribe", "ran": "run", "bought": "buy", "sold": "sell",
}  # fmt: skip
_FILLING: Final = words.split_words("a an the of for to in on by with and or all my new api tool mcp v1 v2 v3")
# Besides those of D6: verbs that are hardly anything else in a text.
_CLEAR_ACTS: Final = words.split_words(
    "ban clone create disable enable execute install merge migrate rename restart restore submit subscribe unsubscribe"
)
# Verbs of a tool's name, that are often something else in a text.
_OTHER_ACTS: Final = words.split_words(
    "add archive assign buy copy download edit forward invite modify move post push reply rotate run schedule sell "
    "share start stop update upload wire"
)


@functools.lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """A word without its ending, a doubled last letter once: ``deleting``, ``deletion`` and ``delete`` are one."""
    word = _IRREGULAR.get(word, word)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            word = word.removesuffix(ending)
            break
    if len(word) > _SHORTEST and (word[-1] == word[-2] or (word[-1] == "y" and word[-2] not in "aeiou")):
        word = word[:-1]
    return word


_FOREIGN_ACTS: Final = frozenset(map(_stem, (*words.DESTRUCTIVE_WORDS, *words.DESTRUCTIVE_PARTS, *_CLEAR_ACTS)))
_ACTS: Final = _FOREIGN_ACTS | frozenset(map(_stem, _OTHER_ACTS))
_VERBS: Final = _ACTS | frozenset(map(_stem, words.READ_VERBS))


class _Tool(NamedTuple):
    """The words of a tool's name, as stems."""

    whole: str
    """The name as the words of a text have it."""
    acts: frozenset[str]
    others: frozenset[str]


def _stems(name: str) -> frozenset[str]:
    """The words of a name, as stems."""
    return frozenset(map(_stem, _WORD.findall(_CAMEL.sub(" ", name).lower())))


def _fresh_tool(name: str) -> _Tool:
    stems = _stems(name) - _FILLING
    return _Tool(" ".join(_NAME.findall(name.lower())), stems & _ACTS, stems - _ACTS)


_kept_tool = functools.lru_cache(maxsize=256)(_fresh_tool)


def _is_about(ref: Mapping[str, Any], text: str, tool: str, arguments: Mapping[str, Any], *, by_words: bool) -> bool:
    """Whether a reference, whose lower-case text is `text`, is about this call and about no other one.

    It is about a call if it names the tool: as an entry of `supports`, by its whole name, or, with `by_words`, by words
    of its name in any inflection (its act, or two or more others and all of them). It is not about the call if its text
    has an act or a tool that the name does not have, or the digest of other arguments: ``arguments:sha256:<hex>``, over
    RFC 8785.
    """
    # Names of any length are not kept, because a caller could fill the memory with them.
    known = _kept_tool(tool) if len(tool) <= limits.AANA_NAME_CHARS else _fresh_tool(tool)
    supports = ref.get("supports", ())
    whole = f" {known.whole} " in f" {' '.join(_NAME.findall(text))} " if known.whole else False
    if tool not in supports and not whole:
        said = frozenset(map(_stem, _WORD.findall(text))) if by_words else frozenset()
        if not known.acts & said and not (len(known.others) > 1 and known.others <= said):
            return False
    own = known.acts | known.others
    if not {stem for word in _WORD.findall(text) if (stem := _stem(word)) in _FOREIGN_ACTS} <= own:
        return False
    for found in _IDENTIFIER.findall(ref.get("summary", "").encode("utf-8", "replace")):
        name = found.decode()
        stems = _stems(name)
        if name != tool and stems & _VERBS and not stems <= own:
            return False
    where = "\n".join((text, *supports)).lower()
    named = set(_ARGUMENTS.findall(where.encode("utf-8", "replace")))
    try:
        return not named or named == {arguments_sha256(arguments).encode()}
    except ValueError:
        return False


def arguments_sha256(arguments: Mapping[str, Any]) -> str:
    """The digest of a call's arguments, as evidence may name it. Raises ValueError for what RFC 8785 cannot write."""
    return canonical.digest(dict(arguments))


# ---- whether it denies what its words seem to say (D4): "has NOT confirmed", "unconfirmed", "approval pending"

_CLAIM: Final = ("claim", "confirm", "authent", "authoriz", "authoris", "validat", "verif")
_LOGIN: Final = tuple("authent login logged session identit credential verif signed authoriz authoris".split())
_VALIDATION: Final = (*_LOGIN, "validat", "owner", "eligib", "allow", "permit")
_CONFIRMATION: Final = (*_VALIDATION, "confirm", "approv", "consent", "agree", "sign", "permission")
# The requirements of a claim of each rank; a higher claim includes the lower ones.
_STEMS: Final[tuple[tuple[str, ...], ...]] = ((), _CLAIM, _LOGIN, _VALIDATION, _CONFIRMATION)
_SHORTEST_CLAIM: Final = min(map(len, _CONFIRMATION))

# Words that deny, doubt or only demand what comes after them in the same clause.
_BEFORE: Final = words.split_words(
    "not no never none nobody nothing neither nor without cannot cant couldnt didnt doesnt dont hasnt havent isnt "
    "wasnt werent wont wouldnt lack lacks lacking lacked absent missing fail fails failed failing failure unable "
    "refuse refuses refused decline declines declined deny denies denied reject rejects rejected revoke revoked "
    "withdrew withdrawn pending await awaits awaiting until unless if whether must should need needs requires "
    "require requiring would could might may unlikely doubtful yet un non false falsely allegedly alleged "
    "supposedly claims zero will shall wants intends plans promises promised hopes expects expected"
)

# Words that deny what precedes them in the same clause.
_AFTER: Final = words.split_words(
    "not never no none false nothing nobody denied rejected refused declined missing pending revoked withdrawn "
    "withheld expired failed absent lacking outstanding required requested needed awaited sought unavailable "
    "impossible invalid incomplete unanswered ignored retracted rescinded overturned postponed deferred aborted "
    "abandoned suspended cancelled canceled disputed denies void 0 later soon"
)

# Words that deny evidence whose kind alone makes the claim, when nothing in its summary affirms.
_REFUSED: Final = words.split_words(
    "denied deny rejected reject refused declined revoked withdrawn withdrew withheld cancelled canceled expired "
    "pending awaiting failed unsigned unanswered ignored retracted rescinded overturned postponed deferred aborted "
    "abandoned suspended void invalid disputed objected opposed not no never none false missing cannot ?"
)

# What is still to be done after "to".
_TO_DO: Final = words.split_words(
    "confirm approve authenticate validate verify authorize authorise consent agree sign permit allow"
)

_PREFIXES: Final = ("un", "non", "in", "dis", "mis", "il")
# How many words after a claim a denial is looked for.
_WINDOW: Final = 5

# Finds every text that holds one of the words above; anything else is not negated.
_HINT: Final = re2.compile(
    (
        r"\?|n't\b|\bto\b|\b(?:un|non|in|dis|mis|il)[a-z]|\b(?:"
        + "|".join(sorted((_BEFORE | _AFTER | _REFUSED) - {"?"}))
        + r")\b"
    ).encode()
)

_MORE: Final = r"(?:further|additional|more|other|extra|second|repeated) (?:[a-z-]+ ){0,2}[a-z-]+"
# That nothing more is asked for denies nothing: "no further confirmation needed".
_SETTLED: Final = re2.compile(
    (
        rf"\b(?:no {_MORE} (?:(?:is|are|was|were) )?(?:needed|required|necessary|outstanding|pending)"
        rf"|(?:(?:needs?|requires?) no|(?:does not|doesn't|do not|don't) (?:need|require)(?: any)?) {_MORE}"
        rf"|{_MORE} (?:(?:is|are|was|were) (?:not|no longer)|isn't|aren't) (?:needed|required|necessary))\b"
    ).encode()
)

_SPACES: Final = str.maketrans(dict.fromkeys('._:-/()[]{}"=|_#@<>*+&', " ") | {"’": "'", ",": " , "})


def _is_negated(source: str, summary: str, kind: str, claimed: int) -> bool:
    """Whether a reference's lower-case source and summary deny the claim of rank `claimed` that it makes."""
    text = f"{source};{summary}"
    if _HINT.search(text.translate(_SPACES).encode("utf-8", "replace")) is None:
        return False
    text = _SETTLED.sub(b" ", text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    stems = _STEMS[claimed]
    affirmed = refused = False
    for number, clause in enumerate(_clauses(text)):
        denied, said = _read(clause, stems)
        if denied:
            return True
        affirmed = affirmed or (said and number > 0)
        refused = refused or not _REFUSED.isdisjoint(clause) or any(word.endswith("n't") for word in clause)
    by_kind = (kind == "approval" and claimed == words.CONFIRMED) or kind == "auth_event"
    return by_kind and refused and not affirmed


def _clauses(text: str) -> list[list[str]]:
    """The text's clauses as lists of words, the source first; a comma is a word of its own."""
    text = text.replace("?", " ? ;")
    for mark in (". ", "! ", "\n", " but ", " however "):
        text = text.replace(mark, ";")
    return [clause.split() for clause in text.translate(_SPACES).split(";")]


def _read(clause: list[str], stems: tuple[str, ...]) -> tuple[bool, bool]:
    """(a claim's word is denied, a claim's word occurs undenied). A question denies, as does "to confirm"."""
    before = "?" in clause
    said = False
    for index, word in enumerate(clause):
        place = _claim_at(word, stems)
        if place >= 0:
            infinitive = word in _TO_DO and index > 0 and clause[index - 1] == "to"
            if before or infinitive or word[:place].endswith(_PREFIXES) or _denied_after(clause, index):
                return True, said
            said = True
        if word in _BEFORE or word.endswith("n't") or (word == "be" and clause[index - 1] == "to"):
            before = True
    return False, said


def _claim_at(word: str, stems: tuple[str, ...]) -> int:
    """Where in the word a claim begins, or -1."""
    if len(word) < _SHORTEST_CLAIM:  # 64 KiB of single characters are read in time
        return -1
    for stem in stems:
        place = word.find(stem)
        if place >= 0:
            return place
    return -1


def _denied_after(clause: list[str], index: int) -> bool:
    previous = ""
    for word in clause[index + 1 : index + 1 + _WINDOW]:
        if word == ",":
            return False
        if (word in _AFTER and not (word == "no" and previous == "with")) or word.endswith("n't"):
            return True
        previous = word
    return False
