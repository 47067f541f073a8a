"""An unexpected error in a thread, whose text is foreign."""

from __future__ import annotations

import subprocess
import sys

CODE = r"""
import sys, threading
from threegate.cli import main
sys.argv = ["threegate", "--version"]
try:
    main()
except SystemExit:
    thread = threading.Thread(target=lambda: int("x\nthreegate: FORGED"))
    thread.start()
    thread.join()
"""


def test_it_is_one_line_without_its_text() -> None:
    err = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stderr
    assert err.startswith("threegate: internal error: ValueError at ") and err.count("\n") == 1 and "FORGED" not in err
