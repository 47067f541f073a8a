"""Escapes from ERA without an engine: every attempt meets its wall in bubblewrap, as root and as an ordinary user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.adversarial.escapes.era_attempts import ATTEMPTS, BUBBLEWRAP_DIFFERS, NOT_IN_BUBBLEWRAP
from tests.adversarial.escapes.era_tries import Tried, attempt_all, the_host_is_as_it_was, what_came_out_is_plain
from tests.runners.jailed import WHO, folder_of, jailed_python, run_as, run_one
from threegate.request.job import BUBBLEWRAP

PID_1 = r"""
import json, os
def facts(pid):
    lines = dict(line.rstrip("\n").split(":\t", 1) for line in open(f"/proc/{pid}/status") if ":\t" in line)
    names = "Uid Gid Groups NoNewPrivs Seccomp Seccomp_filters CapInh CapPrm CapEff CapBnd CapAmb".split()
    return {name: lines[name].strip() for name in names}
mounts = [line.split() for line in open("/proc/self/mountinfo")]
print(json.dumps({
    "run": facts("self"),
    "first": facts(1),
    "namespaces": [
        os.readlink(f"/proc/{pid}/ns/{kind}")
        for kind in "net mnt pid ipc user uts cgroup".split()
        for pid in (1, "self")
    ],
    "same files": [os.path.samefile("/proc/1/cwd", "/"), os.path.samefile("/proc/1/root", "/")],
    "descriptors": sorted(os.readlink(f"/proc/1/fd/{name}").split(":")[0] for name in os.listdir("/proc/1/fd")),
    "environment": open("/proc/1/environ").read(),
    "words": open("/proc/1/cmdline").read().split("\0"),
    "set-user-id": [mount[4] for mount in mounts if "nosuid" not in mount[5].split(",")],
}))
"""


@pytest.fixture(scope="module", params=WHO)
def tried(request: pytest.FixtureRequest) -> Iterator[Tried]:
    with folder_of(request.param) as folder:
        yield run_as(request.param, attempt_all, folder, BUBBLEWRAP)


@pytest.mark.parametrize("name", [name for name in ATTEMPTS if name not in NOT_IN_BUBBLEWRAP])
def test_in_bubblewrap(name: str, tried: Tried) -> None:
    assert tried.answers, (tried.outcome.detail, tried.outcome.stderr.kept)
    assert re.fullmatch(BUBBLEWRAP_DIFFERS.get(name, ATTEMPTS[name][1]), tried.answers[name])


def test_the_host_is_as_it_was(tried: Tried) -> None:
    the_host_is_as_it_was(tried)


def test_what_came_out_is_plain(tried: Tried) -> None:
    what_came_out_is_plain(tried)


@pytest.mark.parametrize("who", WHO)
def test_the_first_process_has_nothing_that_the_run_has_not(who: str) -> None:
    """Who takes it over has the same account, walls, files and filter, and no descriptor that leads out."""
    outcome = run_one(who, jailed_python(PID_1))
    assert outcome.status == "succeeded", (outcome.detail, outcome.stderr.kept)
    seen = json.loads(outcome.stdout.kept)
    assert seen["first"] == seen["run"] and seen["run"]["Seccomp"] == "2" and seen["run"]["NoNewPrivs"] == "1"
    assert all(set(value) == {"0"} for name, value in seen["run"].items() if name.startswith("Cap"))
    assert seen["namespaces"][::2] == seen["namespaces"][1::2] and seen["same files"] == [True, True]
    assert seen["environment"] == "" and not any("/var/" in word or "/root" in word for word in seen["words"][:3])
    assert seen["set-user-id"] == []
    # The streams, the gate's socket, whose other end is closed, and where bubblewrap gets the exit code from.
    assert seen["descriptors"] == ["anon_inode", "pipe", "pipe", "socket"]
