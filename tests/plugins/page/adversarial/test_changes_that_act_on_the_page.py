"""Change sets of an agent that act, hide, or speak in our name on the page; and changes that are too large for one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.hostile_texts import MARK, PASSING, REFUSED
from tests.plugins.page.agent_drafts import agent_draft
from tests.plugins.page.page_client import Client
from tests.plugins.page.page_rows import Cells, Page
from threegate.approval.shown.escaped_lines import DiffRow, diff_lines
from threegate.core import limits
from threegate.core.file_diff import Piece, TextChange
from threegate.core.screen_parts import FileDiff
from threegate.plugins.page.diff_pages import table_pages
from threegate.review.overview import entries
from threegate.review.request_view import view_request

BIG = "".join(f"line {number}\n" for number in range(limits.PAGE_DIFF_ROWS * 2 + 30))
OURS = ("39 equal lines", "the file ends here, without a line end", "Next file", "+ 1 | approved", "</td><h2>Walls")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def opened(bench: Bench) -> tuple[Client, str, str]:
    """A client, the address of the only draft, and its page."""
    client = Client(bench.workspace)
    client.login()
    (address,) = client.links("drafts")
    return client, address, client.get(address)


def own_pages(page: str) -> list[str]:
    """The addresses of pages with lines that are not on this one, below the base."""
    return list(dict.fromkeys(re.findall(r'href="/page/[0-9a-f]{32}/(file/[^"?]+)', page)))


def all_rows(client: Client, page: str) -> list[Cells]:
    """The lines of a request's page and of each page that it leads to."""
    rows = Page(page).rows
    for address in own_pages(page):
        first = client.get(address)
        rows += Page(first).rows
        for number in range(2, int((re.findall(r"Page 1 of (\d+)", first) or ["1"])[0]) + 1):
            rows += Page(client.get(f"{address}?page={number}")).rows
    return rows


def terminal_rows(bench: Bench) -> list[tuple[str, str, str, str]]:
    """The same lines as the terminal has them: numbers, mark, text."""
    (entry,) = entries(bench.workspace, "drafts")
    view = view_request(bench.context, entry)
    items = [item for section in view.sections for item in section.items if isinstance(item, FileDiff)]
    found = []
    for item in items:
        size = len(str(max(len(item.text.old), len(item.text.new)))) if item.text else 0
        for row in diff_lines(item.text, width=1 << 30) if item.text else []:
            if isinstance(row, DiffRow):
                old, new = row[2 : 2 + size].strip(), row[3 + size : 3 + 2 * size].strip()
                found.append((old, new, row.mark, row[row.start :]))
    return found


def joined(rows: list[Cells]) -> list[tuple[str, str, str, str]]:
    """Rows with the lines that go on in further rows put together."""
    found: list[tuple[str, str, str, str]] = []
    for row in rows:
        sign = row.sign.replace("−", "-") or " "
        assert row.tag == {"+": "ins", "-": "del", " ": ""}[sign], row
        if row.old or row.new:
            found.append((row.old, row.new, sign, row.text))
        else:
            found[-1] = (*found[-1][:2], sign, found[-1][3] + row.text)
    return found


def test_the_page_has_every_line_that_the_terminal_has(bench: Bench, tmp_path: Path) -> None:
    old = "".join(f"row {number}\n" for number in range(60))
    agent_draft(
        bench,
        tmp_path,
        {"a.py": old, "tabs": "\ta\tb\n", "gone": "bye\n", "end": "x\n"},
        {"a.py": old.replace("row 7\n", "ROW\n").replace("row 50\n", ""), "tabs": "\ta\tc\n", "new": BIG, "end": "x"},
    )
    client, _, page = opened(bench)
    rows, expected = joined(all_rows(client, page)), terminal_rows(bench)
    assert len(expected) > limits.PAGE_DIFF_ROWS * 2 and sorted(rows) == sorted(expected)
    assert "the file ends here, without a line end" in page and "equal lines" in page
    assert len(own_pages(page)) == 1 and f"{BIG.count(chr(10))} lines are on" in page


