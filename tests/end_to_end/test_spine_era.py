"""The whole way of ERA requests, in real containers."""

from __future__ import annotations

import json

import pytest

from tests.conftest import few
from tests.support import Place, era_draft, request_id

pytestmark = pytest.mark.engine

SCRIPT = b"""\
import argparse, csv, json
p = argparse.ArgumentParser()
p.add_argument('--in', dest='source')
p.add_argument('--out')
a = p.parse_args()
rows = list(csv.DictReader(open(a.source)))
json.dump({'rows': len(rows), 'total': sum(int(r['n']) for r in rows)}, open(a.out, 'w'))
print('rows', len(rows))
"""


def test_the_seeds_own_example_runs(era_place: Place) -> None:
    rid = request_id("era")
    inputs = {
        "script.py": era_place.input("script.py", SCRIPT),
        "input.csv": era_place.input("input.csv", b"n\n1\n2\n39\n"),
    }
    draft = era_place.drop(
        era_draft(
            rid,
            "python3 -u /in/script.py --in /in/input.csv --out /out/output.json",
            inputs=inputs,
            outputs=["/out/output.json"],
        )
    )
    era_place.approve(draft)
    era_place.once()
    text = era_place.result(rid)
    assert "status: succeeded" in text, text
    assert "rows 3" in text
    out = era_place.root / "tool-exec" / "runs" / rid / "out" / "output.json"
    assert json.loads(out.read_text()) == {"rows": 3, "total": 42}
    era_place.run("audit", "verify", expect=0)


@pytest.mark.parametrize(
    ("name", "script", "status"),
    few(
        [
            ("loop", b"while True: pass", "timed_out"),
            ("sleep", b"import time; time.sleep(3600)", "timed_out"),
            ("touch", b"a = []\nwhile True: a.append(bytearray(b'x') * 1_000_000)", "out_of_memory"),
            (
                "forks",
                (
                    b"import os, time\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(60)\n"
                    b"except OSError: raise SystemExit(7)"
                ),
                "process_limit",
            ),
            ("prints", b"import sys\nwhile True: sys.stdout.write('x' * 65536)", "output_exceeded"),
            ("files", b"for i in range(10_000): open(f'/out/{i}', 'w').write('x')", "output_exceeded"),
        ],
        1,
    ),
)
@pytest.mark.slow
def test_a_limit_ends_a_run_and_the_next_one_goes_on(era_place: Place, name: str, script: bytes, status: str) -> None:
    bad, good = request_id(f"bad-{name}"), request_id(f"good-{name}")
    sha = era_place.input("s.py", script)
    era_place.approve(
        era_place.drop(era_draft(bad, "python3 /in/s.py", inputs={"s.py": sha}, time_sec=5, memory_mb=64))
    )
    era_place.approve(era_place.drop(era_draft(good, "echo fine")))
    era_place.once()
    text = era_place.result(bad)
    assert f"status: {status}\n" in text, text
    assert "status: succeeded" in era_place.result(good)
