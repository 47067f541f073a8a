"""The engine dies, hangs, errs or loses the image: a named status, no hang, nothing left that runs."""

from __future__ import annotations

import os
import shutil
import signal
import socketserver
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import few, slow
from tests.engine_fixtures import ENGINE, IMAGE, clearance, control, era_job, run_sleep
from tests.ordinary_user import as_user, home
from tests.support import processes, wait_until
from threegate.core.settings import EraSettings
from threegate.runners.era.backend import remove_orphans
from threegate.runners.era.runner import EraRunner
from threegate.runners.interface import Outcome

pytestmark = [pytest.mark.engine, pytest.mark.root]


class Engine:
    """A dockerd of the test's own, with the test engine's image."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"unix://{folder}/s"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()
        self.image = self._image()

    def start(self) -> None:
        """Start it and wait until it answers."""
        (self.folder / "pid").unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [
                # In a network namespace of its own: dockerd without a bridge takes the other engine's docker0 away.
                "unshare",
                "--net",
                "--",
                "dockerd",
                "--config-file",
                "",
                "--data-root",
                f"{self.folder}/data",
                "--exec-root",
                f"{self.folder}/exec",
                "--pidfile",
                f"{self.folder}/pid",
                "-H",
                self.url,
                "--bridge",
                "none",
                "--iptables=false",
                "-l",
                "error",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        version = ["docker", "-H", self.url, "version"]
        wait_until(lambda: subprocess.run(version, capture_output=True).returncode == 0, "the second dockerd")
        # The user of the tests may speak to it as to the test engine: by the socket's group.
        os.chown(f"{self.folder}/s", 0, os.stat(ENGINE.removeprefix("unix://")).st_gid)
        os.chmod(f"{self.folder}/s", 0o660)

    def docker(self, *words: str, data: bytes | None = None) -> str:
        return (
            subprocess.run(["docker", "-H", self.url, *words], check=True, capture_output=True, input=data, timeout=60)
            .stdout.decode()
            .strip()
        )

    def kill(self) -> None:
        """SIGKILL: the containers' own processes go on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, as a service manager does it."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()

    def close(self) -> None:
        """Stop it, end what it started, and remove its data."""
        self.stop()
        for pid, words in processes():
            if str(self.folder).encode() in words:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            place = line.split(" ")[4]
            if place.startswith(str(self.folder)):
                subprocess.run(["umount", "-l", place], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _image(self) -> str:
        """The test engine's own image."""
        save = subprocess.Popen(["docker", "-H", ENGINE, "save", IMAGE], stdout=subprocess.PIPE)
        with save:
            subprocess.run(["docker", "-H", self.url, "load"], stdin=save.stdout, check=True, capture_output=True)
        return IMAGE

    def another_image(self) -> str:
        """Another one with the same files."""
        container = self.docker("create", self.image, "true")
        image = self.docker("commit", "--change", "LABEL another=1", container)
        self.docker("rm", container)
        return image


@pytest.fixture(scope="module")
def own():
    folder = Path(f"/var/tmp/tg-{uuid.uuid4().hex[:8]}")
    folder.mkdir(mode=0o711)
    engine = Engine(folder)
    yield engine
    engine.close()
    assert not folder.exists()


@pytest.fixture(params=["root", slow("user")])
def who(request: pytest.FixtureRequest) -> str:
    """Who the daemon is: root, or an ordinary user in the engine's group."""
    return str(request.param)


@pytest.fixture
def folder(who: str, tmp_path: Path) -> Iterator[Path]:
    """A folder of theirs."""
    with home() if who == "user" else nullcontext(tmp_path) as made:
        yield made


def sleepers(mark: str) -> list[int]:
    """Processes of this machine that are the payload itself: past the go byte, and with the mark."""
    return [pid for pid, words in processes() if words.split(b"\0")[:2] == [b"/usr/bin/sleep", mark.encode()]]


def run_and(act, engine: Engine, folder: Path, who: str, *, time_sec: int = 60):
    """Run a long sleep, do `act` once it sleeps, and return the outcome, the seconds and the mark."""
    mark = str(100_000 + uuid.uuid4().int % 900_000)
    words = (engine.url, engine.image, folder, mark, time_sec)
    outcomes: list[Outcome] = []

    def run() -> None:
        as_they = run_sleep if who == "root" else partial(as_user, run_sleep, engine=engine.url)
        outcomes.append(as_they(*words))

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: sleepers(mark) or not thread.is_alive(), "a run", 30)
    assert thread.is_alive(), outcomes
    begin = time.monotonic()
    act()
    thread.join(time_sec + 40)
    assert outcomes, "the runner hangs"
    return outcomes[0], time.monotonic() - begin, mark


