"""approve: read once, checked as at launch, announced, delivered; and everything that must stop it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acts.bench_workspace import DATA, Bench
from threegate.acts.approve import promote, read_signature, seal, seal_as, sign
from threegate.approval.statement import SignedApproval
from threegate.cli import execute as run
from threegate.core.errors import InvalidInput, Refused
from threegate.daemon.recovery import remove_temporary
from threegate.launch.results.verdict import read_verdict
from threegate.review.countersign import verify_approval
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft


def code_of(action: object) -> str:
    with pytest.raises(Refused) as caught:
        action()  # type: ignore[operator]
    return caught.value.code


def test_an_approved_request_lies_signed_in_the_queue(bench: Bench) -> None:
    path = bench.draft()
    before = path.read_bytes()
    done = bench.approve(path)
    assert not path.exists() and done.draft_removed
    data = done.path.read_bytes()
    lines = [line for line in data.splitlines() if line.startswith((b"approved_by:", b"approved_utc:"))]
    assert len(lines) == 2
    assert b"\n".join(line for line in data.split(b"\n") if line not in lines) == before
    approval = SignedApproval.parse(done.path.with_name(done.path.name + ".sig").read_bytes())
    assert approval.approval_sha256 == done.approval_sha256
    assert approval.statement.request_sha256 == hashlib.sha256(data).hexdigest()
    pinned = bench.workspace.inputs / hashlib.sha256(DATA).hexdigest()
    assert pinned.read_bytes() == DATA and stat.S_IMODE(pinned.stat().st_mode) == 0o400
    shown = str(approval.statement.shown_sha256)
    policy = bench.context.policy
    kept = hashlib.sha256(policy.kept()).hexdigest()
    assert {entry.name for entry in bench.workspace.inputs.iterdir()} == {pinned.name, shown, kept}
    assert policy.document.decode() in json.loads((pinned.parent / kept).read_bytes())["policy"]
    assert stat.S_IMODE((pinned.parent / shown).stat().st_mode) == 0o400
    assert all(check.ok for check in verify_approval(bench.context, done.path))
    with bench.context.trail.locked() as held:
        history = held.index.history("req-1")
        assert history is not None and history.approved is not None
        assert history.approved.data["approval_sha256"] == done.approval_sha256
        assert history.approved.data["owner_uid"] == os.getuid()
        assert history.approved.data["file"] == done.path.name
    verdict = read_verdict(bench.workspace, done.path.name)
    assert verdict is not None and verdict.state == "approved"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "extra",
    [
        "",
        "approved_by:\napproved_utc: ''\n",
        "approved_by: mallory\napproved_utc: 2099-01-01T00:00:00Z\n",
        "approved_by: 7\napproved_utc: (the operator fills this in)\n",
    ],
)
def test_only_two_lines_change(bench: Bench, ending: str, extra: str) -> None:
    path = bench.draft(extra=extra)
    path.write_bytes(path.read_text().replace("\n", ending).encode())
    before = path.read_bytes()
    data = bench.approve(path).path.read_bytes()

    def others(text: bytes) -> list[bytes]:
        return [line for line in text.split(b"\n") if not line.startswith((b"approved_by:", b"approved_utc:"))]

    assert others(data) == others(before)


def test_what_montys_type_checker_says_is_a_warning(bench: Bench) -> None:
    path = bench.draft(code="print(nowhere)", data=None)
    with open_reviewed_draft(bench.context, read_draft(bench.workspace, path)) as reviewed:
        findings = reviewed.report.findings
        assert any(item.severity == "warning" and "nowhere" in item.message for item in findings)
    bench.approve(path)


def test_an_id_and_a_name_are_used_once(bench: Bench) -> None:
    path = bench.draft()
    bytes_before = path.read_bytes()
    bench.approve(path)
    path.write_bytes(bytes_before)
    assert code_of(lambda: bench.approve(path)) == "replayed"
    renamed = path.with_name("TR-20260101-000000Z-other.md")
    path.rename(renamed)
    assert code_of(lambda: bench.approve(renamed)) == "replayed"
    path.write_bytes(bytes_before.replace(b"req-1", b"req-2"))
    assert code_of(lambda: bench.approve(path)) == "replayed"


def test_inputs_must_be_there_and_be_what_is_declared(bench: Bench) -> None:
    path = bench.draft()
    source = bench.workspace.files / "data.csv"
    source.write_bytes(b"3\n")
    assert code_of(lambda: bench.approve(path)) == "input_changed"
    source.unlink()
    assert code_of(lambda: bench.approve(path)) == "input_missing"
    os.mkfifo(source)
    assert code_of(lambda: bench.approve(path)) == "input_missing"
    source.unlink()
    source.symlink_to("/etc/hostname")
    assert code_of(lambda: bench.approve(path)) == "input_missing"
    assert list(bench.workspace.inputs.iterdir()) == []
    assert path.exists()


def test_what_was_shown_is_signed_even_when_the_draft_changes_meanwhile(bench: Bench) -> None:
    path = bench.draft()
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        path.write_text(path.read_text().replace("print(", "print('x',"))
        (bench.workspace.files / "data.csv").write_bytes(b"9\n")
        sealed = seal(context, reviewed, "alice")
        done = promote(context, reviewed, sealed, sign(sealed, bench.keys["alice"]), actor="test")
    assert not done.draft_removed and path.exists()
    assert b"'x'" not in done.path.read_bytes()
    assert (bench.workspace.inputs / hashlib.sha256(DATA).hexdigest()).read_bytes() == DATA


def test_a_draft_of_the_future_waits(bench: Bench) -> None:
    path = bench.draft(created=datetime.now(UTC) + timedelta(seconds=100))
    assert code_of(lambda: bench.approve(path)) == "not_yet_valid"


def test_nobody_approves_their_own(bench: Bench) -> None:
    assert code_of(lambda: bench.approve(bench.draft(requested_by="alice"))) == "self_approval"
    settings = bench.workspace.settings_file
    settings.write_text(settings.read_text().replace("[requesters]", f'[requesters]\n"{os.getuid()}" = "alice"'))
    assert code_of(lambda: bench.approve(bench.draft())) == "self_approval"


def test_a_key_of_nobody_approves_nothing(bench: Bench) -> None:
    path = bench.draft()
    other = bench.operator("bob")
    bench.keys["alice"] = other
    assert code_of(lambda: bench.approve(path)) == "signer_unknown"
    assert path.exists() and not list(bench.workspace.approved.iterdir())


def test_a_front_matter_that_cannot_be_edited_line_by_line_is_refused(bench: Bench) -> None:
    path = bench.draft(extra="approved_by: |\n  alice\n")
    with pytest.raises(InvalidInput, match="TG143"):
        bench.approve(path)
    assert path.exists() and not list(bench.workspace.approved.iterdir())


def test_a_pinned_file_with_other_bytes_is_never_used(bench: Bench) -> None:
    pinned = bench.workspace.inputs / hashlib.sha256(DATA).hexdigest()
    pinned.write_bytes(b"forged")
    path = bench.draft()
    with pytest.raises(Exception, match="its content does not match its name"):
        bench.approve(path)
    assert path.exists() and not list(bench.workspace.approved.iterdir())


def test_two_requests_share_one_pinned_input(bench: Bench) -> None:
    bench.approve(bench.draft())
    bench.approve(bench.draft("req-2", slug="again"))
    assert len(list(bench.workspace.inputs.iterdir())) == 1 + 2 + 1, "and the text of each, and the policy"


def test_drafts_lie_in_the_inbox(bench: Bench, tmp_path: Path) -> None:
    stray = tmp_path / bench.draft().name
    stray.write_text("x")
    for path in (stray, bench.workspace.inbox / "missing.md", bench.workspace.files):
        with pytest.raises(InvalidInput):
            read_draft(bench.workspace, path)


def test_signing_elsewhere_with_plain_ssh_keygen(
    bench: Bench, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = bench.draft()
    root = ["--workspace", str(bench.workspace.root)]
    assert run([*root, "approve", str(path), "--as", "alice", "--print-statement"]) == 0
    statement = tmp_path / "statement.json"
    statement.write_bytes(capfdbinary.readouterr().out)
    assert path.exists()
    subprocess.run(
        ["/usr/bin/ssh-keygen", "-q", "-Y", "sign", "-n", "threegate-approval", "-f", str(bench.keys["alice"]), str(statement)],  # noqa: E501
        check=True,
    )  # fmt: skip
    signature = tmp_path / "statement.json.sig"
    forged = tmp_path / "forged.json"
    forged.write_bytes(statement.read_bytes() + b"\n")
    forged.with_name("forged.json.sig").write_bytes(signature.read_bytes())
    assert run([*root, "approve", str(path), "--signature", f"{forged}.sig", "--yes"]) == 2
    assert run([*root, "approve", str(path), "--signature", str(signature), "--yes"]) == 0
    (approved,) = bench.workspace.approved.glob("*.md")
    assert all(check.ok for check in verify_approval(bench.context, approved))


def test_a_statement_about_another_draft_is_not_delivered(bench: Bench) -> None:
    path = bench.draft()
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        sealed = seal(context, reviewed, "alice")
        other = replace(sealed.statement, job_sha256="0" * 64)
        assert code_of(lambda: seal_as(context, reviewed, other)) == "statement_mismatch"


def test_a_signature_file_must_be_one(tmp_path: Path) -> None:
    for content in (b"{}\n", b"-----BEGIN SSH SIGNATURE-----\n"):
        path = tmp_path / "x.sig"
        path.write_bytes(content)
        (tmp_path / "x").write_bytes(b"{}")
        with pytest.raises(InvalidInput):
            read_signature(path)
    with pytest.raises(InvalidInput):
        read_signature(tmp_path / "missing.sig")


def test_off_a_terminal_a_yes_is_needed(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    path = bench.draft()
    root = ["--workspace", str(bench.workspace.root)]
    key = ["--key", str(bench.keys["alice"])]
    assert run([*root, "approve", str(path), *key]) == 2
    assert path.exists()
    assert "--yes" in capfd.readouterr().err
    assert run([*root, "approve", str(path), *key, "--yes", "--json"]) == 0
    assert not path.exists()


def test_approve_says_when_no_daemon_runs(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--workspace", str(bench.workspace.root), "approve"]
    key = ["--key", str(bench.keys["alice"]), "--yes"]
    assert run([*words, str(bench.draft()), *key]) == 0
    assert "none is running here; start one with: threegate run" in capsys.readouterr().out
    with bench.workspace.daemon_lock():
        assert run([*words, str(bench.draft("req-2", slug="again")), *key]) == 0
    assert "none is running here" not in capsys.readouterr().out


def test_a_daemon_that_starts_leaves_what_somebody_reads(bench: Bench) -> None:
    """Whoever reads a draft for an hour can sign it, whatever was started meanwhile; what a crash left goes."""
    path = bench.draft()
    left = bench.workspace.inputs / ".tmp-0123456789abcdef"
    left.write_bytes(b"half")
    (bench.workspace.inputs / ".tmp-0123456789abcdee").symlink_to("/etc/passwd")
    with open_reviewed_draft(bench.context, read_draft(bench.workspace, path)) as reviewed:
        remove_temporary(bench.workspace)
        assert [item.name for item in bench.workspace.inputs.iterdir()] == [reviewed.inputs[0].path.name]
        sealed = seal(bench.context, reviewed, "alice")
        signature = sign(sealed, bench.keys["alice"])
        promote(bench.context, reviewed, sealed, signature, actor="operator:alice")
    assert (bench.workspace.inputs / reviewed.inputs[0].sha256).read_bytes()
    assert not list(bench.workspace.inputs.glob(".tmp-*"))
