"""The command reader of gate 1: one line of text becomes an argv, or is refused with the rules that say why."""

from __future__ import annotations

from threegate.request.command.data_tools import why_opaque
from threegate.request.command.pinned_script import script_word
from threegate.request.command.read_command import (
    WARNINGS,
    ReadCommand,
    read_argv,
    read_command,
    starts_refused,
)

__all__ = [
    "WARNINGS",
    "ReadCommand",
    "read_argv",
    "read_command",
    "script_word",
    "starts_refused",
    "why_opaque",
]
