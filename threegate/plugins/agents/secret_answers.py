"""What a person decided about what looks like a secret in their projects: `tool-exec/findings.json`.

Invariant: an answer counts for one finding, by its digest, in one project, by its real path; another value, or the same
one elsewhere, is asked about again. The trail's event with the digest of the file is on disk before the file changes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.plugins.agents.kinds import FindingsDecided
from threegate.plugins.changes.make import utf_8
from threegate.trail import moves
from threegate.trail.trail import Trail

_KEY_BYTES: Final = 32
_MODE: Final = 0o600
_AT_ONCE: Final = 50
"""Answers in one event: fewer than a list in the trail may have."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers for one project."""

    root: str
    key: bytes
    """What digests of findings are keyed with."""
    hides: Mapping[str, bool] = field(default_factory=dict)
    """digest of a finding → whether it is hidden"""

    @classmethod
    def read(cls, workspace: Workspace, root: Path) -> Answers:
        """What was decided for the project at a real path. Raises InvalidInput."""
        key, projects = _read(workspace)
        name = utf_8(str(root))  # a name that is not UTF-8 would make the file one that nobody can read
        return cls(name, key, {digest: said == "hide" for digest, said in projects.get(name, {}).items()})


def keep_answers(workspace: Workspace, answers: Answers, decided: Mapping[str, bool], *, actor: str) -> Answers:
    """Record what a person decided, digest → whether it is hidden. Raises InvalidInput, TrailError, OSError."""
    with Trail(workspace).locked() as trail:
        key, projects = _read(workspace)
        if projects and key != answers.key:  # digests of another key are of no finding here
            raise InvalidInput(f"{workspace.findings_file}: changed meanwhile; start again")
        mine = projects.setdefault(answers.root, {})
        mine |= {digest: "hide" if hides else "show" for digest, hides in decided.items()}
        data = _render(answers.key, projects)
        if len(data) > limits.FINDINGS_FILE_BYTES:
            raise InvalidInput(
                f"{workspace.findings_file}: more than {limits.FINDINGS_FILE_BYTES} bytes; decide about fewer files"
            )
        listed = sorted(decided)
        for begin in range(0, len(listed), _AT_ONCE):
            some = listed[begin : begin + _AT_ONCE]
            event = FindingsDecided(
                root=answers.root,
                hidden=tuple(digest for digest in some if decided[digest]) or None,
                shown=tuple(digest for digest in some if not decided[digest]) or None,
                files={"findings.json": canonical.sha256_hex(data)},
            )
            moves.announce(trail, event, actor=actor)
        durable.overwrite(workspace.findings_file, data, _MODE)
    return Answers(answers.root, answers.key, {**answers.hides, **decided})


def _read(workspace: Workspace) -> tuple[bytes, dict[str, dict[str, str]]]:
    """The key, and the answers by project; a new key where there is no file yet. Raises InvalidInput."""
    path = workspace.findings_file
    try:
        data = durable.read_regular(path, max_bytes=limits.FINDINGS_FILE_BYTES)
        value = canonical.loads_strict(data, max_bytes=limits.FINDINGS_FILE_BYTES)
        key, projects = bytes.fromhex(value["key"]), value["projects"]
        # Only the very bytes that this program writes: a file that was edited has answers that nobody gave.
        if _render(key, projects) != data or len(key) != _KEY_BYTES:
            raise ValueError("changed by hand")
        if any(said not in ("hide", "show") for answers in projects.values() for said in answers.values()):
            raise ValueError("an answer that is neither hide nor show")
    except FileNotFoundError:
        return secrets.token_bytes(_KEY_BYTES), {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"{path}: cannot be read ({error}); restore it, or remove it to be asked about every finding again"
        ) from None
    return key, projects


def _render(key: bytes, projects: Mapping[str, Mapping[str, str]]) -> bytes:
    return json.dumps({"key": key.hex(), "projects": projects}, indent=1, sort_keys=True).encode() + b"\n"
