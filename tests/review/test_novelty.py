"""What is new about a draft stands beside the signed text, only warns, and decides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, make_bench, once
from tests.review.planted import as_if_run, planted
from threegate import cli
from threegate.acts.approve import seal
from threegate.core import limits
from threegate.core.screen_parts import Fact, Field, Note
from threegate.request.exposure import Exposure
from threegate.review.asked import AskedReader
from threegate.review.attention import MarkKind, Weighed, attention_of
from threegate.review.novelty import PastReader, card_items, kept_uses, uses_of, warnings_of
from threegate.review.reviewed_draft import ReviewedDraft, open_reviewed_draft, read_draft, view_draft
from threegate.review.screen import render_reviewed_draft
from threegate.review.status import Line, status_lines
from threegate.trail.index import KnownRun, TrailIndex
from threegate.trail.past_uses import PastUses
from threegate.trail.payloads import Approved, Uses

RATES = {"backend": "ERA", "text": "curl -sS https://api.example.com/rates", "hosts": ["api.example.com"]}
FAKE = {"backend": "ERA", "text": "curl -sS https://api.examp1e.com/rates", "hosts": ["api.examp1e.com"]}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@contextmanager
def viewed(bench: Bench, path: Path) -> Iterator[ReviewedDraft]:
    with view_draft(bench.context, read_draft(bench.workspace, path)) as reviewed:
        yield reviewed


def card(bench: Bench, path: Path) -> list[str]:
    with viewed(bench, path) as reviewed:
        settings = bench.context.policy.settings
        return render_reviewed_draft(reviewed, settings, operator="alice", width=200, full=True)


def attention(bench: Bench, path: Path) -> str:
    (line,) = (line for line in status_lines(bench.workspace) if line.entry.path == path)
    assert line.asked is not None
    return line.asked.attention


def test_a_run_of_the_daemon_is_what_later_drafts_are_compared_with(bench: Bench) -> None:
    first = bench.draft("req-1", slug="one")
    lines = card(bench, first)
    assert "  new          first request of this requester" in lines
    assert not [line for line in lines if "input folder" in line], "nobody knows where a file of the inbox came from"
    bench.approve(first)
    again = bench.draft("req-2", slug="two")
    assert "  new          first request of this requester" in card(bench, again), "approved is not run"
    assert attention(bench, again) == "look"
    once(bench)
    assert not [line for line in card(bench, again) if line.startswith("  new")]
    assert attention(bench, again) == "rest"
    other = bench.draft("req-3", slug="three", requested_by="else")
    assert "  new          first request of this requester" in card(bench, other)


def test_a_run_that_fails_counts_for_nothing(bench: Bench) -> None:
    bench.approve(bench.draft("req-1", slug="one", code="raise ValueError('no')"))
    once(bench)
    assert "  new          first request of this requester" in card(bench, bench.draft("req-2", slug="two"))


def test_what_is_signed_is_the_same_with_marks_without_and_with_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_if_run(bench, {**RATES, "ran": 12}, 0)
    path = planted(bench, FAKE, "fake")
    context = bench.context

    def sealed() -> tuple[str, str, int]:
        with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
            signed = [seal(context, one, "alice", nonce="0" * 32).statement for one in (reviewed, bare(reviewed))]
            assert signed[0].shown_sha256 == signed[1].shown_sha256 and signed[0].job_sha256 == signed[1].job_sha256
            return str(signed[0].shown_sha256), signed[0].job_sha256, len(reviewed.novelty.marks)

    shown, job, marks = sealed()
    assert marks == 2
    monkeypatch.setattr(PastUses, "by", broken)
    assert sealed() == (shown, job, 1)


def bare(reviewed: ReviewedDraft) -> ReviewedDraft:
    return replace(reviewed, novelty=replace(reviewed.novelty, marks=()))


def broken(*_: object, **__: object) -> Any:
    raise RuntimeError("broken")


BREAKS: list[tuple[object, str]] = [
    (PastUses, "by"), (PastUses, "by_all"), (PastUses, "copy"), (PastUses, "hosts"),
    ("threegate.review.novelty", "PastHosts"), ("threegate.review.novelty", "uses_of"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "name"), BREAKS)
def test_an_error_is_one_line_and_takes_nothing_else_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: object, name: str
) -> None:
    as_if_run(bench, {**RATES, "ran": 1}, 0)
    path = planted(bench, FAKE, "fake")
    before = card(bench, path)
    if isinstance(where, str):
        monkeypatch.setattr(f"{where}.{name}", broken)
    else:
        monkeypatch.setattr(where, name, broken)
    after = card(bench, path)
    assert "  new          novelty unknown: what ran before could not be read, so nothing is compared" in after
    marked = ("new", "looks like", "host  ", "LOOK CLOSELY", "first time", "this host")
    left = [line for line in before if not line.strip().startswith(marked) and "| curl" not in line]
    assert set(left) - {"              | api.examp1e.com", "== WARNINGS", ""} <= set(after)
    bench.approve(path)


def test_a_broken_reader_leaves_the_list_and_nothing_is_called_harmless(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_if_run(bench, {**RATES, "ran": 9}, 0)
    inputs = {"data.csv": "1\n"}
    path = planted(bench, {**RATES, "inputs": inputs}, "known")
    assert attention(bench, path) == "look"
    monkeypatch.setattr(PastUses, "copy", broken)
    assert attention(bench, path) == "look first", "unknown counts as new"
    plain = planted(bench, {"backend": "monty", "text": "print(1)"}, "plain")
    assert attention(bench, plain) == "look"


def test_a_list_waits_for_nobody_who_holds_the_trail(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEALTH_WAIT_SECONDS", 0.05)
    path = planted(bench, {"backend": "monty", "text": "print(1)"}, "plain")
    with bench.context.trail.locked():
        assert attention(bench, path) == "look"


def test_a_list_that_is_made_again_reads_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAST_READ_SECONDS", 0.0)
    reader = AskedReader(bench.workspace)

    def now() -> Line:
        (line,) = status_lines(bench.workspace, reader=reader)
        return line

    path = planted(bench, RATES, "net")
    assert now().to_json()["attention"] == "look"
    hidden = path.rename(path.with_suffix(".aside"))
    as_if_run(bench, {"backend": "ERA", "text": "curl -sS https://api.example.org/", "ran": 9,
                      "hosts": ["api.example.org"]}, 0)  # fmt: skip
    hidden.rename(path)
    assert now().to_json()["attention"] == "look first", "its host looks like one that ran since"


def test_nothing_is_ever_called_known_and_a_draft_without_marks_has_no_line(bench: Bench) -> None:
    as_if_run(bench, {**RATES, "ran": 5}, 0)
    lines = card(bench, planted(bench, RATES, "again"))
    assert not [line for line in lines if line.startswith("  new")]
    with viewed(bench, planted(bench, {**FAKE, "requested_by": "else"}, "fake")) as reviewed:
        text = " ".join(mark.text for mark in reviewed.novelty.marks)
    assert "with others it ran 5 times" in text
    for word in ("known", "usual", "safe", "trusted", "familiar"):
        assert word not in text, word


def test_a_few_runs_of_a_host_are_told_with_their_dates(bench: Bench) -> None:
    as_if_run(bench, {**RATES, "ran": 2}, 0)
    path = planted(bench, RATES, "again")
    with viewed(bench, path) as reviewed:
        (mark,) = reviewed.novelty.marks
        today = f"{reviewed.now:%Y-%m-%d}"
    assert (mark.kind, mark.names) == ("few", (("", "api.example.com"),))
    assert mark.text == f"this host ran 2 times, last on {today}"


def test_a_hostile_name_is_foreign_text(bench: Bench) -> None:
    as_if_run(bench, {**RATES, "ran": 4}, 0)
    path = planted(bench, FAKE, "fake")
    with viewed(bench, path) as reviewed:
        marks = reviewed.novelty.marks
    items = [*card_items(marks), *(item for warning in warnings_of(marks) for item in warning)]
    ours = [f"{item.label} {item.value}" if isinstance(item, Fact) else item.text
            for item in items if isinstance(item, Fact | Note)]  # fmt: skip
    assert not [text for text in ours if "example" in text or "examp1e" in text]
    assert [item.value for item in items if isinstance(item, Field)] == [
        "api.examp1e.com", "api.examp1e.com", "api.example.com"
    ]  # fmt: skip
    lines = card(bench, path)
    assert [line for line in lines if "examp1e" in line and "|" not in line] == []


def test_the_bytes_of_a_program_among_the_inputs_are_part_of_its_name(bench: Bench) -> None:
    tool = {"backend": "ERA", "text": "/in/tool --go", "inputs": {"tool": "ELF 1"}}
    as_if_run(bench, {**tool, "ran": 3}, 0)
    with viewed(bench, planted(bench, tool, "same")) as reviewed:
        assert [mark.kind for mark in reviewed.novelty.marks] == []
    with viewed(bench, planted(bench, {**tool, "inputs": {"tool": "ELF 2"}}, "other")) as reviewed:
        assert [mark.kind for mark in reviewed.novelty.marks] == ["program"]


def test_addresses_in_a_script_among_the_inputs_are_compared(bench: Bench) -> None:
    script = "import urllib.request\nurllib.request.urlopen('https://one.example.org/')\n"
    row = {"backend": "ERA", "text": "python3 /in/x.py", "inputs": {"x.py": script}}
    with viewed(bench, planted(bench, row, "script")) as reviewed:
        assert ("url", (("", "one.example.org"),)) in [(mark.kind, mark.names) for mark in reviewed.novelty.marks]


def test_an_agents_run_is_its_agent_with_its_project(bench: Bench) -> None:
    path = planted(bench, {"backend": "monty", "text": "print(1)"}, "plain")
    with viewed(bench, path) as reviewed:
        request, settings = reviewed.request, bench.context.policy.settings
    run = KnownRun("run-1", "claude", "anna", "billing")
    uses = uses_of(request, request.action, Exposure(), owner="run-1", run=run, settings=settings)
    assert (uses.requester, uses.folders) == ("anna, agent claude", ("project billing",))
    named = settings.but(requesters={"7": "report-bot"})
    assert uses_of(request, request.action, Exposure(), owner=7, run=None, settings=named).requester == "report-bot"
    reader = PastReader(bench.workspace)
    assert reader.run(7) is None
    unknown = reader.run("run-9")
    assert unknown is not None and unknown.requester == "run-9"


def test_what_the_trail_could_not_keep_word_for_word_stays_new() -> None:
    secret = "ghp_" + "a1B2" * 9
    uses = kept_uses(
        Uses(requester="core", hosts=("a" * 250, secret, "fine.example"), urls=tuple(f"{n:0150}" for n in range(60)),
             program=secret, folders=("inbox",))
    )  # fmt: skip
    assert (uses.hosts, uses.program) == (("fine.example",), None)
    assert sum(map(len, uses.urls or ())) <= limits.USES_CHARS
    assert kept_uses(Uses(requester=secret)).requester is None


def test_an_approval_keeps_what_its_request_uses(bench: Bench) -> None:
    bench.approve(planted(bench, RATES, "net"))
    with bench.context.trail.locked() as held:
        (history,) = held.index.histories()
        approved = Approved.of(history.approved)
    assert approved is not None and approved.uses is not None
    assert (approved.uses.hosts, approved.uses.program) == (("api.example.com",), "curl")
    assert str(approved.uses.requester).startswith("core-agent (as the file of uid ")


@pytest.mark.parametrize(
    ("facts", "marks", "found"),
    [
        ({}, [], "rest"),
        ({"reaches": True}, [], "look"),
        ({"opaque": True}, [], "look"),
        ({"reaches": True, "secrets": True}, [], "look"),
        ({"stands_out": True}, [], "look"),
        ({"gives": True}, [], "rest"),
        ({}, ["program"], "look"),
        ({}, ["unknown"], "look"),
        ({}, ["look-alike"], "look first"),
        ({"opaque": True, "reaches": True}, [], "look first"),
        ({"reaches": True, "gives": True}, [], "look"),
        ({"reaches": True, "gives": True}, ["host"], "look first"),
        ({"reaches": True, "gives": True}, ["few"], "look first"),
        ({"reaches": True, "gives": True}, ["url"], "look"),
        ({"reaches": True, "gives": True}, ["unknown"], "look first"),
        ({"reaches": True, "secrets": True}, ["requester"], "look first"),
        ({"inside": "rest"}, [], "rest"),
        ({"inside": "rest", "stands_out": True}, [], "look"),
        ({"inside": "look"}, [], "look"),
        ({"inside": "look first"}, [], "look first"),
        ({"inside": "rest"}, ["look-alike"], "look first"),
    ],
)
def test_the_class_of_a_draft(facts: dict[str, Any], marks: list[MarkKind], found: str) -> None:
    nothing: dict[str, Any] = dict.fromkeys(("opaque", "reaches", "secrets", "gives", "stands_out"), False)
    weighed = Weighed(Uses(requester="core", hosts=("a.example",)), **{**nothing, **facts})
    assert attention_of(weighed, marks) == found


def test_status_as_json_has_the_class(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    planted(bench, RATES, "net")
    assert cli.execute(["-w", str(bench.workspace.root), "status", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["requests"]
    assert (row["attention"], row["risk"]) == ("look", "medium")


def test_an_index_without_counts_is_made_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRAIL_INDEX_LINES", 3)
    as_if_run(bench, {**RATES, "ran": 4}, 0)
    header: Callable[..., dict[str, Any]] = TrailIndex.to_header

    def without(self: TrailIndex, *arguments: Any) -> dict[str, Any]:
        return {key: value for key, value in header(self, *arguments).items() if key != "uses"}

    with monkeypatch.context() as patched:
        patched.setattr(TrailIndex, "to_header", without)
        as_if_run(bench, {**RATES, "ran": 2}, 1)
    with bench.context.trail.locked() as held:
        assert held.index.uses.runs == 6
