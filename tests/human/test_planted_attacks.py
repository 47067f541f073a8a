"""Each of fifty planted attacks can be read on the terminal, in the application and on the page, as they are rendered.

The screens are read as a person has them: pyte at three sizes, Chromium at three widths. One process shows all drafts,
so that the fifty cost what one does. The first section, the card, is read separately: what has to be there is not far
down.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyte
import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.adversarial.approval.test_terminal import terminal_environment
from tests.chromium import Chromium
from tests.commands import on_terminal
from tests.human.planted import Planted, attacks, everyday, later, place

_THREEGATE = [sys.executable, "-m", "threegate"]
_CARD_ENDS = re.compile(r"(== )?(WARNINGS|WHAT RUNS)")
_AT_THE_END = re.compile(r"lines \d+-(\d+) of \1,")
_PLACE = re.compile(r"lines (\d+-\d+) of \d+,")
_PICTURES = ("sends-a-file", "below-the-fold", "second-heading", "one-more-input")


@dataclass
class Queue:
    """A workspace in which yesterday's request was approved and fifty others wait."""

    bench: Bench
    planted: dict[str, Planted]

    state: Path

    def words(self, *words: str) -> list[str]:
        return ["-w", str(self.bench.workspace.root), *words, "--key", str(self.bench.keys["alice"])]


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    folder = tmp_path_factory.mktemp("human")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        bench = make_bench(folder)
        bench.settings(runners__era__engine=f"unix://{folder}/none", runners__era__image=f"sha256:{'1' * 64}")
        data = b"[1, 2]"
        text = everyday("yesterday", inputs={"day.json": hashlib.sha256(data).hexdigest()})
        bench.approve(place(bench, Planted("yesterday", text, inputs=(("day.json", data),))))
        planted = [*attacks(), *later()]
        yield Queue(bench, {item.name: item for item in planted}, folder / "state")


def flat(text: str) -> str:
    """Without spaces and bars: what is left reads the same however its lines were broken."""
    return re.sub(r"[\s|│▌]", "", text)


def misses(planted: Planted, text: str) -> list[str]:
    """What should be readable and is not."""
    found = _CARD_ENDS.search(text)
    card, whole = flat(text[: found.start()] if found else text), flat(text)
    missing = [f"{planted.name}: {item!r} is not in the card" for item in planted.card if flat(item) not in card]
    missing += [
        f"{planted.name}: {item!r} is nowhere" for item in (*planted.line, *planted.gate) if flat(item) not in whole
    ]
    if planted.gate and "== WHAT RUNS" in text:
        missing.append(f"{planted.name}: it can be approved")
    return missing


def alone(queue: Queue, planted: Planted) -> Path:
    """The draft as the only one in the inbox."""
    for path in queue.bench.workspace.inbox.glob("TR-*.md"):
        path.unlink()
    return place(queue.bench, planted)


