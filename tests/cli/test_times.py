"""Times that a person types: dates, durations, and those that no clock can show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acts.bench_workspace import make_bench
from threegate import cli


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["audit", "show", "--since", "999999d"], 2, "give a date, a time or a duration"),
        (["audit", "stats", "--since", "0001-01-01T00:00:00+23:59"], 2, "give a date, a time or a duration"),
        (["audit", "prune", "--dry-run", "--older-than", "999999d"], 2, "longer ago than there are dates"),
        (["audit", "aana", "-", "--until", "9999-12-31T23:59:59-23:59"], 64, "not an ISO 8601 time"),
        (["audit", "show", "--since", "2026-11-22T00:00:00+02:00"], 0, ""),
        (["audit", "show", "--since", "7d"], 0, ""),
    ],
)
def test_a_time_is_read_or_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    root = ["--workspace", str(make_bench(tmp_path).workspace.root)]
    capfd.readouterr()
    assert cli.execute([*root, *words]) == code
    error = capfd.readouterr().err
    assert said in error and "internal error" not in error
