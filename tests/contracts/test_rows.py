"""The table tests: every row of rows/*.test.yaml, each call in a play of its own after the row's `before`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.material import codes, compiled
from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import read_document
from threegate.contracts.play import Play
from threegate.contracts.scenario import play_line

FILES = sorted((Path(__file__).parent / "rows").glob("*.test.yaml"))
NOT_CONTRACTS = {"code", "also", "compiles"}


def rows() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in FILES:
        document = read_document(path.name, path.read_bytes())
        assert not isinstance(document, Diagnostic), document.render()
        for row in document.value["rows"]:
            assert set(row) <= {"row", "contracts", "before", "allow", "block", "malformed"}, row["row"]
            yield f"{path.name.partition('.')[0]}: {row['row']}", row


ROWS = dict(rows())


def with_tool(line: Mapping[str, Any], verdict: str) -> dict[str, Any]:
    if {"kill", "close", "finish"} & set(line):
        return dict(line)
    expect = {} if line.get("outcome_is") or "expect" in line else {"expect": verdict}
    return {"tool": "t", **expect, **line}


@pytest.mark.parametrize("name", ROWS)
def test_row(name: str) -> None:
    row = ROWS[name]
    contracts = compiled(row["contracts"])
    for verdict in ("allow", "block"):
        for line in row.get(verdict, ()):
            play = Play(contracts)
            for earlier in row.get("before", ()):
                problem = play_line(play, {}, with_tool(earlier, "allow"), set())
                assert not problem, (earlier, problem)
            problem = play_line(play, {}, with_tool(line, verdict), set())
            assert not problem, (line, problem)
            assert verdict == "allow" or "code" in line, f"{line}: says no code"
    for broken in row.get("malformed", ()):
        spec = {key: value for key, value in broken.items() if key not in NOT_CONTRACTS}
        found = codes(spec)
        assert found == sorted([broken["code"], *broken.get("also", ())]), (broken, found)
        if not broken.get("compiles"):
            from tests.contracts.material import folder
            from threegate.contracts.compiler import compile_folder

            assert not compile_folder(folder(spec), environment={}).ok


def test_there_are_at_least_three_hundred_cases() -> None:
    count = sum(len(row.get(kind, ())) for row in ROWS.values() for kind in ("allow", "block", "malformed"))
    assert count >= 300, count
