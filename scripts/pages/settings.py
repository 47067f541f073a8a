"""docs/settings.md: every setting of threegate.toml, from the models that read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from threegate.core.settings import SecretReference, setting_rows
from threegate.core.toml_table import REQUIRED, Rule, kinds_of
from threegate.plugins.changes.section import AgentSettings
from threegate.plugins.evidence.section import WitnessReference
from threegate.setup.settings_file import toml_value


def settings_page() -> str:
    """The whole page, ending with a newline."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Every setting"
    yield ""
    yield "This page lists every setting of `threegate.toml` with its default, its values and its meaning."
    yield ""
    yield (
        "`threegate.toml` is in the workspace's folder; `threegate init` writes it with every setting as a "
        "comment. One mistake makes the"
    )
    yield (
        "whole file invalid. `threegate settings check` checks it, and `threegate settings show --origin` prints "
        "each value and whether it"
    )
    yield "comes from the file. `scripts/generate_docs.py` makes this page."
    yield ""
    yield (
        "A change of a setting voids the waiting approvals of requests that depend on it, and no others "
        "([the list](spec/2-approval.md#policy)). The refusal names"
    )
    yield "the setting, and `threegate draft --again` makes a fresh draft."
    tables: dict[str, list[str]] = {}
    for name, kind, rule in setting_rows():
        tables.setdefault(name.rpartition(".")[0] or name, []).append(_row(name, kind, rule))
    for table, rows in tables.items():
        yield from (
            "",
            f"## {table}",
            "",
            "| setting | default | values | meaning |",
            "|---|---|---|---|",
            *rows,
        )
    for table, model in (
        ("secrets", SecretReference),
        ("witnesses", WitnessReference),
        ("agents", AgentSettings),
    ):
        yield from (
            "",
            f"## {table}.NAME",
            "",
            "| setting | default | values | meaning |",
            "|---|---|---|---|",
        )
        kinds = kinds_of(model)
        for name, rule in model.rules.items():
            yield _row(f"{table}.NAME.{name}", kinds[name], rule)


def _row(name: str, kind: Any, rule: Rule) -> str:
    default = "required" if rule.default is REQUIRED else f"`{toml_value(rule.default)}`"
    shown = default if len(default) < 62 else f"{default[:58]}…`"
    description = rule.description.replace("|", "\\|")
    return f"| `{name}` | {shown} | {_values(kind, rule)} | {description} |"


def _values(kind: Any, rule: Rule) -> str:
    if get_origin(kind) is Literal:
        return " ".join(f"`{value}`" for value in get_args(kind))
    if rule.parse is not None:
        return "90s, 15m, 24h, 7d"
    bounds = [f"{sign} {value}" for sign, value in (("≥", rule.ge), ("≤", rule.le)) if value is not None]
    words = {"int": "whole number", "float": "number", "bool": "true or false", "str": "text"}
    name = words.get(getattr(kind, "__name__", ""), "table" if get_origin(kind) is dict else "list of texts")
    return " ".join([name, *bounds])
