"""The page that takes passkeys shows a drill as any draft, and no approval of it is made, not even to be signed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.plugins.changes.applying import picture
from tests.plugins.drills.project_drills import outcomes, placed_change, with_project
from tests.plugins.page.adversarial.test_links_in_notices import TAPPED, link_to, log_in
from tests.plugins.page.passkey_client import PasskeyClient, data_of, enrol, statement_of
from threegate.approval.passkey import challenge_of, encode_base64url
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL
from threegate.approval.statement import Statement
from threegate.plugins.drills.placed_drill import Drill, drills_folder
from threegate.plugins.page.commands import commands
from threegate.plugins.page.draft_links import DraftLinks
from threegate.review.overview import entries
from threegate.review.request_view import view_request
from threegate.trail.trail import Trail


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace with a project, in which drills are on."""
    return with_project(tmp_path)[0]


@pytest.fixture
def drill(bench: Bench) -> Drill:
    return placed_change(bench)


@pytest.fixture
def client(bench: Bench) -> PasskeyClient:
    client = PasskeyClient(bench, enrol(bench))
    assert client.log_in().status_code == 200
    return client


def ended(client: PasskeyClient, form: dict[str, str], drill: Drill, **body: str) -> str:
    """What the page answers when its script ends what it shows."""
    to = form["to"].replace("/approve/", "/end/")
    answer = client.ask(to, {"draft": drill.request_sha256, "at": "", "words": "Why?", **body})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["told"])


def test_it_is_listed_and_shown_as_any(bench: Bench, drill: Drill, client: PasskeyClient) -> None:
    real = bench.draft("req-2", slug="real")
    text = client.ask(f"{client.base}list/drafts").text
    assert real.name in text and drill.name in text
    page, form = client.page(drill.name)
    other, real_form = client.page(real.name)
    assert form.keys() == real_form.keys() and drill.path in page
    assert "drill" not in page.replace(str(bench.workspace.root), "").casefold()
    assert ('id="unsigned"' in page) and ('id="unsigned"' in other)


def test_a_yes_is_a_miss_and_signs_no_approval(bench: Bench, drill: Drill, client: PasskeyClient) -> None:
    project = bench.workspace.root.parent / "web"
    before, (_, form) = picture(project), client.page(drill.name)
    with pytest.raises(ValueError):
        Statement.parse(statement_of(form))
    answer = client.approve(form)
    assert answer.status_code == 200 and "this was a drill: you missed it" in answer.json()["told"], answer.text
    assert drill.line in answer.json()["told"] and outcomes(bench) == ["missed"]
    assert picture(project) == before and list(drills_folder(bench.workspace).iterdir()) == []
    assert client.approve(form).status_code == 404, "it is over"
    taken = (event.payload for event in Trail(bench.workspace).events() if event.request_id == drill.request_id)
    assert list(taken) == []


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({"act": "refuse"}, "caught"),
        ({"act": "changes"}, "caught"),
        ({"act": "changes", "at": "PLANTED:2"}, "caught"),
        ({"act": "changes", "at": "elsewhere.py"}, "missed"),
    ],
)
def test_what_ends_it_unsigned_is_counted(
    bench: Bench, drill: Drill, client: PasskeyClient, body: dict[str, str], outcome: str
) -> None:
    _, form = client.page(drill.name)
    given = {name: value.replace("PLANTED", drill.path) for name, value in body.items()}
    assert f"you {outcome} it" in ended(client, form, drill, **given)
    assert outcomes(bench) == [outcome] and not list(bench.workspace.verdicts.glob(f"*{drill.request_id}*"))


@pytest.mark.parametrize(
    ("wrong", "status", "code"),
    [
        ("other draft", 403, "statement_mismatch"),
        ("other name", 403, "statement_mismatch"),
        ("old", 403, "expired"),
        ("no time", 400, None),
        ("time before all times", 400, None),
        ("not signed", 400, None),
        ("as an approval", 403, "signature_invalid"),
    ],
)
def test_another_statement_decides_nothing(
    bench: Bench, drill: Drill, client: PasskeyClient, wrong: str, status: int, code: str | None
) -> None:
    _, form = client.page(drill.name)
    said = json.loads(statement_of(form))
    changes = {
        "other draft": {"draft": "0" * 64},
        "other name": {"by": "bob"},
        "old": {"shown_utc": "2026-01-01T00:00:00+00:00"},
        "no time": {"shown_utc": "soon"},
        "time before all times": {"shown_utc": "0001-01-01T00:00:00+23:59"},
    }
    statement = json.dumps({**said, **changes.get(wrong, {})}, sort_keys=True, separators=(",", ":")).encode()
    body = {**client.assertion(form["challenge"]), "statement": encode_base64url(statement)}
    if wrong == "not signed":
        body["signature"] = encode_base64url(b"0" * 70)
    if wrong == "as an approval":
        body |= client.assertion(challenge_of(statement, NAMESPACE_APPROVAL))
    answer = client.ask(form["to"], body)
    assert (answer.status_code, answer.json().get("code")) == (status, code) and outcomes(bench) == [], answer.text


def test_who_is_not_logged_in_decides_nothing(bench: Bench, drill: Drill, client: PasskeyClient) -> None:
    page, form = client.page(drill.name)
    body = {**client.assertion(form["challenge"]), "statement": form["statement"]}
    assert data_of(page) == form
    assert client.ask(form["to"], body, cookie=False).status_code == 403 and outcomes(bench) == []


@pytest.mark.slow
def test_the_commands_of_the_page_that_shows_it_say_nothing(bench: Bench, drill: Drill) -> None:
    (entry,) = entries(bench.workspace, "drafts")
    said = [str(item.line) for item in commands(bench.workspace, entry, view_request(bench.context, entry))]
    assert said and not [text for text in said if "drill" in text.replace(str(bench.workspace.root), "").casefold()]


def test_a_link_in_a_notice_leads_to_it_as_to_any(bench: Bench, drill: Drill, client: PasskeyClient) -> None:
    """One that led nowhere would give it away."""
    bench.settings(notify__link=True)
    (entry,) = entries(bench.workspace, "drafts")
    link = link_to(bench, entry.path)
    DraftLinks(bench.workspace).end_old(keep=True)
    to = log_in(client, link).json()["to"]
    assert drill.path in client.ask(to).text
    assert "caught" in ended(client, data_of(client.ask(to).text), drill, act="refuse")
    assert client.ask(link, headers=TAPPED).status_code == 404
    DraftLinks(bench.workspace).end_old(keep=True)
    assert list(bench.workspace.control.glob("draft-link-*")) == []
