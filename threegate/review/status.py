"""What is waiting, for whom, what is running and what has ended: read from the folders and the verdicts.

Invariant: this only reads; it reports what the folders say, since the folder of a file is its state.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from threegate.approval.shown.escaped_lines import GUTTER, own, shown, wrapped
from threegate.approval.statement import parse_utc
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, ThreeGateError
from threegate.core.file_names import README, is_agent_run_id
from threegate.core.secretscan.scan import mask_secrets
from threegate.core.workspace import Workspace
from threegate.launch.results.verdict import Verdict, read_verdict
from threegate.request.backend import ATTENTIONS, BACKENDS
from threegate.request.exposure import Exposure, exposure_json
from threegate.review.asked import Asked, AskedReader
from threegate.review.draft_sources import placed_at, placed_drafts, source_of
from threegate.runners.backend import DoctorLine
from threegate.runners.live_output import OutputLine, live_output

_NOT_SEEN = "not checked yet"
WHOM = {
    "draft": "operator: threegate approve",
    "invalid": "agent: fix the draft",
    "approved": "daemon",
    "waiting": "daemon",
    "running": "",
    "finished": "",
    "refused": "",
}
"""Who must act next, by state."""
VOID_CODES = ("policy_changed", "job_changed", "shown_changed")
"""Why an approval is void although nobody changed the request: a fresh draft of it can be approved."""
WAITS_FOR = {
    "quorum_missing": "another operator: threegate approve FILE",
    "no_backend": "operator: threegate doctor",
    "caller_absent": "its program: it uses the decision",
    "checkpoint_required": "operator: threegate contracts checkpoints",
    "clock_went_back": "operator: set the clock",
    "operators_changed": "operator: threegate operator record --yes",
    "workspace_mismatch": "operator: threegate settings adopt",
    "folder_replaced": "operator: threegate doctor",
    "approval_not_judged": "operator: turn its plugin on, or: threegate cancel FILE",
    "event_unreadable": "operator: threegate audit verify",
    "unknown_event": "operator: threegate doctor",
}
"""Who must act on an approved request, by its reason; for any other reason, the daemon does."""

TITLES: Final = {
    "operator": "Needs you",
    "running": "Running",
    "others": "Waiting for the daemon or the agent",
    "ended": "Ended",
}
"""The groups of a list, in order, by `Line.next`."""
_ORDER: Final = tuple(TITLES)
_RISKS: Final = ("high", "", "medium", "low")  # what was not read may be anything
NOTHING_HERE: Final = (
    "nothing here: no drafts, nothing approved, nothing ended; next: threegate draft --help, or "
    "instruct an agent with: threegate agent prompt"
)


@dataclass(frozen=True, slots=True)
class RequestEntry:
    """A request file by its folder (inbox, drafts or one of STATES) and path."""

    folder: str
    path: Path
    changed: datetime
    since: datetime
    """When it came into this folder: the file system's change time, which cannot be set."""

    @classmethod
    def of(cls, folder: str, path: Path, facts: os.stat_result | None = None) -> RequestEntry:
        """The entry of a file, from its own stat (not that of a link's target). Raises OSError."""
        facts = facts or path.lstat()
        changed, since = (datetime.fromtimestamp(moment, UTC) for moment in (facts.st_mtime, facts.st_ctime))
        return cls(folder, path, changed, since)

    @property
    def key(self) -> str:
        """The name as 32 hex digits: safe in a URL, whatever the name is."""
        return hashlib.sha256(os.fsencode(self.path.name)).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Line:
    """One request file: its state, the reason, what it asks for, and who must act next."""

    entry: RequestEntry
    state: str
    reason: str | None
    request_id: str | None
    for_whom: str
    exposure: Exposure | None = None
    """Opacity and reach, from the file or else from the verdict; None if neither has them."""
    asked: Asked | None = None
    """What the file asks for; None if it is not a valid request."""
    output: OutputLine | None = None
    """The last line of its output, while it is running."""
    under_grant: str = ""
    """Its grant, if a standing grant is stored beside the request instead of a signature."""
    together: int = 0
    """How many drafts of its shape, this one included, can be decided on together; 0 if there is no other."""

    @property
    def file(self) -> str:
        """The file's name."""
        return self.entry.path.name

    @property
    def shown_file(self) -> str:
        """The file's name with secrets masked, for people and programs that do not open it."""
        return mask_secrets(self.file)

    @property
    def group(self) -> str:
        """Which group it belongs to, in our words; empty if it is in none."""
        if self.asked is None or self.asked.shape is None or not self.together:
            return ""
        return f"group {self.asked.shape[:6]}, one of {self.together}: decide together with --group"

    @property
    def next(self) -> str:
        """Who must act: ``operator``, ``running``, ``others`` (the daemon, the agent) or ``ended``."""
        if self.state in ("finished", "refused"):
            return "ended"
        if self.for_whom.startswith(("operator", "another operator")):
            return "operator"
        return "running" if self.state == "running" else "others"

    @property
    def urgency(self) -> tuple[int, bool, int, int]:
        """Whose turn it is, whether it is only a draft, how soon a person should look, and its risk: the least comes
        first in a list.
        """
        asked = self.asked if self.next != "ended" else None
        look = ATTENTIONS.index(asked.attention if asked and self.next == "operator" else "look")
        return _ORDER.index(self.next), self.state != "waiting", look, _RISKS.index(asked.risk if asked else "")

    def to_json(self) -> dict[str, Any]:
        """The line as JSON."""
        asked = self.asked
        return {
            "state": self.state,
            "file": self.shown_file,
            "folder": self.entry.folder,
            "reason": self.reason,
            "request_id": self.request_id,
            "for": self.for_whom,
            "under_grant": self.under_grant or None,
            **exposure_json(self.exposure),
            "requester": asked.requester if asked else None,
            "requester_named_by": ("settings" if asked.vouched else "file") if asked else None,
            "risk": asked.risk if asked else None,
            "attention": asked.attention if asked and self.next == "operator" else None,
            "backend": asked.backend if asked else None,
            "purpose": mask_secrets(asked.purpose) if asked else None,
            "group": {"shape": asked.shape, "drafts": self.together} if asked and self.together else None,
            "output": {"stream": self.output.stream, "line": self.output.text} if self.output else None,
            "changed_utc": f"{self.entry.changed:%Y-%m-%dT%H:%M:%SZ}",
            "since_utc": f"{self.entry.since:%Y-%m-%dT%H:%M:%SZ}",
        }


