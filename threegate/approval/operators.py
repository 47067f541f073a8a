"""Who may approve: the operators file, an OpenSSH allowed_signers file in a strict form.

Invariant: `Operators.entries` is empty unless every line of the file is understood; ssh-keygen itself skips a
line that it cannot read, and a pattern would let one line match many names, so both are refused. A line is
``NAME [cert-authority,]namespaces="threegate-approval,threegate-act"[,valid-after="…Z"][,valid-before="…Z"]
TYPE BASE64 [COMMENT]``. A passkey's line has ``threegate-login`` instead of ``threegate-act``, and its pin is
in operators.passkeys; each requires the other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from threegate.approval.passkey import Passkey, parse_pin
from threegate.approval.ssh_wire import (
    NAMESPACE_ACT,
    NAMESPACE_APPROVAL,
    NAMESPACE_LOGIN,
    PLAIN_TYPES,
    MalformedError,
    PublicKey,
    parse_key_text,
)
from threegate.core import canonical, limits

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
"""An operator's name: one literal principal, usable as part of a file name."""
NAMESPACES: Final = f'namespaces="{NAMESPACE_APPROVAL},{NAMESPACE_ACT}"'
PASSKEY_NAMESPACES: Final = f'namespaces="{NAMESPACE_APPROVAL},{NAMESPACE_LOGIN}"'

_LINE: Final = re.compile(r"([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+)(?: ([ -~]*))?")
_DAY: Final = r'"([0-9]{8}|[0-9]{12}|[0-9]{14})Z"'
_OPTIONS: Final = re.compile(
    rf"(?:(cert-authority,)?{re.escape(NAMESPACES)}|({re.escape(PASSKEY_NAMESPACES)}))(?:,valid-after={_DAY})?(?:,valid-before={_DAY})?"
)
_DATE_FORMS: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
KRL_MAGIC: Final = b"SSHKRL\n\x00"


@dataclass(frozen=True, slots=True)
class Operator:
    """One line: a name, its key (or the CA whose certificates are valid for the name), and its validity period."""

    name: str
    key: PublicKey
    authority: bool = False
    valid_after: datetime | None = None
    valid_before: datetime | None = None
    comment: str = ""
    passkey: Passkey | None = None
    """What is pinned about a passkey; None for every other key."""


@dataclass(frozen=True)
class Operators:
    """The operators file and its companion files, read once. If there is a `problem`, nothing can be approved."""

    data: bytes
    revoked: bytes | None
    entries: tuple[Operator, ...]
    problem: str | None = None
    revoked_keys: frozenset[bytes] | None = frozenset()
    """The blobs of the keys in the revocation file; None for a KRL, which only ssh-keygen can read."""
    passkeys: bytes | None = None
    """operators.passkeys."""

    @functools.cached_property
    def digests(self) -> tuple[str, str | None, str | None]:
        """sha256 of operators, of operators.revoked and of operators.passkeys, as recorded in the trail;
        None: no such file.
        """
        revoked, passkeys = (
            None if data is None else canonical.sha256_hex(data) for data in (self.revoked, self.passkeys)
        )
        return canonical.sha256_hex(self.data), revoked, passkeys

    def of(self, name: str) -> tuple[Operator, ...]:
        """The lines of one name."""
        return tuple(entry for entry in self.entries if entry.name == name)


@functools.lru_cache(maxsize=4)
def load_operators(operators: bytes | None, revoked: bytes | None, passkeys: bytes | None = None) -> Operators:
    """Read the files' bytes (None: no such file). Never raises: errors are in `problem`. A pure function of the bytes,
    whose last answers are kept: a launch asks twice, and the files seldom change.
    """
    try:
        if operators is None:
            raise MalformedError("there is no operators file")
        entries = parse_operators(operators, {} if passkeys is None else _read_pins(passkeys))
        revoked_keys = frozenset() if revoked is None else _read_revoked(revoked)
    except MalformedError as error:
        return Operators(operators or b"", revoked, (), str(error), passkeys=passkeys)
    return Operators(operators, revoked, entries, None, revoked_keys, passkeys)


def render_operator(operator: Operator, key_text: str) -> str:
    """The line of an operator, without its newline; `key_text` is base64. `load_operators` parses it."""
    options = ["cert-authority"] if operator.authority else []
    options.append(NAMESPACES if operator.passkey is None else PASSKEY_NAMESPACES)
    for name, moment in (("valid-after", operator.valid_after), ("valid-before", operator.valid_before)):
        if moment is not None:
            options.append(f'{name}="{moment.astimezone(UTC):%Y%m%d%H%M%S}Z"')
    line = f"{operator.name} {','.join(options)} {operator.key.type} {key_text}"
    return f"{line} {operator.comment}" if operator.comment else line


