"""Every print of the program goes through `shown/messages.py`, where one call is one line, whatever it is made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import threegate

PACKAGE = Path(threegate.__file__).parent
ELSEWHERE = {
    "approval/shown/messages.py": "the one way",
    "core/lexer_process.py": "a child's answers to its parent, in JSON",
    "cli/progress.py": "a line that is erased; its words are constants",
    "cli/__init__.py": "closes stderr after a broken pipe",
    "daemon/log.py": "JSON lines and lines for the journal",
    "plugins/changes/apply/as_owner.py": "a child's answer to its parent, in JSON",
    "runners/era/keeper.py": "a program in a container",
    "runners/jail/host_proxy.py": "a child's answers to its parent: the list that it was given",
    "plugins/tools/mcp/server_container.py": "a server's stderr, which its parent reads",
}
"""Modules that may write to a standard stream, and why."""
PRINTS = {"print", "echo", "secho", "confirm", "prompt", "pprint", "print_exc", "print_exception", "print_stack"}
SAYS = {"say", "warn", "put", "prompt", "ask", "confirmed"}


def prints(tree: ast.AST) -> Iterator[str]:
    """Everything that writes to a standard stream, or could."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr", "sys.__stdout__"):
            if not is_asked(tree, node):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            owner, _, name = called.rpartition(".")
            of_library = owner in ("", "typer", "click", "rich", "pprint", "traceback")
            if (
                (of_library and name in PRINTS and (owner or name != "prompt"))
                or name in ("Console", "StreamHandler", "basicConfig")
                or called == "warnings.warn"
                or (called in ("os.write", "os.writev") and ast.unparse(node.args[0]) in ("1", "2"))
            ):
                yield called
        elif isinstance(node, ast.ImportFrom) and node.module in ("typer", "click", "sys", "rich"):
            yield from (alias.name for alias in node.names if alias.name in PRINTS | {"stdout", "stderr"})


def is_asked(tree: ast.AST, stream: ast.Attribute) -> bool:
    """Whether a stream is only asked what it is, or polled."""
    return any(
        (isinstance(node, ast.Attribute) and node.value is stream and node.attr in ("isatty", "fileno"))
        or (isinstance(node, ast.List) and stream in node.elts)
        for node in ast.walk(tree)
    )


def lines_in_a_line(tree: ast.AST) -> Iterator[str]:
    """Line breaks of ours in a text that is one line: they would be shown as escapes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SAYS:
            for argument in node.args:
                literals = [argument, *getattr(argument, "values", ()), *getattr(argument, "elts", ())]
                texts = [item.value for item in literals if isinstance(item, ast.Constant)]
                if any(isinstance(text, str) and "\n" in text for text in texts):
                    yield ast.unparse(node)


def test_nothing_prints_by_itself() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): names
        for path in sorted(PACKAGE.rglob("*.py"))
        if (names := list(prints(ast.parse(path.read_text()))))
    }
    assert {name: names for name, names in found.items() if name not in ELSEWHERE} == {}
    assert set(found) == set(ELSEWHERE), "a module of the list does not print any more"


def test_a_line_is_one_line() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): calls
        for path in sorted(PACKAGE.rglob("*.py"))
        if (calls := list(lines_in_a_line(ast.parse(path.read_text()))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        "print(x)",
        "typer.echo(x)",
        "typer.confirm(x)",
        "from typer import echo",
        "from sys import stdout",
        "sys.stdout.write(x)",
        "sys.stderr.buffer.write(x)",
        "print(x, file=sys.stderr)",
        "stream = sys.stdout",
        "write(sys.stdout)",
        "os.write(2, x)",
        "Console(stderr=True)",
        "traceback.print_exc()",
        "warnings.warn(x)",
        "logging.StreamHandler()",
    ],
)
def test_the_lint_finds(code: str) -> None:
    assert list(prints(ast.parse(code)))


@pytest.mark.parametrize("code", ["say(f'a\\n{x}')", "warn('a\\nb')", "invocation.put(['a\\nb'])"])
def test_the_lint_finds_lines_in_a_line(code: str) -> None:
    assert list(lines_in_a_line(ast.parse(code)))
