"""Sign and verify with the operator's own ssh-keygen: only this module and `ssh_agent` start programs in this gate.

Invariant: ssh-keygen is started by its absolute path with our environment (TZ=UTC, no locale), and reads only snapshots
of bytes that were checked before; the signing key's is the only file name passed to it that another account could
change. It asks only on a terminal, a passphrase once for each command, and neither a passphrase nor a PIN while
`never_asking` is in effect.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from threegate.approval.key_files import Asks, PrivateFile, PublicLine, read_private, read_public
from threegate.approval.operators import Operators
from threegate.approval.ssh_agent import OwnAgent, keys_in_agent
from threegate.approval.ssh_wire import MalformedError, SshSignature, parse_armor
from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable

SSH_KEYGEN: Final = "/usr/bin/ssh-keygen"
_VERIFY_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "TZ": "UTC", "LC_ALL": "C"}
# What ssh-keygen and ssh-add need to find a token, and to ask a person; nothing else is passed on.
_ASKING_KEEPS: Final = (
    "HOME", "USER", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SSH_SK_PROVIDER",
    "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "TERM",
)  # fmt: skip
_SILENT_KEEPS: Final = ("HOME", "USER", "SSH_SK_PROVIDER")
# Whatever would be asked is answered with nothing: without a terminal ssh-keygen would read a PIN from its input.
_SILENT: Final = {"SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force"}


@dataclass(frozen=True, slots=True)
class KeyInAgent:
    """A key that only ssh-agent has: its public line takes the place of a file."""

    line: PublicLine

    def __str__(self) -> str:
        return f"the key {self.line.key.fingerprint} in ssh-agent"


KeySource = Path | KeyInAgent
"""What signs: a key file (a private key; or a public key or certificate, whose private key is beside it or in
ssh-agent), or a key in ssh-agent.
"""


class _Asking:
    """Whether this process may ask for a passphrase, and the keys that were unlocked by one."""

    forbidden = 0
    agent: OwnAgent | None = None


def may_ask() -> bool:
    """Whether a signature may ask for a passphrase: there is a terminal, and `never_asking` is not in effect."""
    return not _Asking.forbidden and os.isatty(0) and os.isatty(2)


@contextmanager
def never_asking() -> Iterator[None]:
    """Nothing asks for a passphrase or PIN in this block: for a terminal that an agent had, since it could draw a
    question, or a false end of itself. Keys that were unlocked before are forgotten.
    """
    forget_unlocked()
    _Asking.forbidden += 1
    try:
        yield
    finally:
        _Asking.forbidden -= 1


def forget_unlocked() -> None:
    """Forget the keys that a passphrase unlocked, before the end of the command."""
    if _Asking.agent is not None:
        _Asking.agent.end()
        _Asking.agent = None


def what_it_asks(key: KeySource) -> Asks:
    """What a signature with this key asks the person for; what ssh-agent itself may ask is not known."""
    if isinstance(key, KeyInAgent):
        return "touch" if key.line.key.hardware else "nothing"
    private, line = read_private(private_of(key)), read_public(key)
    if private is None or (private.asks == "passphrase" and _in_agent(key)):
        return "touch" if line is not None and line.key.hardware else "nothing"
    return private.asks


def _in_agent(key: Path) -> bool:
    """Whether ssh-agent has what ssh-keygen would sign with for this file."""
    line = read_public(key if key.suffix == ".pub" else Path(f"{key}.pub"))
    private = read_private(key)
    public = line.key if line is not None else private.public if private is not None else None
    return any(held.key == public for held in keys_in_agent())


def private_of(key: Path) -> Path:
    """The private key's file to a file that ssh-keygen signs with."""
    return Path(str(key).removesuffix(".pub").removesuffix("-cert")) if key.suffix == ".pub" else key


def sign_command(key: Path, namespace: str) -> list[str]:
    """The command line that signs standard input: for files, agents, FIDO keys and certificates alike."""
    return [SSH_KEYGEN, "-q", "-Y", "sign", "-n", namespace, "-f", str(key)]


def sign_statement(data: bytes, key: KeySource, namespace: str, *, ask: bool = True) -> bytes:
    """The armored signature of `data` by `key`.

    A passphrase is asked for once for each command, if `may_ask`; a touch is waited for. With `ask` false nothing is
    asked or waited for, and a key that needs an answer does not sign. Raises Unavailable if ssh-keygen cannot be run or
    does not answer in time, InvalidInput if it does not sign or its output is not in our canonical form.
    """
    asking = ask and may_ask()
    keeps = _ASKING_KEEPS if asking else _SILENT_KEEPS
    environment = {name: os.environ[name] for name in keeps if name in os.environ}
    environment |= _VERIFY_ENVIRONMENT | ({} if asking else _SILENT)
    with _signing_file(key, environment, asking) as (path, socket, descriptors):
        try:
            done = subprocess.run(
                sign_command(path, namespace),
                input=data,
                stdout=subprocess.PIPE,
                stderr=None if ask and os.isatty(2) else subprocess.PIPE,  # on a terminal: "touch your key", its errors
                env=environment | ({"SSH_AUTH_SOCK": socket} if socket else {}),
                timeout=limits.SIGN_SECONDS if ask else limits.QUIET_SIGN_SECONDS,
                # Without a terminal ssh-keygen cannot ask, and fails instead.
                start_new_session=not asking,
                pass_fds=descriptors,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"{SSH_KEYGEN}: could not sign ({_why(error)}); nothing was approved") from None
    if done.returncode != 0:
        said = (done.stderr or b"").decode("utf-8", "replace").strip().splitlines()
        reason = said[-1] if said else "see its message above, if there is one"
        raise InvalidInput(f"{key}: ssh-keygen did not sign: {reason}")
    try:
        parse_armor(done.stdout)
    except MalformedError as error:
        raise InvalidInput(f"{key}: the signature {error}; use another key") from None
    return done.stdout


