"""Who may approve: add, list and revoke operators.

Invariant: the trail's event with the digests of the files is on disk before a file changes. A file that
differs from what the trail last recorded is never changed: a person must check it and record it first.
"""

from __future__ import annotations

import base64
import subprocess
import tempfile
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from threegate.approval.operators import KRL_MAGIC, NAME, Operator, Operators, load_operators, render_operator
from threegate.approval.signature import SSH_KEYGEN
from threegate.approval.ssh_wire import MalformedError, parse_key_text
from threegate.core import durable
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.workspace import Workspace
from threegate.launch.launch_problem import read_operators
from threegate.trail import moves
from threegate.trail.payloads import OperatorAdded, OperatorRevoked, Signature
from threegate.trail.trail import LockedTrail, Trail

_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True)
class OperatorLine:
    """One key of one operator, for a list. `revoked` is None if unknown: only ssh-keygen can read a KRL."""

    name: str
    fingerprint: str
    type: str
    authority: bool
    valid_after: datetime | None
    valid_before: datetime | None
    comment: str
    revoked: bool | None
    origin: str | None
    """The web origin that a passkey is pinned to."""


def add_operator(
    workspace: Workspace,
    name: str,
    key_line: str,
    *,
    actor: str,
    authority: bool = False,
    valid_after: datetime | None = None,
    valid_before: datetime | None = None,
) -> Operator:
    """Add a key to a name. `key_line` is a line of a .pub file: type, base64, comment.

    Raises InvalidInput for an invalid name or key, Refused (operators_changed) if the file on disk differs from the
    recorded one, TrailError, Unavailable, OSError.
    """
    if not NAME.fullmatch(name):
        raise InvalidInput(f"{name}: not a valid name for an operator; use letters, digits and . _ @ + - (at most 64)")
    parts = key_line.split(None, 2)
    if len(parts) < 2:
        raise InvalidInput("the key is not a line of a .pub file: TYPE BASE64 [COMMENT]")
    try:
        key = parse_key_text(parts[0], parts[1])
    except MalformedError as error:
        raise InvalidInput(f"the key {error}; give the .pub file of an Ed25519, ECDSA, RSA or FIDO key") from None
    comment = parts[2].strip() if len(parts) > 2 else ""
    if not (comment.isascii() and comment.isprintable()):
        comment = ""
    entry = Operator(name, key, authority, valid_after, valid_before, comment)
    with Trail(workspace).locked() as held:
        append_operator(workspace, held, entry, actor=actor)
    return entry


def append_operator(
    workspace: Workspace, held: LockedTrail, entry: Operator, *, actor: str, signed: Signature | None = None
) -> None:
    """Record and write one more line, of a passkey with its pinned origin. Raises InvalidInput, Refused,
    TrailError, OSError.
    """
    current = _recorded(workspace, held)
    key_text = base64.b64encode(entry.key.blob).decode()
    data = current.data + (render_operator(entry, key_text) + "\n").encode()
    pins, passkey = current.passkeys, entry.passkey
    if passkey is not None:
        pins = (pins or b"") + (passkey.pin(entry.key) + "\n").encode()
    changed = load_operators(data, current.revoked, pins)
    if changed.problem is not None:
        raise InvalidInput(f"{changed.problem}; nothing was changed")
    added = OperatorAdded(
        operator=entry.name,
        key=entry.key.fingerprint,
        authority=entry.authority,
        origin=None if passkey is None else passkey.origin,
        signed=signed,
        **_digests(changed),
    )
    moves.announce(held, added, actor=actor)
    # The pin before the line: a line of a passkey without its pin makes the whole file invalid.
    if pins is not None and pins != current.passkeys:
        durable.overwrite(workspace.passkeys_file, pins, _FILE_MODE)
    durable.overwrite(workspace.operators_file, data, _FILE_MODE)


