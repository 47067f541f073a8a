"""Which keys a person has, and who they are with them: found in ssh-agent and in files, without --key."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.approval import fido
from tests.approval.soft_agent import agent_that, running_agent, token_in_agent
from tests.approval.test_key_files import token_file
from tests.support import make_key
from threegate.acts import operator_keys as own_keys
from threegate.acts.operator import add_operator
from threegate.acts.operator_keys import OperatorKey, key_to_enrol, keys_of_file, operator_keys
from threegate.cli import execute as run
from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.review.countersign import verify_approval

ED25519 = ("-t", "ed25519")
"""By ssh-keygen, with a comment in the private key."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with an empty ~/.ssh, and no agent."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ssh-agent without keys."""
    with running_agent(tmp_path) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        yield


def lock(key: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", key], check=True, capture_output=True)
    return key


def into_agent(key: Path) -> None:
    subprocess.run(["ssh-add", "-q", key], check=True)


def put(key: Path, name: str, home: Path) -> Path:
    """A copy of a key in ~/.ssh."""
    target = home / ".ssh" / name
    target.write_bytes(key.read_bytes())
    target.chmod(0o600)
    target.with_name(f"{name}.pub").write_bytes(Path(f"{key}.pub").read_bytes())
    return target


def told(keys: tuple[OperatorKey, ...]) -> list[tuple[str, str, str]]:
    return [(key.described, key.where, key.asks) for key in keys]


def approved(bench: Bench, *words: str) -> int:
    """Approve a draft as a command without --key does, and check the approval."""
    path = bench.draft()
    code = run(["--workspace", str(bench.workspace.root), "approve", path.name, "--yes", *words])
    for done in bench.workspace.approved.glob("*.md"):
        assert all(check.ok for check in verify_approval(bench.context, done))
    return code


def test_what_asks_nothing_comes_first(home: Path, agent: None, tmp_path: Path) -> None:
    ssh = home / ".ssh"
    lock(make_key(ssh / "id_ed25519"))
    make_key(ssh / "server")
    token = fido.ed25519_key()
    (ssh / "id_ed25519_sk").write_bytes(token_file(token, 1))
    own_keys.make_key(False)
    held = make_key(tmp_path / "me@here", ED25519)
    into_agent(held)
    (ssh / "colleague.pub").write_bytes(make_key(tmp_path / "other").with_suffix(".pub").read_bytes())
    assert told(operator_keys()) == [
        ("~/.config/threegate/operator_ed25519", "threegate", "nothing"),
        ("~/.ssh/server", "file", "nothing"),
        ("in ssh-agent as me@here", "ssh-agent", "nothing"),
        ("~/.ssh/id_ed25519_sk, asks for a touch", "token", "touch"),
        ("~/.ssh/id_ed25519, asks for its passphrase", "file", "passphrase"),
    ]


def test_a_file_without_a_passphrase_is_taken_before_the_agent(home: Path, agent: None) -> None:
    key = make_key(home / ".ssh" / "id_ed25519")
    into_agent(key)
    assert told(operator_keys()) == [("~/.ssh/id_ed25519", "file", "nothing")]
    lock(key)
    assert told(operator_keys()) == [("~/.ssh/id_ed25519, in ssh-agent", "ssh-agent", "nothing")]


def test_of_many_files_some_are_looked_at(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEY_FILES", 2)
    for number in range(4):
        make_key(home / ".ssh" / f"key{number}")
    make_key(home / ".ssh" / "id_ecdsa", ["-t", "ecdsa"])
    assert len(operator_keys()) == 3
    make_key(home / ".ssh" / "id_rsa", ["-t", "rsa", "-b", "1024"])
    assert len(operator_keys()) == 3, "too short to approve"


def test_the_agent_is_asked_once(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many locked keys there are: it may take its two seconds."""
    program, log = tmp_path / "ssh-add", tmp_path / "log"
    program.write_text(f"#!/bin/sh\necho >>{log}\nexit 2\n")
    program.chmod(0o700)
    monkeypatch.setattr("threegate.approval.ssh_agent.SSH_ADD", str(program))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "socket"))
    for name in ("id_ed25519", "one", "two"):
        lock(make_key(home / ".ssh" / name))
    assert [key.asks for key in operator_keys()] == ["passphrase"] * 3
    assert log.read_text() == "\n"


def test_hostile_files_are_no_keys(home: Path) -> None:
    ssh = home / ".ssh"
    os.mkfifo(ssh / "fifo.pub")
    os.mkfifo(ssh / "id_ed25519")
    (ssh / "folder.pub").mkdir()
    (ssh / "long.pub").write_bytes(b"x" * (limits.KEY_TEXT_BYTES + 1))
    (ssh / "bytes.pub").write_bytes(bytes(range(256)))
    assert operator_keys() == ()


def test_the_key_of_a_first_operator_is_not_any_key(home: Path, agent: None, tmp_path: Path) -> None:
    assert key_to_enrol(operator_keys()) is None
    make_key(home / ".ssh" / "server")
    assert key_to_enrol(operator_keys()) is None
    into_agent(make_key(tmp_path / "held", ED25519))
    for described, add in (
        ("in ssh-agent as held", lambda: None),
        ("~/.config/threegate/operator_ed25519", lambda: own_keys.make_key(False)),
        ("~/.ssh/id_ed25519, asks for its passphrase", lambda: lock(make_key(home / ".ssh" / "id_ed25519"))),
    ):
        add()
        key = key_to_enrol(operator_keys())
        assert key is not None and key.described == described


