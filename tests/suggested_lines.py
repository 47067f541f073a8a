"""The command lines in a text that a person reads, and whether the real commands take them.

In prose a line ends where its words are no words of a command line any more: `see: threegate show ID, or …`.
"""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from threegate.cli import app

_CALL = re.compile(r"(?<![\w/.@:'\"-])(?<!install )(?<!-p )(?:\.venv/bin/)?threegate (?=([a-z-][^\n`<]*))")
_VALUE = re.compile(
    r"\{\}|[A-Z][A-Z_]+(?:\|[A-Z_-]+)*|[A-Z]|'[^']*'|\"[^\"]*\"|[\w.@~+:-]*(?:[/*{…]|\d)[\w./@~+:{}*…-]*|-"
)
"""A word in prose that is an argument: a placeholder, a quoted text, a path, a name with a digit."""

_WORDS = frozenset(("codex", "generic", "claude", "on", "off", "status", ".", ".threegate"))
"""Arguments that look like words of prose."""


def texts_of_code(path: Path) -> Iterator[tuple[int, str]]:
    """Each string of a module that is no docstring, with `{}` for what is filled in."""
    tree = ast.parse(path.read_text())
    docs, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            docs.add(node.value)
        if isinstance(node, ast.JoinedStr):
            parts |= set(node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            said = (str(item.value) if isinstance(item, ast.Constant) else "{}" for item in node.values)
            yield node.lineno, "".join(said)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs | parts:
            yield node.lineno, node.value


def lines_in(text: str) -> Iterator[str]:
    """The command lines in prose, as far as they are that."""
    for call in _CALL.finditer(text):
        words = _words(call[1])
        if words:
            yield shlex.join(("threegate", *words)).replace("'{}'", "{}")


def _words(rest: str) -> list[str]:
    """The words up to the end of the line in it; empty if the first one is none of a command."""
    command, words = _tree(), []
    value = False  # whether the next word is an option's
    for raw in re.findall(r"'[^']*'\S*|\"[^\"]*\"\S*|\S+", rest):
        word = raw.rstrip(",;.:)?!\"'") if not raw.startswith(("'", '"')) else raw.rstrip(",;.:)")
        more = word == raw
        below = _below(command)
        if value or (not below and (words and words[-1] == "--" or word in _WORDS or _VALUE.fullmatch(word))):
            value = False
        elif below and word.partition("|")[0] in below:
            word = word.partition("|")[0]
            command = below[word]
        elif word.startswith("--") or re.fullmatch(r"-[a-zA-Z]", word):
            found = _options(command).get(word.partition("=")[0])
            value = found is not None and not found.is_flag and "=" not in word
        else:
            words += [word] if command is _tree() else []
            break
        words.append(word.strip("'\""))
        if not more:
            break
    return words


def problem(line: str, *, named: bool = False) -> str | None:
    """Why the commands do not take this line, or None. Values are not looked at: a placeholder has none. `named`: the
    text is about the command, so that arguments may be missing.
    """
    program, *words = [word for word in shlex.split(line) if word]
    assert program == "threegate"
    command, path, arguments = _tree(), ["threegate"], 0
    while words:
        word = words.pop(0)
        if word == "--" and not _below(command):
            arguments += len(words)
            break
        if word.startswith("-") and word != "-":
            name, sign, _ = word.removesuffix("{}").partition("=")
            option = _options(command).get(name)
            if name == "--help":
                return None
            if option is None:
                return f"{' '.join(path)} has no option {name}"
            if option.is_eager or not option.expose_value:  # it does something by itself
                return None
            if not option.is_flag and not sign:
                if not words and not named:
                    return f"{name} needs a value"
                del words[:1]
        elif below := _below(command):
            if word not in below:
                return f"{' '.join(path)} has no command {word}"
            command, path = below[word], [*path, word]
        else:
            arguments += 1
    if _below(command) and not named:
        return f"{' '.join(path)} does nothing by itself"
    slots = [item for item in command.params if item.param_type_name == "argument"]
    least = 0 if named else sum(item.required for item in slots)
    most = None if any(item.nargs == -1 for item in slots) else len(slots)
    if arguments < least or (most is not None and arguments > most):
        return f"{' '.join(path)} takes {least if most is None else most} arguments, not {arguments}"
    return None


@functools.cache
def _tree() -> Any:
    return typer.main.get_command(app)


_known: dict[int, dict[str, Any]] = {}


def _below(command: Any) -> dict[str, Any]:
    if not hasattr(command, "list_commands"):
        return {}
    if id(command) not in _known:
        context = typer.Context(command)
        _known[id(command)] = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return _known[id(command)]


def _options(command: Any) -> dict[str, Any]:
    return {name: item for item in command.params for name in (*item.opts, *item.secondary_opts)}