def status_lines(workspace: Workspace, *, ended: int = 20, reader: AskedReader | None = None) -> list[Line]:
    """Everything open and the last `ended` requests that have ended, starting with what an operator must do.

    Pass the same `reader` again for repeated calls.
    """
    reader = reader or AskedReader(workspace)
    closed = sorted((*files_in(workspace, "finished"), *files_in(workspace, "refused")), key=_age)
    folders = (*draft_folder_names(workspace), "approved", "running")
    entries = [entry for folder in folders for entry in files_in(workspace, folder)]
    entries += closed[max(0, len(closed) - ended) :]
    found = [
        line_of(workspace, entry, reader if number < limits.STATUS_ROWS_READ else None)
        for number, entry in enumerate(entries)
    ]
    return in_order(grouped(found))


def in_order(lines: Iterable[Line]) -> list[Line]:
    """Those that an operator must act on first: approved ones that wait for an act, then by risk, and the newest of one
    risk first. What has ended comes last, the latest first.
    """
    newest = sorted(lines, key=lambda line: line.file, reverse=True)  # a name begins with a time
    return sorted(newest, key=_turn)


def _turn(line: Line) -> tuple[tuple[int, bool, int, int], float]:
    moment = line.entry.changed if line.next == "ended" else line.entry.since
    return line.urgency, -moment.timestamp()


def count_ended(workspace: Workspace) -> int:
    """How many requests have ended."""
    count = 0
    for place in (workspace.finished, workspace.refused):
        with suppress(FileNotFoundError):
            count += sum(map(_is_listed, os.listdir(place)))
    return count


