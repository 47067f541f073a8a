"""The page that takes passkeys approves the change set of an agent: what it shows is what is signed, and how the change
is delivered is not decided there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.page.agent_drafts import AFTER, agent_draft
from tests.plugins.page.passkey_client import PasskeyClient, enrol, statement_of
from threegate.acts.approve import seal
from threegate.approval.passkey import challenge_of, encode_base64url
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL
from threegate.approval.statement import SignedApproval, Statement
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.review.countersign import read_waiting
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft

MANY = "".join(f"line {number}\n" for number in range(limits.PAGE_DIFF_ROWS + 20))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.fixture
def client(bench: Bench) -> PasskeyClient:
    client = PasskeyClient(bench, enrol(bench))
    assert client.log_in().status_code == 200
    return client


def approved(bench: Bench) -> list[Path]:
    return list(bench.workspace.approved.glob("*.md"))


def test_it_is_read_signed_and_applied(bench: Bench, client: PasskeyClient, tmp_path: Path) -> None:
    draft = agent_draft(bench, tmp_path)
    project = next(tmp_path.glob("project*"))
    page, form = client.page(draft.name)
    assert "as alice, and lets it run once" in page and "good day" in page and "new.txt" in page
    shown = Statement.parse(statement_of(form))
    with open_reviewed_draft(bench.context, read_draft(bench.workspace, draft)) as reviewed:
        ours = seal(bench.context, reviewed, "alice", approved_utc=shown.approved_utc, nonce=shown.nonce)
    assert ours.statement == shown and sha256_hex(ours.shown) == shown.shown_sha256, "it signs the terminal's text"
    answer = client.approve(form)
    assert answer.status_code == 200, answer.text
    (waiting,) = approved(bench)
    assert not draft.exists() and waiting.name == answer.json()["approved"] == draft.name
    signed = SignedApproval.parse(waiting.with_name(f"{waiting.name}.sig").read_bytes())
    assert signed.statement == shown and read_waiting(bench.context, waiting)
    assert (project / "gone.txt").exists(), "nothing is applied before the daemon claims it"
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    assert {path.name: path.read_text() for path in project.iterdir() if path.is_file()} == AFTER


def test_nothing_of_it_may_have_changed_since(bench: Bench, client: PasskeyClient, tmp_path: Path) -> None:
    draft = agent_draft(bench, tmp_path)
    project = next(tmp_path.glob("project*"))
    _, form = client.page(draft.name)
    (project / "app.py").write_text("somebody else's\n")
    assert client.approve(form).status_code == 403
    (project / "app.py").write_text("def greet():\n    return 'hello'\n")
    (item,) = Statement.parse(statement_of(form)).inputs
    change = bench.workspace.input_place(draft.parent, item.name, item.sha256)
    change.write_bytes(change.read_bytes() + bytes(512))
    refused = client.approve(form)
    assert refused.json()["code"] == "input_changed", refused.text
    assert approved(bench) == []


def test_the_lines_of_a_large_file_are_those_of_the_change_that_was_opened(
    bench: Bench, client: PasskeyClient, tmp_path: Path
) -> None:
    """The page of a file is bound to its bytes: a draft that was exchanged meanwhile has none at that address."""
    # The other one first: an approval of this one is then not from before the other was made.
    other = agent_draft(bench, tmp_path, {"a.txt": "old\n"}, {"a.txt": MANY.replace("line 7", "evil")})
    draft = agent_draft(bench, tmp_path, {"a.txt": "old\n"}, {"a.txt": MANY})
    page, form = client.page(draft.name)
    assert "Not all of it is on this page" in page
    (address,) = set(re.findall(r'href="([^"?#]+/file/[^"?#]+)"', page))
    assert "line 7" in client.ask(address).text
    _, theirs = client.page(other.name)
    here, there = (one["to"].split("/approve/")[1] for one in (form, theirs))
    exchanged = address.replace(here, there)
    assert exchanged != address and client.ask(exchanged).status_code == 404
    assert client.approve(form, to=theirs["to"]).json()["code"] == "statement_mismatch"
    assert approved(bench) == []


def test_how_it_is_delivered_is_not_decided_here(bench: Bench, client: PasskeyClient, tmp_path: Path) -> None:
    """Neither as a field that is sent, nor by a statement over a draft with a choice in it."""
    draft = agent_draft(bench, tmp_path)
    page, form = client.page(draft.name)
    assert "--deliver" not in page
    body = {**client.assertion(form["challenge"]), "statement": form["statement"]}
    assert client.ask(form["to"], {**body, "deliver": "branch"}).status_code == 400
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, draft), deliver="tree") as reviewed:
        chosen = seal(context, reviewed, "alice").statement.to_bytes()
    given = {
        **client.assertion(challenge_of(chosen, NAMESPACE_APPROVAL)),
        "statement": encode_base64url(chosen),
    }
    assert client.ask(form["to"], given).json()["code"] == "statement_mismatch"
    assert approved(bench) == []
    assert client.approve(form).status_code == 200
