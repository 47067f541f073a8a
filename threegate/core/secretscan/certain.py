"""Secrets that are certain: what may be kept from somebody without asking, because next to nothing else looks so.

Invariants: linear time, as `scan`. A vendor's form counts only with a distinctive prefix and a random rest, a private
key only if it decodes to one, a password of a URL only for a host that can be elsewhere. What is merely assigned to a
name (``password=``), a JWT and a hash are none. Each form is judged by itself, before places are joined.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from threegate.core.secretscan.patterns import FORMS
from threegate.core.secretscan.scan import Found, PatternSet, one_byte_each, spans

_WEAK: Final = frozenset(
    {
        "aws-secret-key", "azure-shared-signature", "ibm-cloud-key", "ibm-cos-secret", "cloudant-key", "softlayer-key",
        "artifactory-token", "discord-token", "mailchimp-key", "twilio-key", "json-web-token", "registry-credentials",
        "user-credentials", "basic-credentials", "sshpass-password", "authorization-header",
        "bearer-token",
    }
)  # fmt: skip
"""Forms that honest text has too."""
_FORMS: Final = tuple(form for form in FORMS if form.kind not in _WEAK)
_SET: Final = PatternSet([form.pattern for form in _FORMS])
_DUMMY: Final = re.compile(rb"(?i)example|sample|dummy|fake|placeholder|changeme|redacted|your|insert|xxxx|test.?key")
_EQUAL: Final = re.compile(rb"(.)\1{4}", re.DOTALL)
_COUNTED: Final = (b"0123456789", b"abcdefghij", b"qwertyuiop", b"9876543210")
_COUNTED_BYTES: Final = 6
_HEX: Final = re.compile(rb"[0-9a-fA-F-]+")
_SHORT: Final = 20
_RANDOM, _RANDOM_SHORT, _RANDOM_PASSWORD = 3.5, 2.9, 2.75
"""Bits of entropy for each character, at least."""
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{0,40})PRIVATE KEY(?: BLOCK)?-----(.*?)-----END", re.DOTALL)
_JOINTS: Final = re.compile(rb"[\"']\s*[+,\\]?\s*[\"']")
_DER_KEY_BYTES: Final = 32
_AWS_SECRET: Final = re.compile(rb"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_AWS_PREFIX_BYTES: Final = 4
_BESIDE: Final = 400
"""Bytes around an AWS key id in which its secret counts as beside it."""
_WITHIN: Final = re.compile(rb"(?<!\\)(?<!%[0-9A-Fa-f])[A-Za-z0-9+_-]\Z")
_WORD: Final = re.compile(rb"[A-Za-z0-9_+/-]")
_SLACK_TOKEN: Final = re.compile(rb"xox[a-z](?:\.xox[bp])?-(?:[0-9]-)?[A-Za-z0-9]{9,}|xapp-")
_SLACK_SECRET_CHARS: Final = 24
_HOST: Final = re.compile(rb"@([A-Za-z0-9.-]+)")
_HOST_CHARS: Final = 256
_LOCAL: Final = re.compile(
    rb"(?i)(?:.*\.)?(?:local|localhost|internal|lan|test|invalid|example|localdomain|(?:example|domain|host|server|mydomain)"
    rb"\.(?:com|org|net|de))|[0-9.]*"
)
_PASSWORD_CHARS: Final = 8


def find_certain(text: str) -> list[Found]:
    """The secrets of high confidence in a text, by place. Linear in the length of the text; never raises."""
    return sorted(set(_found(text)))


def _found(text: str) -> Iterator[Found]:
    data = one_byte_each(text)
    for index in _SET.which(data):
        form = _FORMS[index]
        is_certain = _JUDGES.get(form.kind, _is_random)
        for start, end in spans(form.pattern, data):
            if is_certain(data, start, end):
                yield Found(start, end, form.kind)


def is_random_value(value: bytes) -> bool:
    """Whether a value looks made by a machine, and not typed as an example."""
    least = _RANDOM_SHORT if len(value) < _SHORT or _HEX.fullmatch(value) else _RANDOM
    return not is_typed_value(value) and _entropy(value) >= least


def is_elsewhere(text: str, end: int) -> bool:
    """Whether the host behind the password of a URL, which ends there, may be a real one."""
    host = _HOST.match(one_byte_each(text[end : end + _HOST_CHARS]))
    return host is not None and b"." in host[1] and _LOCAL.fullmatch(host[1]) is None


def is_typed_value(value: bytes) -> bool:
    """Whether a value has a word of examples, a run of equal characters, or a row of the keyboard."""
    lower = value.lower()
    counted = any(
        row[begin : begin + _COUNTED_BYTES] in lower
        for row in _COUNTED
        for begin in range(len(row) - _COUNTED_BYTES + 1)
    )
    return counted or _DUMMY.search(value) is not None or _EQUAL.search(value) is not None


def _entropy(value: bytes) -> float:
    """Bits for each character, by how often each occurs."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())


