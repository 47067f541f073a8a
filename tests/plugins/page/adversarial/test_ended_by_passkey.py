"""Refusing a draft and asking for changes on the page that takes passkeys: unsigned, so bound to the login, to a recent
use of its passkey, and to the draft that was shown.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.page.agent_drafts import agent_draft
from tests.plugins.page.passkey_client import PasskeyClient, enrol
from threegate.acts.operator import revoke_operator
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.launch.results.verdict import read_verdict, words_path
from threegate.trail.event import Event
from threegate.trail.payloads import Rejected
from threegate.trail.trail import Trail

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
LATER = limits.PASSKEY_VERIFIED_SECONDS + 1


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = make_bench(tmp_path)
    bench.draft("req-1", slug="one", data=None, code="print(1)")
    bench.draft("req-2", slug="two", data=None, code="print(2)")
    return bench


@pytest.fixture
def client(bench: Bench) -> PasskeyClient:
    client = PasskeyClient(bench, enrol(bench))
    assert client.log_in().status_code == 200
    return client


def form_of(client: PasskeyClient, part: str) -> dict[str, str]:
    """What the page of a draft has for ending it."""
    page, _ = client.page(part)
    found = re.search(r'<div id="unsigned"([^>]*)>', page)
    assert found is not None, page
    return dict(re.findall(r'data-([a-z]+)="([^"]*)"', found[1]))


def end(client: PasskeyClient, form: dict[str, str], act: str = "refuse", **changes: Any) -> httpx.Response:
    body = {"act": act, "draft": form["draft"], "words": "Not now.", "at": ""}
    headers, cookie, to = (changes.pop(name, None) for name in ("headers", "cookie", "to"))
    return client.ask(to or form["to"], {**body, **changes}, headers=headers, cookie=cookie is not False)


def verify(client: PasskeyClient, form: dict[str, str] | None = None, **changes: Any) -> httpx.Response:
    """Use the passkey once more within the login; `form` is an older answer with a nonce."""
    given = form or client.ask(f"{client.base}verify").json()
    return client.ask(
        f"{client.base}verify", {**client.assertion(given["challenge"], **changes), "nonce": given["nonce"]}
    )


def ended(bench: Bench) -> list[tuple[Event, Rejected]]:
    """The rejections in the trail."""
    found = ((event, Rejected.of(event)) for event in Trail(bench.workspace).events())
    return [(event, said) for event, said in found if said is not None]


def left(bench: Bench) -> set[str]:
    return {path.name[-6:-3] for path in bench.workspace.inbox.glob("*.md")}


def test_a_draft_is_refused_under_the_name_of_the_login(bench: Bench, client: PasskeyClient) -> None:
    page, _ = client.page("one")
    assert "It is not signed: the trail names alice" in page
    answer = end(client, form_of(client, "one"), words="Reads more than it needs.")
    assert answer.status_code == 200 and answer.json()["ended"].endswith("one.md"), answer.text
    ((event, said),) = ended(bench)
    assert (event.actor, event.request_id) == ("operator:alice", "req-1") and said.signed is None
    assert said.message == "Reads more than it needs." and left(bench) == {"two"}
    assert list(bench.workspace.approved.iterdir()) == []
    verdict = read_verdict(bench.workspace.requester_folders(said.owner), answer.json()["ended"])
    assert verdict is not None and verdict.state == "refused" and "Reads more" in str(verdict.reason)


def test_changes_of_a_change_set_are_asked_for(bench: Bench, client: PasskeyClient, tmp_path: Path) -> None:
    draft = agent_draft(bench, tmp_path)
    run = bench.workspace.run_of(draft.parent)
    answer = end(client, form_of(client, draft.name), "changes", words=f"Keep it. {TOKEN}\x1b[2J", at="app.py:2")
    assert answer.status_code == 200, answer.text
    ((event, said),) = ended(bench)
    assert event.actor == "operator:alice" and said.reason == "changes_requested" and said.words_sha256
    words = words_path(bench.workspace.requester_folders(run), said.words_sha256).read_text()
    assert "unsigned, from alice" in words and "at app.py, line 2:" in words and "Keep it." in words
    assert TOKEN not in words and "\x1b" not in words and "good day" not in words
    assert not draft.exists()


def test_one_that_cannot_be_approved_can_be_refused(bench: Bench, client: PasskeyClient) -> None:
    path = next(bench.workspace.inbox.glob("*one.md"))
    path.write_text(path.read_text().replace("purpose: Sum", "purpose: \u202eSum"))
    page, signing = client.page("one")
    assert not signing and "gate 1 refuses it" in page
    form = form_of(client, "one")
    assert end(client, form, "changes").status_code == 422, "it has no request to change"
    assert end(client, form).status_code == 200 and left(bench) == {"two"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "https://approve.example.org:9443"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_another_page_ends_nothing(bench: Bench, client: PasskeyClient, headers: dict[str, str], status: int) -> None:
    form = form_of(client, "one")
    for act in ("refuse", "changes"):
        assert end(client, form, act, headers=headers).status_code == status
    given = client.ask(f"{client.base}verify").json()
    body = {**client.assertion(given["challenge"]), "nonce": given["nonce"]}
    assert client.ask(f"{client.base}verify", body, headers=headers).status_code == status
    assert ended(bench) == [] and left(bench) == {"one", "two"}


def test_without_the_cookie_nothing_ends(bench: Bench, client: PasskeyClient) -> None:
    form = form_of(client, "one")
    assert end(client, form, cookie=False).status_code == 403
    assert client.ask(f"{client.base}verify", cookie=False).status_code == 403
    stolen = client.cookie
    client.cookie = stolen.partition("=")[0] + "=guessed"
    assert end(client, form).status_code == 403 and verify_fails(client)
    client.cookie = stolen
    client.clock.now += limits.PAGE_SESSION_SECONDS + 1
    assert end(client, form).status_code == 403
    assert ended(bench) == []


def verify_fails(client: PasskeyClient) -> bool:
    form = client.login_form()
    body = {**client.assertion(form["challenge"]), "nonce": form["nonce"]}
    return client.ask(f"{client.base}verify", body).status_code == 403


def test_an_old_use_of_the_passkey_is_not_enough(bench: Bench, client: PasskeyClient) -> None:
    form = form_of(client, "one")
    client.clock.now += LATER
    old = end(client, form)
    assert old.status_code == 403 and old.json()["verify"] is True and "at most 5 minutes" in old.json()["error"]
    assert ended(bench) == []
    assert verify(client).status_code == 200
    assert end(client, form).status_code == 200 and left(bench) == {"two"}


def test_an_assertion_that_was_held_back_counts_from_its_nonce(bench: Bench, client: PasskeyClient) -> None:
    form = form_of(client, "one")
    held = client.ask(f"{client.base}verify").json()
    client.clock.now += limits.PASSKEY_LOGIN_SECONDS - 1
    assert verify(client, held).status_code == 200
    client.clock.now += 2
    assert end(client, form).json()["verify"] is True and ended(bench) == []


def test_a_nonce_works_once(bench: Bench, client: PasskeyClient) -> None:
    form = form_of(client, "one")
    given = client.ask(f"{client.base}verify").json()
    assert verify(client, given).status_code == 200
    client.clock.now += limits.PASSKEY_LOGIN_SECONDS - 1
    assert verify(client, given).json()["code"] == "expired"
    login = client.login_form()
    body = {**client.assertion(login["challenge"]), "nonce": login["nonce"]}
    assert client.ask(f"{client.base}verify", body).status_code == 200, "a login's assertion confirms the same"
    assert client.ask("/page/login", body).json()["code"] == "expired", "and then no longer logs in"
    client.clock.now += LATER
    assert end(client, form).status_code == 403 and ended(bench) == []


@pytest.mark.parametrize("changes", [{"flags": 0x01}, {"origin": "https://evil.example"}])
def test_a_passkey_that_did_not_check_who_uses_it(bench: Bench, client: PasskeyClient, changes: dict[str, Any]) -> None:
    form = form_of(client, "one")
    client.clock.now += LATER
    assert verify(client, **changes).status_code == 403
    assert end(client, form).status_code == 403 and ended(bench) == []


def test_the_login_of_another_operator(bench: Bench, client: PasskeyClient) -> None:
    bench.operator("bob")
    passkey = enrol(bench, "bob", b"credential-2")
    form = form_of(client, "one")
    client.clock.now += LATER
    assert verify(client, passkey=passkey).json()["code"] == "statement_mismatch"
    alice = client.base, client.cookie
    assert client.log_in(passkey).status_code == 200
    assert end(client, form).status_code == 403, "bob's cookie opens nothing of alice's"
    bobs = form["to"].replace(alice[0], client.base)
    assert end(client, form, to=bobs).status_code == 200
    assert [event.actor for event, _ in ended(bench)] == ["operator:bob"]
    client.base, client.cookie = alice
    assert end(client, form_of(client, "two")).json()["verify"] is True, "bob's passkey confirmed nothing for alice"


def test_a_passkey_that_was_revoked_ends_nothing(bench: Bench, client: PasskeyClient) -> None:
    form = form_of(client, "one")
    revoke_operator(bench.workspace, client.passkey.key.fingerprint, actor="test")
    assert end(client, form).json()["code"] == "signer_revoked" and ended(bench) == []


def test_one_login_ends_a_bounded_number(bench: Bench, client: PasskeyClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PASSKEY_UNSIGNED_ACTS", 1)
    one, two = form_of(client, "one"), form_of(client, "two")
    assert end(client, one, words=" ").status_code == 422, "which counts nothing"
    assert end(client, one).status_code == 200
    assert verify(client).status_code == 200
    refused = end(client, two)
    assert refused.status_code == 403 and "at most 1 drafts; log in again" in refused.json()["error"]
    assert left(bench) == {"two"}
    assert client.log_in().status_code == 200
    assert end(client, form_of(client, "two")).status_code == 200


def test_it_is_the_draft_that_was_shown(bench: Bench, client: PasskeyClient) -> None:
    form = form_of(client, "one")
    path = next(bench.workspace.inbox.glob("*one.md"))
    path.write_text(path.read_text().replace("print(1)", "print(9)"))
    assert form["draft"] != sha256_hex(path.read_bytes())
    for act in ("refuse", "changes"):
        assert end(client, form, act).json()["code"] == "request_changed"
    assert end(client, form, to=form_of(client, "two")["to"]).json()["code"] == "request_changed"
    assert ended(bench) == []


@pytest.mark.parametrize("act", ["refuse", "changes"])
def test_what_the_words_may_be(bench: Bench, client: PasskeyClient, act: str) -> None:
    form = form_of(client, "one")
    for words in ("", " \n", "w" * (17 * limits.KIB)):
        assert end(client, form, act, words=words).status_code == 422, words[:9]
    assert end(client, form, act, words="w" * limits.PASSKEY_REQUEST_BYTES).status_code == 413
    assert end(client, form, "approve").status_code == 400
    assert end(client, form, act, more="x").status_code == 400
    assert end(client, form, act, words=7).status_code == 400
    assert end(client, form, "changes", at="a\u202eb").status_code == 422
    assert end(client, form, "refuse", at="a").status_code == 400
    assert ended(bench) == [] and left(bench) == {"one", "two"}
    assert end(client, form, act, words=f"No: {TOKEN}").status_code == 200
    everything = b"".join(path.read_bytes() for path in bench.workspace.root.rglob("*") if path.is_file())
    assert len(ended(bench)) == 1 and TOKEN.encode() not in everything


def test_a_second_end_and_other_folders(bench: Bench, client: PasskeyClient) -> None:
    form = form_of(client, "one")
    assert end(client, form).status_code == 200
    assert end(client, form).status_code == 404
    refused = re.sub("/end/[^/]+/", "/end/refused/", form["to"])
    assert end(client, form, to=refused).status_code == 422, "it is no draft any more"
    assert len(ended(bench)) == 1


def test_looking_changes_nothing(bench: Bench, client: PasskeyClient) -> None:
    form = form_of(client, "one")
    assert client.ask(form["to"]).status_code == 405
    for _ in range(10):
        assert client.ask(f"{client.base}verify").status_code == 200
    client.clock.now += LATER
    assert end(client, form).json()["verify"] is True and ended(bench) == []
