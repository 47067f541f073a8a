"""The inbox: every file in it is looked at once for as long as it stays as it is, and gets a verdict.

Invariant: nothing in the inbox is followed, waited for or run; whatever lies there, the scan ends, says one
line about it, and goes on. Nothing here changes the inbox.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.workspace import Workspace
from threegate.daemon.draft_findings import InputHashes, surrounding_findings, surrounding_fixes
from threegate.daemon.event_budget import EventBudget
from threegate.daemon.log import Log
from threegate.daemon.typecheck_queue import TypecheckQueue
from threegate.judgement.policy import Policy
from threegate.proposals.in_workspace import input_place
from threegate.request import read_request
from threegate.request.exposure import Exposure
from threegate.request.fixes import propose_fixes
from threegate.request.model import InputFile
from threegate.request.report import Finding, Fix, Report
from threegate.results import Verdict, write_verdict
from threegate.results.verdict import State
from threegate.trail import Trail

_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_Identity = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Seen:
    """A file that was looked at: what it was like, and what was found."""

    identity: _Identity
    inputs: tuple[tuple[str, str | None], ...] = ()


@dataclass
class Inbox:
    """Scans `inbox/` and `tool-exec/drafts/`."""

    workspace: Workspace
    trail: Trail
    log: Log
    propose: Callable[[Path, bytes, os.stat_result], bool] | None = None
    """Takes an AP-*.json that was read; False when it shall be looked at again."""
    on_draft: Callable[[str], None] = lambda file_name: None
    """Told of each valid draft that was looked at (for notices)."""
    beat: Callable[[], None] = lambda: None
    """Called for each file that was looked at: a long scan comes forward, it does not hang."""
    _seen: dict[str, Seen] = field(default_factory=dict)
    _hashes: InputHashes = field(init=False)
    _budget: EventBudget = field(default_factory=EventBudget)
    _closed: dict[str, str] = field(default_factory=dict)
    """Why a folder could not be read at the last scan; empty where it could."""
    types: TypecheckQueue = field(init=False)
    """Drafts that wait for the type checker."""

    def __post_init__(self) -> None:
        self._hashes = InputHashes(self.workspace.files)
        self.types = TypecheckQueue(self.workspace)

    def scan(self, policy: Policy) -> int:
        """Look at everything that is new or changed; returns how many files that were. Raises TrailError."""
        self._tell_suppressed()
        looked = 0
        present: set[str] = set()
        reports: list[tuple[Path, Report, os.stat_result]] = []
        for folder in (self.workspace.inbox, self.workspace.drafts):
            for entry in self._entries(folder):
                key = f"{folder.name}/{entry.name}"
                present.add(key)
                if len(present) > limits.INBOX_ENTRIES:
                    break
                try:
                    facts = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if not self._is_new(key, facts):
                    continue
                looked += 1
                self.beat()
                report = self._look(folder, entry.name, facts, policy)
                if report is not None:
                    reports.append((folder / entry.name, report, facts))
                    self._seen[key] = Seen(_identity(facts), self._input_states(folder, report))
                if len(reports) >= limits.VERDICT_BATCH:
                    self._tell(reports)
                    reports = []
        if reports:
            self._tell(reports)
        for key in self._seen.keys() - present:
            del self._seen[key]
        self._hashes.keep_only({name for seen in self._seen.values() for name, _ in seen.inputs})
        return looked

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """What lies in a folder. One that cannot be read is said once, until it can be or fails otherwise."""
        try:
            found, problem = _entries(folder), ""
        except OSError as error:
            found, problem = [], error.strerror or str(error)
        if problem != self._closed.get(folder.name, ""):
            mend = "the daemon's user must be able to read it (chown, chmod g+rx)"
            what = f"{problem}; {mend}" if problem else "can be read again"
            self.log.say("unreadable" if problem else "readable", file=f"{folder.name}/", what=what)
        self._closed[folder.name] = problem
        return found

    def forget(self, file_name: str) -> None:
        """Look at a draft again at the next scan."""
        for folder in ("inbox", "drafts"):
            self._seen.pop(f"{folder}/{file_name}", None)

    def _is_new(self, key: str, facts: os.stat_result) -> bool:
        seen = self._seen.get(key)
        if seen is None or seen.identity != _identity(facts):
            return True
        return any(self._hashes.sha256(name) != digest for name, digest in seen.inputs)

    def _input_states(self, folder: Path, report: Report) -> tuple[tuple[str, str | None], ...]:
        if report.request is None:
            return ()
        places = [self._place(folder, item) for item in report.request.inputs]
        return tuple((place, self._hashes.sha256(place)) for place in places)

    def _place(self, folder: Path, item: InputFile) -> str:
        """Under which name the hashes know an input: bare in inbox/files/, the whole path for proposals' drafts."""
        if folder == self.workspace.inbox:
            return item.name
        return str(input_place(self.workspace, folder, item.name, item.sha256))

    def _look(self, folder: Path, name: str, facts: os.stat_result, policy: Policy) -> Report | None:
        """Read and check one entry. None: nothing for a verdict (said in the log)."""
        key = f"{folder.name}/{name}"
        wanted = (name.startswith("TR-") and name.endswith(".md")) or (
            name.startswith("AP-") and name.endswith(".json") and folder == self.workspace.inbox
        )
        problem = _unreadable(name, facts, wanted)
        data = b""
        if problem is None:
            try:
                maximum = limits.REQUEST_BYTES if name.startswith("TR-") else limits.PROPOSAL_BYTES
                data = durable.read_regular(folder / name, max_bytes=maximum)
            except FileNotFoundError:
                return None
            except OSError as error:
                problem = error.strerror or str(error)
                if "changed while" in str(error):
                    self.log.say("changing", file=name, what="is being written; looked at again")
                    return None
        if problem is not None:
            self._seen[key] = Seen(_identity(facts))
            self._quarantine(name, facts, problem)
            return None
        if name.startswith("AP-"):
            done = self.propose is None or self.propose(folder / name, data, facts)
            if done:
                self._seen[key] = Seen(_identity(facts))
            return None
        now, settings = datetime.now(UTC), policy.settings.request
        report = read_request(data, path=name, settings=settings, now=now, stage="draft")
        return replace(report, fixes=propose_fixes(data, report, settings=settings, now=now))

    def _quarantine(self, name: str, facts: os.stat_result, problem: str) -> None:
        """Something that is no readable request: one line, one event, nothing else."""
        self.log.say("unreadable", file=name, what=problem)
        if self._budget.take(facts.st_uid):
            self._observed(name, facts, problem)
        if _PLAIN_NAME.fullmatch(name):
            finding = Finding("TG101", "error", 1, 1, problem, "put one regular file there, by rename")
            write_verdict(self.workspace, _verdict(name, "", None, "invalid", "unreadable", [finding]))

    def _observed(self, name: str, facts: os.stat_result, problem: str) -> None:
        with self.trail.locked() as held:
            held.append(
                "observed",
                actor="daemon",
                data={"file": name, "reason": "unreadable", "what": problem, "owner_uid": facts.st_uid},
            )
            held.sync()

    def _tell_suppressed(self) -> None:
        """One event for all that the budget kept out of the trail in the minute that has passed."""
        for owner, count in self._budget.suppressed().items():
            with self.trail.locked() as held:
                held.append(
                    "observed",
                    actor="daemon",
                    data={"reason": "too_many_events", "owner_uid": owner, "suppressed": count},
                )

    def _tell(self, reports: Iterable[tuple[Path, Report, os.stat_result]]) -> None:
        """Announce what was found, then write the verdicts."""
        verdicts = []
        with self.trail.locked() as held:
            for path, report, facts in reports:
                findings, fixes = list(report.findings), report.fixes
                if report.request is not None:
                    place = partial(self._place, path.parent)
                    around = surrounding_findings(report.request, held.index, self._hashes, place=place)
                    findings += around
                    fixes += surrounding_fixes(report.request, around, held.index, self._hashes, place=place)
                valid = all(finding.severity != "error" for finding in findings)
                rules = sorted({finding.rule for finding in findings})
                if self._budget.take(facts.st_uid):
                    held.append(
                        "validated",
                        request_id=report.request.request_id if report.request else None,
                        actor="daemon",
                        data={
                            "file": path.name,
                            "sha256": report.sha256,
                            "valid": valid,
                            "rules": rules,
                            **({"owner_uid": facts.st_uid} if path.parent == self.workspace.inbox else {}),
                            "from": path.parent.name,
                        },
                    )
                verdict = _verdict(
                    path.name,
                    report.sha256,
                    report.request_id,
                    "draft" if valid else "invalid",
                    None if valid else next(f.rule for f in findings if f.severity == "error"),
                    findings,
                    fixes,
                    report.exposure,
                )
                verdicts.append((verdict, report.request))
            held.sync()
        for verdict, request in verdicts:
            write_verdict(self.workspace, verdict)
            self.log.say("verdict", file=verdict.file, what=verdict.state)
            if request is not None:
                self.types.add(verdict, request)
            if verdict.state == "draft":
                self.on_draft(verdict.file)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What may be a request, by name. Raises OSError."""
    with os.scandir(folder) as found:
        names = [
            entry
            for entry in found
            if not entry.name.startswith(".")
            and not entry.name.endswith((".proposal.json", ".manifest.json"))
        ]
    return sorted(
        (entry for entry in names if not (entry.name == "files" and folder.name in ("inbox", "drafts"))),
        key=lambda entry: entry.name,
    )


def _identity(facts: os.stat_result) -> _Identity:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def _unreadable(name: str, facts: os.stat_result, wanted: bool) -> str | None:
    if not _PLAIN_NAME.fullmatch(name):
        return "its name has characters outside of A-Z a-z 0-9 . _ -"
    if not stat.S_ISREG(facts.st_mode):
        kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a FIFO"))
        kind = next((word for test, word in kinds if test(facts.st_mode)), "a device or socket")
        return f"is {kind}, not a regular file"
    if facts.st_nlink != 1:
        return "has more than one hard link"
    if not wanted:
        return "is no TR-*.md and no AP-*.json"
    return None


def _verdict(
    name: str,
    sha256: str,
    request_id: str | None,
    state: State,
    reason: str | None,
    findings: list[Finding],
    fixes: tuple[Fix, ...] = (),
    exposure: Exposure | None = None,
) -> Verdict:
    return Verdict(
        file=name,
        sha256=sha256,
        request_id=request_id,
        stage="draft",
        valid=state == "draft",
        state=state,
        reason=reason,
        findings=tuple(finding.to_json() for finding in findings),
        fixes=tuple(fix.to_json() for fix in fixes),
        exposure=exposure,
    )
