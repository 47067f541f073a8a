"""The last line of a running request: bounded, masked, and never in the way of the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.core import limits
from threegate.runners.interface import StreamMeter
from threegate.runners.live_output import LastOutput, LiveOutputFile, OutputLine, live_output

KEY = "ghp_" + "a1B2" * 9
PEM = b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"b3BlbnNzaC1rZXktdjEA" * 3 + b"\n"


def last(data: bytes) -> str | None:
    """The line that is told of a stream with these bytes."""
    meter, output = StreamMeter(), LastOutput()
    for start in range(0, len(data), 1000):
        meter.write(data[start : start + 1000])
        output.put("stderr", meter.tail)
    line = output.line()
    assert line is None or (line.stream == "stderr" and len(line.text) <= limits.LIVE_LINE_CHARS)
    return line and line.text


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", None),
        (b"\n \r\n", None),
        (b"one\ntwo\n\n", "two"),
        (b"10%\r20%\r", "20%"),
        (b"half", "half"),
        (b"\xff\x1b[2J", "\\xff\x1b[2J"),
        (b"x" * 5000 + b" end", "end"),
        (b"x" * 5000, "(a line without an end)"),
        (b"x" * 5000 + b"\n" + b"y" * 900, "y" * limits.LIVE_LINE_CHARS),
    ],
)
def test_the_last_line(data: bytes, line: str | None) -> None:
    assert last(data) == line


def test_secrets_are_masked_before_anything_is_cut() -> None:
    assert KEY not in str(last(b"token " + KEY.encode()))
    assert "b3BlbnNza" not in str(last(PEM))
    # The start of the key is the last that is not kept: what is left of it is not told.
    assert last(KEY.encode() + b"." * (limits.LIVE_TAIL_BYTES - 10)) == "(a line without an end)"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def test_the_file_is_there_while_something_runs_and_only_a_daemons_word_counts(bench: Bench) -> None:
    workspace = bench.workspace
    file, output = LiveOutputFile(workspace), LastOutput()
    workspace.output_file.write_text("left by a daemon that was killed")
    file.write({"a": output})
    assert not workspace.output_file.exists()
    output.put("stdout", b"line\n")
    file.write({"a": output})
    written = workspace.output_file.stat().st_mtime_ns
    assert live_output(workspace, "a") is None, "no daemon is running"
    with workspace.daemon_lock():
        assert live_output(workspace, "a") == OutputLine("stdout", "line")
        assert live_output(workspace, "b") is None
        file.write({"a": output})
        assert workspace.output_file.stat().st_mtime_ns == written
        for wrong in ("[]", "{", '{"a": 1}', '{"a": ["stdout", 1]}', '{"a": ["x", "y"]}', '{"a": []}'):
            workspace.output_file.write_text(wrong)
            assert live_output(workspace, "a") is None, wrong
        workspace.output_file.write_text(json.dumps({"a": ["stdout", "x" * 10_000]}))
        assert live_output(workspace, "a") == OutputLine("stdout", "x" * limits.LIVE_LINE_CHARS)
    file.write({})
    assert not workspace.output_file.exists()


def test_a_disk_that_refuses_stops_nothing(bench: Bench) -> None:
    file, output = LiveOutputFile(bench.workspace), LastOutput()
    output.put("stdout", b"line\n")
    bench.workspace.output_file.mkdir()
    file.write({"a": output})
    file.write({})
    assert bench.workspace.output_file.is_dir()
