"""A name that an agent chose so that it is also another request's: it picks neither, and the person names a file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.cli import execute
from threegate.core.errors import InvalidInput
from threegate.review.named_request import ANY, DRAFTS, ENDED, OPEN, TO_SIGN, find_draft, find_request


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def run(bench: Bench, *words: str) -> int:
    return execute(["--workspace", str(bench.workspace.root), *words])


def signed(bench: Bench, *words: str) -> int:
    return run(bench, *words, "--as", "alice", "--key", str(bench.keys["alice"]), "--yes")


def test_two_drafts_with_one_slug(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    honest = bench.draft("req-honest", slug="sum")
    planted = honest.with_name("TR-20260101-000000Z-sum.md")
    planted.write_text(bench.draft("req-planted", slug="other").read_text())
    for command in ("approve", "reject", "show"):
        assert run(bench, command, "sum") == 2
        said = capfd.readouterr()
        assert "sum: names 2 requests: " in said.err and honest.name in said.err and planted.name in said.err
        assert said.out == ""
    assert honest.exists() and planted.exists()
    assert find_draft(bench.workspace, honest.name) == find_draft(bench.workspace, "req-honest") == honest


@pytest.mark.parametrize("known", ["draft", "approved", "ended"])
def test_a_slug_that_is_the_id_of_another(bench: Bench, known: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = bench.draft("report-12", slug="mine")
    if known != "draft":
        path = bench.approve(path).path
    if known == "ended":
        assert run(bench, "cancel", "report-12") == 0
    planted = bench.draft("req-planted", slug="report-12")
    for among in (ANY, DRAFTS, TO_SIGN):
        with pytest.raises(InvalidInput, match="report-12: names 2 requests: "):
            find_request(bench.workspace, "report-12", among)
    assert signed(bench, "approve", "report-12") == run(bench, "reject", "report-12") == 2
    assert run(bench, "show", "report-12", "--as-approved") == 2
    assert planted.exists()


def test_nobody_can_keep_a_person_from_stopping_a_run_by_a_name(bench: Bench) -> None:
    """Drafts have any names, and what is no draft has its name from the trail."""
    waits = bench.approve(bench.draft("TR-mine", slug="mine")).path
    for slug in ("mine", "x"):
        bench.draft(f"req-{slug}", slug=slug)
    planted = bench.draft("req-planted", slug="again")
    planted.rename(planted.with_name("TR-mine.md"))
    planted = bench.draft("req-twin", slug="again")
    shutil.copy(planted, bench.workspace.refused / "TR-mine.md")
    planted.rename(planted.with_name(waits.name))
    for which in ("TR-mine", "mine", waits.name):
        assert find_request(bench.workspace, which, OPEN).path == waits
    assert run(bench, "cancel", "TR-mine") == 0
    assert not waits.exists()


def test_an_id_that_is_spelled_like_the_file_of_another(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    honest = bench.draft("req-honest", slug="sum")
    bench.draft(honest.name, slug="other")
    assert run(bench, "reject", honest.name) == 2
    assert str(honest) in capfd.readouterr().err, "the path is the name that is left"
    assert run(bench, "reject", str(honest)) == 0
    assert not honest.exists()


def test_the_path_of_a_draft_that_is_gone_is_no_name_of_another_inbox(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    path = bench.draft("req-1")
    other = bench.workspace.agent_run("ar-20260101-000000z-00000000").inbox
    other.mkdir(parents=True)
    shutil.move(path, other / path.name)
    for command in ("approve", "reject", "show", "cancel"):
        assert run(bench, command, str(path)) == 2
        assert f"{path}: not there; a draft of this name is {other / path.name}" in capfd.readouterr().err


def test_a_file_in_the_inbox_that_is_called_like_an_id_is_not_that_id(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may well type in the inbox, where an agent may write."""
    done = bench.approve(bench.draft("req-mine", slug="mine"))
    shutil.copy(bench.draft("req-planted", slug="other"), bench.workspace.inbox / "req-mine")
    monkeypatch.chdir(bench.workspace.inbox)
    assert find_request(bench.workspace, "req-mine").path == done.path


@pytest.mark.parametrize("which", ["sum", "req", "TR-"])
def test_what_nobody_sees_is_signed_by_a_whole_name_only(
    bench: Bench, which: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """An agent could put another draft of this slug there, a moment before `approve sum --yes`."""
    path = bench.draft("req-1", slug="sum")
    assert find_draft(bench.workspace, which) == path
    assert signed(bench, "approve", which) == 2
    assert f"{which}: unseen, only a whole id or file is signed: give {path.name}" in capfd.readouterr().err
    assert run(bench, "approve", which, "--print-statement", "--as", "alice") == 2
    assert path.exists() and signed(bench, "approve", "req-1") == 0


def test_an_ended_request_does_not_answer_for_a_draft_of_its_slug(bench: Bench) -> None:
    """The same report every week: what can be approved is the draft, what can be drafted again is the ended one."""
    first = bench.draft("req-1", slug="report")
    assert run(bench, "reject", "report") == 0
    ended = bench.workspace.refused / first.name
    again = bench.draft("req-2", slug="report").rename(bench.workspace.inbox / "TR-20260101-000000Z-report.md")
    assert find_request(bench.workspace, "report", TO_SIGN).path == again
    assert find_request(bench.workspace, "report", ENDED).path == ended
    with pytest.raises(InvalidInput, match="report: names 2 requests"):
        find_request(bench.workspace, "report")
