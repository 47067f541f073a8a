"""Write a request: the language that the reader accepts, in one canonical form.

Invariant: for every request that the reader accepts, `read(render(request))` is the same request, except for
the bytes themselves. So a draft written by a program means exactly what the program was given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from threegate.core import limits
from threegate.request.action import Action
from threegate.request.backend import BACKENDS
from threegate.request.model import Request

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._-]*(?: [A-Za-z0-9._-]+)*")
# Words that some YAML reader takes for something else than text; quoted, they are text to every reader.
_NO_STRINGS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
# The keys of an action that are not written as a `scalar`.
_KEY_FORMS = {"manifest_sha256": '"{}"'}


def render_request(request: Request) -> bytes:
    """The canonical text of a request, as UTF-8 with LF line ends."""
    lines = ["---", *_front_matter(request), "---", "", *_body(request)]
    return ("\n".join(lines) + "\n").encode("utf-8")


def blank_draft(name: str, created: datetime, backend: str, action: Action) -> Request:
    """A draft with nothing in it yet, for `dataclasses.replace`: it has a name and an action, and reaches nothing.

    `name` is its file name, whose stem is its id; `created` is an aware moment in UTC.
    """
    return Request(
        file_name=name,
        data=b"",
        sha256="",
        stage="draft",
        request_id=name.removesuffix(".md"),
        created_utc=created,
        requested_by="core",
        purpose="",
        backend=backend,
        network="none",
        time_limit_sec=0,
        action=action,
        risk_level="medium",
        justification="",
        data_sensitivity="internal",
        network_rationale="",
    )


def render_time(moment: datetime) -> str:
    """``2026-11-22T05:00:00Z``, with a fraction only where there is one."""
    text = moment.astimezone(UTC).isoformat()
    return text.replace("+00:00", "Z")


def slug_of(text: str) -> str:
    """A file name's slug made of some words: 1 to 64 of a-z, 0-9 and '-'."""
    words = re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")
    return words[: limits.SLUG_CHARS].strip("-") or "request"


def file_name(moment: datetime, slug: str) -> str:
    """``TR-YYYYMMDD-HHMMSSZ-<slug>.md``"""
    return f"TR-{moment.astimezone(UTC):%Y%m%d-%H%M%SZ}-{slug}.md"


def scalar(value: Any) -> str:
    """A value as a YAML scalar that the strict reader reads as exactly this: plain where that is safe, else JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.casefold() not in _NO_STRINGS:
        return value
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _front_matter(request: Request) -> Iterator[str]:
    yield "request_type: tool_request"
    yield f'schema_version: "{BACKENDS[request.backend].version}"'
    yield f"request_id: {scalar(request.request_id)}"
    yield f"created_utc: {render_time(request.created_utc)}"
    yield f"requested_by: {scalar(request.requested_by)}"
    if request.approved_by is not None:
        yield f"approved_by: {scalar(request.approved_by)}"
    if request.approved_utc is not None:
        yield f"approved_utc: {render_time(request.approved_utc)}"
    yield from _optional("deliver", request.deliver)
    yield f"purpose: {scalar(request.purpose)}"
    yield f"backend: {request.backend}"
    for name, value in request.action.keys().items():
        yield f"{name}: {_KEY_FORMS[name].format(value) if name in _KEY_FORMS else scalar(value)}"
    runs = BACKENDS[request.backend].version == "1"
    if runs:
        yield f"language: {scalar(request.language)}"
    yield f"network: {request.network}"
    if runs:
        yield f'cpu_limit: "{_decimal(request.cpu_limit)}"'
        yield f"memory_limit_mb: {request.memory_limit_mb}"
    yield f"time_limit_sec: {request.time_limit_sec}"
    yield from _list("inputs", [_input(item) for item in request.inputs])
    if request.workdir != "/in":
        yield f"workdir: {request.workdir}"
    yield from _list("outputs_expected", [_output(item) for item in request.outputs])
    yield from _list("network_allowlist", [[scalar(f"{item.host}:{item.port}")] for item in request.network_allowlist])
    yield from _list("constraints", [[scalar(item)] for item in request.constraints])
    yield from _optional("session_id", request.session_id)
    yield from _optional("tool", request.action.tool_key(request.tool))
    yield from _list("labels", [[scalar(item)] for item in request.labels])
    for name in ("workflow", "role", "risk_domain"):
        yield from _optional(name, getattr(request, name))
    yield from _list("evidence", [[json.dumps(item, ensure_ascii=False)] for item in request.evidence])


def _decimal(cores: Decimal) -> str:
    text = format(cores, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _input(item: Any) -> list[str]:
    lines = [f"name: {json.dumps(item.name)}", f'sha256: "{item.sha256}"']
    return [*lines, "unpack: true"] if item.unpack else lines


def _output(item: Any) -> list[str]:
    lines = [f"path: {scalar(item.path)}"]
    return [*lines, f"description: {scalar(item.description)}"] if item.description else lines


def _optional(name: str, value: str | None) -> Iterator[str]:
    if value is not None:
        yield f"{name}: {scalar(value)}"


def _list(name: str, entries: list[list[str]]) -> Iterator[str]:
    if entries:
        yield f"{name}:"
    for entry in entries:
        yield f"  - {entry[0]}"
        yield from (f"    {line}" for line in entry[1:])


def _body(request: Request) -> Iterator[str]:
    yield from request.action.body(request.inputs)
    yield from ("", "## Output Expectations", "")
    yield from [f"- {_quoted(item.path)}" for item in request.outputs] or ["none"]
    yield from ("", "## Risk Assessment", "", f"Risk level: {request.risk_level}", "")
    yield from (f"Justification: {request.justification}", "")
    yield f"Data sensitivity: {request.data_sensitivity}"
    if request.network_rationale:
        yield from ("", f"Network rationale: {request.network_rationale}")


def _quoted(path: str) -> str:
    return f"`{path}`" if " " in path or "\t" in path else path
