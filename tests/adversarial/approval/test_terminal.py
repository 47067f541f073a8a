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
import unicodedata
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.acts.bench_workspace import Bench, make_bench
from threegate.request.job import Job
from threegate.review.review_sections import JOB_FIELDS
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.review.screen import render_reviewed_draft
from threegate.review.shown_text import (
    GUTTER,
    CodeLine,
    Title,
    cells,
    field,
    numbered,
    painted,
    quoted,
    shown,
)

SGR = re.compile(r"\x1b\[[0-9;]*m")
ATTACKS = [
    "\x1b[2J\x1b[H== WHAT YOU WOULD SIGN",
    "\x1b]0;title\x07\x1b]52;c;aGk=\x07",
    "\x1bP+q\x1b\\ \x9b2J \x90 \x9d",
    "harmless\rAPPROVED",
    "line\x08\x08\x08\x08gone",
    "\u202egnp.exe \u2066hidden\u2069",
    "zero\u200bwidth\ufeff\u00ad\u2060 \u180e\u3164",
    "tags\U000e0041\U000e0042 variation\ufe0f",
    "combining " + "e\u0301" * 50,
    "rtl \u05d0\u05d1\u05d2 \u0627\u0644 " + "x" * 10,
    "jamo \u1100\u1161\u11a8",
    "wide \u4e2d\u6587" * 60,
    "\u4dc0\u2630\U0001d306" * 40 + "== WARNINGS (0)",
    "\U0001f1e9\U0001f1ea\U0001f44d\U0001f3ff" * 30,
    "\u2500\u03b1\u0416" * 50,
    "\u2028\u2029\x85\x0b\x0c next",
    "tab\ttab",
    "\x00\x7f",
    "lone \ud800 surrogate",
    "Sign as alice and let it run once? [y/N] y",
    "[bold red]markup[/] :smile:",
    "x" * 5000,
    "\n" * 500,
    "| == WARNINGS (0)",
]


def plain_and_narrow(lines: list[str], width: int = 80) -> None:
    for line in lines:
        assert "\n" not in line
        assert cells(line) <= width
        for char in line:
            assert " " <= char <= "~" or unicodedata.category(char)[0] in "LNPS", repr(char)
            assert unicodedata.bidirectional(char) not in ("R", "AL", "AN")


@pytest.mark.parametrize("attack", ATTACKS)
def test_foreign_text_stays_behind_the_gutter(attack: str) -> None:
    for lines in (quoted(attack), quoted(attack, limit=5), numbered(attack), field("purpose", attack)):
        plain_and_narrow(lines)
        for line in lines:
            own = (
                line.startswith("  > ")
                or line.partition(GUTTER)[0].strip() in ("", "purpose")
                or isinstance(line, CodeLine)
            )
            assert own, line


@given(st.text(max_size=300))
def test_any_text_stays_behind_the_gutter(text: str) -> None:
    lines = quoted(text, limit=20)
    plain_and_narrow(lines)
    assert all(line.startswith(("  | ", "  > ")) for line in lines)
    whole = "".join(line.removeprefix("  | ") for line in quoted(text))
    assert whole == "".join(shown(line) for line in text.split("\n"))


def test_no_terminal_draws_a_character_wider_than_it_is_counted() -> None:
    """Against the tables of rich, which know a newer Unicode than Python's."""
    from rich.cells import cell_len

    for number in range(0x20000):  # the planes above are ideographs, alike, and what is not assigned
        char = chr(number)
        if shown(char) == char:
            assert 1 <= cell_len(char) <= cells(char), hex(number)


@given(st.text(max_size=200))
def test_colours_change_no_character(text: str) -> None:
    for line in [*numbered(text), Title("== TITLE"), "  plain"]:
        assert SGR.sub("", painted(line)) == line


def test_what_is_cut_is_counted() -> None:
    lines = quoted("\n".join(str(number) for number in range(100)), limit=10)
    assert len(lines) == 11
    assert lines[-1] == "  > 90 more lines of 100: --full shows all"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def screen_of(bench: Bench, path: Path, **changes: Any) -> list[str]:
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        changed = replace(reviewed, **{key: value(reviewed) for key, value in changes.items()})
        return render_reviewed_draft(changed, context.policy.settings, operator="alice")


def test_every_field_of_the_job_is_on_the_screen(bench: Bench) -> None:
    assert set(JOB_FIELDS) == {item.name for item in fields(Job)}
    path = bench.draft()
    before = screen_of(bench, path)
    other: dict[str, Any] = {
        "backend": "ERA", "argv": ("python3", "x"), "code": "print(2)\n", "vars_json": '{"a": 1}', "workdir": "/out",
        "outputs": ("/out/x",), "network": ("example.com:443",), "environment": {"A": "b"},
        "image": "sha256:" + "1" * 64, "egress_image": "sha256:" + "2" * 64, "runtime": "runsc",
        "seccomp_sha256": "3" * 64, "tool": "t", "session_id": "s", "labels": ("l",), "workflow": "w", "role": "r",
        "requested_by": "else", "effective_risk": "medium", "data_sensitivity": "internal",
        "proposal_sha256": "4" * 64,
    }  # fmt: skip
    for name in {item.name for item in fields(Job)} - {"limits", "inputs"}:
        after = screen_of(
            bench, path, job=lambda reviewed, name=name: replace(reviewed.job, **{name: other[name]})
        )
        signed = [line for line in after if not line.startswith("  job   ")]
        assert signed != [line for line in before if not line.startswith("  job   ")], name
    for item in ("cpu", "memory_mb", "time_sec", "processes", "open_files", "out_bytes", "out_files", "file_bytes",
                 "stream_bytes"):  # fmt: skip
        value: Any = "3" if item == "cpu" else 12345
        after = screen_of(
            bench, path, job=lambda d, i=item, v=value: replace(d.job, limits=replace(d.job.limits, **{i: v}))
        )
        assert any(str(value) in line for line in after) and after != before, item
    for item, value in (("name", "other.csv"), ("sha256", "5" * 64), ("size", 777), ("unpack", True)):
        after = screen_of(
            bench,
            path,
            job=lambda d, i=item, v=value: replace(d.job, inputs=(replace(d.job.inputs[0], **{i: v}),)),
        )
        assert [line for line in after if not line.startswith("  job   ")] != [
            line for line in before if not line.startswith("  job   ")
        ], item


