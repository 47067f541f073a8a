"""Whether commands can run without an engine, and what doctor and readiness say of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.runners.small_engine import small_engine
from threegate.core.errors import Unavailable
from threegate.core.settings import EraSettings, RunnersSettings, Settings
from threegate.request.job import WATCHED, Platform
from threegate.runners.backend import running
from threegate.runners.era import bubblewrap_answer
from threegate.runners.era.bubblewrap_answer import bubblewrap_line
from threegate.runners.era.measured_walls import limit_lines, measured
from threegate.runners.era.root_identity import Root
from threegate.runners.interface import Outcome, nothing_ran

ROOT = Root(None, f"root:sha256:{'b' * 64}", frozenset(), frozenset(), "")
HERE = "runs commands on this machine's packages (root:sha256:bbbbbbbbbbbb…)"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with bubblewrap and a known root."""
    monkeypatch.setattr(bubblewrap_answer, "PROGRAM", sys.executable)
    monkeypatch.setattr(bubblewrap_answer, "identify", lambda settings: ROOT)


def settings_of(tmp_path: Path, runtime: str) -> Settings:
    era = EraSettings(engine=f"unix://{tmp_path}/s", runtime=runtime)
    return Settings(runners=RunnersSettings(era=era))


def test_what_it_needs_is_named(here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bubblewrap_line(EraSettings()).seen == HERE

    def unknown(settings: EraSettings) -> Root:
        raise Unavailable("no database")

    monkeypatch.setattr(bubblewrap_answer, "identify", unknown)
    assert (line := bubblewrap_line(EraSettings())).state == "warning" and line.seen == "no database"
    monkeypatch.setattr(bubblewrap_answer, "PROGRAM", str(tmp_path / "none"))
    assert bubblewrap_line(EraSettings()).fix == "apt-get install bubblewrap"


def test_forbidden_user_namespaces_are_said(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel's own switch, with what changes it; root needs none."""
    name = "kernel/ostype"  # a file that is always there, in place of the switch
    monkeypatch.setattr(bubblewrap_answer, "FORBIDDEN", (("kernel/none", "0", ""), (name, "Linux", "sysctl x=1")))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    line = bubblewrap_line(EraSettings())
    assert (line.state, line.fix) == ("warning", "sysctl x=1") and "kernel.ostype is Linux" in line.seen
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert bubblewrap_line(EraSettings()).state == "ok"


def test_readiness_needs_one_of_the_two_ways(here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    era = running("ERA")
    without = era.answers(settings_of(tmp_path, "auto"))
    assert without is not None and (without.name, without.state) == ("engine", "ok")
    assert without.seen == f"not needed: bubblewrap {HERE}"
    assert era.answers(settings_of(tmp_path, "bubblewrap")).seen == HERE
    missing = era.answers(settings_of(tmp_path, "engine"))
    assert missing is not None and (missing.name, missing.state) == ("engine", "warning")
    with small_engine(tmp_path / "s", "sha256:a"):
        assert era.answers(settings_of(tmp_path, "auto")).seen == "answers, 27.5.1"
    monkeypatch.setattr(bubblewrap_answer, "PROGRAM", str(tmp_path / "none"))
    neither = era.answers(settings_of(tmp_path, "auto"))
    assert neither is not None and neither.state == "warning"
    assert "no container engine" in neither.seen and f"nor bubblewrap: {tmp_path}/none is not installed" in neither.seen


@pytest.mark.jail
def test_doctor_misses_no_engine_where_bubblewrap_runs(tmp_path: Path) -> None:
    lines = {line.name: line for line in running("ERA").doctor(settings_of(tmp_path, "auto"), False)}
    assert lines["bubblewrap"].state == lines["era root"].state == lines["engine"].state == "ok"
    assert "root:sha256:" in lines["era root"].seen and "Python 3." in lines["era root"].seen
    assert lines["engine"].seen.endswith("does not exist; not needed: ERA requests run in bubblewrap")
    assert "as this process is started" in lines["era limits"].seen and lines["era walls"].seen == "not measured"
    only = [line.name for line in running("ERA").doctor(settings_of(tmp_path, "bubblewrap"), False)]
    assert only == ["bubblewrap", "era root", "era limits", "era walls"]
    engine = running("ERA").doctor(settings_of(tmp_path, "engine"), False)
    assert [(line.name, line.state) for line in engine] == [("engine", "warning")]


@pytest.mark.slow
@pytest.mark.jail
def test_doctor_measures_every_wall_of_bubblewrap(tmp_path: Path) -> None:
    lines = running("ERA").doctor(settings_of(tmp_path, "bubblewrap"), True)
    walls = {line.name: line.state for line in lines if line.name.startswith("era: ")}
    assert len(walls) >= 25 and "failure" not in walls.values(), walls


def test_memory_that_is_only_watched_is_a_warning() -> None:
    """What nothing enforces is a failure, except where its words say that it is watched."""

    def states(**kept: str) -> dict[str, str]:
        outcome = Outcome("succeeded", "", nothing_ran("").stdout, nothing_ran("").stderr, effective_limits=kept)
        return {line.name.removeprefix("era: ").split()[0]: line.state for line in limit_lines(outcome)}

    kept = {"processes": "128", "cpu": "1 cores", "network": "lo"}
    by_cgroup = states(memory="1 bytes", swap="none", **kept)
    assert set(by_cgroup.values()) == {"ok"}
    watched = states(memory=f"1 bytes, {WATCHED}", swap="not enforced", **kept)
    assert (watched["memory"], watched["swap"], watched["cpu"]) == ("warning", "warning", "ok")
    assert states(memory="not enforced", swap="not enforced", **kept)["memory"] == "failure"
    assert states(memory="not read back", swap="none", **kept)["not"] == "warning"


def test_a_probe_that_did_not_start_is_said() -> None:
    with pytest.raises(Unavailable, match="no root"):
        measured(lambda control: nothing_ran("no root"))


def test_a_card_says_where_a_job_runs(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.approval.material import make_job, make_request
    from threegate.runners.era import root_identity

    def place(platform: Platform) -> str:
        job = make_job(make_request(), image=platform.image, runtime=platform.runtime)
        return running("ERA").place(Settings(), job)

    monkeypatch.setattr(root_identity, "identify", lambda settings: ROOT)
    jail = Platform(ROOT.digest, "", "bubblewrap")
    assert place(jail) == "bubblewrap on this machine's packages (root:sha256:bbbbbbbbbbbb…)"
    other = place(Platform(f"root:sha256:{'c' * 64}", "", "bubblewrap"))
    assert other == "bubblewrap on another root than this machine has now (root:sha256:cccccccccccc…)"
    assert place(Platform(f"sha256:{'d' * 64}")) == "a container of the image sha256:dddddddddddd…"
    assert place(Platform()) == "no image is set"

    def unknown(settings: EraSettings) -> Root:
        raise Unavailable("no database")

    monkeypatch.setattr(root_identity, "identify", unknown)
    assert place(jail) == "nowhere now: no database"
