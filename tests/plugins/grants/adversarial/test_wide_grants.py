"""Grants of editable width, attacked in a real workspace: drafts made to fit, and grants made wider than they were
signed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.support import threegate
from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused
from threegate.plugins.grants.giving import finished_request, new_grant
from threegate.plugins.grants.grant import Grant
from threegate.plugins.grants.promotion import use_grants
from threegate.plugins.grants.standing_grants import list_grants
from threegate.plugins.grants.widened import read_widened
from threegate.review.countersign import verify_approval

CODE = "print(month, most)"
INPUTS = '{"month": "2026-11", "most": 20}'
WIDE = ("vars.month regex 2026-(0[1-9]|1[0-2])", "vars.most gte 1 lte 50")


def draft(bench: Bench, slug: str, inputs: str = INPUTS, **changes: str) -> Path:
    path = bench.draft(slug, slug=slug, data=None, code=CODE, **changes)  # type: ignore[arg-type]
    text = path.read_text().replace("## Output", f"## Inputs (JSON)\n\n```json\n{inputs}\n```\n\n## Output")
    path.write_text(text)
    return path


@pytest.fixture
def ran(tmp_path: Path) -> Bench:
    """A workspace with grants on, in which `first` ran."""
    bench = make_bench(tmp_path)
    bench.settings(grants__allow=True)
    bench.approve(draft(bench, "first"))
    root = bench.workspace.root
    assert threegate("run", "--once", cwd=root).code == 0
    return bench


def give(bench: Bench, *texts: str, uses: int = 2) -> Grant:
    approved = finished_request(bench.context, "first")
    widened = read_widened(approved.job, texts)
    return new_grant(
        bench.context, approved, widened=widened, max_uses=uses, seconds=3600, name="alice", key=bench.keys["alice"]
    )  # fmt: skip


FITTED = (
    '{"month": "2026-13", "most": 20}',
    '{"month": "2026-12", "most": 51}',
    '{"month": "2026-12", "most": 20.0}',
    '{"month": "2026-12", "most": "20"}',
    '{"month": "2026\\u002d12", "most": 20}',
    '{"month": "2026-12\\n", "most": 20}',
    '{"month": "\uff12026-12", "most": 20}',
    '{"month": "2026\u201112", "most": 20}',
    '{"month": ["2026-12"], "most": 20}',
    '{"month": "2026-12", "most": 20, "more": 1}',
    '{"most": 20, "month": "2026-12"}',
    '{"month":"2026-12", "most": 20}',
    '{"month": "2026-12", "month": "2026-11", "most": 20}',
    '{"Month": "2026-12", "most": 20}',
)


def test_what_is_made_to_fit_waits_for_an_operator(ran: Bench) -> None:
    give(ran, *WIDE, uses=100)
    for number, inputs in enumerate(FITTED):
        draft(ran, f"fitted-{number}", inputs)
    assert use_grants(ran.context) == []
    draft(ran, "honest", '{"month": "2026-12", "most": 50}')
    (done,) = use_grants(ran.context)
    assert done.path.name.endswith("-honest.md")


def test_a_grant_made_wider_than_it_was_signed(ran: Bench) -> None:
    grant = give(ran, *WIDE)
    file = ran.workspace.grants / f"{grant.id}.grant"
    signed = file.read_bytes()
    wider = signed.replace(b'"lte":50', b'"lte":99')
    assert wider != signed
    file.write_bytes(wider)
    with pytest.raises(InvalidInput, match="not match its name"):
        list_grants(ran.context.workspace, ran.context.trail)
    file.unlink()
    renamed = Grant.parse(wider)
    (ran.workspace.grants / f"{renamed.id}.grant").write_bytes(wider)
    draft(ran, "over", '{"month": "2026-12", "most": 98}')
    assert use_grants(ran.context) == [], "the trail knows no such grant"
    (ran.workspace.grants / f"{renamed.id}.grant").unlink()
    file.write_bytes(signed)
    draft(ran, "honest", '{"month": "2026-12", "most": 50}')
    (promoted,) = use_grants(ran.context)
    beside = promoted.path.with_name(f"{promoted.path.name}.sig")
    beside.write_bytes(wider)
    failed = {check.code for check in verify_approval(ran.context, promoted.path) if check.ok is False}
    assert "signature_invalid" in failed


def test_what_is_too_much_for_one_grant_is_not_signed(ran: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    many = json.dumps(["2026-11", *(f"{number:0200}" for number in range(49))])
    monkeypatch.setattr(limits, "SIGNATURE_FILE_BYTES", 8_000)
    with pytest.raises(Refused, match="too much to sign"):
        give(ran, f"vars.month one_of {many}")
    assert list_grants(ran.context.workspace, ran.context.trail) == []
