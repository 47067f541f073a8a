"""A person takes some files of an agent's change and leaves others, or asks for changes: what the agent's call gets."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.agents.agent_runs import make_run
from tests.plugins.changes.applying import own
from tests.plugins.changes.trees_on_disk import build
from tests.support import Done, Place, make_place
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.door import Door
from threegate.plugins.agents.door_answers import DoorAnswer
from threegate.plugins.agents.runs import RunFacts
from threegate.plugins.agents.work_copy import WorkCopy
from threegate.runners.jail.jail import Account

BEFORE = {"a.txt": "1\n", "b.txt": "1\n", "c.txt": "1\n"}


async def _nobody(waited: float, seconds: float, what: str) -> None:
    """Who is told of progress."""


class Working:
    """A run with a work copy, and its door; a person beside it."""

    def __init__(self, folder: Path) -> None:
        self.project = own(build(folder / "project", BEFORE))
        self.place: Place = make_place(folder, settings={"project.root": str(self.project)})
        self.run: AgentRun = make_run(self.place)
        (self.run.work / "tree").rmdir()
        WorkCopy.make(self.run, self.project, account=Account.own(), kind="plain")
        facts = RunFacts(
            profile="codex", started_utc="", root=str(self.project), uid=os.geteuid(), gid=os.getegid(),
            project="default",
        )  # fmt: skip
        facts.write(self.run)
        self.tree = self.run.work / "tree"

    def call(self, name: str, **arguments: Any) -> DoorAnswer:
        door = Door(Workspace(self.place.root), self.run, 0)
        answer = asyncio.run(door.call(name, {"wait_sec": 0, **arguments} if name != "requests" else {}, _nobody))
        if answer.completes is not None:
            door.delivered(answer.completes)
        return answer

    def propose(self, **more: Any) -> dict[str, Any]:
        return self.call("propose_changes", purpose="Say two.", **more).value

    def edit(self, text: str, *names: str) -> None:
        for name in names:
            (self.tree / name).write_text(text)

    def drafts(self) -> list[Path]:
        return sorted(self.run.inbox.glob("TR-*.md"))

    def take(self, *words: str, expect: int = 0) -> Done:
        return self.place.run("project", "take", str(self.drafts()[0]), *words, expect=expect)


@pytest.fixture
def working(tmp_path: Path) -> Working:
    return Working(tmp_path)


def test_the_call_of_which_a_part_was_taken_says_so_and_the_copy_keeps_the_rest(working: Working) -> None:
    working.edit("2\n", "a.txt", "b.txt", "é.txt")
    asked = working.propose()
    assert asked["status"] == "pending"
    said = working.take("a.txt").out
    assert "1 of 3 paths" in said and "left out: b.txt" in said and "left out: é.txt" in said
    working.place.once()
    waits = working.call("wait", request_id=asked["request_id"]).value
    assert waits["status"] == "pending" and waits["request_id"] == asked["request_id"]
    assert waits["waits_for"].startswith("a person took 1 of 3 paths: ")
    (line,) = working.call("requests").value["requests"]
    assert (line["request_id"], line["state"]) == (asked["request_id"], "draft")
    assert working.propose()["request_id"] == asked["request_id"], "the same call finds it again"
    [part] = working.drafts()
    shown = working.place.approve(part).out
    assert "1 of 3 paths; the request's words, below, describe all 3" in shown and "codex, run ar-" in shown
    assert f"derived from| {asked['request_id']}" in shown and "| é.txt" in shown
    working.place.once()
    answer = working.call("wait", request_id=asked["request_id"])
    value = answer.value
    assert not answer.refused and value["status"] == "applied_in_part" and value["request_id"] == asked["request_id"]
    assert value["left_out"] == ["b.txt", "é.txt"] and value["left_out_unnamed"] == 0
    assert value["taken"].startswith("1 of 3 paths, as ") and "keeps what was left out" in value["next"]
    assert (working.project / "a.txt").read_text() == "2\n" and (working.project / "b.txt").read_text() == "1\n"
    working.edit("3\n", "c.txt")
    assert working.propose()["status"] == "pending"
    [later] = working.drafts()
    text = later.read_text()
    assert "b.txt" in text and "c.txt" in text and "a.txt" not in text and "derived_from" not in text
    working.place.run("audit", "verify", expect=0)


@pytest.mark.slow
def test_a_part_of_a_part_is_a_part_of_the_whole(working: Working) -> None:
    working.edit("2\n", "a.txt", "b.txt", "c.txt")
    asked = working.propose()
    working.take("--without", "c.txt")
    working.take("a.txt")
    [part] = working.drafts()
    shown = working.place.approve(part).out
    assert "1 of 3 paths; the request's words" in shown and f"derived from| {asked['request_id']}" in shown
    assert all(f"| {name}" in shown for name in ("b.txt", "c.txt"))
    working.place.once()
    value = working.call("wait", request_id=asked["request_id"]).value
    assert value["status"] == "applied_in_part" and value["left_out"] == ["c.txt", "b.txt"]
    assert (working.project / "a.txt").read_text() == "2\n" and (working.project / "c.txt").read_text() == "1\n"


@pytest.mark.slow
def test_a_part_that_is_rejected_or_withdrawn_ends_the_call(working: Working) -> None:
    working.edit("2\n", "a.txt", "b.txt")
    asked = working.propose()
    working.take("a.txt")
    working.place.once()
    working.place.run("reject", str(working.drafts()[0]), "--reason", "neither", expect=0)
    value = working.call("wait", request_id=asked["request_id"]).value
    assert (value["status"], value["why"]) == ("refused", "rejected: neither") and value["left_out"] == ["b.txt"]
    assert working.propose() == value, "a no stands until it is asked for again"
    again = working.propose(again=True)
    assert again["status"] == "pending" and again["request_id"] != asked["request_id"]
    working.take("b.txt")
    working.place.once()
    assert len(working.drafts()) == 1
    door = Door(Workspace(working.place.root), working.run, 0)
    withdrawn = asyncio.run(door.call("cancel", {"request_id": again["request_id"]}, _nobody))
    assert withdrawn.value["status"] == "withdrawn" and working.drafts() == []


def test_changes_that_are_asked_for_reach_the_call(working: Working) -> None:
    working.edit("2\n", "a.txt")
    asked = working.propose()
    draft = working.drafts()[0]
    working.place.run(
        "request-changes", str(draft), "--at", "a.txt:1", "--words", "Say three, please.",
        "--as", "operator", "--key", str(working.place.key), expect=0,
    )  # fmt: skip
    answer = working.call("wait", request_id=asked["request_id"])
    assert answer.refused and answer.value["status"] == "changes_requested"
    assert "unsigned, from operator" in answer.value["words"]
    assert "at a.txt, line 1:\nSay three, please.\n" in answer.value["words"]
    (path,) = working.run.verdicts.glob("words-*.md")
    assert answer.value["words_in"] == f"verdicts/{path.name}" and path.read_text() == answer.value["words"]
    assert not list((working.place.root / "tool-exec" / "verdicts").glob("words-*")), "to this run alone"
    (event,) = working.place.events("rejected")
    assert event["data"]["reason"] == "changes_requested" and event["actor"] == "operator:operator"
    assert working.propose()["status"] == "changes_requested", "unchanged, it is not asked for again"
    working.edit("3\n", "a.txt")
    assert working.propose()["status"] == "pending"
    path.chmod(0o644)
    path.write_text("forged")
    gone = working.call("wait", request_id=asked["request_id"]).value
    assert gone["status"] == "changes_requested" and "words" not in gone
