"""A finished proposal, as far as the trail vouches for it: what `project note approve` may act on.

Invariant: every byte returned from here has the sha256 that the trail's `finished` (outputs) or `approved`
(inputs) names; the tool and its arguments come from `args.json`, which the approval bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput, Refused
from threegate.launch.context import Context
from threegate.trail.payloads import Approved, Finished
from threegate.trail.trail import LockedTrail

APPLY = "threegate-apply/1"
"""The type of the signed act. The name is historical: finished writes were once applied under it too."""


@dataclass(frozen=True, slots=True)
class FinishedProposal:
    """A request that was made from a proposal and succeeded. `args` is the pinned args.json, `outputs` maps
    paths below /out/ to sha256.
    """

    request_id: str
    tool: str
    proposal_sha256: str
    approval_sha256: str
    args: Mapping[str, Any]
    outputs: Mapping[str, str]
    run_folder: Path

    @property
    def given(self) -> Mapping[str, Any]:
        """The arguments of the run."""
        given = self.args["given"]
        assert isinstance(given, dict)
        return given

    def output(self, path: str) -> bytes:
        """An artifact's bytes, checked against the trail. Raises Refused("result_unverified")."""
        inner = path.removeprefix("/out/")
        place = self.run_folder / "out" / inner
        try:
            data = durable.read_regular(place, max_bytes=limits.OUT_FILE_BYTES)
        except OSError as error:
            raise Refused("result_unverified", f"{path}: cannot be read ({error.strerror or error})") from None
        if canonical.sha256_hex(data) != self.outputs.get(inner):
            raise Refused("result_unverified", f"{path}: differs from the output that the trail recorded")
        return data


def finished_proposal(context: Context, held: LockedTrail, request_id: str, tools: frozenset[str]) -> FinishedProposal:
    """What the trail says about a finished proposal for one of these tools.

    Raises InvalidInput if the request is not one or did not succeed; Refused("result_unverified") if bytes
    differ.
    """
    history = held.index.history(request_id)
    if history is None:
        raise InvalidInput(f"{request_id}: not in the trail; threegate status lists them")
    approved, finished = Approved.of(history.approved), Finished.of(history.finished)
    if history.proposal_sha256 is None or approved is None:
        raise InvalidInput(f"{request_id}: was not made from a proposal")
    if finished is None or finished.status != "succeeded":
        raise InvalidInput(f"{request_id}: has not succeeded; only a successful run can be used")
    args = _pinned_args(context, approved)
    tool = args["proposal"]["tool"]
    if args["proposal"]["sha256"] != history.proposal_sha256:
        raise Refused("result_unverified", f"{request_id}: its args.json belongs to another proposal")
    if tool not in tools:
        raise InvalidInput(f"{request_id}: is a {tool}; this command is for {', '.join(sorted(tools))}")
    return FinishedProposal(
        request_id=request_id,
        tool=tool,
        proposal_sha256=history.proposal_sha256,
        approval_sha256=approved.approval_sha256 or "",
        args=args,
        outputs=finished.outputs or {},
        run_folder=context.workspace.run_folder(request_id),
    )


def _pinned_args(context: Context, approved: Approved) -> dict[str, Any]:
    """args.json, by the digest that was approved."""
    digest = (approved.inputs or {}).get("args.json")
    try:
        data = durable.read_regular(context.workspace.inputs / str(digest), max_bytes=4 * limits.PROPOSAL_BYTES)
    except OSError as error:
        raise Refused(
            "result_unverified", f"args.json: the pinned input cannot be read ({error.strerror or error})"
        ) from None
    if canonical.sha256_hex(data) != digest:
        raise Refused("result_unverified", "args.json: the pinned input does not have the bytes that were approved")
    value = json.loads(data)
    assert isinstance(value, dict)
    return value


def refuse_done(held: LockedTrail, request_id: str) -> None:
    """An act on a request is done only once. Raises Refused("replayed")."""
    history = held.index.history(request_id)
    if history is not None and history.applied is not None:
        raise Refused("replayed", f"{request_id}: was already applied (trail line {history.applied.seq})")
