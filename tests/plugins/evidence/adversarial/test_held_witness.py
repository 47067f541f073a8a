"""Clients that hold connections to a witness keep no log from it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acts.bench_workspace import make_bench
from tests.plugins.evidence.witnesses import witness
from tests.plugins.serve.adversarial.test_held_connections import END, HEAD, asked, connect


@pytest.mark.slow
def test_270_keep_no_log_from_its_witness(tmp_path: Path) -> None:
    log = (make_bench(tmp_path).workspace.audit / "workspace.pub").read_text().strip()
    with witness(tmp_path / "witness", [log]) as running, ExitStack() as stack:
        port = int(running.url.rpartition(":")[2])
        for number in range(270):
            body = b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
            stack.enter_context(connect(port, (HEAD, body)[number % 2]))
        begun = time.monotonic()
        assert asked(port, data=b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + END) == (
            b"HTTP/1.1 400 Bad Request"
        )
        assert time.monotonic() - begun < 5
