"""ERA jobs for bubblewrap, and who runs them: root, for whom cgroups are made, and an ordinary user."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.engine_fixtures import clearance, control, era_job
from tests.ordinary_user import UID
from threegate.core.settings import EraSettings
from threegate.request.job import BUBBLEWRAP, Job
from threegate.runners.era.jailed_run import BubblewrapRunner
from threegate.runners.era.root_identity import identify
from threegate.runners.interface import Outcome
from threegate.runners.seccomp import BUBBLEWRAP_SECCOMP_SHA256

SETTINGS = EraSettings(runtime=BUBBLEWRAP)
WHO = ["user", *(["root"] if os.geteuid() == 0 else [])]
"""Who can run here; "user" is this account if it is not root."""
HELD = [who for who in WHO if who == "root" or (os.geteuid() != 0 and BubblewrapRunner(SETTINGS).by_cgroup)]
"""Those whose limits the kernel enforces by cgroups: root, and an account that systemd delegated one to (as in
``systemd-run --user --scope -p Delegate=yes``); the runs of the others are watched.
"""


def jailed_job(*argv: str, **words: Any) -> Job:
    """A job that runs without an engine, on this machine's /usr."""
    job = era_job(*argv, **words)
    return replace(
        job,
        image=identify(SETTINGS).digest,
        egress_image="",
        runtime=BUBBLEWRAP,
        seccomp_sha256=BUBBLEWRAP_SECCOMP_SHA256,
    )


def jailed_python(code: str, **words: Any) -> Job:
    """One that runs this code."""
    return jailed_job("/usr/bin/python3", "-I", "-c", code, **words)


@contextmanager
def folder_of(who: str) -> Iterator[Path]:
    """A folder of whoever runs it, which nobody else may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tg-jailed-", dir="/var/tmp"))
    if who == "user" and os.geteuid() == 0:
        os.chown(folder, UID, UID)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def run_as(who: str, function: Callable[..., Any], *arguments: Any, seconds: float = 120) -> Any:
    """What `function` returns when it is called in a process of its own, by root or by the ordinary user."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_call, args=(theirs, who, function, arguments))
    process.start()
    theirs.close()
    try:
        assert ours.poll(seconds), "no answer"
        good, value = ours.recv()
    finally:
        process.kill()
        process.join()
        ours.close()
    if not good:
        raise value
    return value


def run_all(who: str, jobs: Sequence[Job], settings: EraSettings = SETTINGS) -> list[Outcome]:
    """Run the jobs one after the other, with one runner."""
    with folder_of(who) as folder:
        return run_as(who, _run_all, jobs, settings, folder)  # type: ignore[no-any-return]


def run_one(who: str, job: Job, settings: EraSettings = SETTINGS) -> Outcome:
    """Run a job."""
    return run_all(who, [job], settings)[0]


def _run_all(jobs: Sequence[Job], settings: EraSettings, folder: Path) -> list[Outcome]:
    runner = BubblewrapRunner(settings)
    return [runner.run(clearance(job), job, control(folder / str(number))) for number, job in enumerate(jobs)]


def become(who: str) -> None:
    """Become the ordinary user, if it is one and this process is root."""
    if who == "user" and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
        os.environ["HOME"] = os.environ["XDG_STATE_HOME"] = "/nonexistent"
    os.chdir("/tmp")


def _call(theirs: Any, who: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        become(who)
        answer = True, function(*arguments)
    except BaseException as error:
        answer = False, error
    theirs.send(answer)
