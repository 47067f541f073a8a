"""The smallest contracts, and how the tests lay fields over them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threegate.contracts import transitions
from threegate.contracts.compiled import Compiled
from threegate.contracts.compiler import compile_folder
from threegate.contracts.state import Call, Session

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "contracts"

TOOL: dict[str, Any] = {
    "side_effect": "read",
    "evidence_class": "ack_only",
    "commit_requirement": "acknowledged",
    "timeouts": {"total_ms": 1000},
    "retries": {"max_attempts": 1, "retry_on": []},
    "rate_limits": {"on_429": {"respect_retry_after": True, "max_sleep_seconds": 10}},
    "assertions": {"input_invariants": [], "output_invariants": []},
    "golden_cases": [],
    "allowed_errors": [],
    "implements": {"argv_prefix": ["t"]},
}
SESSION: dict[str, Any] = {"schema_version": "1.0", "agent": "tests"}
WORKFLOW: dict[str, Any] = {
    "schema_version": "1.0",
    "workflow": "w",
    "roles": [{"name": "boss", "session_contract": "session.yaml"}],
}
GONE = "(gone)"
"""Takes a field away."""


def laid_over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `more` on top, field by field."""
    merged = {**base, **more}
    return {key: value for key, value in merged.items() if value != GONE}


def folder(spec: Mapping[str, Any]) -> dict[str, bytes]:
    """Files of a folder: `<tool>`, `session`, `workflow` are laid over the smallest ones; a name with an ending is a
    file as it stands (text, or JSON)."""
    files = {}
    for name, fields in spec.items():
        if name.endswith((".yaml", ".yml", ".json", ".md")):
            files[name] = (fields if isinstance(fields, str) else json.dumps(fields)).encode()
        elif isinstance(fields, str):
            files[f"{name}.yaml"] = fields.encode()
        elif name.rpartition("/")[2] == "session":
            files[f"{name}.yaml"] = json.dumps(laid_over(SESSION, fields)).encode()
        elif name == "workflow":
            files[f"{name}.yaml"] = json.dumps(laid_over(WORKFLOW, fields)).encode()
        else:
            files[f"{name}.yaml"] = json.dumps(laid_over({"tool": name, **TOOL}, fields)).encode()
    return files


def compiled(spec: Mapping[str, Any], **more: Any) -> Compiled:
    """A folder that must compile."""
    found = compile_folder(folder(spec), environment=more.pop("environment", {"STAGE": "live"}), **more)
    assert found.ok, [item.render() for item in found.diagnostics]
    return found


def codes(spec: Mapping[str, Any], **more: Any) -> list[str]:
    """The codes of a folder's diagnostics, without the one about `implements`."""
    found = compile_folder(folder(spec), environment={"STAGE": "live"}, **more)
    return sorted({item.code for item in found.diagnostics} - {"NO_IMPLEMENTS"})


def opened(spec: Mapping[str, Any], **more: Any) -> Session:
    """A new session under a folder's session.yaml."""
    return transitions.open_session(compiled(spec, **more).rules)


def call(arguments: Mapping[str, Any] | None = None, tool: str = "t", **more: Any) -> Call:
    """A call of `t`."""
    return Call(tool, arguments or {}, **more)
