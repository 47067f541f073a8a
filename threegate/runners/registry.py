"""The backends of this version: a name, and the folder with everything else about it.

Invariant: a backend is added by its folder below runners/ and one line here (and its entry in
request/backend_rules.py, which defines what its requests look like). Importing this module loads no backend;
reading a description loads no engine.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

from threegate.core.settings import RunnersSettings, SecretReference, Settings
from threegate.request.model import Backend
from threegate.runners.description import BackendDescription
from threegate.runners.interface import Runner

FOLDERS: dict[Backend, str] = {
    "monty": "threegate.runners.monty",
    "ERA": "threegate.runners.era",
    "apply": "threegate.runners.apply",
    "mcp": "threegate.runners.mcp",
}
"""The package of each backend: a new backend is a line here."""


def backend_names() -> tuple[Backend, ...]:
    """The names of all backends, in the order in which doctor and metrics list them."""
    return tuple(FOLDERS)


def describe(name: Backend) -> BackendDescription:
    """The description of one backend."""
    description: BackendDescription = importlib.import_module(FOLDERS[name]).BACKEND
    return description


def backends() -> tuple[BackendDescription, ...]:
    """All descriptions."""
    return tuple(describe(name) for name in FOLDERS)


def make_runner(
    name: Backend,
    settings: Settings,
    *,
    secrets: Mapping[str, SecretReference] | None = None,
    once: bool = False,
) -> Runner:
    """The runner of one backend; see `MakeRunner`. Without `secrets`, runs get none."""
    return describe(name).make(settings, secrets=secrets or {}, once=once)


def policy_facts() -> dict[str, str]:
    """The facts of all backends for the policy digest. A name used by two of them is a programming error
    (TypeError).
    """
    facts: dict[str, str] = {}
    for backend in backends():
        facts = dict(**facts, **backend.policy_facts())
    return facts


def remove_orphans(workspace_id: str, boot_nonce: str, settings: RunnersSettings, runs_folder: Path) -> list[str]:
    """Remove what a killed process left of runs of every backend; one line for each. Raises Unavailable."""
    lines: list[str] = []
    for backend in backends():
        if backend.remove_orphans is not None:
            lines += backend.remove_orphans(workspace_id, boot_nonce, settings, runs_folder)
    return lines