def test_a_key_in_the_agent_approves_without_key(bench: Bench, agent: None) -> None:
    into_agent(bench.keys["alice"])
    bench.keys["alice"].unlink()
    assert approved(bench) == 0


def test_a_locked_key_in_the_agent_approves_without_a_question(bench: Bench, home: Path, agent: None) -> None:
    into_agent(bench.keys["alice"])
    lock(put(bench.keys["alice"], "id_ed25519", home))
    assert approved(bench) == 0


def test_a_token_in_the_agent_approves(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    token = fido.ed25519_key()
    add_operator(bench.workspace, "bob", token.text, actor="test")
    with agent_that(tmp_path, token_in_agent(token)) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        assert approved(bench, "--json") == 0
        path = bench.draft("req-2", slug="two")
        assert run(["--workspace", str(bench.workspace.root), "reject", path.name, "--reason", "no"]) == 0
    assert "bob" in capfd.readouterr().out


def test_an_agent_that_hangs_delays_a_key_file_by_a_moment(
    bench: Bench, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bench.keys["alice"], "id_ed25519", home)
    monkeypatch.setattr(limits, "AGENT_LIST_SECONDS", 0.3)
    with agent_that(tmp_path, lambda message: None) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        assert approved(bench) == 0


def test_no_key_is_one_line(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with agent_that(tmp_path, lambda message: b"\0\0\0\5\x0c\xff\xff\xff\xff") as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        assert approved(bench) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("threegate: none of your keys in ssh-agent and ~/.ssh is one of an operator's; name it with")


def certified(key: Path, authority: Path, *options: str) -> None:
    command = ["ssh-keygen", "-q", "-s", authority, "-I", "id", "-n", "carol", *options, f"{key}.pub"]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("place", ["file", "named", "agent"])
def test_the_certificate_beside_a_key_approves(
    bench: Bench, home: Path, agent: None, tmp_path: Path, place: str
) -> None:
    authority = make_key(tmp_path / "ca")
    add_operator(bench.workspace, "carol", authority.with_suffix(".pub").read_text(), actor="test", authority=True)
    key = make_key(home / ".ssh" / "id_ed25519")
    certified(key, authority)
    if place == "agent":
        into_agent(key)
        for file in (home / ".ssh").iterdir():
            file.unlink()
    assert approved(bench, *(["--key", str(key)] if place == "named" else [])) == 0


def test_an_expired_certificate_is_not_tried(bench: Bench, home: Path, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "ca")
    add_operator(bench.workspace, "carol", authority.with_suffix(".pub").read_text(), actor="test", authority=True)
    certified(make_key(home / ".ssh" / "id_ed25519"), authority, "-V", "20200101:20200102")
    put(bench.keys["alice"], "id_ecdsa", home)
    assert approved(bench) == 0


def test_a_named_key_without_its_private_half_says_so(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "alone.pub").write_bytes(bench.keys["alice"].with_suffix(".pub").read_bytes())
    assert [key.asks for key in keys_of_file(tmp_path / "alone.pub")] == ["nothing"]
    assert approved(bench, "--key", str(tmp_path / "alone.pub")) == 2
    assert "alone.pub: ssh-keygen did not sign: " in capfd.readouterr().err


def test_init_takes_the_key_of_the_agent(agent: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    into_agent(make_key(tmp_path / "held", ED25519))
    assert run(["init", str(tmp_path / "ws")]) == 0
    out = capfd.readouterr().out
    assert "(in ssh-agent as held)" in out and "new key" not in out
    (key,) = operator_keys()
    assert key.fingerprint in out


def test_init_makes_a_key_only_where_a_workspace_can_be(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run(["init", str(tmp_path / "file")]) == 2
    assert operator_keys() == ()
    assert run(["--json", "init", str(tmp_path / "ws")]) == 0
    own = home / ".config" / "threegate" / "operator_ed25519"
    assert json.loads(capfd.readouterr().out)["new_key"] == str(own)
    assert own.stat().st_mode & 0o077 == 0 and own.parent.stat().st_mode & 0o077 == 0


def test_our_key_is_made_once_and_never_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = home / ".config" / "threegate" / "operator_ed25519"
    first, made = own_keys.make_key(False)
    assert made and first.described == "~/.config/threegate/operator_ed25519"
    own.with_suffix(".pub").unlink()  # as if it was interrupted there
    again, made = own_keys.make_key(False)
    assert not made and again.fingerprint == first.fingerprint
    own.write_text("something else")
    with pytest.raises(InvalidInput, match="not a private key; move it away"):
        own_keys.make_key(False)
    assert own.read_text() == "something else"
    own.unlink()
    monkeypatch.setattr("threegate.acts.operator_keys.SSH_KEYGEN", "/bin/false")
    with pytest.raises(InvalidInput, match="ssh-keygen made no key"):
        own_keys.make_key(False)
    monkeypatch.setattr("threegate.acts.operator_keys.SSH_KEYGEN", "/missing")
    with pytest.raises(Unavailable, match="install openssh-client or give --key PUB"):
        own_keys.make_key(False)
