"""The daemon's policy: current settings and contracts, applied completely or not at all.

Invariant: `policy` is always one value that was read completely and is valid; it is replaced only after the
trail has `settings_changed`. While the files on disk are not valid, the old policy stays and `problem` says
why: the daemon starts nothing under a policy other than the one on disk. A changed file is read once it has
been unchanged for a short time, so that an editor's half-written file is not read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from threegate.core import canonical, limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.judgement.policy import Policy, differing, flat, load_policy
from threegate.runners.backend import policy_facts
from threegate.trail.payloads import SettingsChanged
from threegate.trail.trail import LockedTrail, Trail

_STILL_SECONDS = 0.25
_NAMES = 64
"""The most names of changed settings and contracts in an event; the rest is counted."""


class PolicyReload:
    """Reads the policy again when one of its files was touched, or on request."""

    def __init__(self, workspace: Workspace, trail: Trail) -> None:
        """Read it for the first time. Raises InvalidInput."""
        self._workspace = workspace
        self._trail = trail
        self._seen = _touched(workspace)
        self.policy = load_policy(workspace, facts=policy_facts())
        self.problem: str | None = None
        """Why the files on disk cannot be applied, in one line; None if they are valid."""
        self.is_changing = False
        """Whether a file was touched so recently that it is not read yet: nothing is started meanwhile."""
        self._touched_at = 0.0
        self._latest = self._seen

    def look(self, *, at_once: bool = False) -> tuple[str, ...] | None:
        """Apply changes: return the changed names, or None if nothing changed or the files are not valid.

        `at_once`: read now, even if no file was touched (SIGHUP). Raises TrailError, Unavailable if the
        change could not be recorded; then the old policy stays.
        """
        # Before the files are read: what changes in between is found by the next look.
        seen = _touched(self._workspace)
        if not at_once and self._changed_just_now(seen):
            return None
        if seen == self._seen and not at_once and self.problem is None:
            return None
        try:
            policy = load_policy(self._workspace, facts=policy_facts())
            # Another id is another workspace: its trail, its key and its approvals are not these.
            if policy.settings.workspace != self.policy.settings.workspace:
                raise InvalidInput(
                    f"{self._workspace.settings_file}: workspace.id is no longer {self.policy.settings.workspace.id}; "
                    "restore it"
                )
        except InvalidInput as error:
            self.problem = str(error)
            return None
        changed = tuple(changes(self.policy, policy))
        if changed:
            with self._trail.locked() as held:
                _announce(held, self.policy, policy, changed, "SIGHUP" if at_once else "the files changed")
        self._seen, self.policy, self.problem = seen, policy, None
        return changed or None

    def _changed_just_now(self, seen: list[tuple[str, int, int, int]]) -> bool:
        now = time.monotonic()
        if seen != self._latest:
            self._latest, self._touched_at, self.is_changing = seen, now, True
        if now - self._touched_at >= _STILL_SECONDS:
            self.is_changing = False
        return self.is_changing

    def record_contracts(self) -> None:
        """Record the contracts that this daemon starts with, unless the trail already names them. Raises
        TrailError, Unavailable.
        """
        with self._trail.locked() as held:
            recorded, digests = held.index.contracts_sha256, self.policy.contract_digests
            if recorded != canonical.digest(dict(digests)) and (digests or recorded is not None):
                changed = tuple(f"contracts/{name}" for name in digests) or ("contracts/",)
                _announce(held, None, self.policy, changed, "the daemon started")


def _announce(held: LockedTrail, old: Policy | None, new: Policy, changed: tuple[str, ...], reason: str) -> None:
    digests = dict(new.contract_digests)
    payload = SettingsChanged(
        reason=reason,
        changed=changed[:_NAMES],
        count=len(changed),
        policy_sha256=new.digest,
        before_sha256=None if old is None else old.digest,
        contracts_sha256=canonical.digest(digests),
        contracts=digests if len(digests) <= limits.TRAIL_LIST_ITEMS else None,
    )
    held.append(payload, actor="daemon")
    held.sync()


def contracts_problem(policy: Policy) -> str | None:
    """Why every request is refused, in one line; None if the contracts compile.

    It names the most likely root error: an undefined name is usually a consequence of another error.
    """
    errors = [item for item in policy.contracts.diagnostics if item.severity == "error"]
    if not errors:
        return None
    wrong = min(errors, key=lambda item: item.code in ("UNKNOWN_TOOL_REFERENCE", "MISSING_FIELD"))
    return (
        f"{wrong.file}:{wrong.line}:{wrong.column}: {wrong.message}; every request is refused until this is fixed, "
        "see: threegate contracts check"
    )


def changes(old: Policy, new: Policy) -> Iterator[str]:
    """Names of settings and contract files that differ, never their values; `environment` for anything else
    that differs.
    """
    found = False
    for name in differing(flat(old.settings.to_json()), flat(new.settings.to_json())):
        found = True
        yield name
    for name in differing(old.contract_digests, new.contract_digests):
        found = True
        yield f"contracts/{name}"
    if not found and old.standing != new.standing:
        yield "environment"


def _touched(workspace: Workspace) -> list[tuple[str, int, int, int]]:
    """Names, inodes and times of all files of a policy: a change to any of them is visible here."""
    found = []
    with suppress(FileNotFoundError):
        facts = os.lstat(workspace.settings_file)
        found.append((str(workspace.settings_file), facts.st_ino, facts.st_size, facts.st_ctime_ns))
    with suppress(FileNotFoundError):
        found.append((str(workspace.contracts), os.lstat(workspace.contracts).st_ino, 0, 0))
    folders = [str(workspace.contracts)]
    while folders:
        # A folder that cannot be listed contributes no names: reading it reports the error.
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                # Written by the program itself.
                if entry.name == ".state":
                    continue
                with suppress(FileNotFoundError):
                    facts = entry.stat(follow_symlinks=False)
                    found.append((entry.path, facts.st_ino, facts.st_size, facts.st_ctime_ns))
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return sorted(found)
