"""Write threegate.toml: every setting as a comment with its default, so that a person can see all of them.

Invariant: `parse_settings` reads what `render_settings` writes, with exactly the given values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from threegate.core import durable, limits
from threegate.core.settings import SECTIONS, Settings, parse_settings
from threegate.core.toml_table import Table, is_table, kinds_of

_HEADER = (
    "# Settings of this ThreeGate workspace. Every setting is here with its default;\n"
    "# take the `# ` away to change one. `threegate settings check` says whether it holds.\n"
)


def render_settings(values: Mapping[str, Any]) -> str:
    """The text of a settings file in which `values` (dotted names) are set and everything else is a
    comment.
    """
    lines = [_HEADER]
    _render(Settings, (), dict(values), lines)
    for name, section in SECTIONS.all_named().items():
        _render_inner(section.table, (name,), dict(values), lines)
    return "\n".join(lines).rstrip("\n") + "\n"


def _render(table: type[Table], path: tuple[str, ...], values: dict[str, Any], lines: list[str]) -> None:
    kinds = kinds_of(table)
    inner = [name for name in table.rules if is_table(kinds[name])]
    for name, rule in table.rules.items():
        if name in inner:
            continue
        if rule.rest:
            if not path:
                continue  # the sections of plugins, which come last
            lines.extend([f"# {rule.description}", f"# {rule.example}"])
            continue
        if rule.example and path:  # in one line: a table of its own would end the one that it is in
            lines.extend([f"# {rule.description}", f"# {name} = {{ {rule.example} }}"])
            continue
        if rule.example:
            lines.extend(["", f"[{name}]", f"# {rule.description}", f"# {rule.example}"])
            continue
        dotted = ".".join((*path, name))
        lines.append(f"# {rule.description}")
        if dotted in values:
            lines.append(f"{name} = {toml_value(values[dotted])}")
        else:
            lines.append(f"# {name} = {toml_value(rule.default)}")
    for name in inner:
        _render_inner(kinds[name], (*path, name), values, lines)


def _render_inner(table: type[Table], path: tuple[str, ...], values: dict[str, Any], lines: list[str]) -> None:
    summary = (table.__doc__ or "").strip().splitlines()[0]
    lines.extend(["", f"[{'.'.join(path)}]", f"# {summary}"])
    _render(table, path, values, lines)


def toml_value(value: Any) -> str:
    """A setting's value as TOML text: JSON's strings, numbers and arrays are TOML's too."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def set_values(path: Path, values: Mapping[str, Any]) -> None:
    """Set dotted names in a settings file, keeping every other line unchanged. Raises InvalidInput, OSError.

    The whole file is checked before and after, and replaced in one rename.
    """
    data = durable.read_regular(path, max_bytes=limits.SETTINGS_BYTES)
    parse_settings(data, path)
    lines = data.decode().splitlines()
    for dotted, value in values.items():
        *table, name = dotted.split(".")
        _set_line(lines, ".".join(table), name, toml_value(value))
    text = "\n".join(lines) + "\n"
    parse_settings(text.encode(), path)
    durable.overwrite(path, text.encode(), 0o644)


def _set_line(lines: list[str], table: str, name: str, value: str) -> None:
    header = f"[{table}]"
    stripped = [line.strip() for line in lines]
    if header not in stripped:
        lines.extend(["", header, f"{name} = {value}"])
        return
    start = stripped.index(header) + 1
    end = next((i for i in range(start, len(lines)) if stripped[i].startswith("[")), len(lines))
    for pattern in (f"{name} =", f"# {name} ="):
        for index in range(start, end):
            if stripped[index].startswith(pattern):
                lines[index] = f"{name} = {value}"
                return
    lines.insert(start, f"{name} = {value}")
