"""Hosts that could be taken for another one, and the hosts that a text names in addresses.

Invariant: pure. Two names of one owner (the same name below the same suffix) never count as look-alikes: which names
one owner has is guessed from the suffix, as no list of suffixes is asked for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import Final, NamedTuple

from threegate.core import limits
from threegate.request.hosts import is_local_name
from threegate.trail.past_uses import Ran

_SHARED: Final = frozenset(
    """github.io gitlab.io pages.dev workers.dev vercel.app netlify.app herokuapp.com amazonaws.com cloudfront.net
    azurewebsites.net blob.core.windows.net web.app firebaseapp.com appspot.com run.app fly.dev onrender.com ngrok.io
    ngrok-free.app ngrok.app blogspot.com wordpress.com myshopify.com""".split()
)
"""Below these, each name has another owner."""
_SECOND: Final = frozenset("ac co com edu gov net or org".split())
"""Second labels of the suffixes of countries, such as co.uk."""
_FORMS: Final = str.maketrans(
    {
        **dict(zip("аеорсухіјѕԁԛԝһӏьв", "aeopcyxijsdqwhlbb", strict=True)),  # Cyrillic
        **dict(zip("αορνικτυχε", "aopviktuxe", strict=True)),  # Greek
        **dict(zip("ıøłđħŧæœß", "iolhhtaob", strict=True)),
        **dict(zip("01i", "oll", strict=True)),
    }
)
_PAIRS: Final = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_ENDS: Final = re.compile(r"[\s/?#\\\"'`<>(),;|{}\[\]]")
_NAME: Final = re.compile(r"[^\x00-\x2c/:-@\[-^`{-\x7f]+")
_LEAST: Final = 4
"""Characters of a name that is compared with the same name below another suffix."""
_ONE_OFF: Final = 5
_TWO_OFF: Final = 8
"""Characters of a name that may differ from another one in one place, or in two."""
_MOST: Final = 2
_WORDS: Final = 4
"""Words of a name whose order is looked at."""


class Alike(NamedTuple):
    """The host that a name looks like, and what ran with it."""

    host: str
    ran: Ran


class _Parts(NamedTuple):
    """`name` is the label that its owner chose, below `suffix`."""

    below: str
    name: str
    suffix: str

    @property
    def owned(self) -> str:
        return f"{self.name}.{self.suffix}"


class _Known(NamedTuple):
    """A host that ran, and what it is compared by."""

    alike: Alike
    parts: _Parts
    dotted: str
    form: str
    letters: str
    mask: int


class PastHosts:
    """The hosts that ran before, ready to be compared with: at most HOSTS_COMPARED, those of most runs."""

    def __init__(self, hosts: Iterable[tuple[str, Ran]]) -> None:
        most = sorted(hosts, key=lambda item: (-item[1].runs, item[0]))[: limits.HOSTS_COMPARED]
        self._hosts = [
            _Known(
                Alike(host, ran),
                parts := _parts(host),
                f".{parts.owned}.",
                _form(parts.name),
                _letters(parts),
                _mask(parts.name),
            )
            for host, ran in most
        ]

    def like(self, host: str, own: int) -> Alike | None:
        """The host of most runs that this one could be taken for, among those of more runs than its `own`."""
        parts = _parts(host)
        owned, form, letters, mask, dotted = (
            parts.owned,
            _form(parts.name),
            _letters(parts),
            _mask(parts.name),
            f".{host}.",
        )
        names = (parts.name, *parts.below.split("."))
        # The cheap questions first: a list asks this for each host of each draft.
        for known in self._hosts:
            if known.alike.ran.runs <= own:
                return None
            other = known.parts
            if other.owned != owned and (
                known.dotted in dotted
                or form == known.form
                or (other.name in names and len(other.name) >= _LEAST)
                or (letters == known.letters and _joined(other, parts))
                or ((mask ^ known.mask).bit_count() <= 2 * _MOST and _near(parts.name, other.name))
            ):
                return known.alike
        return None


def hosts_in(text: str) -> Iterator[str]:
    """The hosts of the addresses in a text, in lower case. A name that is put together by the code is not one."""
    at = -1
    for _ in range(limits.URLS_READ):
        at = text.find("://", at + 1)
        if at < 0:
            return
        rest = text[at + 3 : at + 3 + limits.URL_HOST_CHARS]
        end = _ENDS.search(rest)
        cut = rest if end is None else rest[: end.start()]
        # What is before the last @ is a user's name, whatever it looks like.
        found = _NAME.match(cut.rpartition("@")[2])
        host = "" if found is None else found[0].lower().rstrip(".")
        if host and not is_local_name(host) and (end is None or end[0] != "{"):
            yield host


def _parts(host: str) -> _Parts:
    labels = [_read(label) for label in host.split(".")]
    for size in (3, 2):
        if len(labels) > size and ".".join(labels[-size:]) in _SHARED:
            break
    else:
        size = 2 if len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND else 1
    if len(labels) <= size:
        return _Parts("", host, "")
    return _Parts(".".join(labels[: -size - 1]), labels[-size - 1], ".".join(labels[-size:]))


def _read(label: str) -> str:
    """A label as a person sees it."""
    try:
        return label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label
    except UnicodeError:
        return label


def _form(name: str) -> str:
    """The same for names that look the same."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", name.lower()) if not unicodedata.combining(char))
    plain = plain.translate(_FORMS)
    for pair, one in _PAIRS:
        plain = plain.replace(pair, one)
    return plain


def _words(parts: _Parts) -> list[str]:
    """The words of a name, without its suffix."""
    return [word for word in re.split(r"[.-]", f"{parts.below}.{parts.name}") if word]


def _letters(parts: _Parts) -> str:
    """The same for names that have the same words."""
    return "".join(sorted("".join(_words(parts))))


def _mask(name: str) -> int:
    """A bit for each letter that a name has: one change of the name changes at most two."""
    mask = 0
    for char in name:
        mask |= 1 << (ord(char) & 63)
    return mask


def _joined(other: _Parts, parts: _Parts) -> bool:
    """Whether a name has the words of another one, in some order, whatever is between them."""
    theirs, words = _words(other), _words(parts)
    whole = "".join(words)
    if len(theirs) < 2 or len(whole) < _LEAST:
        return False
    if len(theirs) > _WORDS:
        return sorted(words) == sorted(theirs)
    return any("".join(order) == whole for order in permutations(theirs))


def _near(one: str, other: str) -> bool:
    """Whether two names of some length differ in one place, or long ones in two."""
    least = min(len(one), len(other))
    most = _MOST if least >= _TWO_OFF else 1 if least >= _ONE_OFF else 0
    return 0 < _distance(one, other, most) <= most


def _distance(one: str, other: str, most: int) -> int:
    """Letters that were replaced, added, left out or exchanged with the next one; more than `most` is `most` + 1."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    above: list[int] = []
    row = list(range(len(other) + 1))
    for at, char in enumerate(one, start=1):
        above, before, row = row, above, [at]
        for place, letter in enumerate(other, start=1):
            least = min(above[place] + 1, row[-1] + 1, above[place - 1] + (char != letter))
            if at > 1 and place > 1 and char == other[place - 2] and letter == one[at - 2]:
                least = min(least, before[place - 2] + 1)
            row.append(least)
        if min(row) > most:
            return most + 1
    return row[-1]
