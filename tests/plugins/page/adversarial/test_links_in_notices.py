"""Attacks on the links in notices: mail scanners, guesses, links of other drafts and of drafts that have ended, other
hosts, and places where a link could lead or be written to.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.page.agent_drafts import agent_draft
from tests.plugins.page.passkey_client import ORIGIN, PasskeyClient, data_of, enrol
from tests.support import wait_until
from threegate.acts.reject import reject_draft
from threegate.acts.request_changes import Remark, change_words, request_changes
from threegate.acts.signed_acts import OperatorDecision
from threegate.core import limits
from threegate.plugins.page.draft_links import DraftLinks
from threegate.plugins.page.passkey_app import create_passkey_server
from threegate.review.reviewed_draft import read_draft, view_draft

TAPPED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
"""As a browser asks that a link in a web mail was opened with."""
SCANNER = {"Sec-Fetch-Site": "", "Sec-Fetch-Dest": "", "Sec-Fetch-Mode": ""}
"""As a program asks that is not a browser."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = make_bench(tmp_path)
    bench.draft("req-1", slug="one", data=None, code="print(1)", purpose="Count the sheep.")
    bench.draft("req-2", slug="two", data=None, code="print(2)")
    bench.settings(notify__link=True)
    return bench


@pytest.fixture
def client(bench: Bench) -> PasskeyClient:
    return PasskeyClient(bench, enrol(bench))


def named(bench: Bench, slug: str) -> Path:
    return next(bench.workspace.inbox.glob(f"*{slug}.md"))


def link_to(bench: Bench, path: Path) -> str:
    """The path of a new link to a draft, made as the daemon makes it."""
    with view_draft(bench.context, read_draft(bench.workspace, path)) as reviewed:
        link = DraftLinks(bench.workspace).new(ORIGIN, reviewed.request, reviewed.run)
    assert re.fullmatch(f"{ORIGIN}/page/draft/[0-9a-f]{{32}}", link)
    return link.removeprefix(ORIGIN)


def log_in(client: PasskeyClient, link: str, to: str = "") -> httpx.Response:
    """Open a link, and answer its login as the script does; to another address if `to` has one."""
    form = data_of(client.ask(link, headers=TAPPED).text)
    assert form["to"] == "", "to the page's own address"
    answer = client.ask(to or link, {**client.assertion(form["challenge"]), "nonce": form["nonce"]})
    if answer.status_code == 200:
        client.base = "/".join(answer.json()["to"].split("/")[:3]) + "/"
        client.cookie = answer.headers["set-cookie"].partition(";")[0]
    return answer


def state_of(bench: Bench) -> dict[str, bytes]:
    """Every file of the workspace."""
    return {str(file): file.read_bytes() for file in bench.workspace.root.rglob("*") if file.is_file()}


def test_the_link_and_the_passkey_open_that_draft(client: PasskeyClient, bench: Bench) -> None:
    link = link_to(bench, named(bench, "one"))
    answer = log_in(client, link)
    assert answer.status_code == 200, answer.text
    to = answer.json()["to"]
    assert re.fullmatch("/page/[0-9a-f]{32}/request/inbox/[0-9a-f]{32}", to) and link[-32:] not in to
    cookie = answer.headers["set-cookie"]
    assert "SameSite=Strict" in cookie and "; Secure" in cookie and f"Path={client.base};" in cookie
    page = client.ask(to).text
    assert "Count the sheep." in page and "print(1)" in page and link[-32:] not in page
    assert client.approve(data_of(page)).status_code == 200
    assert [path.name[-6:] for path in bench.workspace.approved.glob("*.md")] == ["one.md"]


def test_the_draft_of_an_agent(client: PasskeyClient, bench: Bench, tmp_path: Path) -> None:
    path = agent_draft(bench, tmp_path)
    to = log_in(client, link_to(bench, path)).json()["to"]
    assert f"/request/{bench.workspace.run_of(path.parent)}/" in to and "good day" in client.ask(to).text


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [SCANNER, TAPPED, {**TAPPED, "Sec-Fetch-Site": "none"}])
def test_a_scanner_changes_nothing_and_learns_nothing(
    client: PasskeyClient, bench: Bench, method: str, headers: dict[str, str]
) -> None:
    """However often it comes before the person does."""
    link = link_to(bench, named(bench, "one"))
    before = state_of(bench)
    for _ in range(3):
        answer = client.ask(link, method=method, headers=headers)
        assert answer.status_code == 200 and "location" not in answer.headers and "set-cookie" not in answer.headers
        assert answer.headers["referrer-policy"] == "no-referrer" and answer.headers["cache-control"] == "no-store"
        for word in ("sheep", "req-1", "TR-", "one.md", "print(1)", link[-32:]):
            assert word not in answer.text, word
    assert state_of(bench) == before
    assert log_in(client, link).status_code == 200, "and the person can still use it"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Purpose": "prefetch"},
        {"Purpose": "prefetch"},
        {"Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Dest": "image", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "elsewhere"},
        {"Origin": "https://evil.example"},
        {"Host": "evil.example"},
        {"Host": "approve.example.org"},
        {"X-Forwarded-Host": "evil.example"},
    ],
)
def test_what_is_refused_before_the_link_is_looked_up(
    client: PasskeyClient, bench: Bench, headers: dict[str, str]
) -> None:
    """A link that leads to a draft and one that was made up get the same answer."""
    link = link_to(bench, named(bench, "one"))
    good, bad = (client.ask(path, headers=TAPPED | headers) for path in (link, f"/page/draft/{'0' * 32}"))
    assert good.status_code == 403 and (good.text, good.headers) == (bad.text, bad.headers)
    assert "evil" not in good.text and "location" not in good.headers


