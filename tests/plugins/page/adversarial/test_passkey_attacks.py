"""Attacks on the page that takes passkeys: other sites, other requests, replays, and a passkey that wants to be
more.
"""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.approval.soft_passkey import SoftPasskey
from tests.conftest import slow
from tests.plugins.page.page_client import Clock
from tests.plugins.page.passkey_client import HOST, ORIGIN, PasskeyClient, data_of, enrol, statement_of
from threegate.acts.operator import record_operators, revoke_operator
from threegate.acts.signed_acts import checked_act, sign_act
from threegate.acts.signing_key import Acting
from threegate.approval.passkey import challenge_of, encode_base64url
from threegate.approval.ssh_wire import NAMESPACE_ACT, NAMESPACE_APPROVAL, NAMESPACE_LOGIN
from threegate.approval.statement import Act, Statement, render_signed
from threegate.cli import execute
from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput, Refused
from threegate.plugins.page.access import Challenges
from threegate.plugins.page.page_login import enrolling, leave_passkey, new_code, new_enrolment, passkey_made
from threegate.plugins.page.page_templates import HEADERS, PASSKEY_HEADERS
from threegate.plugins.page.passkeys import PASSKEY_ACT, MadePasskey, enrol_passkey, read_made_passkey


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.fixture
def client(bench: Bench) -> PasskeyClient:
    bench.draft("req-1", slug="one", data=None, code="print(1)")
    bench.draft("req-2", slug="two", data=None, code="print(2)")
    client = PasskeyClient(bench, enrol(bench))
    assert client.log_in().status_code == 200
    return client


def approved(client: PasskeyClient) -> list[str]:
    return sorted(path.name[-6:-3] for path in client.bench.workspace.approved.glob("*.md"))


def test_one_is_approved_and_once(client: PasskeyClient) -> None:
    page, form = client.page("one")
    assert "as alice, and lets it run once" in page and "print(1)" in page
    answer = client.approve(form)
    assert answer.status_code == 200, answer.text
    assert approved(client) == ["one"]
    again = client.approve(form)
    assert again.status_code == 404, "the draft is gone"
    (client.bench.workspace.approved / answer.json()["approved"]).rename(
        client.bench.workspace.inbox / answer.json()["approved"]
    )
    assert client.approve(form).status_code == 403, "its id was used"


def test_a_statement_for_another_request(client: PasskeyClient) -> None:
    _, one = client.page("one")
    _, two = client.page("two")
    wrong = client.approve(one, to=two["to"])
    assert wrong.status_code == 403 and wrong.json()["code"] == "statement_mismatch"
    swapped = client.ask(one["to"], {**client.assertion(two["challenge"]), "statement": one["statement"]})
    assert swapped.status_code == 403 and swapped.json()["code"] == "signature_invalid"
    assert approved(client) == []


def test_a_draft_that_changed_since_it_was_shown(client: PasskeyClient) -> None:
    _, form = client.page("one")
    path = next(client.bench.workspace.inbox.glob("*one.md"))
    path.write_text(path.read_text().replace("print(1)", "print(9)"))
    refused = client.approve(form)
    assert refused.status_code == 403 and refused.json()["code"] == "statement_mismatch"
    assert approved(client) == []


def test_another_policy_or_operators_since(client: PasskeyClient) -> None:
    _, form = client.page("one")
    client.bench.settings(approval__ttl="2h")
    assert client.approve(form).json()["code"] == "statement_mismatch"
    _, form = client.page("one")
    file = client.bench.workspace.operators_file
    file.write_bytes(file.read_bytes() + b"# more\n")
    assert client.approve(form).json()["code"] == "operators_changed"
    assert approved(client) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": "https://approve.example.org"},
        {"origin": "https://approve.example.org:9443"},
        {"origin": "https://evil.example"},
        {"flags": 0x01},
        {"flags": 0x04},
    ],
)
def test_assertions_of_elsewhere_or_of_nobody(client: PasskeyClient, changes: dict[str, object]) -> None:
    _, form = client.page("one")
    answer = client.approve(form, **changes)
    assert answer.status_code == 403 and approved(client) == []
    assert client.log_in(**changes).status_code == 403


