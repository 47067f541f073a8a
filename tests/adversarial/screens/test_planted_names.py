"""A draft that is named like another request: what is asked by an id is answered about that id."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.cli import execute
from threegate.review.named_request import TO_SIGN, find_request
from threegate.review.show import as_approved, show_request


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.mark.parametrize("approved", ["req-mine", "TR-mine"])
def test_a_planted_draft_does_not_answer_for_the_text_of_an_approved_request(bench: Bench, approved: str) -> None:
    bench.approve(bench.draft(approved, slug="mine", code="print(6 * 7)"))
    bench.approve(bench.draft("req-harmless", slug="harmless", code="print(1)"))
    planted = bench.draft("req-harmless", slug="again", code="print(1)")
    planted.rename(planted.with_name(f"{approved}.md"))
    assert b"print(6 * 7)" in as_approved(bench.workspace, approved)
    assert b"print(1)" in as_approved(bench.workspace, "req-harmless")


@pytest.mark.parametrize("name", ["req-mine", "TR-mine"])
def test_a_planted_draft_is_not_shown_for_an_id(bench: Bench, name: str) -> None:
    done = bench.approve(bench.draft(name, slug="mine"))
    planted = bench.draft("req-harmless", slug="again")
    planted.rename(planted.with_name(f"{name}.md"))
    shown = show_request(bench.workspace, name)
    assert (shown.request_id, shown.path) == (name, done.path)


def test_a_refused_file_with_the_name_of_another_request_does_not_stand_in_its_way(bench: Bench) -> None:
    """It may come from `retry` in the same second; whoever asks for a grant of the first one must find that one."""
    done = bench.approve(bench.draft("req-mine", slug="mine"))
    planted = bench.draft("req-other", slug="again")
    planted = planted.rename(planted.with_name(done.path.name))
    assert execute(["--workspace", str(bench.workspace.root), "reject", str(planted), "--reason", "no"]) == 0
    assert (bench.workspace.refused / done.path.name).exists()
    shown = show_request(bench.workspace, "req-mine")
    assert (shown.request_id, shown.path) == ("req-mine", done.path)
    assert [event["type"] for event in shown.events] == ["approved"]
    done.path.unlink()
    assert show_request(bench.workspace, "req-mine").path is None


@pytest.mark.parametrize("name", ["req-mine", "TR-mine"])
def test_a_planted_draft_is_not_signed_for_a_waiting_request(bench: Bench, name: str) -> None:
    """`approve ID` by a further operator is about what the first one signed."""
    done = bench.approve(bench.draft(name, slug="mine"))
    planted = bench.draft("req-harmless", slug="again")
    planted = planted.rename(planted.with_name(f"{name}.md"))
    for which in (name, str(done.path)):
        assert find_request(bench.workspace, which, TO_SIGN).path == done.path
    found = find_request(bench.workspace, str(planted), TO_SIGN)
    assert (found.path, found.state) == (planted, "draft"), "a path says which of them is meant"
    done.path.unlink()
    assert find_request(bench.workspace, name, TO_SIGN).path is None
