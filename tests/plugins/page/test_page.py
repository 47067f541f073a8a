"""What the operator's page tells, of requests in every state, and that looking changes nothing."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.page.page_client import Client
from tests.support import era_draft, monty_draft
from tests.trail.workspaces import approve, make_workspace, run
from threegate import cli
from threegate.acts.approve import insert_approval
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.approval.shown.escaped_lines import GUTTER, render_sections
from threegate.approval.shown.request_sections import JOB_FIELDS
from threegate.cli import invocation
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Unavailable
from threegate.core.screen_parts import Item, Listing, Quote
from threegate.core.workspace import Workspace
from threegate.launch.context import open_context
from threegate.launch.results.verdict import Verdict, write_verdict
from threegate.plugins.page.page_login import serving_at
from threegate.plugins.page.page_templates import foreign
from threegate.plugins.page.views import pieces_of
from threegate.review import readiness
from threegate.review.overview import entries
from threegate.review.request_view import SOMEBODY, view_request
from threegate.review.review_sections import review_sections


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def client_of(workspace: Workspace) -> Client:
    client = Client(workspace)
    assert client.login().status_code == 303
    return client


def words(page: str) -> str:
    """The page's text as a reader sees it, tags away."""
    body = page[page.index("<main") : page.index("</main>")]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def only(client: Client, group: str) -> str:
    (address,) = client.links(group)
    return client.get(address)


def test_drafts_alike_are_one_row_that_shows_each_when_it_is_opened(bench: Bench) -> None:
    for number in range(4):
        text = monty_draft(f"m-{number}", "print(n)", variables=json.dumps({"n": number}))
        text = text.replace("Risk level: low", "Risk level: high") if number == 2 else text
        bench.workspace.inbox.joinpath(f"TR-2026112{number}-000000Z-month-{number}.md").write_text(text)
    client = client_of(bench.workspace)
    for page in (client.get(), client.get("list/drafts")):
        fold = page[page.index('<details id="fold-', page.index('class="requests"')) :]
        fold = fold[: fold.index("</details>")]
        rest = page.replace(fold, "")
        assert "<b>3 drafts alike</b>" in fold and fold.count('<li class="request"') == 3
        for number in (0, 1, 3):
            assert f'<p class="foreign">n = {number}</p>' in fold and f"month-{number}" not in rest
        assert "month-2" in rest and "month-2" not in fold and "risk high" in rest
    links = client.links("drafts")
    assert len(links) == 4
    assert all("WHAT RUNS" in client.get(link).upper() for link in links)


def test_a_draft_is_shown_as_approve_shows_it(bench: Bench, tmp_path: Path) -> None:
    path = bench.draft(purpose="Sum <b>a</b> column.", extra="labels: [a, b]\n")
    client = client_of(bench.workspace)
    page = only(client, "drafts")
    shown = words(page)
    from threegate.review.reviewed_draft import open_reviewed_draft, read_draft

    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        sections = review_sections(reviewed, context.policy.settings, operator=SOMEBODY)
        digest = reviewed.job.digest
    assert digest in page and reviewed.request.sha256 in page
    for section in sections:
        assert section.title == "REQUEST" or section.title.capitalize() in shown
        for item in section.items:
            for value in lines_of(item):
                assert value in shown, (section.title, value)
    for line in render_sections(sections, full=True, width=1 << 30):
        text = line.partition(GUTTER)[2] if GUTTER in line else line.strip()
        assert line.startswith("==") or " ".join(text.split()) in shown, line
    assert "Sum &lt;b&gt;a&lt;/b&gt; column." in page and "<b>" not in page
    assert "The contracts folder is empty: there is no contract gate" in shown, "a code is explained"
    assert len(JOB_FIELDS) > 20


def lines_of(item: Item) -> list[str]:
    """Everything that a part says, line by line, as words."""
    texts = [getattr(item, name, "") for name in ("label", "head", "value", "text")]
    if isinstance(item, Listing | Quote):
        texts = [item.head, item.text]
    return [" ".join(foreign(line).split()) for text in texts for line in text.split("\n")]


