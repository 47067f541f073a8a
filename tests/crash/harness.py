"""Kills the real code at every operation of the seam to the disk, lets the unsynced part survive or not, and looks.

A program of its own: it imports everything once and forks for each kill, so that a kill costs no interpreter start.
Only the runner is a stand-in: it counts its runs in a file outside of the workspace. Prints one JSON object.

    python -m tests.crash.harness FOLDER SCENARIO MODE [--every N] [--offset K]

MODE is `kill` (before and after each operation; with the unsynced writes kept, lost, and torn) or `fault` (ENOSPC,
EIO, EMFILE, EINTR raised at each operation).
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import threegate.cli.approve
import threegate.daemon.service
import threegate.daemon.types
import threegate.operations.dossier
import threegate.runners.era
import threegate.runners.monty
from tests.support import monty_draft, request_id
from threegate import cli, durable
from threegate.audit import Trail
from threegate.daemon.log import Log
from threegate.daemon.service import Daemon
from threegate.operations.dossier import open_desk
from threegate.operations.operator import add_operator
from threegate.operations.reject import reject_draft
from threegate.operations.settings_file import render_settings
from threegate.operations.verify import verify_workspace
from threegate.results import validate_result
from threegate.runners.interface import Artifact, Outcome, Stream
from threegate.workspace import STATES, Workspace

KILLED = 137
FAULTS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EINTR)
CHILD_SECONDS = 120


class CountingRunner:
    """Stands where Monty stands: its side effect is a line in a file outside of the workspace."""

    counter = Path()

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def available(self, job: object = None) -> None:
        return None

    def run(self, clearance, job, control) -> Outcome:
        descriptor = os.open(self.counter, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, clearance.request_id.encode() + b"\n")
        os.close(descriptor)
        out = control.run_folder / "out"
        out.mkdir()
        (out / "result.txt").write_bytes(b"counted\n")
        artifact = Artifact("result.txt", 8, hashlib.sha256(b"counted\n").hexdigest())
        empty = Stream(b"", 0, hashlib.sha256(b"").hexdigest())
        said = Stream(b"done\n", 5, hashlib.sha256(b"done\n").hexdigest())
        return Outcome(
            "succeeded", "It was counted.", 0, None, None, 1, None, None, {}, said, empty, (artifact,)
        )

    def close(self) -> None:
        pass


threegate.runners.monty.MontyRunner = CountingRunner
threegate.runners.era.EraRunner = CountingRunner


@dataclass
class Place:
    """The workspace under test, always at the same path, and the template that it is made of anew."""

    base: Path
    ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.live, self.template = self.base / "live", self.base / "template"
        self.key = self.base / "operator_key"
        self.journal = self.base / "journal"
        CountingRunner.counter = self.live / "counter"
        os.environ["XDG_STATE_HOME"] = str(self.live / "state")
        os.environ["XDG_RUNTIME_DIR"] = str(self.base)

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.live / "ws")

    def build(self) -> None:
        """A workspace with an operator and three requests: one to run, one to be refused, one to be looked at."""
        shutil.rmtree(self.live, ignore_errors=True)
        self.live.mkdir(parents=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "op", "-f", str(self.key)],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        workspace = self.workspace
        workspace.root.mkdir()
        workspace.make_folders()
        workspace_id = "ws-" + hashlib.sha256(str(self.base).encode()).hexdigest()[:32]
        Trail.create(workspace, workspace_id=workspace_id, actor="account:test")
        add_operator(
            workspace, "operator", self.key.with_suffix(".pub").read_text().strip(), actor="account:test"
        )
        workspace.settings_file.write_text(render_settings({"workspace.id": workspace_id}))
        (workspace.files / "data.json").write_bytes(b"[1]")
        digest = hashlib.sha256(b"[1]").hexdigest()
        for name in ("runs", "changed", "looked"):
            self.ids[name] = rid = request_id(name)
            text = monty_draft(rid, "1 + 1", inputs={"data.json": digest})
            (workspace.inbox / f"{rid}.md").write_text(text)
        self.save()

    def save(self) -> None:
        shutil.rmtree(self.template, ignore_errors=True)
        shutil.copytree(self.live, self.template, symlinks=True)

    def restore(self) -> None:
        shutil.rmtree(self.live, ignore_errors=True)
        shutil.copytree(self.template, self.live, symlinks=True)
        shutil.rmtree(self.journal, ignore_errors=True)
        self.journal.mkdir()

    def approve(self, name: str) -> int:
        draft = self.workspace.inbox / f"{self.ids[name]}.md"
        return cli.execute(
            [
                "-w",
                str(self.workspace.root),
                "approve",
                str(draft),
                "--as",
                "operator",
                "--key",
                str(self.key),
                "--yes",
            ]
        )

    def reject(self, name: str) -> int:
        draft = self.workspace.inbox / f"{self.ids[name]}.md"
        reject_draft(open_desk(self.workspace), draft, reason="no", actor="account:test")
        return 0

    def daemon(self) -> int:
        return Daemon(self.workspace, Log(quiet=True), once=True).run()

    def runs_of(self, name: str) -> int:
        try:
            lines = CountingRunner.counter.read_text().split()
        except FileNotFoundError:
            return 0
        return lines.count(self.ids[name])


def forked(work: Callable[[], int], *, quiet: bool = True) -> int:
    """Do `work` in a child; returns its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            signal.alarm(CHILD_SECONDS)
            if quiet:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
            code = work()
        except BaseException as error:  # the parent judges by what lies on the disk
            code = 3 if isinstance(error, OSError) else getattr(error, "exit_code", 70)
            if code == 70 and os.environ.get("CRASH_TRACE"):
                with open(os.environ["CRASH_TRACE"], "a") as file:
                    traceback.print_exc(file=file)
        finally:
            os._exit(code if isinstance(code, int) else 70)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


