"""Which rules apply to a call, and what makes two calls equal.

Invariant: the requester does not choose the rules. A request is subject to its backend's contract, and to
another tool's only if that contract states that it is what this request is. A call of a server's tool is subject
to a contract that states nothing of requests.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from threegate.contracts.state import Call, Decision, block
from threegate.contracts.tool_names import resolve

if TYPE_CHECKING:
    from threegate.contracts.tool_rules import Rules, ToolRules

Asked = list[tuple["ToolRules", Any]]
"""Each plan that applies to a call, with the arguments as it sees them."""


def plans_of(rules: Rules, call: Call) -> Asked | Decision:
    """The plans that apply to a call, each with its arguments, or the block if one is missing.

    For a request, the contract of its backend applies besides the named tool's, and the named tool must be
    what the request is (`implements`).
    """
    plan = resolve(rules.plans, call.tool)
    if plan is None:
        return block(0, "no_contract", "no contract describes this tool", "tool")
    if call.served and plan.contract.implements is not None:
        # Of a program of that name, and the operator may give a server any name: `git.status` could be either.
        return block(0, "tool_mismatch", "the contract is of a request (implements), not of a server's tool", "tool")
    if call.backend is None:
        return [(plan, call.arguments)]
    if call.tool == call.backend:
        return [(plan, _root(plan, call))]
    # The backend's contract applies as well: naming a tool with weaker rules must not lift it.
    base = rules.plans.get(call.backend)
    if base is None:
        return block(0, "no_contract", f"no contract describes {call.backend}", "tool")
    if not _implements(plan, call):
        return block(0, "tool_mismatch", "the request is not what the tool's contract says it is", "tool")
    return [(base, _root(base, call)), (plan, _root(plan, call))]


def _root(plan: ToolRules, call: Call) -> Any:
    if plan.contract.arguments_from == "vars":
        return call.arguments.get("vars", {})
    return call.arguments


def _implements(plan: ToolRules, call: Call) -> bool:
    """Whether a request is what the contract states about the tool."""
    said = plan.contract.implements
    if said is None or (said.image is not None and said.image != call.image):
        return False
    if said.code_sha256 is not None and said.code_sha256 != call.code_sha256:
        return False
    if said.argv_prefix is None:
        return True
    argv = call.arguments.get("argv")
    return isinstance(argv, list) and argv[: len(said.argv_prefix)] == said.argv_prefix


def loop_key(call: Call) -> bytes:
    """16 bytes that are equal for equal tool and canonical arguments. Raises TypeError for what is not
    JSON.
    """
    # Else 1.0 instead of 1 would be another call here, and the same to the tool.
    arguments = _whole_numbers(call.arguments)
    data = orjson.dumps([call.tool, arguments], option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(data, digest_size=16).digest()


def _whole_numbers(value: Any) -> Any:
    """`value` with 1.0 as 1, as canonical JSON writes it."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**63 else value
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return value
