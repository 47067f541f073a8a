"""What the harness stops: each way through the code that changes a state, and what must have become of it after
recovery. A plugin has scenarios of its own: tests/plugins/NAME/crash_scenarios.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.crash.place import KILLED, CountingRunner, Place, announced, forked, last_words, problems_after
from tests.support import wait_until
from threegate.acts.operator import add_operator
from threegate.audit.audit_verify import verify_workspace
from threegate.audit.prune import prune
from threegate.core.user_state import UserState
from threegate.core.workspace import STATES
from threegate.setup.settings_file import set_values
from threegate.trail.trail import Trail


@dataclass
class Scenario:
    """`prepare` makes the template, `work` is what is stopped, `after` recovers and says what is wrong."""

    prepare: Callable[[Place], None]
    work: Callable[[Place], int]
    after: Callable[[Place], list[str]]
    floor: tuple[int, int]
    """Points and stops of one whole enumeration: what was covered when this was written, less what threads may vary."""
    faults: int = 0
    """At every how many-th operation the disk fails; 0 if it never does. The long form leaves none out."""
    by_inode: bool = False
    """What is recovered knows files by their inodes, so a copy of how it was left is not the same."""


def recovered(place: Place) -> list[str]:
    code = forked(place.daemon)
    return [] if code == 0 else [f"the daemon after the stop ended with {code}: {last_words()}"]


def prepare_pass(place: Place) -> None:
    assert place.approve("runs") == 0
    assert place.approve("changed") == 0
    path = place.workspace.approved / f"{place.ids['changed']}.md"
    path.write_bytes(path.read_bytes() + b"\n")
    place.save()


def after_pass(place: Place) -> list[str]:
    was_claimed = announced(place, "claimed", "runs")
    ran_before = place.runs_of("runs")
    wrong = recovered(place)
    ends = {"finished", "refused"} if was_claimed or ran_before else {"finished"}
    wrong += problems_after(place, {"runs": ends, "changed": {"refused"}, "looked": {"inbox"}})
    if place.runs_of("changed") or place.runs_of("looked"):
        wrong.append("something ran that must not")
    return wrong


def prepare_recovery(place: Place) -> None:
    """A daemon that was killed while the request ran."""
    prepare_pass(place)

    def stop(self: object, clearance: object, job: object, control: object) -> None:
        """Killed in the run, and always at the same place: the other request has come to its end before."""
        changed = place.ids["changed"]
        refused = place.workspace.refused / f"{changed}.md"
        wait_until(refused.exists, "the end of the other request", 20)
        wait_until(lambda: list(place.workspace.results.glob(f"TS-*-{changed}.md")), "its result", 20)
        os._exit(KILLED)

    def stopped_in_the_run() -> int:
        CountingRunner.run = stop
        return place.daemon()

    place.restore()
    assert forked(stopped_in_the_run) == KILLED
    place.save()


def after_recovery(place: Place) -> list[str]:
    wrong = recovered(place)
    wrong += problems_after(place, {"runs": {"refused"}, "changed": {"refused"}, "looked": {"inbox"}})
    if place.runs_of("runs"):
        wrong.append("an interrupted request ran again")
    return wrong


def after_approve(place: Place) -> list[str]:
    """Whatever became of the approval: it took, or the draft can be approved again; then it runs once."""
    wrong = recovered(place)
    workspace, rid = place.workspace, place.ids["runs"]
    took = any((workspace.state_folder(state) / f"{rid}.md").exists() for state in STATES)
    if not took and (code := forked(lambda: place.approve("runs"))) != 0:
        wrong.append(f"the draft cannot be approved again ({code})")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


def after_reject(place: Place) -> list[str]:
    wrong = recovered(place)
    workspace, rid = place.workspace, place.ids["runs"]
    if not (workspace.refused / f"{rid}.md").exists() and forked(lambda: place.reject("runs")) != 0:
        wrong.append("the draft cannot be rejected again")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"refused"}, "looked": {"inbox"}})


def after_request_changes(place: Place) -> list[str]:
    """The draft waits, or it has ended and its requester has the words."""
    wrong = recovered(place)
    workspace, rid = place.workspace, place.ids["runs"]
    if not announced(place, "rejected", "runs") and forked(lambda: place.request_changes("runs")) != 0:
        wrong.append("changes cannot be asked for again")
    words = [path.read_text() for path in workspace.verdicts.glob("words-*.md")]
    if len(words) != 1 or "Say it again." not in words[0]:
        wrong.append(f"the requester has {words}")
    verdict = workspace.verdicts / f"{rid}.md.json"
    if not verdict.exists() or "changes_requested: words-" not in verdict.read_text():
        wrong.append("the verdict does not name the words")
    if forked(lambda: place.approve("runs")) == 0:
        wrong.append("the draft was approved after all")
    return wrong + [f"verify: {item}" for item in verify_workspace(workspace).problems]


# ---- cancel, and what else the operator does


def prepare_one(place: Place) -> None:
    """One request waits in approved/."""
    assert place.approve("runs") == 0
    place.save()


def prepare_done(place: Place) -> None:
    """One request has run."""
    assert place.approve("runs") == 0
    assert forked(place.daemon) == 0
    place.save()


def after_cancel(place: Place) -> list[str]:
    """What was said to be cancelled never runs; what was not, runs once."""
    said = announced(place, "cancelled", "runs")
    wrong = recovered(place)
    if said and place.runs_of("runs"):
        wrong.append("a cancelled request ran")
    return wrong + problems_after(place, {"runs": {"refused" if said else "finished"}, "looked": {"inbox"}})


def prune_everything(place: Place) -> int:
    prune(place.workspace, before=datetime.now(UTC) + timedelta(hours=1), actor="account:test")
    return 0


def after_prune(place: Place) -> list[str]:
    """Whatever was left of it, the next one takes; the request and its result stay."""
    wrong = recovered(place)
    wrong += problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})
    if forked(lambda: prune_everything(place)) != 0:
        wrong.append("it cannot be pruned again")
    wrong += [f"left: {path}" for folder in (place.workspace.runs, place.workspace.inputs) for path in folder.iterdir()]
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


def sign_and_rotate(place: Place) -> int:
    return place.command("audit", "checkpoint") or place.command("audit", "rotate")


def after_rotate(place: Place) -> list[str]:
    wrong = recovered(place)
    wrong += [f"{command} is not possible any more" for command in ("checkpoint", "rotate")
              if forked(lambda command=command: place.command("audit", command)) != 0]  # fmt: skip
    if not announced(place, "finished", "runs") and forked(lambda: place.approve("runs")) != 0:
        wrong.append("nothing can be approved any more")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


def prepare_adopt(place: Place) -> None:
    """The workspace lay elsewhere when its head was kept outside."""
    with Trail(place.workspace).locked() as held:
        outside = UserState.of(held.index.workspace_id)
    head = outside.read_head()
    outside.head_file.write_text(json.dumps({**(head or {}), "path": "/elsewhere"}))
    place.save()


def after_adopt(place: Place) -> list[str]:
    """Adopted, or to be adopted again; nothing is launched in between, and afterwards all goes on."""
    wrong = []
    code = forked(place.daemon)
    if code == 3 and forked(lambda: place.signed("settings", "adopt")) != 0:
        wrong.append("it cannot be adopted again")
    elif code not in (0, 3):
        wrong.append(f"the daemon after the stop ended with {code}")
    if forked(lambda: place.approve("runs")) != 0:
        wrong.append("nothing can be approved in the new epoch")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


def second_key(place: Place) -> Path:
    return place.base / "second_key"


def prepare_countersign(place: Place) -> None:
    """Two operators must sign; one has."""
    public = place.make_key(second_key(place))
    add_operator(place.workspace, "second", public.read_text().strip(), actor="account:test")
    set_values(place.workspace.settings_file, {"approval.quorum.low": 2})
    assert place.approve("runs") == 0
    place.save()


def countersign(place: Place) -> int:
    path = place.workspace.approved / f"{place.ids['runs']}.md"
    return place.signed("approve", str(path), name="second", key=second_key(place))


def after_countersign(place: Place) -> list[str]:
    """With both signatures it ran; else it waits, and can be countersigned again."""
    wrong = recovered(place)
    if (place.workspace.approved / f"{place.ids['runs']}.md").exists():
        if place.runs_of("runs"):
            wrong.append("it ran with one signature")
        if forked(lambda: countersign(place)) != 0:
            wrong.append("it cannot be countersigned again")
    wrong += recovered(place)
    return wrong + problems_after(place, {"runs": {"finished"}, "looked": {"inbox"}})


SCENARIOS = {
    "pass": Scenario(prepare_pass, Place.daemon, after_pass, floor=(160, 390), faults=2),
    "recovery": Scenario(prepare_recovery, Place.daemon, after_recovery, floor=(34, 56)),
    "approve": Scenario(
        lambda place: None, lambda place: place.approve("runs"), after_approve, floor=(54, 105), faults=2
    ),
    "reject": Scenario(lambda place: None, lambda place: place.reject("runs"), after_reject, floor=(40, 80), faults=2),
    "request_changes": Scenario(
        lambda place: None, lambda place: place.request_changes("runs"), after_request_changes, floor=(40, 80), faults=4
    ),
    "cancel": Scenario(
        prepare_one,
        lambda place: place.command("cancel", place.ids["runs"], "--wait", "0"),
        after_cancel,
        floor=(30, 55),
    ),
    "countersign": Scenario(prepare_countersign, countersign, after_countersign, floor=(15, 26)),
    "prune": Scenario(prepare_done, prune_everything, after_prune, floor=(15, 21), faults=3),
    "rotate": Scenario(lambda place: None, sign_and_rotate, after_rotate, floor=(60, 110)),
    "adopt": Scenario(prepare_adopt, lambda place: place.signed("settings", "adopt"), after_adopt, floor=(15, 26)),
}
