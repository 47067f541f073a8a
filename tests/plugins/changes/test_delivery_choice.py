"""Who approves may choose what a change becomes: what is signed holds the choice, and nothing else runs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.changes.branches import Branching, branching, edit
from tests.support import THREEGATE
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL


@pytest.fixture
def here() -> Iterator[Branching]:
    """A project whose setting is `tree`."""
    with branching({"app.py": "print(1)\n"}, deliver="tree") as made:
        yield made


def test_a_branch_where_the_setting_says_files(here: Branching) -> None:
    draft = here.propose(edit)
    done = here.approve(draft, "--deliver", "branch")
    assert re.search(r"or deliver +tree: threegate approve … --deliver tree", done.out)
    assert re.search(r"chosen +one commit on a new branch \(deliver: branch\)", done.out)
    approved = (here.place.root / "tool-exec" / "approved" / draft.name).read_text()
    assert '\ndeliver: "branch"\n' in approved.partition("\n---\n")[0] + "\n"
    here.place.once()
    assert (here.project / "app.py").read_text() == "print(1)\n"
    [branch] = here.branches()
    assert here.git("show", f"{branch}:app.py") == "print(2)\n"
    request_id = here.place.events("finished")[-1]["request_id"]
    here.place.run("project", "undo", request_id, "--as", "operator", "--key", str(here.place.key), "--yes", expect=0)
    assert here.branches() == []
    here.place.run("audit", "verify", expect=0)


def test_files_where_the_setting_says_a_branch() -> None:
    with branching({"app.py": "print(1)\n"}) as here:
        draft = here.propose(edit)
        here.approve(draft, "--deliver", "tree")
        here.place.once()
        assert here.branches() == [] and (here.project / "app.py").read_text() == "print(2)\n"
        request_id = here.place.events("finished")[-1]["request_id"]
        here.place.run(
            "project", "undo", request_id, "--as", "operator", "--key", str(here.place.key), "--yes", expect=0
        )
        assert (here.project / "app.py").read_text() == "print(1)\n"


def test_a_choice_that_is_refused_is_refused_before_the_signature(here: Branching) -> None:
    """And the draft can still be approved in the other way."""

    def filtered(work: Path) -> None:
        edit(work)
        (work / ".gitattributes").write_text("*.py filter=x\n")

    draft = here.propose(filtered)
    refused = here.approve(draft, "--deliver", "branch", expect=2)
    assert "app.py: has the filter 'x'" in " ".join(refused.err.split()) and draft.exists()
    refused = here.approve(draft, "--deliver", "commits", expect=2)
    assert "has no commits" in " ".join(refused.err.split())
    assert "must be tree, branch or commits" in here.approve(draft, "--deliver", "mail", expect=2).err
    here.approve(draft)
    here.place.once()
    assert (here.project / "app.py").read_text() == "print(2)\n"


@pytest.mark.slow
def test_a_signature_made_elsewhere_is_for_one_choice(here: Branching) -> None:
    """The statement names the bytes with the choice; with another choice it is about something else."""
    draft = here.propose(edit)
    asked = ("approve", str(draft), "--as", "operator", "--deliver", "branch", "--print-statement")
    statement = here.folder / "statement.json"
    done = subprocess.run([*THREEGATE, *asked], cwd=here.place.root, capture_output=True, check=True)
    statement.write_bytes(done.stdout)
    sign = ("ssh-keygen", "-Y", "sign", "-f", str(here.place.key), "-n", NAMESPACE_APPROVAL, str(statement))
    subprocess.run(sign, check=True, capture_output=True)
    deliver = ("approve", str(draft), "--signature", f"{statement}.sig", "--yes")
    for other in ((), ("--deliver", "tree")):
        refused = here.place.run(*deliver, *other, expect=2)
        assert "the statement differs in" in refused.err and "job_sha256" in refused.err
    here.place.run(*deliver, "--deliver", "branch", expect=0)
    here.place.once()
    assert len(here.branches()) == 1


def test_a_draft_that_is_made_again_has_no_choice(here: Branching) -> None:
    """The one who approves the new draft chooses again."""
    draft = here.propose(edit)
    here.approve(draft, "--deliver", "branch")
    (here.project / "mine").write_text("1\n")
    here.git("add", "mine")
    here.git("commit", "-qm", "mine")
    here.place.once()
    assert here.place.events("refused")[-1]["data"]["reason"] == "project_changed" and here.branches() == []
    here.place.run("draft", "--again", here.place.events("refused")[-1]["request_id"], expect=0)
    [again] = here.run.inbox.glob("TR-*.md")
    assert "deliver" not in again.read_text().partition("\n---\n")[0]
    here.approve(again)
    here.place.once()
    assert (here.project / "app.py").read_text() == "print(2)\n"
