"""Keys in ssh-agent, and a passphrase that is asked for once: real programs; the dialog is SSH_ASKPASS's here.

tests/acts/test_passphrase_on_a_terminal.py asks on a pseudo-terminal.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.approval import fido
from tests.approval.soft_agent import agent_that, listing, running_agent, token_in_agent
from tests.approval.test_key_files import token_file
from tests.support import children, make_key, processes, wait_until
from threegate.approval import signature, ssh_agent
from threegate.approval.key_files import parse_line, read_public
from threegate.approval.signature import (
    KeyInAgent,
    forget_unlocked,
    may_ask,
    never_asking,
    sign_statement,
    what_it_asks,
)
from threegate.approval.ssh_agent import keys_in_agent
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, parse_armor
from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable

PHRASE = f"open sesame {secrets.token_hex(8)}"
"""Tests in other processes have another one."""


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield
    forget_unlocked()


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A key with a passphrase."""
    key = make_key(tmp_path / "locked")
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", PHRASE, "-f", key], check=True, stdout=subprocess.DEVNULL)
    return key


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often a dialog that knows the passphrase was opened, where there is a terminal."""
    log, dialog = tmp_path / "asked", tmp_path / "dialog"
    dialog.write_text(f"#!/bin/sh\necho >>{log}\necho '{PHRASE}'\n")
    dialog.chmod(0o700)
    log.touch()
    monkeypatch.setenv("SSH_ASKPASS", str(dialog))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.setattr("os.isatty", lambda descriptor: True)
    return lambda: len(log.read_text().splitlines())


def sign(key: signature.KeySource, **options: bool) -> str:
    """Sign something; the fingerprint of the key that did."""
    armor = sign_statement(b"statement", key, NAMESPACE_APPROVAL, **options)
    return parse_armor(armor).key.fingerprint


def fingerprint(key: Path) -> str:
    line = read_public(Path(f"{key}.pub"))
    assert line is not None
    return line.key.fingerprint


def own_agents() -> set[int]:
    """The agents that this process started: each is the child of what it runs for."""
    return {agent for holder in children(os.getpid()) for agent in children(holder, "ssh-agent")}


def test_a_passphrase_is_asked_for_once_and_forgotten(locked: Path, asked: Callable[[], int]) -> None:
    assert what_it_asks(locked) == "passphrase"
    for _ in range(3):
        assert sign(locked) == fingerprint(locked)
    assert asked() == 1
    (agent,) = own_agents()
    for _, line in [*processes(), *processes("environ")]:
        assert PHRASE.encode() not in line
    forget_unlocked()
    assert not [line for pid, line in processes() if pid == agent and line]  # init may not have reaped it yet
    assert sign(locked) == fingerprint(locked) and asked() == 2


def test_a_certificate_is_unlocked_with_its_key(tmp_path: Path, locked: Path, asked: Callable[[], int]) -> None:
    authority = make_key(tmp_path / "ca")
    command = ["ssh-keygen", "-q", "-s", authority, "-I", "id", "-n", "me", f"{locked}.pub"]
    subprocess.run(command, check=True)
    armor = sign_statement(b"x", tmp_path / "locked-cert.pub", NAMESPACE_APPROVAL)
    certificate = parse_armor(armor).key.certificate
    assert certificate is not None and certificate.principals == ("me",)
    assert sign(locked) == fingerprint(locked) and asked() == 1


@pytest.mark.parametrize("how", ["no terminal", "an agent had it", "an optional signature"])
def test_where_nothing_may_be_asked(
    locked: Path, asked: Callable[[], int], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "no terminal":
        monkeypatch.setattr("os.isatty", lambda descriptor: False)
    words = f"{locked}: needs its passphrase, which is not asked for here .*in another terminal, .*: ssh-add {locked}$"
    if how == "an agent had it":
        with never_asking():
            assert not may_ask()
            with pytest.raises(InvalidInput, match=words):
                sign(locked)
        assert may_ask()
    else:
        with pytest.raises(InvalidInput, match=words):
            sign(locked, ask=how == "no terminal")
    assert asked() == 0


def test_what_was_unlocked_before_an_agent_had_the_terminal_is_forgotten(
    locked: Path, asked: Callable[[], int]
) -> None:
    sign(locked)
    with never_asking(), pytest.raises(InvalidInput, match="not asked for here"):
        sign(locked)
    assert asked() == 1


def test_no_right_answer(tmp_path: Path, locked: Path, asked: Callable[[], int]) -> None:
    (tmp_path / "dialog").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(InvalidInput, match=f"{locked}: was not unlocked"):
        sign(locked)


@pytest.mark.parametrize(
    ("program", "text", "words"),
    [
        ("SSH_AGENT", None, "No such file"),
        ("SSH_AGENT", "#!/bin/sh\nexit 1\n", "it does not start"),
        ("SSH_ADD", None, "No such file"),
    ],
)
def test_programs_that_are_not_there(
    tmp_path: Path,
    locked: Path,
    asked: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    text: str | None,
    words: str,
) -> None:
    path = tmp_path / "program"
    if text is not None:
        path.write_text(text)
        path.chmod(0o700)
    monkeypatch.setattr(ssh_agent, program, str(path))
    with pytest.raises(Unavailable, match=f"{words}.*apt-get install openssh-client"):
        sign(locked)


def test_our_agent_may_be_gone_already(locked: Path, asked: Callable[[], int]) -> None:
    sign(locked)
    (agent,) = own_agents()
    os.kill(agent, signal.SIGKILL)
    assert sign(locked) == fingerprint(locked) and asked() == 2  # ssh-keygen itself asks
    forget_unlocked()
    assert sign(locked) == fingerprint(locked) and asked() == 3


@pytest.mark.slow
def test_our_agent_ends_with_a_process_that_is_killed(tmp_path: Path, locked: Path) -> None:
    """Its socket is gone within ten seconds: ssh-agent looks for its parent that often."""
    dialog = tmp_path / "dialog"
    dialog.write_text(f"#!/bin/sh\necho '{PHRASE}'\n")
    dialog.chmod(0o700)
    text = (
        "import sys; from pathlib import Path; from threegate.approval.ssh_agent import OwnAgent\n"
        f"environment = {{'SSH_ASKPASS': {str(dialog)!r}, 'SSH_ASKPASS_REQUIRE': 'force'}}\n"
        f"print(OwnAgent().unlock(Path({str(locked)!r}), environment), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        socket = it.stdout.readline().strip()
        assert os.path.exists(socket)
        it.kill()
    wait_until(lambda: not os.path.exists(socket), "the agent's end", seconds=30)
    os.rmdir(os.path.dirname(socket))


def test_a_key_that_only_the_agent_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key(tmp_path / "key")
    with running_agent(tmp_path, key) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        key.unlink()
        (line,) = keys_in_agent()
        held = KeyInAgent(line)
        assert (what_it_asks(held), str(held)) == ("nothing", f"the key {fingerprint(key)} in ssh-agent")
        assert sign(held) == sign(tmp_path / "key.pub") == sign(held, ask=False) == fingerprint(key)
        assert what_it_asks(tmp_path / "key.pub") == "nothing"
    monkeypatch.delenv("SSH_AUTH_SOCK")
    for gone in (held, tmp_path / "key.pub"):
        with pytest.raises(InvalidInput, match="ssh-keygen did not sign"):
            sign(gone)


def test_an_encrypted_key_that_the_agent_has_asks_nothing(
    tmp_path: Path, locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "plain" / "locked"
    plain.parent.mkdir()
    plain.write_bytes(locked.read_bytes())
    plain.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", PHRASE, "-N", "", "-f", plain], check=True)
    with running_agent(tmp_path, plain) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        with never_asking():
            assert what_it_asks(locked) == "nothing"
            assert sign(locked) == fingerprint(locked)
            locked.with_suffix(".pub").rename(tmp_path / "away")
            assert what_it_asks(locked) == "nothing" and sign(locked).startswith("SHA256:")


def test_a_token_in_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = fido.ed25519_key()
    line = parse_line(token.text)
    assert line is not None
    with agent_that(tmp_path, token_in_agent(token)) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        (held,) = keys_in_agent()
        assert (held.text, held.comment, what_it_asks(KeyInAgent(held))) == (line.text, "a token", "touch")
        with never_asking():
            assert sign(KeyInAgent(held)) == line.key.fingerprint
        (tmp_path / "sk.pub").write_text(token.text)
        assert what_it_asks(tmp_path / "sk.pub") == "touch"
        assert sign(tmp_path / "sk.pub") == line.key.fingerprint


@pytest.mark.parametrize(("flags", "asks"), [(1, "touch"), (5, "passphrase")])
def test_a_token_that_is_not_plugged_in_asks_nothing_of_us(
    tmp_path: Path, asked: Callable[[], int], flags: int, asks: str
) -> None:
    """ssh-keygen itself asks for a PIN; no agent of ours is started for it."""
    token = fido.ed25519_key()
    (tmp_path / "sk").write_bytes(token_file(token, flags))
    (tmp_path / "sk").chmod(0o600)
    (tmp_path / "sk.pub").write_text(token.text)
    assert what_it_asks(tmp_path / "sk") == asks
    with pytest.raises(InvalidInput, match="did not sign"):
        sign(tmp_path / "sk")
    assert own_agents() == set()
    opened = asked()
    with never_asking(), pytest.raises(InvalidInput, match="did not sign" if flags == 1 else "not asked for here"):
        sign(tmp_path / "sk")
    assert asked() == opened


def key_line(tmp_path: Path) -> bytes:
    line = read_public(make_key(tmp_path / "k").with_suffix(".pub"))
    assert line is not None
    return line.key.blob


@pytest.mark.parametrize("kind", ["garbage", "nothing", "too many", "no key", "closed", "no socket", "NUL"])
def test_an_agent_that_misbehaves_has_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """And does not hold up a key that needs none."""
    monkeypatch.setattr(limits, "AGENT_LIST_SECONDS", 0.5)
    if kind == "too many":
        monkeypatch.setattr(limits, "AGENT_LIST_BYTES", 200)
    blob = key_line(tmp_path)
    answers = {
        "garbage": b"\0\0\0\5\x0c\xff\xff\xff\xff",
        "nothing": None,
        "too many": listing([(blob, b"%d" % number) for number in range(3)]),
        "no key": listing([(b"\0\0\0\3abc", b"")]),
        "closed": b"",
    }
    with agent_that(tmp_path, lambda message: answers.get(kind)) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", {"no socket": str(tmp_path), "NUL": "x"}.get(kind, socket))
        assert keys_in_agent() == ()
        key = make_key(tmp_path / "key")
        assert sign(key) == fingerprint(key)


def test_a_hostile_comment_is_not_a_second_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh-add prints it as it is; a line in it names a key that the agent could have listed itself."""
    blob = key_line(tmp_path)
    with agent_that(tmp_path, lambda message: listing([(blob, b"\x1b[2J\nssh-ed25519 AAAA you")])) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        (line,) = keys_in_agent()
        assert (line.key.blob, line.comment) == (blob, "")


def test_without_ssh_add_there_are_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "socket"))
    monkeypatch.setattr(ssh_agent, "SSH_ADD", str(tmp_path / "missing"))
    assert keys_in_agent() == ()


def test_what_a_file_asks_that_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("nothing")
    assert what_it_asks(tmp_path / "broken") == "nothing"
    with pytest.raises(InvalidInput, match="did not sign"):
        sign(tmp_path / "broken")
