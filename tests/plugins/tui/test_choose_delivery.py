"""What a change becomes is chosen while it is read: in the application with `o`, in the plain review with `d`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.plugins.changes.branches import Branching, branching
from tests.plugins.tui.terminal import drive, open_first, read_all, rows, until
from threegate.core.workspace import Workspace
from threegate.plugins.tui.lines import Lines
from threegate.plugins.tui.operator_app import OperatorApp, RequestsScreen


@pytest.fixture
def here() -> Iterator[Branching]:
    with branching({"app.py": "print(1)\n"}, deliver="tree") as made:
        yield made


def draft(here: Branching) -> Path:
    return here.propose(lambda work: (work / "app.py").write_text("print(2)\n"))


def approved(here: Branching, name: str) -> str:
    return (here.place.root / "tool-exec" / "approved" / name).read_text()


def test_the_key_opens_it_again_as_the_next_choice(here: Branching) -> None:
    """Lines of the files that were read before the key count, what the other choice does is read anew."""
    path = draft(here)
    app = OperatorApp(Workspace(here.place.root), undecided=True, key=here.place.key)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        first = "\n".join(await read_all(pilot, lines))
        assert "or deliver   branch" in first and "delivers" not in first
        assert "o Or deliver" in rows(app)[-1]
        await pilot.press("o")
        await until(pilot, lambda: any("or deliver   tree" in str(line) for line in lines.lines))
        assert any("one commit on the new branch" in str(line) for line in lines.lines)
        assert app.screen.query_one(Lines).unseen > 0
        await read_all(pilot, lines)
        await pilot.press("a", "y")
        await until(pilot, lambda: isinstance(app.screen, RequestsScreen) and not app.screen.has_class("opened"))

    drive(app, script)
    assert '\ndeliver: "branch"\n' in approved(here, path.name)


def test_the_plain_review_asks_again_with_the_next_choice(here: Branching) -> None:
    path = draft(here)
    parent, child = pty.openpty()
    words = ("-w", str(here.place.root), "review", "--plain", "--as", "operator", "--key", str(here.place.key))
    with subprocess.Popen(
        ["setsid", "-c", "-w", sys.executable, "-m", "threegate", *words], stdin=child, stdout=child, stderr=child
    ) as process:
        os.close(child)
        shown = b""
        for answer in (b"d\n", b"a\n"):
            while not shown.endswith(b"[q]uit > "):
                shown += os.read(parent, 65536)
            assert (b"one commit on the new branch" in shown) == (answer == b"a\n")
            os.write(parent, answer)
            shown = shown if answer == b"d\n" else b""
            shown += os.read(parent, 1)
        try:
            while os.read(parent, 65536):
                pass
        except OSError:
            pass
        assert process.wait() == 0
    os.close(parent)
    assert '\ndeliver: "branch"\n' in approved(here, path.name)
