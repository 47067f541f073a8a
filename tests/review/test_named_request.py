"""A request is found by id, file, slug or a unique beginning, and what is elsewhere is not called missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.cli import execute
from threegate.core.errors import InvalidInput
from threegate.review.named_request import DRAFTS, OPEN, find_draft, find_request
from threegate.trail.trail import Trail


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def run(bench: Bench, *words: str) -> int:
    return execute(["--workspace", str(bench.workspace.root), *words])


@pytest.mark.parametrize("state", ["draft", "approved", "refused"])
def test_each_kind_of_name_in_each_state(bench: Bench, state: str) -> None:
    path = bench.draft("daily-2026-x1", slug="sum")
    bench.draft("other-1", slug="mean")
    if state != "draft":
        path = bench.approve(path).path
    if state == "refused":
        assert run(bench, "cancel", "sum") == 0
        path = bench.workspace.refused / path.name
    stem = path.name.removesuffix(".md")
    for which in (path.name, stem, "daily-2026-x1", "sum", "daily", "dai", str(path), f"tool-exec/../{path}"[13:]):
        found = find_request(bench.workspace, which)
        assert (found.path, found.request_id, found.state) == (path, "daily-2026-x1", state), which


def test_a_beginning_is_unique_and_not_too_short(bench: Bench) -> None:
    bench.draft("report-12", slug="sum")
    path = bench.draft("report-13", slug="mean")
    with pytest.raises(InvalidInput, match="report: names 2 requests"):
        find_draft(bench.workspace, "report")
    assert find_draft(bench.workspace, "mea") == path
    for which in ("me", "", "r"):
        with pytest.raises(InvalidInput):
            find_draft(bench.workspace, which)


def test_a_whole_name_comes_before_what_begins_with_it(bench: Bench) -> None:
    path = bench.draft("report-1", slug="sum")
    bench.draft("report-12", slug="sums")
    assert find_draft(bench.workspace, "report-1") == find_draft(bench.workspace, "sum") == path


def test_the_ids_of_a_saved_index_have_beginnings_too(bench: Bench) -> None:
    done = bench.approve(bench.draft("daily-2026-x1", slug="sum"))
    with Trail(bench.workspace).locked() as held:
        assert held.index.ids_beginning("daily") == ["daily-2026-x1"]
        assert held.index.ids_beginning("daily-2026-x2") == held.index.ids_beginning("\udcff") == []
    assert find_request(bench.workspace, "daily", OPEN).path == done.path


def test_many_are_not_all_listed(bench: Bench) -> None:
    for number in range(8):
        bench.draft(f"report-{number}", slug=f"sum-{number}")
    with pytest.raises(InvalidInput, match=r"names 8 requests: .* and 3 more; give one of these") as caught:
        find_draft(bench.workspace, "report")
    assert str(caught.value).count("(draft)") == 5


@pytest.mark.parametrize(("which", "meant"), [("smu", "sum"), ("report-21", "report-12"), ("sums", "sum")])
def test_what_was_probably_meant(bench: Bench, which: str, meant: str, capfd: pytest.CaptureFixture[str]) -> None:
    bench.draft("report-12", slug="sum")
    assert run(bench, "show", which) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"threegate: {which}: no such request here; did you mean {meant}") and said.count("\n") == 1


@pytest.mark.parametrize("command", ["approve", "reject"])
def test_the_path_of_a_draft_that_was_decided_on(bench: Bench, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = bench.draft("req-1")
    assert run(bench, "reject", "req-1", "--reason", "Too wide.") == 0
    capfd.readouterr()
    for which in (str(path), path.name, "req-1"):
        assert run(bench, command, which) == 2
        said = capfd.readouterr().err
        assert f"{which}: was decided on already: rejected" in said and "Too wide." in said
        assert f"now {bench.workspace.refused / path.name}; see: threegate show req-1" in said


def test_the_path_of_a_draft_that_was_approved(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    path = bench.draft("req-1")
    done = bench.approve(path)
    assert run(bench, "reject", str(path)) == 2
    said = capfd.readouterr().err
    assert f"was approved already, now {done.path}; see: threegate show req-1" in said
    assert run(bench, "show", str(path)) == 0, "it is shown where it is now"
    assert run(bench, "draft", "--again", str(path)) == 0
    assert run(bench, "validate", "req-1") == 0
    capfd.readouterr()
    assert run(bench, "draft", "--again", "req-1.r2") == 2
    assert "is a draft: " in capfd.readouterr().err


def test_a_relative_path_is_one_of_the_workspace_too(bench: Bench, tmp_path: Path) -> None:
    path = bench.draft()
    assert find_draft(bench.workspace, f"inbox/{path.name}").samefile(path)


def test_no_file_and_no_name_of_a_request(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(bench, "show", "inbox/notes.txt") == 2
    assert "inbox/notes.txt: no such file; " in capfd.readouterr().err
    assert run(bench, "validate", "inbox/notes.txt") == 2
    assert run(bench, "validate", "notes.md") == 3, "a file that cannot be read, as outside of a workspace"
    assert run(bench, "show", "inbox/TR-none.md") == 2
    assert "no such request here" in capfd.readouterr().err


def test_several_at_a_time(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    for slug in ("sum", "mean", "max"):
        bench.draft(f"req-{slug}", slug=slug)
    words = ["--as", "alice", "--key", str(bench.keys["alice"]), "--yes"]
    assert run(bench, "approve", "req-sum", "req-mean", "req-sum", *words) == 0
    assert len(list(bench.workspace.approved.glob("*.md"))) == 2
    assert run(bench, "show", "sum", "mean") == 0
    assert run(bench, "--json", "show", "sum", "nothing", "mean") == 2
    assert run(bench, "approve", "sum", "mean", "--group") == run(bench, "show", "sum", "max", "--follow") == 64
    assert run(bench, "cancel", "sum", "mean", "--reason", "no") == 0
    assert run(bench, "cancel", "sum", "max") == 2, "one has ended, the other is a draft"
    assert list(bench.workspace.approved.glob("*.md")) == []
    with pytest.raises(InvalidInput, match="was decided on already: cancelled"):
        find_draft(bench.workspace, "sum")
    assert find_request(bench.workspace, "max", DRAFTS).request_id == "req-max"


def test_a_failure_of_one_does_not_stop_the_others(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = bench.draft("req-1", slug="sum"), bench.draft("req-2", slug="mean")
    first.write_text(first.read_text().replace("backend: monty", "backend: none"))
    words = ["--as", "alice", "--key", str(bench.keys["alice"]), "--yes"]
    assert run(bench, "approve", first.name, second.name, *words) == 2
    assert [path.name for path in bench.workspace.approved.glob("*.md")] == [second.name]
    assert first.exists()


def test_approve_alone_off_a_terminal_says_what_to_give(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--yes"], ["--group"]):
        assert run(bench, "approve", *more) == 64
        said = capfd.readouterr()
        assert said.out == "" and said.err == (
            "threegate: give the id, file or slug of a draft; threegate status lists them\n"
        )
