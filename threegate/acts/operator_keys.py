"""The keys that the person at this account can sign with: in ssh-agent, in ~/.ssh, on a token, and ThreeGate's own.

Invariant: looking for keys asks nothing and changes nothing. A key is listed only if it can sign here: its private key
is in ssh-agent or beside it. The only passphrase that is ever set is typed at ssh-keygen's own prompt.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from threegate.approval.key_files import Asks, PublicLine, line_of, read_private, read_public
from threegate.approval.signature import SSH_KEYGEN, KeyInAgent, KeySource, private_of, what_it_asks
from threegate.approval.ssh_agent import keys_in_agent
from threegate.approval.ssh_wire import PublicKey
from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.user_state import config_home

Where = Literal["ssh-agent", "file", "token", "threegate"]
_USUAL: Final = ("id_ed25519", "id_ecdsa", "id_ed25519_sk", "id_ecdsa_sk", "id_rsa")
"""ssh-keygen's own names, the preferred ones first."""
_ASKS: Final = ("nothing", "touch", "passphrase")


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """A key that a person has."""

    line: PublicLine
    """Its public key or certificate."""
    where: Where
    """`ssh-agent` if only that has it, or only that asks nothing; `token` for a FIDO key; `threegate` for our own."""
    private: Path | None
    """Its private key's file; of a token, the file that names the key in it."""
    signs_with: KeySource
    """For `sign_statement`."""
    asks: Asks
    """What each signature asks the person for."""

    @property
    def public(self) -> PublicKey:
        """The key itself."""
        return self.line.key

    @property
    def fingerprint(self) -> str:
        """``SHA256:…``, as ssh-keygen prints it."""
        return self.line.key.fingerprint

    @property
    def usual(self) -> bool:
        """Whether it has one of ssh-keygen's own names in ~/.ssh, which a person made for general use."""
        return self.private is not None and self.private.parent == _ssh_folder() and self.private.name in _USUAL

    @property
    def described(self) -> str:
        """Where it is and what it asks, for a person: ``~/.ssh/id_ed25519, asks for its passphrase``."""
        place = "in ssh-agent" if self.private is None else below_home(self.private)
        if self.where == "ssh-agent" and self.private is not None:
            place += ", in ssh-agent"
        comment = f" as {self.line.comment}" if self.private is None and self.line.comment else ""
        said = {"nothing": "", "touch": ", asks for a touch", "passphrase": ", asks for its passphrase"}[self.asks]
        return place + comment + said


def operator_keys() -> tuple[OperatorKey, ...]:
    """All keys that can sign here, the best first: what asks nothing, then a touch, then a passphrase; among these
    ssh-keygen's own names in ~/.ssh, ThreeGate's own key, others in ~/.ssh, and what only ssh-agent has.
    """
    held = keys_in_agent()
    found: dict[PublicKey, OperatorKey] = {}
    for path in _key_files():
        for key in _of_file(path, held):
            found.setdefault(key.public, key)
    for line in held:
        found.setdefault(line.key, _only_in_agent(line))
    good = [key for key in found.values() if key.public.problem() is None and _in_its_time(key.public)]
    return tuple(sorted(good, key=lambda key: _ASKS.index(key.asks)))


def key_to_enrol(keys: Sequence[OperatorKey]) -> OperatorKey | None:
    """The key that a first operator gets if nobody is asked. None: make one.

    Not any key in ~/.ssh: one made for a server or a script may be where others can read it.
    """
    choices = (
        [key for key in keys if key.usual],
        [key for key in keys if key.private == own_key_file()],
        [key for key in keys if key.where == "ssh-agent"],
    )
    return next((key for choice in choices for key in choice if key.public.certificate is None), None)


def keys_of_file(path: Path) -> tuple[OperatorKey, ...]:
    """What a named key file signs as: the plain key, or the certificate beside it.

    If its private key is missing, ssh-keygen says so.
    """
    return tuple(_of_file(path, keys_in_agent(), named=True))


def own_key_file() -> Path:
    """The private key that ThreeGate made for this account, or would make."""
    return config_home() / "threegate" / "operator_ed25519"


def make_key(passphrase: bool) -> tuple[OperatorKey, bool]:
    """ThreeGate's own key of this account, and whether it was made now: one that is there is never replaced.

    With `passphrase`, ssh-keygen asks for one on the terminal; an empty answer is none, so look at `asks`. Raises
    Unavailable, InvalidInput if the person gave up.
    """
    path = own_key_file()
    made = not path.is_file()
    if made:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        command = [SSH_KEYGEN, "-q", "-t", "ed25519", "-C", "threegate-operator", "-f", str(path)]
        try:
            if passphrase:
                done = subprocess.run(command)  # a person answers it: nothing waits for that but this command
            else:
                done = subprocess.run([*command, "-N", ""], stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(
                f"{path}: ssh-keygen could not make a key ({type(error).__name__}); install openssh-client or give "
                "--key PUB"
            ) from None
        if done.returncode != 0:
            raise InvalidInput(f"{path}: ssh-keygen made no key; try again, or give --key PUB")
    key = next(iter(_of_file(path, keys_in_agent())), None)
    if key is None:
        raise InvalidInput(f"{path}: not a private key; move it away, and a new one is made")
    return key, made


def _of_file(path: Path, held: Sequence[PublicLine], *, named: bool = False) -> Iterator[OperatorKey]:
    """A private key, then the certificate beside it; of a .pub or certificate, itself. One that cannot sign here
    only if a person named it.
    """
    private = private_of(path)
    known = read_private(private)
    in_agent = {line.key for line in held}
    if path.suffix == ".pub":
        candidates = [(path, read_public(path))]
    else:
        # Named as the private key, ssh-keygen signs with the plain key; with the certificate only under its own name.
        certificate = Path(f"{path}-cert.pub")
        plain = read_public(Path(f"{path}.pub"))
        if plain is None and known is not None and known.public is not None:
            plain = line_of(known.public)
        candidates = [(path, plain), (certificate, read_public(certificate))]
    silent = known is not None and known.asks != "passphrase"
    for file, line in candidates:
        if line is None:
            continue
        # What is in ssh-agent too may ask there (`ssh-add -c`); a file without a passphrase never does.
        if line.key in in_agent and not silent:
            yield replace(_only_in_agent(line), private=None if known is None else private)
        elif known is None and named:
            yield replace(_only_in_agent(line), where="file", signs_with=file)
        elif known is not None:
            ours = private == own_key_file()
            where: Where = "threegate" if ours else "token" if line.key.hardware else "file"
            yield OperatorKey(line, where, private, file, known.asks)


def _in_its_time(key: PublicKey) -> bool:
    certificate = key.certificate
    return certificate is None or certificate.valid_after <= time.time() < certificate.valid_before


def _only_in_agent(line: PublicLine) -> OperatorKey:
    return OperatorKey(line, "ssh-agent", None, KeyInAgent(line), what_it_asks(KeyInAgent(line)))


def _ssh_folder() -> Path:
    return Path.home() / ".ssh"


def _key_files() -> Iterator[Path]:
    """Where private keys may be: ssh-keygen's own names in ~/.ssh, ThreeGate's, then beside each .pub in ~/.ssh."""
    folder = _ssh_folder()
    usual = [folder / name for name in _USUAL]
    yield from usual
    yield own_key_file()
    try:
        others = (path for other in folder.glob("*.pub") if (path := private_of(other)) not in usual)
        yield from sorted(islice(others, limits.KEY_FILES))
    except OSError:
        return


def below_home(path: Path) -> str:
    """A path below the home folder with ``~``."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
