"""One call is one line; on a terminal a long one goes on indented."""

from __future__ import annotations

import io
import os
import pty
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.approval.shown import messages
from threegate.approval.shown.escaped_lines import Title

FORGED = "z\nthreegate: these changes were read and signed"


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], None]], str]]:
    """Calls something with a terminal of 40 columns as stdout and stderr; what it wrote there."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 40))
    modes = termios.tcgetattr(slave)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    with open(slave, "w", encoding="utf-8") as stream:
        monkeypatch.setenv("NO_COLOR", "1")

        def written(act: Callable[[], None]) -> str:
            with redirect_stdout(stream), redirect_stderr(stream):
                act()
                stream.write("\0")
                stream.flush()
            seen = b""
            while not seen.endswith(b"\0"):
                seen += os.read(master, 65536)
            return seen[:-1].decode()

        yield written
    os.close(master)


def test_a_line_break_is_foreign(capsys: pytest.CaptureFixture[str]) -> None:
    messages.say(FORGED)
    messages.put([FORGED, "own"])
    messages.prompt(f"{FORGED}? ")
    out = capsys.readouterr().out
    assert out.count("z\\x0athreegate:") == 3 and out.count("\n") == 4


@pytest.mark.parametrize("odd", ["\x1b[2J", "\r", "\x85", "\u2028", "\u202e", "\x00", "\udc80"])
def test_what_a_terminal_would_obey_is_shown(odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    messages.say(f"a{odd}b")
    assert odd not in capsys.readouterr().out


def test_no_row_of_a_terminal_begins_with_foreign_text(on_terminal: Callable[[Callable[[], None]], str]) -> None:
    """Whatever its width is: a name can repeat the forged words."""
    name = "x" * 30 + "threegate: ok " * 20
    rows = on_terminal(lambda: messages.say(f"threegate: left out: {name}", err=True)).split("\n")
    assert len(rows) > 5 and all(len(row) <= 40 for row in rows)
    assert all(row.startswith("  ") for row in rows[1:-1]) and rows[-1] == ""


@given(st.text(max_size=300), st.integers(20, 100))
def test_folding_loses_nothing(line: str, columns: int) -> None:
    line = messages.safe(line)
    first, *rest = messages.folded(line, columns)
    assert all(row.startswith("  ") for row in rest)
    cells = [sum(1 if char.isascii() else 2 for char in row) for row in (first, *rest)]
    assert max(cells) <= columns
    assert "".join([first, *(row[2:] for row in rest)]).replace(" ", "") == line.replace(" ", "")


def test_a_link_is_not_folded_but_words_are(on_terminal: Callable[[Callable[[], None]], str]) -> None:
    link = "http://localhost:8000/page/enrol/" + "a" * 60
    assert on_terminal(lambda: messages.say(link, copied=True)) == f"{link}\n"
    words = "threegate: ok " * 5
    assert "\n  " in on_terminal(lambda: messages.say(words, copied=True))


def test_data_is_as_it_is_but_not_on_a_terminal(
    on_terminal: Callable[[Callable[[], None]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_terminal(lambda: messages.emit_data("a\x1b[2J\nb\n")) == "a\\x1b[2J\nb\n"
    assert on_terminal(lambda: messages.emit_data(b"a\xff\n")) == "a\\xff\n"
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8"))
    messages.emit_data("a\x1b[2J\n")
    messages.emit_data(b"\xff")
    assert raw.getvalue() == b"a\x1b[2J\n\xff"


def test_a_terminal_gets_colours_only_where_a_line_fits(
    on_terminal: Callable[[Callable[[], None]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert on_terminal(lambda: messages.put([Title("== a")])) == "\x1b[1m== a\x1b[0m\n"
    assert "\x1b" not in on_terminal(lambda: messages.put([Title("== a" + " b" * 40), Title("a\x1b")]))


def test_a_stream_without_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    stream: TextIO = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    messages.say("naïve")
    assert raw.getvalue() == b"na\\xefve\n"


def test_only_a_terminal_is_erased(on_terminal: Callable[[Callable[[], None]], str]) -> None:
    assert on_terminal(messages.redraw) == "\x1b[H\x1b[2J"
    assert on_terminal(lambda: messages.redraw(3)) == "\x1b[3F\x1b[J"


def test_nothing_is_erased_where_there_is_no_terminal(
    on_terminal: Callable[[Callable[[], None]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    messages.redraw(3)
    assert capsys.readouterr().out == ""
    assert on_terminal(lambda: messages.redraw(3)) == "\x1b[3F\x1b[J"


def test_a_row_of_ours_takes_the_place_of_the_one_before(on_terminal: Callable[[Callable[[], None]], str]) -> None:
    assert on_terminal(lambda: messages.passing("to 3 of 9")) == f"\r{'':39}\rto 3 of 9"
    assert on_terminal(lambda: messages.passing("\x1b" * 60)).endswith("\\x1b" * 9 + "\\x1")


def test_the_rows_of_lines_are_those_that_are_printed(on_terminal: Callable[[Callable[[], None]], str]) -> None:
    lines = [Title("== a"), "word " * 20, "\x1b"]
    rows: list[str] = []
    on_terminal(lambda: rows.extend(messages.rows_for(lines)))
    assert isinstance(rows[0], Title) and len(rows) == 2 + 3
    assert on_terminal(lambda: messages.put(lines[1:])) == "".join(f"{row}\n" for row in rows[1:-1]) + "\\x1b\n"
    sizes: list[tuple[int, int]] = []
    on_terminal(lambda: sizes.append(messages.terminal_size()))
    assert sizes == [(40, 24)]
