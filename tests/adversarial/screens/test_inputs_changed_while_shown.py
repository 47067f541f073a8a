"""Attack: give an input its declared bytes while it is hashed, and harmless ones when a page shows it. A passkey signs
what its page showed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acts.bench_workspace import DATA, Bench, make_bench
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.review.reviewed_draft import read_draft, view_draft

HARMLESS = b"7\n8\n"
assert len(HARMLESS) == len(DATA)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def in_the_inbox_of_a_run(bench: Bench) -> Path:
    run = bench.workspace.agent_run("ar-20261122-101500z-0badcafe").make()
    draft = bench.draft()
    os.rename(bench.workspace.files / "data.csv", run.files / "data.csv")
    os.rename(draft, run.inbox / draft.name)
    return run.inbox / draft.name


@pytest.mark.parametrize("written", [True, False], ids=["written in place", "another file"])
@pytest.mark.parametrize("of_run", [True, False], ids=["of a run", "in the inbox"])
def test_an_input_that_changes_after_it_was_hashed(bench: Bench, of_run: bool, written: bool) -> None:
    path = in_the_inbox_of_a_run(bench) if of_run else bench.draft()
    place = path.parent / "files" / "data.csv"
    with view_draft(bench.context, read_draft(bench.workspace, path)) as reviewed:
        if not written:
            place.unlink()
        place.write_bytes(HARMLESS)
        (copy,) = reviewed.inputs
        with copy.open() as stream:
            assert stream.read() == DATA
    assert os.listdir(bench.workspace.inputs) == []


def test_an_input_without_end_is_not_read_for_a_page(bench: Bench) -> None:
    path = bench.draft()
    os.truncate(bench.workspace.files / "data.csv", limits.INPUT_FILE_BYTES + 1)
    shown = view_draft(bench.context, read_draft(bench.workspace, path))
    with pytest.raises(Refused, match=f"more than {limits.INPUT_FILE_BYTES} bytes") as caught, shown:
        pass
    assert caught.value.code == "input_changed"