def test_another_passkey_than_the_one_logged_in(client: PasskeyClient) -> None:
    client.bench.operator("bob")
    bob = enrol(client.bench, "bob", b"credential-2")
    _, form = client.page("one")
    assert client.approve(form, passkey=bob).json()["code"] == "statement_mismatch"
    lying = {**client.assertion(form["challenge"], bob), "credential": client.passkey.passkey.credential}
    assert client.ask(form["to"], {**lying, "statement": form["statement"]}).json()["code"] == "signature_invalid"
    theirs = replace(Statement.parse(statement_of(form)), approved_by="bob").to_bytes()
    body = {
        **client.assertion(challenge_of(theirs, NAMESPACE_APPROVAL)),
        "statement": encode_base64url(theirs),
    }
    assert client.ask(form["to"], body).json()["code"] == "statement_mismatch"
    assert approved(client) == []


def test_a_login_is_no_approval_and_works_once(client: PasskeyClient) -> None:
    form = client.login_form()
    body = {**client.assertion(form["challenge"]), "nonce": form["nonce"]}
    assert client.ask("/page/login", body).status_code == 200
    assert client.ask("/page/login", body).json()["code"] == "expired", "a replay"
    late = client.login_form()
    client.clock.now += limits.PASSKEY_LOGIN_SECONDS + 1
    assert client.ask("/page/login", {**client.assertion(late["challenge"]), "nonce": late["nonce"]}).json()["code"] == "expired"  # fmt: skip  # noqa: E501
    _, draft = client.page("one")
    statement = statement_of(draft)
    login = client.assertion(challenge_of(statement, NAMESPACE_LOGIN))
    assert client.ask(draft["to"], {**login, "statement": draft["statement"]}).json()["code"] == "signature_invalid"
    crossed = client.login_form()
    wrong = client.assertion(draft["challenge"])
    assert client.ask("/page/login", {**wrong, "nonce": crossed["nonce"]}).status_code == 403


def test_no_number_of_pages_expires_a_login(client: PasskeyClient) -> None:
    """Whoever loads the login page, or answers it with nonsense, takes nothing from the operator who has it open."""
    mine = client.login_form()
    answer = {**client.assertion(mine["challenge"]), "nonce": mine["nonce"]}
    for _ in range(limits.PASSKEY_LOGINS + 4):
        assert client.ask("/page/").status_code == 200
    stranger = SoftPasskey(credential=b"other")
    for _ in range(3):
        wrong = {**client.assertion(mine["challenge"], stranger), "nonce": mine["nonce"]}
        assert client.ask("/page/login", wrong).json()["code"] == "signer_unknown"
    assert client.ask("/page/login", answer).status_code == 200
    assert client.ask("/page/login", answer).json()["code"] == "expired", "it works once"


def test_a_challenge_that_was_not_made_here(client: PasskeyClient, bench: Bench) -> None:
    """Signed by the operator's passkey and of the right form, but of another process, made up, or changed."""
    other = PasskeyClient(bench, client.passkey)
    theirs = other.login_form()["nonce"]
    moment, words, mac = client.login_form()["nonce"].split(".")
    later = f"{int(moment, 16) + 60_000:x}"
    for nonce in (
        theirs, f"{later}.{words}.{mac}", f"0{moment}.{words}.{mac}", f"{moment}.{'0' * 32}.{mac}", f"{moment}.{words}",
        f"{moment}.{words}.{'0' * 64}", f"{moment}.{words}.{mac} ", f"{moment}.{words}.{mac}\n", "", "0" * 32,
    ):  # fmt: skip
        statement = canonical.canonical_bytes({"type": "threegate-login/1", "origin": ORIGIN, "nonce": nonce})
        body = {**client.assertion(challenge_of(statement, NAMESPACE_LOGIN)), "nonce": nonce}
        assert client.ask("/page/login", body).json()["code"] == "expired", nonce
    statement = canonical.canonical_bytes({"type": "threegate-login/1", "origin": ORIGIN, "nonce": theirs})
    body = {**client.assertion(challenge_of(statement, NAMESPACE_LOGIN)), "nonce": theirs}
    assert other.ask("/page/login", body).status_code == 200, "where it was made it is a login"


