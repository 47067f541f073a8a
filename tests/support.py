"""What whole-way tests share: a real workspace with a real key, and the real command line in a process of its own."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

THREEGATE = [sys.executable, "-m", "threegate"]
Seen = TypeVar("Seen")


def wait_until(condition: Callable[[], Seen], what: str | Callable[[], object] = "it", seconds: float = 60) -> Seen:
    """What the condition returns as soon as it is true. AssertionError with `what` if it is not within `seconds`.

    The one place where tests sleep: tests/whole/test_house_rules.py counts the others. A condition that takes long, as
    a question to an engine does, is asked half of the time only.
    """
    began = asked = time.monotonic()
    while not (seen := condition()):
        now = time.monotonic()
        assert now < began + seconds, f"not within {seconds} s: {what() if callable(what) else what}"
        time.sleep(max(0.01, now - asked))
        asked = time.monotonic()
    return seen


@dataclass
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """stdout as JSON."""
        return json.loads(self.out)


@dataclass
class Place:
    """A workspace made by `threegate init`, with the operator's key beside it."""

    root: Path
    key: Path

    def run(
        self,
        *arguments: str,
        expect: int | None = None,
        timeout: float = 120,
        env: dict[str, str] | None = None,
    ) -> Done:
        """Run one command in the workspace."""
        done = threegate(*arguments, cwd=self.root, timeout=timeout, env=env)
        if expect is not None:
            assert done.code == expect, f"{arguments}: exit {done.code}\n{done.out}\n{done.err}"
        return done

    def drop(self, text: str, name: str | None = None) -> Path:
        """Put a draft into the inbox by rename; the name is its request_id."""
        if name is None:
            request_id = next(
                line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("request_id")
            )
            name = f"{request_id}.md"
        path = self.root / "inbox" / name
        temporary = path.with_name(f".{name}.part")
        temporary.write_bytes(text.encode())
        temporary.rename(path)
        return path

    def input(self, name: str, data: bytes) -> str:
        """Put an input file into the inbox; returns its sha256."""
        (self.root / "inbox" / "files" / name).write_bytes(data)
        return hashlib.sha256(data).hexdigest()

    def approve(self, draft: Path, *more: str, expect: int = 0) -> Done:
        """Approve a draft with the operator's key."""
        return self.run(
            "approve", str(draft), "--as", "operator", "--key", str(self.key), "--yes", *more, expect=expect
        )

    def once(self, expect: int = 0, timeout: float = 240) -> Done:
        """`threegate run --once`."""
        return self.run("run", "--once", expect=expect, timeout=timeout)

    def daemon(self) -> subprocess.Popen[bytes]:
        """A daemon process in the background; the caller ends it."""
        return subprocess.Popen(
            [*THREEGATE, "run"],
            cwd=self.root,
            env=dict(os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def result(self, request_id: str) -> str:
        """The text of the one result of a request."""
        found = sorted((self.root / "tool-exec" / "results").glob(f"TS-*-{request_id}.md"))
        assert len(found) == 1, [path.name for path in (self.root / "tool-exec" / "results").iterdir()]
        return found[0].read_text()

    def results(self) -> list[str]:
        """The texts of all results."""
        return [path.read_text() for path in sorted((self.root / "tool-exec" / "results").glob("TS-*.md"))]

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The trail's events, or those of one type."""
        lines = (self.root / "tool-exec" / "audit" / "trail.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if kind is None or event["type"] == kind]

    def verdict(self, name: str) -> dict[str, Any]:
        """A verdict file."""
        value = json.loads((self.root / "tool-exec" / "verdicts" / f"{name}.json").read_text())
        assert isinstance(value, dict)
        return value

    def wait_for(self, what: str, seconds: float = 60) -> None:
        """Wait until a glob below tool-exec/ finds something."""
        wait_until(lambda: list((self.root / "tool-exec").glob(what)), f"a match of {what}", seconds)


def cold(arguments: Sequence[str], cwd: Path, timeout: float, env: dict[str, str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command in a fresh interpreter."""
    done = subprocess.run(
        [*THREEGATE, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


start = cold
"""How a command is started: cold in a bench, as a fork of what has imported everything in the tests (conftest.py)."""


def threegate(*arguments: str, cwd: Path, timeout: float = 120, env: dict[str, str] | None = None) -> Done:
    """Run the command line in a process of its own."""
    how = cold if any(name.startswith("PYTHON") for name in env or ()) else start
    code, out, err = how(arguments, cwd, timeout, {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", **(env or {})})
    assert "Traceback (most recent call last)" not in err, err
    return Done(code, out, err)


def processes(file: str = "cmdline") -> Iterator[tuple[int, bytes]]:
    """Every process of this machine with a file of its folder in /proc.

    One that ends meanwhile is left out. Not by a glob: pathlib's own look at a process that ends raises ESRCH.
    """
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError):
            yield pid, Path("/proc", str(pid), file).read_bytes()


def cgroups(name: str) -> list[str]:
    """Folders of this name (with wildcards) below the control groups. Pathlib raises at one that goes."""
    return glob.glob(f"/sys/fs/cgroup/**/{name}", recursive=True)


def children(pid: int, name: str = "", state: str = "") -> set[int]:
    """The child processes of a process, by their program's name and their state (R: running)."""
    found = set()
    for child, line in processes("stat"):
        head, _, rest = os.fsdecode(line).rpartition(") ")
        fields = rest.split()
        if int(fields[1]) == pid and name in head.partition(" (")[2] and state in fields[0]:
            found.add(child)
    return found


def make_key(path: Path, kind: Sequence[str] = ()) -> Path:
    """A real key pair without a passphrase: ed25519, or what ssh-keygen makes with these options."""
    if kind:
        subprocess.run(["ssh-keygen", "-q", *kind, "-N", "", "-C", path.name, "-f", str(path)], check=True)
        return path
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.touch(0o600)
    path.write_bytes(secret)
    path.with_name(f"{path.name}.pub").write_bytes(public + f" {path.name}\n".encode())
    return path


def make_place(folder: Path, *, settings: dict[str, Any] | None = None, operator: str = "operator") -> Place:
    """A fresh workspace below `folder`."""
    key = make_key(folder / "operator_key")
    root = folder / "ws"
    done = threegate("init", str(root), "--operator", operator, "--key", f"{key}.pub", cwd=folder)
    assert done.code == 0, done.err
    if settings:
        from threegate.setup.settings_file import set_values

        set_values(root / "threegate.toml", settings)
    return Place(root, key)


def now_text(offset: float = 0) -> str:
    """A UTC time as a request writes it."""
    return datetime.fromtimestamp(time.time() + offset, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def monty_draft(
    request_id: str,
    code: str,
    *,
    inputs: dict[str, str] | None = None,
    time_sec: int = 10,
    memory_mb: int = 128,
    sensitivity: str = "public",
    variables: str | None = None,
    cpu: str = "1",
    extra: str = "",
    outputs: Sequence[str] = (),
) -> str:
    """A Monty draft. `inputs` maps names to sha256; `extra` is front matter, whole lines."""
    body = f"## Code\n\n```python\n{code.rstrip()}\n```\n"
    if variables is not None:
        body += f"\n## Inputs (JSON)\n\n```json\n{variables}\n```\n"
    front = _inputs(inputs) + extra
    return _draft(request_id, "monty", "python", front, body, time_sec, memory_mb, sensitivity, cpu, outputs)


def era_draft(
    request_id: str,
    command: str,
    *,
    inputs: dict[str, str] | None = None,
    time_sec: int = 20,
    memory_mb: int = 128,
    sensitivity: str = "public",
    cpu: str = "1",
    extra: str = "",
    outputs: Sequence[str] = (),
) -> str:
    """An ERA draft."""
    names = "\n".join(f"- /in/{name}" for name in inputs or ()) or "none"
    body = f"## Command\n\n{command}\n\n## Input Files\n\n{names}\n"
    return _draft(
        request_id,
        "ERA",
        "python",
        _inputs(inputs) + extra,
        body,
        time_sec,
        memory_mb,
        sensitivity,
        cpu,
        outputs,
    )


def _inputs(inputs: dict[str, str] | None) -> str:
    if not inputs:
        return ""
    return "inputs:\n" + "".join(f"  - name: {name}\n    sha256: {digest}\n" for name, digest in inputs.items())


def _draft(
    request_id: str,
    backend: str,
    language: str,
    front: str,
    body: str,
    time_sec: int,
    memory_mb: int,
    sensitivity: str,
    cpu: str,
    outputs: Sequence[str],
) -> str:
    expected = "\n".join(f"- {path}" for path in outputs) or "none"
    return (
        f'---\nrequest_type: tool_request\nschema_version: "1"\nrequest_id: {request_id}\n'
        f"created_utc: {now_text(-2)}\nrequested_by: core-agent\npurpose: A test of the whole way.\n"
        f'backend: {backend}\nlanguage: {language}\nnetwork: none\ncpu_limit: "{cpu}"\n'
        f"memory_limit_mb: {memory_mb}\ntime_limit_sec: {time_sec}\n{front}---\n\n{body}\n"
        f"## Output Expectations\n\n{expected}\n\n"
        f"## Risk Assessment\n\n- Risk level: low\n- Justification: a test\n- Data sensitivity: {sensitivity}\n"
    )


def request_id(slug: str) -> str:
    """A fresh request id with the recommended form."""
    return f"TR-{datetime.now(UTC):%Y%m%d-%H%M%SZ}-{slug}"


def offered(place: Place, *words: str, shell: str = "bash") -> list[str]:
    """What Tab offers after `threegate` and these words, the last of which is not ended; one shell's own lines."""
    line = " ".join(("threegate", *words))
    asks = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words))},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    done = place.run(env={"_THREEGATE_COMPLETE": f"complete_{shell}", **asks[shell]}, expect=0)
    return done.out.split("\n")[:-1] if done.out.strip() else []
