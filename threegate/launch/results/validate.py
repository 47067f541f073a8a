"""`threegate validate --as result`: whether a file is a well-formed tool result.

Invariant: never raises for any bytes; an empty list means that a reader who knows the format can take the
file apart without guessing, and that nothing in it hides or acts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from threegate.core import limits
from threegate.core.secretscan.scan import find_secrets
from threegate.launch.results.model import ToolResult
from threegate.launch.results.render import visible
from threegate.request.source import FrontMatter, SourceRefused, plain_value, read_mapping

_SECTIONS = ("Summary", "Provenance", "Outputs", "Stdout", "Stderr", "Safety Notes")
_LABELS = ("Untrusted Output Statement:", "Unexpected behavior:", "Network confirmation:")
_FENCE = re.compile(r"(`{3,})([A-Za-z]*)")


@dataclass(frozen=True, slots=True)
class ResultProblem:
    """One thing that is wrong. `line` counts from 1; the message repeats no value."""

    line: int
    message: str

    def to_json(self) -> dict[str, Any]:
        """The problem as a JSON object."""
        return {"line": self.line, "message": self.message}


def validate_result(data: bytes) -> list[ResultProblem]:
    """Everything that is wrong with a result file, by line; empty when it is well-formed."""
    if len(data) > limits.RESULT_BYTES:
        return [ResultProblem(1, f"more than {limits.RESULT_BYTES} bytes")]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return [ResultProblem(data[: error.start].count(b"\n") + 1, "not UTF-8")]
    try:
        front = FrontMatter(text, max_bytes=limits.RESULT_BYTES // 2)
    except SourceRefused as error:
        return [ResultProblem(1, f"no front matter: {error}")]
    lines = text.split("\n")
    if lines[-1] != "":
        return [ResultProblem(len(lines), "does not end with a newline")]
    problems = [
        ResultProblem(number, "has a control, invisible or unprintable character")
        for number, line in enumerate(lines, start=1)
        if visible(line) != line
    ]
    for found in find_secrets(text):
        problems.append(ResultProblem(text.count("\n", 0, found.start) + 1, f"has a secret ({found.kind})"))
    problems += _front_matter(front.text)
    problems += _body(lines[front.end + 1 : -1], front.end + 2)
    return sorted(problems, key=lambda problem: problem.line)


def _front_matter(front: str) -> list[ResultProblem]:
    try:
        root = read_mapping(front, max_nodes=limits.RESULT_BYTES)  # as strict as a request's
    except SourceRefused as error:
        return [ResultProblem(error.problem.line, error.problem.message)]
    places = {key: node.line for key, (node, _) in root.value.items()}
    problems = [
        ResultProblem(node.line, "is not an unquoted key with a colon") for node, _ in root.value.values() if node.style
    ]
    try:
        result = ToolResult.model_validate(plain_value(root))
    except ValidationError as error:
        for item in error.errors(include_input=False, include_context=False, include_url=False):
            key = ".".join(str(part) for part in item["loc"])
            place = places.get(str(item["loc"][0]), 1) if item["loc"] else 1
            problems.append(ResultProblem(place, f"{visible(key)}: {item['msg']}"))
        return problems
    return problems or _agreement(result, places)


def _agreement(result: ToolResult, places: dict[str, int]) -> list[ResultProblem]:
    """What no single key can say: ids, statuses and streams that contradict each other."""
    problems = []
    stamp = re.sub("[-:]", "", result.created_utc).replace("T", "-")
    if result.result_id != f"TS-{stamp}-{result.request_id}":
        problems.append(ResultProblem(places["result_id"], "result_id is not of created_utc and request_id"))
    if (result.stdout_sha256 is None) != (result.stderr_sha256 is None):
        problems.append(ResultProblem(places["stderr_sha256"], "one stream has a hash and the other has none"))
    if result.status == "refused" and (result.stdout_sha256 or result.artifacts or result.exit_code is not None):
        problems.append(ResultProblem(places["status"], "a refused request has no outputs and no exit code"))
    if result.status == "succeeded" and result.stdout_sha256 is None:
        problems.append(ResultProblem(places["stdout_sha256"], "a request that succeeded has streams"))
    if result.network_destinations and not result.network_used:
        problems.append(ResultProblem(places["network_used"], "destinations are listed, so network was used"))
    paths = [item.path for item in result.artifacts]
    if len(set(paths)) != len(paths):
        problems.append(ResultProblem(places["artifacts"], "a duplicate artifact"))
    if any(path.startswith("/") or ".." in path.split("/") for path in paths):
        problems.append(ResultProblem(places["artifacts"], "an artifact is outside /out/"))
    return problems


def _body(lines: list[str], first: int) -> list[ResultProblem]:
    problems: list[ResultProblem] = []
    sections: dict[str, list[tuple[int, str]]] = {}
    order: list[str] = []
    closing: str | None = None
    opened = shown = 0
    for number, line in enumerate(lines, start=first):
        if closing is not None:
            if line == closing:
                closing = None
            else:
                shown += 1
            if closing is None and shown > limits.RESULT_STDOUT_LINES:
                problems.append(ResultProblem(opened, f"more than {limits.RESULT_STDOUT_LINES} lines are shown"))
            continue
        if line.startswith("```"):
            match = _FENCE.fullmatch(line)
            if match is None or not order or order[-1] not in ("Stdout", "Stderr"):
                problems.append(ResultProblem(number, "a fence that does not belong here"))
                return problems
            closing, opened, shown = match[1], number, 0
        elif line.startswith("#"):
            order.append(line.removeprefix("## "))
            sections.setdefault(order[-1], [])
        elif order:
            sections[order[-1]].append((number, line))
        elif line:
            problems.append(ResultProblem(number, "text before the first section"))
        if re.search(r"<[A-Za-z/!?]", line):
            problems.append(ResultProblem(number, "raw HTML"))
    if closing is not None:
        problems.append(ResultProblem(opened, "the fence is never closed"))
    if tuple(order) != _SECTIONS:
        problems.append(ResultProblem(first, f"the sections are not exactly: {', '.join(_SECTIONS)}"))
        return problems
    for title in ("Summary", "Provenance", "Outputs"):
        if not any(line for _, line in sections[title]):
            problems.append(ResultProblem(first, f"the section {title} is empty"))
    notes = [(number, line) for number, line in sections["Safety Notes"] if line]
    found = [next((label for label in _LABELS if line.startswith(label + " ")), None) for _, line in notes]
    if tuple(label for label in found if label) != _LABELS:
        problems.append(
            ResultProblem(notes[0][0] if notes else first, f"Safety Notes need, once each: {' '.join(_LABELS)}")
        )
    return problems