def _lines(data: bytes, what: str) -> list[tuple[int, str]]:
    if len(data) > limits.OPERATORS_FILE_BYTES:
        raise MalformedError(f"{what}: more than {limits.OPERATORS_FILE_BYTES} bytes")
    # Otherwise the last line may be cut off, and mean something else.
    if not data.endswith(b"\n"):
        raise MalformedError(f"{what}: is empty or does not end with a newline")
    numbered = []
    for number, raw in enumerate(data[:-1].split(b"\n"), start=1):
        # Latin-1 decodes any bytes, and the next line refuses all that is not printable ASCII.
        text = raw.decode("latin-1")
        if not text.isascii() or not (text.isprintable() or not text):
            raise MalformedError(f"{what}:{number}: has a character that is not printable ASCII")
        if text and not text.startswith("#"):
            numbered.append((number, text))
    return numbered


def parse_operators(data: bytes, pins: Mapping[str, Passkey]) -> tuple[Operator, ...]:
    """An operators file's lines; `pins`: of its passkeys, by fingerprint, each used once. Raises MalformedError."""
    entries: list[Operator] = []
    keys: dict[bytes, int] = {}
    for number, text in _lines(data, "operators"):
        try:
            entry = _parse_line(text, pins)
        except MalformedError as error:
            raise MalformedError(f"operators:{number}: {error}") from None
        # One key under two names would count as two signers.
        if (earlier := keys.setdefault(entry.key.blob, number)) != number:
            raise MalformedError(f"operators:{number}: has the key of line {earlier}; a key may occur only once")
        entries.append(entry)
    if not entries:
        raise MalformedError("operators: names nobody")
    if astray := pins.keys() - {entry.key.fingerprint for entry in entries if entry.passkey is not None}:
        raise MalformedError(f"operators.passkeys: pins {min(astray)}, which is not a passkey of operators")
    return tuple(entries)


def _parse_line(text: str, pins: Mapping[str, Passkey]) -> Operator:
    match = _LINE.fullmatch(text)
    if match is None:
        raise MalformedError("is not: NAME OPTIONS TYPE KEY [COMMENT], with one blank between them")
    name, options, type_name, key_text, comment = match.groups()
    if not NAME.fullmatch(name):
        raise MalformedError("has a name that is not one literal name (letters, digits, . _ @ + -)")
    if type_name not in PLAIN_TYPES:
        raise MalformedError("has a key type that may not approve")
    key = parse_key_text(type_name, key_text)
    if (wrong := key.problem()) is not None:
        raise MalformedError(f"has {wrong}")
    found = _OPTIONS.fullmatch(options)
    if found is None:
        raise MalformedError(
            f"has options other than [cert-authority,]{NAMESPACES}[,valid-after=...][,valid-before=...]"
        )
    passkey = pins.get(key.fingerprint) if found[2] else None
    # A FIDO key of a web site signs what that site asks for: it counts only as a passkey that is pinned to ours.
    web = found[2] or (key.hardware and not key.application.startswith("ssh:"))
    if web and (passkey is None or not passkey.fits(key)):
        raise MalformedError("is a passkey that operators.passkeys does not pin to its own site")
    after, before = _moment(found[3]), _moment(found[4])
    if after is not None and before is not None and before <= after:
        raise MalformedError("ends before it begins")
    return Operator(name, key, bool(found[1]), after, before, comment or "", passkey)


def _read_pins(data: bytes) -> dict[str, Passkey]:
    """operators.passkeys: what is pinned, by the key's fingerprint. Raises MalformedError."""
    pins: dict[str, Passkey] = {}
    for number, text in _lines(data, "operators.passkeys"):
        try:
            fingerprint, passkey = parse_pin(text)
            if fingerprint in pins or passkey.credential in {pin.credential for pin in pins.values()}:
                raise MalformedError("pins a passkey a second time")
        except MalformedError as error:
            raise MalformedError(f"operators.passkeys:{number}: {error}") from None
        pins[fingerprint] = passkey
    return pins


def _moment(text: str | None) -> datetime | None:
    """A date of an option without its Z, in UTC. Raises MalformedError for a day that does not exist."""
    if text is None:
        return None
    try:
        return datetime.strptime(text, _DATE_FORMS[len(text)]).replace(tzinfo=UTC)
    except ValueError:
        raise MalformedError("has a date that does not exist") from None


def _read_revoked(data: bytes) -> frozenset[bytes] | None:
    """None for a KRL, else the blobs of a list in which every line is a plain public key."""
    if data.startswith(KRL_MAGIC) and len(data) <= limits.OPERATORS_FILE_BYTES:
        return None
    blobs = set()
    for number, text in _lines(data, "operators.revoked"):
        parts = text.split(" ", 2)
        try:
            if len(parts) < 2:
                raise MalformedError("is not: TYPE KEY [COMMENT]")
            blobs.add(parse_key_text(parts[0], parts[1]).blob)
        except MalformedError as error:
            raise MalformedError(f"operators.revoked:{number}: {error}") from None
    return frozenset(blobs)
