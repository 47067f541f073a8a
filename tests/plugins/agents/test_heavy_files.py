"""A file that was made to take long is scanned in linear time."""

from __future__ import annotations

import time

import pytest

from tests.conftest import few
from tests.core.secretscan.test_certain import RANDOM
from threegate.plugins.agents.file_findings import find_in_file

HEAVY = [
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n",
    "-----BEGIN PRIVATE KEY-----MIIE\n-----END PRIVATE KEY-----\n",
    "AKIAQ3EGZ7XN5WVL2JTR ",
    f"ghp_{RANDOM}\n",
    "https://user:x7Kp2mQ9vL@",
    "password=x7Kp2mQ9vL ",
    "eyJhbGciOiJIUzI1NiJ9.",
]


@pytest.mark.parametrize("piece", few(HEAVY, 1), ids=range(len(HEAVY)))
def test_a_text_made_to_take_long_is_judged_in_linear_time(piece: str) -> None:
    """A text twice as long takes about twice as long, and not four times."""

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        begin = time.process_time()
        list(find_in_file("src/a.txt", text.encode(), b"", lambda _: False))
        return time.process_time() - begin

    seconds(1 << 14)
    small, large = min(seconds(1 << 17) for _ in range(2)), seconds(1 << 20)
    assert large < 16 * small + 0.5, (small, large)
