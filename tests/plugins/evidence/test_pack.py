"""What goes into a pack, what is masked, what is said to be missing, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.acts.bench_workspace import Bench, make_bench
from tests.approval.material import make_key
from tests.conftest import few
from tests.plugins.evidence.outside import Outside, reseal
from tests.plugins.page.passkey_client import PasskeyClient, enrol
from tests.support import Place
from tests.upgrade.test_upgrade import KEPT, unpacked
from threegate import cli
from threegate.acts.operator import add_operator, record_operators, revoke_operator
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.audit.trail_checkpoints import rotate, write_trail_checkpoint
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.plugins.evidence.pack import Packed, write_pack
from threegate.plugins.evidence.pack_writer import PackWriter
from threegate.trail.checkpoint import NoteSignature
from threegate.trail.payloads import Observed, Rejected
from threegate.trail.trail import Trail

ROOT = Path(__file__).resolve().parents[3]

TOKEN = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"


@pytest.fixture(name="bench")
def a_bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def index(packed: Packed) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((packed.path / "index.json").read_text())
    return value


def test_a_secret_is_masked_and_said(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    draft = bench.draft("told", code=f"print('{TOKEN}')")
    reject_draft(bench.context, draft, reason="it has a token", by=OperatorDecision("operator:alice"))
    packed = write_pack(bench.workspace, tmp_path / "pack")
    name = "requests/told/request.md"
    assert index(packed)["masked"] == [{"file": name, "secrets": ["github-token"]}] and packed.missing == ()
    assert TOKEN not in (packed.path / name).read_text() and "[github-token]" in (packed.path / name).read_text()
    assert outside.confirmed(packed.path).endswith(f"masked, so its digest was not checked: {name} (github-token)\n")


def test_what_is_signed_is_never_masked(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    """Neither by us, nor by who holds the log's key and would rather not have a signature checked."""
    with PackWriter(tmp_path / "signed") as writer:
        writer.add("requests/a/request.md.sig", TOKEN.encode(), digest=None, signed=True)
        assert writer.missing[0]["why"] == "it has a secret, and what is signed cannot be masked"
    bench.approve(bench.draft("told"))
    packed = write_pack(bench.workspace, tmp_path / "pack")
    told = index(packed)
    told["masked"] = [{"file": "requests/told/request.md.sig", "secrets": ["password"]}]
    (packed.path / "index.json").write_text(json.dumps(told))
    reseal(packed.path, told["workspace"])
    assert "masks what is signed" in outside.check(packed.path).stderr


