"""cancel of a running container, through a real daemon: what the operator is told is true on the host."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import docker
import docker.errors
import pytest

from tests.conftest import engine_host
from tests.support import Place, era_draft, request_id, wait_until
from threegate.runners.era.container_engine import REQUEST_LABEL

pytestmark = pytest.mark.engine


def test_a_cancelled_container_is_gone(era_place: Place) -> None:
    rid = request_id("endless")
    sha = era_place.input("s.py", b"import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)\n")
    draft = era_place.drop(era_draft(rid, "python3 /in/s.py", inputs={"s.py": sha}, time_sec=900))
    era_place.approve(draft)
    api = docker.APIClient(base_url=engine_host(), version="auto")
    daemon = era_place.daemon()
    try:
        process = _running(api, rid)
        told = era_place.run("--json", "cancel", rid, "--wait", "60", "--reason", "enough", expect=0).json()
        assert told["outcome"] == "cancelled"
        assert not process.exists(), "the word came after the process was gone"
        assert _containers(api, rid) == []
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
        api.close()
    asked, ended = (_when(era_place, kind, rid) for kind in ("cancel_requested", "cancelled"))
    print(f"from the wish to the word: {(ended - asked).total_seconds():.3f} s")
    assert "status: cancelled" in era_place.result(rid)
    era_place.run("audit", "verify", expect=0)


def _containers(api: docker.APIClient, rid: str) -> list[str]:
    found = api.containers(all=True, filters={"label": f"{REQUEST_LABEL}={rid}"})
    return [item["Id"] for item in found]


def _running(api: docker.APIClient, rid: str) -> Path:
    """The process of the command in the container, once it has begun."""

    def begun() -> list[Path]:
        lines = [line for container in _containers(api, rid) for line in _processes(api, container)]
        return [Path("/proc") / line[1] for line in lines if "/in/s.py" in " ".join(line)]

    return wait_until(begun, "the command's process")[0]


def _processes(api: docker.APIClient, container: str) -> list[list[str]]:
    """What runs in a container; nothing in one that is not up yet, or that went since it was listed."""
    try:
        if not api.inspect_container(container)["State"]["Running"]:
            return []
        return list(api.top(container)["Processes"] or [])
    except docker.errors.NotFound:
        return []
    except docker.errors.APIError as error:
        if error.status_code == 409:  # it stopped in between
            return []
        raise


def _when(place: Place, kind: str, rid: str) -> datetime:
    (event,) = [event for event in place.events(kind) if event["request_id"] == rid]
    return datetime.fromisoformat(event["time"])
