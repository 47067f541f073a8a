"""The reader gives every thread the same report, from its first use in a process on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FIRST_USE = """
import threading, time
from tests.request.examples import era, read

def slow(frame, event, argument):
    # markdown-it-py compiles its rules when they are first asked for, and locks nothing meanwhile.
    if frame.f_code.co_name != "__compile__":
        return None
    def line(*_):
        time.sleep(0.0005)
        return line
    return line

threading.settrace(slow)
together, reports = threading.Barrier(4), []

def work():
    together.wait()
    reports.append(read(era()))

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
reports.append(read(era()))
assert len(reports) == 5
for report in reports:
    assert report.request is not None, report.findings
"""


def test_threads_that_use_it_first_together_read_the_same() -> None:
    """They got the rules of Markdown twice or not at all, and the process refused good requests until its end."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", FIRST_USE], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
