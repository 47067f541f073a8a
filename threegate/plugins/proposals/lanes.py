"""The lanes: what each tool becomes, as a plan that `draft.py` writes.

Invariant: a plan follows only from the verdict and the primary files; the same two give the same plan, on any
machine, at any time. Text of a proposal goes only into pinned files, never into code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from threegate.core import canonical, limits
from threegate.core.settings import Settings
from threegate.plugins.changes.changes_section import ARCHIVE
from threegate.plugins.changes.project_paths import PROTECTED_FOLDERS, PROTECTED_PATTERNS
from threegate.plugins.proposals import era_code, monty_code
from threegate.plugins.proposals.draft_plan import ChangePlan, DraftPlan
from threegate.plugins.proposals.project_change import read_proposed_change
from threegate.plugins.proposals.proposal_verdict import AllowedProposal
from threegate.plugins.proposals.unified_patch import unified_patch
from threegate.plugins.proposals.web_lanes import WEB_LANES
from threegate.request.action import Command, Script
from threegate.request.model import Sensitivity

_NOTES: Final = 10
_HITS: Final = 20


def make_plan(verdict: AllowedProposal, primary: Mapping[str, bytes], settings: Settings) -> DraftPlan | ChangePlan:
    """The plan of an allowed proposal. Raises ProjectError if a setting that the lane needs is missing."""
    if verdict.becomes == "dry-run record":
        return _record(verdict, primary, settings)
    return _LANES[verdict.proposal.tool.name](verdict, primary, settings)


def _sensitivity(verdict: AllowedProposal) -> Sensitivity:
    return "confidential" if any(path.protected for path in verdict.paths.values()) else "internal"


def _read(verdict: AllowedProposal, primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    missing = "current" not in primary
    given = {
        "path": verdict.paths["path"].text,
        "maxBytes": verdict.args.get("maxBytes", limits.PROPOSAL_READ_BYTES),
        "missing": missing,
    }
    outputs = () if missing else (("/out/content", "the file's bytes"),)
    return DraftPlan(
        "monty", action=Script(monty_code.READ), given=given, outputs=outputs, sensitivity=_sensitivity(verdict)
    )


def _list(verdict: AllowedProposal, _primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    return DraftPlan(
        "monty",
        action=Script(monty_code.LIST),
        given={"path": verdict.paths["path"].text},
        outputs=(("/out/listing.json", "names, kinds and sizes"),),
        sensitivity=_sensitivity(verdict),
    )


def _diff(verdict: AllowedProposal, primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    path = verdict.paths["path"].text
    before, after = primary["current"], str(verdict.args["content"]).encode()
    return DraftPlan(
        "monty",
        action=Script(monty_code.DIFF),
        given={"path": path, "before": canonical.sha256_hex(before), "after": canonical.sha256_hex(after)},
        derived={"diff.patch": unified_patch(before, after, path)},
        outputs=(("/out/diff.patch", "what would change"),),
        sensitivity=_sensitivity(verdict),
    )


def _change(verdict: AllowedProposal, primary: Mapping[str, bytes], _settings: Settings) -> ChangePlan:
    """file.write_safe and project.cleanup_safe: no code is run, the pinned change set is applied to the project."""
    return ChangePlan(read_proposed_change(verdict, primary[ARCHIVE]))


def _search_notes(verdict: AllowedProposal, _primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    args = verdict.args
    given = {"query": args["query"], "limit": args.get("limit", _NOTES), "scope": args.get("scope")}
    return DraftPlan(
        "monty", action=Script(monty_code.SEARCH), given=given, outputs=(("/out/notes.json", "notes found"),)
    )


def _note(verdict: AllowedProposal, _primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    args = verdict.args
    note = {
        "type": args.get("type"),
        "content": args["content"],
        "scope": args.get("scope"),
        "sensitive": args.get("sensitive", False),
    }
    return DraftPlan(
        "monty",
        action=Script(monty_code.NOTE),
        given={"note": note},
        outputs=(("/out/note.json", "the note"),),
        notes=("stores nothing; stored by: threegate project note approve REQUEST_ID",),
    )


def _issue(verdict: AllowedProposal, _primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    args = verdict.args
    lines = [f"# {' '.join(args['title'].split())}", "", f"Repository: {args['repo']}"]
    if args.get("labels"):
        lines.append("Labels: " + ", ".join(args["labels"]))
    text = "\n".join(lines) + "\n\n" + args["body"].rstrip("\n") + "\n"
    return DraftPlan(
        "monty",
        action=Script(monty_code.ISSUE),
        given={"repo": args["repo"]},
        derived={"issue.md": text.encode()},
        outputs=(("/out/issue.md", "the issue as it would read"),),
    )


def _record(verdict: AllowedProposal, _primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    tool = verdict.proposal.tool.name
    record = {
        "tool": tool,
        "args": dict(verdict.proposal.args),
        "risk": verdict.risk,
        "would": _WOULD[tool],
        "done": False,
    }
    return DraftPlan(
        "monty",
        action=Script(monty_code.RECORD),
        given={"record": record},
        outputs=(("/out/record.json", "what was proposed"),),
        notes=("a dry run: it records and does nothing",),
    )


_WOULD: Final = {
    "browser.open": "a browser would open the page",
    "browser.extract": "a browser would read the page",
    "browser.click_proposed": "a browser would click the element",
    "browser.type_proposed": "a browser would type the text into the field",
    "app.open_proposed": "the application would be opened",
    "app.action_proposed": "the application would be told to act",
    "subagent.delegate": "another agent would be given the task",
    "web.fetch": "the page would be fetched",
}


def _git(verdict: AllowedProposal, _primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    args = verdict.proposal.args
    verb = verdict.proposal.tool.name.partition(".")[2]
    path = verdict.paths.get("path")
    given = {
        "verb": verb,
        "path": path.text if path else ".",
        "staged": args.get("staged", False),
        "limit": args.get("limit", _HITS),
        "maxBytes": args.get("maxBytes", limits.PROPOSAL_GIT_BYTES),
        "protected": [
            *sorted(PROTECTED_PATTERNS),
            *(f"{pattern}/**" for pattern in sorted(PROTECTED_PATTERNS)),
            *(f"{name}/**" for name in sorted(PROTECTED_FOLDERS)),
        ],
    }
    out = {"status": "status.txt", "diff": "diff.patch", "log": "log.txt"}[verb]
    return DraftPlan(
        "ERA",
        action=Command(("python3", "/in/lane.py")),
        given=given,
        derived={"lane.py": era_code.GIT.encode()},
        outputs=((f"/out/{out}", f"what git {verb} says"),),
        time_sec=limits.PROPOSAL_SHELL_SECONDS,
        memory_mb=512,
        sensitivity=_sensitivity(verdict),
    )


def _shell(verdict: AllowedProposal, _primary: Mapping[str, bytes], _settings: Settings) -> DraftPlan:
    args = verdict.args
    cwd = verdict.paths["cwd"]
    kept = args.get("maxBufferBytes")
    notes = ["runs over a snapshot of the project, without protected files and links"]
    if kept is not None:
        notes.append(f"asked to keep at most {kept} bytes of output")
    return DraftPlan(
        "ERA",
        action=Command(tuple(args["argv"])),
        workdir="/".join(("/in/project", *cwd.parts)),
        time_sec=-(-int(args.get("timeoutMs", limits.PROPOSAL_SHELL_SECONDS * 1000)) // 1000),
        memory_mb=1024,
        sensitivity=_sensitivity(verdict),
        notes=tuple(notes),
    )


_LANES: Final[Mapping[str, Callable[[AllowedProposal, Mapping[str, bytes], Settings], DraftPlan | ChangePlan]]] = {
    "file.read": _read,
    "file.list": _list,
    "file.diff": _diff,
    "file.write_safe": _change,
    "project.cleanup_safe": _change,
    "memory.search": _search_notes,
    "memory.propose": _note,
    "github.issue_draft": _issue,
    "git.status": _git,
    "git.diff": _git,
    "git.log": _git,
    "shell.execute_approved": _shell,
    **WEB_LANES,
}
