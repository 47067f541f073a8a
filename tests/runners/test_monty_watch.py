"""The one thread that watches all Monty runs: each is looked at, whatever becomes of the others, until it is
removed.
"""

from __future__ import annotations

import threading

from tests.support import wait_until
from threegate.runners.monty.drive import BEAT, RunWatch


class Run:
    """Counts the looks; may fail at each."""

    def __init__(self, error: Exception | None = None) -> None:
        self.looks = 0
        self.often = threading.Event()
        self._error = error

    def look(self) -> None:
        self.looks += 1
        if self.looks > 2:
            self.often.set()
        if self._error is not None:
            raise self._error


def test_a_run_that_cannot_be_looked_at_is_looked_at_again_and_harms_no_other() -> None:
    watch, bad, good = RunWatch(), Run(PermissionError("no")), Run()
    watch.add(bad)
    watch.add(good)
    assert good.often.wait(30) and bad.often.wait(30)
    watch.remove(bad)
    watch.remove(good)


def test_what_was_removed_is_never_looked_at_again() -> None:
    watch, run, other = RunWatch(), Run(), Run()
    watch.add(run)
    watch.add(other)
    assert run.often.wait(30)
    watch.remove(run)
    looks = run.looks
    other.often.clear()
    assert other.often.wait(30) and run.looks == looks
    watch.remove(other)


def test_removing_waits_for_the_look_that_is_taken() -> None:
    class Held(Run):
        taken, ends = threading.Event(), threading.Event()

        def look(self) -> None:
            self.taken.set()
            assert self.ends.wait(30)
            super().look()

    watch, run = RunWatch(), Held()
    watch.add(run)
    assert run.taken.wait(30)
    removing = threading.Thread(target=watch.remove, args=(run,))
    removing.start()
    removing.join(10 * BEAT)  # longer than removing would take if it did not wait
    assert removing.is_alive() and run.looks == 0
    run.ends.set()
    removing.join(30)
    assert not removing.is_alive() and run.looks > 0


def watchers() -> int:
    return sum(thread.name == "monty-watch" for thread in threading.enumerate())


def test_the_thread_ends_with_its_runner_and_begins_anew() -> None:
    before = watchers()
    watch, run = RunWatch(), Run()
    for _ in range(3):
        run.often.clear()
        watch.add(run)
        watch.close()  # not while something is watched
        assert run.often.wait(30) and watchers() == before + 1
        watch.remove(run)
        watch.close()
        wait_until(lambda: watchers() == before, "the end of the thread", 30)
        run.looks = 0
