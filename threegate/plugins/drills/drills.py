"""Drills: drafts that must not be approved, placed to measure whether operators still read (docs/drills.md).

Invariant: a drill's id is used up before its file appears, and two checks refuse it: `approve.seal`, and
every check that rejects a used id. It ends under the trail's lock, once, before any key is used; the
requester of its source learns nothing about it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

from threegate.acts.signed_acts import checked_act, sign_act
from threegate.acts.signing_key import Acting
from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused
from threegate.core.file_names import is_agent_run_id, is_request_name
from threegate.core.workspace import Workspace
from threegate.launch.context import Context
from threegate.plugins.drills.change_drills import change_drills, projects
from threegate.plugins.drills.drill_plants import Planted, plants
from threegate.plugins.drills.kinds import DrillEnded, DrillPlaced, DrillSet
from threegate.plugins.drills.placed_drill import (
    PLAN,
    Drill,
    Outcome,
    drills_folder,
    end_drill,
    read_drill,
    remove_files,
)
from threegate.request.model import InputFile, Request
from threegate.request.render_draft import file_name, render_request
from threegate.request.report import Report
from threegate.request.typecheck import type_findings
from threegate.review.reviewed_draft import Draft, view_draft
from threegate.trail import moves
from threegate.trail.event import trail_text
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import Approved
from threegate.trail.trail import LockedTrail

DRILL: Final = "threegate-drill/1"
_SLUG = re.compile(r"TR-[0-9]{8}-[0-9]{6}Z-([a-z0-9-]{1,64})(?:\.[0-9]+)?\.md")
_DIGITS = re.compile(r"[0-9]{8}-?[tT]?[0-9]{4,6}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MODE = 0o600


def set_drills(context: Context, acting: Acting, *, on: bool) -> None:
    """Consent to drills, or end them; an open drill is withdrawn. Raises Refused, InvalidInput, Unavailable,
    TrailError.
    """
    about = {"drills": "on" if on else "off"}
    signed = sign_act(context, acting, DRILL, about)
    with context.trail.locked() as held:
        actor, act = checked_act(context, held, signed, DRILL, about)
        moves.announce(held, DrillSet(on=on, **act), actor=actor)
        if not on:
            _end_open(context.workspace, held, "withdrawn", actor)


def withdraw_drill(context: Context) -> bool:
    """End the open drill, because the plugin was turned off; return whether there was one. Raises TrailError,
    OSError.
    """
    with context.trail.locked() as held:
        if held.index.drills.open is None:
            return False
        _end_open(context.workspace, held, "withdrawn", "daemon")
    return True


def due_utc(index: TrailIndex, every: int) -> datetime | None:
    """When to place the next drill: 0.5 to 1.5 times `every` seconds after the last drill event, derived from
    that event's hash, so that restarting the daemon does not change it; None while drills are off or one is
    open.
    """
    drills = index.drills
    if not drills.on or drills.open is not None:
        return None
    chance = int(drills.last_hash[:8], 16) / 16**8
    return datetime.fromisoformat(drills.last_time) + timedelta(seconds=every * (0.5 + chance))


def place_drill(context: Context, *, chance: Random | None = None) -> Drill | None:
    """Make a drill from a recently finished request, or from a project, and place it among the drafts; None if none can
    be made.

    Raises TrailError, Unavailable, OSError.
    """
    chance, workspace = chance or SystemRandom(), context.workspace
    with context.trail.locked() as held:
        if not held.index.drills.on or held.index.drills.open is not None:
            return None  # before anything is put beside an open one
    made = next(_made(context, chance), None)
    if made is None:
        return None
    drill, data, archive = made
    with context.trail.locked() as held:
        known = held.index.history(drill.request_id) is not None or held.index.id_used(drill.request_id)
        if known or not held.index.drills.on or held.index.drills.open is not None:
            return None
        placed = DrillPlaced(commitment=drill.commitment, ids_sha256=(sha256_hex(drill.request_id.encode()),))
        moves.announce(held, placed, actor="daemon")
        remove_files(workspace)  # leftovers of a crash
        _keep(workspace, archive)
        durable.deliver(drills_folder(workspace) / PLAN, drill.to_bytes(), _MODE)
        durable.deliver(drill.file(workspace), data, _MODE)
    return drill


def settle_drill(context: Context) -> Outcome | None:
    """Check the open drill: it expires like any draft, and is lost if its files differ from what was placed. If a draft
    has taken its name since, which hides it, it gets another one.

    Returns how it ended, None if it did not. Raises TrailError, OSError.
    """
    workspace = context.workspace
    moved = (placed := read_drill(workspace)) is not None and _moved_on(context, placed)
    with context.trail.locked() as held:
        drill, open_ = read_drill(workspace), held.index.drills.open
        if open_ is None:
            remove_files(workspace)
            return None
        ttl = context.policy.settings.approval.draft_ttl
        if drill is None or drill.commitment != open_ or not _as_placed(workspace, drill):
            outcome: Outcome = "lost"
        elif (moved and drill == placed) or _is_late(workspace, drill, held.now.timestamp(), ttl):
            outcome = "expired"
        else:
            if os.path.lexists(drill.listed(workspace)):
                _rename(workspace, drill)
            return None
        _end_open(workspace, held, outcome, "daemon")
    return outcome


def _moved_on(context: Context, drill: Drill) -> bool:
    """Whether the project of a change set is not the one any more that it was made from, so that nobody can take it."""
    if not drill.path:
        return False
    try:
        data = durable.read_regular(drill.file(context.workspace), max_bytes=limits.REQUEST_BYTES)
        with view_draft(context, _as_draft(context.workspace, drill, data)) as reviewed:
            return reviewed.unfit is not None
    except (Refused, InvalidInput):
        return True


def _is_late(workspace: Workspace, drill: Drill, now: float, ttl: int) -> bool:
    """Whether nobody decided on it in time."""
    return ttl > 0 and now > drill.file(workspace).stat().st_ctime + ttl


def _as_placed(workspace: Workspace, drill: Drill) -> bool:
    """Whether its files are those that were placed; the input of a change set has its digest as its name."""
    folder = drills_folder(workspace)
    named = [name for name in os.listdir(folder) if _SHA256.fullmatch(name)] if drill.path else []
    return (
        _digest(drill.file(workspace)) == drill.request_sha256
        and len(named) == bool(drill.path)
        and all(_digest(folder / name, limits.INPUT_FILE_BYTES) == name for name in named)
    )


def _keep(workspace: Workspace, archive: bytes) -> None:
    """Make the folder of drills and put a `changes.tar` there, if there is one. Raises OSError."""
    folder = drills_folder(workspace)
    if not folder.is_dir():
        durable.make_folder(folder, 0o700)
    if archive:
        durable.overwrite(folder / sha256_hex(archive), archive, _MODE)


def _rename(workspace: Workspace, drill: Drill) -> None:
    """List an open drill under another name: its bytes first, then the plan that names them, which decides."""
    match = _SLUG.fullmatch(drill.name)
    slug = match[1] if match else "request"
    named = replace(drill, name=drill.name.replace(f"Z-{slug}", f"Z-{_with_tail(slug, SystemRandom())}"))
    data = durable.read_regular(drill.file(workspace), max_bytes=limits.REQUEST_BYTES)
    durable.deliver(named.file(workspace), data, _MODE)
    durable.overwrite(drills_folder(workspace) / PLAN, named.to_bytes(), _MODE)
    durable.unlink(drill.file(workspace))


def _with_tail(slug: str, chance: Random) -> str:
    """A slug that nobody can take before: its end is chosen when it is needed."""
    return f"{slug[: limits.SLUG_CHARS - 7].rstrip('-')}-{chance.getrandbits(24):06x}"


def _end_open(workspace: Workspace, held: LockedTrail, outcome: Outcome, actor: str) -> None:
    open_ = held.index.drills.open
    if open_ is None:
        return
    drill = read_drill(workspace)
    if drill is None or drill.commitment != open_:
        moves.announce(held, DrillEnded(commitment=open_, outcome="lost"), actor=actor)
        remove_files(workspace)
    else:
        end_drill(workspace, held, drill, outcome, actor)


def _digest(path: Path, most: int = limits.REQUEST_BYTES) -> str:
    try:
        return sha256_hex(durable.read_regular(path, max_bytes=most))
    except OSError:
        return ""


# ---- making a drill


def _made(context: Context, chance: Random) -> Iterator[tuple[Drill, bytes, bytes]]:
    """Drills that could be placed, each with the bytes of its draft and, for a change set, of its `changes.tar`. Where
    there are projects, every second one is a change set.
    """
    ways = [_of_requests, change_drills]
    if projects(context) and chance.random() < 0.5:
        ways.reverse()
    for way in ways:
        for drill, data, archive in way(context, chance):
            if archive:  # what shows it reads it there
                _keep(context.workspace, archive)
            if _can_be_shown(context, drill, data):
                yield drill, data, archive
            elif archive:
                remove_files(context.workspace)


def _of_requests(context: Context, chance: Random) -> Iterator[tuple[Drill, bytes, bytes]]:
    sources = list(_sources(context))
    inputs = [item for request, _, _ in sources for item in request.inputs]
    for source in chance.sample(sources, len(sources)):
        for drill, data in drills_of(context, *source, inputs, chance):
            yield drill, data, b""


def drills_of(
    context: Context, source: Request, folder: str, owner: int | str, inputs: Sequence[InputFile], chance: Random
) -> Iterator[tuple[Drill, bytes]]:
    """A drill for each kind of change that fits a request, each with its bytes. Gate 1 reads them as intended
    and gives only warnings that it also gives for the request itself.
    """
    settings = context.policy.settings.request
    with context.trail.locked() as held:
        moment = held.now.replace(microsecond=0)
    slug = match[1] if (match := _SLUG.fullmatch(source.file_name)) else "request"
    inbox = context.workspace.agent_run(folder).inbox if is_agent_run_id(folder) else context.workspace.inbox
    if os.path.lexists(inbox / file_name(moment, slug)):  # whoever drafts can take the names of times to come
        slug = _with_tail(slug, chance)
    request_id = fresh_id(source.request_id, moment)
    asked_again = source.drafted_again(file_name(moment, slug), request_id, moment)
    usual = _rules(context.read(render_request(asked_again), asked_again.file_name, "draft", moment))
    for planted in plants(asked_again, chance, inputs, settings):
        data = render_request(planted.request)
        report = context.read(data, asked_again.file_name, "draft", moment)
        means = report.request is not None and _means(report.request, planted)
        if means and _rules(report) == usual:
            drill = Drill(
                name=planted.request.file_name,
                folder=folder,
                owner=owner,
                request_id=planted.request.request_id,
                request_sha256=sha256_hex(data),
                source=source.request_id,
                planted=planted.kind,
                line=trail_text(planted.line),
                salt=secrets.token_hex(16),
            )
            yield drill, data


def _rules(report: Report) -> list[str]:
    """Findings of gate 1 and the type checker."""
    types = type_findings(report.request) if report.request is not None else ()
    return sorted(finding.rule for finding in (*report.findings, *types))


def _means(read: Request, planted: Planted) -> bool:
    wanted = planted.request
    return replace(read, data=wanted.data, sha256=wanted.sha256, unusual_program=wanted.unusual_program) == wanted


def _can_be_shown(context: Context, drill: Drill, data: bytes) -> bool:
    """Whether it opens like any other draft."""
    draft = _as_draft(context.workspace, drill, data)
    try:
        with view_draft(context, draft) as reviewed:
            return reviewed.unfit is None and not os.path.lexists(draft.path)
    except (Refused, InvalidInput):
        return False


def _as_draft(workspace: Workspace, drill: Drill, data: bytes) -> Draft:
    return Draft(drill.listed(workspace), data, (0, 0, 0, 0, 0), drill.owner, drill)


def _sources(context: Context) -> Iterator[tuple[Request, str, int | str]]:
    """The newest requests that ran after an operator signed them, each with its folder and its owner."""
    workspace = context.workspace
    with os.scandir(workspace.finished) as entries:
        there = [
            (entry.stat(follow_symlinks=False).st_ctime_ns, Path(entry.path))
            for entry in entries
            if is_request_name(entry.name)
        ]
    with context.trail.locked() as held:
        for _, path in sorted(there, reverse=True)[: limits.DRILL_SOURCES]:
            data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
            request = context.read(data, path.name, "approved", held.now).request
            history = held.index.history(request.request_id) if request is not None else None
            approved = Approved.of(history.approved) if history is not None else None
            if request is None or approved is None or approved.owner is None:
                continue
            signed = approved.approval_sha256 is not None and approved.proposal_sha256 is None
            there_still = workspace.requester_folders(approved.owner).inbox.is_dir()
            plain = trail_text(request.request_id) == request.request_id and not request.signature_needed
            if signed and there_still and plain:
                run = approved.owner if isinstance(approved.owner, str) else "inbox"
                yield request, run, approved.owner


def fresh_id(request_id: str, moment: datetime) -> str:
    """An id that looks like the source's, with the current time and a new random part."""
    fresh = _DIGITS.sub(lambda found: _like(found[0], moment), request_id)
    tail = re.search(r"[0-9a-f]{6,}$", fresh)
    if tail is not None:
        return fresh[: tail.start()] + secrets.token_hex(len(tail[0]))[: len(tail[0])]
    return f"{fresh[: limits.REQUEST_ID_CHARS - 8]}-{secrets.token_hex(3)}"


def _like(found: str, moment: datetime) -> str:
    separator = re.sub(r"[0-9]", "", found)
    return f"{moment:%Y%m%d}{separator}{moment:%H%M%S}"[: len(found)]