def test_hostile_words_of_a_change_stay_words_behind_the_bar(bench: Bench, tmp_path: Path) -> None:
    """Contents and paths: each is in a foreign cell, nothing acts, nothing hidden is left hidden."""
    texts = [f"{MARK} {text}" for text in (*PASSING, *REFUSED)]
    lines = "".join(text.replace("\n", " ") + "\n" for text in (*texts, *(f"{ours} {MARK}" for ours in OURS)))
    names = [f"{MARK} <img src=x onerror=alert(1)>.py", f"{MARK}'\" onmouseover=alert(2) x", f"{MARK}&lt;b>.txt"]
    after = {"keep": "k\n", "old": "o\n", **dict.fromkeys(names, lines)}
    agent_draft(bench, tmp_path, {"keep": "k\n", "old": lines}, after)
    client, _, page = opened(bench)
    read = Page(page)
    found = [(text, around) for text, around in read.texts if MARK in text]
    assert len(found) > 4 * len(texts)
    for text, around in found:
        assert any("foreign" in part.partition(".")[2].split() for part in around), (text, around)
        assert text.isprintable() or text.strip("\n").isprintable(), text
    assert read.tags.count("script") == 1 and read.tags.count("style") == 1
    assert not {"img", "svg", "iframe", "base", "form", "object"} & set(read.tags)
    assert not [name for name, _ in read.attributes if name.startswith("on") or name == "style"]
    assert not re.search("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\x00-\x08\x1b\ufeff]", page)
    assert sorted(joined(all_rows(client, page))) == sorted(terminal_rows(bench))
    for row in read.rows:
        assert row.old + row.new == "" or (row.old + row.new).isdigit()
        assert not set(row.sign) - set(" +−") and len(row.sign) < 2


def test_a_line_of_2_mb_makes_no_page_of_2_mb(bench: Bench, tmp_path: Path) -> None:
    line = "".join(f"{number:07x}" for number in range(300_000))
    agent_draft(bench, tmp_path, {"min.js": "old\n", "a": "1\n"}, {"min.js": f"{line}\n", "a": "2\n"})
    client, _, page = opened(bench)
    assert len(page) < 100_000 and len(own_pages(page)) == 1
    (address,) = own_pages(page)
    first = client.get(address)
    pages = int(re.findall(r"Page 1 of (\d+)", first)[0])
    last = client.get(f"{address}?page={pages}")
    assert max(len(first), len(last)) < limits.PAGE_DIFF_CHARS * 1.2
    text = TextChange(("old",), (line,), (Piece(0, 1, 0, 1),))
    made = list(table_pages(text))
    assert len(made) == pages and "".join(row.text for page in made for row in page if row.mark == "+") == line
    for number, shown in ((0, first), (-1, last)):
        assert [row.text for row in Page(shown).rows] == [row.text for row in made[number]]


def test_however_many_files_there_are_one_page_has_a_bounded_number_of_rows(bench: Bench, tmp_path: Path) -> None:
    many = {f"f{number:04}.txt": f"{number}\n" * 40 for number in range(70)}
    agent_draft(bench, tmp_path, {"a": "1\n"}, {"a": "1\n", **many})
    client, _, page = opened(bench)
    assert len(Page(page).rows) <= limits.PAGE_DIFFS_ROWS
    assert len(own_pages(page)) == 70 - limits.PAGE_DIFFS_ROWS // 40
    assert page.count('<section class="file"') == 70 and "Changed files (70)" in page
    assert sorted(joined(all_rows(client, page))) == sorted(terminal_rows(bench))


def test_the_page_of_a_file_is_only_that_change_of_that_draft(bench: Bench, tmp_path: Path) -> None:
    draft = agent_draft(bench, tmp_path, {"new": "a\n"}, {"new": BIG})
    client, address, page = opened(bench)
    (own,) = own_pages(page)
    assert client.ask(client.base + own, cookie=False).status_code == 403
    for wrong in (own[:-1], own[:-1] + "zz", own.rpartition("/")[0] + "/../../x", own.replace("file/", "stream/")):
        assert client.ask(client.base + wrong).status_code == 404, wrong
    assert client.ask(client.base + own, method="POST").status_code == 405
    assert "is_no_page" not in client.get(f"{own}?page=is_no_page") and client.get(f"{own}?page=99999")
    draft.unlink()
    assert client.ask(client.base + own).status_code == 404
    assert client.ask(client.base + address).status_code == 404