def revoke_operator(workspace: Workspace, which: str, *, actor: str) -> list[Operator]:
    """Revoke every key of a name, or the one with this fingerprint. Returns the affected lines.

    The lines stay in `operators`, so that old approvals can still be explained; their keys are added to
    `operators.revoked`. A full disk does not prevent it. Raises InvalidInput, Refused, TrailError, Unavailable,
    OSError.
    """
    with disk_reserve(workspace.reserve), Trail(workspace).locked() as held:
        current = _recorded(workspace, held)
        concerned = [entry for entry in current.entries if which in (entry.name, entry.key.fingerprint)]
        if not concerned:
            raise InvalidInput(
                f"{which}: neither a name nor a key fingerprint in operators; see: threegate operator list"
            )
        # By its keys and not by its text: a comment may name a key, and revokes none.
        known = current.revoked_keys or frozenset()
        fresh = [_public_line(current.data, entry) for entry in concerned if entry.key.blob not in known]
        revoked = _with_keys(current.revoked, "".join(f"{line}\n" for line in fresh))
        changed = load_operators(current.data, revoked, current.passkeys)
        if changed.problem is not None:
            raise InvalidInput(f"{changed.problem}; nothing was changed")
        keys = tuple(entry.key.fingerprint for entry in concerned)
        gone = OperatorRevoked(operator=which, keys=keys, **_digests(changed))
        moves.announce(held, gone, actor=actor)
        durable.overwrite(workspace.revoked_file, revoked, _FILE_MODE)
    return concerned


def record_operators(workspace: Workspace, *, actor: str) -> Operators:
    """Record both files in their current form, after a person checked them. Raises InvalidInput, TrailError,
    Unavailable.
    """
    with Trail(workspace).locked() as held:
        current = read_operators(workspace)
        if current.problem is not None:
            raise InvalidInput(f"{current.problem}; fix it first")
        names = tuple(sorted({entry.name for entry in current.entries}))
        recorded = OperatorAdded(operator="(file recorded)", names=names, **_digests(current))
        moves.announce(held, recorded, actor=actor)
    return current


def list_operators(workspace: Workspace) -> tuple[list[OperatorLine], str | None]:
    """Every key, and one line that says what is wrong with the files (None if they are as recorded)."""
    current = read_operators(workspace)
    problem = current.problem
    if problem is None:
        with Trail(workspace).locked() as held:
            if held.index.operators != current.digests:
                problem = "the files differ from what the trail recorded; check them: threegate operator record --yes"
    revoked = current.revoked_keys
    return [
        OperatorLine(
            name=entry.name,
            fingerprint=entry.key.fingerprint,
            type=entry.key.type,
            authority=entry.authority,
            valid_after=entry.valid_after,
            valid_before=entry.valid_before,
            comment=entry.comment,
            revoked=None if revoked is None else entry.key.blob in revoked,
            origin=None if entry.passkey is None else entry.passkey.origin,
        )
        for entry in current.entries
    ], problem


def _recorded(workspace: Workspace, held: LockedTrail) -> Operators:
    """Both files, if they are as the trail recorded them; nothing if the trail recorded none."""
    current = read_operators(workspace)
    if not any(held.index.operators) and not current.data and current.revoked is current.passkeys is None:
        return replace(current, problem=None)
    if current.digests != held.index.operators:
        raise Refused(
            "operators_changed",
            f"{workspace.operators_file}: not what the trail last recorded; check it, then: "
            "threegate operator record --yes",
        )
    if current.problem is not None:
        raise Refused("operators_changed", f"{current.problem}; fix it, then: threegate operator record --yes")
    return current


def _digests(changed: Operators) -> dict[str, Any]:
    """The fields of `OperatorsChanged`."""
    names = ("operators_sha256", "revoked_sha256", "passkeys_sha256")
    return dict(zip(names, changed.digests, strict=True))


def _public_line(data: bytes, entry: Operator) -> str:
    """Type and base64 of an entry as they are in the file."""
    for raw in data.decode("ascii").splitlines():
        parts = raw.split(" ")
        if len(parts) >= 4 and not raw.startswith("#") and parse_key_text(parts[2], parts[3]) == entry.key:
            return f"{parts[2]} {parts[3]} {entry.name}"
    raise InvalidInput(f"{entry.name}: the line no longer exists")


def _with_keys(revoked: bytes | None, lines: str) -> bytes:
    """The revocation file with more keys; a KRL is updated by ssh-keygen itself."""
    if revoked is None or not revoked.startswith(KRL_MAGIC):
        return (revoked or b"") + lines.encode()
    # On a copy: the file itself changes only after the event.
    with tempfile.TemporaryDirectory(prefix="threegate-krl-") as folder:
        krl, keys = Path(folder) / "krl", Path(folder) / "keys"
        krl.write_bytes(revoked)
        keys.write_text(lines)
        try:
            subprocess.run(
                [SSH_KEYGEN, "-q", "-k", "-u", "-f", str(krl), str(keys)],
                check=True,
                capture_output=True,
                timeout=30,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"{SSH_KEYGEN}: could not update the KRL ({type(error).__name__})") from None
        return krl.read_bytes()