def count_void(workspace: Workspace) -> int:
    """How many approvals became void lately (VOID_SHOWN_SECONDS), of the last that ended."""
    since = datetime.now(UTC) - timedelta(seconds=limits.VOID_SHOWN_SECONDS)
    late = sorted((entry for entry in files_in(workspace, "refused") if entry.since > since), key=_age)
    return sum(line_of(workspace, entry).reason in VOID_CODES for entry in late[-limits.STATUS_ROWS_READ :])


def grouped(lines: list[Line]) -> list[Line]:
    """The lines, each draft with the number of drafts of its shape; opening a group shows which ones it leaves out."""
    shapes = [line.asked.shape if line.asked else None for line in lines]
    counts = Counter(shapes)
    return [
        replace(line, together=counts[shape]) if shape and counts[shape] > 1 else line
        for line, shape in zip(lines, shapes, strict=True)
    ]


def line_rows(line: Line, *, now: datetime, width: int, alike: int = 1) -> list[str]:
    """A request as rows of a list: our words first, then foreign text, each row behind the gutter. `alike` is how many
    drafts it stands for.
    """
    asked = line.asked
    facts = [age_text(line.entry, now)]
    under = own(line.under_grant, width=width, indent=10) if line.under_grant else []
    if line.next == "ended":
        head = f"{line.state:<9} {'  '.join(filter(None, (*facts, line.reason)))}"
        acts = own(f"-> {line.for_whom}", width=width, indent=10) if line.for_whom else []
        return [*own(head, width=width, indent=0), *acts, *under, foreign_row(line.shown_file, width=width)]
    if asked is not None:
        facts += [f"risk {asked.risk}", asked.backend]
    if line.exposure is not None:
        facts += ["opaque"] if line.exposure.opaque else []
        facts += [] if line.exposure.reach else ["reaches nothing"]
    head = f"{line.state:<9} {', '.join(facts)}"
    act = "  ".join(filter(None, (line.reason, f"-> {line.for_whom}" if line.for_whom else "")))
    rows = own(head, width=width, indent=0)
    if act and len(rows) == 1 and len(f"{rows[0]}  {act}") <= width:
        rows = [f"{rows[0]}  {act}"]
    elif act:
        rows += own(act, width=width, indent=10)
    if alike > 1:
        act = f", decide together: threegate approve --group {line.shown_file}" if line.next == "operator" else ""
        rows += own(f"{alike} drafts alike{act}", width=width, indent=10)
    elif line.group:
        rows += own(line.group, width=width, indent=10)
    rows += under
    foreign = [line.shown_file]
    if asked is not None:
        foreign.append(f"{asked.requester}: {mask_secrets(asked.purpose)}")
    if line.exposure is not None and line.exposure.reach:
        foreign.append(f"reaches {'; '.join(line.exposure.reach)}")
    output = [] if line.output is None else [output_row(line.output, width=width)]
    return [*rows, *(foreign_row(text, width=width) for text in foreign), *output]


def health_rows(looked: Sequence[DoctorLine], *, width: int) -> list[str]:
    """The results of the checks, one or more rows each, and what to type if there is a problem."""
    rows: list[str] = []
    for line in looked:
        fix = f": {line.fix}" if line.fix and line.state != "ok" else ""
        head, *rest = own(f"{line.seen}{fix}", width=width, indent=10)
        rows += [f"{line.name:<9} {head[10:]}", *rest]
    return rows


def output_row(output: OutputLine, *, width: int) -> str:
    """The last line of a run as one row: the stream's name is ours, the line is behind the gutter."""
    return f"{output.stream:<10}{foreign_row(output.text, width=width)[10:]}"


def foreign_row(text: str, *, width: int, indent: int = 10) -> str:
    """A row of foreign text behind the gutter, cut with an ellipsis if it is too long."""
    space = width - indent - len(GUTTER)
    first = next(wrapped(text, space))
    row = first if len(first) == len(shown(text)) else f"{next(wrapped(text, space - 2))}…"
    return f"{'':{indent}}{GUTTER}{row}"


