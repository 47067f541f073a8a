"""The operators files that an operator signed for the workers: the act, what travels, and what a worker takes.

Invariant: a worker takes files only with an act that an operator of its current files signed, for its own workspace,
with a higher number than the last act that it took, and later than its own files were last changed. So an old act
brings nobody back, and neither the workspace's key nor the broker can change who approves.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threegate.approval.further_signatures import check_act
from threegate.approval.operators import Operators, load_operators
from threegate.approval.ssh_wire import MalformedError
from threegate.approval.statement import Act, SignedBytes
from threegate.core import limits
from threegate.core.errors import Refused

if TYPE_CHECKING:
    from threegate.core.workspace import Workspace

OPERATORS_ACT: Final = "threegate-operators/1"
_FILES: Final = ("operators", "revoked", "passkeys")


def signed_operators_file(workspace: Workspace) -> Path:
    """The last act that an operator signed over the operators files, for workers that take them."""
    return workspace.control / "operators.signed"


def about_operators(operators: Operators, number: int) -> dict[str, Any]:
    """What the operator signs."""
    digests = dict(zip((f"{name}_sha256" for name in _FILES), operators.digests, strict=True))
    return {"number": number, **digests}


def signed_files(signed: bytes, operators: Operators) -> dict[str, str | None]:
    """The parts of a note, or of a worker's own file: the act and the three files, in base64 (None: no such file)."""
    data = (signed, operators.data, operators.revoked, operators.passkeys)
    names = ("signed", *_FILES)
    return {
        name: None if item is None else base64.b64encode(item).decode() for name, item in zip(names, data, strict=True)
    }


def read_files(parts: Mapping[str, Any]) -> tuple[bytes, Operators]:
    """The act and the files of `signed_files`. Raises Refused; nothing is verified yet."""
    try:
        given = [parts[name] for name in ("signed", *_FILES)]
        signed, *files = (None if item is None else base64.b64decode(item, validate=True) for item in given)
    except (KeyError, TypeError, binascii.Error, ValueError):
        raise Refused("signature_file_malformed", "the operators files have missing or invalid parts") from None
    if signed is None:
        raise Refused("signature_file_malformed", "the operators files have no signed act")
    return signed, load_operators(*files)


def read_act(signed: bytes) -> Act:
    """The act, not verified. Raises Refused."""
    try:
        return Act.parse(SignedBytes.parse(signed).statement, OPERATORS_ACT)
    except MalformedError as error:
        raise Refused("signature_file_malformed", f"the signed act {error}") from None


def check_operators(
    signed: bytes,
    files: Operators,
    current: Operators,
    taken: tuple[int, int],
    *,
    workspace_id: str,
    changed: float,
    now: datetime,
) -> tuple[int, int]:
    """Epoch and number of the act, by which a worker with `current` operators may take these files. `taken`: those of
    the last one that it took, or zeros. `changed`: when its own files were last changed, in seconds since 1970.

    Raises Refused, Unavailable.
    """
    act = read_act(signed)
    act, _ = check_act(
        signed,
        OPERATORS_ACT,
        operators=current,
        recorded_operators=current.digests,
        workspace_id=workspace_id,
        epoch=act.epoch,  # a worker knows no epoch: it is part of the number that rises
        nonce_used=lambda nonce: False,
        now=now,
        max_age_sec=limits.CLUSTER_OPERATORS_SECONDS,
    )
    number = act.about.get("number")
    if type(number) is not int or dict(act.about) != about_operators(files, number):
        raise Refused("statement_mismatch", "the signature is about other operators files")
    if (act.epoch, number) <= taken:
        raise Refused("replayed", "these operators files are not newer than those that were taken before")
    if act.acted_utc.timestamp() <= changed:
        raise Refused("replayed", "the operators files of this worker were changed after this was signed")
    if files.problem is not None:
        raise Refused("operators_changed", files.problem)
    return act.epoch, number
