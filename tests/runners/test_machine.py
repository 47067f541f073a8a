"""What this machine will never have is said before anybody waits for it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.approval.material import make_request
from tests.support import Place, make_place, monty_draft, request_id
from threegate.core.settings import RunnersSettings, Settings
from threegate.core.workspace import Workspace
from threegate.request.action import Command
from threegate.request.model import Request
from threegate.runners.machine import never_fits

ERA: dict[str, Any] = {"backend": "ERA", "action": Command(("true",))}


def era(cpus: str, memory_mb: int = 64) -> Request:
    return replace(make_request(), **ERA, cpu_limit=Decimal(cpus), memory_limit_mb=memory_mb)


def runners(**values: float) -> Settings:
    return Settings(runners=RunnersSettings(**values))


def test_the_budget_of_this_machine_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert never_fits(workspace, runners(), era("2")) is None
    assert never_fits(workspace, runners(), era("2.5")) == (
        "it could never run here: it needs 2.5 cores, and all runs together have 2 (cpu_budget)"
    )
    assert never_fits(workspace, runners(cpu_budget=1), era("2")) is not None
    assert never_fits(workspace, runners(cpu_budget=4), era("2.5")) is None
    assert "MiB" in str(never_fits(workspace, runners(memory_budget_mb=256), era("1", 512)))
    several = replace(make_request(), cpu_limit=Decimal("4"))
    assert never_fits(workspace, runners(cpu_budget=1), several) is None, "Monty uses one core"


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
