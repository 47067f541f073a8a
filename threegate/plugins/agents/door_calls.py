"""From a tool call to a draft: the bytes that `threegate draft` would write, checked by gate 1 before they are stored.

Invariant: a call is identified by its digest (tool, arguments, bytes of its files): the same call finds the same
request.
"""

from __future__ import annotations

import json
import secrets
import shlex
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from threegate.acts.draft import DraftOptions, draft_request
from threegate.core.canonical import canonical_bytes, sha256_hex
from threegate.core.errors import InvalidInput
from threegate.plugins.agents.door_arguments import RunProgram, RunPython
from threegate.request.fields import check_file_name
from threegate.request.hosts import HostError, read_target
from threegate.request.model import InputFile, Request
from threegate.request.render_draft import file_name, render_request, slug_of

_CODE: Final = "call.py"
_INPUTS: Final = "inputs.json"
_PYTHON: Final = "python3"


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


def call_of(asked: RunPython | RunProgram, files: list[tuple[str, bytes]], requester: str) -> DoorCall:
    """The call of `run_python` or `run_program`. Raises InvalidInput."""
    if isinstance(asked, RunProgram):
        tool, options = "run_program", _program(asked)
    else:
        tool, variables = "run_python", None if asked.inputs is None else json.dumps(asked.inputs, ensure_ascii=False)
        in_a_container = {_CODE: asked.code, **({} if variables is None else {_INPUTS: variables})}
        ways: dict[str, tuple[DraftOptions, dict[str, str]]] = {
            "monty": (DraftOptions("monty", asked.purpose, code=asked.code, vars_json=variables), {}),
            "era": (DraftOptions("ERA", asked.purpose, command=f"{_PYTHON} /in/{_CODE}"), in_a_container),
        }
        options, own = ways[asked.where]
        files = [*files, *((name, text.encode("utf-8", "surrogatepass")) for name, text in own.items())]
    _check_names([name for name, _ in files])
    options = replace(options, time_sec=asked.time_limit_sec, requested_by=requester)
    return DoorCall(tool, options, tuple(files))


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


def fixes_of(findings: list[dict[str, Any]]) -> list[str]:
    """What to change, once each, for an agent that wrote arguments and not a file."""
    return list(dict.fromkeys(said_here(item["help"]) for item in findings if item["severity"] == "error"))


def said_here(text: str) -> str:
    """Gate 1's findings in a request's file, in terms of the door's arguments."""
    return text.replace("backend ERA", '`where: "era"`')
