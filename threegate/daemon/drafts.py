"""The inbox: every file in it is checked once until it changes, and gets a verdict.

Invariant: nothing in the inbox is followed, waited for or run; whatever is there, the scan returns to the loop in time,
reports it in one line, and continues. An error with a file is that file's finding. Nothing here changes the inbox.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from threegate.core import limits
from threegate.core.errors import DiskFull, TrailError, Unavailable, is_disk_full, place_of
from threegate.core.file_names import README, is_request_name
from threegate.core.held_folder import HeldFolder
from threegate.core.workspace import Workspace
from threegate.daemon.event_budget import EventBudget
from threegate.daemon.input_hashes import PENDING, InputHashes
from threegate.daemon.log import Log
from threegate.daemon.plugin_work import OnDraft
from threegate.daemon.typecheck_queue import TypecheckQueue
from threegate.judgement.policy import Policy
from threegate.launch.approved_file import identity_of
from threegate.launch.results.verdict import State, Verdict, write_verdict
from threegate.request.exposure import Exposure, secret_name
from threegate.request.fixes import propose_fixes
from threegate.request.model import Request
from threegate.request.reader import read_request
from threegate.request.report import Finding, Fix, Report
from threegate.review.draft_sources import TakeFile
from threegate.review.fitness import (
    SandboxFacts,
    fitness,
    input_findings,
    machine_facts,
    placed_inputs,
    sandbox_facts,
    trail_findings,
    workspace_fixes,
)
from threegate.runners.backend import RunNeed
from threegate.trail.index import KnownRun
from threegate.trail.payloads import Observed, Rejected, Validated
from threegate.trail.payloads.payload import Owner, owner_fields
from threegate.trail.trail import LockedTrail, Trail

_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_OUR_DISK: Final = frozenset((errno.EIO, errno.EROFS))
"""Errors that no single file caused: the daemon stops, as when the trail cannot be written. A full disk is none of
them, because a requester can cause it: then the file is checked again later.
"""


class _Seen(NamedTuple):
    """A file that was checked: its identity, and what its inputs were."""

    identity: tuple[int, ...]
    inputs: tuple[tuple[Path, str | None], ...] = ()
    need: RunNeed | None = None
    """Of a request."""
    sandbox: SandboxFacts | None = None
    """What was known of such runs."""
    valid: bool | None = None
    """What its last verdict said; None: there was none."""


class _Looked(NamedTuple):
    """A request that was read: its report with what was found of its inputs and the machine, and its file's facts."""

    path: Path
    run: KnownRun | None
    report: Report
    facts: os.stat_result
    before: bool | None
    """Whether it was valid, if file and inputs are what they were and only what is known of the machine has changed."""


class _Owed(NamedTuple):
    """A verdict on a draft that is to be written."""

    path: Path
    facts: os.stat_result
    verdict: Verdict
    request: Request | None
    asker: Owner | None
    run: KnownRun | None
    again: bool = False
    """Whether it said the same before, with other findings about the machine: nobody is notified again."""