def age_text(entry: RequestEntry, now: datetime) -> str:
    """How long the file has been in its folder, in one unit."""
    return _in_one_unit((now - entry.since).total_seconds())


def _in_one_unit(duration: float) -> str:
    seconds = max(0, int(duration))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def worker_rows(rows: list[dict[str, Any]], *, now: datetime, width: int) -> list[str]:
    """Each worker: what runs there and what is free, or why it gets nothing; and when it was last heard."""
    drawn: list[str] = []
    for row in rows:
        head, *rest = own(_worker_text(row, now), width=width, indent=10)
        drawn += [f"worker    {head[10:]}", *rest]
    return drawn


def _worker_text(row: dict[str, Any], now: datetime) -> str:
    machine = f" on {row['machine']}" if row["machine"] else ""
    version = f", version {row['version']}" if row["version"] else ""
    heard = heard_text(row, now)
    if not row["live"]:
        return f"{row['worker']}{machine}{version}, {heard}, gets nothing: {row['reason']}"
    kinds = [name.lower() for name in BACKENDS if name.lower() in row]
    parts = [
        ", ".join(row["running"]) or "idle",
        f"{row['cores_free']} of {row['cores']} cores and {row['memory_free_mb']} of {row['memory_mb']} MiB free",
        *(f"{kind} {row[kind]}" for kind in kinds),
        *([row["reason"]] if row["reason"] else []),
        *(["its operators differ from those here"] if row.get("operators") == "other" else []),
    ]
    return f"{row['worker']}{machine}{version}, {heard}: {', '.join(parts)}"


def heard_text(row: dict[str, Any], now: datetime) -> str:
    """When a worker last reported to a daemon here, and how long ago that is."""
    if row["heard_utc"] is None:
        return "never heard of"
    heard = parse_utc(row["heard_utc"])
    age = (now - heard).total_seconds()
    return (
        f"heard {_in_one_unit(age)} ago"
        if age < limits.CLUSTER_SILENCE_SECONDS
        else f"not heard since {row['heard_utc']} ({_in_one_unit(age)})"
    )


def files_in(workspace: Workspace, folder: str) -> list[RequestEntry]:
    """The request files of a folder, oldest first."""
    place = folder_place(workspace, folder)
    found = []
    with suppress(FileNotFoundError), os.scandir(place) as entries:
        for entry in entries:
            if not _is_listed(entry.name):
                continue
            with suppress(FileNotFoundError):  # moved on meanwhile
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode):
                    found.append(RequestEntry.of(folder, place / entry.name, facts))
    for placed in placed_drafts(workspace, lambda draft: draft.folder == folder) if is_draft_folder(folder) else ():
        with suppress(FileNotFoundError):
            found.append(RequestEntry.of(folder, placed.listed(workspace), placed.file(workspace).lstat()))
    return sorted(found, key=_age)


def _is_listed(name: str) -> bool:
    return (
        name.endswith((".md", ".json"))
        and not name.endswith((".proposal.json", ".manifest.json"))
        and not name.startswith(".")
        and name != README
    )


def draft_folder_names(workspace: Workspace) -> list[str]:
    """The folders with drafts, as a listing names them: inbox, drafts, and the inbox of each run."""
    return [folder_name(workspace, place) for place in workspace.draft_folders()]


def is_draft_folder(folder: str) -> bool:
    """Whether a folder name in a listing is one with drafts."""
    return folder in ("inbox", "drafts") or is_agent_run_id(folder)


def folder_name(workspace: Workspace, place: Path) -> str:
    """The folder's name in a listing: of a run's inbox, the run's id. `folder_place` is the inverse."""
    return workspace.run_of(place) or place.name


def folder_place(workspace: Workspace, folder: str) -> Path:
    """The folder for a name in a listing."""
    if is_agent_run_id(folder):
        return workspace.agent_run(folder).inbox
    return workspace.inbox if folder == "inbox" else workspace.tool_exec / folder


