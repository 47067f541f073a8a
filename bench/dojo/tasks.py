"""The tasks of AgentDojo as lists of calls, and what the contracts and the list of grants say of a call.

Invariant: no contract and no grant knows a task: a call is judged by its tool and its arguments.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.dojo.package import read_recorded
from threegate.contracts.compiled import read_folder
from threegate.contracts.compiler import compile_folder
from threegate.core.errors import InvalidInput
from threegate.core.settings import RequestSettings
from threegate.plugins.grants.call_rules import CallRules, read_rules
from threegate.plugins.grants.widened import ARGUMENTS
from threegate.plugins.tools.call_draft import draft_call, tool_call

CONTRACTS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "contracts" / "agentdojo"
GRANTS = CONTRACTS.with_name("agentdojo-grants.sh")
_FROM_ZERO = re.compile(r"(\S+)\{0\.\.([0-9]+)\}")


@dataclass(frozen=True, slots=True)
class Given:
    """A line of the list of grants: what it says of the arguments of a tool."""

    suite: str
    tool: str
    where: Sequence[str]
    any_of: Sequence[str]
    absent: Sequence[str]


def read_grants() -> list[Given]:
    """The list, as a shell and `threegate grant tool` read it."""
    words = argparse.ArgumentParser()
    words.add_argument("suite")
    words.add_argument("tool")
    for option, name in (("--where", "where"), ("--any", "any_of"), ("--absent", "absent")):
        words.add_argument(option, dest=name, action="append", default=[])
    lines = [line for line in GRANTS.read_text().splitlines() if line.startswith("grant ")]
    return [Given(**vars(words.parse_args(shlex.split(_FROM_ZERO.sub(_spread, line))[1:]))) for line in lines]


def _spread(found: re.Match[str]) -> str:
    """``A{0..2}`` as bash spreads it."""
    return " ".join(f"{found[1]}{number}" for number in range(int(found[2]) + 1))


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
    return {task: [Call(suite, *row) for row in rows] for task, rows in recorded["suites"][suite][kind].items()}


def _leaves(value: Any, part: str) -> Iterator[tuple[str, Any]]:
    """What is below a part, by the names that a grant has for them."""
    if isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(item, f"{part}.{name}")
    else:
        yield part, value


class Rules:
    """The contracts, and what the list of grants covers."""

    def __init__(self) -> None:
        """Compile the folder, and read the list by the recorded schemas."""
        self._compiled = compile_folder(read_folder(CONTRACTS), environment={})
        suites = read_recorded()["suites"]
        schemas = {(name, tool["name"]): tool["inputSchema"] for name in suites for tool in suites[name]["tools"]}
        self._grants: dict[tuple[str, str], list[CallRules]] = {}
        for given in read_grants():
            tool = given.suite, given.tool
            rules = read_rules(schemas[tool], where=given.where, any_of=given.any_of, absent=given.absent)
            self._grants.setdefault(tool, []).append(rules)

    def is_read(self, suite: str, tool: str) -> bool:
        """Whether the contract of the tool says that it changes nothing."""
        return all(contract.side_effect == "read" for contract in self._compiled.contracts_of(f"{suite}.{tool}"))

    def is_refused(self, call: Call) -> bool:
        """Whether gate 1 takes no request for the call, whoever asks: a password in it, say."""
        asked = tool_call(call.suite, call.tool, "0" * 64, call.arguments)
        try:
            draft_call(asked, requested_by="core", now=datetime.now(UTC), settings=RequestSettings())
        except InvalidInput:
            return True
        return False

    def is_granted(self, call: Call) -> bool:
        """Whether a grant of the list covers the call."""
        leaves = dict(_leaves(dict(call.arguments), ARGUMENTS.removesuffix(".")))
        return any(
            {item.part for item in rules.widened} == leaves.keys()
            and all(item.takes(leaves[item.part]) for item in rules.widened)
            for rules in self._grants.get((call.suite, call.tool), ())
        )

    def changes(self, call: Call) -> bool:
        """Whether the call changes something: it did when it was recorded, or its contract says so."""
        return call.changes or not self.is_read(call.suite, call.tool)
