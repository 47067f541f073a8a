"""Engines and runtimes that cannot make our walls are refused in one line: Podman's socket, runtimes that are not
there.
"""

from __future__ import annotations

import json
import shutil
import socketserver
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine_fixtures import era_job, era_settings, run_job
from tests.support import wait_until
from threegate.core.errors import Unavailable
from threegate.core.settings import EraSettings
from threegate.runners.era import container_engine
from threegate.runners.era.runner import EraRunner

IMAGE = "sha256:" + "1" * 64
DOCKER = {
    "Version": "20.10.24",
    "ApiVersion": "1.41",
    "Components": [{"Name": "Engine", "Version": "20.10.24"}],
}
PODMAN = {
    "Version": "4.3.1",
    "ApiVersion": "1.41",
    "Components": [{"Name": "Podman Engine", "Version": "4.3.1"}, {"Name": "Conmon", "Version": "2.1.6"}],
}


@contextmanager
def answering(
    version: object,
    runtimes: object = None,
    *,
    image: str = IMAGE,
    labels: object = None,
    limits: dict[str, bool] | None = None,
) -> Iterator[str]:
    """A socket that knows its version, one image and its runtimes, as an engine tells them."""
    answers = {
        "/version": version,
        "/images/": {"Id": image, "Config": {"Labels": labels}},
        "/info": {
            "DefaultRuntime": "runc",
            "Runtimes": runtimes or {"runc": {"path": "runc"}},
            **(limits or {}),
        },
    }

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline():
                while self.rfile.readline().strip():
                    pass
                path = line.split()[1].decode()
                body = json.dumps(next((value for key, value in answers.items() if key in path), {})).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                self.wfile.write(head.encode() + body)
                if line.endswith(b"/1.0\r\n"):
                    return

    with (
        tempfile.TemporaryDirectory() as folder,
        socketserver.ThreadingUnixStreamServer(f"{folder}/s", Handler) as server,
    ):
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"unix://{folder}/s"
        server.shutdown()


@pytest.mark.root
def test_podman_is_refused_by_what_it_says_of_itself(tmp_path: Path) -> None:
    with answering(PODMAN) as url:
        runner = EraRunner(EraSettings(engine=url, image=IMAGE, runtime="engine"))
        line = runner.available()
        assert line is not None and "is Podman 4.3.1" in line and "runners.era.engine" in line and "\n" not in line
        outcome = run_job(runner, era_job("id"), tmp_path)
        assert outcome.status == "unavailable" and "Podman 4.3.1" in outcome.detail


@pytest.mark.root
@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"MemoryLimit": False, "PidsLimit": False, "CpuCfsQuota": False}, "memory, processes, cores"),
        ({"MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": False}, "cores"),
        ({"MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": True}, ""),
    ],
)
def test_an_engine_that_can_set_no_limit_is_not_used(limits: dict[str, bool], what: str, tmp_path: Path) -> None:
    """As a rootless engine without delegated cgroups, which would start the container all the same."""
    with answering(DOCKER, limits=limits) as url:
        runner = EraRunner(EraSettings(engine=url, image=IMAGE, runtime="engine"))
        line = runner.available()
        if not what:
            assert line is None
            return
        assert line is not None and line.startswith(f"the engine limits no {what}: ") and "\n" not in line
        assert run_job(runner, era_job("id"), tmp_path).status == "unavailable"


@pytest.mark.parametrize("version", [DOCKER, {**DOCKER, "Components": None}, {"Version": "1", "ApiVersion": "1.41"}])
def test_an_engine_that_is_none_of_them_is_asked_on(version: dict[str, object]) -> None:
    with answering(version) as url, container_engine.client(url) as api:
        assert container_engine.check_runtime(api, "") == "runc"


@pytest.mark.root
@pytest.mark.parametrize("runtime", ["kata", "krun"])
@pytest.mark.parametrize("listed", [False, True], ids=["not listed", "listed and not there"])
def test_a_microvm_runtime_that_is_not_there_is_refused(runtime: str, listed: bool, tmp_path: Path) -> None:
    """Also where the engine lists a name whose program does not lie there, as Podman does."""
    runtimes = {"runc": {"path": "runc"}, **({runtime: {"path": f"{tmp_path}/{runtime}"}} if listed else {})}
    with answering(DOCKER, runtimes) as url:
        settings = EraSettings(engine=url, image=IMAGE, runtime=runtime)
        line = str(EraRunner(settings).available())
        assert line.startswith(f"the engine has no runtime '{runtime}' (it has runc)") and "\n" not in line
        (tmp_path / runtime).touch()
        line = str(EraRunner(settings).available())
        assert line.startswith(f"the engine has no runtime '{runtime}'") is not listed


@pytest.mark.engine
@pytest.mark.root
@pytest.mark.parametrize("runtime", ["kata", "krun"])
def test_the_test_engine_has_no_microvm_and_says_so(runtime: str, tmp_path: Path) -> None:
    runner = EraRunner(era_settings(runtime=runtime))
    assert f"no runtime '{runtime}'" in str(runner.available())
    outcome = run_job(runner, era_job("id", runtime=runtime), tmp_path)
    assert outcome.status == "unavailable" and f"no runtime '{runtime}'" in outcome.detail


@pytest.fixture
def podman() -> Iterator[str]:
    """Podman's own service on a socket, with everything of its in a folder that goes away."""
    program = shutil.which("podman")
    if program is None:
        pytest.skip("podman is not installed (apt-get install podman); its refusal is tested above")
    folder = Path(f"/var/tmp/tg-podman-{uuid.uuid4().hex[:8]}")
    folder.mkdir()
    words = [program, "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]
    process = subprocess.Popen(
        [*words, "--cgroup-manager", "cgroupfs", "system", "service", "-t", "0", f"unix://{folder}/s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: (folder / "s").exists() or process.poll() is not None, "podman's socket", 30)
    yield f"unix://{folder}/s"
    process.terminate()
    process.wait(20)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.root
def test_the_real_podman_is_refused(podman: str) -> None:
    if not Path(podman.removeprefix("unix://")).exists():
        pytest.skip("podman's service does not start here")
    with pytest.raises(Unavailable, match=r"is Podman \d+\.\d+"):
        container_engine.connect(podman)
