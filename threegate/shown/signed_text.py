"""The text whose digest an approval signs (`shown_sha256` of statement version 2).

Invariant: a pure function of what else is signed, so that a launch makes it again and refuses what differs. Logical lines:
no width, no colour, no time that passes. It names every input by size and digest; their bytes are shown beside it.
"""

from __future__ import annotations

from typing import Final

from threegate.approval import requester_of
from threegate.core.canonical import sha256_hex
from threegate.core.settings import Settings
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.shown.request_sections import ShownRequest, request_sections
from threegate.shown.screen_lines import render_sections

_NO_WIDTH: Final = 1 << 30
"""Columns: no line is wrapped."""


def shown_request(
    request: Request, job: Job, settings: Settings, *, operator: str, owner_uid: int | None
) -> ShownRequest:
    """What the text is made of. `owner_uid` is the draft's owner, None where nobody knows it."""
    return ShownRequest(
        request=request,
        job=job,
        operator=operator,
        requester=requester_of(request, settings.requesters, owner_uid),
        named_by_text=str(owner_uid) not in settings.requesters,
        signatures=getattr(settings.approval.quorum, job.effective_risk),
    )


def signed_text(view: ShownRequest) -> bytes:
    """The text, in UTF-8, each line ended by a line feed."""
    lines = render_sections(request_sections(view), width=_NO_WIDTH, full=True)
    return "".join(f"{line}\n" for line in lines).encode()


def shown_sha256(view: ShownRequest) -> str:
    """Its sha256, as the statement names it."""
    return sha256_hex(signed_text(view))
