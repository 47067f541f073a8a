"""The 25 tools of an action proposal: what each takes, what it may become, and how dangerous it is by itself.

Invariant: this table is the only place that knows a tool; the fast checks, the verdicts, the lanes and
docs/proposals.md are all made from it, and tests compare it with the published schema, which nothing makes. Source:
docs/spec/5-proposals.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

ProposalRisk = Literal["low", "medium", "high", "critical"]
VerdictName = Literal["reject", "block", "approval", "auto"]
Kind = Literal["string", "integer", "boolean", "strings"]
Lane = Literal[
    "monty draft",
    "ERA draft",
    "ERA draft with network",
    "apply draft",
    "dry-run record",
    "verdict only",
    "nothing",
]

RISKS: Final[tuple[ProposalRisk, ...]] = ("low", "medium", "high", "critical")
SCHEMA_VERSION: Final = "clawguard.agentActionProposal.v1"


@dataclass(frozen=True, slots=True)
class ToolField:
    """One argument of a tool: its JSON type and bounds (inclusive), as in the schema."""

    kind: Kind
    minimum: int = 0
    maximum: int = 0
    min_items: int = 0
    max_items: int = 0
    uri: bool = False


@dataclass(frozen=True, slots=True)
class ProposalTool:
    """One tool.

    `verdict` is the base verdict, `risk` what a proposal without one counts as, `least` the risk that a proposal
    must declare (None: any), `lane` what an allowed proposal becomes, `not_blank` the arguments that must say
    something. `open`: the published schema says nothing about its arguments, so `fields` are rules of the gate, and it
    may have others.
    """

    name: str
    verdict: VerdictName
    risk: ProposalRisk
    lane: Lane
    fields: Mapping[str, ToolField]
    required: tuple[str, ...] = ()
    least: ProposalRisk | None = None
    not_blank: tuple[str, ...] = ()
    paths: tuple[str, ...] = field(default=())
    """Arguments that are paths in the project."""
    open: bool = False


TEXT: Final = ToolField("string")
FLAG: Final = ToolField("boolean")
URL: Final = ToolField("string", uri=True)
ARGV: Final = ToolField("strings", min_items=1, max_items=32)


def _whole(minimum: int, maximum: int) -> ToolField:
    return ToolField("integer", minimum=minimum, maximum=maximum)


_FILE_CONTENT = {"path": TEXT, "content": TEXT}
_GIT = {"path": TEXT, "staged": FLAG, "maxBytes": _whole(4096, 1_048_576)}
_ISSUE = {"repo": TEXT, "title": TEXT, "body": TEXT, "labels": ToolField("strings", max_items=20)}
_PAGE = {"url": URL, "selector": TEXT, "purpose": TEXT, "allowPrivate": FLAG}

_TABLE = (
    ProposalTool(
        "file.list",
        "auto",
        "low",
        "monty draft",
        {"path": TEXT, "maxDepth": _whole(0, 6), "maxEntries": _whole(1, 1000)},
        not_blank=("path",),
        paths=("path",),
    ),
    ProposalTool(
        "file.read",
        "auto",
        "low",
        "monty draft",
        {"path": TEXT, "maxBytes": _whole(1, 524_288), "optional": FLAG},
        ("path",),
        not_blank=("path",),
        paths=("path",),
    ),
    ProposalTool(
        "file.diff",
        "auto",
        "low",
        "monty draft",
        _FILE_CONTENT,
        ("path", "content"),
        not_blank=("path",),
        paths=("path",),
    ),
    ProposalTool(
        "file.write_safe",
        "approval",
        "medium",
        "apply draft",
        _FILE_CONTENT,
        ("path", "content"),
        not_blank=("path",),
        paths=("path",),
    ),
    ProposalTool(
        "project.cleanup_safe",
        "approval",
        "high",
        "apply draft",
        {"path": TEXT, "include": ToolField("strings", max_items=50)},
        not_blank=("path",),
        paths=("path",),
    ),
    ProposalTool("shell.dry_run", "auto", "low", "verdict only", {"command": TEXT, "argv": ARGV}),
    ProposalTool(
        "shell.execute_approved",
        "approval",
        "high",
        "ERA draft",
        {
            "argv": ARGV,
            "cwd": TEXT,
            "timeoutMs": _whole(1000, 30_000),
            "maxBufferBytes": _whole(4096, 1_048_576),
        },
        ("argv",),
        paths=("cwd",),
    ),
    ProposalTool("skill.install_guarded", "block", "high", "nothing", {"source": TEXT, "name": TEXT}, ("source",)),
    ProposalTool("git.status", "auto", "low", "ERA draft", _GIT, not_blank=("path",), paths=("path",)),
    ProposalTool("git.diff", "auto", "low", "ERA draft", _GIT, not_blank=("path",), paths=("path",)),
    ProposalTool("git.log", "auto", "low", "ERA draft", {"limit": _whole(1, 50)}),
    ProposalTool(
        "memory.search",
        "auto",
        "low",
        "monty draft",
        {"query": TEXT, "limit": _whole(1, 50), "scope": TEXT},
        ("query",),
        not_blank=("query",),
    ),
    ProposalTool(
        "memory.propose",
        "approval",
        "medium",
        "monty draft",
        {"type": TEXT, "content": TEXT, "scope": TEXT, "sensitive": FLAG},
        ("content",),
        not_blank=("content",),
    ),
    ProposalTool(
        "web.search",
        "approval",
        "medium",
        "ERA draft with network",
        {"query": TEXT, "limit": _whole(1, 10)},
        ("query",),
        not_blank=("query",),
    ),
    ProposalTool(
        "web.fetch",
        "approval",
        "medium",
        "ERA draft with network",
        {"url": URL, "maxBytes": _whole(1, 524_288)},
        ("url",),
    ),
    ProposalTool(
        "github.repo_read",
        "approval",
        "medium",
        "ERA draft with network",
        {"repo": TEXT, "includeIssues": FLAG, "includeReleases": FLAG},
        ("repo",),
    ),
    ProposalTool(
        "github.issue_draft",
        "auto",
        "low",
        "monty draft",
        _ISSUE,
        ("repo", "title", "body"),
        not_blank=("title",),
    ),
    ProposalTool(
        "github.issue_create_approved",
        "approval",
        "high",
        "ERA draft with network",
        _ISSUE,
        ("repo", "title", "body"),
        least="high",
        not_blank=("title",),
    ),
    ProposalTool(
        "browser.open",
        "approval",
        "medium",
        "ERA draft with network",
        _PAGE,
        ("url",),
        not_blank=("selector",),
    ),
    ProposalTool(
        "browser.extract",
        "approval",
        "medium",
        "ERA draft with network",
        _PAGE,
        ("url",),
        not_blank=("selector",),
    ),
    ProposalTool(
        "browser.click_proposed",
        "approval",
        "low",
        "dry-run record",
        {
            "url": URL,
            "selector": TEXT,
            "label": TEXT,
            "intent": TEXT,
            "purpose": TEXT,
            "allowPrivate": FLAG,
        },
        ("url", "selector"),
        not_blank=("selector",),
    ),
    ProposalTool(
        "browser.type_proposed",
        "approval",
        "low",
        "dry-run record",
        {
            "url": URL,
            "selector": TEXT,
            "field": TEXT,
            "label": TEXT,
            "name": TEXT,
            "placeholder": TEXT,
            "text": TEXT,
            "purpose": TEXT,
            "allowPrivate": FLAG,
        },
        ("url", "selector", "text"),
        not_blank=("selector", "text"),
    ),
    ProposalTool(
        "app.open_proposed",
        "approval",
        "medium",
        "dry-run record",
        {"app": TEXT, "purpose": TEXT},
        ("app",),
        least="medium",
        not_blank=("app",),
    ),
    ProposalTool(
        "app.action_proposed",
        "approval",
        "high",
        "dry-run record",
        {"app": TEXT, "action": TEXT, "target": TEXT, "purpose": TEXT},
        ("app", "action"),
        least="high",
        not_blank=("app", "action"),
    ),
    ProposalTool(
        "subagent.delegate",
        "approval",
        "medium",
        "dry-run record",
        {"task": TEXT, "profile": TEXT, "maxSteps": _whole(1, 100)},
        not_blank=("task",),
        open=True,
    ),
)

TOOLS: Final[Mapping[str, ProposalTool]] = MappingProxyType({tool.name: tool for tool in _TABLE})


def strictest(*risks: ProposalRisk) -> ProposalRisk:
    """The highest of some risks."""
    return max(risks, key=RISKS.index)