def settled(mark: str, seconds: float = 5) -> bool:
    """Whether the payload is gone (shortly: the kernel may still reap it)."""
    with suppress(AssertionError):
        wait_until(lambda: not sleepers(mark), "the end of the payload", seconds)
    return not sleepers(mark)


@pytest.mark.slow
def test_the_engine_is_killed_in_the_middle(own: Engine, folder: Path, who: str) -> None:
    # Root ends PID 1 itself, long before its deadline; a user cannot, says so, and PID 1 keeps its own deadline.
    time_sec = 10 if who == "root" else 4
    outcome, seconds, mark = run_and(own.kill, own, folder, who, time_sec=time_sec)
    assert outcome.status == "interrupted" and "went away" in outcome.detail
    assert seconds < 30
    assert settled(mark, 5 if who == "root" else 6), "the payload outlived the engine"
    assert any(f"until its time limit of {time_sec} s" in note for note in outcome.notes) is (who == "user")
    assert not (folder / "run" / "work").exists()
    own.start()
    left = own.docker("ps", "-aq", "--filter", "label=threegate.workspace=ws-faults")
    removed = remove_orphans("ws-faults", "next-boot", url=own.url)
    assert len(removed) == len(left.split())
    assert own.docker("ps", "-aq", "--filter", "label=threegate.workspace=ws-faults") == ""


@pytest.mark.slow
def test_the_engine_hangs_and_the_deadline_holds_all_the_same(own: Engine, folder: Path, who: str) -> None:
    assert own.process is not None
    pid = own.process.pid
    outcome, seconds, mark = run_and(lambda: os.kill(pid, signal.SIGSTOP), own, folder, who, time_sec=2)
    assert settled(mark), "the payload outlived its deadline"
    os.kill(pid, signal.SIGCONT)
    assert outcome.status == "timed_out"
    print(f"ended {seconds - 2:.1f} s after the limit")
    assert seconds < 2 + 10
    assert any("did not remove" in note for note in outcome.notes)
    remove_orphans("ws-faults", "next-boot", url=own.url)
    assert own.docker("ps", "-aq", "--filter", "label=threegate.workspace=ws-faults") == ""


@pytest.mark.slow
def test_the_container_is_removed_by_somebody_else(own: Engine, folder: Path, who: str) -> None:
    def remove() -> None:
        own.docker("rm", "-f", own.docker("ps", "-q", "--filter", "label=threegate.workspace=ws-faults"))

    outcome, _, mark = run_and(remove, own, folder, who)
    # The engine knows how it ended until it has removed it, and the runner asks meanwhile.
    told = {
        137: ("failed", "outputs_not_collected: PID 1 was killed, and /out with it."),
        None: ("interrupted", "The container engine went away while it ran."),
    }
    assert (outcome.status, outcome.detail) == told[outcome.exit_code] and settled(mark)


@pytest.mark.slow
def test_the_container_is_killed_by_somebody_else(own: Engine, folder: Path, who: str) -> None:
    def kill() -> None:
        own.docker("kill", own.docker("ps", "-q", "--filter", "label=threegate.workspace=ws-faults"))

    outcome, _, mark = run_and(kill, own, folder, who)
    assert (outcome.status, outcome.exit_code) == ("failed", 137) and settled(mark)


