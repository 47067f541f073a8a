"""A compiled contracts folder. Using it needs neither the compiler nor the models of its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threegate.contracts.tool_names import resolve
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput

if TYPE_CHECKING:
    from threegate.contracts.diagnostics import Diagnostic
    from threegate.contracts.model_tool import ToolContract
    from threegate.contracts.model_workflow import WorkflowContract
    from threegate.contracts.tool_rules import Rules

SESSION_FILE: Final = "session.yaml"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled contracts folder. If there are errors, it contains nothing: `ok` is false and everything is
    refused.
    """

    diagnostics: tuple[Diagnostic, ...] = ()
    contracts: Mapping[str, ToolContract] = field(default_factory=dict)
    """Every tool with a contract, by name: the folder's own, else one from a role."""
    sessions: Mapping[str, Rules] = field(default_factory=dict)
    """Rules by session file; ``session.yaml`` is always present if `ok` and not `empty`."""
    workflow: WorkflowContract | None = None
    empty: bool = False
    """There are no contracts: the gate returns `no_contracts`, pass."""
    scenario_files: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """Environment variables that contracts name."""
    case_inputs: Mapping[str, Any] = field(default_factory=dict)
    """JSON files that golden cases name."""
    sha256: str = ""
    """Digest of everything that was compiled: a session's state is stored under this digest."""
    left_out: int = 0
    """How many more diagnostics there are; at most CONTRACT_DIAGNOSTICS are kept."""

    @property
    def ok(self) -> bool:
        """Whether no diagnostic is an error."""
        return all(item.severity != "error" for item in self.diagnostics)

    @property
    def rules(self) -> Rules:
        """The rules of session.yaml. Raises KeyError if there are none."""
        return self.sessions[SESSION_FILE]

    def contracts_of(self, tool: str) -> list[ToolContract]:
        """Every contract of a tool: the folder's own and those that roles have instead. Empty if there are
        none.
        """
        plans = [resolve(rules.plans, tool) for rules in self.sessions.values()]
        return [plan.contract for plan in plans if plan is not None]


NO_CONTRACTS: Final = Compiled(empty=True)
"""An empty folder, or none."""


def read_folder(folder: Path) -> dict[str, bytes]:
    """All files below `folder` by relative path, what is hidden and README.md left out. Raises InvalidInput."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: is not a folder; name the contracts folder")
    files: dict[str, bytes] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            if (Path(parent) / name).is_symlink():
                raise InvalidInput(f"{Path(parent) / name}: is a link; put the folder itself there")
        for name in sorted(names):
            if name.startswith(".") or name == "README.md":
                continue
            path = Path(parent) / name
            if len(files) >= limits.CONTRACT_FILES:
                raise InvalidInput(f"{folder}: more than {limits.CONTRACT_FILES} files; remove some")
            data = durable.read_named(path, max_bytes=limits.CONTRACT_FILE_BYTES)
            files[path.relative_to(folder).as_posix()] = data
    return files
