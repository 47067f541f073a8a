"""An engine that is alive and slow, or answers with errors: a named status in bounded time, and nothing left."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import uuid
from pathlib import Path

import pytest

from tests.conftest import few
from tests.engine_fixtures import ENGINE, IMAGE, clearance, control, docker, era_job
from tests.runners.between import Action, between
from tests.support import children, wait_until
from threegate.core.settings import EraSettings
from threegate.runners.era import container_engine, container_run
from threegate.runners.era.backend import remove_orphans
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import Outcome

pytestmark = [pytest.mark.engine, pytest.mark.root]
LIMIT = 2
CREATE, ATTACH, START = "POST .*/containers/create", "POST .*/attach", "POST .*/start"
PAUSE, ARCHIVE = "POST .*/pause", "GET .*/archive"
INSPECT, REMOVE = "GET .*/containers/[^/]*/json", "DELETE .*/containers/"


def count(workspace: str) -> dict[str, object]:
    """What a run could leave."""
    mark = f"label=threegate.workspace={workspace}"
    return {
        "containers": docker("ps", "-aq", "--filter", mark).split(),
        "volumes": docker("volume", "ls", "-q", "--filter", mark).split(),
        "networks": docker("network", "ls", "-q", "--filter", mark).split(),
        "processes": children(os.getpid()),
        "threads": {thread.name for thread in threading.enumerate() if thread.name.startswith(("era", "monty"))},
    }


def run_behind(folder: Path, rules: list[tuple[str, Action]], workspace: str) -> tuple[Outcome, float]:
    """One run through a socket with these rules; the outcome and its seconds."""
    with tempfile.TemporaryDirectory() as short, between(ENGINE, Path(short), *rules) as (url, _):
        runner = EraRunner(EraSettings(engine=url, image=IMAGE, runtime="engine"))
        job = era_job("cat", "/etc/debian_version", time_sec=LIMIT)
        steer = control(folder, workspace_id=workspace, boot_nonce="slow-boot")
        begin = time.monotonic()
        outcome = runner.run(clearance(job), job, steer)
        seconds = time.monotonic() - begin
    assert not (folder / "run" / "work").exists()
    return outcome, seconds


@pytest.mark.parametrize(
    ("rules", "status", "says"),
    few(
        [
            ([(CREATE, "error")], "unavailable", "could not be created (out of luck)"),
            ([(CREATE, "cut")], "unavailable", "could not be created"),
            ([(CREATE, "nonsense")], "unavailable", "could not be created"),
            ([(CREATE, "late")], "unavailable", "could not be created"),
            ([(ATTACH, "error")], "interrupted", "did not connect the container"),
            ([(ATTACH, "hang")], "interrupted", "did not connect the container"),
            ([(START, "error")], "failed", "could not be started (out of luck)"),
            ([(START, "late")], "interrupted", "no clear answer to the start"),
            ([(INSPECT, "error")], "failed", "could not be started (out of luck)"),
            ([(INSPECT, "nonsense")], "interrupted", "no clear answer to the start"),
            ([("GET .*/info", "error")], "unavailable", "does not answer (out of luck)"),
            ([("GET .*/images/", "cut")], "unavailable", "does not answer"),
            ([("", 0.2)], "succeeded", "exit code 0"),
        ],
        5,
    ),
    ids=lambda value: f"{value[0][0][-12:]}-{value[0][1]}" if isinstance(value, list) else "",
)
def test_slow_and_wrong_answers(
    rules: list[tuple[str, Action]], status: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_engine, "ANSWER_SECONDS", 1.5)
    monkeypatch.setattr(container_run, "GONE_SECONDS", 1)
    if status == "succeeded":
        monkeypatch.undo()
    workspace = f"ws-{uuid.uuid4().hex}"
    before = count(workspace)
    outcome, seconds = run_behind(tmp_path, rules, workspace)
    assert (outcome.status, says in outcome.detail) == (status, True), outcome.detail
    assert seconds < LIMIT + 10
    assert count(workspace) == before
    if status != "succeeded":
        assert outcome.artifacts == () and outcome.stdout.size == 0


@pytest.mark.parametrize("patience", [1.5, pytest.param(container_engine.ANSWER_SECONDS, marks=pytest.mark.soak)])
@pytest.mark.slow
def test_an_engine_that_never_answers_the_start_is_not_waited_for_longer_than_said(
    patience: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every question from the start on stays without an answer; the long form has the real patience."""
    monkeypatch.setattr(container_engine, "ANSWER_SECONDS", patience)
    workspace = f"ws-{uuid.uuid4().hex}"
    outcome, seconds = run_behind(
        tmp_path, [(START, "late"), (INSPECT, "hang"), (REMOVE, "hang"), ("kill", "hang")], workspace
    )
    assert outcome.status == "interrupted"
    print(f"ended {seconds:.1f} s after the beginning")
    assert seconds < LIMIT + 10
    assert any("did not remove" in note for note in outcome.notes)
    assert len(remove_orphans(workspace, "next-boot", url=ENGINE, runs_folder=tmp_path)) == 1
    assert count(workspace)["containers"] == []


@pytest.mark.parametrize(
    ("code", "rule", "status", "says"),
    few(
        [
            # PID 1 says how it ended: that needs no answer of the engine.
            ("sleep 1", INSPECT, "succeeded", "exit code 0"),
            ("sleep 1; echo x > /out/x", PAUSE, "failed", "outputs_not_collected: /out could not be read"),
            ("sleep 1; echo x > /out/x", ARCHIVE, "failed", "outputs_not_collected: /out could not be read"),
        ],
        1,
    ),
)
@pytest.mark.slow
def test_the_engine_says_nothing_after_the_go(code: str, rule: str, status: str, says: str, tmp_path: Path) -> None:
    workspace = f"ws-{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory() as short, between(ENGINE, Path(short)) as (url, proxy):
        runner = EraRunner(EraSettings(engine=url, image=IMAGE, runtime="engine"))
        job = era_job("sh", "-c", code, time_sec=LIMIT)
        steer = control(tmp_path, workspace_id=workspace, boot_nonce="slow-boot")

        def break_after_first_look() -> None:
            wait_until(lambda: any("/json" in line and "containers" in line for line in proxy.seen))
            time.sleep(0.3)  # past the go byte and before the end of `sleep 1`: neither is seen from here
            proxy.rules.append((rule, "error"))

        timer = threading.Thread(target=break_after_first_look)
        timer.start()
        begin = time.monotonic()
        outcome = runner.run(clearance(job), job, steer)
        assert time.monotonic() - begin < LIMIT + 10
        timer.join()
    assert outcome.status == status and says in outcome.detail and outcome.artifacts == ()
    assert count(workspace)["containers"] == count(workspace)["volumes"] == []


def test_a_removal_that_fails_is_told_and_done_at_the_next_start(tmp_path: Path) -> None:
    workspace = f"ws-{uuid.uuid4().hex}"
    outcome, seconds = run_behind(tmp_path, [(REMOVE, "error")], workspace)
    assert outcome.status == "succeeded" and seconds < LIMIT + 10
    assert any("did not remove" in note for note in outcome.notes)
    assert len(remove_orphans(workspace, "next-boot", url=ENGINE, runs_folder=tmp_path)) == 1
    assert count(workspace)["containers"] == []
