"""An approved file, read once, and its possible outcomes.

Invariant: judgement, run and result refer only to the bytes in an `Approved`; the file is not read again. What an
approval says of its Job only chooses between the platforms of this machine, the signed one as long as it is possible
here; whether the Job is the signed one is decided by the check of the approval (approval/launch.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from threegate.approval.facts import NO_SIGNATURE, LaunchFacts
from threegate.approval.ssh_wire import MalformedError
from threegate.approval.statement import SignedApproval
from threegate.core import durable, limits
from threegate.core.errors import Refused
from threegate.judgement.judge import Judgement
from threegate.launch.context import Context
from threegate.launch.launch_facts import draft_owner, facts_for_launch
from threegate.request.backend import BACKENDS, Binding, Bound
from threegate.request.job import Job, Platform, Platforms, build_job
from threegate.request.model import InputFile, Request
from threegate.request.shown_whole import unread_inputs
from threegate.runners.machine import platforms
from threegate.trail import moves, payloads
from threegate.trail.history import RequestHistory
from threegate.trail.index import KnownRun
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import LockedTrail

CALLER_ABSENT: Final = "caller_absent"
"""The code of a cleared call that waits for the process which makes it."""
_BACKEND_LINE = re.compile(rb"^backend: ?([A-Za-z][A-Za-z0-9_]{0,39})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Approved:
    """A request in approved/ that was read once and can be judged."""

    path: Path
    identity: tuple[int, ...]
    data: bytes
    request: Request
    job: Job
    signature: bytes | None
    countersignatures: Mapping[str, bytes]
    history: RequestHistory | None
    owner: Owner | None
    """The requester."""
    policy: str
    """`Policy.standing` of the policy under which it was read."""
    digests: Mapping[str, str]
    """sha256 of the file ("") and of each signature next to it (".sig", ".sig.NAME"), as read."""
    bound: Bound
    """What is known of it here besides."""
    platform: Platform
    """On what `job` runs: the one that was signed, if it is still possible."""
    elsewhere: tuple[str, str] | None = None
    """Code and words if it was signed for another platform than that."""

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.request.request_id


@dataclass(frozen=True, slots=True)
class Unrunnable:
    """A file in approved/ that is not a runnable request; `code` and `message` say why."""

    path: Path
    identity: tuple[int, ...]
    request_id: str
    """The id that was approved under its name, or else its name's stem."""
    code: str
    message: str
    digests: Mapping[str, str]
    """As in `Approved`; empty if one of the files could not be read."""
    drill: bool = False
    """True for a copy of a drill: no agent learns about it."""


def peek_backend(path: Path) -> str | None:
    """The backend that a waiting file seems to name, None if it names none that is here. Only a hint for the queue's
    order: `read_approved` reads the file properly.
    """
    return name if (name := named_backend(path)) in BACKENDS else None


def named_backend(path: Path) -> str | None:
    """What a file says in the place of its backend's name, whether or not that backend exists here."""
    try:
        data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
    except OSError:
        return None
    found = _BACKEND_LINE.search(data)
    return None if found is None else found[1].decode()


@dataclass(frozen=True, slots=True)
class Waiting:
    """It may not run yet and stays in approved/."""

    code: str
    message: str
    judgement: Judgement | None = None
    over: Callable[[], bool] | None = None
    """Whether what it waits for is there now; None: only another look shows it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """It has ended: the event's type and a reason code or status."""

    event: str
    code: str
    result: Path
    message: str = ""
    """Why it was refused, in one line."""


def facts_of_approved(
    context: Context, held: LockedTrail, approved: Approved, more: Mapping[str, bytes] | None = None
) -> LaunchFacts:
    """The current facts of its launch, with `more` countersignatures by operator. Raises TrailError, OSError."""
    return facts_for_launch(
        context.workspace,
        held,
        context.policy,
        approved.request,
        approved.job,
        signature=approved.signature,
        countersignatures={**approved.countersignatures, **(more or {})},
        elsewhere=approved.elsewhere,
    )


