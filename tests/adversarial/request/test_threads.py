"""Many requests are read at the same time: each gets the findings that it gets alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from threegate.request.code import check_code

CODE = "\n".join(f"x{at} = [a{at} for a{at} in range({at}) if print(a{at}, {{'k': {at}}})]" for at in range(60))


class Collected:
    """Garbage that runs Python when it is collected, which is where another thread gets its turn."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


@pytest.fixture
def many_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("many_turns")
def test_code_that_is_checked_in_eight_threads_is_valid_in_each() -> None:
    def check(depth: int) -> set[object]:
        if depth:
            return check(depth - 1)
        found = set()
        for _ in range(10):
            Collected()
            found.add(check_code(CODE))
        return found

    # Each thread has another depth of calls: that is what the parser of Python 3.11 mixes up. Ten rounds of each are
    # plenty: without the lock the second one fails, and under the tracing of coverage a round takes 0.3 s.
    with ThreadPoolExecutor(8) as pool:
        assert set().union(*pool.map(check, range(0, 160, 20))) == {()}
