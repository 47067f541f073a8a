"""From a tool call to a draft: the bytes that `threegate draft` would write, checked by gate 1 before they are stored.

Invariant: a call is identified by its digest (tool, arguments, bytes of its files): the same call finds the same
request, whichever of its forms was taken. `where: "auto"` has two forms: Monty, and if gate 1 refuses that, CPython in
ERA, where the code's variables and the value of its last expression mean the same.
"""

from __future__ import annotations

import ast
import json
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, cast

from threegate.acts.draft import DraftOptions, at_least, draft_request
from threegate.core import limits
from threegate.core.canonical import canonical_bytes, sha256_hex
from threegate.core.errors import InvalidInput
from threegate.core.settings import RequestSettings
from threegate.plugins.agents.door_arguments import RunProgram, RunPython
from threegate.plugins.agents.reach.host_action import HostAccess
from threegate.request.fields import check_file_name
from threegate.request.hosts import HostError, read_target
from threegate.request.model import InputFile, Request, Sensitivity
from threegate.request.reader import read_request
from threegate.request.render_draft import blank_draft, file_name, render_request, slug_of

_CODE: Final = "call.py"
_INPUTS: Final = "inputs.json"
_PYTHON: Final = "python3"
_VALUE: Final = "last_value"
_ARGUMENTS: Final = {
    "purpose": "purpose",
    "time_limit_sec": "time_limit_sec",
    "inputs": "files",
    "network": "hosts",
    "network_allowlist": "hosts",
    "## Code": "code",
    "## Command": "argv",
    "## Inputs (JSON)": "inputs",
    "## Input Files": "files",
    "## Risk Assessment": "purpose",
}
"""A key or section of the draft: the argument that it comes from."""
_KEY: Final = re.compile(r"([a-z_]+):").match
_HOST_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class DoorCall:
    """What to request. `inputs` are (name, bytes)."""

    tool: str
    options: DraftOptions
    inputs: tuple[tuple[str, bytes], ...]

    @property
    def digest(self) -> str:
        """The digest of everything that the call means."""
        options = {name: str(getattr(self.options, name)) for name in DraftOptions.__dataclass_fields__}
        files = {name: sha256_hex(data) for name, data in self.inputs}
        return sha256_hex(canonical_bytes({"tool": self.tool, "options": options, "files": files}))


def calls_of(
    asked: RunPython | RunProgram, files: Sequence[tuple[str, bytes]], requester: str, least: str = "public"
) -> tuple[DoorCall, ...]:
    """The forms of a call of `run_python` or `run_program`, the preferred one first. `least` is the sensitivity of the
    folders that the files come from. Raises InvalidInput.
    """
    if isinstance(asked, RunProgram):
        ways = [("run_program", _program(asked), dict[str, str]())]
    else:
        variables = None if asked.inputs is None else json.dumps(asked.inputs, ensure_ascii=False)
        ways = []
        if asked.where in ("auto", "monty"):
            monty = DraftOptions("monty", asked.purpose, code=asked.code, vars_json=variables)
            ways.append(("run_python", monty, {}))
        if asked.where in ("auto", "era"):
            code = asked.code if asked.where == "era" else _as_script(asked.code, variables is not None)
            in_a_container = {_CODE: code, **({} if variables is None else {_INPUTS: variables})}
            era = DraftOptions("ERA", asked.purpose, command=f"{_PYTHON} /in/{_CODE}")
            ways.append(("run_python", era, in_a_container))
    found = []
    for tool, options, own in ways:
        own_files = ((name, text.encode("utf-8", "surrogatepass")) for name, text in own.items())
        inputs = (*files, *own_files)
        _check_names([name for name, _ in inputs])
        options = at_least(replace(options, time_sec=asked.time_limit_sec, requested_by=requester), least)
        found.append(DoorCall(tool, options, inputs))
    return tuple(found)


def digest_of(calls: Sequence[DoorCall]) -> str:
    """What identifies the call that has these forms."""
    return calls[0].digest if len(calls) == 1 else sha256_hex(" ".join(call.digest for call in calls).encode())


def _as_script(code: str, variables: bool) -> str:
    """Code for Monty as a script of CPython: its variables are defined, and the value of its last expression is
    printed. Code that cannot be parsed is left as it is: gate 1 says so.
    """
    if "\r" in code:  # Python counts lines by it, and we do not
        return code
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code
    lines = code.removesuffix("\n").split("\n")
    last = body[-1] if body else None
    if isinstance(last, ast.Expr) and not _is_print(last.value):
        # The offset counts bytes of UTF-8.
        line = lines[last.lineno - 1].encode("utf-8", "surrogatepass")
        changed = line[: last.col_offset] + f"{_VALUE} = ".encode() + line[last.col_offset :]
        lines[last.lineno - 1] = changed.decode("utf-8", "surrogatepass")
        lines.append(f"if {_VALUE} is not None: print({_VALUE})")
    if variables:
        future = [item.end_lineno or item.lineno for item in body if _is_future(item)]
        read = f"import json; globals().update(json.load(open('/in/{_INPUTS}', encoding='utf-8')))"
        lines.insert(max(future, default=0), read)
    return "\n".join(lines) + "\n"