def test_the_overview_has_the_riskiest_and_newest_first(bench: Bench) -> None:
    """The order of `threegate status`."""
    now = datetime.now(UTC)
    for age, (slug, risk) in enumerate((("new", "low"), ("old", "low"), ("between", "medium"), ("risky", "high"))):
        bench.draft(f"req-{slug}", slug=slug, risk=risk, data=None, created=now - timedelta(seconds=5 + age))
    for slug in ("between", "old", "new"):  # the time in this folder is that of its last change
        path = next(bench.workspace.inbox.glob(f"*-{slug}.md"))
        path.chmod(0o640)
    shown = words(client_of(bench.workspace).get())
    places = [shown.index(f"Z-{slug}.md") for slug in ("risky", "between", "new", "old")]
    assert places == sorted(places)


def test_the_command_is_exact_and_works(tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s $HOME; `x` "q"'
    folder.mkdir()
    bench = make_bench(folder)
    path = bench.draft(data=None, code="print(1)")
    page = only(client_of(bench.workspace), "drafts")
    lines = [html.unescape(line) for line in re.findall(r'<code class="command"[^>]*>([^<]*)</code>', page)]
    assert [shlex.split(line)[3] for line in lines] == ["approve", "reject", "validate", "show"]
    assert shlex.split(lines[0]) == ["threegate", "-w", str(bench.workspace.root), "approve", str(path)]
    typed = f"{lines[0]} --yes --key {shlex.quote(str(bench.keys['alice']))}"
    done = subprocess.run(
        ["sh", "-c", typed],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [item.name for item in bench.workspace.approved.glob("*.md")] == [path.name]


def test_what_is_invalid_is_told_with_its_findings(bench: Bench, tmp_path: Path) -> None:
    path = bench.draft(data=None)
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    path.write_text(path.read_text().replace("network: none", f"network: {secret}"))
    shown = words(only(client_of(bench.workspace), "drafts"))
    assert "TG138" in shown and "network must be none or allowlist" in shown and secret not in shown
    assert " approve /" not in shown and " reject /" in shown


def test_a_file_that_is_no_request_at_all(bench: Bench, tmp_path: Path) -> None:
    names = [
        "TR-\x1b[2J\u202e<img src=x onerror=alert(1)>.md",
        "TR-\udcff.md",
        "TR-a b;rm -rf ~.md",
        "AP-x.json",
        "-x.md",
    ]
    for name in names:
        (bench.workspace.inbox / name).write_bytes(b"\xff\xfe<script>\x00\x1b[31m")
    (bench.workspace.inbox / "TR-link.md").symlink_to("/etc/passwd")
    os.mkfifo(bench.workspace.inbox / "TR-fifo.md")
    (bench.workspace.inbox / "TR-large.md").write_bytes(b"x" * (limits.REQUEST_BYTES + 1))
    client = client_of(bench.workspace)
    listing = client.get("list/drafts")
    assert "\x1b" not in listing and "\u202e" not in listing and "<img" not in listing
    assert "\\x1b[2J\\u202e&lt;img src=x onerror=alert(1)&gt;" in listing and "\\udcff" in listing
    assert "link" not in words(listing) and "fifo" not in words(listing)
    statuses = []
    for address in client.links("drafts"):
        answer = client.ask(client.base + address)
        statuses.append(answer.status_code)
        assert "root:" not in answer.text
        for line in re.findall(r'<code class="command"[^>]*>([^<]*)</code>', answer.text):
            assert html.unescape(line).isprintable() and html.unescape(line).isascii()
    assert sorted(statuses) == [200] * 5 + [503], "the large one cannot be read"
    odd = [
        client.get(address)
        for address in client.links("drafts")
        if "TR-\\x1b" in client.ask(client.base + address).text
    ]
    assert len(odd) == 1 and "cannot be typed safely" in odd[0]


def test_inputs_are_looked_at_where_they_lie(bench: Bench, tmp_path: Path) -> None:
    bench.draft()
    client = client_of(bench.workspace)
    page = words(only(client, "drafts"))
    assert "/in/data.csv" in page and "4 bytes" in page and "1 2" in page
    place = bench.workspace.files / "data.csv"
    place.write_bytes(b"1\n3\n")
    page = words(only(client, "drafts"))
    assert "the request declares" in page and "An input differs from the one that was declared or signed" in page
    place.unlink()
    os.mkfifo(place)
    assert "is not a regular file with one link" in words(only(client, "drafts"))
    place.unlink()
    place.symlink_to(bench.keys["alice"])
    page = words(only(client, "drafts"))
    assert "cannot be read" in page and "PRIVATE KEY" not in page


def test_what_waits_is_told_with_the_checks_of_a_launch(bench: Bench, tmp_path: Path) -> None:
    bench.operator("bob")
    bench.settings(approval__quorum__low=2)
    promoted = bench.approve(bench.draft())
    client = client_of(bench.workspace)
    page = only(client, "approved")
    shown = words(page)
    assert "quorum_missing" in shown and "Waiting for further operators: threegate approve." in shown
    assert "approved and signed by alice" in shown and f"approve {promoted.path}" in shown
    (bench.workspace.inputs / next(iter(bench.workspace.inputs.iterdir())).name).chmod(0o600)
    sig = promoted.path.with_name(f"{promoted.path.name}.sig")
    sig.write_bytes(sig.read_bytes().replace(b'"nonce":"', b'"nonce":"0', 1))
    assert "failed" in words(only(client, "approved"))


def approved_bytes(bench: Bench, request_id: str) -> bytes:
    """A request as it is in approved/."""
    draft = bench.draft(request_id, data=None, code="print('hello')")
    data = draft.read_bytes()
    draft.unlink()
    return insert_approval(data, "operator", datetime.now(UTC).replace(microsecond=0))


@pytest.fixture
def ended(tmp_path: Path) -> Client:
    """One request that ran with a large and hostile output, without a daemon."""
    folder = tmp_path
    workspace, trail = make_workspace(folder / "ws")
    (folder / "bench").mkdir()
    text = approved_bytes(make_bench(folder / "bench"), "big-1")
    with trail.locked() as held:
        approve(held, "big-1", text=text)
    lines = [b"line %d <img src=x onerror=alert(1)> \xe2\x80\xae\x1b[2J" % number for number in range(16_000)]
    stdout = b"ghp_" + b"A1b2" * 9 + b"\n" + b"\n".join(lines)
    run(trail, "big-1", stdout=stdout[: limits.STREAM_KEPT_BYTES])
    return client_of(workspace)


def test_a_megabyte_of_output_is_counted_and_reachable(ended: Client) -> None:
    (address,) = ended.links("finished")
    page = ended.get(address)
    assert len(page) < 60_000 and "All of stdout" in page and "<img" not in page and "\x1b" not in page
    assert "ghp_A1b2" not in page, "secrets are masked"
    stream = address.replace("request/", "stream/", 1) + "/stdout"
    first = ended.get(stream)
    pages = int(re.search(r"Page 1 of (\d+)", first)[1])  # type: ignore[index]
    assert pages > 25
    entry = entries(ended.workspace, "finished")[0]
    pieces = pieces_of(view_request(open_context(ended.workspace), entry), "stdout", limits.PAGE_STREAM_CHARS)
    assert pieces is not None and len(pieces) == pages
    for number in (1, 2, pages):
        body = ended.get(f"{stream}?page={number}")
        shown = re.search(r"<pre>(.*?)</pre>", body, re.S)
        assert shown is not None and html.unescape(shown[1]) == pieces[number - 1]
    seen = "".join(pieces)
    last = re.findall(r"line (\d+) <img src=x", seen)[-1]
    assert [f"line {number} <img src=x onerror=alert(1)> \\u202e\\x1b[2J" for number in range(int(last))] == seen.split(
        "\n"
    )[1 : int(last) + 1]
    assert int(last) > 15_000
    assert "ghp_A1b2" not in seen and "\u202e" not in seen
    assert ended.ask(ended.base + stream.replace("stdout", "record.json")).status_code == 404
    assert ended.ask(ended.base + stream.replace("stdout", "stderr")).status_code == 404, "it is empty"


def test_what_has_ended_is_told_by_trail_and_record(ended: Client) -> None:
    page = words(ended.get(ended.links("finished")[0]))
    for part in ("How it ended as succeeded", "Who approved by operator", "/out/result.txt, 7 bytes, sha256",
                 "memory: 64 MiB", "nothing was reached", "claimed for its one run", "show big-1 --result", "draft --again big-1"):  # fmt: skip  # noqa: E501
        assert part in page, part


def test_a_record_that_was_changed_is_said_so(tmp_path: Path, bench: Bench) -> None:
    workspace, trail = make_workspace(tmp_path / "other")
    with trail.locked() as held:
        approve(held, "req-9", text=approved_bytes(bench, "req-9"))
    run(trail, "req-9")
    (workspace.run_folder("req-9") / "stdout").write_bytes(b"something else\n")
    page = words(only(client_of(workspace), "finished"))
    assert "it was changed" in page and "something else" not in page


def test_a_file_that_claims_an_id_gets_nothing_of_its_story(bench: Bench, tmp_path: Path) -> None:
    bench.approve(bench.draft("req-1", data=None, code="print(1)"))
    claims = bench.draft("req-1", slug="other", data=None, code="print(2)")
    client = client_of(bench.workspace)
    page = words(only(client, "drafts"))
    assert "was used before" in page and "approved and signed" not in page and " approve /" not in page
    reject_draft(bench.context, claims, reason="no", by=OperatorDecision("account:x"))
    page = words(only(client, "refused"))
    assert "belongs to another file, whose history" in page and "signed by alice" not in page


def test_a_rejected_draft_says_so(bench: Bench, tmp_path: Path) -> None:
    reject_draft(bench.context, bench.draft(data=None), reason="too wide", by=OperatorDecision("account:x"))
    page = words(only(client_of(bench.workspace), "refused"))
    assert "too wide" in page and "The operator rejected it, with a reason." in page


def test_looking_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.draft("req-1", slug="one")
    bench.draft("req-2", slug="two", data=None).write_text("---\nbroken")
    bench.approve(bench.draft("req-3", slug="three", data=None))
    client = client_of(bench.workspace)

    def everything() -> dict[str, tuple[int, bytes]]:
        found = {}
        for path in sorted(bench.workspace.root.rglob("*")):
            facts = path.lstat()
            found[str(path)] = (facts.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        return found

    before = everything()
    for address in ["", *(f"list/{group}" for group in ("drafts", "approved", "running", "finished", "refused")),
                    *client.links("drafts"), *client.links("approved")]:  # fmt: skip
        client.get(address)
    assert everything() == before


def test_a_trail_that_does_not_verify_is_said_and_mended_is_read_again(bench: Bench, tmp_path: Path) -> None:
    bench.draft(data=None)
    client = client_of(bench.workspace)
    data = bench.workspace.trail_file.read_bytes()
    bench.workspace.trail_file.write_bytes(data.replace(b'"type":"', b'"type":"x', 1))
    address = client.links("drafts")[0]
    answer = client.ask(client.base + address)
    assert answer.status_code == 503 and "cannot be shown now" in answer.text
    assert client.ask(client.base).status_code == 200, "the lists need no trail"
    bench.workspace.trail_file.write_bytes(data)
    assert client.ask(client.base + address).status_code == 200


def test_a_settings_file_that_is_wrong_is_said(bench: Bench, tmp_path: Path) -> None:
    bench.draft(data=None)
    client = client_of(bench.workspace)
    with bench.workspace.settings_file.open("a") as file:
        file.write("\n[nonsense]\nx = 1\n")
    answer = client.ask(client.base + client.links("drafts")[0])
    assert answer.status_code == 503 and "nonsense" in answer.text


@pytest.mark.slow
def test_pages_of_thousands(tmp_path: Path) -> None:
    workspace, _ = make_workspace(tmp_path / "ws")
    for number in range(5000):
        name = f"TR-20260101-000000Z-n{number:04d}.md"
        (workspace.finished / name).write_bytes(b"x")
        os.utime(workspace.finished / name, (1_700_000_000 + number,) * 2)
        verdict = Verdict(name, "0" * 64, f"id-{number}", "approved", True, "finished", "succeeded")
        (workspace.verdicts / f"{name}.json").write_text(json.dumps(verdict.to_json()))
    client = client_of(workspace)
    overview = client.get()
    assert overview.count('<li class="request ') == limits.PAGE_FIRST_ROWS and "All 5000 of Finished" in overview
    seen: list[str] = []
    for page in (1, 50, 100, 101):
        names = re.findall(r"-n(\d{4})\.md", client.get(f"list/finished?page={page}"))
        assert len(names) == limits.PAGE_ROWS
        seen += names if page <= 100 else []
    assert seen[0] == "4999" and seen[-1] == "0000" and len(set(seen)) == 150
    found = client.get("list/finished?q=n12%20TR")
    assert "100 of 5000 match" in found and "Page 1 of 2" in found and "&amp;q=n12%20TR" in found
    assert "No file name contains these words" in client.get("list/finished?q=nowhere")
    assert len(overview) < 40_000


def test_the_same_is_not_sent_twice(bench: Bench, tmp_path: Path) -> None:
    bench.draft(data=None)
    client = client_of(bench.workspace)
    address = client.base + client.links("drafts")[0]
    tag = client.ask(address).headers["etag"]
    again = client.ask(address, headers=[("If-None-Match", tag)])
    assert again.status_code == 304 and again.text == ""
    write_verdict(
        bench.workspace,
        Verdict(
            entries(bench.workspace, "drafts")[0].path.name,
            "0" * 64,
            "req-1",
            "draft",
            True,
            "draft",
            "changed",
        ),
    )
    assert client.ask(address, headers=[("If-None-Match", tag)]).status_code == 200


def test_foreign_text_is_made_visible() -> None:
    assert (
        foreign("a\u200bb\u202e\x1b\x00\r\n\u05d0\ufeff\ud800")
        == "a\\u200bb\\u202e\\x1b\\x00\\x0d\n\\u05d0\\ufeff\\ud800"
    )


def test_templates_escape_everything_but_our_own_style_and_script() -> None:
    folder = Path(__file__).resolve().parents[3] / "threegate" / "plugins" / "page" / "templates"
    texts = {path.name: path.read_text() for path in folder.glob("*.html")}
    marked = [(name, mark) for name, text in texts.items() for mark in re.findall(r"\{\{[^}]*\|\s*safe[^}]*\}\}", text)]
    assert sorted(marked) == [
        ("base.html", "{{ style | safe }}"),
        ("inside.html", "{{ passkey_script | safe }}"),
        ("inside.html", "{{ script | safe }}"),
        ("passkey_enrol.html", "{{ passkey_script | safe }}"),
        ("passkey_login.html", "{{ passkey_script | safe }}"),
    ]
    for name, text in texts.items():
        assert "autoescape" not in text and "style=" not in text and "onclick" not in text, name
        assert not re.search(r"<(img|iframe|object|embed|form[^>]*post)", text), name


def test_a_request_that_is_gone_is_said_so(bench: Bench, tmp_path: Path) -> None:
    path = bench.draft(data=None)
    client = client_of(bench.workspace)
    address = client.links("drafts")[0]
    bench.approve(path)
    answer = client.ask(client.base + address)
    assert answer.status_code == 404 and "lists" in answer.text
    entry = entries(bench.workspace, "approved")[0]
    assert view_request(bench.context, entry).checks


def test_a_finished_request_shows_how_it_ended_and_its_output_first(ended: Client) -> None:
    shown = words(ended.get(ended.links("finished")[0]))
    places = [shown.index(text) for text in ("as succeeded", "exit code 0", "line 0 <img", "Who approved")]
    assert places == sorted(places)


def test_the_overview_begins_with_what_needs_somebody(bench: Bench) -> None:
    client = client_of(bench.workspace)
    shown = words(client.get())
    for text in ("daemon failure not running, so nothing is started: threegate run", "trail ok verifies", ("Needs you "
        "(0)"),
                 "Nothing is waiting for you", "Running (0)", "Start the daemon with threegate run", "Finished (0)"):  # fmt: skip  # noqa: E501
        assert text in shown, text
    bench.draft(purpose="Sum <b>a</b> column.", risk="medium")
    broken = bench.draft("bad", slug="bad", data=None)
    broken.write_text(broken.read_text().replace("network: none", "network: always"))
    page = client.get()
    shown = words(page)
    assert "Needs you (1) draft risk medium monty reaches nothing since 20" in shown
    assert "core: Sum <b>a</b> column." in shown and "operator: threegate approve" in shown
    assert "Waiting for the daemon or the agent (1)" in shown and "Sum &lt;b&gt;a" in page
    bench.workspace.trail_file.write_bytes(bench.workspace.trail_file.read_bytes().replace(b'"', b"'", 1))
    assert "trail failure" in words(client_of(bench.workspace).get())


def test_an_engine_that_says_nothing_does_not_hold_the_page_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()
    monkeypatch.setattr(readiness, "backends", lambda: waits.wait(60) and ())
    monkeypatch.setattr(limits, "HEALTH_WAIT_SECONDS", 0.1)
    began = time.monotonic()
    assert "engine warning no answer yet" in words(client_of(bench.workspace).get())
    waits.set()
    assert time.monotonic() - began < 20


def test_the_command_that_lets_an_operator_in(
    bench: Bench, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where a server runs, a link to it; the file alone does not make one."""
    call = ["-w", str(bench.workspace.root), "serve", "page"]
    served: list[int] = []
    monkeypatch.setattr("threegate.plugins.page.page_command._serve", lambda workspace, port: served.append(port))
    with serving_at(bench.workspace, 9000):
        assert cli.execute(call) == 0
        link = capfd.readouterr().out.strip()
        assert link.startswith("http://127.0.0.1:9000/page/login/") and served == []
        assert cli.execute([*call, "--port", "9001"]) == 0
        assert "on port 9000" in capfd.readouterr().err
        with pytest.raises(Unavailable, match="another server"), serving_at(bench.workspace, 9001):
            pass
    client = Client(bench.workspace)
    assert client.ask(link.removeprefix("http://127.0.0.1:9000")).status_code == 303
    assert cli.execute([*call, "--port", "9002"]) == 0 and served == [9002]
    (bench.workspace.control / "page-server").unlink()
    (bench.workspace.control / "page-server").symlink_to("/etc/passwd")
    assert cli.execute(call) == 3 and "cannot be read" in capfd.readouterr().err
    monkeypatch.setattr(invocation, "ROOT", invocation.RootOptions())
    monkeypatch.chdir(tmp_path)
    assert cli.execute(["serve", "page"]) == 64
    assert "threegate init" in capfd.readouterr().err


def test_a_running_request_shows_its_last_line(bench: Bench, tmp_path: Path) -> None:
    bench.as_if_it_ran(bench.approve(bench.draft(data=None)).path, "req-1", "stderr", "<b>1</b>\u202e of 9")
    client = client_of(bench.workspace)
    with bench.workspace.daemon_lock():
        lists = (client.get(""), "<p>stderr"), (client.get("list/running"), "<p>stderr")
        for page, said in (*lists, (only(client, "running"), '<p id="output">stderr')):
            assert said in page
            assert "&lt;b&gt;1&lt;/b&gt;\\u202e of 9" in page
    assert "of 9" not in client.get(""), "no daemon, no word of what runs"


def test_what_is_not_shown_whole_is_named_as_on_the_other_screens(bench: Bench) -> None:
    code = b"# caf\xe9\n" + b"# padding\n" * 1000 + b"os.system('evil')"
    (bench.workspace.files / "run.py").write_bytes(code)
    text = era_draft("TR-20260102-030405Z-attack", "python3 run.py", inputs={"run.py": sha256_hex(code)})
    (bench.workspace.inbox / "TR-20260102-030405Z-attack.md").write_text(text)
    page = only(client_of(bench.workspace), "drafts")
    shown = words(page)
    assert "os.system(&#39;evil&#39;)" in page and "NOT SHOWN WHOLE" in shown and "# caf\\xe9" in shown
    assert shown.index("NOT SHOWN WHOLE") < shown.index("What runs")
