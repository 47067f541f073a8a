"""The request for a host, in a form that gate 1 accepts.

Invariant: the result is a valid draft of version 2, or an error with the reason. Of its words only the Arguments (JSON)
are the agent's.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, cast

from threegate.core.errors import InvalidInput
from threegate.core.settings import RequestSettings
from threegate.plugins.agents.reach.host_action import HostAccess
from threegate.request.model import Request, Sensitivity
from threegate.request.reader import read_request
from threegate.request.render_draft import blank_draft, file_name, render_request, slug_of

_TIME_LIMIT_SEC: Final = 60


def draft_host(
    host: str, why: str, *, requested_by: str, sensitivity: str, now: datetime, settings: RequestSettings
) -> tuple[Request, bytes]:
    """The request and its bytes. `sensitivity` is the least that what the run has read has. Raises InvalidInput if gate
    1 refuses it.
    """
    moment = now.astimezone(UTC).replace(microsecond=0)
    slug = f"host-{slug_of(host)[:36].strip('-')}-{secrets.token_hex(4)}"
    request = replace(
        blank_draft(file_name(moment, slug), moment, "reach", HostAccess(host, why)),
        requested_by=requested_by,
        purpose=f"Let this run of an agent connect to {host}.",
        time_limit_sec=min(_TIME_LIMIT_SEC, settings.max_time_sec),
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
