"""The whole way of Monty requests: drop, verdict, approve, run once, result, trail."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.conftest import few
from tests.support import Place, monty_draft, request_id

CODE = """\
import json
numbers = json.loads(open('/in/numbers.json').read())
print('sum of', len(numbers))
open('/out/sorted.json', 'w').write(json.dumps(sorted(numbers)))
{'sum': sum(numbers), 'factor': factor * 2}
"""


def test_a_request_goes_the_whole_way(place: Place) -> None:
    rid = request_id("sum")
    data = b"[3, 1, 2]"
    sha = place.input("numbers.json", data)
    draft = place.drop(
        monty_draft(rid, CODE, inputs={"numbers.json": sha}, variables='{"factor": 21}', outputs=["/out/sorted.json"])
    )
    place.run("validate", str(draft), expect=0)
    place.once()
    verdict = place.verdict(draft.name)
    assert (verdict["schema"], verdict["state"], verdict["valid"]) == ("threegate.verdict/1", "draft", True)
    place.approve(draft)
    assert not draft.exists()
    assert (place.root / "tool-exec" / "inputs" / sha).read_bytes() == data
    place.once()
    text = place.result(rid)
    assert "status: succeeded" in text
    assert "sum of 3" in text
    run = place.root / "tool-exec" / "runs" / rid
    assert json.loads((run / "out" / "sorted.json").read_text()) == [1, 2, 3]
    assert json.loads((run / "out" / "result.json").read_text()) == {"sum": 6, "factor": 42}
    assert hashlib.sha256((run / "out" / "sorted.json").read_bytes()).hexdigest() in text
    assert (place.root / "tool-exec" / "finished" / draft.name).exists()
    assert place.verdict(draft.name)["state"] == "finished"
    kinds = [event["type"] for event in place.events() if event["request_id"] == rid]
    assert [kind for kind in kinds if kind != "validated"] == [
        "approved",
        "cleared",
        "claimed",
        "started",
        "finished",
    ]
    assert place.run("audit", "verify", expect=0)
    assert rid in place.run("audit", "show", expect=0).out
    assert rid in place.run("status", "--results", expect=0).out
    assert place.run("show", rid, "--result", expect=0).out.strip() == text.strip()
    assert rid in place.run("status", "--ended", "20", expect=0).out
    shown = place.run("show", rid, expect=0).out
    assert "succeeded" in shown


def test_a_second_pass_runs_nothing_again(place: Place) -> None:
    rid = request_id("once")
    place.approve(place.drop(monty_draft(rid, "1 + 1")))
    place.once()
    place.once()
    place.once()
    assert len(place.events("started")) == 1
    assert len(place.results()) == 1


@pytest.mark.parametrize(
    ("name", "code", "status"),
    few(
        [
            ("loop", "while True: pass", "timed_out"),
            ("memory", "x = 'a' * 10_000_000_000", "out_of_memory"),
            ("sleep", "import time\nfor i in range(3600):\n    time.sleep(1)", "timed_out"),
            ("prints", "for i in range(1_000_000):\n    print('x' * 1000)", "output_exceeded"),
            ("files", "for i in range(10_000):\n    open(f'/out/{i}', 'w').write('x')", "output_exceeded"),
            ("raise", "raise ValueError('no')", "failed"),
        ],
        2,
    ),
)
def test_a_limit_ends_a_run_and_the_next_one_goes_on(place: Place, name: str, code: str, status: str) -> None:
    bad, good = request_id(f"bad-{name}"), request_id(f"good-{name}")
    seconds = 2 if status == "timed_out" else 20
    place.approve(place.drop(monty_draft(bad, code, time_sec=seconds, memory_mb=64)))
    place.approve(place.drop(monty_draft(good, "40 + 2")))
    place.once()
    assert f"status: {status}\n" in place.result(bad)
    assert "status: succeeded" in place.result(good)
    place.run("audit", "verify", expect=0)
