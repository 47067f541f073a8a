"""Run an ended request again, to compare its outputs (docs/spec/6-runners.md, "Monty").

Invariant: a replay is an operator's signed act over exactly the request and job that ran; it has the limits
of the first run, writes only below ``runs/<id>/replay-N/``, and changes neither result, state nor session.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from threegate.acts.signed_acts import checked_act, sign_act
from threegate.acts.signing_key import Acting
from threegate.core import canonical, durable, file_locks, limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.judgement.judge import replay_clearance
from threegate.launch.approved_file import approved_as, choose_platform
from threegate.launch.context import Context
from threegate.launch.results.result_facts import ResultFacts, read_record, write_record
from threegate.request.job import Job, build_job
from threegate.request.model import Request
from threegate.request.shown_whole import unread_inputs
from threegate.runners.interface import Control, Outcome, Runner, without_exited
from threegate.runners.machine import platforms
from threegate.trail import moves, payloads
from threegate.trail.history import refuse_unknown_event
from threegate.trail.payloads import Claimed, Finished

REPLAY = "threegate-replay/1"


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """A request that ran: read again, with the job it means today and what the trail recorded about it."""

    request: Request
    job: Job
    about: Mapping[str, Any]
    first: ResultFacts


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay: its folder, its status, and one line for each difference (none if identical)."""

    folder: Path
    status: str
    differences: tuple[str, ...]


def ended_request(context: Context, request_id: str) -> EndedRequest:
    """What would be run again. Raises InvalidInput if it never ran, Refused if it means something else today."""
    with context.trail.locked() as held:
        history = held.index.history(request_id)
    then = Claimed.of(history.claimed) if history else None
    ran = Finished.of(history.finished) if history else None
    if history is None or then is None or history.finished is None or ran is None:
        raise InvalidInput(f"{request_id}: has not finished a run; threegate status lists those that have")
    path = context.workspace.finished / str(history.file)
    data = durable.read_named(path, max_bytes=limits.REQUEST_BYTES)
    refuse_unknown_event(history)
    report = context.read(data, path.name, "approved")
    request = report.request
    if request is None or canonical.sha256_hex(data) != then.request_sha256:
        raise Refused("request_changed", f"{path.name}: differs from what ran; for details: threegate audit verify")
    if request.action.never_replayed:
        raise InvalidInput(f"{request_id}: {request.action.never_replayed}")
    try:
        build = partial(
            build_job,
            request,
            input_sizes={
                item.sha256: (context.workspace.inputs / item.sha256).lstat().st_size for item in request.inputs
            },
            write_class=context.contracts.write_class(context.policy, request),
            time_cap_sec=context.contracts.time_cap_sec(context.policy, request),
            proposal_sha256=history.proposal_sha256,
            unread=unread_inputs(request, lambda item: (context.workspace.inputs / item.sha256).open("rb")),
        )
        possible = platforms(context.policy.settings, request.backend)
        platform, elsewhere = choose_platform(possible, build, approved_as(request_id, None, history))
        job = build(platform=platform)
    except FileNotFoundError as error:
        raise Unavailable(f"{error.filename}: the pinned input is gone; it cannot be run again") from None
    if elsewhere is not None:
        raise Refused(*elsewhere)
    about = {"request_id": request_id, "request_sha256": then.request_sha256, "job_sha256": then.job_sha256 or ""}
    # Refused here already, before anybody is asked for a signature.
    replay_clearance(about, request, job)
    first = read_record(
        context.workspace.run_folder(request_id),
        created_utc=history.finished.when,
        trail_seq=history.finished.seq,
        sha256=ran.record_sha256 or "",
    )
    return EndedRequest(request, job, about, first)


def replay(context: Context, ended: EndedRequest, acting: Acting, runner: Runner) -> Replayed:
    """Sign, run again, compare, record. Raises Refused, Unavailable, TrailError, OSError."""
    if (missing := runner.available()) is not None:
        raise Unavailable(missing)
    signed = sign_act(context, acting, REPLAY, ended.about)
    with context.trail.locked() as held:
        actor, act = checked_act(context, held, signed, REPLAY, ended.about)
    clearance = replay_clearance(ended.about, ended.request, ended.job)
    folder = _fresh_folder(context.workspace.run_folder(ended.request.request_id))
    # A verifier that sees the folder before the event that names its record takes the held lock as a sign
    # that a replay is running.
    with file_locks.folder_locked(folder):
        boot = f"replay-{secrets.token_hex(8)}"
        control = Control(folder, context.workspace.inputs, context.workspace_id, boot)
        outcome = runner.run(clearance, ended.job, control)
        if outcome.status == "unavailable":
            raise Unavailable(f"{outcome.detail}; nothing ran")
        facts = ResultFacts(
            request_id=ended.request.request_id,
            status=outcome.status,
            created_utc=datetime.now(UTC),
            trail_seq=0,
            backend=ended.job.backend,
            request_sha256=clearance.request_sha256,
            approved_by=clearance.approved_by,
            inputs=tuple((item.name, item.sha256) for item in ended.job.inputs),
        ).with_outcome(outcome)
        record = write_record(folder, facts)
        differences = compare(ended.first, outcome)
        replayed = payloads.Replayed(
            job_sha256=ended.job.digest,
            replay=folder.name,
            status=outcome.status,
            outcome="different" if differences else "identical",
            differences=len(differences),
            record_sha256=record,
            **act,
        )
        with context.trail.locked() as held:
            moves.announce(held, replayed, request_id=ended.request.request_id, actor=actor)
    return Replayed(folder, outcome.status, differences)


def compare(first: ResultFacts, again: Outcome) -> tuple[str, ...]:
    """One line for each difference between the first run and this one: status, exit code, streams, artifacts."""
    lines = []
    for name, then, now in (
        ("status", without_exited(first.status), without_exited(again.status)),
        ("exit code", first.exit_code, again.exit_code),
        ("stdout", first.stdout.sha256 if first.stdout else None, again.stdout.sha256),
        ("stderr", first.stderr.sha256 if first.stderr else None, again.stderr.sha256),
    ):
        if then != now:
            lines.append(f"{name}: {then} then, {now} now")
    then_made = {item.path: item.sha256 for item in first.artifacts}
    now_made = {item.path: item.sha256 for item in again.artifacts}
    for path in sorted(then_made.keys() | now_made.keys()):
        if then_made.get(path) != now_made.get(path):
            lines.append(f"{path}: {then_made.get(path, 'not there')} then, {now_made.get(path, 'not there')} now")
    return tuple(lines)


def _fresh_folder(run_folder: Path) -> Path:
    for number in range(1, 10_000):
        folder = run_folder / f"replay-{number}"
        try:
            durable.make_folder(folder)
        except FileExistsError:
            continue
        return folder
    raise Unavailable(f"{run_folder}: too many replays; remove old ones")
