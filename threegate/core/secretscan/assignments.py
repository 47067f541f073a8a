"""Decides whether ``password=…`` and its kin carry a value or only speak of one.

Honest code is full of these names (``password=args.password``, ``token = next(tokens)``, ``password: str``),
so the value decides: a quoted literal or an option's value is one, an expression, a placeholder or a word of
prose is not. Each place is looked at once and at most 400 characters far, so the whole stays linear.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_NAME_BEFORE: Final = re.compile(r"(?:^|.*[^A-Za-z0-9_.-])((?:--?)?)[A-Za-z0-9_.-]*\Z", re.DOTALL | re.ASCII)
_AFTER: Final = re.compile(
    r"""(?a)[0-9]{0,2}(?P<close>["']?\]?)(?:(?P<sign>\s{0,4}(?:=>|:=|==|=|:)\s{0,4})|(?P<gap>,?[ ]{1,4}))"""
    r"""(?:[bruBRU]{0,2}(?:"(?P<double>[^"\n]{0,400})"|'(?P<single>[^'\n]{0,400})')|(?P<bare>[^\s"'`,;&|<>(){}\[\]]{1,128})(?P<next>[(\[{]?))"""
)
_DECLARED: Final = re.compile(
    r"""(?a)[0-9]{0,2}(?:\s{1,4}\*?[A-Za-z_][A-Za-z0-9_.]{0,31}|\s{0,4}:\s{0,4}&?(?:'static )?[A-Za-z_][A-Za-z0-9_.<>?]{0,31}|\[[0-9]{0,5}\])"""  # noqa: E501
    r"""\s{0,4}=\s{0,4}[bruBRU]{0,2}(?:"(?P<double>[^"\n]{0,400})"|'(?P<single>[^'\n]{0,400})')"""
)
"""A value that follows a type: ``var apiKey string = "…"``, ``password: String = "…"``, ``char password[] = "…"``."""
_CALLED: Final = re.compile(
    r"""(?a)[0-9]{0,2}(?:(?P<own>\()|["']\s{0,2},)\s{0,4}(?:"(?P<double>[^"\n]{0,400})"|'(?P<single>[^'\n]{0,400})')\s{0,4}(?P<end>[),])"""
)
"""A value that is handed over: ``setPassword("…")``, ``os.Setenv("API_KEY", "…")``."""
_SETTER_BEFORE: Final = re.compile(r"(?is).*(?:set_?|with_?|\.)\Z")
_SETTING_BEFORE: Final = re.compile(
    r"""(?ias).*(?:set|put|env|prop|header|param|field|with|entry|of|default|store|add|append|get)[a-z_]{0,24}\(\s{0,4}["'][a-z0-9_.-]*\Z"""
)
_METAVARIABLE: Final = re.compile(r"[A-Z][A-Z_-]*[.:]?")
"""``--password NAME``, as usage lines have it; a sentence may end with it."""
_PLACEHOLDER: Final = re.compile(
    r"""(?ix)[<\[{(%*].* | \$.* | (.)\1* | x{3,}[-x]* | .*(?:\*\*\*|\.\.\.|…|xxxx).* |
    (?:your|my|the|an?|some|no|new|old|redacted|masked|hidden|removed|omitted|placeholder|example|sample|dummy|fake|todo|tbd|changeme|insert|enter)
    (?:[-_ ].*)? |
    (?:none|null|nil|undefined|true|false|yes|no|empty|unset|missing|required|optional|string|str|bytes|int|text|password|passwd|secret|token|key|value|prompt|env|stdin|ask|keyring|vault)"""
)
_NAME_OF_VARIABLE: Final = re.compile(
    r"(?i).*(?:pass|pwd|pw|secret|token|key|value|arg|env|cred|param|field|input|config|setting|str|self|user|name).*"
)
_EXPRESSION: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]+")
_NAME_OF_A_KIND: Final = re.compile(r"[A-Za-z]+_[A-Za-z_]*PASSWORD|[A-Za-z]+Password|[A-Z_]*PASSWORD_[A-Z_]+")
"""``FORCE_CHANGE_PASSWORD``, ``challengePassword``: constants that name a kind of thing."""
_PROSE: Final = re.compile(
    r"(?i)(?:options?|flags?|arguments?|parameters?|switch|is|are|was|to|and|or|on|for|from|in|with|if|must|may|can|should|will|as|of|when|at|by|not|than|stays?)[.,:;)]?"
)
"""What follows the name of an option in a sentence about it."""
_HASH_WORD: Final = re.compile(r"(?i)(?:sha-?[0-9]|md5|bcrypt|argon2|scrypt|pbkdf2|base64|utf-?8|rfc)[A-Za-z0-9_-]*")


