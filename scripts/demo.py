"""make demo: the main job from end to end, in a temporary workspace, with real commands and a real key.

Two drafts are dropped: one ranks and summarises an input file, one tries what it must not. A third runs a script by
Python itself, in bubblewrap, where that is installed. Needs no engine, no root and no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from threegate.core.settings import EraSettings
from threegate.runners.era.jailed_run import BubblewrapRunner

CODE = """\
import json

rows = [line.split(',') for line in open('/in/sales.csv').read().splitlines()[1:]]
totals = {}
for region, amount in rows:
    totals[region] = totals.get(region, 0) + int(amount)
ranking = sorted(totals.items(), key=lambda item: -item[1])
for place, (region, total) in enumerate(ranking, start=1):
    print(place, region, total)
with open('/out/ranking.json', 'w') as out:
    out.write(json.dumps(ranking))
{'regions': len(ranking), 'best': ranking[0][0], 'total': sum(totals.values())}
"""

SALES = "region,amount\nnorth,120\nsouth,310\neast,95\nnorth,205\nwest,180\nsouth,44\neast,260\n"

SCRIPT = """\
import csv, sqlite3, statistics

with open('sales.csv', newline='') as file:
    rows = [(row['region'], int(row['amount'])) for row in csv.DictReader(file)]
sales = sqlite3.connect(':memory:')
sales.execute('create table sales (region text, amount integer)')
sales.executemany('insert into sales values (?, ?)', rows)
with open('/out/regions.csv', 'w', newline='') as file:
    out = csv.writer(file)
    out.writerow(['region', 'orders', 'total'])
    out.writerows(sales.execute('select region, count(*), sum(amount) from sales group by region order by 3 desc'))
print('median order', statistics.median(amount for _, amount in rows))
"""

BAD_CODE = """\
import subprocess
subprocess.run(['pip', 'install', 'leftpad'])
open('/etc/passwd').read()
"""

HERE = Path(sys.executable).parent
QUIET = {"NO_COLOR": "1", "COLUMNS": "110"}


def heading(text: str) -> None:
    """A line between two steps."""
    print(f"\n\033[1m── {text}\033[0m" if sys.stdout.isatty() else f"\n── {text}", flush=True)


def threegate(*arguments: str, expect: int = 0) -> str:
    """Run one command as a person would, show it and what it prints; end the demo when it ends otherwise."""
    print("$ threegate " + " ".join(arguments), flush=True)
    done = subprocess.run(
        [str(HERE / "threegate"), *arguments], capture_output=True, text=True, env={**os.environ, **QUIET}
    )
    sys.stdout.write(done.stdout + done.stderr)
    sys.stdout.flush()
    if done.returncode != expect:
        sys.exit(f"demo: expected exit code {expect}, got {done.returncode}")
    return done.stdout


def main() -> None:
    """Play the demo and say where the workspace was."""
    home = Path(tempfile.mkdtemp(prefix="threegate-demo-"))
    try:
        play(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def play(home: Path) -> None:
    """The steps, below `home`."""
    os.environ["XDG_STATE_HOME"] = str(home / "state")
    os.environ.pop("THREEGATE_WORKSPACE", None)
    key = home / "operator_key"
    heading("a demo operator with a key of its own")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "demo", "-f", str(key)], check=True)
    workspace = home / "workspace"
    threegate("init", str(workspace), "--operator", "operator", "--key", f"{key}.pub")
    os.chdir(workspace)

    heading("the agent drops two requests")
    (home / "rank.py").write_text(CODE)
    (home / "sales.csv").write_text(SALES)
    (home / "sneaky.py").write_text(BAD_CODE)
    threegate(
        "draft", "--backend", "monty", "--code", str(home / "rank.py"), "--input", str(home / "sales.csv"),
        "--output", "/out/ranking.json", "--purpose", "Rank the regions by sales and add them up.",
        "--requested-by", "demo-agent", "--slug", "rank-sales", "--sensitivity", "internal",
        "--justification", "Reads one pinned file and writes one small file.",
    )  # fmt: skip
    bad = workspace / "inbox" / "TR-20260101-000000Z-sneaky.md"
    good = next((workspace / "inbox").glob("TR-*-rank-sales.md"))
    bad.write_text(sneaky_request())

    heading("gate 1 reads both")
    threegate("validate", "--stage", "draft", str(good))
    threegate("validate", "--stage", "draft", str(bad), expect=2)
    threegate("run", "--once")
    threegate("status")

    heading("the operator reads, and signs the good one")
    threegate("approve", str(good), "--as", "operator", "--key", str(key), "--yes", "--reason", "demo")

    heading("the daemon runs it, once")
    threegate("run", "--once")
    threegate("status", "--results")
    show_result(workspace, "rank-sales")

    heading("a script of any Python, in a sandbox without an engine")
    if (problem := BubblewrapRunner(EraSettings(runtime="bubblewrap")).available()) is not None:
        print(f"left out here: {problem}")
    else:
        (home / "regions.py").write_text(SCRIPT)
        threegate(
            "draft", "--backend", "ERA", "--command", "python3 /in/regions.py", "--input", str(home / "regions.py"),
            "--input", str(home / "sales.csv"), "--output", "/out/regions.csv", "--purpose", "Add up sales by region.",
            "--requested-by", "demo-agent", "--slug", "regions",
        )  # fmt: skip
        script = next((workspace / "inbox").glob("TR-*-regions.md"))
        threegate("approve", str(script), "--as", "operator", "--key", str(key), "--yes", "--reason", "demo")
        threegate("run", "--once")
        show_result(workspace, "regions")

    heading("the story of the trail")
    threegate("audit", "show")
    heading("and it proves itself")
    threegate("audit", "verify")
    print("\nthe trail verifies")


def show_result(workspace: Path, slug: str) -> None:
    """Print a result; end the demo if the request did not succeed."""
    result = next((workspace / "tool-exec" / "results").glob(f"TS-*-{slug}-*.md"))
    heading(f"the result file: {result.name}")
    print(result.read_text())
    if "status: succeeded" not in result.read_text():
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
