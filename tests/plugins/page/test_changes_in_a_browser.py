"""A change set on the page in a real browser: wide and narrow, light and dark, by keyboard, for a screen reader."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.bench_workspace import make_bench
from tests.chromium import Chromium
from tests.plugins.page.agent_drafts import agent_draft
from threegate.core import limits

pytestmark = [pytest.mark.browser, pytest.mark.slow]
THREEGATE = [sys.executable, "-m", "threegate"]
MANY = "".join(f"line {number} of a file with some words in it\n" for number in range(limits.PAGE_DIFF_ROWS + 20))
BEFORE = {"a.py": "x = 1\ny = 2\n", "gone.txt": "bye\n", "one.js": "x" * 30_000 + "\n", "Makefile": "all:\n\techo\n"}
AFTER = {
    "a.py": f"x = 2\ny = '{'w' * 900}'\nz = '\u202eevil\u202c'\n",
    "one.js": "x" * 15_000 + "evil()" + "x" * 15_000 + "\n",
    "Makefile": "all:\n\techo hi\n",
    "<img src=x onerror=alert(1)> a_very_long_name_that_has_no_blank_anywhere_in_it_at_all.txt": MANY,
}


class Shown:
    """The page of a draft of an agent, in a browser that is logged in."""

    def __init__(self, folder: Path) -> None:
        bench = make_bench(folder)
        agent_draft(bench, folder, BEFORE, AFTER)
        environment = {**os.environ, "THREEGATE_WORKSPACE": str(bench.workspace.root)}
        self.server = subprocess.Popen(
            [*THREEGATE, "serve", "page"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.server.stdout is not None and self.server.stdout.readline().startswith("listening on ")
        link = subprocess.run(
            [*THREEGATE, "serve", "page"], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()
        self.browser = Chromium(folder / "profile")
        self.browser.open(link)
        self.browser.open(self.browser.js("location.href") + "list/drafts")
        self.draft = str(self.browser.js("document.querySelector('.request a').href"))

    def close(self) -> None:
        self.browser.close()
        self.server.terminate()
        self.server.communicate(timeout=20)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("changes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        found = Shown(folder)
        yield found
        found.close()


_LOOK = """
(() => {
  const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const under = (node) => { for (let at = node; at; at = at.parentElement) {
    const found = rgb(getComputedStyle(at).backgroundColor); if (found.length < 4 || found[3] > 0) return found; } };
  const bad = [], loose = [];
  for (const cell of document.querySelectorAll(".diff td, .files li, .marks li, h3 *")) {
    if (!cell.textContent.trim()) continue;
    const [a, b] = [light(rgb(getComputedStyle(cell).color)), light(under(cell))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.push([cell.className, cell.textContent.slice(0, 20)]);
  }
  for (const cell of document.querySelectorAll(".diff td.foreign")) {
    const edge = cell.getBoundingClientRect(), range = document.createRange();
    range.selectNodeContents(cell);
    const bar = parseFloat(getComputedStyle(cell).borderLeftWidth);
    for (const row of range.getClientRects())
      if (bar < 4 || row.left < edge.left + bar || row.right > Math.min(edge.right, innerWidth) + 1) loose.push(cell.textContent.slice(0, 20));
  }
  return {bad, loose, wide: document.documentElement.scrollWidth > innerWidth, rows: document.querySelectorAll(".diff tr").length};
})()
"""  # noqa: E501


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_whole_and_readable(shown: Shown, width: int, dark: bool) -> None:
    browser = shown.browser
    browser.size(width, 900, dark=dark)
    browser.open(shown.draft)
    own = browser.js("[...document.querySelectorAll('.own-page a')].map((a) => a.href)")
    assert len(own) == 1
    for address in (shown.draft, *own):
        browser.open(address)
        seen = browser.js(_LOOK)
        assert seen["rows"] > 5 and not seen["wide"], (address, seen)
        assert seen["bad"] == [] and seen["loose"] == [], (address, seen)
    assert browser.complaints() == []


def test_one_reads_it_by_keyboard(shown: Shown) -> None:
    """From the list to a file, on to the next, to a page of lines and back."""
    browser = shown.browser
    browser.size(1280, 900)
    browser.open(shown.draft)
    browser.js("document.querySelector('.files a').focus()")
    browser.key("Enter", 13, "\r")
    assert browser.until("location.hash") == "#file-1"
    assert browser.js("document.activeElement.id") == "file-1"
    reached = ""
    for _ in range(20):
        browser.key("Tab", 9)
        reached = str(browser.js("document.activeElement.textContent"))
        if reached == "Next file":
            break
    assert reached == "Next file"
    browser.key("Enter", 13, "\r")
    assert browser.until("location.hash") == "#file-2"
    browser.js("document.querySelector('.own-page a').focus()")
    browser.key("Enter", 13, "\r")
    assert browser.until("location.pathname.includes('/file/') && document.querySelectorAll('.diff tr').length > 400")
    browser.js("document.getElementById('back').focus()")
    browser.key("Enter", 13, "\r")
    assert browser.until("location.pathname.includes('/request/') && location.hash.startsWith('#file-')")


def test_a_screen_reader_meets_tables_insertions_and_deletions(shown: Shown) -> None:
    browser = shown.browser
    browser.open(shown.draft)
    roles = [node["role"]["value"] for node in browser.tree() if "role" in node]
    assert {"insertion", "deletion", "table", "navigation"} <= set(roles)
    names = {node.get("name", {}).get("value", "") for node in browser.tree()}
    assert "its lines" in names and any(name.startswith("MODIFIED a.py") for name in names), names
