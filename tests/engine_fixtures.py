"""Jobs, clearances and runners for tests: the real parts, with the engine that scripts/engine provides.

Import what you need: ``from tests.engine_fixtures import make_job, run_job, era_runner``.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from threegate.core.settings import EraSettings
from threegate.judgement import judge
from threegate.judgement.judge import Clearance
from threegate.request.action import Command, Script
from threegate.request.job import ERA_ENVIRONMENT, PROXY_URL, Job, JobInput, JobLimits
from threegate.runners.interface import Control, Outcome, Runner
from threegate.runners.seccomp import SECCOMP_SHA256

APPROVED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ENGINE = os.environ.get("THREEGATE_TEST_ENGINE", "")
IMAGE = os.environ.get("THREEGATE_TEST_IMAGE", "")
EGRESS_IMAGE = os.environ.get("THREEGATE_TEST_EGRESS_IMAGE", "")


def era_settings(*, runtime: str = "") -> EraSettings:
    """The settings of an EraRunner on the test engine."""
    return EraSettings(engine=ENGINE, image=IMAGE, egress_image=EGRESS_IMAGE, runtime=runtime or "engine")


def clearance(job: Job, request_id: str = "TR-test") -> Clearance:
    """Leave to run, made as only a test may: with the judge's own seal."""
    digest = hashlib.sha256(job.digest.encode()).hexdigest()
    return Clearance(request_id, digest, job.digest, "0" * 64, "0" * 64, "operator", APPROVED, "nonce", judge._SEAL)


def monty_job(code: str, *, variables: object = None, memory_mb: int = 64, time_sec: int = 5, **bounds: int) -> Job:
    """A monty job."""
    return Job(
        backend="monty",
        action=Script(code, None if variables is None else json.dumps(variables)),
        workdir="/in",
        inputs=(),
        outputs=(),
        limits=JobLimits("1", memory_mb, time_sec, **bounds),
        network=(),
        environment={},
    )


def era_job(
    *argv: str,
    memory_mb: int = 64,
    time_sec: int = 10,
    cpu: str = "1",
    network: tuple[str, ...] = (),
    runtime: str = "",
    **bounds: int,
) -> Job:
    """An ERA job on the test engine's image."""
    environment = dict(ERA_ENVIRONMENT)
    if network:
        environment |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), PROXY_URL)
    return Job(
        backend="ERA",
        action=Command(argv),
        workdir="/in",
        inputs=(),
        outputs=(),
        limits=JobLimits(cpu, memory_mb, time_sec, **bounds),
        network=network,
        environment=environment,
        image=IMAGE,
        egress_image=EGRESS_IMAGE if network else "",
        runtime=runtime,
        seccomp_sha256=SECCOMP_SHA256,
    )


def with_inputs(job: Job, folder: Path, files: dict[str, bytes], *, unpack: bool = False) -> Job:
    """The job with these input files pinned below `folder`/inputs."""
    pinned = folder / "inputs"
    pinned.mkdir(parents=True, exist_ok=True)
    items = []
    for name, data in files.items():
        digest = hashlib.sha256(data).hexdigest()
        (pinned / digest).write_bytes(data)
        items.append(JobInput(name, digest, len(data), unpack))
    return replace(job, inputs=(*job.inputs, *items))


def control(folder: Path, *, workspace_id: str = "ws-test", boot_nonce: str = "boot-1") -> Control:
    """A fresh run folder below `folder`."""
    run = folder / "run"
    run.mkdir(parents=True)
    (folder / "inputs").mkdir(exist_ok=True)
    return Control(run, folder / "inputs", workspace_id, boot_nonce)


def run_job(runner: Runner, job: Job, folder: Path, *, steer: Control | None = None) -> Outcome:
    """Run a job below `folder` and return its outcome."""
    return runner.run(clearance(job), job, steer or control(folder))


def run_sleep(url: str, image: str, folder: Path, mark: str, time_sec: int) -> Outcome:
    """A long sleep that can be found by its mark."""
    job = replace(era_job("/usr/bin/sleep", mark, time_sec=time_sec, memory_mb=64), image=image)
    steer = control(folder, workspace_id="ws-faults", boot_nonce="first-boot")
    from threegate.runners.era.runner import EraRunner

    return EraRunner(EraSettings(engine=url, image=image)).run(clearance(job), job, steer)


def docker(*words: str) -> str:
    """Ask the test engine through its own client."""
    answer = subprocess.run(["docker", "-H", ENGINE, *words], capture_output=True, text=True, timeout=60, check=True)
    return answer.stdout


def left_behind() -> dict[str, list[str]]:
    """What runs leave when they leave something: containers, networks, volumes, mounts."""
    mounts = Path("/proc/self/mountinfo").read_text()
    return {
        "containers": docker("ps", "-aq", "--filter", "label=threegate.workspace").split(),
        "networks": docker("network", "ls", "-q", "--filter", "label=threegate.workspace").split(),
        "volumes": docker("volume", "ls", "-q").split(),
        "mounts": [line.split(" ")[4] for line in mounts.splitlines() if " - tmpfs threegate " in line],
    }


@pytest.fixture(scope="session")
def monty_runner():
    """A MontyRunner for the whole session."""
    from threegate.runners.monty.runner import MontyRunner

    runner = MontyRunner(1)
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def era_runner():
    """An EraRunner on the test engine."""
    from threegate.runners.era.runner import EraRunner

    runner = EraRunner(era_settings())
    yield runner
    runner.close()
