"""Hostile servers in containers: each ends within its bounds, and leaves no container."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.conftest import slow
from tests.tools.container_bench import containers, new_workspace_id, opened
from threegate.core import limits
from threegate.tools.server_process import ServerError

MIB = 1 << 20
CALL = "def call(id, name, arguments): "

pytestmark = pytest.mark.engine


def soak(code: str, source: str) -> Any:
    return pytest.param(code, source, marks=pytest.mark.soak)


@pytest.mark.parametrize(
    ("code", "source"),
    [
        ("server_ended", CALL + "[os.fork() for _ in iter(int, 1)]"),
        slow("server_silent", ("import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except "  # noqa: E501
        "(OSError, ValueError): pass\n") + CALL + "[__import__('time').sleep(9) for _ in iter(int, 1)]"),
        slow("server_ended", "KEPT = []\n" + CALL
        + "[KEPT.append(bytearray(b'x') * (64 << 20)) for _ in iter(int, 1)]"),
        soak("server_answer_too_large", CALL + "[sys.stdout.write('x' * 65536) for _ in iter(int, 1)]"),
        soak("server_silent", CALL + "[sys.stderr.write('x' * 65536) for _ in iter(int, 1)]"),
        soak("server_protocol", CALL + "say({'id': id + 1, 'result': text('x')})"),
        soak("server_ended", CALL + "os.fork() or __import__('time').sleep(300); os._exit(0)"),
    ],
    ids=["forks", "ignores", "memory", "floods", "floods-stderr", "other-id", "orphan"],
)  # fmt: skip
def test_each_has_its_end(code: str, source: str) -> None:
    seconds = 5 if code == "server_silent" else 30  # 2 GiB are not always full within 5 s
    workspace = new_workspace_id()
    began = time.monotonic()
    with opened(source, workspace) as server:
        server.check_pinned()
        with pytest.raises(ServerError) as wrong:
            server.call("echo", {}, seconds, MIB)
    assert (wrong.value.code, wrong.value.reached) == (code, True)
    assert time.monotonic() - began < seconds + 4 * limits.TOOLS_CONTAINER_END_SECONDS
    assert containers(workspace) == []
