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
"""What a claim of each rank is made of, by the rank; a higher claim stands on the lower ones."""

_BEFORE: Final = words.split_words(
    "not no never none nobody nothing neither nor without cannot cant couldnt didnt doesnt dont hasnt havent isnt "
    "wasnt werent wont wouldnt lack lacks lacking lacked absent missing fail fails failed failing failure unable "
    "refuse refuses refused decline declines declined deny denies denied reject rejects rejected revoke revoked "
    "withdrew withdrawn pending await awaits awaiting until unless if whether must should need needs requires "
    "require requiring would could might may unlikely doubtful yet un non false falsely allegedly alleged "
    "supposedly claims zero"
)
"""Words that deny, doubt or only demand what comes after them in the same clause."""

_AFTER: Final = words.split_words(
    "not never no none false nothing nobody denied rejected refused declined missing pending revoked withdrawn "
    "expired failed absent lacking outstanding required needed awaited unavailable impossible invalid incomplete "
    "cancelled canceled disputed denies void 0"
)
"""Words that deny what came shortly before them in the same clause."""

_REFUSED: Final = words.split_words(
    "denied deny rejected reject refused declined revoked withdrawn withdrew cancelled canceled expired pending "
    "awaiting failed unsigned void invalid disputed not no never none false missing cannot"
)
"""Words that deny evidence whose kind alone makes the claim, when nothing in its summary affirms."""

_PREFIXES: Final = ("un", "non", "in", "dis", "mis", "il")
_WINDOW: Final = 5
"""How many words after a claim a denial is looked for."""

_HINT: Final = re2.compile(
    (
        r"\b(?:no|non|not|none|nor|never|nobody|nothing|neither|un|if|yet|may|void|zero|0)\b|n['’]?t\b|\b(?:un|non|in|dis|mis|il)[a-z]"
        r"|false|without|lack|absent|missing|fail|unable|refus|declin|den[iy]|reject|revo[kc]|withdr|pending|await"
        r"|until|unless|whether|must|should|need|requir|would|could|might|doubt|alleg|suppos|claims|expire"
        r"|outstanding|impossible|cancel|disput|cannot|can't|to be"
    ).encode()
)
"""Finds at least every text that holds one of the words above; anything else is not negated."""

_SPACES: Final = str.maketrans(dict.fromkeys('._:-/()[]{}"=|_#@<>*+&', " ") | {"’": "'", ",": " , "})


def is_negated(source: str, summary: str, kind: str, claimed: int) -> bool:
    """Whether a reference's lower-case source and summary deny the claim of rank `claimed` that it makes."""
    text = f"{source};{summary}"
    if _HINT.search(text.translate(_SPACES).encode("utf-8", "replace")) is None:
        return False
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
    for mark in (". ", "! ", "? ", "\n", " but ", " however "):
        text = text.replace(mark, ";")
    return [clause.translate(_SPACES).split() for clause in text.split(";")]


def _read(clause: list[str], stems: tuple[str, ...]) -> tuple[bool, bool]:
    """(a claim's word is denied, a claim's word stands there undenied)."""
    before = False
    said = False
    for index, word in enumerate(clause):
        place = _stem(word, stems)
        if place >= 0:
            if before or word[:place].endswith(_PREFIXES) or _denied_after(clause, index):
                return True, said
            said = True
        if word in _BEFORE or word.endswith("n't") or (word == "be" and clause[index - 1] == "to"):
            before = True
    return False, said


def _stem(word: str, stems: tuple[str, ...]) -> int:
    """Where in the word a claim begins, or -1."""
    for stem in stems:
        place = word.find(stem)
        if place >= 0:
            return place
    return -1


def _denied_after(clause: list[str], index: int) -> bool:
    for word in clause[index + 1 : index + 1 + _WINDOW]:
        if word == ",":
            return False
        if word in _AFTER or word.endswith("n't"):
            return True
    return False