def test_nothing_but_this_page_may_be_opened_from_elsewhere(client: PasskeyClient, bench: Bench) -> None:
    to = log_in(client, link_to(bench, named(bench, "one"))).json()["to"]
    for path in ("/page/", client.base, to, "/page/enrol/x"):
        assert client.ask(path, headers=TAPPED).status_code == 403, path
    link = link_to(bench, named(bench, "one"))
    assert client.ask(link, {"x": "y"}, headers=TAPPED).status_code == 403, "a form of another site"
    assert client.ask(link, {"x": "y"}, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def approve(bench: Bench, path: Path) -> None:
    bench.approve(path)


def reject(bench: Bench, path: Path) -> None:
    by = OperatorDecision("operator:alice")
    reject_draft(bench.context, read_draft(bench.workspace, path), reason="No.", by=by)


def ask_for_changes(bench: Bench, path: Path) -> None:
    words = change_words([Remark("Say more.", "")], "operator:alice")
    draft = read_draft(bench.workspace, path)
    request_changes(bench.context, draft, words=words, by=OperatorDecision("operator:alice"))


def change(bench: Bench, path: Path) -> None:
    path.write_text(path.read_text().replace("print(1)", "print(9)"))


def move(bench: Bench, path: Path) -> None:
    os.rename(path, path.with_name(path.name.replace("one", "won")))


def exchange(bench: Bench, path: Path) -> None:
    os.replace(named(bench, "two"), path)


def link_away(bench: Bench, path: Path) -> None:
    path.rename(bench.workspace.root / "elsewhere.md")
    path.symlink_to(bench.workspace.root / "elsewhere.md")


def expire(bench: Bench, path: Path) -> None:
    bench.settings(approval__draft_ttl="1s")
    wait_until(lambda: time.time() > path.stat().st_ctime + 2, "the end of draft_ttl")


def turn_off(bench: Bench, path: Path) -> None:
    bench.settings(notify__link=False)


def make_another(bench: Bench, path: Path) -> None:
    link_to(bench, path)


def damage(bench: Bench, path: Path) -> None:
    (place,) = bench.workspace.control.glob("draft-link-*")
    place.write_bytes(place.read_bytes()[:-2])


def break_settings(bench: Bench, path: Path) -> None:
    bench.workspace.settings_file.write_text("[notify\n")


ENDS: list[Callable[[Bench, Path], None]] = [
    approve, reject, ask_for_changes, change, move, exchange, link_away, expire, turn_off, make_another, damage,
    break_settings,
]  # fmt: skip


@pytest.mark.parametrize("ends", ENDS)
def test_an_ended_link_and_a_guess_look_alike(
    client: PasskeyClient, bench: Bench, ends: Callable[[Bench, Path], None]
) -> None:
    """Whether its file is still there or was removed by the daemon; status, words, headers and the least time."""
    path = named(bench, "one")
    link = link_to(bench, path)
    assert client.ask(link, headers=TAPPED).status_code == 200
    ends(bench, path)
    seen = []
    for tried in (link, f"/page/draft/{'0' * 32}", "/page/draft/x", f"/page/draft/{link[-32:].upper()}x"):
        began = time.monotonic()
        answer = client.ask(tried, headers=TAPPED)
        assert time.monotonic() - began >= limits.DRAFT_LINK_MISS_SECONDS
        seen.append((answer.status_code, answer.text, sorted(answer.headers.items())))
    assert seen[0][0] == 404 and "This link leads nowhere" in seen[0][1]
    assert all(one == seen[0] for one in seen)


def test_the_draft_ends_while_its_login_is_open(client: PasskeyClient, bench: Bench) -> None:
    """Only an operator is told: a passkey that is not enrolled hears the same for every link."""
    path = named(bench, "one")
    link = link_to(bench, path)
    form = data_of(client.ask(link, headers=TAPPED).text)
    bench.approve(path)
    body = {**client.assertion(form["challenge"]), "nonce": form["nonce"]}
    stranger = {**body, "credential": "c3RyYW5nZXI"}
    codes = [
        client.ask(to, stranger).json()["code"] for to in (link, "/page/draft/x", link_to(bench, named(bench, "two")))
    ]
    assert codes == ["signer_unknown"] * 3
    answer = client.ask(link, body)
    assert (
        answer.status_code == 404 and "leads nowhere" in answer.json()["error"] and "set-cookie" not in answer.headers
    )


def test_a_login_is_for_no_draft_in_particular_and_opens_the_one_of_its_link(
    client: PasskeyClient, bench: Bench
) -> None:
    """A link replaced under way shows the other draft, whole: what is signed is what its own page was sent with."""
    one, two = (link_to(bench, named(bench, slug)) for slug in ("one", "two"))
    to = log_in(client, one, two).json()["to"]
    assert "print(2)" in client.ask(to).text
    keys = [client.ask(two + tail, headers=TAPPED).status_code for tail in ("/", "/../one", "%2f..")]
    assert keys == [404] * 3


def test_no_address_in_a_link_leads_elsewhere(client: PasskeyClient, bench: Bench) -> None:
    link = link_to(bench, named(bench, "one"))
    for more in ("?to=https://evil.example/", "?next=//evil.example", "?handle=x"):
        page = client.ask(link + more, headers=TAPPED)
        assert page.status_code == 200 and "evil" not in page.text and "location" not in page.headers
    answer = log_in(client, f"{link}?to=https://evil.example/")
    assert answer.json()["to"].startswith(client.base + "request/inbox/")
    wrong = {"/page/draft//evil.example": 404, "/page/draft/https:%2f%2fevil.example": 404, "/page/draft": 404}
    for path, status in wrong.items():
        answer = client.ask(path, headers=TAPPED)
        assert answer.status_code == status and "location" not in answer.headers and "evil" not in answer.text


@pytest.mark.parametrize(
    "record",
    [
        {"file": "../../operators"},
        {"file": "/etc/passwd"},
        {"folder": "../control"},
        {"folder": "approved"},
        {"folder": 5},
        {"more": "x"},
        [],
    ],
)
def test_a_record_that_is_not_one_of_ours(client: PasskeyClient, bench: Bench, record: object) -> None:
    link = link_to(bench, named(bench, "one"))
    (place,) = bench.workspace.control.glob("draft-link-*")
    value = json.loads(place.read_bytes())
    place.write_text(json.dumps({**value, **record} if isinstance(record, dict) else record))
    assert client.ask(link, headers=TAPPED).status_code == 404
    DraftLinks(bench.workspace).end_old(keep=True)
    assert not place.exists()


def test_guesses_are_bounded(client: PasskeyClient, bench: Bench) -> None:
    link = link_to(bench, named(bench, "one"))
    client.app = create_passkey_server(bench.workspace, ORIGIN, per_minute=3, clock=client.clock)
    codes = [client.ask(f"/page/draft/{number:032x}", headers=SCANNER).status_code for number in range(3)]
    assert codes == [404] * 3
    assert client.ask(link, headers=SCANNER).status_code == 429, "and the right one then tells nothing either"


def test_each_handle_is_new_and_each_draft_has_one(bench: Bench) -> None:
    """Also over the end of the daemon and of the page; of the handles only the digests are kept."""
    with view_draft(bench.context, read_draft(bench.workspace, named(bench, "one"))) as reviewed:
        request, run = reviewed.request, reviewed.run
    links = DraftLinks(bench.workspace)
    handles = [links.new(ORIGIN, request, run)[-32:] for _ in range(50)]
    handles.append(DraftLinks(bench.workspace).new(ORIGIN, request, run)[-32:])
    assert len(set(handles)) == 51 and len(list(bench.workspace.control.glob("draft-link-*"))) == 1
    assert not [handle for handle in handles if handle in request.sha256], "nothing of the draft"
    link_to(bench, named(bench, "two"))
    fresh = PasskeyClient(bench, enrol(bench))
    assert log_in(fresh, f"/page/draft/{handles[-1]}").status_code == 200, "a page that starts later knows it"
    kept = b"".join(name.encode() + data for name, data in state_of(bench).items())
    assert not [handle for handle in handles if handle.encode() in kept]


def test_what_is_gone_is_forgotten_and_what_waits_stays(bench: Bench) -> None:
    links = DraftLinks(bench.workspace)
    for slug in ("one", "two"):
        link_to(bench, named(bench, slug))
    links.end_old(keep=True)
    assert len(list(bench.workspace.control.glob("draft-link-*"))) == 2
    named(bench, "one").unlink()
    links.end_old(keep=True)
    (left,) = bench.workspace.control.glob("draft-link-*")
    assert b"two.md" in left.read_bytes()
    links.end_old(keep=False)
    assert not list(bench.workspace.control.glob("draft-link-*")), "the setting was turned off"
