"""Which tools of added servers a run may call: those that the operator chose for it, or all of them.

Invariant: a choice only narrows. Its words are SERVER or SERVER/GLOB; a tool that no word names is neither offered nor
called, and a draft that the agent wrote for it has no Job (`tools/requested_call.py`). Source: docs/agents.md, "Fewer
tools".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from threegate.core.errors import InvalidInput
from threegate.plugins.agents.door_tools import OfferedTool
from threegate.plugins.changes.section import CHOSEN_TOOL, AgentsSettings
from threegate.plugins.tools import requested_call


def chosen_tools(
    typed: Sequence[str], before: Sequence[str], agents: AgentsSettings, *, project: str, profile: str
) -> tuple[str, ...]:
    """The choice for a run: that of the command line, else of the run `before` in whose copy it continues, else of the
    project, else of the profile. Empty: all tools. Raises InvalidInput for a word that could not name a tool.
    """
    for word in typed:
        if not re.fullmatch(CHOSEN_TOOL, word):
            raise InvalidInput(f"--tools {word}: write SERVER, or SERVER/TOOL with * for any text")
    own = agents.profiles.get(profile)
    return tuple(typed or before or agents.projects.get(project, ()) or (own.tools if own else ()))


def is_chosen(choice: Sequence[str], tool: OfferedTool) -> bool:
    """Whether a run with this choice may call a tool."""
    return requested_call.is_chosen(choice, tool.server, tool.tool.name)


def told_choice(choice: Sequence[str], known: Collection[OfferedTool]) -> str:
    """One line for the person who starts a run; `known` are all tools. Empty if there is none and none was chosen."""
    if not known and not choice:
        return ""
    number = sum(is_chosen(choice, tool) for tool in known)
    if not choice:
        return f"tools of servers: all {number} (fewer: --tools SERVER/TOOL)"
    lost = [word for word in choice if not any(is_chosen((word,), tool) for tool in known)]
    none = f"; none has the name {', '.join(lost)}: threegate tools list" if lost else ""
    return f"tools of servers: {number} of {len(known)}, by {', '.join(choice)}{none}"
