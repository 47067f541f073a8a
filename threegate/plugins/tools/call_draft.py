"""The request for a tool call, in a form that gate 1 accepts.

Invariant: the result is a valid draft of version 2, or an error with the reason. The words of the request are
ours: a call contributes only its arguments.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput
from threegate.core.settings import RequestSettings
from threegate.plugins.tools.action import ToolCall
from threegate.request.model import Request
from threegate.request.reader import read_request
from threegate.request.render_draft import blank_draft, file_name, render_request, slug_of


def tool_call(server: str, tool: str, manifest_sha256: str, arguments: Mapping[str, Any]) -> ToolCall:
    """A call with its arguments in canonical form. Raises InvalidInput if they have none, or are too large."""
    try:
        text = canonical.canonical_bytes(dict(arguments)).decode()
    except ValueError:
        raise InvalidInput("the arguments have no exact JSON form; send large numbers as strings") from None
    if len(text.encode()) > limits.TOOL_ARGUMENTS_BYTES:
        raise InvalidInput(f"the arguments are larger than {limits.TOOL_ARGUMENTS_BYTES} bytes; pass less at once")
    return ToolCall(server, tool, manifest_sha256, text)


def draft_call(
    call: ToolCall, *, requested_by: str, now: datetime, settings: RequestSettings, mark: str = ""
) -> tuple[Request, bytes]:
    """The request and its bytes. `now` is an aware datetime in UTC; the name ends with `mark`, or with a random one.
    Raises InvalidInput if gate 1 refuses it.
    """
    moment = now.replace(microsecond=0)
    slug = f"{slug_of(call.name)[:40].strip('-')}-{mark or secrets.token_hex(4)}"
    request = replace(
        blank_draft(file_name(moment, slug), moment, "mcp", call),
        requested_by=requested_by,
        purpose=f"Call the tool {call.tool} of the server {call.server}.",
        time_limit_sec=min(limits.TOOL_CALL_SECONDS, settings.max_time_sec),
        tool=call.name,
        justification="A tool call asks for it, with these arguments and no further word.",
    )
    data = render_request(request)
    report = read_request(data, path=request.file_name, settings=settings, now=now, stage="draft")
    if report.request is None:
        first = report.first_error
        raise InvalidInput(f"the call is refused by {first.rule}: {first.message}")
    return request, data
