"""Tools of added servers at the door: `SERVER__TOOL`, with the pinned schema and answers in MCP's form.

Invariant: only what an operator signed is offered, and a name identifies one tool. An answer is the server's
own after masking: nothing is added to its blocks, and nothing in it is ours.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.core import canonical, limits
from threegate.core.errors import ThreeGateError
from threegate.core.workspace import Workspace
from threegate.plugins.tools.manifest import PinnedTool, door_name, read_manifest, server_names
from threegate.plugins.tools.mcp.answer_files import FILE_KEY, RESULT, binary_part
from threegate.trail.trail import Trail

_BETWEEN: Final = "__"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a server as the door offers it."""

    server: str
    tool: PinnedTool
    manifest_sha256: str


def offered_tools(workspace: Workspace, trail: Trail) -> dict[str, OfferedTool]:
    """By door name; empty if this process may not read what is pinned. A server whose manifest is not valid
    is left out, and so are tools whose names here are equal.
    """
    found: dict[str, OfferedTool] = {}
    try:
        with trail.locked() as held:
            manifests = []
            for name in server_names(held.index):
                try:
                    manifests.append(read_manifest(workspace, held.index, name))
                except ThreeGateError:
                    continue  # its calls would be refused: nothing to offer
    except (ThreeGateError, OSError):
        return {}  # the agent's own account cannot find out
    twice = set()
    for manifest in manifests:
        if manifest.place == "caller":
            continue  # an agent's client has no such functions
        for tool in manifest.tools:
            name = door_name(manifest.server, tool.name)
            if name in found:
                twice.add(name)  # nobody could say which of them is meant
            found[name] = OfferedTool(manifest.server, tool, manifest.digest)
    return {name: tool for name, tool in found.items() if name not in twice}


def is_tool_name(name: str) -> bool:
    """Whether a name is that of a server's tool; the door's own tools have no such names."""
    return _BETWEEN in name


def tool_answer(rows: Iterable[Mapping[str, Any]], read: Callable[[str, int], bytes]) -> dict[str, Any] | None:
    """A tool's answer, rebuilt with its images from the returned outputs; None if it is incomplete.

    `read` returns the bytes of an output by its path and size. Raises InvalidInput, OSError.
    """
    sizes = {str(row["path"]): int(row["size"]) for row in rows if row["released"]}
    if sizes.get(RESULT, limits.TOOL_RESULT_BYTES + 1) > limits.TOOL_RESULT_BYTES:
        return None
    try:
        value = canonical.loads_strict(read(RESULT, sizes[RESULT]), max_bytes=limits.TOOL_RESULT_BYTES)
    except canonical.StrictJSONError:
        return None
    blocks = []
    for block in value["content"]:
        holder, key = binary_part(block)
        name = holder.pop(FILE_KEY, None)
        if name in sizes:
            holder[key] = base64.b64encode(read(name, sizes[name])).decode()
        elif name is not None:
            block = {
                "type": "text",
                "text": f"the bytes of this {block['type']} were held back; ask the operator",
            }
        blocks.append(block)
    return {**value, "content": blocks}
