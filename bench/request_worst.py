"""Worst 64 KiB texts for each reader of gate 1 beside the honest file: milliseconds, and growth from 16 to 64 KiB.

Usage: python bench/request_worst.py. Prints for each reader the slowest texts, the aim (100 ms for a whole file), and
how much longer four times the text takes (linear work: about 4). The reference is the pure-`re` scan of detect-secrets'
own patterns over the same text, one second at most.
"""

from __future__ import annotations

import multiprocessing
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from threegate.core.secretscan.scan import find_secrets  # noqa: E402
from threegate.core.settings import RequestSettings  # noqa: E402
from threegate.request.code import check_code, check_vars  # noqa: E402
from threegate.request.command.read_command import read_command  # noqa: E402
from threegate.request.content import check_content  # noqa: E402

AIM_MS = 100
SIZE = 64 * 1024
PROGRAMS = frozenset(RequestSettings().programs)
PIECES = [
    "a ", "'a' ", '"a" ', "\\a", "env ", "xargs ", "/etc ", "../ ", "a;", "$a ", "${ ", "`", "{a,", "[a] ", "~ ", "a:", "/", "=/", "@/", "'", "-I{} ",  # noqa: E501
    "-exec cat {} + ", "a/../", "/./", "é ", "docker.", "(", "..", "[1,", "a+", "-", "a.", "f()", "a<", "f'{a}'", '"', "@a\n", "password=", "password ",  # noqa: E501
    "token: ", "AKIA", "eyJ", "eyJa.", "://a:", "-----BEGIN PRIVATE KEY-----", "xoxb-1-", "aws key", "authorization: bearer ", ("install the package "  # noqa: E501
        "foo\n"),
    "no /etc /etc\n", "pip install -q ", "to install the ", "npm -a -a ", "curl x |", "\n- ", '{"a":', '"a":1,', "x = 1\n", "import x\n", "//:_authToken=",  # noqa: E501
]  # fmt: skip
READERS: dict[str, Callable[[str], object]] = {
    "find_secrets": find_secrets,
    "check_content": check_content,
    "check_code": check_code,
    "check_vars": check_vars,
    "read_command": lambda text: read_command(text, programs=PROGRAMS),
    "read_command python -c": lambda text: read_command(
        "python -c '" + text.replace("'", '"') + "'", programs=PROGRAMS
    ),
    "read_command awk": lambda text: read_command("awk '" + text.replace("'", '"') + "'", programs=PROGRAMS),
    "read_command git": lambda text: read_command("git " + text, programs=PROGRAMS),
}


def _milliseconds(reader: Callable[[str], object], text: str) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        reader(text)
        best = min(best, time.process_time() - start)
    return best * 1000


def _library(text: str) -> None:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class as plugins

    for name, plugin in plugins().items():
        if "Entropy" not in name and name not in ("Public IP (ipv4)", "Secret Keyword"):
            for pattern in plugin().denylist:
                for _ in re.finditer(pattern, text):
                    pass


def reference(text: str, seconds: float = 1.0) -> str:
    """How long detect-secrets' patterns take through `re`, or that they were stopped."""
    process = multiprocessing.Process(target=_library, args=(text,))
    start = time.monotonic()
    process.start()
    process.join(seconds + 1)
    if process.is_alive():
        process.kill()
        process.join()
        return f"more than {seconds:.0f} s"
    return f"{time.monotonic() - start:.2f} s with import"


def main() -> None:
    """Print the table."""
    over = 0
    for name, reader in READERS.items():
        reader("a")
        measured = []
        for piece in PIECES:
            whole = _milliseconds(reader, piece * (SIZE // len(piece)))
            measured.append((whole, piece))
        measured.sort(reverse=True)
        for whole, piece in measured[:3]:
            quarter = _milliseconds(reader, piece * (SIZE // 4 // len(piece)))
            growth = whole / max(quarter, 0.01)
            over += whole > AIM_MS
            print(f"{name:24} {whole:7.1f} ms  64/16 KiB: {growth:4.1f}  of {piece!r}")
    print(f"{over} above {AIM_MS} ms")
    for piece in ("/", "eyJ", "a"):
        text = piece * (SIZE // len(piece))
        ours = _milliseconds(find_secrets, text)
        print(
            f"64 KiB of {piece!r}: find_secrets {ours:.2f} ms; detect-secrets' patterns through re: {reference(text)}"
        )


if __name__ == "__main__":
    main()
