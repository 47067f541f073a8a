"""A group of requests the whole way: drafts, one decision with a real key, a real daemon, each runs once."""

from __future__ import annotations

import signal

import pytest

from tests.support import Place, monty_draft, request_id


@pytest.mark.slow
def test_a_batch_goes_the_whole_way(place: Place) -> None:
    ids = [request_id(f"part{number}") for number in range(3)]
    drafts = []
    for number, rid in enumerate(ids):
        sha = place.input("x.csv", f"{number}\n".encode())
        (place.root / "inbox" / "files" / "x.csv").rename(place.root / "inbox" / "files" / sha)
        text = monty_draft(
            rid,
            "print(n + int(open('/in/x.csv').read()))",
            inputs={"x.csv": sha},
            variables=f'{{"n": {10 * number}}}',
        )
        drafts.append(place.drop(text))
    daemon = place.daemon()
    try:
        for draft in drafts:
            place.wait_for(f"verdicts/{draft.name}.json")
        assert place.run("status", expect=0).out.count("3 drafts alike, decide together") == 1
        screen = place.run("approve", "--group", str(drafts[0]), "--key", str(place.key), "--yes", expect=0).out
        assert screen.count("all of input 1:") == 3 and "3 of 3 approved" in screen
        for draft in drafts:
            place.wait_for(f"finished/{draft.name}")
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=20)
    finally:
        daemon.kill()
    for number, rid in enumerate(ids):
        assert "status: succeeded" in place.result(rid) and str(11 * number) in place.result(rid)
        shown = place.run("show", "--as-approved", rid, expect=0).out
        assert rid in shown and f'"n": {10 * number}' in shown
    assert len(place.events("started")) == 3
    assert place.run("audit", "show", expect=0).out.count("in the batch") == 3
    place.run("audit", "verify", expect=0)
    place.run("audit", "report", "--out", "report.html", expect=0)
    assert "In the batch" in (place.root / "report.html").read_text()
