"""A past request as the contracts see it: its call from the request file, its outcome from the record.

Invariant: a file counts only with the digest that the trail names; a missing or changed one yields None, and
the session then reports that its state is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from threegate.contracts.json_paths import MISSING
from threegate.contracts.state import Call, CallOutcome
from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.settings import RequestSettings
from threegate.core.workspace import STATES, Workspace
from threegate.judgement.judge import backend_tool, call_arguments, tool_name
from threegate.judgement.policy import Policy
from threegate.launch.results.result_facts import ResultFacts, read_record
from threegate.request.job import Job, Platform, build_job
from threegate.request.model import Request
from threegate.request.reader import read_request
from threegate.runners.interface import without_exited
from threegate.trail.event import Event
from threegate.trail.payloads import Claimed, Finished

RESULT_FILE = "result.json"
"""The output that contracts treat as the call's output."""

_WIDEST = RequestSettings(max_cpu=1024.0, max_memory_mb=10**9, max_time_sec=10**9)
"""The fold reads requests that already ran; they were checked against the limits of that time."""


def call_of(policy: Policy, request: Request, job: Job, session_id: str) -> Call:
    """The call of a request, without requester and answers."""
    return Call(
        tool=tool_name(job),
        arguments=call_arguments(job),
        session_id=session_id,
        workflow_session=job.workflow,
        labels=job.labels,
        call_id=request.request_id,
        backend=backend_tool(job) if not job.action.own_tool else None,
        served=job.action.own_tool,
        code_sha256=job.action.meaning()["code_sha256"],
        image=job.image,
        cost=policy.settings.contracts.cost_per_second * job.limits.time_sec,
    )


def outcome_of(facts: ResultFacts, run_folder: Path, cost_per_second: float) -> CallOutcome | None:
    """The outcome of a recorded run; None if the result that it names is missing or changed."""
    output: Any = MISSING
    for artifact in facts.artifacts:
        if artifact.path.removeprefix("/out/") == RESULT_FILE:
            try:
                data = durable.read_regular(run_folder / "out" / RESULT_FILE, max_bytes=limits.CONTRACT_VALUE_BYTES)
            except OSError:
                return None
            if canonical.sha256_hex(data) != artifact.sha256:
                return None
            try:
                output = canonical.loads_strict(data, max_bytes=limits.CONTRACT_VALUE_BYTES)
            except canonical.StrictJSONError:
                output = MISSING
    stderr = facts.stderr.kept.decode("utf-8", "replace") if facts.stderr is not None else ""
    return CallOutcome(
        status=without_exited(facts.status),
        output=output,
        cost=round(cost_per_second * (facts.runtime_ms or 0) / 1000, 9),
        exit_code=facts.exit_code,
        stderr=stderr,
        retry_after=facts.retry_after_sec,
        artifacts=tuple(sorted(f"/out/{item.path.removeprefix('/out/')}" for item in facts.artifacts)),
    )


class PastCalls:
    """The finished requests and records that events name by digest."""

    def __init__(
        self, workspace: Workspace, policy: Policy, time_cap_sec: Callable[[Policy, Request], int | None]
    ) -> None:
        self.workspace = workspace
        self.policy = policy
        self._time_cap_sec = time_cap_sec

    def call(self, event: Event) -> Call | None:
        """The call of a claimed request, read again from its file."""
        claimed = Claimed.of(event)
        request = self._request(event, claimed) if claimed else None
        if claimed is None or claimed.contract is None or request is None:
            return None
        job = build_job(
            request,
            # Contracts see names and digests of inputs, but no sizes.
            input_sizes={item.sha256: 0 for item in request.inputs},
            # A contract names an image of the engine only, so a call that named another one never ran.
            platform=Platform(image=self.policy.settings.runners.era.image),
            time_cap_sec=self._time_cap_sec(self.policy, request),
        )
        return call_of(self.policy, request, job, claimed.contract.session or "")

    def _request(self, event: Event, claimed: Claimed) -> Request | None:
        """The request file of an event, wherever it is now, if it has the digest that the event names."""
        for path in self._places(f"{event.request_id}", claimed.file):
            try:
                data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
            except OSError:
                continue
            if canonical.sha256_hex(data) == claimed.request_sha256:
                # Later than every time in the file, since all of them were judged before the claim.
                moment = event.when + timedelta(days=1)
                return read_request(data, path=path.name, settings=_WIDEST, now=moment, stage="approved").request
        return None

    def _places(self, request_id: str, file: str | None) -> Iterator[Path]:
        """Where its file may be: first by its usual names, then by a search, which takes longer the more
        requests have finished.
        """
        folders = [self.workspace.state_folder(state) for state in STATES]
        usual = sorted({file or "", f"{request_id}.md"} - {""})
        yield from (folder / name for folder in folders for name in usual)
        yield from (path for folder in folders for path in sorted(folder.glob(f"{request_id}.*md")))

    def outcome(self, event: Event) -> CallOutcome | None:
        """The outcome of a finished request, read again from its record."""
        folder = self.workspace.run_folder(str(event.request_id))
        finished = Finished.of(event)
        try:
            facts = read_record(
                folder,
                created_utc=event.when,
                trail_seq=event.seq,
                sha256=(finished and finished.record_sha256) or "",
            )
        except InvalidInput:
            return None
        return outcome_of(facts, folder, self.policy.settings.contracts.cost_per_second)
