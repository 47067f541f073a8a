"""The text whose digest an approval signs (`shown_sha256` of statement version 2).

Invariant: a pure function of what else is signed, so that a launch recreates it and refuses any difference.
Logical lines: no width, no color, no elapsed time. It identifies every input by size and digest; their bytes
are shown next to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threegate.approval.facts import requester_of
from threegate.approval.shown.request_sections import ShownRequest, request_sections
from threegate.approval.shown.screen_lines import render_sections
from threegate.core.canonical import sha256_hex
from threegate.core.settings import Settings
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.trail.index import KnownRun
from threegate.trail.payloads.payload import Owner

_NO_WIDTH: Final = 1 << 30
"""Columns: no line is wrapped."""


def requesters(settings: Settings, run: KnownRun | None) -> Mapping[str, str]:
    """Names by uid, and the name of the requesting run: a run is named by its registration, never by its
    file.
    """
    return settings.requesters if run is None else {**settings.requesters, run.run: run.requester}


def shown_request(
    request: Request,
    job: Job,
    settings: Settings,
    *,
    operator: str,
    owner: Owner | None,
    run: KnownRun | None = None,
) -> ShownRequest:
    """What the text is made from. `owner` is the draft's owner, None if unknown; `run` is the agent run, if
    it is one.
    """
    names = requesters(settings, run)
    return ShownRequest(
        request=request,
        job=job,
        operator=operator,
        requester=requester_of(request, names, owner),
        named_by_text=str(owner) not in names,
        run=f"run {run.run} of the agent {run.profile}" if run is not None else "",
        signatures=getattr(settings.approval.quorum, job.effective_risk),
    )


def signed_text(view: ShownRequest) -> bytes:
    """The text, in UTF-8, each line ended by a line feed."""
    lines = render_sections(request_sections(view), width=_NO_WIDTH, full=True)
    return "".join(f"{line}\n" for line in lines).encode()


def shown_sha256(view: ShownRequest) -> str:
    """Its sha256, as the statement names it."""
    return sha256_hex(signed_text(view))
