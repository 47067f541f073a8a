"""The backends of the request language: what a request for each of them may contain, and which resources its
Job needs.

Invariant: the names are exactly those in `threegate.runners.registry` (a test compares both). Only this table
decides gate 1 and the Job, so a request is read the same way on a machine where a backend cannot run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Backend = Literal["ERA", "monty", "apply", "mcp"]
Version = Literal["1", "2"]


@dataclass(frozen=True, slots=True)
class BackendRules:
    """One backend, as gate 1, the Job and a grant see it."""

    sections: tuple[str, ...]
    """The sections of the body, in order (docs/spec/1-tool-request.md, "Body")."""
    runs: Literal["command", "code", "changes", "call"]
    """``command``: argv from the Command section. ``code``: Python from the Code section, with Inputs (JSON).
    ``changes``: no code is run; a project is changed by the change set of the Changes section.
    ``call``: one tool of a server that the operator added is called, with the object of Arguments (JSON)."""
    network: bool
    """Whether `network: allowlist` is possible."""
    container: bool
    """Whether the Job names the platform's image, OCI runtime and seccomp profile, and a fixed environment."""
    data_inputs: bool
    """Whether an input is data and never code, so that a grant may leave its content open."""
    version: Version = "1"
    """The `schema_version` of its requests."""
    keys: tuple[str, ...] = ()
    """Front matter keys that its requests need besides those of their version."""
    optional: tuple[str, ...] = ()
    """Keys that they may have besides."""


BACKENDS: Final[Mapping[Backend, BackendRules]] = {
    "ERA": BackendRules(
        sections=("Command", "Input Files", "Output Expectations", "Risk Assessment"),
        runs="command",
        network=True,
        container=True,
        data_inputs=False,
    ),
    "monty": BackendRules(
        sections=("Code", "Inputs (JSON)", "Output Expectations", "Risk Assessment"),
        runs="code",
        network=False,
        container=False,
        data_inputs=True,
    ),
    "apply": BackendRules(
        sections=("Changes", "Output Expectations", "Risk Assessment"),
        runs="changes",
        network=False,
        container=False,
        data_inputs=True,
        version="2",
        keys=("project",),
        optional=("deliver",),
    ),
    "mcp": BackendRules(
        sections=("Arguments (JSON)", "Output Expectations", "Risk Assessment"),
        runs="call",
        network=False,
        container=False,
        data_inputs=True,
        version="2",
        keys=("server", "tool", "manifest_sha256"),
    ),
}
DEFAULT_BACKEND: Final[Backend] = "ERA"
OPTIONAL_SECTIONS: Final = frozenset({"Inputs (JSON)"})