class Terminal:
    """A command of ours under a terminal of this size."""

    def __init__(self, columns: int, lines: int, *words: str) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=20_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)
        self._columns = columns
        self._terminal, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._command = on_terminal(words, terminal_environment(NO_COLOR="1"), os.ttyname(child))
        self._open = child

    def rows(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def scrolled(self) -> list[str]:
        """Everything, scrolled back to the start."""
        history = self.screen.history.top
        return [
            *("".join(row[c].data for c in range(self._columns)).rstrip() for row in history),
            *self.rows(),
        ]

    def read(self, until: str, quiet: float = 0.03) -> None:
        """What comes, until `until` stands there and nothing has come for a moment, or the command has ended."""
        end = time.monotonic() + 60
        while True:
            assert time.monotonic() < end, "\n".join(self.rows())
            alive = self._command.is_alive()  # before the look: its last words may come between the two
            ready, _, _ = select.select([self._terminal], [], [], quiet)
            if not ready:
                if until in "\n".join(self.rows()) or not alive:
                    return
                continue
            try:
                chunk = os.read(self._terminal, 65536)
            except OSError:
                return
            if not chunk:
                return
            self._stream.feed(chunk)
            if chunk.endswith(b"q leaves"):  # a page of `approve`
                os.write(self._terminal, b" ")

    def place(self) -> str:
        """Which lines the application says are on the screen. It says so after they were painted."""
        found = _PLACE.search("\n".join(self.rows()))
        return found[1] if found else ""

    def turn(self) -> None:
        """The next page, as soon as it is there; a busy machine may take its time."""
        before, end = self.place(), time.monotonic() + 30
        self.type(" ")
        while self.place() in ("", before):
            assert time.monotonic() < end, "\n".join(self.rows())
            self.read(until="lines ")

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def end(self) -> None:
        self._command.kill()
        self._command.join()
        os.close(self._terminal)
        os.close(self._open)


def sample(queue: Queue, every: int) -> list[Planted]:
    """All of them in the long form, and every so-manyth else."""
    return list(queue.planted.values())[:: 1 if os.environ.get("THREEGATE_SOAK") else every]


def test_there_are_fifty() -> None:
    names = [planted.name for planted in (*attacks(), *later())]
    assert len(names) == len(set(names)) >= 50
    assert all(planted.card or planted.line or planted.gate for planted in (*attacks(), *later()))


SIZES = [
    (80, 24),
    pytest.param(60, 20, marks=pytest.mark.soak),
    pytest.param(200, 50, marks=pytest.mark.soak),
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_on_the_terminal(queue: Queue, columns: int, lines: int) -> None:
    missing = []
    for planted in queue.planted.values():
        path = alone(queue, planted)
        terminal = Terminal(columns, lines, *queue.words("approve", str(path), "--full"))
        terminal.read(until="[y/N]")
        missing += misses(planted, "\n".join(terminal.scrolled()))
        terminal.end()
        assert path.exists()
    assert missing == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_in_the_application(queue: Queue, columns: int, lines: int) -> None:
    """Paged down to the end, as somebody does who reads all of it."""
    missing = []
    for planted in sample(queue, 10):
        alone(queue, planted)
        terminal = Terminal(columns, lines, *queue.words("review"))
        terminal.read(until=planted.name[:12])
        terminal.type("\r")
        terminal.read(until="short: lines 1-")
        terminal.type("f")
        terminal.read(until="full: lines 1-")
        seen = terminal.rows()
        while not _AT_THE_END.search("\n".join(terminal.rows())):
            terminal.turn()
            seen += terminal.rows()
        missing += misses(planted, "\n".join(seen))
        terminal.end()
    assert missing == []


PAGES = [
    (1280, 900, False),
    pytest.param(390, 844, False, marks=pytest.mark.soak),
    pytest.param(1280, 900, True, marks=pytest.mark.soak),
]


@pytest.mark.browser
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("width", "height", "dark"), PAGES)
@pytest.mark.slow
def test_on_the_page(queue: Queue, tmp_path: Path, width: int, height: int, dark: bool) -> None:
    """As the browser lays it out: what is hidden or cut away by a style is not read."""
    environment = {**os.environ, "THREEGATE_WORKSPACE": str(queue.bench.workspace.root)}
    environment["XDG_STATE_HOME"] = str(queue.state)
    server = subprocess.Popen(
        [*_THREEGATE, "serve", "page"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    browser = Chromium(tmp_path / "profile")
    missing = []
    try:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("listening on ")
        link = subprocess.run(
            [*_THREEGATE, "serve", "page"], env=environment, capture_output=True, text=True, check=True
        )  # fmt: skip
        browser.open(link.stdout.strip())
        base = browser.js("location.href")
        browser.size(width, height, dark=dark)
        for planted in sample(queue, 4):
            alone(queue, planted)
            browser.open(f"{base}list/drafts")
            browser.open(browser.js("document.querySelector('.request a').href"))
            browser.js("for (const part of document.querySelectorAll('details')) part.open = true")
            missing += misses(planted, browser.js("document.querySelector('main').innerText"))
            if planted.name in _PICTURES and (kept := os.environ.get("THREEGATE_KEEP_SCREENS")):
                browser.picture(Path(kept) / f"{planted.name}-{width}{'-dark' if dark else ''}.png", whole=True)
    finally:
        browser.close()
        server.terminate()
        server.wait(20)
    assert missing == []