def test_one_challenge_logs_in_once_however_many_answer_at_a_time() -> None:
    challenges = Challenges(time.monotonic)
    challenge = challenges.make()
    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(lambda _: challenges.is_valid(challenge) and challenges.use(challenge), range(64))) == 1


def test_what_was_used_is_remembered_until_it_expires_and_no_longer() -> None:
    clock = Clock()
    challenges = Challenges(clock)
    used = [challenges.make() for _ in range(limits.PASSKEY_LOGINS)]
    assert all(challenges.use(text) for text in used) and not any(challenges.use(text) for text in used)
    assert not challenges.use(challenges.make()), "more than operators log in"
    clock.now += limits.PASSKEY_LOGIN_SECONDS
    assert challenges.is_valid(used[0]) and not challenges.use(used[0])
    clock.now += 0.1
    assert not challenges.is_valid(used[0]) and challenges.use(challenges.make()) and len(challenges._used) == 1


def test_a_stranger_and_a_revoked_one(client: PasskeyClient) -> None:
    assert client.log_in(SoftPasskey(credential=b"other")).json()["code"] == "signer_unknown"
    assert client.log_in(SoftPasskey(credential=b"credential-1")).json()["code"] == "signature_invalid"
    _, form = client.page("one")
    revoke_operator(client.bench.workspace, client.passkey.key.fingerprint, actor="test")
    assert client.approve(form).json()["code"] == "signer_revoked"
    assert client.ask(client.base).status_code == 503, "what is shown ends with the passkey"
    assert client.ask(client.base).status_code == 403
    assert client.log_in().json()["code"] == "signer_revoked"
    assert approved(client) == []


def test_without_its_pin_nobody_approves(client: PasskeyClient) -> None:
    """Deleted by hand, even when somebody then records the files as they are."""
    _, form = client.page("one")
    client.bench.workspace.passkeys_file.unlink()
    assert client.approve(form).json()["code"] == "operators_changed"
    with pytest.raises(InvalidInput, match="operators.passkeys does not pin"):
        record_operators(client.bench.workspace, actor="test")
    with pytest.raises(Refused, match="does not pin"):
        client.bench.approve(next(client.bench.workspace.inbox.glob("*two.md")))


