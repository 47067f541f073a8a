"""The operator's page in a real browser: hostile requests, hostile pages beside it, and people who cannot use a
mouse.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.chromium import Chromium
from tests.hostile_texts import MARK, fill

pytestmark = pytest.mark.browser
THREEGATE = [sys.executable, "-m", "threegate"]


@dataclass
class Shown:
    """A server with its workspace, and a browser that is logged in."""

    bench: Bench
    browser: Chromium
    port: int
    base: str
    environment: dict[str, str]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def link(self) -> str:
        done = subprocess.run(
            [*THREEGATE, "serve", "page"],
            env=self.environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def requests(self, group: str = "drafts") -> list[str]:
        self.browser.open(f"{self.base}list/{group}")
        return list(self.browser.js("[...document.querySelectorAll('.request a')].map(a => a.href)"))

    def address_of(self, part: str, group: str = "drafts") -> str:
        self.browser.open(f"{self.base}list/{group}")
        return str(
            self.browser.js(
                f"[...document.querySelectorAll('.request a')].find(a => a.textContent.includes({part!r})).href"
            )
        )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("browser")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        bench = make_bench(folder)
        fill(bench)
        environment = {**os.environ, "THREEGATE_WORKSPACE": str(bench.workspace.root)}
    server = subprocess.Popen(
        [*THREEGATE, "serve", "page"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None and server.stderr is not None
    readable, _, _ = select.select([server.stdout], [], [], 90)
    line = server.stdout.readline() if readable else ""
    port = int(line.partition(";")[0].rpartition(":")[2])
    browser = Chromium(folder / "profile", f"--host-resolver-rules=MAP evil.example 127.0.0.1:{port}")
    try:
        shown = Shown(bench, browser, port, "", environment)
        browser.open(shown.link())
        shown.base = browser.js("location.href")
        yield shown
    finally:
        browser.close()
        server.terminate()
        server.wait(20)
        said = server.stdout.read() + server.stderr.read()
        server.stdout.close()
        server.stderr.close()
        assert "/page/login/" not in said, "no link goes into a log"


_FOREIGN = f"""
(() => {{
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const loose = [];
  let found = 0;
  while (walk.nextNode()) {{
    const text = walk.currentNode.textContent, parent = walk.currentNode.parentElement;
    if (!text.includes({MARK!r}) || parent.closest("script")) continue;
    found += 1;
    if (!parent.closest(".foreign, .command")) loose.push(text.slice(0, 80));
  }}
  const count = (what) => document.querySelectorAll(what).length;
  const wild = [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on") || a.name === "style"));
  const boxes = [...document.querySelectorAll(".foreign")].filter((box) => {{
    const edge = box.getBoundingClientRect(), range = document.createRange();
    range.selectNodeContents(box);
    return edge.right > innerWidth + 1 || edge.width === 0 || box.scrollWidth > box.clientWidth + 1;
  }});
  return {{
    found, loose, wild: wild.length, scripts: count("script"), styles: count("style"), outside: boxes.map((b) => b.textContent.slice(0, 60)),
    strange: count("img, iframe, object, embed, svg, base, meta[http-equiv], form[action^='http']"),
    hidden: getComputedStyle(document.body).display,
    wide: document.documentElement.scrollWidth > innerWidth,
    controls: /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff\\u0590-\\u08ff\\u0300-\\u036f]/.test(document.documentElement.textContent),
  }};
}})()
"""  # noqa: E501


def test_hostile_words_stay_words_behind_the_bar(shown: Shown) -> None:
    """Every request's page and the lists, at three widths: nothing acts, nothing leaves its box, nothing is loaded."""
    browser = shown.browser
    addresses = [
        shown.base,
        f"{shown.base}list/drafts?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%20{MARK}",
        *shown.requests(),
    ]
    assert len(addresses) == 2 + 16 + 8 + 4
    for number, address in enumerate(addresses):
        browser.size((1280, 1024, 320)[number % 3], 900)
        browser.open(address)
        seen = browser.js(_FOREIGN)
        assert seen["loose"] == [] and seen["wild"] == 0 and seen["strange"] == 0, (address, seen)
        assert (seen["scripts"], seen["styles"], seen["hidden"]) == (1, 1, "block"), (address, seen)
        assert not seen["wide"] and seen["outside"] == [] and not seen["controls"], (address, seen)
        assert MARK not in browser.js("document.title")
        if number > 1:
            assert seen["found"] >= 1, address
    browser.size(1280, 1000)
    assert browser.complaints() == []
    assert {
        url for url in browser.asked_for() if not url.startswith((shown.origin + "/page/", "about:", "data:"))
    } == set()


