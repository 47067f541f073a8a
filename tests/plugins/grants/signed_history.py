"""Requests as `grant suggest` finds them in the past, without a workspace: calls of a tool, and Python code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from threegate.core.settings import RequestSettings
from threegate.plugins.grants.past_requests import PastRequest
from threegate.plugins.grants.suggestion import Bounds, NotSuggested, Suggestion, suggest
from threegate.plugins.grants.suggestion_bounds import why_wide
from threegate.plugins.tools.action import JobServer
from threegate.plugins.tools.call_draft import draft_call, tool_call
from threegate.request.action import Script
from threegate.request.job import Job, Platform, build_job
from threegate.request.render_draft import blank_draft, file_name
from threegate.trail.payloads.payload import Owner

NOW: Final = datetime(2026, 11, 28, 12, tzinfo=UTC)
AGENT: Final = 1000
"""The account that asks."""
WIDE: Final = {"/srv/site": "the root of a project", "/var/lib/agent": "a home"}


def call(arguments: Mapping[str, Any], *, hosts: Sequence[str] = (), requested_by: str = "core", **more: Any) -> Job:
    """A call of a tool of a server, which has network if `hosts` names any; `more` is of its server."""
    action = tool_call("hub", "read", "0" * 64, arguments)
    request, _ = draft_call(action, requested_by=requested_by, now=NOW, settings=RequestSettings())
    server = JobServer("jail", ("/usr/bin/hub",), tuple(hosts), (), (), **more)
    return build_job(replace(request, action=action.bound(server)), input_sizes={}, platform=Platform())


def script(values: Mapping[str, Any], code: str = "print(n)\n", **more: Any) -> Job:
    """Python code with these Inputs (JSON); `more` is of its request."""
    request = blank_draft(file_name(NOW, "code"), NOW, "monty", Script(code, json.dumps(values)))
    request = replace(request, data_sensitivity="public", **more)
    return build_job(request, input_sizes={}, platform=Platform())


def history(jobs: Sequence[Job], *, owner: Owner = AGENT, hours: float = 24, name: str = "TR") -> list[PastRequest]:
    """One after the other, the last one an hour ago."""
    first = NOW - timedelta(hours=1 + hours * (len(jobs) - 1))
    return [
        PastRequest(f"{name}-{number}", owner, job, first + timedelta(hours=hours * number))
        for number, job in enumerate(jobs)
    ]


def bounds(**more: Any) -> Bounds:
    given: dict[str, Any] = {
        "now": NOW,
        "quorum": lambda job: 1,
        "why_wide": lambda folder: why_wide(folder, WIDE),
        "why_over": lambda owner: None,
    }
    return Bounds(**{**given, **more})


def only(past: Sequence[PastRequest], **more: Any) -> Suggestion | NotSuggested:
    """What comes of requests of one shape."""
    (found,) = suggest(past, bounds(**more))
    return found


def suggested(past: Sequence[PastRequest], **more: Any) -> Suggestion:
    """The grant that is suggested for requests of one shape."""
    found = only(past, **more)
    assert isinstance(found, Suggestion), found.why
    return found


def why_not(past: Sequence[PastRequest], **more: Any) -> str:
    """Why none is."""
    found = only(past, **more)
    assert isinstance(found, NotSuggested), found.rules
    return found.why
