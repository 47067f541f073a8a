"""Which operator acts, and with which key: found from the operators file and the available keys.

Invariant: this only chooses; whether the key may act is decided when its signature is checked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from threegate.approval.operators import Operators
from threegate.approval.ssh_wire import MalformedError, PublicKey, decode_base64, parse_key
from threegate.core.errors import InvalidInput

_NAMES = ("id_ed25519", "id_ecdsa", "id_ed25519_sk", "id_ecdsa_sk", "id_rsa")


@dataclass(frozen=True, slots=True)
class Acting:
    """An operator's name and the key file for ssh-keygen."""

    name: str
    key: Path


def acting_operator(operators: Operators, *, name: str = "", key: Path | None = None) -> Acting:
    """The name and the key to sign with, completing what was given. Raises InvalidInput if it is ambiguous.

    Without a key, the user's own keys and the one that `init` made are searched for one of that name.
    """
    names = sorted({entry.name for entry in operators.entries})
    if name and name not in names:
        raise InvalidInput(
            f"{name}: not in operators (it has {', '.join(names)}); add them with: threegate operator add {name}"
        )
    keys = [key] if key is not None else _own_keys()
    for path in keys:
        public = read_public(path)
        if public is None:
            continue
        found = [found for found in names if _may(operators, found, public) and found == (name or found)]
        if len(found) == 1:
            return Acting(found[0], path)
    if key is not None:
        if name:
            return Acting(name, key)
        if len(names) == 1:
            return Acting(names[0], key)
        raise InvalidInput(f"{key}: not a key of any operator by its .pub file; name yours with --as")
    raise InvalidInput(
        f"none of your keys is one of {name or 'an operator'}'s; name it with --key (a private key, or the .pub of an"
        " agent's or FIDO key). If it is lost: threegate operator add NAME --key NEW.pub, and revoke the old one"
    )


def read_public(path: Path) -> PublicKey | None:
    """The public half of a key file: the certificate or .pub beside it, or the file itself. None when there is none."""
    stem = str(path).removesuffix(".pub")
    # The certificate first: with it, ssh-keygen signs as the name that the CA gave.
    candidates = [path] if path.suffix == ".pub" else [Path(f"{stem}-cert.pub"), Path(f"{stem}.pub")]
    for candidate in candidates:
        try:
            parts = candidate.read_text("ascii").split()
            return parse_key(decode_base64(parts[1]))
        except (OSError, UnicodeDecodeError, IndexError, MalformedError):
            continue
    return None


def asks_nothing(path: Path) -> bool:
    """Whether this key can sign without a touch; a FIDO key needs one."""
    public = read_public(path)
    return public is not None and not public.hardware


def _may(operators: Operators, name: str, public: PublicKey) -> bool:
    certificate = public.certificate
    return any(
        (entry.authority and entry.key.blob == certificate.authority.blob and name in certificate.principals)
        if certificate is not None
        else (not entry.authority and entry.key.blob == public.blob)
        for entry in operators.of(name)
    )


def _own_keys() -> list[Path]:
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    own = [Path.home() / ".ssh" / name for name in _NAMES]
    own.append(Path(config) / "threegate" / "operator_ed25519")
    return [path for path in own if path.is_file()]
