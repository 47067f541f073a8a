"""Words that make an action dangerous, found in any spelling.

Invariant: case, compatibility forms, invisible characters, camelCase, `_ - .`, look-alike letters of other
scripts and digits used as letters do not hide a word. False alarms are accepted: a refused proposal costs a
sentence, a typed password costs an account.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from threegate.core.secretscan.scan import has_secret
from threegate.request.characters import is_hidden

_SUBMITTING: Final = frozenset(
    (
        "submit send pay payment purchase buy checkout order transfer "
        "wire delete destroy password token secret credential"
    ).split()
)

_STRONG: Final = (
    "password passwd passcode passphrase passwort kennwort contrasena senha motdepasse token secret "
    "credential bearer otp totp onetimecode onetimepassword cvv cvc ssn socialsecurity securitycode "
    "verificationcode apikey accesskey privatekey seedphrase recoveryphrase mnemonic cardnumber "
    "creditcard debitcard pwd iban"
).split()
"""Refused in names and in typed text; words of more than three letters also inside longer words."""
_STRONG_WORDS: Final = frozenset(form for word in _STRONG for form in (word, word + "s"))
_STRONG_INSIDE: Final = re.compile("|".join(word for word in _STRONG if len(word) > 3))
_WEAK: Final = frozenset("key card pin tan mfa 2fa auth cc pass sin pan code2fa login2fa".split())
"""Refused as a word of a field's name; in typed text only before a value."""

_LOOKALIKES: Final = str.maketrans("абвгеһіјкӏмнорԛѕтυухԝүαβεικνορτυχϲԁɡıł", "abbgehijklmhopqstuyxwyabeikvoptuxcdgil")
_DIGITS: Final = str.maketrans("013457$@!|", "oleastsaii")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[a-z0-9$@!|]+")
_CARD: Final = re.compile(r"(?:[0-9][ -]?){12,18}[0-9]")
_SSN: Final = re.compile(r"(?<![0-9])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![0-9])")
_WEAK_VALUE: Final = re.compile(rf"\b(?:{'|'.join(sorted(_WEAK))})\b\s*(?:number|code|is)?\s*[:=#]?\s*[0-9:=]")


def says_submit(text: str) -> bool:
    """Whether a click's intent, label or purpose indicates that it submits, pays, destroys or reveals a secret."""
    return any(word in _SUBMITTING or word.rstrip("s") in _SUBMITTING for form in _forms(text) for word in form)


def names_secret(text: str) -> bool:
    """Whether a field's name, label, selector or purpose indicates a secret."""
    forms = _forms(text)
    return any(word in _WEAK or word.rstrip("s") in _WEAK for form in forms for word in form) or _says_strong(forms)


def types_secret(text: str) -> bool:
    """Whether a text to be typed is a secret or looks like one."""
    plain = _plain(text)
    return (
        _says_strong(_forms(text))
        or has_secret(text)
        or _SSN.search(plain) is not None
        or _WEAK_VALUE.search(plain.lower()) is not None
        or any(_is_card(match[0]) for match in _CARD.finditer(plain))
    )


def _says_strong(forms: list[list[str]]) -> bool:
    return any(not _STRONG_WORDS.isdisjoint(form) or _STRONG_INSIDE.search("".join(form)) is not None for form in forms)


def _plain(text: str) -> str:
    """Compatibility form without invisible characters and accents."""
    if text.isascii() and text.isprintable():
        return text
    seen = "".join(char for char in text if char in "\n\t" or not is_hidden(char))
    compatible = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", seen))
    return "".join(char for char in compatible if not unicodedata.combining(char))


def _forms(text: str) -> list[list[str]]:
    """The words of a text as written, without camelCase, and with digits as letters; look-alikes replaced in all."""
    plain = _plain(text)
    lower = plain.lower()
    spaced = lower if lower == plain else _CAMEL.sub(" ", plain).lower()
    if not plain.isascii():
        lower, spaced = lower.translate(_LOOKALIKES), spaced.translate(_LOOKALIKES)
    # Each spelling is searched by itself: `p4ssWord` is found in one of them only.
    return [_WORD.findall(form) for form in {spaced, lower, spaced.translate(_DIGITS)}]


def _is_card(text: str) -> bool:
    """The check digit of payment cards (ISO/IEC 7812)."""
    digits = [int(char) for char in text if char.isdigit()]
    doubled = (
        digit if place % 2 == 0 else (digit * 2 - 9 if digit > 4 else digit * 2)
        for place, digit in enumerate(reversed(digits))
    )
    return sum(doubled) % 10 == 0
