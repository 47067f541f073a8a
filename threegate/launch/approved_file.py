"""An approved file, read once, and what may become of it.

Invariant: the bytes in a `Prepared` are the only ones that judgement, run and result speak of; nothing reads the
file again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.workspace import Workspace
from threegate.judgement.judge import Judgement
from threegate.launch.context import Context
from threegate.launch.launch_facts import file_identity
from threegate.request import read_request
from threegate.request.job import Job, build_job
from threegate.request.model import Backend, Request
from threegate.trail import RequestHistory, moves

_TOLD_BACKEND = re.compile(rb"^backend: ?(ERA|monty)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prepared:
    """An approved file, read once. `request` and `job` are None when it cannot run; `code` says why."""

    path: Path
    identity: tuple[int, ...]
    data: bytes
    request: Request | None
    job: Job | None
    signature: bytes | None
    countersignatures: Mapping[str, bytes]
    history: RequestHistory | None
    policy: str
    code: str = ""
    message: str = ""

    @property
    def request_id(self) -> str:
        """The id; of a file that cannot be read, the one that was approved under its name, else its name's stem."""
        if self.request is not None:
            return self.request.request_id
        return self.history.request_id if self.history is not None else self.path.stem

    @property
    def backend(self) -> Backend:
        """Where it would run."""
        return self.request.backend if self.request else "ERA"


def told_backend(path: Path) -> Backend | None:
    """The backend that a waiting file seems to name, None when it names none. A hint for the queue's order only:
    `prepare` reads the file for real."""
    try:
        data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
    except OSError:
        return None
    found = _TOLD_BACKEND.search(data)
    return None if found is None else "ERA" if found[1] == b"ERA" else "monty"


@dataclass(frozen=True, slots=True)
class Waiting:
    """It may not run yet and stays in approved/."""

    code: str
    message: str
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """It came to its end: the event's type and a reason code or status."""

    event: str
    code: str
    result: Path


def prepare(context: Context, path: Path) -> Prepared:
    """Read a file of approved/ and everything beside it, once. Raises FileNotFoundError when it went meanwhile."""
    identity = file_identity(path)
    try:
        data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
        beside = {
            item.name[len(path.name) + 4 :].removeprefix("."): durable.read_regular(
                item, max_bytes=limits.SIGNATURE_FILE_BYTES
            )
            for item in moves.companions(path)
        }
    except FileNotFoundError:
        raise
    except OSError as error:
        broken = error.strerror or str(error)
        known = _history(context, path.name, None)
        return Prepared(
            path,
            identity,
            b"",
            None,
            None,
            None,
            {},
            known,
            context.policy.digest,
            "request_unreadable",
            broken,
        )
    report = read_request(
        data,
        path=path.name,
        settings=context.policy.settings.request,
        now=datetime.now(UTC),
        stage="approved",
    )
    history = _history(context, path.name, report.request)
    bare = Prepared(
        path, identity, data, None, None, beside.pop("", None), beside, history, context.policy.digest
    )
    if report.request is None:
        first = next(finding for finding in report.findings if finding.severity == "error")
        return replace(
            bare, code="request_invalid", message=f"{first.rule} at line {first.line}: {first.message}"
        )
    try:
        job = build_job(
            report.request,
            input_sizes=_pinned_sizes(context.workspace, report.request),
            platform=context.policy.platform,
            write_class=context.contracts.write_class(context.policy, report.request),
            time_cap_sec=context.contracts.time_cap_sec(context.policy, report.request),
            proposal_sha256=history.proposal_sha256 if history else None,
        )
    except KeyError as missing:
        return replace(
            bare, code="input_missing", message=f"the pinned input {missing.args[0][:12]}… is not there"
        )
    return replace(bare, request=report.request, job=job)


def _history(context: Context, file_name: str, request: Request | None) -> RequestHistory | None:
    """What the trail says of a request; of one that cannot be read, by the name that it was approved under."""
    with context.trail.locked() as held:
        known = request.request_id if request is not None else held.index.request_of(file_name)
        return held.index.history(known) if known is not None else None


def _pinned_sizes(workspace: Workspace, request: Request) -> dict[str, int]:
    sizes = {}
    for item in request.inputs:
        try:
            sizes[item.sha256] = (workspace.inputs / item.sha256).lstat().st_size
        except FileNotFoundError:
            continue
    return sizes
