"""Whether evidence that claims a confirmation is about the call at hand, and about no other one (D16).

Invariant: errs on the side of "about another": then the evidence confirms nothing, which is never laxer. Evidence is
about a call if it names the tool: as an entry of `supports`, by its whole name, or by words of its name in any
inflection (its act, or two or more others and all of them). It is not about the call if its text has an act or a tool
that the name does not have, or the digest of other arguments. Plain scans only, linear in the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import re2

from threegate.aana import vocabulary as words
from threegate.core import canonical, limits

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
_CLEAR_ACTS: Final = words.split_words(
    "ban clone create disable enable execute install merge migrate rename restart restore submit subscribe unsubscribe"
)
"""Besides those of D6: verbs that are hardly anything else in a text."""
_OTHER_ACTS: Final = words.split_words(
    "add archive assign buy copy download edit forward invite modify move post push reply rotate run schedule sell "
    "share start stop update upload wire"
)
"""Verbs of a tool's name, that are often something else in a text."""


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

    name: str
    whole: str
    """The name as the words of a text have it."""
    acts: frozenset[str]
    others: frozenset[str]


def _fresh_tool(name: str) -> _Tool:
    stems = frozenset(map(_stem, _spoken(name))) - _FILLING
    return _Tool(name, " ".join(_NAME.findall(name.lower())), stems & _ACTS, stems - _ACTS)


_kept_tool = functools.lru_cache(maxsize=256)(_fresh_tool)


def _spoken(name: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub(" ", name).lower())


def is_named(ref: Mapping[str, Any], text: str, tool: str) -> bool:
    """Whether a reference names the tool: in `supports`, or by its whole name in its lower-case text."""
    whole = _tool(tool).whole
    return tool in ref.get("supports", ()) or (bool(whole) and f" {whole} " in f" {' '.join(_NAME.findall(text))} ")


def is_spoken_of(ref: Mapping[str, Any], text: str, tool: str) -> bool:
    """Whether a reference names the tool, or speaks of what it does by the words of its name."""
    if is_named(ref, text, tool):
        return True
    known, said = _tool(tool), frozenset(map(_stem, _WORD.findall(text)))
    return bool(known.acts & said) or (len(known.others) > 1 and known.others <= said)


def is_about_another(ref: Mapping[str, Any], text: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a reference speaks of another act or tool, or has the digest of other arguments."""
    known = _tool(tool)
    own = known.acts | known.others
    if not {stem for word in _WORD.findall(text) if (stem := _stem(word)) in _FOREIGN_ACTS} <= own:
        return True
    for found in _IDENTIFIER.findall(ref.get("summary", "").encode("utf-8", "replace")):
        name = found.decode()
        stems = frozenset(map(_stem, _spoken(name)))
        if name != tool and stems & _VERBS and not stems <= own:
            return True
    return not _fits(ref, text, arguments)


def _fits(ref: Mapping[str, Any], text: str, arguments: Mapping[str, Any]) -> bool:
    """Whether each digest of arguments in a reference is that of these: ``arguments:sha256:<hex>``, over RFC 8785."""
    where = "\n".join((text, *ref.get("supports", ()))).lower()
    named = set(_ARGUMENTS.findall(where.encode("utf-8", "replace")))
    if not named:
        return True
    try:
        return named == {arguments_sha256(arguments).encode()}
    except ValueError:
        return False


def arguments_sha256(arguments: Mapping[str, Any]) -> str:
    """The digest of a call's arguments, as evidence may name it. Raises ValueError for what RFC 8785 cannot write."""
    return canonical.digest(dict(arguments))


def _tool(name: str) -> _Tool:
    return _kept_tool(name) if len(name) <= limits.AANA_NAME_CHARS else _fresh_tool(name)
