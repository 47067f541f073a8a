"""Exports: CSV and JSON lines, and in-toto statements that the libraries' own verifiers accept."""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path

import pytest

from tests.trail.workspaces import WORKSPACE_ID, approve, make_workspace, run
from threegate.core.errors import InvalidInput
from threegate.plugins.evidence.export import PAYLOAD_TYPE, export_trail, finished_runs, public_key
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import ApprovalAbandoned, Approved, Observed, Quarantined, Refused, Validated
from threegate.trail.trail import Trail
from threegate.trail.workspace_key import load_key


@pytest.fixture(name="made")
def a_workspace_with_a_run(tmp_path: Path):
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        for name in ("ran1", "ran2", "waits"):
            approve(held, name)
        held.append(Observed.from_data({"reason": "x"}), actor="=HYPERLINK(1)")
    run(trail, "ran1")
    run(trail, "ran2", output=b"other\n")
    return workspace, trail, tmp_path


def test_csv_and_jsonl(made, capsys: pytest.CaptureFixture[str]) -> None:
    workspace, trail, folder = made
    count = export_trail(workspace, "jsonl", folder / "t.jsonl")
    assert (folder / "t.jsonl").read_bytes() == workspace.trail_file.read_bytes()
    assert export_trail(workspace, "csv", folder / "t.csv") == count == 11
    rows = list(csv.DictReader((folder / "t.csv").open()))
    assert [int(row["seq"]) for row in rows] == list(range(1, 12))
    assert json.loads(rows[1]["data"])["approved_by"] == "operator"
    assert "'=HYPERLINK(1)" in [row["actor"] for row in rows], "no cell is a formula"
    assert export_trail(workspace, "csv", None, request_id="ran1") == 4
    assert capsys.readouterr().out.count("\n") == 5
    with pytest.raises(InvalidInput, match="--format"):
        export_trail(workspace, "xml", None)


def verified(value, key):
    """The statement of an envelope, by the libraries' own verifiers."""
    from google.protobuf import json_format
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement
    from securesystemslib.dsse import Envelope

    envelope = Envelope.from_dict(json.loads(json.dumps(value)))
    envelope.verify([key], 1)
    if envelope.payload_type != PAYLOAD_TYPE:
        raise ValueError("the envelope holds no in-toto statement")
    parsed = json_format.Parse(envelope.payload, statement_pb2.Statement())
    Statement.copy_from_pb(parsed).validate()
    return json.loads(base64.b64decode(value["payload"]))


def test_in_toto_statements_verify_with_the_libraries(made) -> None:
    workspace, trail, folder = made
    assert export_trail(workspace, "in-toto", folder / "statements") == 2
    value = json.loads((folder / "statements" / "ran1.intoto.json").read_text())
    key = public_key(load_key(WORKSPACE_ID))
    statement = verified(value, key)
    finished = next(event for event in trail.events() if event.type == "finished")
    products = {item["name"]: item["digest"]["sha256"] for item in statement["subject"]}
    assert products["out/result.txt"] == finished.data["outputs"]["result.txt"]
    assert products["record.json"] == finished.data["record_sha256"]
    assert {item["name"] for item in statement["predicate"]["materials"]} == {"request", "approval"}
    assert statement["predicate"]["trail"] == {"seq": finished.seq, "hash": finished.hash}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"


def test_a_changed_statement_or_another_key_does_not_verify(made) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from securesystemslib.exceptions import VerificationError

    from threegate.trail.workspace_key import SigningKey

    workspace, _, folder = made
    export_trail(workspace, "in-toto", folder / "s", request_id="ran2")
    value = json.loads((folder / "s" / "ran2.intoto.json").read_text())
    real = load_key(WORKSPACE_ID)
    payload = base64.b64decode(value["payload"])
    changed = {**value, "payload": base64.b64encode(payload.replace(b"succeeded", b"failed!!!")).decode()}
    for envelope in (changed, {**value, "payloadType": "text/plain"}, {**value, "signatures": []}):
        with pytest.raises(VerificationError):
            verified(envelope, public_key(real))
    with pytest.raises(KeyError):
        verified({}, public_key(real))
    with pytest.raises(VerificationError):
        verified(value, public_key(SigningKey(real.name, Ed25519PrivateKey.generate())))


@pytest.mark.parametrize("missing", [True, False])
def test_without_a_trail_there_is_nothing_to_attest(made, missing: bool) -> None:
    """It was an internal error."""
    workspace, trail, folder = made
    trail.close()
    path = workspace.audit / "trail.jsonl"
    path.unlink() if missing else path.write_bytes(b"")
    with pytest.raises(InvalidInput, match="no trail"):
        export_trail(workspace, "in-toto", folder / "s")


def test_a_run_whose_record_was_changed_is_not_attested(made) -> None:
    workspace, _, folder = made
    (workspace.runs / "ran1" / "stdout").write_bytes(b"x")
    with pytest.raises(InvalidInput, match="changed"):
        export_trail(workspace, "in-toto", folder / "s")
    with pytest.raises(InvalidInput, match="no finished run"):
        export_trail(workspace, "in-toto", folder / "s", request_id="waits")


def test_stdout_gets_the_envelope_too(made, capsys: pytest.CaptureFixture[str]) -> None:
    workspace, *_ = made
    assert export_trail(workspace, "in-toto", None, request_id="ran1") == 1
    assert json.loads(capsys.readouterr().out)["payloadType"] == "application/vnd.in-toto+json"


def test_a_pruned_run_is_attested_from_the_trail(made) -> None:
    import shutil

    workspace, _, folder = made
    shutil.rmtree(workspace.runs / "ran1")
    assert export_trail(workspace, "in-toto", folder / "s", request_id="ran1") == 1
    assert len(list(Trail(workspace).events())) == 11


def test_statements_need_no_memory_of_what_has_ended(made) -> None:
    """A run is given out as it ends; what was abandoned, refused or never approved is forgotten."""
    workspace, trail, _ = made
    with trail.locked() as held:
        held.append(Validated.from_data({}), request_id="draft", actor="x")
        held.append(Approved.from_data({"file": "TR-gone.md"}), request_id="gone", actor="x")
        held.append(ApprovalAbandoned(), request_id="gone", actor="x")
        held.append(Quarantined.from_data({"reason": "replayed"}), request_id="ran1", actor="x")
        held.append(Approved.from_data({"file": "TR-gone.md", "approved_by": "second"}), request_id="gone", actor="x")
        held.append(Refused(), request_id="gone", actor="x")
    whole = TrailIndex()
    for event in trail.events():
        whole.add(event)
    runs = list(finished_runs(trail.events()))
    assert [history.request_id for history in runs] == ["ran1", "ran2"]
    for history in runs:
        same = whole.history(history.request_id)
        assert same is not None
        for name in ("approved", "claimed", "started", "finished", "end"):
            assert getattr(history, name) == getattr(same, name), name