def read_approved(context: Context, path: Path, listed: Sequence[str] | None = None) -> Approved | Unrunnable:
    """Read a file in approved/ and everything next to it, once. Raises FileNotFoundError if it is gone.

    `listed` are the names of its signatures, for a caller that has listed the folder; a countersignature that came
    after that is not read. Without it the folder is listed here.
    """
    policy = context.policy
    # Before the bytes: if the file is replaced in between, `is_there` finds a difference later.
    identity = file_identity(path)
    try:
        data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
        beside = _read_signatures(path, [item.name for item in moves.companions(path)] if listed is None else listed)
    except FileNotFoundError:
        raise
    except OSError as error:
        with context.trail.locked() as held:
            history = _history(held, path.name, None)
        return _unrunnable(path, identity, history, "request_unreadable", error.strerror or str(error), {})
    digests = moves.digests_beside(path.name, {path.name: data, **beside})
    report = context.read(data, path.name, "approved")
    request = report.request
    with context.trail.locked() as held:
        history = _history(held, path.name, request)
        owner = draft_owner(history)
        run = held.index.run(owner)
        drill = isinstance(report.request_id, str) and held.index.is_spent(report.request_id)
    # A copy of a drill, put here by someone else: refused without an answer that an agent could read.
    if drill:
        said = "its request_id was used before"
        return Unrunnable(path, identity, path.stem, "replayed", said, digests, drill=True)
    if request is None:
        first = next(finding for finding in report.findings if finding.severity == "error")
        message = f"{first.rule} at line {first.line}: {first.message}"
        return _unrunnable(path, identity, history, "request_invalid", message, digests)

    signature = beside.pop(f"{path.name}.sig", None)
    inputs = {item.sha256: context.workspace.inputs / item.sha256 for item in request.inputs}

    def pinned(item: InputFile) -> BinaryIO:
        return inputs[item.sha256].open("rb")

    try:
        # The second of a check of `approve`: the file could have been put here without it.
        refuse_other_project(request, run)
        bound = Binding(context.workspace, policy.settings, context.trail, request, pinned, owner).bound()
        if bound.unfit is not None:
            raise bound.unfit
        build = partial(
            build_job,
            replace(request, action=bound.action),
            input_sizes={digest: file.lstat().st_size for digest, file in inputs.items()},
            write_class=context.contracts.write_class(policy, request),
            time_cap_sec=context.contracts.time_cap_sec(policy, request),
            proposal_sha256=history.proposal_sha256 if history else None,
            unread=unread_inputs(request, pinned),
        )
        possible = platforms(policy.settings, request.backend)
        platform, elsewhere = choose_platform(possible, build, approved_as(request.request_id, signature, history))
        job = build(platform=platform)
    except (Refused, OSError) as error:
        # Whoever promotes by hand learns first that the approval is missing: it would have copied the inputs too.
        if signature is None and policy.settings.approval.signature == "required":
            return _unrunnable(path, identity, history, "signature_missing", NO_SIGNATURE, digests)
        if isinstance(error, Refused):
            return _unrunnable(path, identity, history, error.code, str(error), digests)
        # A disk that does not give the bytes of an open file names none.
        which = f"the input {Path(error.filename).name[:12]}…" if error.filename else "an input"
        message = f"{which} of tool-exec/inputs cannot be read ({error.strerror or error})"
        return _unrunnable(path, identity, history, "input_missing", message, digests)
    further = {name.removeprefix(f"{path.name}.sig."): found for name, found in beside.items()}
    return Approved(
        path=path,
        identity=identity,
        data=data,
        request=request,
        job=job,
        signature=signature,
        countersignatures=further,
        history=history,
        owner=owner,
        policy=policy.standing,
        digests=digests,
        bound=bound,
        platform=platform,
        elsewhere=elsewhere,
    )


