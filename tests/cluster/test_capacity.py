"""What no machine has is said before anybody waits for it; what nobody knows is not said."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import make_bench
from tests.approval.material import make_request
from tests.support import Place, make_place, monty_draft, request_id
from threegate.cluster.capacity import never_fits
from threegate.core.settings import ClusterSettings, RunnersSettings
from threegate.core.workspace import Workspace
from threegate.request.action import Command
from threegate.request.model import Request

ERA: dict[str, Any] = {"backend": "ERA", "action": Command(("true",))}
CLUSTER = RunnersSettings(cluster=ClusterSettings(broker="amqps://broker", workers=("one+0+a", "two+0+b")))


def era(cpus: str, memory_mb: int = 64) -> Request:
    return replace(make_request(), **ERA, cpu_limit=Decimal(cpus), memory_limit_mb=memory_mb)


def test_the_budget_of_this_machine_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert never_fits(workspace, RunnersSettings(), era("2")) is None
    assert never_fits(workspace, RunnersSettings(), era("2.5")) == (
        "it could never run here: it needs 2.5 cores, and all runs together have 2 (cpu_budget)"
    )
    assert never_fits(workspace, RunnersSettings(cpu_budget=1), era("2")) is not None
    assert never_fits(workspace, RunnersSettings(cpu_budget=4), era("2.5")) is None
    assert "MiB" in str(never_fits(workspace, RunnersSettings(memory_budget_mb=256), era("1", 512)))
    several = replace(make_request(), cpu_limit=Decimal("4"))
    assert never_fits(workspace, RunnersSettings(cpu_budget=1), several) is None, "Monty uses one core"


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        ([("1", 900), ("4", 900)], None),
        ([("1", 900), ("2", 900)], ("needs 3 cores and 96 MiB on one worker, but the workers have 1 cores and 900 MiB, 2 cores and 900 "  # noqa: E501
        "MiB")),
        ([("4", 90), ("2", 900)], ("needs 3 cores and 96 MiB on one worker, but the workers have 4 cores and 90 MiB, 2 cores and 900 "  # noqa: E501
        "MiB")),
        ([("1", 900), ("0", 0)], None),
        ([], None),
        (None, None),
    ],
)  # fmt: skip
def test_in_a_cluster_the_largest_worker_counts_once_all_were_heard_of(
    tmp_path: Path, workers: list[tuple[str, int]] | None, says: str | None
) -> None:
    bench = make_bench(tmp_path)
    rows = None if workers is None else [{"cores": cores, "memory_mb": memory} for cores, memory in workers]
    bench.workspace.workers_file.write_text(json.dumps(rows))
    assert never_fits(bench.workspace, CLUSTER, era("3")) == (says and f"it could never run here: it {says}")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, settings={"runners.memory_budget_mb": 100})


def test_it_is_said_at_validate_in_the_verdict_on_the_card_and_at_approve(place: Place) -> None:
    draft = place.drop(monty_draft(request_id("large"), "1 + 1", memory_mb=512))
    line = "needs 544 MiB, and all runs together have 100 (memory_budget_mb)"
    told = place.run("validate", str(draft), expect=2).out
    assert "TG905" in told and line in " ".join(told.split())
    refused = place.run("approve", str(draft), "--as", "operator", "--key", str(place.key), "--yes", expect=2)
    assert line in refused.err and "it could never run here" in refused.out, "on the card too"
    place.once()
    at = 1 + draft.read_text().splitlines().index("memory_limit_mb: 512")
    assert [(found["rule"], found["line"]) for found in place.verdict(draft.name)["findings"]] == [("TG905", at)]
    assert f"{at}:1" in told


def test_a_draft_that_could_never_run_is_not_written(place: Place) -> None:
    inbox = place.root / "inbox"
    code = place.root / "code.py"
    code.write_text("1 + 1\n")
    words = ("--backend", "monty", "--code", str(code), "--purpose", "Add.")
    told = place.run("draft", *words, "--memory", "512", expect=2)
    assert told.err.rstrip().endswith(
        "it would be refused: TG905: it could never run here: it needs 544 MiB, and all runs together have 100 "
        "(memory_budget_mb); ask for less with --cpu or --memory"
    )
    assert not list(inbox.glob("*.md"))
    place.run("draft", *words, "--memory", "64")
    assert len(list(inbox.glob("*.md"))) == 1
