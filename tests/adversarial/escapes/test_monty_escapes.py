"""Escapes from Monty: each attempt is refused by the wall it meets, and a canary on the host stays as it was."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.adversarial.escapes.monty_attempts import BOMBS, LINKS, REFUSED
from tests.conftest import few
from tests.engine_fixtures import APPROVED, clearance, control, monty_job, monty_runner, run_job
from threegate.runners.interface import Outcome
from threegate.runners.monty import runner as monty_module

__all__ = ["monty_runner"]
SECRET = "canary-7f3a90c1"


@pytest.fixture
def canary(tmp_path: Path):
    """A host file beside the run; afterwards it is the same file with the same content."""
    path = tmp_path / "host" / "canary"
    path.parent.mkdir()
    path.write_text(SECRET)
    before = path.stat()
    yield path
    after = path.stat()
    assert path.read_text() == SECRET
    assert (before.st_ino, before.st_mtime_ns, before.st_mode) == (
        after.st_ino,
        after.st_mtime_ns,
        after.st_mode,
    )
    assert os.listdir(path.parent) == ["canary"]


def nothing_leaked(outcome: Outcome, folder: Path) -> None:
    """The secret is in no stream and in no collected file, and nothing but plain files was collected."""
    assert SECRET.encode() not in outcome.stdout.kept + outcome.stderr.kept
    for path in (folder / "run" / "out").rglob("*"):
        assert not path.is_symlink()
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    assert not (folder / "run" / "in").exists()


def test_there_are_enough_attempts() -> None:
    assert len(REFUSED) + len(LINKS) + len(BOMBS) >= 75


@pytest.mark.parametrize("name", few(REFUSED, 60))
def test_refused(name: str, monty_runner, canary: Path, tmp_path: Path) -> None:
    code, error = REFUSED[name]
    code = code.replace("CANARY", str(canary)).replace("DIRECTORY", str(canary.parent))
    outcome = run_job(monty_runner, monty_job(code), tmp_path / "w")
    assert outcome.status == "failed"
    last = outcome.stderr.kept.decode().strip().splitlines()[-1]
    # The code itself was ended by the interpreter, at the attempt; nothing of it crashed the worker.
    assert last.partition(":")[0] == error, last
    written = {"file: rename out of /out": ["x"]}.get(name, [])
    assert [item.path for item in outcome.artifacts] == written
    nothing_leaked(outcome, tmp_path / "w")


@pytest.mark.parametrize("name", LINKS)
def test_links_in_the_inputs(name: str, canary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Staging makes no links; were there one all the same, the mount itself would not follow it out."""

    def stage(inputs: object, pinned: object, target: Path) -> None:
        target.mkdir()
        (target / "absolute").symlink_to(canary)
        (target / "relative").symlink_to("../../../host/canary")
        (target / "folder").symlink_to(canary.parent)

    monkeypatch.setattr(monty_module, "stage_inputs", stage)
    runner = monty_module.MontyRunner(1)
    try:
        outcome = run_job(runner, monty_job(LINKS[name]), tmp_path / "w")
    finally:
        runner.close()
    assert outcome.status == "failed"
    assert b"PermissionError" in outcome.stderr.kept
    nothing_leaked(outcome, tmp_path / "w")


@pytest.mark.parametrize("name", few(BOMBS, 15))
def test_too_much(name: str, monty_runner, canary: Path, tmp_path: Path) -> None:
    code, status = BOMBS[name]
    seconds = 1 if status == "timed_out" else 10  # no other limit is raced by the clock of a busy machine
    job = monty_job(code, memory_mb=32, time_sec=seconds, stream_bytes=2 << 20, out_bytes=2 << 20, out_files=64)
    begin = time.monotonic()
    outcome = run_job(monty_runner, job, tmp_path / "w")
    assert outcome.status == status, outcome.detail
    begins = {"failed": "The code raised ", "succeeded": "The code ran to completion."}
    told = "result_name_taken: " if name == "value's name taken" else begins.get(status, f"{status}: ")
    assert outcome.detail.startswith(told)
    assert time.monotonic() - begin < 1 + 10
    out = tmp_path / "w" / "run" / "out"
    assert sum(1 for _ in out.rglob("*")) <= 64
    assert sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) <= 2 << 20
    nothing_leaked(outcome, tmp_path / "w")
    # The next request is served as if nothing had been.
    after = run_job(monty_runner, monty_job("1 + 1"), tmp_path / "next")
    assert after.status == "succeeded"


def test_clock_and_random_are_the_approvals(monty_runner, tmp_path: Path) -> None:
    code = "import datetime, random, time\n[str(datetime.datetime.now()), time.time(), random.random(), hash('x')]"
    values = set()
    for number in range(2):
        run_job(monty_runner, monty_job(code), tmp_path / str(number))
        values.add((tmp_path / str(number) / "run" / "out" / "result.json").read_bytes())
    assert len(values) == 1
    assert APPROVED.strftime("%Y-%m-%d %H:%M:%S").encode() in values.pop()


def test_a_worker_serves_one_request(monty_runner, tmp_path: Path) -> None:
    run_job(monty_runner, monty_job("import json\njson.loads = 5\nleft = 1"), tmp_path / "a")
    outcome = run_job(monty_runner, monty_job("left"), tmp_path / "b")
    assert b"NameError" in outcome.stderr.kept


def test_monty_bin_is_not_believed(canary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = tmp_path / "monty"
    evil.write_text(f"#!/bin/sh\necho gone > {canary}\n")
    evil.chmod(0o755)
    monkeypatch.setenv("MONTY_BIN", str(evil))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    runner = monty_module.MontyRunner(1)
    try:
        job = monty_job("1 + 1")
        outcome = runner.run(clearance(job), job, control(tmp_path / "w"))
    finally:
        runner.close()
    assert outcome.status == "succeeded"


def test_inputs_cannot_be_changed_under_way(monty_runner, tmp_path: Path) -> None:
    """A pinned input with other bytes than were approved: nothing runs."""
    from tests.engine_fixtures import with_inputs

    job = with_inputs(monty_job("open('a').read()"), tmp_path / "w", {"a": b"approved"})
    (tmp_path / "w" / "inputs" / job.inputs[0].sha256).write_bytes(b"changed!")
    steer = control(tmp_path / "w2")
    outcome = monty_runner.run(clearance(job), job, replace(steer, inputs_folder=tmp_path / "w" / "inputs"))
    assert outcome.status == "unavailable"
    assert "changed since the approval" in outcome.detail
