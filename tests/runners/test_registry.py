"""The table of backends: a backend is its folder and one line, and everything above takes it from there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.engine_fixtures import monty_job
from tests.runners import toy_backend
from threegate.core.settings import Settings
from threegate.core.toml_table import read_table
from threegate.daemon.log import Log
from threegate.daemon.recovery import recover
from threegate.launch.approved_file import Approved, read_approved
from threegate.launch.context import Context, daemon_context
from threegate.launch.pipeline import launch
from threegate.request.backend import BACKENDS, DEFAULT_BACKEND
from threegate.runners import backend as backends
from threegate.runners.interface import Control
from threegate.runners.machine import Budget, need_of
from threegate.setup.doctor import examine
from threegate.trail.payloads import Started
from threegate.trail.trail import Trail

HEAVY = ("docker", "pydantic_monty", "celery", "urllib3", "requests")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """What a new backend adds: one line of the table."""
    monkeypatch.setitem(BACKENDS.loaded, "toy", toy_backend.BACKEND)
    return "toy"


def test_each_backend_is_what_its_name_in_the_table_says() -> None:
    """Those of plugins follow: tests/whole/test_backends.py."""
    assert list(BACKENDS)[:2] == ["ERA", "monty"] and DEFAULT_BACKEND in BACKENDS and "toy" not in BACKENDS
    for name, backend in BACKENDS.items():
        assert (backend.name, backend.sections[-1]) == (name, "Risk Assessment")


def test_the_table_and_every_description_load_nothing_heavy() -> None:
    program = (
        "import sys, threegate.runners.backend as r; before = set(sys.modules);"
        "assert not [n for n in before if n.startswith(('threegate.runners.monty', 'threegate.runners.era'))];"
        f"heavy = lambda: {{n.split('.')[0] for n in sys.modules}} & {{*{HEAVY!r}}};"
        "r.backends(); print(heavy()); r.policy_facts(); print(heavy())"  # Monty's version is asked of itself
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("set()\n{'pydantic_monty'}\n", "")


def test_a_fact_never_hides_another_from_the_policy(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert backends.policy_facts()["toy"] == "1.0"
    monkeypatch.setattr(toy_backend.Toy, "policy_facts", lambda self: {"monty": "0"})
    with pytest.raises(TypeError, match="monty"):
        backends.policy_facts()


def test_doctor_lists_a_new_backend(toy: str) -> None:
    lines = [line for line in examine(None, probes=False) if line.name == "toy"]
    assert [(line.state, line.seen) for line in lines] == [("ok", "without probes")]


@pytest.fixture
def daemon(toy: str, tmp_path: Path) -> Iterator[tuple[Bench, Context]]:
    bench = make_bench(tmp_path)
    trail = Trail(bench.workspace)
    context = daemon_context(bench.workspace, trail, bench.context.policy, boot_nonce="0" * 16)
    yield bench, context
    context.close()
    trail.close()


def test_a_request_for_a_new_backend_is_approved_launched_and_recorded(daemon: tuple[Bench, Context]) -> None:
    bench, context = daemon
    draft = bench.draft("req-toy", slug="toy", code="print('hello')", data=None)
    draft.write_text(draft.read_text().replace("backend: monty", "backend: toy"))
    path = bench.approve(draft).path
    approved = read_approved(context, path)
    assert isinstance(approved, Approved) and approved.job.backend == "toy"
    control = Control(context.workspace.run_folder("req-toy"), context.workspace.inputs, context.workspace_id, "0" * 16)
    ended = launch(context, approved, control)
    assert (ended.event, ended.code) == ("finished", "succeeded")
    text = ended.result.read_text()
    assert "PRINT('HELLO')" in text and 'backend: "toy"' in text


def test_recovery_removes_the_orphans_of_backends_that_ran(daemon: tuple[Bench, Context]) -> None:
    """Nothing of a backend is entered, and nothing of it can be left, before its first run."""
    bench, context = daemon
    said: list[tuple[str, str]] = []

    class Lines(Log):
        def say(self, event: str, **facts: str | int | None) -> None:
            said.append((event, str(facts["what"])))

    recover(context, Lines(), ())
    assert said == []
    with context.trail.locked() as held:
        held.append(Started.from_data({"backend": "toy"}), request_id="req-0", actor="daemon")
    recover(context, Lines(), ())
    assert said == [("orphan", f"removed a toy of {context.workspace_id} in runs")]


def test_a_daemon_gives_every_runner_its_secrets(daemon: tuple[Bench, Context]) -> None:
    bench, context = daemon
    runner = context.runners["toy"]
    assert runner.made_with == ({}, False)
    context.close()
    assert runner.closed
    again = backends.make_runner("toy", Settings(), once=True)
    assert again.made_with == ({}, True)


def test_its_rows_and_costs_are_in_the_budget(toy: str) -> None:
    settings = read_table(Settings, {"runners": {"memory_budget_mb": 4000, "cpu_budget": 64}})
    job = replace(monty_job("1"), backend="toy")
    assert need_of(job).memory_mb == job.limits.memory_mb + 5
    assert need_of(replace(job, limits=replace(job.limits, cpu="4"))).cpus == Decimal(4)
    budget = Budget.of(settings.runners)
    leases = [budget.try_take(job) for _ in range(4)]
    assert [lease is not None for lease in leases] == [True, True, True, False]
