"""What `grant suggest` prints, as parts of a screen and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from threegate.core.screen_parts import Fact, Field, Item, Note, Section
from threegate.plugins.grants.past_requests import PastRequest
from threegate.plugins.grants.suggestion import NotSuggested, Suggestion
from threegate.review.reviewed_draft import who_asks
from threegate.trail.payloads.payload import owner_fields


def suggestion_section(suggestion: Suggestion, number: int, waiting: int) -> Section:
    """One suggestion; `waiting` drafts would run under it."""
    job, past = suggestion.job, suggestion.past
    items: list[Item] = [
        Field("made from", suggestion.from_request),
        Field("asked by", who_asks(suggestion.owner)),
        Field("requester", job.requested_by),
    ]
    if job.action.words or job.action.own_tool:
        text = shlex.join(job.action.words) or "".join(item.text for item in job.action.texts())
        items.append(Field("it ran", f"{job.action.does} {text}".strip()))
    items += [Field("widened", str(item)) for item in suggestion.widened]
    if not suggestion.widened:
        items.append(Note("nothing may differ: the same job, byte for byte"))
    unasked = sum(not request.asked for request in past)
    items += [
        Fact("for", f"{suggestion.max_uses} uses, {suggestion.expires}: as often, and as long, as it was seen"),
        Fact("covers", f"{_signed(past)}{f', {unasked} with --yes' if unasked else ''}"),
    ]
    if suggestion.left_out:
        items.append(Field("left out", f"{_ids(suggestion.left_out)} (stands apart from the others)"))
    if waiting:
        items.append(Fact("waiting", f"drafts that it would let run, which are no reason for it: {waiting}"))
    if suggestion.worst:
        items.append(Field("new at worst", suggestion.worst))
    else:
        items.append(Note("nothing new would run: each job that it covers ran before"))
    items += [Field("would wait", text) for text in suggestion.near]
    return Section(f"SUGGESTION {number}: {len(past)} REQUESTS, NOTHING IS GRANTED YET", tuple(items))


def not_suggested_section(found: Iterable[NotSuggested]) -> Section:
    """The shapes that no grant is suggested for."""
    return Section(
        "NO GRANT IS SUGGESTED FOR",
        tuple(Field(f"{len(item.past)} requests", f"{item.past[-1].request_id}: {item.why}") for item in found),
    )


def to_json(found: Suggestion | NotSuggested, waiting: int) -> dict[str, Any]:
    """As `--json` has it."""
    if isinstance(found, NotSuggested):
        return {"requests": [request.request_id for request in found.past], "suggested": None, "why": found.why}
    return {
        "requests": [request.request_id for request in found.past],
        "first_utc": _moment(found.past[0]),
        "last_utc": _moment(found.past[-1]),
        "left_out": [request.request_id for request in found.left_out],
        "not_asked": sum(not request.asked for request in found.past),
        "waiting": waiting,
        **owner_fields(found.owner),
        "suggested": {
            "from": found.from_request,
            "widened": [str(item) for item in found.widened],
            "max_uses": found.max_uses,
            "expires": found.expires,
            "command": found.words,
        },
        "newly_covered": found.worst or None,
        "near_misses": list(found.near),
    }


def _signed(past: tuple[PastRequest, ...]) -> str:
    first, last = (f"{request.ended_utc:%Y-%m-%d}" for request in (past[0], past[-1]))
    return f"{len(past)} requests that were signed one by one, {first} to {last}"


def _ids(past: tuple[PastRequest, ...]) -> str:
    return ", ".join(request.request_id for request in past)


def _moment(request: PastRequest) -> str:
    return f"{request.ended_utc:%Y-%m-%dT%H:%M:%SZ}"
