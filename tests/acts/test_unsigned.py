"""`approval.signature = "optional"`: a hand-promoted request runs where little can go wrong, and its result says so."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.acts.bench_workspace import DATA, Bench
from threegate.acts.approve import insert_approval
from threegate.approval.shown.escaped_lines import render_sections
from threegate.review.request_view import view_request, view_sections
from threegate.review.status import RequestEntry


def promote_by_hand(bench: Bench, request_id: str, **changes: str) -> Path:
    """What a person with a text editor does: write the two lines, pin the input, move the file."""
    draft = bench.draft(request_id, slug=request_id, **changes)  # type: ignore[arg-type]
    target = bench.workspace.approved / draft.name
    target.write_bytes(insert_approval(draft.read_bytes(), "alice", datetime.now(UTC)))
    draft.unlink()
    return target


def once(bench: Bench) -> None:
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "run", "--once"]
    subprocess.run(command, capture_output=True, timeout=120, check=True)


def result(bench: Bench, request_id: str) -> str:
    (path,) = bench.workspace.results.glob(f"TS-*-{request_id}.md")
    return path.read_text()


def test_required_means_required_and_optional_means_a_little(bench: Bench) -> None:
    pinned = bench.workspace.inputs / hashlib.sha256(DATA).hexdigest()
    pinned.write_bytes(DATA)
    promote_by_hand(bench, "req-signed-only")
    once(bench)
    assert 'reason: "signature_missing"' in result(bench, "req-signed-only")
    bench.settings(approval__signature="optional")
    by_hand = promote_by_hand(bench, "req-small")
    promote_by_hand(bench, "req-medium", risk="medium")
    broken = promote_by_hand(bench, "req-broken")
    broken.with_name(broken.name + ".sig").write_bytes(b"{}\n")
    once(bench)
    small = result(bench, "req-small")
    assert "status: succeeded" in small and "validated, never as confirmed" in small
    view = view_request(bench.context, RequestEntry.of("finished", bench.workspace.finished / by_hand.name))
    assert "  unsigned: it was put into approved/ by hand" in render_sections(view_sections(view))
    assert 'reason: "signature_missing"' in result(bench, "req-medium")
    assert 'reason: "signature_file_malformed"' in result(bench, "req-broken")
    pinned.unlink()
    promote_by_hand(bench, "req-not-pinned")
    once(bench)
    assert 'reason: "input_missing"' in result(bench, "req-not-pinned")
