"""100 requests as agents in a hurry write them, as files and as calls of the door, and the right answer of each.

The requests are tables (monty_requests.toml, era_requests.toml) that say what an agent decided; what it copies from the
example of `threegate agent prompt` is rendered here. Nothing in them is corrected to what passes. The answers are those
of CPython and of the host's programs (answers.json, written by record_answers.py).
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import sqlite3
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import now_text, request_id

HERE = Path(__file__).parent

_FRONT = {
    "requested_by": "core",
    "network": "none",
    "cpu_limit": '"1"',
    "memory_limit_mb": "256",
    "time_limit_sec": "30",
}


@dataclass(frozen=True)
class Answer:
    """What a run must leave: exit code, stdout, outputs by path (None: any bytes), the value of the last line."""

    exit_code: int
    stdout: str
    outputs: dict[str, str | None]
    value: Any = None


@dataclass(frozen=True)
class Drafted:
    """One request. `refused` is what its refusal must name; `answer` is False where there is no right one."""

    name: str
    purpose: str
    code: str = ""
    command: str = ""
    language: str = "python"
    files: tuple[str, ...] = ()
    script: dict[str, str] = field(default_factory=dict)
    unpack: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    front: dict[str, str] = field(default_factory=dict)
    expects: str = ""
    exit_code: int = 0
    stderr: str = ""
    unordered: bool = False
    binary: bool = False
    answer: bool = True
    refused: str = ""

    @property
    def backend(self) -> str:
        return "monty" if self.code else "ERA"

    @property
    def key(self) -> str:
        """Its name among all of them."""
        return f"{self.backend.lower()}/{self.name}"

    @property
    def by_door(self) -> bool:
        """Whether the door's tools can ask for it: they unpack nothing, and who lists arguments writes no pipeline."""
        return not self.unpack and not {"|", "&&"} & set(shlex.split(self.command))

    def inputs(self) -> dict[str, bytes]:
        """What it has in /in, by name."""
        return {name: input_file(name) for name in self.files} | {
            name: text.lstrip("\n").encode() for name, text in self.script.items()
        }

    def file(self) -> tuple[str, str]:
        """Its id and the file that the agent writes."""
        rid = request_id(f"{self.backend.lower()}-{self.name}")
        front = {
            "request_type": "tool_request",
            "schema_version": '"1"',
            "request_id": rid,
            "created_utc": now_text(-2),
        }
        front |= {"purpose": self.purpose, "backend": self.backend, "language": self.language, **_FRONT, **self.front}
        lines = [f"{key}: {value}" for key, value in front.items()]
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in self.inputs().items()}
        if digests:
            lines.append("inputs:")
        for name, digest in digests.items():
            lines += [f'  - name: "{name}"', f'    sha256: "{digest}"', *(["    unpack: true"] * (name in self.unpack))]
        paths = [f"/out/{path}" for path in self.outputs]
        if paths:
            lines += ["outputs_expected:", *(f'  - path: "{path}"' for path in paths)]
        if self.code:
            body = f"## Code\n\n```python\n{self.code.strip()}\n```\n"
        else:
            named = "\n".join(f"- /in/{name} sha256:{digest}" for name, digest in digests.items()) or "none"
            body = f"## Command\n\n{self.command}\n\n## Input Files\n\n{named}\n"
        expected = self.expects or "\n".join(f"- {path}" for path in paths) or "none"
        risk = (
            "Risk level: low\n\nJustification: Reads only what is declared and writes only what is listed.\n\n"
            "Data sensitivity: internal\n\nNetwork rationale: none\n"
        )
        text = "\n".join(lines)
        return rid, f"---\n{text}\n---\n\n{body}\n## Output Expectations\n\n{expected}\n\n## Risk Assessment\n\n{risk}"

    def call(self) -> tuple[str, dict[str, Any]]:
        """The tool of the door and the arguments that the agent gives it."""
        if self.code:
            return "run_python", {"code": self.code.strip() + "\n", "purpose": self.purpose, "files": list(self.files)}
        argv = shlex.split(self.command)
        if len(self.script) == 1 and argv in (["python3", f"/in/{name}"] for name in self.script):
            [code] = self.script.values()
            asked = {"code": code.lstrip("\n"), "where": "era", "files": list(self.files)}
            return "run_python", {"purpose": self.purpose, **asked}
        return "run_program", {"argv": argv, "purpose": self.purpose, "files": list(self.inputs())}

    def is_right(self, got: Answer, want: Answer) -> bool:
        """Whether a run left what it must."""

        def seen(text: str) -> list[str] | str:
            return sorted(text.splitlines()) if self.unordered else text.rstrip()

        return (
            got.exit_code == want.exit_code
            and seen(got.stdout) == seen(want.stdout)
            and all(text is None or got.outputs.get(path) == text for path, text in want.outputs.items())
            and set(want.outputs) <= set(got.outputs)
            and (want.value is None or got.value == want.value)
        )


@cache
def requests() -> tuple[Drafted, ...]:
    """All of them, those for Monty first."""
    tables = [tomllib.loads((HERE / f"{name}_requests.toml").read_text())["request"] for name in ("monty", "era")]
    lists = ("files", "unpack", "outputs")
    return tuple(
        Drafted(**{key: tuple(value) if key in lists else value for key, value in row.items()})
        for table in tables
        for row in table
    )


@cache
def answers() -> dict[str, Answer]:
    """The right answers, by the requests' keys."""
    return {key: Answer(**row) for key, row in json.loads((HERE / "answers.json").read_text()).items()}


PACKAGE = {
    "README.md": "# pricing\n\nA small package.\n",
    "pricing/__init__.py": '"""Prices."""\n',
    "pricing/rebate.py": (
        "def rebate(total, percent):\n    # TODO: validate percent\n"
        "    return round(total * (100 - percent) / 100, 2)\n"
    ),
    "tests/__init__.py": "",
    "tests/test_rebate.py": (
        "import unittest\n\nfrom pricing.rebate import rebate\n\n\nclass RebateTest(unittest.TestCase):\n"
        "    def test_ten(self):\n        self.assertEqual(rebate(200, 10), 180)\n\n"
        "    def test_none(self):\n        self.assertEqual(rebate(99.99, 0), 99.99)\n"
    ),
}


@cache
def input_file(name: str) -> bytes:
    """A file that the agent found: of inputs/, or an archive or database made of them."""
    if (HERE / "inputs" / name).exists():
        return (HERE / "inputs" / name).read_bytes()
    made = io.BytesIO()
    if name in ("pricing.tar", "pricing.tar.gz"):
        # An archive of a project has the project's folder; what is unpacked to /in/<stem>/ has not.
        folder, mode = ("pricing/", "w:gz") if name.endswith(".gz") else ("", "w")
        with tarfile.open(fileobj=made, mode=mode) as tar:  # type: ignore[call-overload]
            for path, text in PACKAGE.items():
                entry = tarfile.TarInfo(folder + path)
                entry.size, entry.mode = len(text.encode()), 0o644
                tar.addfile(entry, io.BytesIO(text.encode()))
        return made.getvalue()
    if name == "bundle.zip":
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for member in ("story.txt", "old.txt"):
                archive.writestr(f"data/{member}", input_file(member))
        return made.getvalue()
    if name == "old.log.gz":
        import gzip

        return gzip.compress(input_file("app.log"), mtime=0)
    assert name == "shop.db", name
    with sqlite3.connect(":memory:") as database:
        database.executescript(input_file("shop.sql").decode())
        return database.serialize()
