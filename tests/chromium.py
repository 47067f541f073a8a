"""A headless Chromium driven over its debugging pipe: no port that anything else could speak to, no library."""

from __future__ import annotations

import base64
import ctypes
import errno
import json
import os
import platform
import select
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.support import wait_until

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --hide-scrollbars --mute-audio "
    "--disable-features=Translate,OptimizationHints,MediaRouter --remote-debugging-pipe"
).split()

_LIBC = ctypes.CDLL(None)  # loaded here: a child of a process with threads must not wait for the loader's lock


def _without_netlink() -> None:
    """In the child: no socket of the family AF_NETLINK, by a filter of system calls. Chromium then does not learn of
    interfaces that come and go, as with each container of other tests; it would end what it is loading.
    """
    socket_call = {"x86_64": 41, "aarch64": 198}[platform.machine()]
    load, equal, answer = 0x20, 0x15, 0x06
    steps = (
        (load, 0, 0, 0),  # the call's number
        (equal, 0, 3, socket_call),
        (load, 0, 0, 16),  # its first argument
        (equal, 0, 1, 16),  # AF_NETLINK
        (answer, 0, 0, 0x50000 | errno.EAFNOSUPPORT),
        (answer, 0, 0, 0x7FFF0000),  # allowed
    )
    kept = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(kept))
    no_new_privileges, seccomp, by_filter = 38, 22, 2
    assert _LIBC.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert _LIBC.prctl(seccomp, by_filter, program) == 0


class Chromium:
    """One browser with one page. `events` collects what the browser told on its own."""

    def __init__(self, profile: Path, *flags: str, home: Path | None = None) -> None:
        """Start it, with more flags if need be, and attach to a fresh page. `home`: whose imported authorities it
        trusts.
        """
        ours_out, theirs_in = os.pipe()[::-1]
        theirs_out, ours_in = os.pipe()[::-1]
        self._write, self._read = ours_out, ours_in
        low = (theirs_in, theirs_out)

        def hand_over() -> None:
            spare = [os.dup2(fd, 100 + number) for number, fd in enumerate(low)]
            os.dup2(spare[0], 3, inheritable=True)
            os.dup2(spare[1], 4, inheritable=True)
            _without_netlink()

        self._process = subprocess.Popen(
            ["chromium", *FLAGS, *flags, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            env={**os.environ, "HOME": str(home)} if home else None,
            preexec_fn=hand_over,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self.session = ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.send(f"{domain}.enable")
        self.send("Page.setLifecycleEventsEnabled", enabled=True)
        self.size(1280, 1000)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(60)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return dict(answer["result"])

    def _receive(self, seconds: float) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser says nothing"
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser is gone"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def size(self, width: int, height: int, *, dark: bool = False, media: str = "") -> None:
        """The viewport, and what the reader prefers."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def open(self, url: str) -> None:
        """Go there and wait until it is loaded: this page, and not one that a click before it was still loading."""
        before = len(self.events)
        answer = self.send("Page.navigate", url=url)
        assert "errorText" not in answer, (url, answer)
        loader = answer["loaderId"]
        until = time.monotonic() + 60

        def loaded(event: dict[str, Any]) -> bool:
            told = event["params"]
            return event["method"] == "Page.lifecycleEvent" and (told["loaderId"], told["name"]) == (loader, "load")

        while not any(map(loaded, self.events[before:])):
            self._receive(until - time.monotonic())

    def js(self, expression: str) -> Any:
        """The value of an expression, promises waited for."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 30) -> Any:
        """Wait until an expression is true."""
        return wait_until(lambda: self.js(expression), expression, seconds)

    def key(self, name: str, code: int, text: str = "") -> None:
        """Press and release one key."""
        shared = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self.send("Input.dispatchKeyEvent", type="keyUp", **shared)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """A screenshot."""
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def tree(self) -> list[dict[str, Any]]:
        """The accessibility tree's nodes that a screen reader meets."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        return [node for node in nodes if not node.get("ignored")]

    def complaints(self) -> list[str]:
        """Errors and warnings of the console and of the page's policy, so far."""
        found = []
        for event in self.events:
            method, params = event["method"], event["params"]
            if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"]["text"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(json.dumps(params["args"]))
            elif method == "Audits.issueAdded" and "ContentSecurityPolicy" in params["issue"]["code"]:
                found.append(json.dumps(params["issue"]["details"]))
            elif method == "Page.javascriptDialogOpening":
                found.append(f"a dialog: {params['message']}")
        return found

    def asked_for(self) -> set[str]:
        """Every address that the pages asked for."""
        return {
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        }

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