def verdict_of(workspace: Workspace, path: Path) -> Verdict | None:
    """The verdict of a request file, from the folders of its requester. Raises InvalidInput if it cannot be read.

    The requester of a file that is no longer a draft is searched for: a name is used once, in one requester's folders.
    """
    run = workspace.run_of(path.parent)
    if run is not None:
        return read_verdict(workspace.requester_folders(run), path.name)
    found = read_verdict(workspace, path.name)
    if path.parent in (workspace.inbox, workspace.drafts) or (found and found.stage == "approved"):
        return found
    for place in workspace.draft_folders()[2:]:
        other = read_verdict(workspace.requester_folders(workspace.run_of(place)), path.name)
        if other is not None and other.stage == "approved":
            return other
    return found


def _age(entry: RequestEntry) -> tuple[datetime, str]:
    return entry.changed, entry.path.name


def line_of(workspace: Workspace, entry: RequestEntry, reader: AskedReader | None = None) -> Line:
    """One file; its verdict may know more of its state than the folder. Without `reader`, the file is not read."""
    folder, draft = entry.folder, is_draft_folder(entry.folder)
    state = "draft" if draft else folder
    reason = request_id = None
    try:
        verdict = verdict_of(workspace, entry.path)
    except (InvalidInput, ThreeGateError):
        verdict = None
    if verdict is not None:
        request_id = verdict.request_id
        same_place = {"inbox": ("draft", "invalid"), "drafts": ("draft", "invalid"), "approved": ("waiting",)}
        done = verdict.reason == "verdict_only"  # a proposal without a draft, in the inbox until the agent removes it
        if verdict.state in same_place.get(entry.path.parent.name, ()) or (draft and done):
            state = verdict.state
        if verdict.state == state or (folder == "approved" and verdict.reason == "approval_void"):
            reason = verdict.reason
    elif draft and (placed := placed_at(workspace, entry.path)) is not None:
        request_id = placed.request_id
    elif draft:
        reason = _NOT_SEEN
    asked = reader.read(entry.path, folder) if reader is not None else None
    exposure = asked.exposure if asked else verdict.exposure if verdict else None
    output = live_output(workspace, request_id) if folder == "running" and request_id else None
    whom = _for_whom(workspace, entry.path.name, state, reason)
    if asked is not None and reason == _NOT_SEEN:
        whom = WHOM["draft"]  # it can be read and approved whether or not a daemon has checked it
    if state == "refused" and reason in VOID_CODES and request_id is not None:
        whom = f"operator: threegate draft --again {request_id}"
    under = "" if draft else _under_grant(entry.path)
    return Line(entry, state, reason, request_id, whom, exposure, asked, output, under)


def _under_grant(path: Path) -> str:
    """The grant stored beside an approved request, and who gave it, as its file says; empty if it was signed."""
    try:
        data = durable.read_regular(path.with_name(f"{path.name}.sig"), max_bytes=limits.SIGNATURE_FILE_BYTES)
    except OSError:
        return ""
    if b'"acted_by":' not in data:
        return ""
    # Tab completion lists files too, and must not wait for gate 2.
    from threegate.approval.ssh_wire import MalformedError
    from threegate.approval.statement import ACT_TYPES, Act, SignedBytes
    from threegate.trail.payloads import under_grant

    try:
        signed = SignedBytes.parse(data)
        act = Act.parse(signed.statement, *ACT_TYPES)
    except MalformedError:
        return ""
    return under_grant(signed.sha256[:12], act.acted_by)


def _for_whom(workspace: Workspace, name: str, state: str, reason: str | None) -> str:
    """Who must act next; empty if nobody has to."""
    # A proposal needs someone only if no draft was made of it: a draft has a line of its own.
    if name.endswith(".json") and state == "draft":
        if reason == "no_draft" and (source := source_of(workspace, name)) is not None:
            return f"operator: threegate {' '.join(source.explain)}"
        return "daemon" if reason == _NOT_SEEN else ""
    if state == "waiting":
        return WAITS_FOR.get(reason or "", WHOM[state])
    return WHOM[state] if reason != _NOT_SEEN else "daemon"