_ROWS = """
(() => {
  const loose = [];
  let rows = 0;
  for (const box of document.querySelectorAll(".foreign")) {
    const edge = box.getBoundingClientRect(), bar = parseFloat(getComputedStyle(box).borderLeftWidth);
    const walk = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(walk.currentNode);
      for (const row of range.getClientRects()) {
        rows += 1;
        const beside = bar >= 4 && row.left >= edge.left + bar && row.top >= edge.top - 1 && row.bottom <= edge.bottom + 1;
        if (!beside || row.right > Math.min(edge.right, innerWidth) + 1) loose.push(walk.currentNode.textContent.slice(0, 60));
      }
    }
  }
  return {rows, loose, wide: document.documentElement.scrollWidth > innerWidth};
})()
"""  # noqa: E501


@pytest.mark.slow
def test_at_39_columns_every_row_of_foreign_text_is_whole_and_beside_the_bar(shown: Shown) -> None:
    """As narrow as a terminal on which nothing is asked: no row begins without the bar, and none is cut."""
    browser = shown.browser
    text = "== WARNINGS (0) " * 30
    path = shown.bench.draft(
        "narrow-1", slug="narrow", code=f"x = {text!r}\n" + "y = 1" + " " * 300 + "# z\n" * 120, purpose=text
    )
    wide = shown.bench.draft("narrow-2", slug="wide", data=None, code="print(1)", purpose="\u4e2d\u6587" * 100)
    try:
        browser.open(shown.base)
        column = browser.js(
            """(() => { const probe = document.createElement("span"); probe.className = "foreign";
            probe.textContent = "0".repeat(100); probe.style.cssText = "padding:0;border:0;max-width:none";
            document.body.append(probe); return probe.getBoundingClientRect().width / 100 })()"""
        )
        browser.size(round(39 * column), 900)
        for address in (shown.base, *shown.requests()):
            browser.open(address)
            seen = browser.js(_ROWS)
            assert seen["rows"] > 3 and seen["loose"] == [] and not seen["wide"], (address, seen)
    finally:
        browser.size(1280, 1000)
        path.unlink()
        wide.unlink()


def test_headings_are_ours_alone(shown: Shown) -> None:
    for address in shown.requests()[:12]:
        shown.browser.open(address)
        titles = shown.browser.js("[...document.querySelectorAll('h2')].map(h => h.textContent)")
        known = {"The request", "What runs", "What the request says about itself", "What the judgement would say now",
                 "Walls", "What you can type", "Findings of gate 1", "The file as it lies there", "Not as it is"}  # fmt: skip  # noqa: E501
        assert titles and {title for title in titles if not title.startswith("Warnings (")} <= known
        assert len(titles) == len(set(titles))


class _Elsewhere(BaseHTTPRequestHandler):
    """A server of the agent on another port of this machine; it keeps what browsers send it."""

    heard: list[str] = []
    page = b""

    def do_GET(self) -> None:
        self.heard.append(f"{self.path}\n{self.headers}")
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", "threegate_page=tossed; Path=/")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *_: Any) -> None:
        pass


