"""What a request can do to the operator's terminal: nothing. Rendered under a real pseudo-terminal, and compared.

Gate 1 refuses most of what is tried here; the screen must hold without it, so its own functions are attacked directly,
and the whole command with everything that gate 1 lets pass.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyte
import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.conftest import few
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.review.screen import render_reviewed_draft

MORE = b"q leaves"
"""How the row ends behind which a screen goes on."""
SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def screen_of(bench: Bench, path: Path, **changes: Any) -> list[str]:
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        changed = replace(reviewed, **{key: value(reviewed) for key, value in changes.items()})
        return render_reviewed_draft(changed, context.policy.settings, operator="alice")


def under_a_terminal(
    command: list[str], answers: list[bytes], env: dict[str, str], columns: int = 80, lines: int = 24
) -> tuple[bytes, int]:
    """Run a command on a pseudo-terminal, reading on and answering each prompt; everything it wrote, and its exit
    code.
    """
    parent, child = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        command, stdin=child, stdout=child, stderr=child, env=env, start_new_session=True, close_fds=True
    )
    os.close(child)
    output, waiting = b"", list(answers)
    while True:
        ready, _, _ = select.select([parent], [], [], 60)
        assert ready, output[-500:]
        try:
            chunk = os.read(parent, 65536)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
        if output.endswith(MORE):
            os.write(parent, b" ")
        elif waiting and output.endswith((b"[y/N] ", b"[q]uit > ", b"agent) > ")):
            os.write(parent, waiting.pop(0))
    os.close(parent)
    return output, process.wait()


def terminal_environment(**more: str) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_STATE_HOME") if name in os.environ}
    return {**keep, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONUTF8": "1", **more}


def rows(output: bytes, columns: int = 80, lines: int = 24) -> list[str]:
    """What a terminal shows of it, scrolled back to the start."""
    screen = pyte.HistoryScreen(columns, lines, history=20_000, ratio=0.5)
    stream = pyte.ByteStream(screen)
    stream.feed(output)
    history = ["".join(line[column].data for column in range(columns)) for line in screen.history.top]
    return [line.rstrip() for line in [*history, *screen.display]]


@pytest.mark.parametrize("colours", few([True, False], 1))
def test_the_terminal_shows_exactly_our_lines(bench: Bench, colours: bool) -> None:
    code = "x = 1\nif x:\n    print('== WALLS')  # Sign as alice and let it run once? [y/N]\n" + "y = 2\n" * 90
    path = bench.draft(code=code.rstrip("\n") + "\nlong = '" + "z" * 300 + "'", purpose="Rank [bold]cities[/bold].")
    (bench.workspace.files / "data.csv").write_bytes(b"1\x1b[2J\xe2\x80\xae\x07\r\n")
    import hashlib

    digest = hashlib.sha256(b"1\x1b[2J\xe2\x80\xae\x07\r\n").hexdigest()
    path.write_text(re.sub(r"sha256: [0-9a-f]{64}", f"sha256: {digest}", path.read_text()))
    expected = screen_of(bench, path)
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "approve", str(path),
               "--key", str(bench.keys["alice"])]  # fmt: skip
    env = terminal_environment(**({} if colours else {"NO_COLOR": "1"}))
    output, status = under_a_terminal(command, [b"n\n"], env)
    assert status == 2 and path.exists()
    seen = rows(output)
    wanted = [str(line).rstrip() for line in expected]
    assert seen[: len(wanted)] == wanted
    left = SGR.sub("", output.decode())
    assert "\x1b" not in left and "\x07" not in left and "\u202e" not in left
    assert ("\x1b" in output.decode()) is colours
    output, status = under_a_terminal(command, [b"y\n"], env)
    assert status == 0 and not path.exists()


def test_review_walks_through_all_drafts(bench: Bench) -> None:
    bench.draft("req-1", slug="first")
    bench.draft("req-2", slug="second", data=None, code="print(2)")
    bench.draft("req-3", slug="third", data=None, code="print(3)")
    broken = bench.draft("req-4", slug="zbroken", data=None)
    broken.write_text(broken.read_text().replace("network: none", "network: always"))
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "review", "--plain", "--key",  # noqa: E501
               str(bench.keys["alice"])]  # fmt: skip
    answers = [b"f\n", b"a\n", b"s\n", b"x\n", b"r\n", b"not now\n", b"r\n", b"\n"]
    output, status = under_a_terminal(command, answers, terminal_environment(NO_COLOR="1"))
    text = output.decode()
    assert status == 0, text
    assert "1 approved, 2 rejected, 1 skipped" in text
    assert [path.name.endswith("first.md") for path in bench.workspace.approved.glob("*.md")] == [True]
    assert len(list(bench.workspace.refused.glob("*.md"))) == 2
    assert [path.name.endswith("second.md") for path in bench.workspace.inbox.glob("*.md")] == [True]


def test_approve_alone_is_review(bench: Bench) -> None:
    bench.draft("req-1", slug="first")
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "approve", "--key",
               str(bench.keys["alice"])]  # fmt: skip
    output, status = under_a_terminal(command, [b"a\n"], terminal_environment(NO_COLOR="1", TERM="dumb"))
    assert status == 0 and "1 approved, 0 rejected, 0 skipped" in output.decode()
    assert [path.name.endswith("first.md") for path in bench.workspace.approved.glob("*.md")] == [True]


def test_review_ends_when_the_terminal_does(bench: Bench) -> None:
    bench.draft()
    command = [
        sys.executable,
        "-m",
        "threegate",
        "--workspace",
        str(bench.workspace.root),
        "review",
        "--plain",
    ]
    output, status = under_a_terminal([*command, "--key", str(bench.keys["alice"])], [b"q\n"], terminal_environment())
    assert status == 0 and b"0 approved" in output
    done = subprocess.run(command, capture_output=True, env=terminal_environment(), stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and b"needs a terminal" in done.stderr