@contextmanager
def _signing_file(
    key: KeySource, environment: Mapping[str, str], asking: bool
) -> Iterator[tuple[Path, str, Sequence[int]]]:
    """The file for ssh-keygen, the socket of the agent that has its private key (or empty), and descriptors that it
    needs. Asks for a passphrase if `asking`. Raises InvalidInput, Unavailable.
    """
    if isinstance(key, KeyInAgent):
        with _snapshots([f"{key.line.text}\n".encode()]) as (descriptor,):
            yield Path(f"/proc/self/fd/{descriptor}"), os.environ.get("SSH_AUTH_SOCK", ""), [descriptor]
        return
    if not key.is_file():
        raise InvalidInput(f"{key}: the key file does not exist; name yours with --key")
    key, socket = key.absolute(), ""
    path = private_of(key)
    private = read_private(path)
    # Only where it is needed: an agent that hangs must not hold up a key that signs without it.
    if private is None or private.asks == "passphrase":
        if _in_agent(key):
            socket = os.environ["SSH_AUTH_SOCK"]
        elif private is not None and not asking:
            raise InvalidInput(
                f"{path}: needs its passphrase, which is not asked for here (no terminal, or one that an agent had); "
                f"decide in another terminal, or run there: ssh-add {path}"
            )
        elif private is not None and not _asks_by_token(private):
            if _Asking.agent is None:
                _Asking.agent = OwnAgent()
            socket = _Asking.agent.unlock(path, environment)
    yield key, socket, ()


def _asks_by_token(private: PrivateFile) -> bool:
    """Whether ssh-keygen itself has to ask, at each signature: an agent cannot ask for a token's PIN."""
    return private.public is not None and private.public.hardware


def verify_command(name: str, namespace: str, at: datetime, paths: Sequence[str]) -> list[str]:
    """The command line that verifies standard input; `paths` are allowed signers, signature, [revoked keys]."""
    command = [
        SSH_KEYGEN, "-q", "-Y", "verify", "-n", namespace, "-I", name,
        "-O", f"verify-time={at.astimezone(UTC):%Y%m%d%H%M%S}", "-f", paths[0], "-s", paths[1],
    ]  # fmt: skip
    return [*command, "-r", paths[2]] if len(paths) > 2 else command


def genuine(
    data: bytes,
    signature: SshSignature,
    name: str,
    namespace: str,
    operators: Operators,
    *,
    at: Sequence[datetime],
    revocation: bool = True,
) -> bool:
    """Whether ssh-keygen verifies `signature` over `data` by the principal `name` at every time in `at`.

    With `revocation` false the revocation file is ignored: only to find out why a signature failed, never to
    accept one. Raises Unavailable if ssh-keygen cannot be run.
    """
    contents = [data, operators.data, signature.armor]
    if revocation and operators.revoked is not None:
        contents.append(operators.revoked)
    processes: list[subprocess.Popen[bytes]] = []
    with _snapshots(contents) as (statement, *descriptors):
        paths = [f"/proc/self/fd/{descriptor}" for descriptor in descriptors]
        try:
            for moment in at:
                # Opened for each process: they would share one offset, and the second one would read nothing.
                with open(f"/proc/self/fd/{statement}", "rb") as own_reading:
                    processes.append(
                        subprocess.Popen(
                            verify_command(name, namespace, moment, paths),
                            stdin=own_reading,
                            stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL,
                            env=_VERIFY_ENVIRONMENT,
                            pass_fds=descriptors,
                        )
                    )
            until = time.monotonic() + limits.SSH_KEYGEN_SECONDS
            for process in processes:
                _wait(process, until)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"{SSH_KEYGEN}: could not verify ({_why(error)})") from None
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
    return all(process.returncode == 0 for process in processes)


def _wait(process: subprocess.Popen[bytes], until: float) -> None:
    """Wait for a child without polling. Raises TimeoutExpired, OSError."""
    descriptor = os.pidfd_open(process.pid)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        left = max(until - time.monotonic(), 0.0)
        if not poller.poll(1000 * left):
            raise subprocess.TimeoutExpired(process.args, limits.SSH_KEYGEN_SECONDS)
    finally:
        os.close(descriptor)
    process.wait()


def _why(error: OSError | subprocess.TimeoutExpired) -> str:
    """Why ssh-keygen failed, and the fix."""
    if isinstance(error, FileNotFoundError):
        return "it is not there; install it: apt-get install openssh-client"
    return "no answer in time" if isinstance(error, subprocess.TimeoutExpired) else str(error.strerror)


@contextmanager
def _snapshots(contents: Sequence[bytes]) -> Iterator[list[int]]:
    """Memory files with these contents, as descriptors that a child can read through /proc/self/fd."""
    descriptors: list[int] = []
    try:
        for content in contents:
            descriptor = os.memfd_create("threegate", os.MFD_CLOEXEC)
            descriptors.append(descriptor)
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
