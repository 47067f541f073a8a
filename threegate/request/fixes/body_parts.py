"""Parts of a body that a fix is about: where a section begins and ends, and what the front matter says of its files."""

from __future__ import annotations

import re

from threegate.request.fixes.edit import Draft
from threegate.request.frame import section_names, section_of
from threegate.request.sections import lines_outside_fences

_FIELD = {"inputs": "name", "outputs_expected": "path"}


def headings(draft: Draft) -> dict[int, str]:
    """The sections that there are, by the number of the line of their headings, in the one form or another."""
    start = 0 if draft.frame is None else draft.frame.body
    lines = lines_outside_fences(draft.lines[start:])
    return {start + index + 1: name for index, line in lines if (name := section_of(line)) is not None}


def span(draft: Draft, name: str) -> range:
    """The numbers of the lines of a section, with its heading: up to the next of the one form. Empty if it is not
    there."""
    exact = {f"## {known}" for known in section_names()}
    found = sorted(number for number, known in headings(draft).items() if known == name)
    if not found:
        return range(0)
    below = range(found[0] + 1, len(draft.lines) + 1)
    end = next((number for number in below if draft.line(number).rstrip() in exact), len(draft.lines) + 1)
    return range(found[0], end)


def filled_lines(draft: Draft, name: str) -> list[int]:
    """Numbers of the lines below a section's heading that are not empty."""
    return [number for number in span(draft, name)[1:] if draft.lines[number - 1].strip()]


def declared_files(draft: Draft, key: str) -> list[str] | None:
    """Names of the files that a list of the front matter has, without their folder; empty where there is no such list.
    None where they are not clear."""
    lines = draft.lines[: draft.end]
    start = next((index for index, line in enumerate(lines) if line.startswith(f"{key}:")), None)
    if start is None:
        return []
    below = lines[start + 1 :]
    length = next((index for index, line in enumerate(below) if line[:1] not in (" ", "-", "")), len(below))
    text = "\n".join((lines[start], *below[:length]))
    names = re.findall(
        rf"\b{_FIELD[key]}:[ ]*[\"']?(?:/out/)?([A-Za-z0-9][A-Za-z0-9._/-]*)[\"']?[ ]*(?:[,}}\n]|$)", text
    )
    if not names and re.fullmatch(rf"{key}:[ ]*(?:\[[ ]*\]|null|none|~)?\s*", text):
        return []
    return names if len(names) == len(re.findall(rf"\b{_FIELD[key]}:", text)) and names else None
