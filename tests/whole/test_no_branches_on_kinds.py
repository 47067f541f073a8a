"""Which backend a request is for, and which kind of action it has, is asked nowhere: each answers for itself.

A place that must know more of one kind than its answers belongs into that backend's folders.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from threegate.plugins.changes.requested_change import RequestedChange
from threegate.plugins.tools.requested_call import RequestedCall
from threegate.request.action import Action
from threegate.request.backend import BACKENDS, Backend, Bound

PACKAGE = Path(__file__).resolve().parents[2] / "threegate"
OWN = ("plugins/agents/reach/", "plugins/changes/", "plugins/tools/", "runners/era/", "runners/monty/")
"""The folders of the backends."""
PARTS = {"call", "project", "changes", "change", "argv", "code", "server"}
"""What only one kind has: whoever asks whether it is None asks for the kind."""
OTHERS = {
    "plugins/agents/door_calls.py": "the argument `where` of the door, which chooses a form of the call",
    "plugins/proposals/argv.py": "the words of a command that an agent proposes, where it is well-formed",
}
"""Where something else has the name of such a part."""


def below(kind: type) -> Iterator[str]:
    yield kind.__name__
    for other in kind.__subclasses__():
        yield from below(other)


def kinds() -> set[str]:
    assert set(BACKENDS) == {backend.name for backend in BACKENDS.values()}
    assert {RequestedChange, RequestedCall} <= set(Bound.__subclasses__())
    return {*below(Action), *below(Backend), *below(Bound)} - {"Action", "Backend", "Bound"}


def names(node: ast.AST) -> set[str]:
    return {getattr(item, "attr", getattr(item, "id", "")) for item in ast.walk(node)}


def branches(tree: ast.AST, imported: set[str]) -> Iterator[int]:
    """The lines that ask which one it is; `imported` are the kinds that the file has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            if names(node.args[1]) & imported:
                yield node.lineno
        elif isinstance(node, ast.MatchClass):
            if names(node.cls) & imported:
                yield node.lineno
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            listed = [item for side in sides for item in getattr(side, "elts", [side])]
            words = {item.value for item in listed if isinstance(item, ast.Constant)}
            asked = {side.attr for side in sides if isinstance(side, ast.Attribute)}
            if words & set(BACKENDS) or (None in words and asked & PARTS):
                yield node.lineno


def of_file(path: Path, known: set[str]) -> list[str]:
    tree = ast.parse(path.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    of_kinds = [
        node
        for node in imports
        if (node.module or "").endswith(("action", "backend", "requested_change", "requested_call"))
    ]
    imported = {item.name for node in of_kinds for item in node.names} & known
    return [f"{path.relative_to(PACKAGE)}:{line}" for line in branches(tree, imported)]


def test_no_code_outside_a_backend_asks_which_one_it_is() -> None:
    known = kinds()
    assert len(known) > 8
    paths = [path for path in PACKAGE.rglob("*.py") if not path.relative_to(PACKAGE).as_posix().startswith(OWN)]
    found = [line for path in paths for line in of_file(path, known)]
    assert sorted({line.partition(":")[0] for line in found}) == sorted(OTHERS), found


@pytest.mark.parametrize(
    "text",
    [
        'request.backend == "mcp"',
        'job.backend not in ("apply", "mcp")',
        "job.action.change is None",
        "request.project is not None",
        "isinstance(action, Action | ToolCall)",
        "match action:\n    case ToolCall(): pass",
    ],
)
def test_it_would_be_found(text: str) -> None:
    assert list(branches(ast.parse(text), {"ToolCall"}))
