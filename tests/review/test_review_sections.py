"""What the screen before a signature holds: every field of the Job, every foreign word behind the gutter, nothing
cut in full.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.approval.shown.test_escaped_lines import ATTACKS, plain_and_narrow
from threegate.approval.shown.escaped_lines import Title
from threegate.approval.shown.request_sections import JOB_FIELDS
from threegate.request.action import Action, Command, Script
from threegate.request.job import Job
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.review.screen import render_reviewed_draft


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def screen_of(bench: Bench, path: Path, **changes: Any) -> list[str]:
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        changed = replace(reviewed, **{key: value(reviewed) for key, value in changes.items()})
        return render_reviewed_draft(changed, context.policy.settings, operator="alice", full=True)


def test_every_field_of_the_job_is_on_the_screen(bench: Bench) -> None:
    assert set(JOB_FIELDS) == {item.name for item in fields(Job)}
    path = bench.draft()
    before = screen_of(bench, path)
    other: dict[str, Any] = {
        "backend": "ERA", "action": Script("print(2)\n"), "workdir": "/out",
        "outputs": ("/out/x",), "network": ("example.com:443",), "environment": {"A": "b"},
        "image": "sha256:" + "1" * 64, "egress_image": "sha256:" + "2" * 64, "runtime": "runsc",
        "seccomp_sha256": "3" * 64, "tool": "t", "session_id": "s", "labels": ("l",), "workflow": "w", "role": "r",
        "requested_by": "else", "effective_risk": "medium", "data_sensitivity": "internal",
        "proposal_sha256": "4" * 64, "unread": ("data.csv",),
    }  # fmt: skip
    for name in {item.name for item in fields(Job)} - {"limits", "inputs"}:
        after = screen_of(bench, path, job=lambda reviewed, name=name: replace(reviewed.job, **{name: other[name]}))
        signed = [line for line in after if not line.startswith("  job   ")]
        assert signed != [line for line in before if not line.startswith("  job   ")], name
    for action in (Command(("python3", "x")), Script("print(2)\n"), Script("print(1)\n", '{"a": 1}')):
        after = screen_of(bench, path, job=lambda reviewed, action=action: replace(reviewed.job, action=action))
        signed = [line for line in after if not line.startswith("  job   ")]
        assert signed != [line for line in before if not line.startswith("  job   ")], action
    for item in ("cpu", "memory_mb", "time_sec", "processes", "open_files", "out_bytes", "out_files", "file_bytes",
                 "stream_bytes"):  # fmt: skip
        value: Any = "3" if item == "cpu" else 12345678
        after = screen_of(
            bench, path, job=lambda d, i=item, v=value: replace(d.job, limits=replace(d.job.limits, **{i: v}))
        )
        assert any(str(value) in line for line in after) and after != before, item
    for item, value in (("name", "other.csv"), ("sha256", "5" * 64), ("size", 777), ("unpack", True)):
        after = screen_of(
            bench,
            path,
            job=lambda d, i=item, v=value: replace(d.job, inputs=(replace(d.job.inputs[0], **{i: v}),)),
        )
        assert [line for line in after if not line.startswith("  job   ")] != [
            line for line in before if not line.startswith("  job   ")
        ], item


@pytest.mark.parametrize("kind", [Command, Script])
def test_every_word_of_a_request_is_behind_the_gutter(bench: Bench, kind: type[Action]) -> None:
    """Each foreign field is filled with attacks, past gate 1, and looked for outside of the gutter."""
    path = bench.draft()
    text = "\n".join(ATTACKS).encode("utf-8", "replace").decode()

    def attacked(reviewed: Any) -> Any:
        return replace(
            reviewed.request,
            purpose=text,
            justification=text,
            network_rationale=text,
            constraints=(text,),
            requested_by=text,
            evidence=(text,),
            risk_domain=text,
        )

    action = Command((text, text)) if kind is Command else Script(text, text)

    def job(reviewed: Any) -> Any:
        return replace(
            reviewed.job, action=action, workdir=text, outputs=(text,), network=(text,),
            environment={text: text}, tool=text, session_id=text, labels=(text,), workflow=text, role=text,
            requested_by=text,
        )  # fmt: skip

    lines = screen_of(bench, path, request=attacked, job=job)
    plain_and_narrow(lines)
    titles = [line for line in lines if line.startswith("==")]
    assert all(isinstance(line, Title) for line in titles)
    assert [str(line) for line in titles if not line.startswith("== WARNINGS")] == [
        "== REQUEST",
        "== WHAT RUNS",
        "== WALLS",
        "== WHAT THE JUDGEMENT WOULD SAY NOW",
        "== WHAT THE REQUEST SAYS ABOUT ITSELF",
    ]


def test_the_full_screen_leaves_out_nothing(bench: Bench) -> None:
    """Also of the fields that the short screen cuts at a dozen lines."""
    path = bench.draft()
    lines = [f"word {number}" for number in range(200)]
    text = "\n".join(lines)
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        changed = replace(
            reviewed,
            request=replace(reviewed.request, purpose=text, justification=text, risk_domain=text, constraints=(text,)),
            job=replace(reviewed.job, action=Script(text, text), labels=tuple(lines)),
        )
        short = render_reviewed_draft(changed, context.policy.settings, operator="alice")
        full = render_reviewed_draft(changed, context.policy.settings, operator="alice", full=True)
    assert sum("more lines of 200: --full shows all" in line for line in short) == 5
    assert not [line for line in full if "--full" in line]
    assert sum(line.endswith("| word 199") for line in full) == 7
    assert sum(line.endswith("| word 199") for line in short) == 2, "the code and the Inputs are always whole"