def _is_random(data: bytes, start: int, end: int) -> bool:
    return is_random_value(data[start:end]) and _begins(data, start)


def _begins(data: bytes, start: int) -> bool:
    """Whether a word begins there: encoded data has any short prefix somewhere in it."""
    return _WITHIN.search(data, max(0, start - 3), start) is None


def _is_whole(data: bytes, start: int, end: int) -> bool:
    """Whether it is a word of its own: three or four letters and digits are not distinctive in base64."""
    alone = _WORD.match(data, end) is None and data[max(0, start - 1) : start] != b"/"
    return alone and _is_random(data, start, end)


def _is_key(data: bytes, start: int, end: int) -> bool:
    """Whether a block is a private key of its own length, and not a header that code names."""
    value = data[start:end]
    if value.startswith(b"AGE-SECRET-KEY-1"):
        return is_random_value(value[16:])
    if value.startswith(b"PuTTY"):
        return b"Private-Lines:" in data[end : end + 8192]
    block = _BLOCK.match(data, start, end)
    if block is None:
        return False
    text = block[2].replace(b"\\n", b"\n").replace(b"\\r", b"\r")
    headers, blank, body = text.partition(b"\n\n") if b":" in text else (b"", b"", text)
    if block[1].startswith(b"PGP") or (blank and b"ENCRYPTED" in headers):
        return len(_unwrapped(body if blank else text)) >= 64
    try:
        raw = base64.b64decode(_unwrapped(body if blank else text), validate=True)
    except binascii.Error:
        return False
    return raw.startswith(b"openssh-key-v1\0") or _is_der(raw)


def _unwrapped(text: bytes) -> bytes:
    """The text without line breaks, and without the quotes of a string that code has on several lines."""
    return b"".join(_JOINTS.sub(b"", text).split()).strip(b"\"'")


def _is_der(raw: bytes) -> bool:
    """Whether bytes are one ASN.1 sequence of exactly their length."""
    if len(raw) < _DER_KEY_BYTES or raw[0] != 0x30:
        return False
    if raw[1] < 0x80:
        return len(raw) == 2 + raw[1]
    count = raw[1] & 0x7F
    return len(raw) == 2 + count + int.from_bytes(raw[2 : 2 + count], "big")


def _is_aws_id(data: bytes, start: int, end: int) -> bool:
    """Whether the id of an AWS key has its secret beside it; alone it opens nothing."""
    if is_typed_value(data[start:end]) or not is_random_value(data[start + _AWS_PREFIX_BYTES : end]):
        return False
    beside = data[max(0, start - _BESIDE) : end + _BESIDE]
    return any(is_random_value(value) and not _HEX.fullmatch(value) for value in _AWS_SECRET.findall(beside))


def _is_url_password(data: bytes, start: int, end: int) -> bool:
    """Whether the password of a URL is one, for a host that may be anywhere."""
    value = data[start:end]
    host = _HOST.match(data, end)
    if host is None or b"." not in host[1] or _LOCAL.fullmatch(host[1]):
        return False
    if (
        value[:1] in b"<${%*["
        or b"," in value
        or len(value) < _PASSWORD_CHARS
        or not any(48 <= byte <= 57 for byte in value)
    ):
        return False
    return not is_typed_value(value) and _entropy(value) >= _RANDOM_PASSWORD


def _is_slack_token(data: bytes, start: int, end: int) -> bool:
    """Whether the number of a workspace is as long as Slack makes them; documents have ``xoxb-1234-…``."""
    return _SLACK_TOKEN.match(data, start, end) is not None and is_random_value(data[start:end])


def _is_slack_webhook(data: bytes, start: int, end: int) -> bool:
    """Whether the last part of the address is one that Slack makes, of 24 letters and digits."""
    secret = data[start:end].rpartition(b"/")[2]
    return len(secret) == _SLACK_SECRET_CHARS and is_random_value(secret)


_JUDGES: Final[dict[str, Callable[[bytes, int, int], bool]]] = {
    "private-key": _is_key,
    "aws-access-key": _is_aws_id,
    "alibaba-access-key": _is_whole,
    "bitbucket-token": _is_whole,
    "crates-token": _is_whole,
    "google-api-key": _is_whole,
    "slack-token": _is_slack_token,
    "slack-webhook": _is_slack_webhook,
    "url-credentials": _is_url_password,
}
