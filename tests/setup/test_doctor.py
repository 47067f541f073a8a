"""doctor and sandbox: what they say where something is missing, and where all is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import engine_host
from tests.support import make_place, threegate
from threegate.runners.backend import DoctorLine
from threegate.runners.era import era_doctor
from threegate.runners.interface import Outcome, nothing_ran
from threegate.runners.monty import monty_doctor
from threegate.runners.probe import read_walls
from threegate.setup import doctor as doctor_module
from threegate.setup.doctor import examine
from threegate.setup.sandbox import sandbox_folder


def states(lines: list[dict[str, str]]) -> dict[str, str]:
    return {line["name"]: line["state"] for line in lines}


@pytest.mark.slow
def test_without_an_engine_its_lines_are_warnings(tmp_path: Path) -> None:
    settings = {"runners.era.engine": f"unix://{tmp_path}/none", "runners.era.runtime": "engine"}
    place = make_place(tmp_path, settings=settings)
    answer = place.run("doctor", "--json", expect=0).json()
    found = states(answer["lines"])
    assert found["engine"] == "warning" and found["trail"] == found["folders"] == found["operators"] == "ok"
    assert found["monty: no sockets"] == "ok" and answer["ok"] is True


@pytest.mark.slow
def test_without_a_workspace_the_machine_is_looked_at(tmp_path: Path) -> None:
    done = threegate("doctor", "--no-probes", cwd=tmp_path, env={"DOCKER_HOST": "unix:///none"})
    assert done.code == 0 and "warning  workspace: none here" in done.out


@pytest.mark.root
def test_failures_are_named_with_the_mend_and_end_with_2(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    (place.root / "tool-exec" / "approved").chmod(0o777)
    (place.root / "tool-exec" / "operators").chmod(0o666)
    (place.root / "inbox").chmod(0o777)
    trail = place.root / "tool-exec" / "audit" / "trail.jsonl"
    trail.write_bytes(trail.read_bytes().replace(b"workspace_created", b"workspace_creatd"))
    done = place.run("doctor", "--no-probes", "--json", expect=2)
    found = states(done.json()["lines"])
    failed = {name for name, state in found.items() if state == "failure"}
    assert failed - {"tools"} == {"folders", "operators", "trail"}
    assert found["inbox"] == "warning"
    settings = place.root / "threegate.toml"
    settings.write_text(settings.read_text() + "\n[nonsense]\nx = 1\n")
    assert "nonsense" in place.run("doctor", "--no-probes", expect=2).out


def test_the_clock_the_disk_and_known_escapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module.time, "time", lambda: 0.0)
    assert next(doctor_module.clock_lines()).state == "failure"
    monkeypatch.setattr(doctor_module, "SPACE_NONE", 1 << 60)
    assert next(doctor_module.disk_lines(tmp_path)).state == "failure"
    monkeypatch.setattr(doctor_module, "SPACE_NONE", 0)
    monkeypatch.setattr(doctor_module, "SPACE_LOW", 1 << 60)
    assert next(doctor_module.disk_lines(tmp_path)).state == "warning"

    def runc(version: str) -> DoctorLine:
        return era_doctor.runtime_line("runc", {"Components": [{"Name": "runc", "Version": version}]})

    assert runc("1.3.4").state == "ok"
    assert "CVE-2024-21626" in runc("1.1.11").seen and runc("1.1.11").state == "warning"
    assert "CVE-2024-21626" not in runc("1.1.12").seen
    assert era_doctor.runtime_line("runc", {}).state == "warning"


def test_a_probe_that_says_nothing_is_a_broken_wall() -> None:
    outcome: Outcome = nothing_ran("gone")
    assert [wall.held for wall in read_walls(b"", outcome)] == [False]
    assert [wall.held for wall in read_walls(b"[1]", outcome)] == [False]


def test_what_builds_the_images_is_found() -> None:
    assert (sandbox_folder() / "bootstrap").is_file()


@pytest.mark.engine
@pytest.mark.root
def test_with_an_engine_every_wall_is_measured(tmp_path: Path) -> None:
    place = make_place(tmp_path, settings={"runners.era.engine": engine_host() or ""})
    built = place.run("settings", "images", "--json", expect=0).json()
    assert built["image"] == os.environ["THREEGATE_TEST_IMAGE"] and built["settings_changed"]
    assert place.events("settings_changed")[0]["data"]["image"] == built["image"]
    assert place.run("settings", "images", "--json", expect=0).json()["settings_changed"] is False
    answer = place.run("doctor", "--json", expect=0).json()
    found = states(answer["lines"])
    assert found["era: memory is limited"] == found["era: the proxy refuses what is not listed"] == "ok"
    assert sum(name.startswith("era: ") for name in found) >= 30
    walls = place.run("doctor", "--sandbox", "--no-network", "--json", expect=0).json()["walls"]
    assert all(wall["held"] for wall in walls)
    place.run("audit", "verify", expect=0)


def test_a_broken_wall_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        monty_doctor,
        "prove_monty",
        lambda runner: read_walls(b'[["no sockets", false, "worked"]]', nothing_ran("")),
    )
    lines = [line for line in examine(None) if line.name == "monty: no sockets"]
    assert [line.state for line in lines] == ["failure"]
