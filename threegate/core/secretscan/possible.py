"""What may be a secret and may as well be none: to be listed for a person, and hidden from nobody by itself.

Invariant: linear time, as `scan`. A placeholder, a version, a hash, the public example of a vendor, code that only
names a password, and a key that does not decode are none. A vendor's form is either certain or none.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from typing import Final

from threegate.core.secretscan.certain import is_elsewhere, is_random_value, is_typed_value
from threegate.core.secretscan.scan import Found, find_secrets

_LEAST_CHARS: Final = 8
_HEADER_CHARS: Final = 16
_WORDS: Final = re.compile(
    rb"(?i)pass(?:word|wd|phrase)?|passwort|secret|token|credential|test|testing|admin|root|user|guest|demo|default|"
    rb"change|hunter|letmein|welcome|qwert|foo|bar|baz|spam|hello|correct|horse|battery|staple|bogus|invalid|wrong|dev|"
    rb"local|some|super|none|null|true|false|value|string|postgres|mysql|redis|mongo|rabbit|django|rails|laravel|"
    rb"key|auth|bearer|basic|abc|xyz|lorem|ipsum|monkey|dragon|swordfish|sesame|alice|bob"
)
"""Words of values that people make up."""
_NONE: Final = re.compile(
    rb"(?is)django-insecure-.*|[~^<>=v]{0,2}[0-9]+(?:\.[0-9x*]+)+(?:[-+.][a-z0-9.+-]*)?"  # a version
    rb"|(?:sha[0-9]+|md5|sri|blake2[bs]?)[-:_].*|\$(?:2[abxy]|argon2[a-z]*|pbkdf2[a-z0-9-]*|[156y])\$.*"
    rb"|(?:pbkdf2|bcrypt|scrypt|argon2|sha1|sha256|md5)[a-z0-9_]*\$.*"  # a hash
    rb"|https?://.*|/.*|[a-z_][a-z0-9_]*(?:[.:]{1,2}[a-z_][a-z0-9_]*)+\(?.?|[<\[{(%$*].*"  # an address, a name
    rb"|[a-z]+(?:_[a-z0-9]+){2,}|(?-i:[A-Za-z]+[0-9]{0,5}(?:[A-Z][a-z]+){2,})"
)
_TYPED: Final = frozenset({"password", "token", "url-credentials", "basic-credentials", "sshpass-password"})
"""Kinds whose values people choose."""
_MADE: Final = frozenset(
    {
        "aws-access-key", "aws-secret-key", "azure-shared-signature", "ibm-cloud-key", "ibm-cos-secret", "cloudant-key",
        "softlayer-key", "artifactory-token", "discord-token", "mailchimp-key", "twilio-key", "registry-credentials",
        "user-credentials", "authorization-header", "bearer-token",
    }
)  # fmt: skip
"""Kinds whose values programs make, in forms that other values have, too."""
_EXAMPLE_CLAIMS: Final = (b'"1234567890"', b'"John Doe"', b'"joe"', b"example", b'"test')
"""In a JWT that everybody has: jwt.io and RFC 7519."""


def find_possible(text: str) -> list[Found]:
    """What a person should look at, by place, beside what is certain. Never raises."""
    return [found for found in find_secrets(text) if _is_possible(text, found)]


def _is_possible(text: str, found: Found) -> bool:
    value = text[found.start : found.end].encode("latin-1", "replace")
    if found.kind == "json-web-token":
        return not _is_example_token(value)
    if len(value) < _LEAST_CHARS or _NONE.fullmatch(value):
        return False
    if found.kind == "url-credentials" and not is_elsewhere(text, found.end):
        return False
    if found.kind in _TYPED:
        return _is_made_up(value)
    if found.kind == "authorization-header":
        with suppress(binascii.Error):
            user, colon, password = base64.b64decode(value, validate=True).partition(b":")
            if colon and user.isascii() and password.isascii():
                return _is_made_up(password)
        return _is_made_up(value, _HEADER_CHARS) and is_random_value(value)
    return found.kind in _MADE and is_random_value(value)


def _is_made_up(value: bytes, least: int = _LEAST_CHARS) -> bool:
    """Whether a value that somebody chose is more than words and a row of the keyboard."""
    rest = _WORDS.sub(b"", value)
    return any(48 <= byte <= 57 for byte in value) and len(rest) >= least and not is_typed_value(value)


def _is_example_token(value: bytes) -> bool:
    """Whether a JWT has the claims of a public example."""
    parts = value.split(b".")
    body = parts[1].rstrip(b"=") if len(parts) > 1 else b""
    try:
        claims = base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))
    except binascii.Error:
        return True  # it has no claims that anybody could read
    return any(example in claims for example in _EXAMPLE_CLAIMS)
