"""Kills the real code at every operation of the seam to the disk, lets the unsynced part survive or not, and looks.

A program of its own: it imports everything once and forks for each scenario and each kill, so that neither costs an
interpreter start. Only the runner is a stand-in: it counts its runs in a file outside of the workspace. Prints a line
of JSON for each scenario.

    python -m tests.crash.harness FOLDER MODE MODULE:NAME[/EVERY[/OFFSET]] ...

MODE is `kill` (before and after each operation; with the unsynced writes kept, lost, and torn) or `fault` (ENOSPC,
EIO, EMFILE, EINTR raised at each operation). MODULE has the table SCENARIOS: `tests.crash.scenarios` or a plugin's.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import threegate.daemon.typecheck_queue
import threegate.review.reviewed_draft
from tests.crash.journal import Journal, lose, read_journal
from tests.crash.place import KILLED, Place, forked, stand_in
from tests.crash.scenarios import Scenario
from threegate.core import durable
from threegate.core.workspace import STATES

FAULTS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EINTR)


def stopped(place: Place, scenario: Scenario, stop: int, fault: int | None) -> int:
    """One child that is stopped at operation `stop`; its exit code."""

    def work() -> int:
        # A process that this one forks is not the one that is stopped.
        os.register_at_fork(after_in_child=durable.observe(Journal(place.journal, stop, fault)))
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
        variants = ("kept", "lost", "torn") if mode == "kill" else tuple(errno.errorcode[item] for item in faults)
        for variant in variants:
            if variant in ("lost", "torn") and not scenario.by_inode:
                place.take_up()  # one kill, looked at with each of its ends
            else:
                place.restore()
                fault = None if mode == "kill" else getattr(errno, variant)
                code = stopped(place, scenario, stop, fault)
                entries = read_journal(place.journal)
                if variant == "kept" and not scenario.by_inode:
                    place.keep()
            # Another thread may have noted something more before the process was gone.
            halt = next((item for item in entries if item["op"] == "stopped"), None)
            at = halt["at"] if halt else None
            if halt is None:
                if code != 0:
                    failures.append(f"{stop} {variant}: ended with {code} before it was stopped")
                break
            if mode == "kill" and code != KILLED:
                failures.append(f"{stop} {at}: the child ended with {code}")
            if variant == "lost" and not lose(place.journal, torn=False):
                continue
            if variant == "torn" and (halt["moment"] == "after" or not lose(place.journal, torn=True)):
                continue
            counts["stops"] += 1
            counts["lost"] += variant == "lost"
            counts["torn"] += variant == "torn"
            if mode != "kill" and code in (-signal.SIGALRM, 70):
                failures.append(f"{stop} {at} {variant}: ended with {code}, which is no clear word")
            if wrong := scenario.after(place):
                failures += [f"{stop} {at} {variant}: {item}" for item in wrong]
                failures.append(f"{stop} {at} {variant}: {whereabouts(place)}")
            reached.add(at.split()[0])
        unreached = unreached + 1 if at is None else 0
        if unreached == 4:
            break  # threads differ a little from run to run; four in a row are the end
        counts["points"] += at is not None
        stop += every
    return {**counts, "operations": sorted(reached), "failures": failures}


def whereabouts(place: Place) -> str:
    """Where the files of the requests are, by name, and whether the folder lists them: a file system may forget one."""
    told = []
    for state in STATES:
        folder = place.workspace.state_folder(state)
        listed = os.listdir(folder)
        names = [f"{rid}.md{suffix}" for rid in place.ids.values() for suffix in ("", ".sig")]
        told += [
            f"{state}/{name}{'' if name in listed else ' (not listed)'}"
            for name in names
            if os.path.lexists(folder / name)
        ]
    return "there are " + ", ".join(told)


def without_threads() -> None:
    """No type checker in here: Monty's client starts threads, and this process forks. It changes no state."""
    threegate.review.reviewed_draft.type_findings = lambda request: ()
    threegate.daemon.typecheck_queue.type_findings = lambda request: ()


def explored(folder: Path, mode: str, wanted: str, seconds: float) -> dict:
    """What became of one scenario, given as MODULE:NAME, and EVERY or EVERY/OFFSET behind it."""
    module, _, name_and_numbers = wanted.partition(":")
    name, *numbers = name_and_numbers.split("/")
    every, offset = (int(number) for number in (*numbers, *("1", "0")[len(numbers) :]))
    place = Place(folder / name)
    place.base.mkdir(parents=True, exist_ok=True)
    place.build()
    began = datetime.now(UTC)
    scenario: Scenario = importlib.import_module(module).SCENARIOS[name]
    scenario.prepare(place)
    place.restore()
    scenario.work(place)  # once in this process: what is imported and cached now is there in every child
    place.daemon()
    summary = explore(place, scenario, mode, every, offset, time.monotonic() + seconds)
    return {"scenario": name, **summary, "seconds": round((datetime.now(UTC) - began).total_seconds(), 1)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("mode", choices=("kill", "fault", "fault-all"))
    parser.add_argument("scenario", nargs="+", help="MODULE:NAME[/EVERY[/OFFSET]]")
    parser.add_argument("--seconds", type=float, default=240)
    options = parser.parse_args()
    stand_in()
    without_threads()
    gc.freeze()  # what is imported is not looked at again in each of thousands of forks, which copied its pages
    for wanted in options.scenario:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(json.dumps(explored(options.folder, options.mode, wanted, options.seconds)), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{wanted} ended with {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
