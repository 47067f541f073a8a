"""The screens of a drill are those of its source, but for the planted line, the id and times.

What is compared are the parts that terminal, application and page are made from, item by item, and the rendered lines:
the twenty of each run, the thousand in the long form.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.human.planted import era, monty
from threegate.approval.shown.escaped_lines import render_sections
from threegate.core.screen_parts import Item, Listing, Note, Quote, Section
from threegate.launch.context import Context
from threegate.plugins.drills.drill_plants import PLANTS
from threegate.plugins.drills.drills import drills_of
from threegate.plugins.drills.placed_drill import Drill
from threegate.request.model import Request
from threegate.request.reader import read_request
from threegate.request.render_draft import render_request
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import Draft, view_draft

FILES = {"day.json": b"[1, 2]", "rows.csv": b"a,b\n1,2\n", "keys.json": b"[9]"}
_FOLLOWS = {
    "host": {"reach", "network", "the command", ""},
    "input": {"input", "digest of", "", "reason", "TG332:"},
    "path": {"files out", "the command", "the code"},
    "network": {"the code", "the command", ""},
    "limit": {"limits"},
    "hidden": {"the code", "the command"},
}
"""Labels of the items that hold each kind of planted change. An input has its bytes below it, moves the line that a
warning names, and where it is the first one AANA says that something is read. A new host
is named under the line that says so.
"""


def digest(name: str) -> str:
    return hashlib.sha256(FILES[name]).hexdigest()


def sources() -> list[str]:
    """Everyday requests: embedded and in a container, with and without inputs, outputs and hosts."""
    inputs = {name: digest(name) for name in ("day.json", "rows.csv")}
    code = "rows = open('/in/rows.csv').read()\nfor row in rows.split():\n    print(row)\nprint('ready')"
    fetch = "curl -o /out/page.html https://reports.example.org/daily"
    return [
        monty("plain", "total = sum([1, 2])\nprint(total)"),
        monty("inputs", code, inputs=inputs, outputs=("/out/report.csv",)),
        era("fetch", fetch, "reports.example.org:443", outputs=("/out/page.html",)),
        era("python", "python3 -c 'import json; print(json.load(open(\"/in/day.json\")))'", inputs={"day.json": FILES["day.json"]}),  # noqa: E501
        era("table", "sort -o /out/sorted.csv /in/rows.csv", inputs={"rows.csv": FILES["rows.csv"]}, outputs=("/out/sorted.csv",)),  # noqa: E501
        era("mirror", "curl https://mirror.example.net/a", "mirror.example.net:443", "cdn.example.net:8443"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("drills")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        bench = make_bench(folder)
        bench.settings(runners__era__engine=f"unix://{folder}/none", runners__era__image=f"sha256:{'1' * 64}")
        for name, data in FILES.items():
            (bench.workspace.files / name).write_bytes(data)
            (bench.workspace.inputs / digest(name)).write_bytes(data)
        yield bench


def read(context: Context, text: bytes, name: str) -> Request:
    with context.trail.locked() as held:
        now = held.now
    found = read_request(text, path=name, settings=context.policy.settings.request, now=now, stage="draft")
    assert found.request is not None, [finding.message for finding in found.findings]
    return found.request


def sections_of(context: Context, draft: Draft) -> list[Section]:
    with view_draft(context, draft) as reviewed:
        return review_sections(reviewed, context.policy.settings, operator="alice")


def both(context: Context, source: Request, drill: Drill, data: bytes) -> tuple[list[Section], list[Section]]:
    """The screen of a request that is asked again under the id and name of its drill, and the drill's."""
    path = drill.listed(context.workspace)
    made = read(context, data, drill.name)
    again = replace(source, file_name=drill.name, request_id=drill.request_id, created_utc=made.created_utc)
    kept = (0, 0, 0, 0, 0)
    return (
        sections_of(context, Draft(path, render_request(again), kept, drill.owner)),
        sections_of(context, Draft(path, data, kept, drill.owner, drill)),
    )


def label(item: Item) -> str:
    match item:
        case Listing(head=head):
            return re.sub(r",? ?\d.*", "", head).strip(" :")
        case Note(text=text):
            return re.sub(r"\d+", "~", text)
        case Quote(head=head):
            return re.sub(r" line \d+", "", head)
        case _:
            return item.label


def plain(item: Item) -> tuple[str, str]:
    """An item without digests and times, which follow from any change."""
    return label(item), re.sub(r"[0-9a-f]{64}", "~", repr(item))


def differing(before: list[Section], after: list[Section]) -> set[str]:
    """The labels of all items that only one of both has, and the titles of sections that are not the same."""
    found = {section.title for section in before} ^ {section.title for section in after}
    for old in before:
        new = next((section for section in after if section.title == old.title), old)
        mine, theirs = Counter(map(plain, old.items)), Counter(map(plain, new.items))
        found |= {name for name, _ in (mine - theirs) + (theirs - mine)}
        if re.sub(r"\d+", "~", old.folded) != re.sub(r"\d+", "~", new.folded):
            found.add(f"folded {old.title}")
    return found


def all_drills(bench: Bench, seeds: range) -> Iterator[tuple[Request, Drill, bytes]]:
    context = bench.context
    texts = sources()
    requests = [read(context, text.encode(), f"TR-20260102-030405Z-s{n}.md") for n, text in enumerate(texts)]
    inputs = [item for request in requests for item in request.inputs]
    inputs.append(replace(inputs[0], name="keys.json", sha256=digest("keys.json")))
    for seed in seeds:
        source = requests[seed % len(requests)]
        for drill, data in drills_of(context, source, "inbox", 0, inputs, Random(seed)):
            yield source, drill, data


def check(bench: Bench, seeds: range, number: int) -> None:
    kinds: Counter[str] = Counter()
    context = bench.context
    for source, drill, data in all_drills(bench, seeds):
        before, after = both(context, source, drill, data)
        found = differing(before, after)
        assert found, f"{drill.planted}: {drill.line}: cannot be seen"
        assert found <= _FOLLOWS[drill.planted], (drill.planted, drill.line, found)
        for full in (False, True):
            lines = "\n".join(render_sections(after, width=80, full=full))
            assert "drill" not in lines
        kinds[drill.planted] += 1
        if sum(kinds.values()) == number:
            break
    assert sum(kinds.values()) == number and set(kinds) == set(PLANTS), kinds


@pytest.mark.slow
def test_twenty(bench: Bench) -> None:
    check(bench, range(12), 20)


@pytest.mark.soak
def test_a_thousand(bench: Bench) -> None:
    check(bench, range(1000), 1000)
