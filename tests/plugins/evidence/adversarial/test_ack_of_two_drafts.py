"""A second draft with the id of one that waits: the trace still tells of the file that the operator approved."""

from __future__ import annotations

from dataclasses import replace

from tests.plugins.evidence.test_ack_trace import APPROVED, CLAIMED, VALID, trace


def test_a_second_draft_of_the_same_id_changes_nothing_that_is_told() -> None:
    mine = {"from_": "inbox", "file": "TR-a.md"}
    anothers = replace(VALID, sha256="e" * 64, from_="inbox", file="TR-b.md")
    lines = trace((replace(VALID, **mine), 0), (anothers, 0.5), (replace(APPROVED, **mine), 1), (CLAIMED, 2))
    told = {line["action"]["parameters"]["draft_sha256"] for line in lines if "action" in line}
    assert told == {"a" * 64}
