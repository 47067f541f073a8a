"""A run that leaves more than /out may hold: what was not collected is named or counted, and the end says so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.engine_fixtures import era_job
from threegate.core import limits
from threegate.request.job import JobLimits
from threegate.runners.era.container_run import EraRun
from threegate.runners.era.container_watch import Closing
from threegate.runners.staging import Collected, collect

BOUNDS = JobLimits("1", 64, 5, out_bytes=10_000, out_files=400, file_bytes=4_000)


def sparse(folder: Path, *names: str, size: int = 4_000) -> None:
    """Files that take no room in /out's own file system, which therefore is never full."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with open(folder / name, "wb") as file:
            file.truncate(size)


def test_every_file_behind_the_limit_is_named(tmp_path: Path) -> None:
    """They vanished: neither in the artifacts nor among what was left."""
    out = tmp_path / "out"
    names = ["a", "b", "c", "d/e", "d/f", "g/h/i", "z"]
    sparse(out, *names)
    sparse(out, "y", size=1)
    found = collect(out, BOUNDS)
    assert found.exceeded == "/out holds more than 10000 bytes"
    assert [item.path for item in found.artifacts] == ["a", "b"]
    left = [line.partition(": ")[0] for line in found.dropped]
    assert left == ["c", "d/e", "d/f", "g/h/i", "y", "z"], "also one that would have fitted"
    assert sorted(path.name for path in out.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("count", [399, 2_000])
def test_what_is_too_much_to_name_is_counted(tmp_path: Path, count: int) -> None:
    out = tmp_path / "out"
    sparse(out, *(f"{number:05}" for number in range(count)))
    found = collect(out, BOUNDS)
    assert len(found.dropped) == limits.OUT_DROPPED_LINES + 1
    rest = count - len(found.artifacts) - limits.OUT_DROPPED_LINES
    assert found.dropped[-1] == f"and {rest} more, which are not named"
    assert found.exceeded is not None


def test_odd_names_are_counted_too(tmp_path: Path) -> None:
    """A limit for what is named holds for every reason."""
    out = tmp_path / "out"
    out.mkdir()
    for number in range(300):
        (out / f"{number}").symlink_to("/etc")
    found = collect(out, BOUNDS)
    assert len(found.dropped) == 257 and found.dropped[-1].startswith("and 44 more")
    assert found.exceeded is None and found.artifacts == []


class _Run:
    """What a verdict looks at, of a command that ended by itself."""

    def __init__(self, code: int, *, killed: bool = False) -> None:
        self._job = era_job("true")
        self._ended = None
        self._state = {"ExitCode": code, "OOMKilled": True} if killed else None
        streams = SimpleNamespace(closing=None if killed else Closing(code, 0, 1))
        self._watch = SimpleNamespace(
            ended=None,
            lost=False,
            refused_forks=0,
            wall_ms=1,
            out_of_memory=False,
            streams=streams,
            unheard=lambda: None,
        )


@pytest.mark.parametrize("code", [0, 1])
def test_output_exceeded_wins_over_the_exit_code(code: int) -> None:
    """A program that ignores what it could not write ends with 0, and its run was called `succeeded`."""
    verdict = EraRun._verdict
    run = cast(Any, _Run(code))
    status, detail, _ = verdict(run, Collected(exceeded="/out holds more").exceeded)
    assert status == "output_exceeded" and "/out holds more" in detail
    assert verdict(run, None)[0] == ("succeeded" if code == 0 else "exited")
    killed = cast(Any, _Run(137, killed=True))
    assert verdict(killed, "/out holds more")[0] == "out_of_memory"
