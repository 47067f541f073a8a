"""A project of which drills of change sets are made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.changes.applying import own
from tests.plugins.changes.trees_on_disk import Spec, build
from threegate.acts.signing_key import Acting
from threegate.plugins.changes.registered_projects import add_project
from threegate.plugins.drills.drills import place_drill, set_drills
from threegate.plugins.drills.kinds import DrillEnded
from threegate.plugins.drills.placed_drill import Drill
from threegate.trail.trail import Trail

SHOP: Spec = {
    "shop.py": '''"""A shop."""
from __future__ import annotations

import json

API = "https://api.example.com/v1"


# We don't round here, e.g. for gifts.
def total(rows):
    amount = 0
    for row in rows:
        if row["kind"] == "gift":
            continue
        amount += row["price"]
    return amount


def read_rows(path):
    with open(path) as stream:
        return json.load(stream)
''',
    "README.md": "# Shop\n\nThe shop isn't open yet, so it can't sell.\nSee https://shop.example.com/help\n",
    "tests/test_shop.py": "from shop import total\n\n\ndef test_total():\n    assert total([]) == 0\n",
    "Makefile": "# Tests run via make.\ntest:\n\tpytest -q\n",
    "package.json": '{\n  "scripts": {\n    "test": "jest"\n  }\n}\n',
    "start.sh": "#!/bin/sh\nset -e\npython3 shop.py\n",
    ".github/workflows/ci.yml": "on: push\njobs:\n  test:\n    steps:\n      - run: make test\n",
}


def with_project(folder: Path, files: Spec | None = None) -> tuple[Bench, Path]:
    """A workspace with the project `web`, whose operator said yes to drills, and the project's folder."""
    bench = make_bench(folder)
    project = own(build(folder / "web", SHOP if files is None else files))
    add_project(bench.workspace, "web", str(project), actor="test")
    set_drills(bench.context, Acting("alice", bench.keys["alice"]), on=True)
    return bench, project


def placed_change(bench: Bench, seed: int = 3) -> Drill:
    """A drill of a change set, which is open then."""
    drill = place_drill(bench.context, chance=Random(seed))
    assert drill is not None and drill.path
    return drill


def outcomes(bench: Bench) -> Sequence[str | None]:
    """How the drills ended."""
    said = (event.payload for event in Trail(bench.workspace).events())
    return [item.outcome for item in said if isinstance(item, DrillEnded)]
