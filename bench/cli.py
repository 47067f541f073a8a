"""Processor time of the commands that a person waits for, each beside a Python that only starts and imports typer.

    python bench/cli.py [--runs N]

User and system time together, with compiled modules cached, each command in turn with the reference; medians. `approve`
signs with a key file, whose ssh-keygen counts. Aim: at most 300 ms each. tests/whole/test_imports.py counts modules
instead.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import make_place, monty_draft

REFERENCE = [sys.executable, "-c", "import typer"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_ms(command: list[str], folder: Path, allowed: tuple[int, ...] = (0,)) -> float:
    """Milliseconds of processor time of a command and what it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in allowed:
        sys.exit(f"bench: {' '.join(command)}: {done.stderr.decode()[-500:]}")
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ENVIRONMENT["XDG_STATE_HOME"] = os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        ENVIRONMENT["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent)
        ENVIRONMENT["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        place = make_place(folder)
        drafts = [place.drop(monty_draft(f"TR-cli-{number}", "1 + 1")) for number in range(runs + 2)]
        shown, waiting = str(drafts[0]), iter(drafts[1:])
        ours = [sys.executable, "-m", "threegate"]
        commands = {
            "status": ["status"],
            "show FILE": ["show", shown],
            "approve FILE --yes": [],
            "audit verify": ["audit", "verify"],
            "grant list": ["grant", "list"],
            "doctor --no-probes": ["doctor", "--no-probes"],
        }
        found: dict[str, list[float]] = {command: [] for command in (*commands, "import typer")}
        for number in range(runs + 1):
            for title, words in commands.items():
                if title.startswith("approve"):
                    words = [
                        "approve",
                        str(next(waiting)),
                        "--as",
                        "operator",
                        "--key",
                        str(place.key),
                        "--yes",
                    ]
                allowed = (0, 2) if title.startswith("doctor") else (0,)
                spent = cpu_ms([*ours, *words], place.root, allowed)
                bare = cpu_ms(REFERENCE, place.root)
                if number:  # the first round compiles
                    found[title].append(spent)
                    found["import typer"].append(bare)
    bare = statistics.median(found["import typer"])
    for title in commands:
        print(f"{title:<20} {statistics.median(found[title]):6.0f} ms   ({bare:.0f} ms: a Python that imports typer)")


if __name__ == "__main__":
    main()