def _is_print(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"


def _is_future(item: ast.stmt) -> bool:
    return isinstance(item, ast.ImportFrom) and item.module == "__future__"


def _program(asked: RunProgram) -> DraftOptions:
    for host in asked.hosts:
        try:
            read_target(host)
        except HostError as error:
            raise InvalidInput(f"hosts: {error}") from None
    return DraftOptions("ERA", asked.purpose, command=shlex.join(asked.argv), network_allow=asked.hosts)


def _check_names(names: list[str]) -> None:
    for name in names:
        if (wrong := check_file_name(name)) is not None:
            raise InvalidInput(f"files: the name {name!r} {wrong}; rename it")
        if names.count(name) > 1:
            raise InvalidInput(f"files: {name} is reserved for the call's own file; rename yours")


def draft_of(call: DoorCall, now: datetime) -> tuple[Request, bytes]:
    """The draft of a call, with a new id. Raises InvalidInput."""
    moment = now.astimezone(UTC).replace(microsecond=0)
    # Random, so that two calls in one second do not have one file.
    slug = f"{slug_of(call.options.purpose)[:40].strip('-')}-{secrets.token_hex(4)}"
    declared = [InputFile(name, sha256_hex(data)) for name, data in call.inputs]
    request = draft_request(call.options, declared, file_name(moment, slug), moment, slug)
    return request, render_request(request)


def draft_host(
    host: str, why: str, *, requested_by: str, sensitivity: str, now: datetime, settings: RequestSettings
) -> tuple[Request, bytes]:
    """The request for a host and its bytes, of which only the Arguments (JSON) are the agent's words. `sensitivity` is
    the least that what the run has read has. Raises InvalidInput if gate 1 refuses it.
    """
    moment = now.astimezone(UTC).replace(microsecond=0)
    slug = f"host-{slug_of(host)[:36].strip('-')}-{secrets.token_hex(4)}"
    request = replace(
        blank_draft(file_name(moment, slug), moment, "reach", HostAccess(host, why)),
        requested_by=requested_by,
        purpose=f"Let this run of an agent connect to {host}.",
        time_limit_sec=min(_HOST_SECONDS, settings.max_time_sec),
        risk_level="high",
        justification="The run asks for this host, and can send there what it has read.",
        data_sensitivity=cast(Sensitivity, sensitivity),
    )
    data = render_request(request)
    report = read_request(data, path=request.file_name, settings=settings, now=now, stage="draft")
    if report.request is None:
        first = report.first_error
        raise InvalidInput(f"why: is refused by {first.rule}: {first.message}")
    return request, data


def code_place(call: DoorCall, data: bytes) -> tuple[int, int]:
    """The draft's line with the first line of the call's code, and the number of its lines; zeros without code."""
    if call.options.code is None:
        return 0, 0
    heading = data.split(b"\n").index(b"## Code")  # no line before it can be this one: front matter has one line a key
    return heading + 4, call.options.code.removesuffix("\n").count("\n") + 1


def told_findings(
    findings: Sequence[Mapping[str, Any]], place: tuple[int, int], data: bytes | None = None
) -> list[dict[str, Any]]:
    """Gate 1's errors with the argument that each is about and, in code, the line as the caller counts it.

    Without the draft (`data`), only what is in the code has a place.
    """
    rows = data.decode("utf-8", "replace").split("\n") if data is not None else []
    found = []
    for item in findings:
        if item["severity"] != "error":
            continue
        row = {"rule": item["rule"], "message": said_here(item["message"]), "help": said_here(item["help"])}
        first, count = place
        if first <= item["line"] < first + count:
            row |= {"argument": "code", "line": item["line"] - first + 1, "column": item["column"]}
        elif (name := _argument(rows, item["line"])) is not None:
            row["argument"] = name
        found.append(row)
    return found[: limits.DOOR_FINDINGS]


def _argument(rows: Sequence[str], line: int) -> str | None:
    """The argument that a line of the draft comes from, if it is known."""
    for row in reversed(rows[:line]):
        if row.startswith("## "):
            return _ARGUMENTS.get(row)
        if (match := _KEY(row)) is not None:
            return _ARGUMENTS.get(match[1])
    return None


def why_not(told: Sequence[Mapping[str, Any]]) -> str:
    """One line about the first of these findings."""
    first = told[0]
    line = f"line {first['line']}: " if "line" in first else ""
    return f"{line}{first['message']}"[: limits.DOOR_WHY_CHARS]


def fixes_of(findings: list[dict[str, Any]]) -> list[str]:
    """What to change, once each, for an agent that wrote arguments and not a file."""
    return list(dict.fromkeys(said_here(item["help"]) for item in findings if item["severity"] == "error"))


def said_here(text: str) -> str:
    """Gate 1's findings in a request's file, in terms of the door's arguments."""
    return text.replace("backend ERA", '`where: "era"`')
