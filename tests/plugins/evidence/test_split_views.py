"""100 of 100 split views are refused by one real witness, which is killed in the middle; the true trail goes on
between them.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from tests.plugins.evidence.witnesses import Running, fork, lines_of, sign, witness
from tests.trail.workspaces import WORKSPACE_ID, grow, make_workspace
from threegate.core.errors import Refused
from threegate.core.workspace import Workspace
from threegate.plugins.evidence.witness_client import WitnessClient

CASES = 100
KINDS = ("two histories of one size", "cut and regrown", "restored backup")


def split_view(running: Running, workspace: Workspace, place: Path, kind: str, random_: random.Random) -> int:
    """Show the witness another history of this trail, signed with the trail's own key; 1 when it is refused."""
    seen = len(lines_of(workspace))
    copy, forked = fork(workspace, place, random_.randint(1, seen - 1))
    if kind != "restored backup":
        grow(forked, seen if kind == KINDS[0] else seen + random_.randint(1, 30))
    note = sign(copy, WORKSPACE_ID)
    assert note.root != sign(workspace, WORKSPACE_ID).root
    assert (note.size == seen, note.size < seen) == (kind == KINDS[0], kind == KINDS[2])
    with pytest.raises(Refused) as answer:
        WitnessClient(running.url, running.key).cosigned(note, forked.prove_consistency)
    forked.close()
    return answer.value.code == ("409" if kind == KINDS[2] else "422")


@pytest.mark.slow
def test_100_of_100_split_views_are_refused(tmp_path: Path) -> None:
    random_ = random.Random(22)
    workspace, trail = make_workspace(tmp_path / "ws")
    vkey = (workspace.audit / "workspace.pub").read_text().strip()
    grow(trail, 40)
    refused = dict.fromkeys(KINDS, 0)
    keys = set()
    for half in (range(CASES // 2), range(CASES // 2, CASES)):
        with witness(tmp_path / "witness", [vkey]) as running:
            keys.add(running.vkey)
            for number in half:
                if number % 10 == 0:
                    grow(trail, len(lines_of(workspace)) + 5)
                    note = sign(workspace, WORKSPACE_ID)
                    honest = WitnessClient(running.url, running.key).cosigned(note, trail.prove_consistency)
                    assert running.key.time_of(honest) > 0
                kind = KINDS[number % 3]
                refused[kind] += split_view(running, workspace, tmp_path / f"fork-{number}", kind, random_)
            os.kill(running.process.pid, signal.SIGKILL)
    log = running.log.read_text()
    assert len(keys) == 1
    assert sum(refused.values()) == CASES and min(refused.values()) == 33
    assert log.count("refused      code=422") == refused[KINDS[0]] + refused[KINDS[1]]
    assert log.count("do not continue the") == refused[KINDS[0]] + refused[KINDS[1]]
