"""The tasks of AgentDojo as lists of calls, and what the contracts and grants say of a call.

Invariant: nothing here knows a task: a call is judged by its tool and its arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threegate.contracts import compile_folder
from threegate.contracts.folder import read_folder
from threegate.core.errors import InvalidInput
from threegate.core.settings import RequestSettings
from threegate.tools.call_draft import draft_call, tool_call

CONTRACTS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "contracts" / "agentdojo"
PAGES = frozenset({"www.informations.com", "www.restaurant-zurich.com"})
"""The pages that the grants of `slack.get_webpage` name: those that colleagues named in channels before any task began."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a ground truth."""

    suite: str
    tool: str
    arguments: Mapping[str, Any]
    changes: bool
    """Whether it changed the environment when it was recorded."""

    @property
    def key(self) -> str:
        """Tool and arguments: what a signature is about."""
        return call_key(self.tool, self.arguments)


def call_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Equal for equal calls; 10 and 10.0 are one number."""
    whole = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in arguments.items()
    }
    return json.dumps([tool, whole], sort_keys=True)


def user_tasks(recorded: Mapping[str, Any], suite: str) -> dict[str, list[Call]]:
    """What each user task calls, in order."""
    return _tasks(recorded, suite, "user_tasks")


def injection_tasks(recorded: Mapping[str, Any], suite: str) -> dict[str, list[Call]]:
    """What each injection calls; for nine of 35 the package has no calls."""
    return _tasks(recorded, suite, "injection_tasks")


def _tasks(recorded: Mapping[str, Any], suite: str, kind: str) -> dict[str, list[Call]]:
    return {
        task: [Call(suite, *row) for row in rows] for task, rows in recorded["suites"][suite][kind].items()
    }


class Rules:
    """The contracts, and the grants that an operator wrote before."""

    def __init__(self) -> None:
        """Compile the folder."""
        self._compiled = compile_folder(read_folder(CONTRACTS), environment={})

    def is_read(self, suite: str, tool: str) -> bool:
        """Whether the contract of the tool says that it changes nothing."""
        return all(
            contract.side_effect == "read" for contract in self._compiled.contracts_of(f"{suite}.{tool}")
        )

    def is_refused(self, call: Call) -> bool:
        """Whether gate 1 takes no request for the call, whoever asks: a password in it, say."""
        asked = tool_call(call.suite, call.tool, "0" * 64, call.arguments)
        try:
            draft_call(asked, requested_by="core", now=datetime.now(UTC), settings=RequestSettings())
        except InvalidInput:
            return True
        return False

    def is_granted(self, call: Call) -> bool:
        """Whether a grant covers the call: every read with any arguments, and of the web the two pages."""
        return self.is_read(call.suite, call.tool) and (
            call.tool != "get_webpage" or call.arguments["url"] in PAGES
        )

    def changes(self, call: Call) -> bool:
        """Whether the call changes something: it did when it was recorded, or its contract says so."""
        return call.changes or not self.is_read(call.suite, call.tool)
