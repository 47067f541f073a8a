"""100 of 100 split views are refused by one real witness, and the true trail goes on between them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.evidence.witnesses import fork, lines_of, sign, witness
from tests.trail.workspaces import WORKSPACE_ID, grow, make_workspace
from threegate.core.errors import Refused
from threegate.evidence.witness_client import WitnessClient

CASES = 100
KINDS = ("two histories of one size", "cut and regrown", "restored backup")


def test_100_of_100_split_views_are_refused(tmp_path: Path) -> None:
    random_ = random.Random(22)
    workspace, trail = make_workspace(tmp_path / "ws")
    vkey = (workspace.audit / "workspace.pub").read_text().strip()
    grow(trail, 40)
    refused = dict.fromkeys(KINDS, 0)
    with witness(tmp_path / "witness", [vkey]) as running:
        honest = WitnessClient(running.url, running.key)
        honest.cosigned(sign(workspace, WORKSPACE_ID), trail.prove_consistency)
        for number in range(CASES):
            kind = KINDS[number % 3]
            seen = len(lines_of(workspace))
            place = tmp_path / f"fork-{number}"
            copy, forked = fork(workspace, place, random_.randint(1, seen - 1))
            if kind != "restored backup":
                grow(forked, seen if kind == KINDS[0] else seen + random_.randint(1, 30))
            note = sign(copy, WORKSPACE_ID)
            assert note.root != sign(workspace, WORKSPACE_ID).root
            assert (note.size == seen, note.size < seen) == (kind == KINDS[0], kind == KINDS[2])
            with pytest.raises(Refused) as answer:
                WitnessClient(running.url, running.key).cosigned(note, forked.prove_consistency)
            assert answer.value.code == ("409" if kind == KINDS[2] else "422")
            refused[kind] += 1
            forked.close()
            if number % 10 == 9:
                grow(trail, seen + 5)
                note = honest.cosigned(sign(workspace, WORKSPACE_ID), trail.prove_consistency)
                assert note.size == seen + 5 and running.key.time_of(note) > 0
        log = running.log.read_text()
    assert sum(refused.values()) == CASES and min(refused.values()) == 33
    assert log.count("refused      code=422") == refused[KINDS[0]] + refused[KINDS[1]]
    assert log.count("do not continue the") == refused[KINDS[0]] + refused[KINDS[1]]
