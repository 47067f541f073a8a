"""The child that works in a project ends in the moment between two looks at it."""

from __future__ import annotations

import os
import select
import subprocess
from types import SimpleNamespace

import pytest

from threegate.plugins.changes.apply import as_owner
from threegate.plugins.changes.projects import look_at_project


def test_a_child_that_has_just_ended_is_neither_stopped_nor_failed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    class Late:
        """Does not see it at the first look."""

        def __init__(self) -> None:
            self.real, self.looked = select.poll(), False

        def register(self, descriptor: int, events: int) -> None:
            self.real.register(descriptor, events)

        def poll(self, milliseconds: int) -> list[tuple[int, int]]:
            first, self.looked = not self.looked, True
            return [] if first else self.real.poll(milliseconds)

    monkeypatch.setattr(as_owner, "select", SimpleNamespace(poll=Late, POLLIN=select.POLLIN))
    place = look_at_project("p", str(tmp_path_factory.mktemp("project")))
    order = as_owner.Order("apply", place, -1, "", -1)
    assert as_owner._watched(child, order, lambda: None) is None
    assert child.returncode == 0
