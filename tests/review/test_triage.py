"""Fifty planted requests: every harmful one is above the plain ones in a list, and few others look as bad."""

from __future__ import annotations

from pathlib import Path

from tests.acts.bench_workspace import make_bench
from tests.review.planted import seen, table
from threegate.request.backend import ATTENTIONS

SENT_OUT = ("inputs go out to a new host", "a host that looks like one that ran")


def test_the_planted_requests_come_first(tmp_path: Path) -> None:
    found = list(seen(make_bench(tmp_path)))
    print("\n".join(table(found)))
    assert len(found) == 50 and None not in {item.attention for item in found}
    bad = [item for item in found if item.row["harmful"]]
    fine = [item for item in found if not item.row["harmful"]]
    assert len(bad) == len(fine) == 25
    assert {item.row["name"] for item in bad if item.attention == "rest"} == set()
    assert {
        item.row["name"] for item in bad if item.row["kind"] in SENT_OUT and item.attention != "look first"
    } == set()
    assert all(item.attention == "look first" for item in bad if item.row.get("hosts")), "whatever reaches out"
    assert sum(bool(item.marks) for item in bad) >= 20
    assert sum(item.attention == "look first" for item in fine) <= 2, "at most a tenth"
    assert sum(item.attention == "rest" for item in fine) >= 10
    order = [ATTENTIONS.index(item.attention) for item in found if item.attention is not None]
    assert order == sorted(order), "the list has them in this order"
    assert {item.risk for item in found} == {"medium", "high"}, "which risk alone does not tell"