def test_the_daemon_dies_and_the_keeper_ends_the_run(own: Engine, tmp_path: Path) -> None:
    """kill -9 of the process that watches: PID 1 ends the container at its own deadline."""
    mark = str(100_000 + uuid.uuid4().int % 900_000)
    script = f"""
import sys
from contextlib import suppress
from pathlib import Path
from dataclasses import replace
from tests.engine_fixtures import ENGINE, IMAGE, clearance, control, era_job
from threegate.runners.era.runner import EraRunner
from threegate.core.settings import EraSettings
job = replace(era_job("/usr/bin/sleep", "{mark}", time_sec=3, memory_mb=64), image="{own.image}")
steer = control(Path("{tmp_path}"), workspace_id="ws-faults", boot_nonce="dead-boot")
EraRunner(EraSettings(engine="{own.url}", image="{own.image}")).run(clearance(job), job, steer)
"""
    import sys

    watcher = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2])
    wait_until(lambda: sleepers(mark), "a run", 40)
    watcher.kill()
    watcher.wait()
    wait_until(lambda: not sleepers(mark), "the end of the run", 30)
    removed = remove_orphans("ws-faults", "next-boot", url=own.url, runs_folder=tmp_path.parent)
    assert any("removed container" in line for line in removed)


@pytest.mark.slow
def test_the_image_vanishes(own: Engine, tmp_path: Path) -> None:
    image = own.docker("import", "--change", "LABEL x=y", "-", data=b"\0" * 10240)
    own.docker("rmi", image)
    job = replace(era_job("id"), image=image)
    runner = EraRunner(EraSettings(engine=own.url, image=image, runtime="engine"))
    assert "no image" in str(runner.available())
    outcome = runner.run(clearance(job), job, control(tmp_path))
    assert outcome.status == "unavailable" and not (tmp_path / "run" / "work").exists()


@pytest.mark.slow
def test_the_image_vanishes_in_the_middle(own: Engine, tmp_path: Path) -> None:
    """First by the engine, which refuses while it is in use, then behind its back: the run ends as it would have."""
    kept, own.image = own.image, own.another_image()
    image = own.image
    assert image != kept
    record = own.folder / "data/image/overlay2/imagedb/content/sha256" / image.removeprefix("sha256:")
    refused = []

    def remove() -> None:
        asked = ["docker", "-H", own.url, "rmi", "-f", image]
        refused.append(subprocess.run(asked, capture_output=True, text=True, timeout=60).returncode != 0)
        record.unlink()

    try:
        outcome, seconds, mark = run_and(remove, own, tmp_path, "root", time_sec=3)
    finally:
        own.image = kept
    assert refused == [True]
    assert outcome.status == "timed_out" and outcome.image == image and settled(mark)
    assert seconds < 3 + 10
    assert not (tmp_path / "run" / "work").exists()
    assert own.docker("ps", "-aq", "--filter", "label=threegate.workspace=ws-faults") == ""
    own.stop()
    own.start()
    job = replace(era_job("id"), image=image)
    (tmp_path / "next").mkdir()
    outcome = EraRunner(EraSettings(engine=own.url, image=image)).run(clearance(job), job, control(tmp_path / "next"))
    assert outcome.status == "unavailable" and "no image" in outcome.detail


@pytest.mark.parametrize("answer", few([b"", b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", b"\xff" * 2000], 1))
@pytest.mark.slow
def test_an_engine_that_talks_nonsense(answer: bytes, tmp_path: Path) -> None:
    class Nonsense(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    folder = Path(f"/tmp/tg-{uuid.uuid4().hex[:8]}")
    folder.mkdir()
    with socketserver.ThreadingUnixStreamServer(str(folder / "s"), Nonsense) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        job = era_job("id")
        runner = EraRunner(EraSettings(engine=f"unix://{folder}/s", image=job.image, runtime="engine"))
        assert "does not answer" in str(runner.available())
        assert runner.run(clearance(job), job, control(tmp_path)).status == "unavailable"
        server.shutdown()
    shutil.rmtree(folder)
