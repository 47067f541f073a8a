"""ERA with a rootless Docker: an engine of an ordinary user, in that user's own namespaces.

It runs where RootlessKit is installed (apt-get install rootlesskit uidmap) and is skipped elsewhere: no other test
needs that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.conftest import WANTING
from tests.engine_fixtures import IMAGE, control, docker, era_job, run_job
from tests.ordinary_user import UID, as_user, command, home
from tests.support import wait_until
from threegate.core.settings import EraSettings
from threegate.runners.era import container_engine
from threegate.runners.era.runner import EraRunner
from threegate.runners.era.walls import RUN_USER
from threegate.runners.interface import Outcome
from threegate.setup.settings_file import set_values

_MISSING = [name for name in ("rootlesskit", "newuidmap", "dockerd", "unshare", "setpriv") if not shutil.which(name)]
pytestmark = [
    pytest.mark.engine,
    pytest.mark.soak,
    pytest.mark.root,
    pytest.mark.skipif(bool(_MISSING), reason=f"{WANTING}rootless Docker: {', '.join(_MISSING)}"),
]

BECOME = """
for name in passwd group subuid subgid; do mount --bind "$1/etc/$name" /etc/$name; done
exec setpriv --reuid=$2 --regid=$2 --clear-groups env -i PATH="$PATH" HOME="$1" XDG_RUNTIME_DIR="$1/run" \
    rootlesskit --state-dir="$1/run/kit" --net=host --copy-up=/etc --copy-up=/run sh -c '
        rm -f /run/docker /run/containerd
        exec dockerd -H unix://$0/docker.sock --rootless --bridge=none --iptables=false --data-root $0/data \
            --exec-root $0/exec --pidfile $0/docker.pid --log-level warn' "$1/run"
"""
"""The user and the ranges of ids are entered for the processes of this test alone."""


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[str, Path]]:
    """The URL of an engine of the user's, with our image in it, and the user's folder."""
    with home() as folder:
        for name in ("etc", "run"):
            (folder / name).mkdir(mode=0o700)
            os.chown(folder / name, UID, UID)
        entry = {
            "passwd": f"rootless:x:{UID}:{UID}::{folder}:/bin/sh\n",
            "group": f"rootless:x:{UID}:\n",
            "subuid": "rootless:1000000:65536\n",
            "subgid": "rootless:1000000:65536\n",
        }
        for name, line in entry.items():
            place = Path("/etc", name)
            (folder / "etc" / name).write_text((place.read_text() if place.exists() else "") + line)
            place.touch()
        folder.joinpath("etc").chmod(0o755)
        url = f"unix://{folder}/run/docker.sock"
        with (folder / "log").open("wb") as log:
            words = ["unshare", "--mount", "sh", "-ec", BECOME, "sh", str(folder), str(UID)]
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            asks = ["docker", "-H", url, "version"]
            wait_until(
                lambda: process.poll() is not None or not subprocess.run(asks, capture_output=True).returncode,
                lambda: (folder / "log").read_text(errors="replace")[-2000:],
                30,
            )
            archive = folder / "image.tar"
            docker("save", "-o", str(archive), IMAGE)
            subprocess.run(["docker", "-H", url, "load", "-i", str(archive)], check=True, capture_output=True)
            archive.unlink()
            yield url, folder
        finally:
            process.terminate()
            process.wait(30)


def asked(url: str) -> str | None:
    """What the runner says before it is given anything."""
    return EraRunner(EraSettings(engine=url, image=IMAGE, runtime="engine")).available()


def run_unasked(url: str, folder: Path, require: bool) -> Outcome:
    """One run on an engine that is not asked for its limits first, as on one that says that it has them."""
    settings = EraSettings(engine=url, image=IMAGE, require_readback=require)
    code = "open('/out/ran', 'w')"
    with patch.object(container_engine, "NEEDED_LIMITS", {}):
        return run_job(EraRunner(settings), era_job("/usr/bin/python3", "-c", code), folder, steer=control(folder))


def has_limits(url: str) -> bool:
    """Whether the engine's user has controllers of cgroup v2."""
    words = ["docker", "-H", url, "info", "--format", "{{json .}}"]
    said = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return all(said[name] for name in container_engine.NEEDED_LIMITS)


def test_an_engine_without_limits_is_not_used(engine: tuple[str, Path]) -> None:
    url, folder = engine
    if has_limits(url):
        assert as_user(asked, url, engine=url) is None
        return
    line = as_user(asked, url, engine=url)
    assert line is not None
    assert line.startswith("the engine limits no memory, processes, cores: a rootless engine needs cgroup v2")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
    done = command(folder, "init", "ws", "--key", f"{folder}/key.pub", "--operator", "rootless")
    assert done.code == 0, done.err
    set_values(folder / "ws" / "threegate.toml", {"runners.era.engine": url, "runners.era.image": IMAGE})
    told = command(folder / "ws", "doctor").out
    assert "the engine is your own (rootless): whoever may access it has your permissions, not root's" in told
    last = told.splitlines()[-1]
    assert "works for you now" in last and "not ERA (the engine limits no memory, processes, cores" in last


@pytest.mark.parametrize("require", [False, True])
def test_every_other_wall_is_read_back_and_a_limit_that_is_none_refuses_the_run(
    engine: tuple[str, Path], require: bool
) -> None:
    url, folder = engine
    outcome = as_user(run_unasked, url, folder / f"run-{require}", require, engine=url)
    if has_limits(url):
        assert outcome.status == "succeeded", outcome
        return
    assert (outcome.status, len(outcome.artifacts)) == ("failed", 0), outcome
    assert outcome.detail == (
        "limits_not_enforced: memory is None, not 67108864; swap is not enforced, not none; processes is not enforced, "
        "not 128; cpu is None, not 1."
    )
    seen = outcome.effective_limits
    assert {seen[name] for name in ("memory", "swap", "processes", "cpu")} == {"not enforced"}
    assert (seen["uid"], seen["capabilities"], seen["no_new_privs"]) == (str(RUN_USER), "none", "1")
    assert (seen["seccomp"], seen["network"], seen["root"]) == ("filter", "lo", "read-only")
    assert seen["namespaces"].startswith("own: ") and "not read back" not in seen.values()