def test_a_pin_that_was_moved_to_another_site(client: PasskeyClient) -> None:
    file = client.bench.workspace.passkeys_file
    file.write_text(file.read_text().replace(ORIGIN, "https://approve.example.org:9443"))
    assert client.log_in().json()["code"] == "operators_changed"
    record_operators(client.bench.workspace, actor="test")
    assert client.log_in().json()["code"] == "signer_unknown", "it is not for this page any more"


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [(["--yes"], 64, "No such option: --yes"), ([], 2, "compare the passkey's fingerprint")],
)
def test_none_is_enrolled_that_nobody_compared(
    bench: Bench, more: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever had the link may have left a passkey first: only a person at the terminal sees that it is another one."""
    bench.settings(approval__passkey_origin=ORIGIN)
    given = ["operator", "passkey", "--as", "alice", "--key", str(bench.keys["alice"]), *more]
    assert execute(["-w", str(bench.workspace.root), *given]) == code
    assert words in capsys.readouterr().err
    assert not any(bench.workspace.control.glob("passkey-*")), "no link was made"


def test_it_signs_no_act_and_enrols_nobody(client: PasskeyClient) -> None:
    """With everything right but that it is a passkey."""
    context = client.bench.context
    other = SoftPasskey(credential=b"credential-9")
    made = MadePasskey(other.key, other.passkey)
    signed = sign_act(context, Acting("alice", client.bench.keys["alice"]), PASSKEY_ACT, made.about("alice"))
    act = Act.parse(signed.partition(b"\n")[0], PASSKEY_ACT)
    data = replace(act, nonce="a" * 32).to_bytes()
    for namespace in (NAMESPACE_ACT, NAMESPACE_APPROVAL, NAMESPACE_LOGIN):
        with pytest.raises(Refused) as refused:
            enrol_passkey(context, "alice", made, render_signed(data, client.passkey.sign(data, namespace)))
        assert refused.value.code == "signature_invalid"
        with context.trail.locked() as held, pytest.raises(Refused):
            checked_act(context, held, render_signed(data, client.passkey.sign(data, namespace)), PASSKEY_ACT, made.about("alice"))  # fmt: skip  # noqa: E501
    enrol_passkey(context, "alice", made, signed)
    with pytest.raises(Refused) as refused:
        enrol_passkey(context, "alice", made, signed)
    assert refused.value.code == "replayed"


def test_nobody_enrols_for_another(bench: Bench) -> None:
    bench.operator("bob")
    bench.settings(approval__passkey_origin=ORIGIN)
    passkey = SoftPasskey()
    made = MadePasskey(passkey.key, passkey.passkey)
    signed = sign_act(bench.context, Acting("alice", bench.keys["alice"]), PASSKEY_ACT, made.about("bob"))
    with pytest.raises(Refused, match="bob's own SSH key"):
        enrol_passkey(bench.context, "bob", made, signed)
    with pytest.raises(Refused, match="about something else"):
        enrol_passkey(bench.context, "alice", made, signed)
    mine = sign_act(bench.context, Acting("alice", bench.keys["alice"]), PASSKEY_ACT, made.about("alice"))
    bench.settings(approval__passkey_origin="https://approve.example.org:9443")
    with pytest.raises(Refused, match="passkey_origin"):
        enrol_passkey(bench.context, "alice", made, mine)
    assert not bench.workspace.passkeys_file.exists()


def test_an_enrolment_link_works_once_and_for_its_person(client: PasskeyClient, bench: Bench) -> None:
    code = new_enrolment(bench.workspace, "alice")
    page = client.ask(f"/page/enrol/{code}").text
    assert "Make a passkey for alice" in page and data_of(page)["name"] == "alice"
    fresh = SoftPasskey(credential=b"fresh")
    body = {"credential": fresh.passkey.credential, "public_key": encode_base64url(fresh.spki)}
    assert passkey_made(bench.workspace, code) is None
    answer = client.ask(f"/page/enrol/{code}", body)
    assert answer.json() == {"fingerprint": fresh.key.fingerprint}
    assert client.ask(f"/page/enrol/{code}", body).json()["code"] == "expired"
    assert client.ask(f"/page/enrol/{code}").status_code == 403
    data = passkey_made(bench.workspace, code)
    assert data is not None and read_made_passkey(data, ORIGIN).key == fresh.key
    assert passkey_made(bench.workspace, code) is None
    for wrong in (new_code(bench.workspace), "x" * 32, "../operators"):
        assert enrolling(bench.workspace, wrong) is None and not leave_passkey(bench.workspace, wrong, b"")
    bad: tuple[object, ...] = (
        {},
        {**body, "x": "y"},
        {**body, "credential": 5},
        {**body, "public_key": "AAAA"},
        [],
    )
    for value in bad:
        with pytest.raises(InvalidInput):
            read_made_passkey(json.dumps(value).encode(), ORIGIN)
    assert not [event for event in bench.workspace.operators_file.read_text().splitlines() if "fresh" in event]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:8443"},
        slow({"Host": "approve.example.org"}),
        slow({"Host": "127.0.0.1:8443"}),
        {"Host": ""},
        {"Origin": "https://evil.example"},
        slow({"Origin": "https://approve.example.org:9443"}),
        {"Origin": "null"},
        slow({"Origin": ""}),
        {"Sec-Fetch-Site": "cross-site"},
        slow({"Sec-Fetch-Site": "same-site"}),
        {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Mode": "navigate"},
        slow({"Sec-Fetch-Mode": "no-cors"}),
        {"X-Forwarded-For": "10.0.0.1"},
        {"Content-Type": "text/plain"},
        {"Cookie": "threegate_page=wrong"},
        slow({"Cookie": ""}),
    ],
)
def test_where_an_approval_may_come_from(client: PasskeyClient, headers: dict[str, str]) -> None:
    _, form = client.page("one")
    body = {**client.assertion(form["challenge"]), "statement": form["statement"]}
    status = 415 if "Content-Type" in headers else 403
    assert client.ask(form["to"], body, headers=headers).status_code == status
    assert approved(client) == []
    if headers.keys() & {"Host", "X-Forwarded-For"}:
        assert client.ask(client.base, headers=headers).status_code == 403
    assert client.ask(form["to"], body).status_code == 200, "and without them it is done"


def test_what_is_sent_besides(client: PasskeyClient) -> None:
    _, form = client.page("one")
    whole = {**client.assertion(form["challenge"]), "statement": form["statement"]}
    text = json.dumps(whole)
    for body in (b"", b"[]", b"{}", text.encode() + b"x", text.replace("{", '{"statement":"AAAA",', 1).encode(),
                 json.dumps({**whole, "more": "x"}).encode(), json.dumps({**whole, "signature": 1}).encode(),
                 json.dumps({**whole, "signature": "AAAA"}).encode(), json.dumps({**whole, "statement": "AAAA"}).encode(),  # noqa: E501
                 json.dumps({**whole, "authenticator_data": "=="}).encode()):  # fmt: skip
        assert client.ask(form["to"], body).status_code == 400, body[:60]
    assert client.ask(form["to"], b"{" + b" " * limits.PASSKEY_REQUEST_BYTES).status_code == 413
    assert client.ask(form["to"], method="PUT").status_code == 405
    assert client.ask(client.base, {"x": "y"}).status_code == 405
    assert client.ask("/page/nowhere").status_code == 403
    assert client.ask(f"{client.base}nowhere").status_code == 404
    assert client.ask("/").headers["location"] == "/page/"
    assert approved(client) == []


def test_a_statement_that_was_shown_long_ago(client: PasskeyClient) -> None:
    _, form = client.page("one")
    statement = Statement.parse(statement_of(form))
    back = timedelta(seconds=limits.PASSKEY_STATEMENT_SECONDS + 60)
    old = replace(statement, approved_utc=statement.approved_utc - back, expires_utc=statement.expires_utc - back)
    data = old.to_bytes()
    body = {**client.assertion(challenge_of(data, NAMESPACE_APPROVAL)), "statement": encode_base64url(data)}
    assert client.ask(form["to"], body).json()["code"] == "expired"


def test_what_is_approved_already_has_no_button(client: PasskeyClient) -> None:
    _, form = client.page("one")
    client.approve(form)
    listed = client.ask(f"{client.base}list/approved").text
    (address,) = re.findall(r'href="([^"]+/request/[^"]+)"', listed)
    page = client.ask(address).text
    assert data_of(page) == {} and "use-passkey" not in page
    to = address.replace("/request/", "/approve/")
    body = {**client.assertion(form["challenge"]), "statement": form["statement"]}
    assert "no longer a draft" in client.ask(to, body).json()["error"]


def test_headers(client: PasskeyClient) -> None:
    for path in ("/page/", client.base, "/page/enrol/x", "/page/nowhere"):
        answer = client.ask(path)
        for name, value in PASSKEY_HEADERS.items():
            assert answer.headers[name] == value
    policy = PASSKEY_HEADERS["Content-Security-Policy"]
    scripts = re.search(r"script-src ([^;]+)", policy)
    assert scripts is not None and len(re.findall("'sha256-", scripts[1])) == 2 and "unsafe" not in policy
    for part in ("frame-ancestors 'none'", "require-trusted-types-for 'script'", "default-src 'none'"):
        assert part in policy
    assert "publickey" not in HEADERS["Permissions-Policy"] and HOST not in policy
    assert "; Secure" in client.log_in().headers["set-cookie"]
