"""Who signs chooses what a change becomes, once: neither the agent nor a file on the disk decides it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.plugins.changes.branches import Branching, branching, edit
from tests.support import Done


@pytest.fixture
def here() -> Iterator[Branching]:
    with branching({"app.py": "print(1)\n"}, deliver="tree") as made:
        yield made


def test_a_draft_that_chooses_is_refused(here: Branching) -> None:
    draft = here.propose(edit)
    text = draft.read_text()
    for line in ("deliver: branch", 'deliver: "tree"', "deliver: [branch]"):
        draft.write_text(text.replace("backend: apply\n", f"backend: apply\n{line}\n"))
        assert "TG177" in here.approve(draft, expect=2).err
    draft.write_text(text.replace("backend: apply\n", "backend: apply\ndeliver:\n"))
    here.approve(draft, "--deliver", "branch")
    assert (here.place.root / "tool-exec" / "approved" / draft.name).read_text().count("deliver") == 1


def test_a_choice_that_is_changed_after_the_signature_runs_nothing(here: Branching) -> None:
    draft = here.propose(edit)
    here.approve(draft, "--deliver", "branch")
    approved = here.place.root / "tool-exec" / "approved" / draft.name
    signed = approved.read_text()
    for other in ('deliver: "tree"\n', 'deliver: "commits"\n', ""):
        approved.chmod(0o600)
        approved.write_text(signed.replace('deliver: "branch"\n', other))
        ran = here.place.run("run", "--once")
        assert here.branches() == [] and (here.project / "app.py").read_text() == "print(1)\n", ran
        if not approved.exists():
            return  # refused for good at the first of them
    pytest.fail("the changed approval was not refused")


def test_one_draft_is_approved_in_one_way_only(here: Branching) -> None:
    """Two people approve it at once, each in another way: one approval counts, and one delivery is made."""
    draft = here.propose(edit)
    done: dict[str, Done] = {}

    def approve(way: str) -> None:
        done[way] = here.place.run(
            "approve", str(draft), "--as", "operator", "--key", str(here.place.key), "--yes", "--deliver", way
        )

    racing = [threading.Thread(target=approve, args=(way,)) for way in ("tree", "branch")]
    for one in racing:
        one.start()
    for one in racing:
        one.join()
    [won] = [way for way, result in done.items() if result.code == 0]
    assert len(here.place.events("approved")) == 1
    here.place.once()
    as_files = (here.project / "app.py").read_text() == "print(2)\n"
    assert (as_files, len(here.branches())) == ((True, 0) if won == "tree" else (False, 1))
