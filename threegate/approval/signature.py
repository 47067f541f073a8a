"""Sign and verify with the operator's own ssh-keygen: the only module of this gate that uses the operating system.

Invariant: ssh-keygen is started by its absolute path with our environment (TZ=UTC, no locale), and reads only snapshots
of bytes that were checked before; the signing key's is the only file name passed to it that another account could
change.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from threegate.approval.operators import Operators
from threegate.approval.ssh_wire import MalformedError, SshSignature, parse_armor
from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable

SSH_KEYGEN: Final = "/usr/bin/ssh-keygen"
_VERIFY_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "TZ": "UTC", "LC_ALL": "C"}
# What ssh-keygen needs to find the key, an agent or a token, and to ask a person; nothing else is passed on.
_SIGN_KEEPS: Final = (
    "HOME", "USER", "SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SSH_SK_PROVIDER",
    "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "TERM",
)  # fmt: skip
_QUIET_KEEPS: Final = ("HOME", "USER", "SSH_AUTH_SOCK")


def sign_command(key: Path, namespace: str) -> list[str]:
    """The command line that signs standard input: for files, agents, FIDO keys and certificates alike."""
    return [SSH_KEYGEN, "-q", "-Y", "sign", "-n", namespace, "-f", str(key)]


def sign_statement(data: bytes, key: Path, namespace: str, *, ask: bool = True) -> bytes:
    """The armored signature of `data` by `key` (a private key, or a public key whose other half is in an agent).

    ssh-keygen may ask for a passphrase or a touch on the terminal, unless `ask` is false: then it has no terminal, and
    a key that needs an answer does not sign. Raises Unavailable if it cannot be run or does not answer in time,
    InvalidInput if it does not sign or its output is not in our canonical form.
    """
    if not key.is_file():
        raise InvalidInput(f"{key}: the key file does not exist; name yours with --key")
    keeps = _SIGN_KEEPS if ask else _QUIET_KEEPS
    environment = {name: os.environ[name] for name in keeps if name in os.environ}
    try:
        done = subprocess.run(
            sign_command(key.absolute(), namespace),
            input=data,
            stdout=subprocess.PIPE,
            stderr=None if ask and os.isatty(2) else subprocess.PIPE,  # on a terminal: "touch your key", and its errors
            env={**_VERIFY_ENVIRONMENT, **environment},
            timeout=limits.SIGN_SECONDS if ask else limits.QUIET_SIGN_SECONDS,
            # Without a terminal ssh-keygen cannot ask, and fails instead.
            start_new_session=not ask,
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