@dataclass
class Inbox:
    """Scans `inbox/`, `tool-exec/drafts/` and the inboxes of agents' runs, for a slice of time in each turn
    of the daemon.
    """

    workspace: Workspace
    trail: Trail
    log: Log
    takers: Mapping[str, tuple[str, TakeFile]] = field(default_factory=dict)
    """What plugins take besides requests, by the plugin's name: the names of such files, as a pattern, and what takes
    them.
    """
    on_draft: OnDraft = lambda *draft: None
    """Called with each valid draft that was checked."""
    on_valid: Callable[[Path], None] = lambda path: None
    """Called with each draft that was found valid and was not made from a proposal."""
    beat: Callable[[], None] = lambda: None
    """Called for each file that was checked, to show that a long scan makes progress."""
    wake: Callable[[], None] = lambda: None
    """Called when an input's digest is known."""
    once: bool = False
    """Bounded waiting: a file that keeps changing gets its finding after ONCE_HASHES hashes and ONCE_LOOKS checks."""
    valid: set[Path] = field(default_factory=set)
    """The valid drafts in inboxes."""
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _looks: Counter[str] = field(default_factory=Counter)
    """How often each file was checked, for bounded waiting."""
    _hashes: InputHashes = field(init=False)
    _budget: EventBudget = field(default_factory=EventBudget)
    _closed: dict[str, str] = field(default_factory=dict)
    """Why a folder could not be read at the last scan; empty if it could."""
    live: set[Path] = field(default_factory=set)
    """The inboxes of the runs that have not ended, at the last scan."""
    _quiet: dict[Path, int] = field(default_factory=dict)
    """Inboxes of ended runs that were empty when they last changed, and when that was."""
    _pass: Iterator[tuple[HeldFolder, KnownRun | None, str]] | None = None
    """Where the scan of the folders continues in the next turn; None between two scans."""
    _present: set[str] = field(default_factory=set)
    _awaited: set[Path] = field(default_factory=set)
    """The inputs of drafts in this scan whose digests are not all known yet."""
    full: Exception | None = None
    """What found no space on the disk in the last scan; those files are checked again."""
    _owed: dict[Path, _Owed] = field(default_factory=dict)
    """Verdicts that the disk had no space for, by their file."""
    _suppressed: dict[Owner, int] = field(default_factory=dict)
    """What the budget kept out of the trail, as far as that is not recorded yet."""
    types: TypecheckQueue = field(init=False)
    """Drafts waiting for the type checker."""
    _sandboxes: dict[RunNeed, tuple[float, SandboxFacts]] = field(default_factory=dict)
    """What is known of runs with each need, and since when."""

    def __post_init__(self) -> None:
        most = limits.ONCE_HASHES if self.once else inf
        self._hashes = InputHashes(self.workspace, lambda: self.wake(), most=most)
        self.types = TypecheckQueue()

    def close(self) -> None:
        """Stop the threads beside the loop."""
        self._hashes.close()

    @property
    def in_between(self) -> bool:
        """Whether a scan of the folders has begun and continues in the next turn."""
        return self._pass is not None

    @property
    def unfinished(self) -> bool:
        """Whether there is more to do without a change: the scan continues, or a draft waits for hashes."""
        return self.in_between or bool(self._awaited)

    def scan(self, policy: Policy, seconds: float = limits.INBOX_SLICE_SECONDS) -> int:
        """Check new and changed files for at most `seconds`, from where the last turn stopped.

        Returns how many files were checked. An error with one file is that file's finding, and the others are
        still checked. What a full disk prevents is done later (`full`). Raises TrailError, Unavailable, and OSError if
        our own files cannot be written.
        """
        until = time.monotonic() + seconds
        self.full = None
        self._write_owed()
        self._record_suppressed()
        if self._pass is None:
            self._pass, self._present, self._awaited = self._walk(), set(), set()
        looked = 0
        reports: list[_Looked] = []
        for folder, run, name in self._pass:
            found = self._step(folder, run, name, policy)
            if found is not None:
                looked += 1
                if self.once:
                    self._looks[f"{folder.path}/{name}"] += 1
            if isinstance(found, _Looked):
                reports.append(found)
                if len(reports) >= limits.VERDICT_BATCH:
                    self._record(reports)
                    reports = []
            if time.monotonic() >= until:
                break
        else:
            self._pass = None
            for key in self._seen.keys() - self._present:
                del self._seen[key]
            self.valid = {path for path in self.valid if str(path) in self._present}
            # A waiting draft's inputs must stay known until all are hashed: otherwise it would wait for ever.
            named = {place for seen in self._seen.values() for place, _ in seen.inputs}
            self._hashes.keep_only(named | self._awaited)
        if reports:
            self._record(reports)
        return looked

    def _walk(self) -> Iterator[tuple[HeldFolder, KnownRun | None, str]]:
        """Each name in all folders; a folder keeps the descriptor from the start of its scan."""
        for folder, run in self._folders():
            try:
                with self.workspace.hold(folder) as held:
                    most = limits.INBOX_ENTRIES if run is None else limits.AGENT_INBOX_ENTRIES
                    with held.entries() as entries:
                        # At most so many: one folder with a million names must not keep the others from their turn.
                        names = sorted(islice(filter(_may_be_read, (entry.name for entry in entries)), most))
                    self._readable(folder, "")
                    if run is not None and run.ended and not names:
                        self._quiet[folder] = os.fstat(held.fileno()).st_mtime_ns
                    for name in names:
                        yield held, run, name
            except OSError as error:
                if run is None or not run.ended:
                    self._readable(folder, error.strerror or str(error))

    def _folders(self) -> list[tuple[Path, KnownRun | None]]:
        """The folders to scan: those of the workspace, and of each run in the trail."""
        own: list[tuple[Path, KnownRun | None]] = [(self.workspace.inbox, None), (self.workspace.drafts, None)]
        if not self.workspace.agents.is_dir():
            return own
        with self.trail.locked() as held:
            runs = [(self.workspace.agent_run(run.run).inbox, run) for run in held.index.runs]
        self.live = {inbox for inbox, run in runs if not run.ended}
        return own + [(inbox, run) for inbox, run in runs if not run.ended or self._changed(inbox)]

    def _changed(self, inbox: Path) -> bool:
        """Whether an inbox of an ended run may hold drafts."""
        try:
            return inbox.stat().st_mtime_ns != self._quiet.get(inbox)
        except OSError:
            return False

    def _step(self, folder: HeldFolder, run: KnownRun | None, name: str, policy: Policy) -> _Looked | bool | None:
        """Check one file: None if there was nothing to do, True if it is done, or its finding."""
        key = f"{folder.path}/{name}"
        self._present.add(key)
        try:
            facts = folder.stat(name)
        except OSError:
            return None
        if self._looks[key] >= limits.ONCE_LOOKS or not self._is_new(key, facts, policy):
            return None
        self.beat()
        try:
            return self._look(folder, run, name, facts, policy)
        except Exception as error:
            # A requester can fill the disk, so that is never a reason to stop.
            if is_disk_full(error):
                self._later(key, error)
                return None
            if isinstance(error, TrailError | Unavailable):
                raise
            if isinstance(error, OSError) and error.errno in _OUR_DISK:
                raise
            self._seen[key] = _Seen(identity_of(facts))
            problem = f"internal error: {place_of(error)}; please report it"
            try:
                self._quarantine(folder.path / name, facts, _owner(run, facts), problem)
            except DiskFull as failed:
                self._later(key, failed)
            return True

    def _later(self, key: str, error: Exception) -> None:
        """The disk is full: the file is checked again in the next scan."""
        self._seen.pop(key, None)
        self.full = error

    def _readable(self, folder: Path, problem: str) -> None:
        """Report an unreadable folder once, until it becomes readable or fails differently."""
        name = str(folder.relative_to(self.workspace.root)).removeprefix("tool-exec/")
        if problem != self._closed.get(name, ""):
            fix = "the daemon's user must be able to read it (chown, chmod g+rx)"
            what = f"{problem}; {fix}" if problem else "readable again"
            self.log.say("unreadable" if problem else "readable", file=f"{name}/", what=what)
        self._closed[name] = problem

    def _is_new(self, key: str, facts: os.stat_result, policy: Policy) -> bool:
        seen = self._seen.get(key)
        if seen is None or seen.identity != identity_of(facts):
            return True
        now = [(self._hashes.sha256(place), digest) for place, digest in seen.inputs]
        if any(found is PENDING for found, _ in now):
            self._awaited.update(place for place, _ in seen.inputs)
            return False
        if seen.need is not None and self._sandbox(policy, seen.need) != seen.sandbox:
            return True
        return any(found != digest for found, digest in now)

    def _sandbox(self, policy: Policy, need: RunNeed) -> SandboxFacts:
        """What is known of such runs, at most SANDBOX_KNOWN_SECONDS old."""
        now = time.monotonic()
        known = self._sandboxes.get(need)
        if known is None or now - known[0] >= limits.SANDBOX_KNOWN_SECONDS:
            if len(self._sandboxes) >= limits.VERDICT_BATCH:
                self._sandboxes.clear()
            known = self._sandboxes[need] = (now, sandbox_facts(self.workspace, policy.settings, need))
        return known[1]

    def _look(
        self, folder: HeldFolder, run: KnownRun | None, name: str, facts: os.stat_result, policy: Policy
    ) -> _Looked | bool | None:
        """Read and check one file; None if it must be checked again."""
        key = f"{folder.path}/{name}"
        taken: dict[str, TakeFile] = {}
        if folder.path != self.workspace.drafts:  # what the daemon drafted itself is a request
            off = policy.settings.plugins.off
            taken = {pattern: take for plugin, (pattern, take) in self.takers.items() if plugin not in off}
        take = next((take for pattern, take in taken.items() if fnmatchcase(name, pattern)), None)
        problem = _unreadable(name, facts, None if take or is_request_name(name) else tuple(taken))
        if take is not None and not self._budget.has_room(_owner(run, facts)):
            return None
        data = b""
        if problem is None:
            try:
                maximum = limits.REQUEST_BYTES if name.startswith("TR-") else limits.PROPOSAL_BYTES
                data, facts = folder.read(name, max_bytes=maximum)
            except FileNotFoundError:
                return None
            except OSError as error:
                problem = error.strerror or str(error)
                if "changed while" in str(error):
                    self.log.say("changing", file=name, what="is being written; will be checked again")
                    return None
        if problem is not None:
            self._seen[key] = _Seen(identity_of(facts))
            self._quarantine(folder.path / name, facts, _owner(run, facts), problem)
            return True
        if take is not None:
            self._seen[key] = _Seen(identity_of(facts))
            self._budget.take(_owner(run, facts))
            take(folder.path / name, data, _owner(run, facts))
            return True
        now, settings = datetime.now(UTC), policy.settings.request
        report = read_request(data, path=name, settings=settings, now=now, stage="draft")
        inputs = report.request.inputs if report.request is not None else ()
        found = {item.name: self.workspace.input_place(folder.path, item.name, item.sha256) for item in inputs}
        hashed = {item: self._hashes.sha256(place) for item, place in found.items()}
        digests = {item: digest for item, digest in hashed.items() if digest is not PENDING}
        if len(digests) < len(hashed):
            self._awaited.update(found.values())
            return None
        places = [(place, digests[item]) for item, place in found.items()]
        report = replace(report, fixes=propose_fixes(data, report, settings=settings, now=now))
        need = sandbox = None
        if (request := report.request) is not None:
            need = RunNeed.of(request)
            sandbox = self._sandbox(policy, need)
            known = machine_facts(self.workspace, policy.settings, request, sandbox, owner=_owner(run, facts))
            fit = fitness(request, known, placed_inputs(self.workspace, found, digests))
            report = replace(report, findings=(*report.findings, *input_findings(request, digests), *fit))
        before = self._seen.get(key)
        self._seen[key] = seen = _Seen(identity_of(facts), tuple(places), need, sandbox)
        unchanged = before is not None and before[:3] == seen[:3]
        return _Looked(folder.path / name, run, report, facts, before.valid if before and unchanged else None)

    def _quarantine(self, path: Path, facts: os.stat_result, owner: Owner, problem: str) -> None:
        """Something that is not a readable request: one line, one event, nothing else. Raises DiskFull."""
        name = path.name
        self.log.say("unreadable", file=name, what=problem)
        if self._budget.take(owner):
            with self.trail.locked() as held:
                seen = Observed(file=name, reason="unreadable", what=problem, **owner_fields(owner))
                held.append(seen, actor="daemon")
                held.sync()
        if _PLAIN_NAME.fullmatch(name):
            finding = Finding("TG101", "error", 1, 1, problem, "put one regular file there, by rename")
            verdict = _verdict(name, "", None, "invalid", "unreadable", [finding])
            self._deliver(_Owed(path, facts, verdict, None, owner, None))

    def _record_suppressed(self) -> None:
        """One event for everything that the budget kept out of the trail in the past minute."""
        for owner, count in self._budget.suppressed().items():
            self._suppressed[owner] = self._suppressed.get(owner, 0) + count
        for owner, count in list(self._suppressed.items()):
            try:
                with self.trail.locked() as held:
                    seen = Observed(reason="too_many_events", suppressed=count, **owner_fields(owner))
                    held.append(seen, actor="daemon")
            except DiskFull as error:
                self.full = error
                return
            del self._suppressed[owner]

    def _record(self, looked: Iterable[_Looked]) -> None:
        """Record the findings in the trail, then write the verdicts. A file whose event finds no space is checked
        again.
        """
        owed: list[_Owed] = []
        # One lock and one sync for a batch: a sync for each draft takes longer than reading it.
        with self.trail.locked() as held:
            for item in looked:
                try:
                    found = self._recorded(held, item)
                except DiskFull as error:
                    self._later(str(item.path), error)
                    continue
                if found is not None:
                    owed.append(found)
            held.sync()
        for verdict in owed:
            self._deliver(verdict)

    def _recorded(self, held: LockedTrail, looked: _Looked) -> _Owed | None:
        """Record one finding; return the verdict, None if it gets none. Raises DiskFull, TrailError, Unavailable."""
        path, run, report, facts, before = looked
        if isinstance(report.request_id, str) and held.index.is_spent(report.request_id):
            self._left_alone(held, path, report, _owner(run, facts))
            return None
        findings, fixes, exposure = list(report.findings), report.fixes, report.exposure
        from_inbox = path.parent != self.workspace.drafts
        # An id that gate 1 refuses may be of any type.
        history = held.index.history(report.request_id) if isinstance(report.request_id, str) else None
        owner = _owner(run, facts) if from_inbox else None
        if report.request is not None:
            # An operator may have decided between the reading and this lock.
            if held.index.id_used(report.request.request_id) and not _is_there(path, facts):
                return None  # decided since it was read: its status is the decision's
            ended = Rejected.of(history.end) if history is not None else None
            if ended is not None and history is not None and (ended.files or {}).get("") == report.sha256:
                # The very draft that was decided on, as a crash may leave it: its status is the decision's here too.
                asker = owner if from_inbox else history.owner
                decided = _verdict(path.name, report.sha256, report.request_id, "refused", ended.told, [])
                if asker == history.owner:
                    return _Owed(path, facts, decided, None, asker, held.index.run(asker), again=True)
            findings += trail_findings(self.workspace, held.index, report.request, owner=owner)
            fixes += workspace_fixes(report.request, held.index, owner=owner)
            if exposure is not None and history is not None:  # only the trail knows which draft has a proposal
                exposure = exposure.with_secret(secret_name(report.request.tool, history.proposal_sha256))
        valid = all(finding.severity != "error" for finding in findings)
        again = valid is before
        if (seen := self._seen.get(str(path))) is not None:
            self._seen[str(path)] = seen._replace(valid=valid)
        rules = sorted({finding.rule for finding in findings})
        if not again and self._budget.take(_owner(run, facts)):
            validated = Validated(
                file=path.name,
                sha256=report.sha256,
                valid=valid,
                rules=tuple(rules),
                **owner_fields(owner),
                from_=path.parent.name,
            )
            request_id = report.request.request_id if report.request else None
            held.append(validated, request_id=request_id, actor="daemon")
        verdict = _verdict(
            path.name,
            report.sha256,
            report.request_id,
            "draft" if valid else "invalid",
            None if valid else next(f.rule for f in findings if f.severity == "error"),
            findings,
            fixes,
            exposure,
        )
        # Who made the proposal, for a draft in tool-exec/drafts/, which the daemon itself wrote.
        asker = owner if from_inbox else history.owner if history is not None else None
        if not valid:
            self.valid.discard(path)
        elif from_inbox:
            self.valid.add(path)
            if not again:
                self.on_valid(path)
        return _Owed(path, facts, verdict, report.request, asker, held.index.run(asker), again)

    def _deliver(self, owed: _Owed) -> bool:
        """Write a verdict and notify the plugins; False if the disk is full: then it is owed. Raises OSError."""
        folders = self.workspace.requester_folders(owed.asker)
        try:
            write_verdict(folders, owed.verdict)
        except OSError as error:
            if not is_disk_full(error):
                raise
            self.full = error
            self._owed[owed.path] = owed
            return False
        self._owed.pop(owed.path, None)
        verdict = owed.verdict
        if verdict.sha256:  # what could not be read was logged as that
            self.log.say("verdict", file=verdict.file, what=verdict.state)
        if owed.request is not None:
            self.types.add(folders, verdict, owed.request)
        if not owed.again and verdict.state == "draft" and owed.request is not None and verdict.exposure is not None:
            changed = owed.facts.st_ctime_ns
            self.on_draft(verdict.file, owed.request, verdict.exposure, owed.asker, owed.run, changed)
        return True

    def _write_owed(self) -> None:
        """Write the verdicts that found no space, of the files that are still what was checked."""
        for owed in list(self._owed.values()):
            if not _is_there(owed.path, owed.facts):
                del self._owed[owed.path]
            elif not self._deliver(owed):
                return

    def _left_alone(self, held: LockedTrail, path: Path, report: Report, owner: Owner) -> None:
        """Someone's copy of a drill: an event without its id, and no verdict, so that no agent learns about it."""
        if self._budget.take(owner):
            seen = Validated(
                file=path.name,
                sha256=report.sha256,
                valid=False,
                rules=("TG901",),
                from_=path.parent.name,
                **owner_fields(owner),
            )
            held.append(seen, actor="daemon")
        self.log.say("verdict", file=path.name, what="its request_id was used before; it gets no verdict")


