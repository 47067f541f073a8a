"""The two formats that the schema asserts: `uri` (RFC 3986, absolute, ASCII) and `date-time` (RFC 3339).

Invariant: linear time, ASCII grammars, full match; a date that does not exist is invalid, and so is a leap
second (as in the jsonschema library).
"""

from __future__ import annotations

import calendar
import ipaddress
import re
from typing import Final

_NAME = r"A-Za-z0-9\-._~!$&'*+,;=()"


def _text(characters: str) -> str:
    """Any number of some characters, and of percent signs with two hexadecimal digits.

    It gives nothing back: what follows it in a URI begins with none of these, so a shorter match would help nothing.
    """
    return f"[{characters}]*+(?>(?:%[0-9A-Fa-f]{{2}}[{characters}]*+)*)"


_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+\-.]*:"
    rf"(?://(?:{_text(_NAME + ':')}@)?"
    rf"(?:\[(?P<literal>[0-9A-Fa-f:.]+|[vV][0-9A-Fa-f]+\.[{_NAME}:]+)\]|{_text(_NAME)})"
    rf"(?::[0-9]*)?(?:/{_text(_NAME + ':@/')})?"
    rf"|(?!//){_text(_NAME + ':@/')})"
    rf"(?:\?{_text(_NAME + ':@/?')})?"
    rf"(?:\#{_text(_NAME + ':@/?')})?",
    re.ASCII,
)
_DATE_TIME: Final = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-([0-9]{2})[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])",
    re.ASCII,
)


def is_uri(text: str) -> bool:
    """Whether `text` is a URI of RFC 3986 (with a scheme)."""
    match = _URI.fullmatch(text)
    if match is None:
        return False
    literal = match["literal"]
    if literal is None or literal[0] in "vV":
        return True
    try:
        ipaddress.IPv6Address(literal)
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """Whether `text` is a date and time of RFC 3339."""
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return False
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    return year > 0 and 1 <= day <= calendar.monthrange(year, month)[1]
