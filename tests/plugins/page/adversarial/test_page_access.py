"""Attempts to get at the operator's page from elsewhere: other names, sites, ports, proxies, cookies, links,
methods.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.page.page_client import HOST, Client
from threegate.core import limits
from threegate.plugins.page.access import COOKIE, Sessions, cookies
from threegate.plugins.page.page_login import new_code, take_code
from threegate.plugins.page.page_templates import HEADERS

SECRET = "only-the-operator-reads-this"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        bench = make_bench(tmp_path_factory.mktemp("page"))
    bench.draft(purpose=SECRET, data=None, code="print(1)")
    return bench


@pytest.fixture(scope="module")
def client(bench: Bench) -> Client:
    client = Client(bench.workspace)
    assert client.login().status_code == 303
    assert SECRET in client.get(client.links("drafts")[0])
    return client


def another(client: Client) -> Client:
    """A further browser at the same server."""
    other = Client(client.workspace)
    other.app = client.app
    return other


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8766", "127.0.0.1.evil.example:8766", "127.0.0.1", "127.0.0.1:80", "localhost",
     "localhost.evil.example:8766", "127.0.0.1:8766@evil.example", "0.0.0.0:8766", "[::]:8766", "127.1:8766",
     "2130706433:8766", "127.0.0.2:8766", "127.0.0.1:8766 ", "127.0.0.1:8766.", "localhost.:8766"],
)  # fmt: skip
def test_a_rebound_name_reads_nothing(client: Client, host: str) -> None:
    answer = client.ask(client.base, host=host)
    assert answer.status_code == 403 and SECRET not in answer.text and "alice" not in answer.text


@pytest.mark.parametrize("host", [HOST, "localhost:8766", "LOCALHOST:8766", "[::1]:8766"])
def test_its_own_names_are_answered(client: Client, host: str) -> None:
    assert client.ask(client.base, host=host).status_code == 200


def test_two_host_headers_are_none(client: Client) -> None:
    assert client.ask(client.base, headers=[("Host", "evil.example")]).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        [("Origin", "http://evil.example")],
        [("Origin", "null")],
        [("Origin", "http://127.0.0.1:3000")],
        [("Origin", "https://127.0.0.1:8766")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site")],
        [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Dest", "iframe")],
        [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Dest", "image"), ("Sec-Fetch-Mode", "no-cors")],
        [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Dest", "script")],
        [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Dest", "empty"), ("Sec-Fetch-Mode", "cors")],
        [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Dest", "document"), ("Sec-Fetch-Mode", "no-cors")],
        [("Sec-Purpose", "prefetch")],
        [("Purpose", "prefetch")],
        [("X-Forwarded-For", "10.0.0.1")],
        [("Forwarded", "for=10.0.0.1")],
        [("Via", "1.1 proxy")],
        [("X-Real-IP", "127.0.0.1")],
        [("X-Forwarded-Host", HOST)],
    ],
)
def test_another_page_or_a_proxy_reads_nothing(client: Client, headers: list[tuple[str, str]]) -> None:
    answer = client.ask(client.base, headers=headers)
    assert answer.status_code == 403 and SECRET not in answer.text
    assert "access-control-allow-origin" not in answer.headers
    login = client.ask(f"/page/login/{new_code(client.workspace)}", headers=headers)
    assert login.status_code == 403 and "set-cookie" not in login.headers


@pytest.mark.parametrize(
    ("address", "server"),
    [("192.168.1.9", "192.168.1.5"), ("192.168.1.9", "127.0.0.1"), ("127.0.0.1", "192.168.1.5"), ("", "127.0.0.1"),
     ("fe80::1%eth0", "::1"), ("::ffff:10.0.0.1", "::1"), ("testclient", "127.0.0.1")],
)  # fmt: skip
def test_only_loopback_at_both_ends(client: Client, address: str, server: str) -> None:
    """Also when the server listens at every address (--host 0.0.0.0)."""
    assert client.ask(client.base, client=address, server=server).status_code == 403


@pytest.mark.parametrize(("address", "server"), [("::1", "::1"), ("::ffff:127.0.0.1", "::ffff:127.0.0.1")])
def test_loopback_of_the_other_family(client: Client, address: str, server: str) -> None:
    assert client.ask(client.base, client=address, server=server).status_code == 200


def test_the_agents_token_opens_nothing(client: Client) -> None:
    token = "the-agents-token"
    for headers in (
        [("Authorization", f"Bearer {token}")],
        [("Cookie", f"{COOKIE}={token}")],
        [("Authorization", f"Bearer {token}"), ("Cookie", f"{COOKIE}=x")],
    ):
        answer = client.ask(client.base, headers=headers, cookie=False)
        assert answer.status_code == 403 and SECRET not in answer.text and "set-cookie" not in answer.headers
    assert client.ask(f"{client.base}?token={token}", cookie=False).status_code == 403


def test_path_and_cookie_belong_together(client: Client) -> None:
    """A server on another port of this machine may be sent a cookie; without the path it opens nothing, and the path
    alone neither.
    """
    path, cookie = client.base, client.cookie
    assert client.ask(path, cookie=False).status_code == 403
    for other, status in (
        ("/page/", 403), (f"/page/{'0' * 32}/", 403), ("/page//", 403), (path.upper(), 404), ("/page/login/", 403), ("/page", 404),  # noqa: E501
    ):  # fmt: skip
        answer = client.ask(other, headers=[("Cookie", cookie)], cookie=False)
        assert answer.status_code == status and SECRET not in answer.text, other
    other_session = another(client)
    other_session.login()
    assert client.ask(other_session.base, headers=[("Cookie", cookie)], cookie=False).status_code == 403
    assert client.ask(path, headers=[("Cookie", other_session.cookie)], cookie=False).status_code == 403
    assert client.ask(path).status_code == 200


def test_a_tossed_cookie_does_no_harm(client: Client) -> None:
    """Another port can set cookies of our name; they neither log in nor log out."""
    for header in (
        f"{COOKIE}=evil; {client.cookie}",
        f"{client.cookie}; {COOKIE}=evil",
        f"a=b;{client.cookie};",
    ):
        assert client.ask(client.base, headers=[("Cookie", header)], cookie=False).status_code == 200
    for header in (f"{COOKIE}=", f"{COOKIE}", f"x{client.cookie}", client.cookie[:-1], client.cookie + "x",
                   client.cookie.upper(), f'{COOKIE}="{client.cookie.partition("=")[2]}"', f"{COOKIE}=%ff"):  # fmt: skip  # noqa: E501
        assert client.ask(client.base, headers=[("Cookie", header)], cookie=False).status_code == 403, header
    assert cookies(["threegate_page=1; x=2", "threegate_page=3"]) == ["1", "3"]


def test_the_cookie_is_for_no_script_no_other_site_and_no_other_path(client: Client) -> None:
    answer = another(client).login()
    parts = [part.strip() for part in answer.headers["set-cookie"].split(";")]
    assert parts[1:] == [f"Path={answer.headers['location']}", "HttpOnly", "SameSite=Strict"]
    assert len(parts[0].partition("=")[2]) >= 43
    assert parts[0].partition("=")[2] not in answer.headers["location"]


def test_a_link_works_once_and_not_for_long(client: Client, bench: Bench) -> None:
    code = new_code(bench.workspace)
    names = [path.name for path in bench.workspace.control.glob("page-login-*")]
    assert not any(code in name for name in names), "the folder holds a digest"
    assert take_code(bench.workspace, code) and not take_code(bench.workspace, code)
    answer = client.ask(f"/page/login/{code}")
    assert answer.status_code == 403 and "set-cookie" not in answer.headers and code not in answer.text
    for age in (limits.PAGE_LOGIN_SECONDS + 1, -60):
        before = set(bench.workspace.control.iterdir())
        late = new_code(bench.workspace)
        (place,) = set(bench.workspace.control.iterdir()) - before
        os.utime(place, (time.time() - age,) * 2)
        assert client.ask(f"/page/login/{late}").status_code == 403
        new_code(bench.workspace)
        assert not place.exists(), "nobody used it in time: it was forgotten"


@pytest.mark.parametrize(
    ("code", "status"),
    [("x", 403), ("../../inbox", 404), ("%2e%2e%2f", 404), ("a" * 32, 403), ("a" * 5000, 403), ("..", 404), ("%00", 403),  # noqa: E501
     ("-" * 32, 403), ("%C3%A9" * 32, 403)],
)  # fmt: skip
def test_a_guessed_link_is_none(client: Client, code: str, status: int) -> None:
    before = sorted(os.listdir(client.workspace.control))
    answer = client.ask(f"/page/login/{code}")
    assert answer.status_code == status and "set-cookie" not in answer.headers
    assert sorted(os.listdir(client.workspace.control)) == before


def test_a_link_is_no_symlink_and_no_folder(bench: Bench, tmp_path: Path) -> None:
    before = set(bench.workspace.control.iterdir())
    code = new_code(bench.workspace)
    (place,) = set(bench.workspace.control.iterdir()) - before
    place.unlink()
    place.symlink_to(tmp_path)
    assert not take_code(bench.workspace, code)
    place.unlink()
    place.mkdir()
    assert not take_code(bench.workspace, code)
    place.rmdir()


def test_guesses_are_limited_and_the_operator_is_not(bench: Bench) -> None:
    client = Client(bench.workspace, per_minute=5)
    assert client.login().status_code == 303
    statuses = [client.ask(f"/page/{'0' * 32}/").status_code for _ in range(8)]
    assert statuses[-1] == 429 and 403 in statuses
    assert int(client.ask("/page/x/").headers["retry-after"]) >= 1
    assert [client.ask(client.base).status_code for _ in range(8)] == [200] * 8


def test_guesses_of_others_keep_no_operator_from_logging_in(bench: Bench) -> None:
    """Every account of this machine has the same address. A link that works does so whatever the others ask."""
    client = Client(bench.workspace, per_minute=5)
    codes = [client.ask(f"/page/login/{'a' * 32}").status_code for _ in range(8)]
    assert codes == [403] * 5 + [429] * 3, "guesses are limited"
    assert [client.ask(path).status_code for path in ("/page/x/", "/page/")] == [429, 429]
    assert client.login().status_code == 303 and client.ask(client.base).status_code == 200


def test_sessions_end(bench: Bench) -> None:
    client = Client(bench.workspace)
    client.login()
    client.clock.now += limits.PAGE_SESSION_SECONDS
    assert client.ask(client.base).status_code == 200
    client.clock.now += 1
    assert client.ask(client.base).status_code == 403
    sessions = Sessions(client.clock)
    opened = [sessions.begin() for _ in range(limits.PAGE_SESSIONS + 1)]
    held = [sessions.holds(view, [f"{COOKIE}={value}"]) for view, value in opened]
    assert held == [False] + [True] * limits.PAGE_SESSIONS
    assert len({view for view, _ in opened}) == len(opened)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_it_can_only_be_looked_at(client: Client, bench: Bench, method: str) -> None:
    before = sorted(path.name for path in bench.workspace.root.rglob("*"))
    for path in (client.base, client.base + client.links("drafts")[0], f"/page/login/{'a' * 32}"):
        answer = client.ask(path, method=method)
        assert answer.status_code == 405 and answer.headers["allow"] == "GET, HEAD"
        assert "access-control-allow-methods" not in answer.headers
    assert sorted(path.name for path in bench.workspace.root.rglob("*")) == before


def test_head_has_the_same_head(client: Client) -> None:
    whole, head = client.ask(client.base), client.ask(client.base, method="HEAD")
    assert head.status_code == 200 and head.headers["etag"] == whole.headers["etag"]
    assert head.headers["content-length"] == whole.headers["content-length"]


@pytest.mark.parametrize(
    "tail",
    ["request/inbox/../../etc/passwd", "request/inbox/%2e%2e%2f%2e%2e%2fthreegate.toml", "request/audit/trail.jsonl",
     "request/../inbox/x", "request/inbox/TR-x.md", "request/control/x", "request/inbox/%00", "list/inbox", "list/%2e%2e",  # noqa: E501
     "list/", "request/inbox/" + "0" * 32, "stream/finished/" + "0" * 32 + "/stdout", "request//", "x", "../", "..%2f",
     "request/inputs/" + "0" * 32, "templates/base.html", "stream/finished/x/../../record.json", "%ff%fe"],
)  # fmt: skip
def test_an_address_reaches_nothing_but_requests(client: Client, tail: str) -> None:
    answer = client.ask(client.base + tail)
    outside = tail == "../"  # of the path that goes with the cookie
    assert answer.status_code == (403 if outside else 404) and SECRET not in answer.text
    assert "Traceback" not in answer.text and "/usr" not in answer.text and "<script>" not in answer.text


@pytest.mark.parametrize("query", ["page=-1", "page=0", "page=999999", "page=99999999999", "page=%D9%A3", "page=1e3", "page=",  # noqa: E501
                                   "q=" + "x" * 5000, "q=%00%1b[2J", "q=\"><script>alert(1)</script>", "q=%ff"])  # fmt: skip  # noqa: E501
def test_a_query_is_only_words(client: Client, query: str) -> None:
    page = client.get(f"list/drafts?{query.replace(' ', '%20')}")
    assert "<script>alert" not in page and "\x1b" not in page and "\x00" not in page


def test_every_answer_has_the_pages_headers(client: Client) -> None:
    request = client.links("drafts")[0]
    answers = [
        client.ask(client.base),
        client.ask(client.base + request),
        client.ask(client.base, method="POST"),
        client.ask(client.base, cookie=False),
        client.ask(client.base, host="evil.example"),
        client.ask(client.base + "nothing"),
        client.ask("/page/login/x"),
        another(client).login(),
        client.ask(client.base, headers=[("If-None-Match", client.ask(client.base).headers["etag"])]),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 405, 403, 403, 404, 403, 303, 304]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert policy.startswith("default-src 'none'; ") and "frame-ancestors 'none'" in policy


def test_the_gates_server_has_no_page_and_the_page_no_gate(bench: Bench, tmp_path: Path) -> None:
    """Agents speak to the one and operators to the other."""
    from threegate.aana import DecisionLog
    from threegate.plugins.serve.http_app import HttpOptions, create_app

    client = Client(bench.workspace)
    for path in ("/health", "/ready", "/docs", "/metrics", "/pre-tool-check", "/"):
        assert client.ask(path).status_code == 404
    client.app = create_app(HttpOptions(token=None, log=DecisionLog(tmp_path / "d.jsonl")))
    for path in ("/page/", "/page", f"/page/login/{new_code(bench.workspace)}"):
        assert client.ask(path).status_code == 404