_ATTACK = """
(async () => {
  const target = %r, done = {};
  for (const mode of ["cors", "no-cors", "same-origin"]) {
    try {
      const answer = await fetch(target, {mode, credentials: "include"});
      done["fetch " + mode] = answer.type + " " + (await answer.text()).length;
    } catch { done["fetch " + mode] = "refused"; }
  }
  for (const tag of ["script", "img", "iframe", "embed"]) {
    done[tag] = await new Promise((resolve) => {
      const node = document.createElement(tag);
      node.onerror = () => resolve("refused");
      node.onload = () => {
        let text = "";
        try { text = node.contentDocument ? node.contentDocument.body.textContent : ""; } catch {}
        resolve("loaded " + text);
      };
      node.src = target;
      document.body.append(node);
      setTimeout(() => resolve("nothing"), 1500);
    });
  }
  return done;
})()
"""


def test_a_page_on_another_port_of_this_machine_gets_nothing(shown: Shown) -> None:
    """The same cookie jar: cookies know no ports. Neither the page's text nor its cookie comes there."""
    browser, before = shown.browser, len(shown.browser.events)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    _Elsewhere.heard, _Elsewhere.page = [], b"<!doctype html><title>elsewhere</title><body>"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        other = f"http://127.0.0.1:{server.server_port}"
        browser.open(f"{other}/page/")
        done = browser.js(_ATTACK % shown.base)
        frames = dict.fromkeys(("iframe", "embed"), "loaded ")
        fetched = ("fetch cors", "fetch no-cors", "fetch same-origin", "script", "img")
        assert done == {**dict.fromkeys(fetched, "refused"), **frames}, "a frame is empty, the rest is refused"
        browser.open(f"http://evil.example/page/{shown.base.rpartition('/page/')[2]}")
        assert "open it by its own address" in browser.js("document.body.textContent")
        assert browser.js("fetch(location.href).then(a => a.status)") == 403
        heard = "\n".join(_Elsewhere.heard)
        assert heard and "threegate_page=" not in heard.replace("threegate_page=tossed", "")
        browser.open(shown.base)
        assert browser.js("document.querySelector('h1').textContent") == "Overview", "a tossed cookie logs nobody out"
        assert browser.js("document.cookie") == "threegate_page=tossed", "no script sees the real one"
        leaked = browser.js(f"fetch({other!r}, {{mode: 'no-cors'}}).then(() => 'sent', () => 'refused')")
        assert leaked == "refused", "and the page itself may speak to nobody else"
    finally:
        server.shutdown()
        server.server_close()
        browser.send("Network.deleteCookies", name="threegate_page", url=f"{shown.origin}/x", path="/")
        del browser.events[before:]


def test_the_link_stays_nowhere(shown: Shown) -> None:
    browser = shown.browser
    link = shown.link()
    browser.open("about:blank")
    browser.open(link)
    assert browser.js("location.href") != link and "/login/" not in browser.js("location.href")
    entries = browser.send("Page.getNavigationHistory")["entries"]
    assert entries and not [entry["url"] for entry in entries if "/login/" in entry["url"]]
    browser.open(link)
    assert "It works once" in browser.js("document.body.textContent")
    browser.open(shown.base)
    assert browser.js("document.referrer") == ""
    assert [event for event in browser.complaints() if "403" not in event] == []
    browser.events.clear()


