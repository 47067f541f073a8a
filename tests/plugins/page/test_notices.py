"""Notices reach a real listener, tell the card and no link of the agent's, and stop nothing when they fail."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.support import wait_until
from tests.whole.trail.everything import leave_claimed
from threegate.approval.shown.request_sections import job_exposure
from threegate.cli import execute
from threegate.core import durable, limits
from threegate.core.settings import Settings, parse_settings
from threegate.daemon.log import Log
from threegate.daemon.loop import Daemon
from threegate.daemon.plugin_work import DaemonParts, WaitingDraft
from threegate.plugins.page.notices import Notices, plain, send
from threegate.review.reviewed_draft import expiry, read_draft, view_draft

SECRET_WORDS = "words-of-the-request"


class Listener(BaseHTTPRequestHandler):
    """Keeps what was posted."""

    heard: list[tuple[str, str]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.heard.append((self.path, body))
        self.send_response(403 if self.path == "/refuses" else 200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Silent."""


@pytest.fixture
def listener() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A real HTTP server on a free port; its address without the scheme, and what it heard."""
    heard: list[tuple[str, str]] = []
    kind = type("Own", (Listener,), {"heard": heard})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}", heard
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_operator_hears_the_card_and_the_requester_an_id(
    tmp_path: Path, listener: tuple[str, list[tuple[str, str]]], capfd: pytest.CaptureFixture[str]
) -> None:
    address, heard = listener
    bench = make_bench(tmp_path)
    bench.settings(notify__urls=[f"json://{address}/operator"], notify__requester_hook=f"json://{address}/requester")
    path = bench.draft(purpose="Sum a column.", code=f"print('{SECRET_WORDS}')", data=None)
    until = expiry(path.stat().st_ctime_ns, 7 * 86400)
    Daemon(bench.workspace, Log(), once=True).run()
    bench.approve(path)
    Daemon(bench.workspace, Log(), once=True).run()
    told = wait_until(lambda: len(heard) == 2 and {place: json.loads(body) for place, body in heard}, "both notices")
    assert told["/operator"]["title"] == "A request is waiting for approval, risk low"
    assert told["/operator"]["message"].splitlines() == [
        "asked by core (as the file says); risk low",
        "reaches: nothing",
        "it says: 'Sum a column.'",
        f"refused if not decided by {until:%Y-%m-%d %H:%M} UTC",
        f"read it: threegate review ({path.name})",
    ]
    assert (told["/requester"]["title"], told["/requester"]["message"]) == (
        "A request has ended",
        "req-1: succeeded",
    )
    assert SECRET_WORDS not in str(heard)
    assert "tok" not in capfd.readouterr().err


def test_a_link_is_for_operators_and_only_if_it_is_set(
    tmp_path: Path, listener: tuple[str, list[tuple[str, str]]], capfd: pytest.CaptureFixture[str]
) -> None:
    """The handle is in the notice and nowhere else: not in the workspace, and in no line of the daemon."""
    address, heard = listener
    bench = make_bench(tmp_path)
    control = bench.workspace.control
    bench.settings(notify__urls=[f"json://{address}/operator"], notify__requester_hook=f"json://{address}/requester")
    path = bench.draft(purpose="Sum a secret column.", code="print(1)", data=None)

    def told() -> str:
        heard.clear()
        assert Daemon(bench.workspace, Log(), once=True).run() == 0
        return str(wait_until(lambda: heard and json.loads(heard[0][1])["message"], "the notice"))

    bench.settings(approval__passkey_origin="https://approve.example.org:8443")
    assert "https:" not in told() and not list(control.glob("draft-link-*"))
    bench.settings(notify__link=True)
    link = told().splitlines()[-1]
    found = re.fullmatch("or: https://approve\\.example\\.org:8443/page/draft/([0-9a-f]{32})", link)
    assert found is not None, link
    (kept,) = control.glob("draft-link-*")
    assert kept.stat().st_mode & 0o7777 == 0o600 and control.stat().st_mode & 0o7777 == 0o700
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 10 and not [file for file in files if found[1].encode() in file.read_bytes() + bytes(file)]
    assert found[1] not in "".join(capfd.readouterr())
    again = told().splitlines()[-1]
    assert (
        again != link and [kept] != list(control.glob("draft-link-*")) and len(list(control.glob("draft-link-*"))) == 1
    )
    bench.approve(path)
    heard.clear()
    Daemon(bench.workspace, Log(), once=True).run()
    assert [place for place, _ in heard] == ["/requester"] and "draft/" not in str(heard)
    assert list(control.glob("draft-link-*")) == [], "it ended with the draft"


def test_a_link_that_cannot_be_made_stops_no_notice(
    tmp_path: Path, listener: tuple[str, list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    address, heard = listener
    bench = make_bench(tmp_path)
    bench.settings(notify__urls=[f"json://{address}/operator"], notify__link=True)
    bench.draft(data=None, code="print(1)")
    Daemon(bench.workspace, Log(), once=True).run()
    assert len(heard) == 1 and "https:" not in heard[0][1], "no origin is set"
    assert execute(["-w", str(bench.workspace.root), "settings", "notify"]) == 3
    said = capsys.readouterr()
    assert "notify.urls[0]: taken" in said.out and "notify.link: no notice has a link; set approval.passkey" in said.err
    bench.settings(approval__passkey_origin="https://approve.example.org:8443")

    def full(path: Path, data: bytes, mode: int = 0o600) -> None:
        raise OSError(28, "No space left on device")

    heard.clear()
    notices, waiting = notices_of(bench, bench.workspace.load_settings), _waiting(bench)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "deliver", full)
        notices.draft_waits(*waiting)
    notices.close(wait=True)
    assert len(heard) == 1 and "https:" not in heard[0][1]
    assert "it has no link: that cannot be stored (No space left on device)" in capsys.readouterr().err


def _waiting(bench: Bench) -> WaitingDraft:
    """The one draft, as the daemon gives it to plugins."""
    draft = read_draft(bench.workspace, next(bench.workspace.inbox.glob("TR-*")))
    with view_draft(bench.context, draft) as reviewed:
        exposure = job_exposure(reviewed.request, reviewed.job)
        return (draft.path.name, reviewed.request, exposure, draft.owner, reviewed.run, draft.identity[-1])


@pytest.mark.parametrize(
    "words",
    [
        "see https://evil.example/login now",
        "mail me@evil.example",
        "<!channel> <https://evil.example|approve here>",
        "@everyone **approved** by _alice_ [ok](http://evil.example)",
        "www.evil.example and evil.example/x",
        "a\n\nApproved by alice.\r\x1b[2J\u202e",
        "x" * 100_000,
    ],
)
def test_foreign_words_make_no_link_no_mention_and_no_second_line(words: str) -> None:
    said = plain(words)
    assert len(said) <= limits.NOTICE_CHARS * 2 and said.isprintable() and "\n" not in said
    assert not set(said) & set('<>@*_[]|`~&\\"#')
    assert not re.search(r"[:/.]\S", said)


def test_a_notice_that_cannot_be_sent_says_the_setting_and_the_cause_without_the_url() -> None:
    for url in ("json://127.0.0.1:1/token-abc", "nonsense://token-abc", ""):
        problem = send(("notify.urls[0]", url), "title", "body")
        assert problem is not None and "\n" not in problem and "token-abc" not in problem
        assert problem.startswith("notify.urls[0]: ")
    assert "no connection" in str(send(("a", "json://127.0.0.1:1/token-abc"), "title", "body"))


def test_the_command_says_which_took_it(
    tmp_path: Path, listener: tuple[str, list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    address, heard = listener
    bench = make_bench(tmp_path)
    here = ["-w", str(bench.workspace.root), "settings", "notify"]
    assert execute(here) == 3 and "docs/notices.md" in capsys.readouterr().err
    bench.settings(notify__urls=[f"json://{address}/one", "json://127.0.0.1:1/token-abc"])
    assert execute(here) == 3
    said = capsys.readouterr()
    assert said.out == "notify.urls[0]: taken\n"
    assert "notify.urls[1]: could not be sent: no connection" in said.err and "token-abc" not in said.err
    assert [place for place, _ in heard] == ["/one"]
    bench.settings(notify__urls=[f"json://{address}/refuses"])
    assert execute(here) == 3 and "the server answered 403" in capsys.readouterr().err


def notices_of(bench: Bench, settings: Callable[[], Settings]) -> Notices:
    return Notices(DaemonParts(bench.workspace, bench.context.trail, Log(), settings, lambda *draft: None))


def test_without_urls_nothing_is_started(tmp_path: Path) -> None:
    before = threading.active_count()
    notices = notices_of(make_bench(tmp_path), Settings)
    notices.request_ended("req-1", "succeeded")
    notices.close(wait=False)
    assert threading.active_count() == before


def test_changed_settings_count_at_once_and_what_waits_is_sent_at_the_end(
    tmp_path: Path, listener: tuple[str, list[tuple[str, str]]]
) -> None:
    address, heard = listener
    hooks = [f'requester_hook = "json://{address}/{name}"' for name in ("one", "two")]
    notices = notices_of(make_bench(tmp_path), lambda: parse_settings(f"[notify]\n{hooks[0]}".encode()))
    notices.request_ended("req-1", "succeeded")
    hooks.pop(0)
    notices.request_ended("req-2", "failed")
    notices.close(wait=False)
    assert [(path, json.loads(body)["message"]) for path, body in heard] == [
        ("/one", "req-1: succeeded"),
        ("/two", "req-2: failed"),
    ]


def test_a_request_that_a_crash_interrupted_is_told_at_the_next_start(
    tmp_path: Path, listener: tuple[str, list[tuple[str, str]]]
) -> None:
    address, heard = listener
    bench = make_bench(tmp_path)
    bench.settings(notify__requester_hook=f"json://{address}/requester")
    leave_claimed(bench)
    assert Daemon(bench.workspace, Log(), once=True).run() == 0
    assert [json.loads(body)["message"].partition(": ")[2] for _, body in heard] == ["interrupted"]


def test_nobody_is_told_while_the_plugin_is_off(
    tmp_path: Path, listener: tuple[str, list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    address, heard = listener
    bench = make_bench(tmp_path)
    bench.settings(notify__urls=[f"json://{address}/a"], notify__requester_hook=f"json://{address}/b")
    bench.settings(plugins__off=("page",))
    path = bench.draft(data=None, code="print(1)")
    assert Daemon(bench.workspace, Log(), once=True).run() == 0
    bench.approve(path)
    assert Daemon(bench.workspace, Log(), once=True).run() == 0
    assert heard == []
    assert execute(["-w", str(bench.workspace.root), "settings", "notify"]) == 64
    assert "settings notify is a command of the plugin page, which is off" in capsys.readouterr().err


def test_whatever_the_library_raises_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> bool:
        raise KeyError(SECRET_WORDS)

    monkeypatch.setattr("apprise.Apprise.notify", broken)
    said = send(("notify.urls[0]", "json://127.0.0.1:1/operator"), "A title", "A text")
    assert said == "notify.urls[0]: could not be sent (KeyError)"
