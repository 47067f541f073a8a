"""The 25 tools of an action proposal: what each takes, what it may become, and how dangerous it is by itself.

Invariant: this table is the only place that knows a tool; the fast checks, the verdicts, the lanes and
docs/proposals.md are all made from it, and tests compare it with the published schema, which nothing makes. Source:
docs/spec/5-proposals.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

ProposalRisk = Literal["low", "medium", "high", "critical"]
VerdictName = Literal["reject", "block", "approval", "auto"]
Kind = Literal["string", "integer", "boolean", "strings"]
Lane = Literal[
    "monty draft", "ERA draft", "ERA draft with network", "apply draft", "dry-run record", "verdict only", "nothing"
]

RISKS: Final[tuple[ProposalRisk, ...]] = ("low", "medium", "high", "critical")
SCHEMA_VERSION: Final = "clawguard.agentActionProposal.v1"


@dataclass(frozen=True, slots=True)
class ToolField:
    """One argument of a tool: its JSON type and bounds (inclusive), as in the schema, and what the rules ask of it."""

    kind: Kind
    minimum: int = 0
    maximum: int = 0
    min_items: int = 0
    max_items: int = 0
    uri: bool = False
    path: bool = False
    """It is a path in the project."""
    not_blank: bool = False
    """It must say something."""


@dataclass(frozen=True, slots=True)
class ProposalTool:
    """One tool.

    `verdict` is the base verdict, `risk` what a proposal without one counts as, `lane` what an allowed proposal
    becomes, `least` the risk that a proposal must declare (None: any). `open`: the published schema says nothing
    about its arguments, so `fields` are rules of the gate, and it may have others.
    """

    name: str
    verdict: VerdictName
    risk: ProposalRisk
    lane: Lane
    fields: Mapping[str, ToolField]
    required: tuple[str, ...] = ()
    least: ProposalRisk | None = None
    open: bool = False


TEXT: Final = ToolField("string")
SAID: Final = ToolField("string", not_blank=True)
PATH: Final = ToolField("string", path=True, not_blank=True)
FLAG: Final = ToolField("boolean")
URL: Final = ToolField("string", uri=True)
ARGV: Final = ToolField("strings", min_items=1, max_items=32)


def _whole(minimum: int, maximum: int) -> ToolField:
    return ToolField("integer", minimum=minimum, maximum=maximum)


def _list(most: int) -> ToolField:
    return ToolField("strings", max_items=most)


_FILE = {"path": PATH, "content": TEXT}
_GIT = {"path": PATH, "staged": FLAG, "maxBytes": _whole(4096, 1_048_576)}
_ISSUE = {"repo": TEXT, "title": SAID, "body": TEXT, "labels": _list(20)}
_PAGE = {"url": URL, "selector": SAID, "purpose": TEXT, "allowPrivate": FLAG}
_NET: Final = "ERA draft with network"
_EXECUTE = {
    "argv": ARGV,
    "cwd": ToolField("string", path=True),
    "timeoutMs": _whole(1000, 30_000),
    "maxBufferBytes": _whole(4096, 1_048_576),
}
_CLICK = {"url": URL, "selector": SAID, "label": TEXT, "intent": TEXT, "purpose": TEXT, "allowPrivate": FLAG}
_FIELD = {"url": URL, "selector": SAID, "field": TEXT, "label": TEXT, "name": TEXT, "placeholder": TEXT}
_TYPE = {**_FIELD, "text": SAID, "purpose": TEXT, "allowPrivate": FLAG}

_TABLE = (
    ProposalTool(
        "file.list", "auto", "low", "monty draft",
        {"path": PATH, "maxDepth": _whole(0, 6), "maxEntries": _whole(1, 1000)},
    ),
    ProposalTool(
        "file.read", "auto", "low", "monty draft",
        {"path": PATH, "maxBytes": _whole(1, 524_288), "optional": FLAG}, ("path",),
    ),
    ProposalTool("file.diff", "auto", "low", "monty draft", _FILE, ("path", "content")),
    ProposalTool("file.write_safe", "approval", "medium", "apply draft", _FILE, ("path", "content")),
    ProposalTool("project.cleanup_safe", "approval", "high", "apply draft", {"path": PATH, "include": _list(50)}),
    ProposalTool("shell.dry_run", "auto", "low", "verdict only", {"command": TEXT, "argv": ARGV}),
    ProposalTool("shell.execute_approved", "approval", "high", "ERA draft", _EXECUTE, ("argv",)),
    ProposalTool("skill.install_guarded", "block", "high", "nothing", {"source": TEXT, "name": TEXT}, ("source",)),
    ProposalTool("git.status", "auto", "low", "ERA draft", _GIT),
    ProposalTool("git.diff", "auto", "low", "ERA draft", _GIT),
    ProposalTool("git.log", "auto", "low", "ERA draft", {"limit": _whole(1, 50)}),
    ProposalTool(
        "memory.search", "auto", "low", "monty draft",
        {"query": SAID, "limit": _whole(1, 50), "scope": TEXT}, ("query",),
    ),
    ProposalTool(
        "memory.propose", "approval", "medium", "monty draft",
        {"type": TEXT, "content": SAID, "scope": TEXT, "sensitive": FLAG}, ("content",),
    ),
    ProposalTool("web.search", "approval", "medium", _NET, {"query": SAID, "limit": _whole(1, 10)}, ("query",)),
    ProposalTool("web.fetch", "approval", "medium", _NET, {"url": URL, "maxBytes": _whole(1, 524_288)}, ("url",)),
    ProposalTool(
        "github.repo_read", "approval", "medium", _NET,
        {"repo": TEXT, "includeIssues": FLAG, "includeReleases": FLAG}, ("repo",),
    ),
    ProposalTool("github.issue_draft", "auto", "low", "monty draft", _ISSUE, ("repo", "title", "body")),
    ProposalTool(
        "github.issue_create_approved", "approval", "high", _NET, _ISSUE, ("repo", "title", "body"), least="high"
    ),
    ProposalTool("browser.open", "approval", "medium", _NET, _PAGE, ("url",)),
    ProposalTool("browser.extract", "approval", "medium", _NET, _PAGE, ("url",)),
    ProposalTool("browser.click_proposed", "approval", "low", "dry-run record", _CLICK, ("url", "selector")),
    ProposalTool("browser.type_proposed", "approval", "low", "dry-run record", _TYPE, ("url", "selector", "text")),
    ProposalTool(
        "app.open_proposed", "approval", "medium", "dry-run record",
        {"app": SAID, "purpose": TEXT}, ("app",), least="medium",
    ),
    ProposalTool(
        "app.action_proposed", "approval", "high", "dry-run record",
        {"app": SAID, "action": SAID, "target": TEXT, "purpose": TEXT}, ("app", "action"), least="high",
    ),
    ProposalTool(
        "subagent.delegate", "approval", "medium", "dry-run record",
        {"task": SAID, "profile": TEXT, "maxSteps": _whole(1, 100)}, open=True,
    ),
)  # fmt: skip

TOOLS: Final[Mapping[str, ProposalTool]] = MappingProxyType({tool.name: tool for tool in _TABLE})


def strictest(*risks: ProposalRisk) -> ProposalRisk:
    """The highest of some risks."""
    return max(risks, key=RISKS.index)
