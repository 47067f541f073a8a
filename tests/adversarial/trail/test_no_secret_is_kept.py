"""Secrets in file names, reasons and names of outputs: masked in trail, verdicts, status and results, as in the log."""

from __future__ import annotations

from pathlib import Path

from tests.acts.bench_workspace import make_bench
from threegate import cli
from threegate.acts.cancel import cancel_request
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.audit.audit_verify import verify_workspace
from threegate.trail.event import trail_text

SECRET = "xoxb-123456789012-123456789012-abcdefabcdefabcdefabcdef"


def test_no_secret_is_kept(tmp_path: Path, capsys) -> None:
    bench = make_bench(tmp_path)
    workspace = bench.workspace
    call = ["-w", str(workspace.root)]
    named = bench.draft("named", slug=SECRET)
    odd = bench.draft("odd", slug="odd").rename(workspace.inbox / f"TR-{SECRET}.md")
    (workspace.inbox / f"{SECRET}.txt").write_text("no request")
    bench.approve(bench.draft("ran", slug="ran", code=f"open('/out/{SECRET[:3]}' + '{SECRET[3:]}', 'w').write('x')"))
    bench.approve(bench.draft("cancelled", slug="cancelled"))
    cancel_request(bench.context, "cancelled", by=OperatorDecision("op"), reason=f"leaked {SECRET}")
    assert cli.execute([*call, "run", "--once"]) == 0
    assert cli.execute([*call, "status", "--json"]) == 0
    assert cli.execute([*call, "status"]) == 0
    assert cli.execute([*call, "audit", "show"]) == 0
    reject_draft(bench.context, named, reason=f"leaks {SECRET}", by=OperatorDecision("op"))
    reject_draft(bench.context, odd, reason="", by=OperatorDecision("op"))
    assert cli.execute([*call, "run", "--once"]) == 0
    said = capsys.readouterr()
    assert SECRET not in said.out and SECRET not in said.err
    assert len(list(workspace.results.glob("TS-*.md"))) == 4
    kept = [
        workspace.trail_file,
        *(path for path in workspace.results.rglob("*") if path.is_file()),
        *workspace.verdicts.iterdir(),
    ]
    kept += [*workspace.refused.iterdir(), *workspace.finished.iterdir()]
    for path in kept:
        assert SECRET not in path.name and (
            path.parent in (workspace.refused, workspace.finished) or SECRET not in path.read_text()
        ), path
    assert [str(item) for item in verify_workspace(workspace).problems] == []


def test_a_draft_with_a_secret_in_its_name_is_not_valid(tmp_path: Path, capsys) -> None:
    bench = make_bench(tmp_path)
    path = bench.draft("named", slug=SECRET)
    call = ["-w", str(bench.workspace.root)]
    assert cli.execute([*call, "validate", str(path)]) == 2
    assert "TG501" in capsys.readouterr().out
    assert cli.execute([*call, "approve", str(path), "--as", "alice", "--key", "x", "--yes"]) == 2


def test_a_secret_is_masked_before_the_cut() -> None:
    assert trail_text("a" * 150 + f" {SECRET} " + "b" * 100).count("xoxb") == 0
    assert trail_text(f"password=[password] {SECRET}") == trail_text(trail_text(f"password=[password] {SECRET}"))
