"""Which operator acts, and with which key: found from the operators file and the available keys.

Invariant: this only chooses; whether the key may act is decided when its signature is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from threegate.acts.operator_keys import keys_of_file, operator_keys
from threegate.approval.key_files import Asks
from threegate.approval.operators import Operators
from threegate.approval.signature import KeySource, what_it_asks
from threegate.approval.ssh_wire import PublicKey
from threegate.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Acting:
    """An operator's name and the key for ssh-keygen."""

    name: str
    key: KeySource

    @property
    def asks(self) -> Asks:
        """What a signature with this key asks the person for."""
        return what_it_asks(self.key)


def acting_operator(operators: Operators, *, name: str = "", key: Path | None = None) -> Acting:
    """The name and the key to sign with, completing what was given. Raises InvalidInput if it is ambiguous.

    Without a key, the keys that the person has (`operator_keys`) are searched for one of that name.
    """
    names = sorted({entry.name for entry in operators.entries})
    if name and name not in names:
        raise InvalidInput(
            f"{name}: not in operators (it has {', '.join(names)}); add them with: threegate operator add {name}"
        )
    for own in operator_keys() if key is None else keys_of_file(key):
        found = [found for found in names if _may(operators, found, own.public) and found == (name or found)]
        if len(found) == 1:
            return Acting(found[0], own.signs_with)
    if key is not None:
        if name:
            return Acting(name, key)
        if len(names) == 1:
            return Acting(names[0], key)
        raise InvalidInput(f"{key}: not a key of any operator by its .pub file; name yours with --as")
    raise InvalidInput(
        f"none of your keys in ssh-agent and ~/.ssh is one of {name or 'an operator'}'s; name it with --key. If it is "
        "lost: threegate operator add NAME --key NEW.pub, and revoke the old one"
    )


def _may(operators: Operators, name: str, public: PublicKey) -> bool:
    certificate = public.certificate
    return any(
        (entry.authority and entry.key.blob == certificate.authority.blob and name in certificate.principals)
        if certificate is not None
        else (not entry.authority and entry.key.blob == public.blob)
        for entry in operators.of(name)
    )
