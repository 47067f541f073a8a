"""Whether evidence denies what its words seem to say: "has NOT confirmed", "unconfirmed", "approval pending".

Invariant: errs on the side of "negated": then the evidence supports nothing, which is never laxer (D4). Plain
string scans only, linear in the text.
"""

from __future__ import annotations

from typing import Final

import re2

from threegate.aana import vocabulary as words

_CLAIM: Final = ("claim", "confirm", "authent", "authoriz", "authoris", "validat", "verif")
_LOGIN: Final = (
    "authent",
    "login",
    "logged",
    "session",
    "identit",
    "credential",
    "verif",
    "signed",
    "authoriz",
    "authoris",
)
_VALIDATION: Final = (*_LOGIN, "validat", "owner", "eligib", "allow", "permit")
_CONFIRMATION: Final = (*_VALIDATION, "confirm", "approv", "consent", "agree", "sign", "permission")
_STEMS: Final[tuple[tuple[str, ...], ...]] = ((), _CLAIM, _LOGIN, _VALIDATION, _CONFIRMATION)
"""The requirements of a claim of each rank; a higher claim includes the lower ones."""
_SHORTEST: Final = min(map(len, _CONFIRMATION))

_BEFORE: Final = words.split_words(
    "not no never none nobody nothing neither nor without cannot cant couldnt didnt doesnt dont hasnt havent isnt "
    "wasnt werent wont wouldnt lack lacks lacking lacked absent missing fail fails failed failing failure unable "
    "refuse refuses refused decline declines declined deny denies denied reject rejects rejected revoke revoked "
    "withdrew withdrawn pending await awaits awaiting until unless if whether must should need needs requires "
    "require requiring would could might may unlikely doubtful yet un non false falsely allegedly alleged "
    "supposedly claims zero will shall wants intends plans promises promised hopes expects expected"
)
"""Words that deny, doubt or only demand what comes after them in the same clause."""

_AFTER: Final = words.split_words(
    "not never no none false nothing nobody denied rejected refused declined missing pending revoked withdrawn "
    "withheld expired failed absent lacking outstanding required requested needed awaited sought unavailable "
    "impossible invalid incomplete unanswered ignored retracted rescinded overturned postponed deferred aborted "
    "abandoned suspended cancelled canceled disputed denies void 0 later soon"
)
"""Words that deny what precedes them in the same clause."""

_REFUSED: Final = words.split_words(
    "denied deny rejected reject refused declined revoked withdrawn withdrew withheld cancelled canceled expired "
    "pending awaiting failed unsigned unanswered ignored retracted rescinded overturned postponed deferred aborted "
    "abandoned suspended void invalid disputed objected opposed not no never none false missing cannot ?"
)
"""Words that deny evidence whose kind alone makes the claim, when nothing in its summary affirms."""

_VERBS: Final = words.split_words(
    "confirm approve authenticate validate verify authorize authorise consent agree sign permit allow"
)
"""What is still to be done after "to"."""

_PREFIXES: Final = ("un", "non", "in", "dis", "mis", "il")
_WINDOW: Final = 5
"""How many words after a claim a denial is looked for."""

_HINT: Final = re2.compile(
    (
        r"\?|n't\b|\bto\b|\b(?:un|non|in|dis|mis|il)[a-z]|\b(?:"
        + "|".join(sorted((_BEFORE | _AFTER | _REFUSED) - {"?"}))
        + r")\b"
    ).encode()
)
"""Finds every text that holds one of the words above; anything else is not negated."""

_MORE: Final = r"(?:further|additional|more|other|extra|second|repeated) (?:[a-z-]+ ){0,2}[a-z-]+"
_SETTLED: Final = re2.compile(
    (
        rf"\b(?:no {_MORE} (?:(?:is|are|was|were) )?(?:needed|required|necessary|outstanding|pending)"
        rf"|(?:(?:needs?|requires?) no|(?:does not|doesn't|do not|don't) (?:need|require)(?: any)?) {_MORE}"
        rf"|{_MORE} (?:(?:is|are|was|were) (?:not|no longer)|isn't|aren't) (?:needed|required|necessary))\b"
    ).encode()
)
"""That nothing more is asked for denies nothing: "no further confirmation needed"."""

_SPACES: Final = str.maketrans(dict.fromkeys('._:-/()[]{}"=|_#@<>*+&', " ") | {"’": "'", ",": " , "})


def is_negated(source: str, summary: str, kind: str, claimed: int) -> bool:
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
    """(a claim's word is denied, a claim's word stands there undenied). A question denies, as does "to confirm"."""
    before = "?" in clause
    said = False
    for index, word in enumerate(clause):
        place = _stem(word, stems)
        if place >= 0:
            infinitive = word in _VERBS and index > 0 and clause[index - 1] == "to"
            if before or infinitive or word[:place].endswith(_PREFIXES) or _denied_after(clause, index):
                return True, said
            said = True
        if word in _BEFORE or word.endswith("n't") or (word == "be" and clause[index - 1] == "to"):
            before = True
    return False, said


def _stem(word: str, stems: tuple[str, ...]) -> int:
    """Where in the word a claim begins, or -1."""
    if len(word) < _SHORTEST:  # 64 KiB of single characters are read in time
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
