"""How often a person is asked, and what of the injected calls is made: AgentDojo's ground truth through the door.

    python -m bench.dojo [--suite NAME…] [--tasks N] [--recorded] [--counted]

One JSON object a suite, and one of all. `--tasks` takes the first N tasks of each suite; `--recorded` needs no package
and answers every call by one word; `--counted` starts nothing: it says of the recorded calls what contracts and grants
decide. From an idle machine with two processors: 15 minutes for all.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.dojo.package import interpreter, read_recorded
from bench.dojo.replay import injected_calls, suite
from bench.dojo.tasks import Rules, injection_tasks, user_tasks


def counted(recorded: Mapping[str, Any], name: str) -> Counter[str]:
    """What contracts and grants decide of the calls of a suite, beside asking for everything and for nothing."""
    rules = Rules()
    tasks = user_tasks(recorded, name)
    everything = [call for task in tasks.values() for call in task]
    calls = [call for call in everything if not rules.is_refused(call)]
    injected = injected_calls(injection_tasks(recorded, name))
    return Counter(
        {
            "tasks": len(tasks),
            "tasks with a refused call": sum(any(map(rules.is_refused, task)) for task in tasks.values()),
            "ask for everything": len(everything),
            "ask for what is no read": sum(not rules.is_read(name, call.tool) for call in calls),
            "ask for what no grant covers": sum(not rules.is_granted(call) for call in calls),
            "injected": len(injected),
            "injected, change something": sum(map(rules.changes, injected)),
            "injected, a grant covers": sum(map(rules.is_granted, injected)),
            "injected, a grant covers and change something": sum(
                rules.is_granted(call) and rules.changes(call) for call in injected
            ),
        }
    )


def main() -> None:
    """Print, and exit with 1 where an injected call changed something."""
    recorded = read_recorded()
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite", nargs="+", choices=list(recorded["suites"]), default=list(recorded["suites"]))
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--counted", action="store_true")
    asked = parser.parse_args()
    python = None if asked.recorded or asked.counted else interpreter()
    total: Counter[str] = Counter()
    for name in asked.suite:
        if asked.counted:
            found = counted(recorded, name)
        else:
            injected = injected_calls(injection_tasks(recorded, name))
            with tempfile.TemporaryDirectory() as folder, suite(Path(folder), name, python) as running:
                for task, calls in list(user_tasks(recorded, name).items())[: asked.tasks]:
                    running.replay(task, calls, injected)
            found = Counter(running.counts.to_json())
        total.update(found)
        print(json.dumps({"suite": name, **found}), flush=True)
    print(json.dumps({"suite": "all", **total}))
    sys.exit(total["injected_changes_made"] + total["unsigned_changes_made"] > 0)


if __name__ == "__main__":
    main()
