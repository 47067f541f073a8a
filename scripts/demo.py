"""make demo: the main job from end to end, in a workspace that stays, with real commands and a real key.

Two drafts are dropped: one ranks the lines of an input file, one tries what it must not. A third runs a script by
Python itself, in bubblewrap, where that is installed. Needs no engine, no root and no network. Of what a command prints
only the telling lines are shown; the last lines are what to type next.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from threegate.core.settings import EraSettings
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.runners.era.jailed_run import BubblewrapRunner

CODE = """\
rows = [row.split(',') for row in open('/in/sales.csv').read().split()]
for region, amount in sorted(rows, key=lambda row: -int(row[1])):
    print(region, amount)
"""

SALES = "north,120\nsouth,310\neast,95\n"

SCRIPT = """\
import csv, statistics
with open('/in/sales.csv', newline='') as file:
    print('median', statistics.median(int(amount) for _, amount in csv.reader(file)))
"""

BAD_CODE = """\
import subprocess
subprocess.run(['pip', 'install', 'leftpad'])
open('/etc/passwd').read()
"""

HERE = Path(sys.executable).parent
QUIET = {"NO_COLOR": "1", "COLUMNS": "110"}
KEY = ("--key", "../operator_key")
CARD = r"^  (reach|risk|can run|input|limits) |^ +\d+ \| |^approved"


def heading(text: str) -> None:
    """A line between two steps."""
    print(f"\n\033[1m── {text}\033[0m" if sys.stdout.isatty() else f"\n── {text}", flush=True)


def threegate(*arguments: str, show: str = "(?!)", expect: int = 0) -> str:
    """Run one command as a person would, show it and those of its lines that match `show`; end the demo when it ends
    otherwise.
    """
    print(f"$ {shlex.join(('threegate', *arguments))}", flush=True)
    done = subprocess.run(
        [str(HERE / "threegate"), *arguments], capture_output=True, text=True, env={**os.environ, **QUIET}
    )
    if done.returncode != expect:
        sys.stdout.write(done.stdout + done.stderr)
        sys.exit(f"demo: expected exit code {expect}, got {done.returncode}")
    for line in (done.stdout + done.stderr).splitlines():
        if re.search(show, line):
            print(line.replace(f"{Path.cwd()}/", ""), flush=True)
    return done.stdout


def main() -> None:
    """Play the demo in a folder that stays, and say what to type there."""
    home = Path(tempfile.mkdtemp(prefix="threegate-demo-"))
    os.environ.pop("THREEGATE_WORKSPACE", None)
    for name, text in (("rank.py", CODE), ("sales.csv", SALES), ("median.py", SCRIPT)):
        (home / name).write_text(text)
    os.chdir(home)
    heading(f"a workspace, and a key for its operator: {home}")
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "demo", "-f", "operator_key"]
    subprocess.run(words, check=True)
    threegate("init", "ws", "--key", "operator_key.pub", show="^commands")
    os.chdir("ws")
    waiting = play()
    heading("next: a request waits for you. Type these to read it, sign it, run it and see the answer")
    print(f"cd {shlex.quote(str(Path.cwd()))} && PATH={shlex.quote(str(HERE))}:$PATH")
    print(f"threegate approve {waiting} {shlex.join(KEY)}")
    print("threegate run --once")
    print(f"threegate show {waiting} --result")
    state = UserState.of(Workspace(Path.cwd()).load_settings().workspace.id).folder
    print(f"cd && rm -r {shlex.join((str(home), str(state)))}    # when you have seen enough")


def play() -> str:
    """The steps, in the workspace; returns the id of the draft that waits at the end."""
    heading("an agent drops two requests into the inbox; gate 1 refuses one of them")
    bad = Path("inbox/TR-20260101-000000Z-sneaky.md")
    bad.write_text(sneaky_request())
    threegate("validate", str(bad), show=" error ", expect=2)
    ran = drafted("rank", "Rank the regions by sales.", "--backend", "monty", "--code", "../rank.py")

    heading("you read the other one (these are some lines of its card), and sign it")
    threegate("approve", ran, *KEY, "--yes", show=CARD)
    heading("the daemon checks everything again and runs it once; the agent gets a result file")
    run(ran)

    heading("a script of any Python, in a sandbox without a container engine")
    if (problem := BubblewrapRunner(EraSettings(runtime="bubblewrap")).available()) is not None:
        print(f"left out here: {problem}")
    else:
        script = ("--command", "python3 /in/median.py", "--input", "../median.py")
        ran = drafted("median", "Find the median of the sales.", *script)
        threegate("approve", ran, *KEY, "--yes", show="^  sandbox ")
        run(ran)

    heading("the trail has every step; it verifies, and what ran may be asked for again")
    threegate("audit", "verify", show="")
    threegate("draft", "--again", ran, show="^draft")
    return f"{ran}.r2"


def drafted(slug: str, purpose: str, *words: str) -> str:
    """Drop a draft over the sales as an agent would; returns its id."""
    of_it = ("--input", "../sales.csv", "--slug", slug, "--purpose", purpose, "--sensitivity", "public")
    threegate("draft", *words, *of_it, show=": valid")
    [draft] = Path("inbox").glob(f"TR-*-{slug}.md")
    [request_id] = re.findall(r"^request_id: (.*)", draft.read_text(), re.M)
    return request_id


def run(request_id: str) -> None:
    """Let the daemon make one pass, and show what the code printed; end the demo if it did not succeed."""
    threegate("run", "--once", show="^finished")
    shown = threegate("show", request_id, "--result")
    print(shown.partition("## Stdout\n\n```text\n")[2].partition("```")[0].rstrip())
    if "\nstatus: succeeded\n" not in shown:
        sys.exit("demo: the request did not succeed")


def sneaky_request() -> str:
    """A draft as a careless or hostile agent would write it."""
    return (
        '---\nrequest_type: tool_request\nschema_version: "1"\nrequest_id: TR-20260101-000000Z-sneaky\n'
        "created_utc: 2026-01-01T00:00:00Z\nrequested_by: demo-agent\n"
        "purpose: Read a file of the machine and install something.\nbackend: monty\nlanguage: python\n"
        'network: none\ncpu_limit: "1"\nmemory_limit_mb: 128\ntime_limit_sec: 10\n---\n\n'
        f"## Code\n\n```python\n{BAD_CODE}```\n\n"
        "## Output Expectations\n\nnone\n\n"
        "## Risk Assessment\n\n- Risk level: low\n- Justification: nothing to see here\n- Data sensitivity: public\n"
    )


if __name__ == "__main__":
    main()