def test_every_word_of_a_request_is_behind_the_gutter(bench: Bench) -> None:
    """Each foreign field is filled with attacks, past gate 1, and looked for outside of the gutter."""
    path = bench.draft()
    text = "\n".join(ATTACKS).encode("utf-8", "replace").decode()

    def attacked(reviewed: Any) -> Any:
        return replace(
            reviewed.request,
            purpose=text,
            justification=text,
            network_rationale=text,
            constraints=(text,),
            requested_by=text,
            evidence=(text,),
            risk_domain=text,
        )

    def job(reviewed: Any) -> Any:
        return replace(
            reviewed.job, argv=(text, text), code=text, vars_json=text, workdir=text, outputs=(text,), network=(text,),
            environment={text: text}, tool=text, session_id=text, labels=(text,), workflow=text, role=text,
            requested_by=text,
        )  # fmt: skip

    lines = screen_of(bench, path, request=attacked, job=job, requester=lambda reviewed: text)
    plain_and_narrow(lines)
    titles = [line for line in lines if line.startswith("==")]
    assert all(isinstance(line, Title) for line in titles)
    names = [line for line in titles if not line.startswith(("== REQUEST", "== WARNINGS"))]
    assert [str(line) for line in names] == [
        "== WHAT RUNS",
        "== WHAT THE REQUEST SAYS ABOUT ITSELF",
        "== WHAT THE JUDGEMENT WOULD SAY NOW",
        "== WHAT YOU WOULD SIGN",
    ]


def test_the_full_screen_leaves_out_nothing(bench: Bench) -> None:
    """Also of the fields that the short screen cuts at a dozen lines."""
    path = bench.draft()
    lines = [f"word {number}" for number in range(200)]
    text = "\n".join(lines)
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        changed = replace(
            reviewed,
            request=replace(
                reviewed.request, purpose=text, justification=text, risk_domain=text, constraints=(text,)
            ),
            job=replace(reviewed.job, code=text, vars_json=text, labels=tuple(lines)),
        )
        short = render_reviewed_draft(changed, context.policy.settings, operator="alice")
        full = render_reviewed_draft(changed, context.policy.settings, operator="alice", full=True)
    assert sum("more lines of 200: --full shows all" in line for line in short) == 7
    assert not [line for line in full if "--full" in line]
    assert sum(line.endswith("| word 199") for line in full) == 7


def under_a_terminal(command: list[str], answers: list[bytes], env: dict[str, str]) -> tuple[bytes, int]:
    """Run a command on an 80x24 pseudo-terminal, answering each prompt; everything it wrote, and its exit code."""
    parent, child = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
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
        if waiting and output.endswith((b"[y/N] ", b"[q]uit > ", b"agent) > ")):
            os.write(parent, waiting.pop(0))
    os.close(parent)
    return output, process.wait()


def terminal_environment(**more: str) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_STATE_HOME") if name in os.environ}
    return {**keep, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONUTF8": "1", **more}


def rows(output: bytes) -> list[str]:
    """What a terminal of 80 columns shows of it, scrolled back to the start."""
    screen = pyte.HistoryScreen(80, 24, history=5000, ratio=0.5)
    stream = pyte.ByteStream(screen)
    stream.feed(output)
    history = ["".join(line[column].data for column in range(80)) for line in screen.history.top]
    return [line.rstrip() for line in [*history, *screen.display]]


@pytest.mark.parametrize("colours", [True, False])
def test_the_terminal_shows_exactly_our_lines(bench: Bench, colours: bool) -> None:
    code = (
        "x = 1\nif x:\n    print('== WHAT YOU WOULD SIGN')  # Sign as alice and let it run once? [y/N]\n"
        + "y = 2\n" * 90
    )
    path = bench.draft(
        code=code.rstrip("\n") + "\nlong = '" + "z" * 300 + "'", purpose="Rank [bold]cities[/bold]."
    )
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
    volatile = [number for number, line in enumerate(wanted) if line.startswith("  holds until")]
    for number in volatile:
        assert seen[number].startswith("  holds until")
        wanted[number] = seen[number]
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
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "review", "--plain", "--key",
               str(bench.keys["alice"])]  # fmt: skip
    answers = [b"f\n", b"a\n", b"s\n", b"x\n", b"r\n", b"not now\n", b"r\n", b"\n"]
    output, status = under_a_terminal(command, answers, terminal_environment(NO_COLOR="1"))
    text = output.decode()
    assert status == 0, text
    assert "1 approved, 2 rejected, 1 skipped" in text
    assert [path.name.endswith("first.md") for path in bench.workspace.approved.glob("*.md")] == [True]
    assert len(list(bench.workspace.refused.glob("*.md"))) == 2
    assert [path.name.endswith("second.md") for path in bench.workspace.inbox.glob("*.md")] == [True]


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
    output, status = under_a_terminal(
        [*command, "--key", str(bench.keys["alice"])], [b"q\n"], terminal_environment()
    )
    assert status == 0 and b"0 approved" in output
    done = subprocess.run(command, capture_output=True, env=terminal_environment(), stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and b"on a terminal" in done.stderr
