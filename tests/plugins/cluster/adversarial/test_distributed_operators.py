"""What a taken-over broker, a stolen workspace key, an operator who was removed, or a crash can make of the operators
files that a worker takes.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support import make_key
from threegate.approval.operators import Operators, load_operators
from threegate.approval.signature import sign_statement
from threegate.approval.ssh_wire import NAMESPACE_ACT, NAMESPACE_APPROVAL
from threegate.approval.statement import Act, render_signed
from threegate.core import durable
from threegate.core.errors import Refused
from threegate.plugins.cluster.operators_act import OPERATORS_ACT, about_operators, signed_files
from threegate.plugins.cluster.worker import operators_file
from threegate.plugins.cluster.worker.operators_file import WorkerOperators

WORKSPACE = "ws-" + "1" * 32


def public(key: Path) -> str:
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


class Machine:
    """A worker whose own file names alice and bob, and was last changed an hour ago."""

    def __init__(self, folder: Path) -> None:
        self.keys = {name: make_key(folder / name) for name in ("alice", "bob", "mallory")}
        self.own = folder / "operators"
        self.write(self.own, "alice", "bob")
        self.trusted = WorkerOperators(self.own, folder / "operators.taken", True)

    def lines(self, *names: str) -> bytes:
        options = 'namespaces="threegate-approval,threegate-act"'
        return "".join(f"{name} {options} {public(self.keys[name])}\n" for name in names).encode()

    def write(self, path: Path, *names: str, age: float = 3600) -> None:
        path.write_bytes(self.lines(*names))
        os.utime(path, (time.time() - age,) * 2)

    def files(self, *names: str, revoked: str = "") -> Operators:
        return load_operators(self.lines(*names), f"{public(self.keys[revoked])}\n".encode() if revoked else None)

    def note(self, files: Operators, number: int, by: str = "alice", **more: Any) -> dict[str, Any]:
        """As a daemon sends it: the act and the files. `more`: what else the act says, or with what it is signed."""
        namespace, key = more.pop("namespace", NAMESPACE_ACT), more.pop("key", by)
        at = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=more.pop("age", 0))
        facts = {"type": OPERATORS_ACT, "workspace_id": WORKSPACE, "epoch": 1, "about": about_operators(files, number)}
        data = Act(**{**facts, "acted_by": by, "acted_utc": at, "nonce": "0" * 32, **more}).to_bytes()
        return signed_files(render_signed(data, sign_statement(data, self.keys[key], namespace)), files)

    def take(self, note: dict[str, Any]) -> Operators:
        return self.trusted.take(note, workspace_id=WORKSPACE, now=datetime.now(UTC))

    def names(self) -> list[str]:
        now = self.trusted.read()
        assert now.problem is None, now.problem
        return [entry.name for entry in now.entries if entry.key.blob not in (now.revoked_keys or ())]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Its files changed when `write` says so: the time that counts is the kernel's own, and cannot be set."""
    monkeypatch.setattr(operators_file, "last_change", lambda path: path.stat().st_mtime)
    return Machine(tmp_path)


def test_what_an_operator_signed_is_taken_and_stays(machine: Machine) -> None:
    """Over a restart; a machine whose owner does not say so has its own file."""
    machine.take(machine.note(machine.files("alice", "bob", revoked="bob"), 7))
    assert machine.names() == ["alice"]
    again = WorkerOperators(machine.own, machine.trusted.kept, True).read()
    assert again.revoked is not None and again.digests == machine.trusted.read().digests
    assert WorkerOperators(machine.own, machine.trusted.kept).read().revoked is None
    machine.take(machine.note(machine.files("alice", "mallory"), 8))
    assert machine.names() == ["alice", "mallory"]
    machine.take(machine.note(machine.files("alice"), 1, epoch=2))
    assert machine.names() == ["alice"], "a number of a later epoch is higher"


@pytest.mark.parametrize(
    ("number", "code", "more"),
    [
        (7, "replayed", {}),
        (6, "replayed", {}),
        (8, "signer_revoked", {"by": "bob"}),
        (8, "signer_unknown", {"by": "mallory"}),
        (8, "signer_unknown", {"by": "alice", "key": "mallory"}),
        (8, "workspace_mismatch", {"workspace_id": "ws-" + "2" * 32}),
        (8, "signature_invalid", {"namespace": NAMESPACE_APPROVAL}),
        (8, "signature_file_malformed", {"type": "threegate-reject/1"}),
        (8, "statement_mismatch", {"about": {"number": 8}}),
        (8, "statement_mismatch", {"about": {}}),
        (True, "statement_mismatch", {}),
        (8, "expired", {"age": 31 * 86400}),
        (8, "not_yet_valid", {"age": -3600}),
        (8, "replayed", {"age": 3700}),
    ],
    ids=lambda item: item if isinstance(item, str) else None,
)
def test_nothing_else_is_taken(machine: Machine, number: int, code: str, more: dict[str, Any]) -> None:
    """After an act that revoked bob: each of these would bring him back, or let somebody else decide."""
    machine.take(machine.note(machine.files("alice", "bob", revoked="bob"), 7))
    kept = machine.trusted.kept.read_bytes()
    with pytest.raises(Refused) as caught:
        machine.take(machine.note(machine.files("alice", "bob", "mallory"), number, **more))
    assert caught.value.code == code
    assert machine.names() == ["alice"] and machine.trusted.kept.read_bytes() == kept


