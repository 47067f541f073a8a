"""A row with a number stands only for drafts that nothing tells apart, however near another one's shape is."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.support import era_draft, monty_draft
from threegate.approval.shown.escaped_lines import GUTTER, cells
from threegate.review.asked import Asked
from threegate.review.group_shape import VaryingValue
from threegate.review.status import Line, status_lines
from threegate.review.status_screen import Entry, folded, list_rows, member_rows, screen_rows
from threegate.trail.payloads import Uses


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def drop(bench: Bench, slug: str, text: str) -> str:
    number = len(os.listdir(bench.workspace.inbox))
    name = f"TR-20261127-00{number // 60:02}{number % 60:02}Z-{slug}.md"
    (bench.workspace.inbox / name).write_text(text)
    return name


def fetching(number: int, host: str = "api.example.org") -> str:
    """A draft that reaches a host; the command is the same in each."""
    text = era_draft(f"net-{number}", "curl https://api.example.org/v1")
    allowed = f"network: allowlist\nnetwork_allowlist:\n  - {host}:443\n"
    text = text.replace("network: none\n", allowed).replace("of the whole way", f"of way {number}")
    return text.replace("- Data sens", "- Network rationale: it is fetched there\n- Data sens")


def months(bench: Bench, count: int = 3) -> list[str]:
    return [
        drop(bench, f"month-{n}", monty_draft(f"m-{n}", "print(n)", variables=json.dumps({"n": n})))
        for n in range(count)
    ]


def entries(bench: Bench) -> list[Entry]:
    return folded(status_lines(bench.workspace))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("api.example.org:443", "api.example.net:443"),
        ("api.example.org:443", "api.example.org:8443"),
        ("Risk level: low", "Risk level: high"),
        ("requested_by: core-agent", "requested_by: core-agents"),
        ("Data sensitivity: public", "Data sensitivity: internal"),
        ("time_limit_sec: 20", "time_limit_sec: 21"),
        ("org/v1", "org/v2"),
    ],
)
def test_the_one_that_is_nearly_alike_has_a_row_of_its_own(bench: Bench, was: str, becomes: str) -> None:
    """In the middle of 49 harmless ones, under a name and a purpose like theirs."""
    names: list[str] = []
    for number in range(50):
        text = fetching(number)
        assert was in text
        names.append(drop(bench, f"fetch-{number}", text.replace(was, becomes, 1) if number == 24 else text))
    found = {entry.count: entry for entry in entries(bench)}
    assert found.keys() == {1, 49} and found[1].line.file == names[24]
    assert found[1].line.asked is not None, "it is a valid request"
    rows = screen_rows(status_lines(bench.workspace), now=datetime.now(UTC), width=80, height=24)
    assert any(f"{GUTTER}fetch-24" in row or names[24] in row for row in rows)
    assert "".join(rows).count("49 ") == 1


def others(line: Line) -> list[Line]:
    """The line, different in one fact each: every field of what lists know of a request."""
    values: dict[str, Any] = {
        "state": "invalid",
        "reason": "x",
        "for_whom": "daemon",
        "under_grant": "g",
        "together": 9,
    }
    assert line.asked is not None and line.exposure is not None and line.asked.weighed is not None
    asked: dict[str, Any] = {
        **{"requester": "x", "vouched": True, "risk": "high", "backend": "ERA", "shape": "f" * 64},
        **{
            "weighed": replace(line.asked.weighed, uses=Uses(requester="x", urls=("evil.example",))),
            "attention": "rest",
        },
    }
    exposure = replace(line.exposure, reach=("network evil.example:443",))
    changed = [replace(line, **{name: value}) for name, value in values.items()]
    changed += [replace(line, exposure=exposure), replace(line, asked=replace(line.asked, exposure=exposure))]
    changed += [replace(line, entry=replace(line.entry, folder="drafts"))]
    may_differ = {"purpose", "values", "exposure"}
    assert {field.name for field in fields(Asked)} == asked.keys() | may_differ, "a new fact of a draft: add it here"
    may_differ = {"entry", "request_id", "output", "exposure", "asked"}
    assert {field.name for field in fields(Line)} == values.keys() | may_differ, "a new fact of a line: add it here"
    return changed + [replace(line, asked=replace(line.asked, **{name: value})) for name, value in asked.items()]


def test_every_fact_that_a_list_knows_keeps_drafts_apart(bench: Bench) -> None:
    months(bench)
    first, *rest = status_lines(bench.workspace)
    assert [entry.count for entry in folded([first, *rest])] == [3]
    for other in others(first):
        assert sorted(entry.count for entry in folded([*rest, other])) == [1, 2], other


def test_two_rows_of_one_shape_have_names_of_their_own(bench: Bench) -> None:
    months(bench, 4)
    lines = status_lines(bench.workspace)
    apart = [replace(line, reason="x") if number % 2 else line for number, line in enumerate(lines)]
    found = folded(apart)
    assert [entry.count for entry in found] == [2, 2] and len({entry.name for entry in found}) == 2
    assert all(entry.name.isascii() and entry.name.replace("-", "").isalnum() for entry in found)


def test_what_differs_comes_first_in_the_row_of_a_member(bench: Bench) -> None:
    months(bench, 12)
    (entry,) = entries(bench)
    rows = member_rows(entry, now=datetime.now(UTC), width=80)
    assert [row.split(GUTTER)[1] for row in rows] == [f"n = {n}  month-{n}" for n in range(11, -1, -1)]
    assert rows[0].startswith("  1 of 12 ") and rows[11].startswith("  12 of 12 ")
    assert len({row.index(GUTTER) for row in rows}) == 1
    assert "purpose" not in "".join(rows), "they all have the same one"


def test_values_of_members_are_foreign_and_a_secret_is_masked(bench: Bench) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    months(bench, 2)
    hostile = (f"n = {secret}", "== Needs you (0)\x1b[2J")
    lines = [
        replace(line, asked=replace(line.asked, values=(VaryingValue("value 1", text),)))
        for line, text in zip(status_lines(bench.workspace), hostile, strict=True)
        if line.asked is not None
    ]
    (entry,) = folded(lines)
    for width in (40, 80):
        rows = member_rows(entry, now=datetime.now(UTC), width=width)
        assert secret not in "".join(rows) and "== Needs you" in rows[1].partition(GUTTER)[2]
        assert all(row.isprintable() and cells(row) <= width for row in rows)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_list_that_scrolls_has_every_request_whole_if_there_is_room(bench: Bench, width: int) -> None:
    months(bench)
    for number in range(20):
        drop(bench, f"table-{number}", monty_draft(f"s-{number}", f"print({number})"))
    found = entries(bench)
    assert len(found) == 21
    now = datetime.now(UTC)
    short = list_rows(found, now=now, width=width, height=24)
    whole = list_rows(found, now=now, width=width, height=500)
    assert len(short) == len(whole) == 21 and all(len(rows) <= 3 for rows in short) and len(whole[0]) >= 3
    assert all(cells(row) <= width for rows in (*short, *whole) for row in rows)
    assert width == 40 or all(len(rows) == 1 for rows in short)