def _is_there(path: Path, facts: os.stat_result) -> bool:
    """Whether a draft that was read is unchanged."""
    try:
        return identity_of(path.lstat()) == identity_of(facts)
    except OSError:
        return False


def _may_be_read(name: str) -> bool:
    """Whether the name of an entry may be a request's, or is to be reported."""
    ours = name.startswith(".") or name.endswith((".proposal.json", ".manifest.json"))
    return not ours and name not in ("files", README)


def _owner(run: KnownRun | None, facts: os.stat_result) -> Owner:
    """The requester of a file: the run in whose inbox it is, whoever owns it; otherwise the file's owner."""
    return facts.st_uid if run is None else run.run


def _unreadable(name: str, facts: os.stat_result, unlike: tuple[str, ...] | None) -> str | None:
    """Why a file is not read. `unlike`: what its name would have to be besides a request's; None if it has one."""
    if not _PLAIN_NAME.fullmatch(name):
        return "its name has characters other than A-Z a-z 0-9 . _ -"
    if not stat.S_ISREG(facts.st_mode):
        kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a FIFO"))
        kind = next((word for test, word in kinds if test(facts.st_mode)), "a device or socket")
        return f"is {kind}, not a regular file"
    if facts.st_nlink != 1:
        return "has more than one hard link"
    if unlike is not None:
        return f"is neither {' nor '.join(('TR-*.md', *unlike))}" if unlike else "is not TR-*.md"
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