class Journal:
    """Notes what was done and what is not yet on disk; ends the process, or raises, at operation `stop`."""

    def __init__(self, folder: Path, stop: int, fault: int | None = None) -> None:
        self.folder, self.stop, self.fault = folder, stop, fault
        self.count = 0
        self.file = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.source = ""

    def __call__(self, moment: str, operation: str, path: str) -> None:
        if moment == "from":
            self.source = path
            return
        if self.fault is not None and moment == "after":
            return
        self.count += 1
        if moment == "before":
            self.before(operation, path)
            if self.count == self.stop:
                self.halt(moment, operation, path)
        else:
            self.after(operation, path)
            if self.count == self.stop:
                self.halt(moment, operation, path)

    def halt(self, moment: str, operation: str, path: str) -> None:
        self.note({"op": "stopped", "moment": moment, "at": f"{operation} {Path(path).name}"})
        if self.fault is None:
            os._exit(KILLED)
        raise OSError(self.fault, os.strerror(self.fault), path)

    def before(self, operation: str, path: str) -> None:
        if operation == "write":
            self.note({"op": "dirty", "path": path, "size": size_of(path)})
        elif operation in ("replace", "unlink"):
            kept = None
            if os.path.isfile(path):
                kept = str(self.folder / f"kept-{self.count}")
                shutil.copy2(path, kept)
            self.note({"op": f"kept-{operation}", "path": path, "kept": kept})

    def after(self, operation: str, path: str) -> None:
        entry: dict[str, object] = {"op": operation, "path": path}
        if operation == "rename":
            entry["source"] = self.source
        elif operation == "sync":
            entry["size"] = size_of(path)
        self.note(entry)

    def note(self, entry: dict[str, object]) -> None:
        os.write(self.file, json.dumps(entry).encode() + b"\n")


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def read_journal(folder: Path) -> list[dict]:
    try:
        return [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    except FileNotFoundError:
        return []


def lose(folder: Path, *, torn: bool) -> bool:
    """Take away what was not synced, as a power cut may; `torn`: half of the unsynced bytes survive. False: nothing was."""
    pending: list[tuple[str, str, str | None]] = []
    dirty: dict[str, int] = {}
    kept: dict[str, str | None] = {}
    for entry in read_journal(folder):
        operation, path = entry["op"], entry.get("path", "")
        if operation == "dirty":
            dirty.setdefault(path, entry["size"])
        elif operation == "sync":
            dirty.pop(path, None)
        elif operation == "create":
            pending.append(("create", path, None))
        elif operation == "rename":
            pending.append(("rename", path, entry["source"]))
            if entry["source"] in dirty:
                dirty[path] = dirty.pop(entry["source"])
        elif operation in ("kept-replace", "kept-unlink"):
            kept[path] = entry["kept"]
        elif operation in ("replace", "unlink"):
            pending.append((operation, path, kept.get(path)))
        elif operation == "sync_folder":
            pending = [item for item in pending if os.path.dirname(item[1]) != path]
    did = False
    for path, size in dirty.items():
        now = size_of(path)
        if now > size:
            os.truncate(path, size + (now - size) // 2 if torn else size)
            did = True
    if torn:
        return did
    for operation, path, other in reversed(pending):
        did = True
        if operation == "create" and os.path.exists(path):
            os.unlink(path)
        elif operation == "rename" and os.path.exists(path) and not os.path.exists(str(other)):
            os.rename(path, str(other))
        elif operation in ("replace", "unlink"):
            if other is not None:
                shutil.copy2(other, path)
            elif os.path.exists(path):
                os.unlink(path)
    return did


# ---- what must hold afterwards


def problems_after(place: Place, expected: dict[str, set[str]]) -> list[str]:
    """Everything that is wrong after recovery. `expected` maps a request to the ends it may have."""
    workspace = place.workspace
    wrong = []
    result = verify_workspace(workspace)
    wrong += [f"verify: {item}" for item in result.problems]
    for folder in (
        *(workspace.state_folder(state) for state in STATES),
        workspace.results,
        workspace.verdicts,
        workspace.inputs,
    ):
        wrong += [f"half-written file {path.name} in {folder.name}" for path in folder.glob(".tmp-*")]
    if any(workspace.running.iterdir()):
        wrong.append("something is left in running/")
    for name, ends in expected.items():
        rid = place.ids[name]
        runs = place.runs_of(name)
        found = [state for state in STATES if (workspace.state_folder(state) / f"{rid}.md").exists()]
        if (workspace.inbox / f"{rid}.md").exists() and not found:
            found = ["inbox"]
        if len(found) != 1 or found[0] not in ends:
            wrong.append(f"{name} is in {found}, not in one of {sorted(ends)}")
        if runs > 1:
            wrong.append(f"{name} ran {runs} times")
        if found == ["finished"] and runs != 1:
            wrong.append(f"{name} is finished and ran {runs} times")
        results = list(workspace.results.glob(f"TS-*-{rid}*.md"))
        if found and found[0] in ("finished", "refused") and len(results) != 1:
            wrong.append(f"{name} has {len(results)} results")
        for path in results:
            wrong += [f"{path.name}: {item.message}" for item in validate_result(path.read_bytes())]
    return wrong


def claimed(place: Place, name: str) -> bool:
    """Whether the trail says that a request was claimed (read without verifying)."""
    text = place.workspace.trail_file.read_bytes()
    return any(
        b'"type":"claimed"' in line and f'"request_id":"{place.ids[name]}"'.encode() in line
        for line in text.splitlines()
    )


# ---- scenarios: what is done, and what is expected after a stop and recovery


@dataclass
class Scenario:
    """`prepare` makes the template, `work` is what is stopped, `after` recovers and says what is wrong."""

    prepare: Callable[[Place], None]
    work: Callable[[Place], int]
    after: Callable[[Place], list[str]]


def recovered(place: Place) -> list[str]:
    code = forked(place.daemon)
    return [] if code == 0 else [f"the daemon after the stop ended with {code}"]


def prepare_pass(place: Place) -> None:
    assert place.approve("runs") == 0
    assert place.approve("changed") == 0
    path = place.workspace.approved / f"{place.ids['changed']}.md"
    path.write_bytes(path.read_bytes() + b"\n")
    place.save()


def after_pass(place: Place) -> list[str]:
    was_claimed = claimed(place, "runs")
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
        until = time.monotonic() + 20
        refused = place.workspace.refused / f"{place.ids['changed']}.md"
        while not refused.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)
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


SCENARIOS = {
    "pass": Scenario(prepare_pass, Place.daemon, after_pass),
    "recovery": Scenario(prepare_recovery, Place.daemon, after_recovery),
    "approve": Scenario(lambda place: None, lambda place: place.approve("runs"), after_approve),
    "reject": Scenario(lambda place: None, lambda place: place.reject("runs"), after_reject),
}


def stopped(place: Place, scenario: Scenario, stop: int, fault: int | None) -> int:
    """One child that is stopped at operation `stop`; its exit code."""

    def work() -> int:
        durable.observe(Journal(place.journal, stop, fault))
        return scenario.work(place)

    return forked(work)


def explore(place: Place, scenario: Scenario, mode: str, every: int, offset: int, deadline: float) -> dict:
    """Stop at each operation in turn until one run is not stopped any more."""
    counts = {"points": 0, "stops": 0, "lost": 0, "torn": 0}
    failures: list[str] = []
    reached: set[str] = set()
    stop = 1 + offset
    unreached = 0
    while time.monotonic() < deadline:
        at = None
        faults = FAULTS if mode == "fault-all" else (FAULTS[stop % 4],)
        variants = (
            ("kept", "lost", "torn") if mode == "kill" else tuple(errno.errorcode[item] for item in faults)
        )
        for variant in variants:
            place.restore()
            fault = None if mode == "kill" else getattr(errno, variant)
            code = stopped(place, scenario, stop, fault)
            entries = read_journal(place.journal)
            at = entries[-1]["at"] if mode == "kill" and entries and entries[-1]["op"] == "stopped" else None
            if mode != "kill":
                at = next((item["at"] for item in entries if item["op"] == "stopped"), None)
            if at is None:
                if code != 0:
                    failures.append(f"{stop} {variant}: ended with {code} before it was stopped")
                break
            if mode == "kill" and code != KILLED:
                failures.append(f"{stop} {at}: the child ended with {code}")
            if variant == "lost" and not lose(place.journal, torn=False):
                continue
            if variant == "torn" and (entries[-1]["moment"] == "after" or not lose(place.journal, torn=True)):
                continue
            counts["stops"] += 1
            counts["lost"] += variant == "lost"
            counts["torn"] += variant == "torn"
            if mode != "kill" and code in (-signal.SIGALRM, 70):
                failures.append(f"{stop} {at} {variant}: ended with {code}, which is no clear word")
            failures += [f"{stop} {at} {variant}: {item}" for item in scenario.after(place)]
            reached.add(at.split()[0])
        unreached = unreached + 1 if at is None else 0
        if unreached == 4:
            break  # threads differ a little from run to run; four in a row are the end
        counts["points"] += at is not None
        stop += every
    return {**counts, "operations": sorted(reached), "failures": failures}


def without_threads() -> None:
    """No type checker in here: Monty's client starts threads, and this process forks. It changes no state."""
    threegate.operations.dossier.type_findings = lambda request: ()
    threegate.daemon.types.type_findings = lambda request: ()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("mode", choices=("kill", "fault", "fault-all"))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=240)
    options = parser.parse_args()
    without_threads()
    place = Place(options.folder)
    options.folder.mkdir(parents=True, exist_ok=True)
    place.build()
    began = datetime.now(UTC)
    scenario = SCENARIOS[options.scenario]
    scenario.prepare(place)
    place.restore()
    place.daemon()  # once in this process: what is imported and cached now is there in every child
    summary = explore(
        place, scenario, options.mode, options.every, options.offset, time.monotonic() + options.seconds
    )
    summary["seconds"] = round((datetime.now(UTC) - began).total_seconds(), 1)
    json.dump(summary, sys.stdout)


if __name__ == "__main__":
    main()
