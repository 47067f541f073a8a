"""The end of a jail: nothing of it is left, whenever bubblewrap was killed."""

from __future__ import annotations

import os
import subprocess
import time

from threegate.runners.jail.jail import JailProcess


def test_a_first_process_that_outlived_bubblewrap_is_ended() -> None:
    """As bubblewrap leaves it when it is killed before it lets its child go on: the child waits for it for ever."""
    child = subprocess.Popen(["/bin/sleep", "60"])
    process = JailProcess(["/bin/true"])
    process.first = os.pidfd_open(child.pid)
    begun = time.monotonic()
    process.wait_empty()
    assert child.wait(10) == -9 and time.monotonic() - begun < 10
    assert process.first == -1
