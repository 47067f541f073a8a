"""A grant of editable width under a real daemon: what it covers runs, its near misses wait, and every screen says
so.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support import Place, make_place, monty_draft, request_id

CODE = "print('turnover of', month)\n{'month': month, 'rows': most}"


def drop(place: Place, slug: str, month: str, most: int = 20, code: str = CODE, **changes: int) -> Path:
    variables = json.dumps({"month": month, "most": most})
    return place.drop(monty_draft(request_id(slug), code, variables=variables, **changes))


@pytest.fixture
def granting(tmp_path: Path) -> Place:
    return make_place(tmp_path, settings={"grants.allow": True})


def test_what_is_covered_runs_and_each_near_miss_waits(granting: Place, tmp_path: Path) -> None:
    place = granting
    first = drop(place, "first", "2026-01")
    place.approve(first)
    place.once()
    words = [
        "grant",
        "new",
        first.stem,
        "--widen",
        "vars.month regex 2026-(0[1-9]|1[0-2])",
        "--widen",
        "vars.most gte 1 lte 50",
    ]
    words += ["--max-uses", "2", "--expires", "1h", "--as", "operator", "--key", str(place.key)]
    shown = place.run(*words, "--yes", expect=0).out
    for line in (
        "| vars.month matches 2026-(0[1-9]|1[0-2]) from end to end",
        '| "2026-02"',
        '| "2026-00"',
        "print('turnover of', month)",
    ):
        assert line in shown, shown
    assert "all else that runs is the same byte for byte" in shown
    grant = place.events("granted")[0]["data"]["grant"]
    covered = drop(place, "covered", "2026-12", 50)
    misses = [
        drop(place, "month", "2026-13"),
        drop(place, "rows", "2026-12", 51),
        drop(place, "code", "2026-12", code=CODE.replace("turnover", "turnovers")),
        drop(place, "limit", "2026-12", time_sec=11),
        drop(place, "words", "2026-12 or so"),
    ]
    daemon = place.daemon()
    try:
        place.wait_for(f"finished/{covered.name}")
        for draft in misses:
            place.wait_for(f"verdicts/{draft.name}.json")
        last = drop(place, "last", "2026-03")
        place.wait_for(f"finished/{last.name}")
        over = drop(place, "over", "2026-04")
        place.wait_for(f"verdicts/{over.name}.json")
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=30)
    finally:
        daemon.kill()
    place.once()
    claimed = [event["request_id"] for event in place.events("claimed")]
    assert claimed == [first.stem, covered.stem, last.stem]
    assert all(draft.exists() for draft in (*misses, over))
    said = f"under grant {grant}, given by operator; not signed individually"
    assert f"ran {said}" in place.result(covered.stem) and "not signed individually" not in place.result(first.stem)
    short = said.replace(grant, grant[:12])
    assert short in place.run("status", "--ended", "9", expect=0).out.replace("\n          ", " ")
    assert said in place.run("show", covered.stem, expect=0).out
    assert short in place.run("audit", "show", expect=0).out
    place.run("audit", "report", "--out", str(tmp_path / "report.html"), expect=0)
    assert said in (tmp_path / "report.html").read_text()
    place.run("audit", "pack", covered.stem, "--out", str(tmp_path / "pack"), expect=0)
    assert said in "".join(path.read_text() for path in (tmp_path / "pack").rglob("*.json"))
    assert place.run("audit", "verify", expect=0)