def test_a_list_is_renewed_without_losing_the_place(shown: Shown) -> None:
    browser = shown.browser
    browser.size(1000, 500)
    browser.open(f"{shown.base}list/drafts")
    browser.until("document.getElementById('fresh').textContent.startsWith('Looks for changes')")
    focused = browser.js(
        "(() => { const a = [...document.querySelectorAll('.request a')].filter(a => a.checkVisibility()).at(-2); "
        "a.focus(); a.scrollIntoView({block: 'center'}); return a.id })()"
    )
    place = f"Math.round(document.getElementById({focused!r}).getBoundingClientRect().top)"
    look = "document.dispatchEvent(new Event('visibilitychange'))"
    browser.js(look)
    top, rows = browser.js(place), browser.js("document.querySelectorAll('.request a').length")
    first = shown.bench.draft("early-1", slug="aaa", data=None, code="print(7)")
    os.utime(first, (1_600_000_000,) * 2)
    browser.js(look)
    browser.until(f"document.querySelectorAll('.request a').length === {rows + 1}")
    assert browser.js("document.activeElement.id") == focused
    assert abs(browser.js(place) - top) <= 2
    assert browser.js("document.getElementById('count-drafts').textContent") == str(rows + 1)
    assert browser.until("document.getElementById('fresh').textContent").startswith("Renewed at")
    browser.js("document.getElementById('pause').click()")
    assert browser.js("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    first.unlink()
    browser.js(look)
    assert (
        browser.js("new Promise(r => setTimeout(() => r(document.querySelectorAll('.request a').length), 400))")
        == rows + 1
    )
    browser.js("document.getElementById('pause').click()")
    browser.js(look)
    browser.until(f"document.querySelectorAll('.request a').length === {rows}")
    browser.size(1280, 1000)
    assert browser.complaints() == []


def test_a_fold_keeps_the_focus_and_the_place_when_the_list_is_renewed(shown: Shown) -> None:
    """The focus is on what opens a fold, or on a draft that becomes one of those alike; a closed fold is no place."""
    browser = shown.browser
    browser.size(1000, 500)
    paths = [
        shown.bench.draft(f"alike-{number}", slug=f"alike{number}", data=None, code="print(70)") for number in range(3)
    ]
    links = "[...document.querySelectorAll('.request a')]"
    alike = f"{links}.filter(a => /alike[0-9]/.test(a.textContent))"

    def renewed(rows: int) -> None:
        browser.js("document.dispatchEvent(new Event('visibilitychange'))")
        browser.until(f"{links}.length === {rows}")

    try:
        browser.open(f"{shown.base}list/drafts")
        rows = browser.js(f"{links}.length")
        browser.js("document.dispatchEvent(new Event('visibilitychange'))")
        browser.until("document.getElementById('fresh').textContent.startsWith('Looks for changes')")
        opens = browser.js(
            f"(() => {{ const s = {alike}[0].closest('details').querySelector('summary'); s.focus(); s.scrollIntoView("
            "{block: 'center'}); return s.id })()"
        )
        place = f"Math.round(document.getElementById({opens!r}).getBoundingClientRect().top)"
        top = browser.js(place)
        paths.pop(0).unlink()
        renewed(rows - 1)
        assert browser.js("document.activeElement.id") == opens and abs(browser.js(place) - top) <= 2
        assert not browser.js("document.activeElement.closest('details').open"), "it opens nothing by itself"
        paths.pop(0).unlink()
        renewed(rows - 2)
        focused = browser.js(f"(() => {{ const a = {alike}[0]; a.focus(); return a.id }})()")
        paths.append(shown.bench.draft("alike-9", slug="alike9", data=None, code="print(70)"))
        renewed(rows - 1)
        assert browser.js("document.activeElement.id") == focused
        assert browser.js("document.activeElement.closest('details').open"), "it is on the screen"
    finally:
        browser.size(1280, 1000)
        for path in paths:
            path.unlink()
    assert browser.complaints() == []


def test_a_request_is_not_changed_under_a_readers_eyes(shown: Shown) -> None:
    browser = shown.browser
    path = shown.bench.draft("read-1", slug="reading", data=None, code="print('before')")
    browser.open(shown.address_of("reading"))
    look = "document.dispatchEvent(new Event('visibilitychange'))"
    browser.js(look)
    other = path.with_name(".other")
    other.write_text(path.read_text().replace("before", "after!"))
    other.rename(path)  # at once: the page says so where it finds a file that is being written
    browser.until(f"({look}, !document.getElementById('changed').hidden)")
    text = browser.js("document.getElementById('main').textContent")
    assert "print('before')" in text and "This changed since you opened it." in text
    browser.js("document.querySelector('#changed a').click()")
    browser.until(
        "document.readyState === 'complete' && "
        "document.getElementById('main')?.textContent.includes(\"print('after!')\")"
    )
    path.unlink()
    assert browser.complaints() == []


def test_a_screen_reader_finds_its_way(shown: Shown) -> None:
    """Landmarks, one first heading, no jump between headings, tables with captions and headers, names for all that
    acts.
    """
    browser = shown.browser
    good, bad = shown.address_of("-h0"), shown.address_of("-r0")
    for address in (shown.base, f"{shown.base}list/drafts", good, bad):
        browser.open(address)
        nodes = browser.tree()
        roles = [node["role"]["value"] for node in nodes]
        for landmark in ("banner", "navigation", "main", "contentinfo"):
            assert landmark in roles, (address, landmark)
        assert roles.count("main") == 1 and browser.js("document.documentElement.lang") == "en"
        levels = browser.js("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
        assert levels.count(1) == 1 and levels[0] == 1
        assert all(later - earlier <= 1 for earlier, later in zip(levels, levels[1:], strict=False))
        for node in nodes:
            if node["role"]["value"] in (
                "link",
                "button",
                "searchbox",
                "textbox",
                "table",
                "navigation",
                "group",
                "search",
            ):
                assert node["role"]["value"] == "search" or node.get("name", {}).get("value"), (
                    address,
                    node["role"],
                )
        if address == bad:
            assert "columnheader" in roles and "rowheader" in roles
        elif address == good:
            assert "rowheader" in roles
        else:
            lists = [node["name"]["value"] for node in nodes if node["role"]["value"] == "list"]
            assert lists[0] == "" and all(lists[1:]), "the first is the navigation's"
            assert "listitem" in roles
        live = "#live[data-live=list]"
        assert browser.js(f"[...document.querySelectorAll('{live} a, {live} summary')].every(e => e.id)"), (
            "the focus finds its way back when the list is renewed"
        )
        assert browser.js("[...document.querySelectorAll('th')].every(th => th.scope)")
        assert browser.js(
            "[...document.querySelectorAll('[id]')].length === new Set([...document.querySelectorAll('[id]')].map(e => "
            "e.id)).size"
        )
        assert browser.js(
            "[...document.querySelectorAll('[aria-labelledby],[aria-describedby]')].every(e => "
            "document.getElementById(e.getAttribute('aria-labelledby') || e.getAttribute('aria-describedby')))"
        )


def test_everything_can_be_done_with_the_keyboard(shown: Shown) -> None:
    browser = shown.browser
    browser.open(shown.address_of("-h0"))
    browser.key("Tab", 9)
    assert browser.js("document.activeElement.className") == "skip"
    visible = browser.js("document.activeElement.getBoundingClientRect().left >= 0")
    assert visible, "the skip link shows itself when it has the focus"
    browser.key("Enter", 13, "\r")
    browser.until("document.activeElement.id === 'main'")
    browser.js("document.querySelector('.side details').open = true")
    wanted = browser.js(
        "[...document.querySelectorAll('a, button:not([hidden]), input, summary')].filter(e => e.checkVisibility() && "
        "e.className !== 'skip' && !e.closest('header')).length"
    )
    order = []
    for _ in range(wanted):
        browser.key("Tab", 9)
        order.append(browser.js("document.activeElement.className || document.activeElement.id"))
        assert browser.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert order[0] == "copy" and order.count("copy") >= 3 and order[-1] == "pause", order
    browser.js("document.querySelector('button.copy').focus()")
    browser.send("Browser.grantPermissions", permissions=["clipboardSanitizedWrite"])
    browser.key("Enter", 13, "\r")
    browser.until("document.getElementById('fresh').textContent === 'Copied.'")
    assert browser.complaints() == []


_CONTRAST = """
(() => {
  const light = (c) => { const v = c.map((x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const parse = (s) => s.match(/[\\d.]+/g).map(Number);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || e.closest("script, style, .hidden, [hidden]")) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push([e.className || e.tagName, ratio]);
  }
  return bad;
})()
"""  # noqa: E501


@pytest.mark.parametrize("dark", [False, True])
def test_contrast_is_enough(shown: Shown, dark: bool) -> None:
    browser = shown.browser
    browser.size(1280, 1000, dark=dark)
    good, bad = shown.address_of("-h0"), shown.address_of("-r0")
    for address in (shown.base, f"{shown.base}list/drafts", good, bad):
        browser.open(address)
        assert browser.js(_CONTRAST) == [], address
    ground = browser.js("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(21, 22, 24)") is dark
    browser.size(1280, 1000)


@pytest.mark.slow
def test_two_columns_where_there_is_room_and_one_column_of_cards_on_a_phone(shown: Shown, tmp_path: Path) -> None:
    """Screenshots are kept in THREEGATE_SCREENSHOTS, to be looked at."""
    kept = Path(os.environ.get("THREEGATE_SCREENSHOTS") or tmp_path)
    browser = shown.browser
    address = shown.address_of("-h0")
    edges = """['.side', '.content'].map(c => {
        const e = document.querySelector(c).getBoundingClientRect(); return [e.left, e.right, e.top, e.bottom] })"""
    try:
        for name, width, height, dark in (
            ("wide", 1280, 900, False),
            ("dark", 1280, 900, True),
            ("edge", 1000, 900, False),
            ("phone", 390, 844, False),
        ):
            browser.size(width, height, dark=dark)
            browser.open(shown.base)
            browser.picture(kept / f"overview-{name}.png")
            folds = browser.js("[...document.querySelectorAll('section > details')].map(d => d.open)")
            assert folds == [False] * 3, "what has ended and what waits for others is folded"
            browser.open(address)
            browser.picture(kept / f"request-{name}.png")
            side, content = browser.js(edges)
            if width >= 1000:
                assert content[1] < side[0] and abs(side[2] - content[2]) < 1, "what runs left, the card right"
                assert browser.js("getComputedStyle(document.querySelector('.side')).position") == "sticky"
            else:
                assert side[3] <= content[2] and side[0] == content[0], "the card above what runs"
            assert not browser.js("document.documentElement.scrollWidth > innerWidth")
            assert browser.js("document.querySelector('.side h2').textContent") == "The request"
            line = browser.js("document.querySelector('.side .command').textContent")
            assert line.startswith("threegate -w ") and " approve " in line
    finally:
        browser.size(1280, 1000)


def test_a_fold_that_is_open_stays_open_and_the_age_is_counted(shown: Shown) -> None:
    browser = shown.browser
    browser.open(shown.base)
    browser.js("document.getElementById('fold-others').open = true")
    assert browser.until("/^[0-9]+ (s|min|h|d)$/.test(document.querySelector('time.age').textContent)")
    path = shown.bench.draft("fold-1", slug="zfold", data=None, code="print(7)")
    browser.js("document.dispatchEvent(new Event('visibilitychange'))")
    try:
        browser.until("document.getElementById('fresh').textContent.startsWith('Renewed')")
        assert browser.js("document.getElementById('fold-others').open") is True
    finally:
        path.unlink()
    assert browser.complaints() == []


@pytest.mark.slow
def test_it_prints_whole_and_works_without_its_script(shown: Shown, tmp_path: Path) -> None:
    import base64

    browser = shown.browser
    browser.open(shown.address_of("-h0"))
    printed = base64.b64decode(browser.send("Page.printToPDF")["data"])
    assert printed.startswith(b"%PDF")
    browser.size(1280, 1000, media="print")
    assert browser.js("getComputedStyle(document.querySelector('header nav')).display") == "none"
    assert browser.js("getComputedStyle(document.querySelector('.foreign')).overflow") == "visible"
    browser.size(1280, 1000)
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(shown.base)
        nodes = browser.tree()
        names = [node.get("name", {}).get("value", "") for node in nodes]
        assert "Reload to see what changed." in names and "Pause updates" not in names
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