class AssignedValue(NamedTuple):
    """Where an assigned secret is in the text."""

    start: int
    end: int


def assigned_value(text: str, start: int, end: int, *, password: bool) -> AssignedValue | None:
    """The value that the name at ``text[start:end]`` is given, or None where it is not a secret."""
    handed = _handed(text, start, end, password=password)
    if handed is not None:
        return handed
    after = _AFTER.match(text, end)
    if after is None:
        return None
    before = _NAME_BEFORE.match(text[max(0, start - 48) : start])
    option = before is not None and before[1] != ""
    sign = (after["sign"] or "").strip()
    if not sign and not option:
        return None
    for group in ("double", "single"):
        value = after[group]
        if value is not None:
            found = not (option and is_metavariable(value)) and _literal(
                value, password=password, assigned=sign != ":" or option
            )
            return AssignedValue(*after.span(group)) if found else None
    value = after["bare"]
    if (
        after["next"]
        or (not sign and _PROSE.fullmatch(value))
        or not _bare(value, password=password, option=option, tight=after["sign"] in ("=", None))
    ):
        return None
    return AssignedValue(*after.span("bare"))


def is_metavariable(value: str) -> bool:
    """Whether a value is a word in capitals, which a command line's synopsis has where a value belongs."""
    return _METAVARIABLE.fullmatch(value) is not None


def _handed(text: str, start: int, end: int, *, password: bool) -> AssignedValue | None:
    """The literal behind a type, or in a call that sets something, or None."""
    for pattern in (_DECLARED, _CALLED):
        match = pattern.match(text, end)
        if match is None:
            continue
        if pattern is _CALLED:
            context = _SETTER_BEFORE if match["own"] else _SETTING_BEFORE
            if context.fullmatch(text[max(0, start - 64) : start]) is None:
                continue
        group = "double" if match["double"] is not None else "single"
        value = match[group]
        if value[:1] not in "-/" and _literal(value, password=password, assigned=pattern is _DECLARED):
            return AssignedValue(*match.span(group))
    return None


def _literal(value: str, *, password: bool, assigned: bool) -> bool:
    """Whether a quoted value is a secret. Prose after a colon is a description, not a value."""
    if _PLACEHOLDER.fullmatch(value) or len(value) < 4 or _NAME_OF_A_KIND.fullmatch(value):
        return False
    blank = " " in value
    if password:
        return assigned or not blank
    return not blank and len(value) >= 12 and _mixed(value) and not _HASH_WORD.fullmatch(value)


def _bare(value: str, *, password: bool, option: bool, tight: bool) -> bool:
    """Whether an unquoted value is a secret and not an expression, a type or a word."""
    named = password and (option or tight)
    if not named and not (len(value) >= (6 if password else 16) and _mixed(value)):
        return False
    if option and is_metavariable(value):
        return False
    if _PLACEHOLDER.fullmatch(value) or value[0] in "-/@" or _HASH_WORD.fullmatch(value):
        return False
    if password and option:
        return len(value) >= 3
    if _EXPRESSION.fullmatch(value) or (_IDENTIFIER.fullmatch(value) and _NAME_OF_VARIABLE.fullmatch(value)):
        return False
    return not named or len(value) >= 3


def _mixed(value: str) -> bool:
    """Letters and digits together, as made-up values have them and names seldom do."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))
