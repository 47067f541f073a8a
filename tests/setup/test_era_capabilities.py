"""The unit with ERA leaves what the container runner needs: a real run under exactly its capabilities."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import THREEGATE, era_draft, make_place, monty_draft, request_id
from threegate.setup.service_unit import UnitFacts, render_unit


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.root
def test_both_runners_work_with_the_capabilities_of_the_unit(tmp_path: Path) -> None:
    unit = render_unit(UnitFacts("0", tmp_path, ("/x",), "root", tmp_path, era=True, network=False))
    lines = re.findall(r"^CapabilityBoundingSet=(.+)$", unit, re.M)
    kept = [name.removeprefix("CAP_").lower() for line in lines for name in line.split()]
    assert "sys_admin" in kept and "sys_module" not in kept
    bounds = ",".join(["-all", *(f"+{name}" for name in kept)])
    place = make_place(
        tmp_path,
        settings={
            "runners.era.engine": os.environ["THREEGATE_TEST_ENGINE"],
            "runners.era.image": os.environ["THREEGATE_TEST_IMAGE"],
        },
    )
    contained, embedded = request_id("contained"), request_id("embedded")
    place.approve(place.drop(era_draft(contained, "id -u", outputs=())))
    place.approve(place.drop(monty_draft(embedded, "1 + 1")))
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    words = [
        setpriv,
        "--bounding-set",
        bounds,
        "--inh-caps=-all",
        "--no-new-privs",
        *THREEGATE,
        "run",
        "--once",
    ]
    done = subprocess.run(words, cwd=place.root, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    for rid in (contained, embedded):
        text = place.result(rid)
        assert "status: succeeded" in text, text
        assert "not_enforced:" not in text, "nothing was missing that a worker or a container is started with"
    # What prlimit sets on another user's process needs CAP_SYS_RESOURCE, which a container that tests run in may lack.
    for wall in ('network_namespace: "own"', 'ipc_namespace: "own"', 'capabilities: "none"'):
        assert wall in place.result(embedded)