def test_other_files_than_those_that_were_signed_are_not_taken(machine: Machine) -> None:
    note = machine.note(machine.files("alice"), 7)
    other = signed_files(b"", machine.files("alice", "mallory"))
    for changed in (
        {"operators": other["operators"]},
        {"revoked": other["operators"]},
        {"operators": None},
        {"signed": None},
        {"signed": "!"},
        {"operators": 5},
    ):
        with pytest.raises(Refused):
            machine.take({**note, **changed})
    broken = load_operators(b"mallory *\n", None)
    with pytest.raises(Refused) as caught:
        machine.take(machine.note(broken, 7))
    assert caught.value.code == "operators_changed" and machine.names() == ["alice", "bob"]
    with pytest.raises(Refused, match="--take-operators"):
        WorkerOperators(machine.own, machine.trusted.kept).take(note, workspace_id=WORKSPACE, now=datetime.now(UTC))


def test_what_a_person_put_there_last_wins(machine: Machine) -> None:
    """The machine's own file was changed after the act: it counts, and neither that act nor an older one comes back."""
    old = machine.note(machine.files("alice", "bob", "mallory"), 6, age=30)
    first = machine.note(machine.files("alice", "bob"), 7, age=20)
    machine.take(first)
    machine.write(machine.own, "alice", age=10)
    assert machine.names() == ["alice"]
    for note in (old, first, machine.note(machine.files("alice", "bob"), 9, age=15)):
        with pytest.raises(Refused) as caught:
            machine.take(note)
        assert caught.value.code == "replayed" and machine.names() == ["alice"]
    machine.take(machine.note(machine.files("alice", "mallory"), 10))
    assert machine.names() == ["alice", "mallory"]


def test_a_new_machine_takes_no_act_that_is_older_than_its_file(machine: Machine) -> None:
    """It has no number yet: an old act with a revoked operator was sent to it."""
    machine.write(machine.own, "alice", age=0)
    with pytest.raises(Refused) as caught:
        machine.take(machine.note(machine.files("alice", "bob"), 7, age=60))
    assert caught.value.code == "replayed" and machine.names() == ["alice"]


def test_a_file_that_was_copied_with_its_times_was_changed_when_it_was_copied(tmp_path: Path) -> None:
    """As `scp -p` and a backup do it: an act from between that time and the copy brought back who was taken out."""
    machine = Machine(tmp_path)
    old = machine.note(machine.files("alice", "bob", "mallory"), 9, age=1800)
    machine.write(machine.own, "alice", age=3600)
    with pytest.raises(Refused) as caught:
        machine.take(old)
    assert caught.value.code == "replayed" and machine.names() == ["alice"]


def test_a_crash_leaves_the_old_files_or_the_new_ones(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk refuses in the middle; and a file that is torn all the same lets nobody approve."""
    machine.take(machine.note(machine.files("alice"), 7))

    def refuses(*_: object, **__: object) -> None:
        raise OSError("the disk refuses")

    with monkeypatch.context() as patch:
        patch.setattr(durable.os, "rename", refuses)
        patch.setattr(durable.os, "replace", refuses)
        with pytest.raises(OSError):
            machine.take(machine.note(machine.files("alice", "mallory"), 8))
    assert machine.names() == ["alice"]
    whole = machine.trusted.kept.read_bytes()
    machine.trusted.kept.write_bytes(whole.replace(b'"number":7', b'"number":null'))
    with pytest.raises(Refused, match="cannot be read"):
        machine.take(machine.note(machine.files("alice"), 9))
    for torn in (b"", whole[:100], b"{}\n", b"[]", whole.replace(b'"number":7', b'"numbers":7')):
        machine.trusted.kept.write_bytes(torn)
        now = machine.trusted.read()
        assert now.problem is not None and "move it away" in now.problem and not now.entries
        with pytest.raises(Refused):
            machine.take(machine.note(machine.files("alice"), 9))
