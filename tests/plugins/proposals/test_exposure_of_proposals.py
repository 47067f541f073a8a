"""A draft that was made of a proposal says what its tool reaches."""

from __future__ import annotations

import json
import time

from tests.acts.bench_workspace import Bench
from threegate.daemon.drafts import Inbox
from threegate.daemon.log import Log
from threegate.launch.results.verdict import read_verdict
from threegate.plugins.proposals.proposer import Proposer


def test_the_verdict_of_a_draft_names_the_secret_that_its_proposals_tool_reaches(bench: Bench) -> None:
    proposal = {
        "tool": "github.issue_create_approved",
        "args": {"repo": "a/b", "title": "T", "body": "B"},
        "risk": "high",
    }
    with bench.workspace.settings_file.open("a") as settings:
        settings.write('\n[secrets.github]\nenv = "GH"\npath = "/repos/a/b/issues"\n')
    (bench.workspace.inbox / "AP-1.json").write_text(json.dumps(proposal))
    context = bench.context
    propose = Proposer(bench.workspace, context.trail, lambda *words: None, lambda: context.policy.settings)
    takers = {"proposals": ("AP-*.json", propose)}
    inbox = Inbox(bench.workspace, context.trail, Log(quiet=True), takers=takers)
    until = time.monotonic() + 60
    try:
        while inbox.scan(context.policy) or inbox.unfinished:
            assert time.monotonic() < until
    finally:
        inbox.close()
    (draft,) = bench.workspace.drafts.glob("TR-*.md")
    verdict = read_verdict(bench.workspace, draft.name)
    assert verdict is not None and verdict.exposure is not None
    assert verdict.exposure.reach == ("network api.github.com:443", "secret github")
