"""A client of MCP over standard streams that keeps everything it gets: messages as they came, none of a library's
models.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


class LineClient:
    """A context manager: one process, initialized. Answers are taken in any order, by the number of their question."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path | str = "/") -> None:
        self._process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._number = 0
        self._came: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._answers: dict[int, dict[str, Any]] = {}
        self.notifications: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> LineClient:
        self._reader.start()
        hello = {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "threegate", "version": "0"},
        }  # fmt: skip
        self.initialized = self.ask("initialize", hello)["result"]
        self._send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def begin(self, method: str, params: Mapping[str, Any], *, progress: bool = False) -> int:
        """Ask something; the number of the question."""
        self._number += 1
        meta = {"_meta": {"progressToken": self._number}} if progress else {}
        self._send({"id": self._number, "method": method, "params": {**params, **meta}})
        return self._number

    def begin_call(self, tool: str, arguments: Mapping[str, Any], *, progress: bool = False) -> int:
        return self.begin("tools/call", {"name": tool, "arguments": dict(arguments)}, progress=progress)

    def end(self, number: int, seconds: float = 60) -> dict[str, Any]:
        """The whole message that answers a question."""
        until = time.monotonic() + seconds
        while number not in self._answers:
            message = self._came.get(timeout=max(0.0, until - time.monotonic()))
            assert message is not None, "the server ended"
            self._sort(message)
        return self._answers.pop(number)

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.end(self.begin(method, params))

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self.end(self.begin_call(tool, arguments))

    def hear(self) -> list[dict[str, Any]]:
        """The notifications so far."""
        with suppress(queue.Empty):
            while (message := self._came.get_nowait()) is not None:
                self._sort(message)
        return self.notifications

    def cancel(self, number: int) -> None:
        """Say that the answer is not wanted any more."""
        self._send({"method": "notifications/cancelled", "params": {"requestId": number, "reason": "enough"}})

    def answered(self, number: int) -> bool:
        self.hear()
        return number in self._answers

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def _sort(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self.notifications.append(message)
        else:
            self._answers[message["id"]] = message

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._came.put(json.loads(line))
        self._came.put(None)
