"""What runs keeps its whole card: `show` of a request in running/, from a real daemon's run that goes on."""

from __future__ import annotations

from tests.support import Place, monty_draft, request_id, wait_until

LINES = [f"line_{number} = {number}" for number in range(60)]
CODE = "\n".join([*LINES, "i = 0", "while True:", "    i += 1", ""])


def titles(text: str) -> list[str]:
    return [row for row in text.splitlines() if row.startswith("== ")]


def test_a_request_that_runs_is_shown_whole(place: Place) -> None:
    rid = request_id("shown")
    place.approve(place.drop(monty_draft(rid, CODE, time_sec=60)))
    before = place.run("show", rid, expect=0).out
    assert {"== REQUEST", "== WHAT RUNS", "== WALLS", "== WHAT THE REQUEST SAYS ABOUT ITSELF"} <= set(titles(before))
    daemon = place.daemon()
    try:
        wait_until(lambda: place.events("started") != [], "the run")
        shown = place.run("show", rid, expect=0).out
        assert f"/running/{rid}.md" in shown
        assert set(titles(before)) - set(titles(shown)) == {
            "== THE CHECKS OF A LAUNCH",
            "== WHAT THE JUDGEMENT WOULD SAY NOW",
        }, "it was judged and launched"
        assert all(f"| {line}\n" in shown for line in (*LINES, "while True:")), "nothing is left out"
        place.run("cancel", rid, "--wait", "60", expect=0)
        ended = place.run("show", rid, expect=0).out
        assert titles(ended) == [] and "--as-approved" in ended
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
