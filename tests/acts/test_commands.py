"""diff, countersign and operator as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.approval.material import make_key
from threegate.acts.approve import known_operators
from threegate.acts.operator_keys import keys_of_file
from threegate.acts.signing_key import acting_operator
from threegate.cli import execute as run
from threegate.core.errors import InvalidInput
from threegate.review.compare import compare


def test_diff_says_what_differs_in_meaning(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    first = bench.approve(bench.draft()).path
    second = bench.draft("req-2", slug="two", data=b"1\n2\n3\n", code="print(2)")
    found = {item.name: item for item in compare(bench.workspace, str(first), str(second)).differences}
    assert set(found) - {"created_utc"} == {
        "request_id",
        "code",
        "inputs",
        "content of data.csv",
        "approved_by",
        "approved_utc",
    }
    assert found["content of data.csv"].after == "1\n2\n3\n"
    root = ["--workspace", str(bench.workspace.root)]
    assert run([*root, "show", str(first), "--against", str(second)]) == 0
    shown = capfd.readouterr().out
    assert "  1   - | print(sum" in shown and "    1 + | print(2)" in shown
    assert run([*root, "show", str(first), "--against", str(first)]) == 0
    assert "no difference" in capfd.readouterr().out
    assert run([*root, "--json", "show", str(first), "--against", str(second)]) == 0
    assert len(json.loads(capfd.readouterr().out)["differences"]) == len(found)


def test_diff_with_one_file_takes_the_last_finished_of_its_slug(bench: Bench) -> None:
    first = bench.approve(bench.draft(slug="rank")).path
    first.rename(bench.workspace.finished / first.name)
    draft = bench.draft("req-2", slug="rank", code="print(2)")
    again = draft.rename(draft.with_name("TR-20300101-000000Z-rank.md"))
    assert compare(bench.workspace, str(again)).before.parent == bench.workspace.finished
    with pytest.raises(InvalidInput, match="no finished request"):
        compare(bench.workspace, str(bench.draft("req-3", slug="other")))


def test_a_second_operator_by_command(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    root = ["--workspace", str(bench.workspace.root)]
    bob = make_key(bench.keys["alice"].parent, "bob", "ecdsa")
    assert run([*root, "operator", "add", "bob", "--key", f"{bob}.pub", "--valid-before", "20990101Z"]) == 0
    bench.settings(approval__quorum__low=2)
    path = bench.approve(bench.draft()).path
    capfd.readouterr()
    assert run([*root, "approve", str(path), "--key", str(bob)]) == 2
    assert run([*root, "approve", str(path), "--key", str(bob), "--yes"]) == 0
    assert "the quorum is met" in capfd.readouterr().out
    assert run([*root, "approve", str(path), "--as", "alice", "--key", str(bench.keys["alice"]), "--yes"]) == 2
    assert run([*root, "audit", "approval", str(path)]) == 0
    assert "ok     quorum" in capfd.readouterr().out
    assert run([*root, "operator", "list"]) == 0
    assert "until 2099-01-01" in capfd.readouterr().out
    assert run([*root, "operator", "revoke", "bob"]) == 0
    assert run([*root, "operator", "record"]) == 64
    assert run([*root, "operator", "record", "--yes"]) == 0
    for wrong in (["operator", "add", "a,b", "--key", f"{bob}.pub"], ["operator", "add", "x", "--key", str(bob)],
                  ["operator", "add", "x", "--key", f"{bob}.pub", "--valid-after", "soon"]):  # fmt: skip
        assert run([*root, *wrong]) == 2


def test_who_acts_is_found_by_the_key(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bob = bench.operator("bob")
    operators = known_operators(bench.context)
    assert acting_operator(operators, key=bob).name == "bob"
    assert acting_operator(operators, key=bob.with_suffix(".pub")).name == "bob"
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    for suffix in ("", ".pub"):
        (tmp_path / ".ssh" / f"id_ed25519{suffix}").write_bytes(bob.with_name(bob.name + suffix).read_bytes())
    assert acting_operator(operators).name == "bob"
    for arguments in ({"name": "nobody"}, {"name": "alice"}, {"key": make_key(tmp_path, "stranger")}):
        with pytest.raises(InvalidInput):
            acting_operator(operators, **arguments)  # type: ignore[arg-type]
    assert keys_of_file(tmp_path / "missing") == ()
