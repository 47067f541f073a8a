"""docs/rules.md, generated from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterator

from threegate.request.characters import visible
from threegate.request.gate_rules import RULES, Rule

_PARTS = {
    "TG1": "File and front matter",
    "TG2": "Body",
    "TG3": "Command",
    "TG4": "Code and variables",
    "TG5": "Content of the whole file",
}
_LINES = 14
_CHARS = 100


def rules_page() -> str:
    """The whole page, ending with a newline."""
    return "\n".join(_page()) + "\n"


def example_lines(example: str) -> list[str]:
    """An example as lines for people: hidden characters shown, long ones cut."""
    lines = visible(example.encode("utf-8", "backslashreplace").decode()).replace("\r", "<U+000D>").split("\n")
    shown = [line if len(line) <= _CHARS else f"{line[:_CHARS]}… ({len(line)} characters)" for line in lines[:_LINES]]
    return shown if len(lines) <= _LINES else [*shown, f"… ({len(lines)} lines)"]


def _page() -> Iterator[str]:
    yield "# The rules of gate 1"
    yield ""
    yield "This page lists every rule of gate 1, with requests that it accepts and refuses."
    yield ""
    yield (
        "An example shows only the lines that matter, in an otherwise valid request: `{request}` is the whole request,"
    )
    yield (
        "`-key` and `-## Name` remove something, `^text` is put before the first section, and `{approved}` makes it an"
    )
    yield (
        "approved request. `threegate validate --explain TG101` shows one rule with all of its examples. "
        "`threegate validate --rules --format markdown`"
    )
    yield "prints this page; the tests run every example."
    for prefix, title in _PARTS.items():
        rules = [rule for rule in RULES.values() if rule.id.startswith(prefix)]
        yield from ("", f"## {title}", "", "| id | name | severity | message |", "|---|---|---|---|")
        for rule in rules:
            message = rule.message.replace("|", "\\|")
            yield f"| [{rule.id}](#{rule.id.lower()}) | {rule.name} | {rule.severity} | {message} |"
        for rule in rules:
            yield from _section(rule)


def _section(rule: Rule) -> Iterator[str]:
    yield from (
        "",
        f"### {rule.id}",
        "",
        f"**{rule.name}** ({rule.severity}, {rule.where}): {rule.message}",
        "",
        rule.help,
    )
    for title, examples in (("Accepted:", rule.accepted[:1]), ("Refused:", rule.refused[:2])):
        for example in examples:
            yield from ("", title, "", *(f"    {line}".rstrip() for line in example_lines(example)))