@dataclass(frozen=True, slots=True)
class ApprovedAs:
    """What is said of the Job of an approved request: digests, and the platform that the trail recorded."""

    request_id: str
    digests: frozenset[str]
    platform: Platform | None


def approved_as(request_id: str, signature: bytes | None, history: RequestHistory | None) -> ApprovedAs:
    """What the signature file and the trail say; nothing of it is verified."""
    recorded = payloads.Approved.of(history.approved) if history is not None else None
    digests = {recorded.job_sha256} if recorded is not None else set()
    if signature is not None:
        with suppress(MalformedError):  # an act of a plugin, or one that is refused later
            digests.add(SignedApproval.parse(signature, request_id).statement.job_sha256)
    platform = None if recorded is None or recorded.platform is None else Platform.from_json(recorded.platform)
    return ApprovedAs(request_id, frozenset(filter(None, digests)), platform)


def choose_platform(
    possible: Platforms, build: Callable[..., Job], approved: ApprovedAs
) -> tuple[Platform, tuple[str, str] | None]:
    """The platform whose Job was approved, else the preferred one; and in that case, if the platform is all that
    differs, code and words for it. `build` makes the Job of a `platform`.
    """
    jobs = [build(platform=platform) for platform in possible.now]
    for platform, job in zip(possible.now, jobs, strict=True):
        if job.digest in approved.digests:
            return platform, None
    preferred, signed = possible.now[0], approved.platform
    if signed is None or build(platform=signed).digest not in approved.digests:
        return preferred, None  # nothing was approved, or something else changed, too
    if possible.unknown and not signed.engine:
        return preferred, ("no_backend", possible.unknown)
    changed = signed.difference([job.platform for job in jobs])
    return preferred, (
        "job_changed",
        f"{changed} since it was approved; draft it again: threegate draft --again {approved.request_id}",
    )


def _read_signatures(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The signatures next to a file, by name. Raises FileNotFoundError if one of `names` is gone, OSError."""
    found: dict[str, bytes] = {}
    approver = f"{path.name}.sig"
    # A listing that was made while the file came can have the file and not its signature, which came first.
    for name in sorted({approver, *names}):
        try:
            found[name] = durable.read_regular(path.with_name(name), max_bytes=limits.SIGNATURE_FILE_BYTES)
        except FileNotFoundError:
            if name in names:
                raise
    return found


def file_identity(path: Path) -> tuple[int, ...]:
    """Distinguishes a file from another one with its name. Raises FileNotFoundError."""
    return identity_of(path.lstat())


def identity_of(facts: os.stat_result) -> tuple[int, ...]:
    """The same of a file whose facts are known."""
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def is_there(file: Approved | Unrunnable) -> bool:
    """Whether the file that was read is still in approved/, unchanged."""
    try:
        return file_identity(file.path) == file.identity
    except FileNotFoundError:
        return False


def _unrunnable(
    path: Path,
    identity: tuple[int, ...],
    history: RequestHistory | None,
    code: str,
    message: str,
    digests: Mapping[str, str],
) -> Unrunnable:
    return Unrunnable(path, identity, history.request_id if history else path.stem, code, message, digests)


def refuse_other_project(request: Request, run: KnownRun | None) -> None:
    """An agent's run may change only the project that it has a copy of. Raises Refused (project_unknown)."""
    if run is not None and not request.action.may_change(run.project):
        raise Refused(
            "project_unknown",
            f"{run.run}: this agent run may change {run.project or 'no project'} and nothing else; "
            f"for {request.action.keys()['project']} start one with: threegate agent run {run.profile} --project DIR",
        )


def _history(held: LockedTrail, file_name: str, request: Request | None) -> RequestHistory | None:
    """The trail's history of a request; for an unreadable one, by the name under which it was approved."""
    known = request.request_id if request is not None else held.index.request_of(file_name)
    return held.index.history(known) if known is not None else None