def test_contracts_and_settings_in_force_are_in_the_pack(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    bench.approve(bench.draft("before"))
    contract = bench.workspace.contracts / "threegate.monty.yaml"
    shutil.copy(ROOT / "docs/examples/contracts/threegate/threegate.monty.yaml", contract)
    approved = bench.approve(bench.draft("after", slug="after"))
    packed = write_pack(bench.workspace, tmp_path / "pack")
    policies = [json.loads(policy.read_text()) for policy in (packed.path / "policies").iterdir()]
    before, told = sorted(policies, key=lambda policy: len(policy["contracts"]))
    ((digest),) = told["contracts"].values()
    assert before["contracts"] == {}, "the one of before is kept, too"
    assert (packed.path / "contracts" / digest).read_bytes() == contract.read_bytes()
    assert told["settings"]["approval"]["signature"] and approved.path.name
    assert index(packed)["policies_not_kept"] == []
    contract.write_text(contract.read_text().replace("low", "high") + "\n# another\n")
    assert len(list((write_pack(bench.workspace, tmp_path / "later").path / "policies").iterdir())) == 2
    outside.confirmed(packed.path)


def test_earlier_states_of_the_operators_files_are_packed(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    bench.approve(bench.draft("first"))
    bench.operator("bob")
    revoke_operator(bench.workspace, "alice", actor="test")
    packed = write_pack(bench.workspace, tmp_path / "pack")
    assert len(list((packed.path / "operators").iterdir())) == 3 and len(packed.operator_keys) == 2
    assert outside.confirmed(packed.path).startswith("checked: 1 requests (1 signed"), "alice's key was good then"


@pytest.mark.parametrize("kind", few(["ecdsa", "rsa"], 1))
def test_each_kind_of_key(bench: Bench, outside: Outside, tmp_path: Path, kind: str) -> None:
    bench.operator("bob", kind)
    bench.approve(bench.draft("other"), "bob")
    packed = write_pack(bench.workspace, tmp_path / "pack")
    assert outside.confirmed(packed.path).startswith("checked: 1 requests (1 signed by operators")


def test_a_passkey_is_checked_with_its_site(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    client = PasskeyClient(bench, enrol(bench))
    bench.draft("phone", data=None)
    client.log_in()
    assert client.approve(client.page("sum")[1]).status_code == 200
    packed = write_pack(bench.workspace, tmp_path / "pack")
    assert client.passkey.key.fingerprint in packed.operator_keys and packed.missing == ()
    assert outside.confirmed(packed.path).startswith("checked: 1 requests (1 signed by operators")


def test_a_certificate_is_checked_by_its_authority(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    authority, carol = make_key(tmp_path, "authority"), make_key(tmp_path, "carol")
    line = authority.with_suffix(".pub").read_text()
    entry = add_operator(bench.workspace, "carol", line, actor="test", authority=True)
    command = ["ssh-keygen", "-q", "-s", str(authority), "-I", "c", "-n", "carol", "-V", "-5m:+1d"]
    subprocess.run([*command, f"{carol}.pub"], check=True)
    bench.keys["carol"] = tmp_path / "carol-cert.pub"
    bench.approve(bench.draft("certified"), "carol")
    packed = write_pack(bench.workspace, tmp_path / "pack")
    assert entry.key.fingerprint in packed.operator_keys
    assert outside.confirmed(packed.path).startswith("checked: 1 requests (1 signed by operators")


def test_a_state_that_was_replaced_by_hand_is_missing(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    bench.approve(bench.draft("first"))
    text = bench.workspace.operators_file.read_bytes()
    bench.workspace.operators_file.write_bytes(b"# ours\n" + text)
    record_operators(bench.workspace, actor="test")
    packed = write_pack(bench.workspace, tmp_path / "pack")
    (item,) = packed.missing
    assert item["file"].startswith("operators/") and item["why"] == "this state of operators was replaced by hand since"
    done = outside.check(packed.path)
    assert done.returncode == 2 and "MISSING: operators/" in done.stderr


def test_drafts_that_nobody_decided_on_have_their_events_only(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    Trail(bench.workspace).announce(Observed(reason="unreadable", file="x"), request_id="TR-seen", actor="test")
    packed = write_pack(bench.workspace, tmp_path / "pack", ids=["TR-seen"])
    assert (packed.requests, packed.missing) == (0, ())
    assert outside.confirmed(packed.path).startswith("checked: 0 requests")


def test_closed_segments_are_in_the_one_file(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    with Trail(bench.workspace).locked() as held:
        rotate(held, actor="test")
    bench.approve(bench.draft("later"))
    packed = write_pack(bench.workspace, tmp_path / "pack")
    assert packed.events == packed.size == 4 and len(list((packed.path / "checkpoints").iterdir())) == 2
    outside.confirmed(packed.path)


def test_an_id_that_is_no_file_name_gets_a_folder_of_its_own(bench: Bench, outside: Outside, tmp_path: Path) -> None:
    Trail(bench.workspace).announce(Rejected(reason="no", file="x.md"), request_id="../../x", actor="test")
    packed = write_pack(bench.workspace, tmp_path / "pack")
    (entry,) = index(packed)["requests"]
    assert entry["request_id"] == "../../x" and entry["folder"].count("/") == 1 and ".." not in entry["folder"]
    assert packed.missing == ({"file": f"{entry['folder']}/result.md", "why": "it is not there"},)
    assert outside.check(packed.path).returncode == 2


def test_cosignatures_beside_a_checkpoint_are_taken_along_and_checked(
    bench: Bench, outside: Outside, tmp_path: Path
) -> None:
    bench.approve(bench.draft("seen"))
    with Trail(bench.workspace).locked() as held:
        path, note = write_trail_checkpoint(held, actor="test")
    witness = Ed25519PrivateKey.generate()
    raw = b"\x04" + witness.public_key().public_bytes_raw()
    key_id = hashlib.sha256(b"w.example\n" + raw).digest()[:4]
    when = int(time.time())
    signature = witness.sign(b"cosignature/v1\ntime %d\n" % when + note.body)
    cosigned = NoteSignature("w.example", key_id, when.to_bytes(8) + signature)
    path.with_name(f"{path.name}.w").write_bytes(replace(note, signatures=(*note.signatures, cosigned)).render())
    packed = write_pack(bench.workspace, tmp_path / "pack", ids=["seen"])
    assert packed.size == note.size, "the cosigned checkpoint is what the proofs stand on"
    vkey = f"w.example+{key_id.hex()}+{base64.b64encode(raw).decode()}"
    done = outside.check(packed.path, WITNESS_KEYS=vkey)
    assert done.returncode == 0 and done.stdout.startswith("w.example cosigned the first 3 events of this log\n"), done
    other = vkey.replace("w.example", "x.example")
    assert "no key of a witness" in outside.check(packed.path, WITNESS_KEYS=other).stderr
    forged = packed.path / f"checkpoints/{path.name}.w"
    text = bytearray(forged.read_bytes())
    text[-20] = ord("A") if text[-20] != ord("A") else ord("B")
    forged.chmod(0o600)
    forged.write_bytes(text)
    reseal(packed.path, index(packed)["workspace"])
    assert "InvalidSignature" in outside.check(packed.path, WITNESS_KEYS=vkey).stderr
    path.with_name(f"{path.name}.w").unlink()
    write_pack(bench.workspace, tmp_path / "without", ids=["seen"])
    assert "none is cosigned by w.example" in outside.check(tmp_path / "without", WITNESS_KEYS=vkey).stderr


@pytest.mark.parametrize("archive", KEPT, ids=[path.stem for path in KEPT])
def test_a_workspace_of_an_earlier_version_that_was_adopted(archive: Path, outside: Outside, tmp_path: Path) -> None:
    place = unpacked(archive, tmp_path)
    signer = ("--as", "operator", "--key", str(place.key), "--yes")
    place.run("settings", "adopt", *signer, expect=0)
    done = place.run("--json", "audit", "pack", "--out", str(tmp_path / "pack"))
    assert done.code == 0, done.json()["missing"]
    assert len(done.json()["log_keys"]) == 2, "the old machine's and this one's"
    outside.confirmed(tmp_path / "pack")


# ---- refusals


def test_what_cannot_be_packed_is_refused_in_one_line(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = str(bench.workspace.root), str(tmp_path / "pack")
    for arguments, message in (
        (["nobody", "--out", out], "nobody: no such request here"),
        (["--since", "2999-01-01", "--out", out], "no request has an event since then"),
        (["a", "--since", "1d", "--out", out], "give either IDs or --since"),
        (["--since", "soon", "--out", out], "give a date, a time or a duration"),
        (["--out", root], "already exists"),
    ):
        assert cli.execute(["-w", root, "audit", "pack", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert not list(tmp_path.glob(".*.part"))


def test_a_pack_that_fails_leaves_nothing(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("threegate.plugins.evidence.pack._write_index", fails)
    for name in ("pack", "pack.zip"):
        with pytest.raises(OSError, match="No space"):
            write_pack(bench.workspace, tmp_path / name)
        assert not list(tmp_path.glob("*pack*")) and not list(tmp_path.glob(".pack*"))


def test_without_a_trail_there_is_nothing_to_pack(bench: Bench, tmp_path: Path) -> None:
    bench.workspace.trail_file.unlink()
    with pytest.raises(InvalidInput, match="there is no trail to pack"):
        write_pack(Workspace(bench.workspace.root), tmp_path / "pack")


def test_what_a_person_sees(bench: Bench, tmp_path: Path) -> None:
    bench.approve(bench.draft("shown"))
    place = Place(bench.workspace.root, bench.keys["alice"])
    said = place.run("audit", "pack", "shown", "--out", str(tmp_path / "pack.zip"), expect=0).out
    assert "over another channel" in said and "  operator  SHA256:" in said
    for pinned in (place.root / "tool-exec/inputs").iterdir():
        pinned.unlink()
    done = place.run("audit", "pack", "--out", str(tmp_path / "pack"), expect=2)
    assert done.out.endswith("missing: requests/shown/shown.txt: it is not there\n")


def test_members_of_a_batch_are_confirmed_each_by_its_own_statement(
    bench: Bench, outside: Outside, tmp_path: Path
) -> None:
    bench.settings(approval__quorum__low=2)
    bob = bench.operator("bob")
    paths = [
        bench.draft(f"req-{letter}", slug=letter, purpose=f"Sum {letter}.", data=None, code="print(1)")
        for letter in "ab"
    ]
    command = ["--workspace", str(bench.workspace.root), "approve", "--group", str(paths[0])]
    assert cli.execute([*command, "--key", str(bench.keys["alice"]), "--yes"]) == 0
    words = ["--workspace", str(bench.workspace.root), "approve", "--group", "req-a", "--key", str(bob)]
    assert cli.execute([*words, "--yes"]) == 0
    packed = write_pack(bench.workspace, tmp_path / "pack")
    assert packed.missing == ()
    assert outside.confirmed(packed.path).startswith("checked: 2 requests (2 signed by operators")
    signature = packed.path / "requests" / "req-a" / "request.md.sig"
    line, _, armor = signature.read_bytes().partition(b"\n")
    value = json.loads(line)
    value["statements"].reverse()
    signature.write_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n" + armor)
    reseal(packed.path, index(packed)["workspace"])
    assert "request.md.sig: not what the trail names" in outside.check(packed.path).stderr
