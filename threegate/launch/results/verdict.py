"""Verdict files: what is known about a request file now, for CORE and the operator.

Invariant: ``verdicts/<file name>.json`` is derived, may be replaced at any time and is never read as state;
it is written only if its content changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from threegate.core import access_lists, canonical, durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.secretscan.scan import has_secret, mask_json
from threegate.core.workspace import AgentRun, RequesterFolders
from threegate.request.exposure import EXPOSURE_KEYS, Exposure, exposure_json

if TYPE_CHECKING:
    from threegate.judgement.judge import Judgement

VERDICT_SCHEMA: Final = "threegate.verdict/1"
State = Literal["draft", "invalid", "approved", "waiting", "running", "finished", "refused"]
STATES: Final = get_args(State)
_KEYS = [
    *("schema", "file", "sha256", "request_id", "stage", "valid", "state", "reason"),
    *(*EXPOSURE_KEYS, "findings", "judgement", "fixes", "updated_utc"),
]
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What validation and judgement say about one file. `updated_utc` is set when it is written."""

    file: str
    sha256: str
    request_id: str | None
    stage: str
    valid: bool
    state: State
    reason: str | None = None
    findings: tuple[Mapping[str, Any], ...] = ()
    """`Finding.to_json()` of each finding; never a secret."""
    judgement: Mapping[str, Any] | None = None
    """`{route, blockers, contract}` or None when it was not judged yet."""
    fixes: tuple[Mapping[str, Any], ...] = ()
    """`Fix.to_json()` of what answers findings mechanically; applies to the bytes of `sha256`."""
    exposure: Exposure | None = None
    """Opacity and reach of the request; None where there is none."""
    updated_utc: datetime | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """The verdict with the keys of issue 2, in their order."""
        moment = (self.updated_utc or datetime.now(UTC)).astimezone(UTC)
        return {
            "schema": VERDICT_SCHEMA,
            "file": self.file,
            "sha256": self.sha256,
            "request_id": self.request_id,
            "stage": self.stage,
            "valid": self.valid,
            "state": self.state,
            "reason": self.reason,
            **exposure_json(self.exposure),
            "findings": [dict(item) for item in self.findings],
            "judgement": None if self.judgement is None else dict(self.judgement),
            "fixes": [dict(item) for item in self.fixes],
            "updated_utc": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        }


def verdict_path(requester_folders: RequesterFolders, file_name: str) -> Path:
    """The path of a request file's verdict. A name that is not plain is replaced by its digest."""
    plain = file_name
    if not _PLAIN_NAME.fullmatch(file_name) or file_name.startswith(".") or has_secret(file_name):
        plain = "name-" + canonical.sha256_hex(file_name.encode("utf-8", "surrogateescape"))
    return requester_folders.verdicts / f"{plain}.json"


def words_path(requester_folders: RequesterFolders, sha256: str) -> Path:
    """The path of the words with which changes were asked for; the reason in the verdict begins with its name."""
    return requester_folders.verdicts / f"words-{sha256}.md"


def write_verdict(requester_folders: RequesterFolders, verdict: Verdict) -> bool:
    """Write the verdict where it says something new; returns whether it did. Raises OSError."""
    try:
        old = durable.read_regular(verdict_path(requester_folders, verdict.file), max_bytes=limits.VERDICT_BYTES)
    except OSError:
        old = b""
    if _without_moment(old) == _without_moment(_rendered(verdict)):
        return False
    put_verdict(requester_folders, verdict)
    return True


def put_verdict(requester_folders: RequesterFolders, verdict: Verdict) -> None:
    """Write a verdict whose content is known to have changed; there is no reader for a run whose folder is
    gone. A power cut may bring back the verdict before, as a crash just before this would leave it. Raises OSError.
    """
    if isinstance(requester_folders, AgentRun) and not requester_folders.verdicts.is_dir():
        return
    # The folder of a run is the operator's alone, but its jail may have another account.
    mode = 0o644 if isinstance(requester_folders, AgentRun) else access_lists.file_mode(requester_folders.verdicts)
    durable.overwrite(verdict_path(requester_folders, verdict.file), _rendered(verdict), mode, settled=False)


def read_verdict(requester_folders: RequesterFolders, file_name: str) -> Verdict | None:
    """The verdict of a request file, or None if there is none. Raises InvalidInput if it is not a verdict."""
    path = verdict_path(requester_folders, file_name)
    try:
        data = durable.read_regular(path, max_bytes=limits.VERDICT_BYTES)
        value = canonical.loads_strict(data, max_bytes=limits.VERDICT_BYTES)
        if not isinstance(value, dict) or list(value) != _KEYS or value["schema"] != VERDICT_SCHEMA:
            raise InvalidInput(f"{path}: is not a verdict; remove it, and it is written again")
        if value["state"] not in STATES:
            raise InvalidInput(f"{path}: names an unknown state; remove it, and it is written again")
        return Verdict(
            file=value["file"],
            sha256=value["sha256"],
            request_id=value["request_id"],
            stage=value["stage"],
            valid=value["valid"],
            state=value["state"],
            reason=value["reason"],
            findings=tuple(value["findings"]),
            judgement=value["judgement"],
            fixes=tuple(value["fixes"]),
            exposure=None
            if value["opacity"] is None
            else Exposure(value["opacity"], value["opacity_reason"], tuple(value["scripts"]), tuple(value["reach"])),
            updated_utc=datetime.fromisoformat(value["updated_utc"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, canonical.StrictJSONError, ValueError, TypeError) as error:
        raise InvalidInput(f"{path}: cannot be read ({error}); remove it, and it is written again") from None


def write_status(
    requester_folders: RequesterFolders,
    file_name: str,
    state: State,
    reason: str | None,
    judgement: Judgement | None = None,
) -> None:
    """Update the verdict of a request that waits, runs or has ended; the findings of validation stay in it. Raises
    OSError.
    """
    try:
        old = read_verdict(requester_folders, file_name)
    except InvalidInput:
        old = None  # derived and broken: recreated
    assessment = judgement.assessment.to_json() if judgement and judgement.assessment else None
    known = old or Verdict(file=file_name, sha256="", request_id=None, stage="approved", valid=True, state=state)
    new = replace(known, state=state, reason=reason, stage="approved", judgement=assessment or known.judgement)
    if new != old:
        put_verdict(requester_folders, new)


def _rendered(verdict: Verdict) -> bytes:
    value = verdict.to_json()
    name = verdict.file.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    value |= mask_json({"file": name, "reason": verdict.reason})
    return json.dumps(value, indent=2, ensure_ascii=True).encode() + b"\n"


def _without_moment(data: bytes) -> bytes:
    return re.sub(rb'\n  "updated_utc": "[^"\n]*"\n', b"\n", data)
