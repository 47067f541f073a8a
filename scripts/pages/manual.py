"""docs/cli.md and docs/man/threegate.1: every command with its options, from the command line's own tree."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import typer

from scripts.pages.codes import EXITS


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that can be typed, with its Click object, groups before their commands."""
    from threegate import cli

    root = typer.main.get_command(cli.app)
    yield from _from("threegate", root, typer.Context(root, info_name="threegate"))


def _from(path: str, command: Any, context: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _from(f"{path} {name}", command.get_command(context, name), context)


def usage(path: str, command: Any) -> str:
    """`threegate approve [OPTIONS] DRAFT`"""
    pieces = command.collect_usage_pieces(typer.Context(command, info_name=path))
    return " ".join([path, *(piece for piece in pieces if piece != "[OPTIONS]" or _options(command))])


def _options(command: Any) -> list[tuple[str, str]]:
    """(spelling, help) of each option but --help and the shell's completion."""
    rows = []
    for item in command.params:
        if item.param_type_name != "option" or item.name in ("help", "install_completion", "show_completion"):
            continue
        names = ", ".join([*item.opts, *item.secondary_opts])
        value = "" if item.is_flag else f" {item.metavar or item.display_type(typer.Context(command))}"
        rows.append((f"{names}{value}", item.help or ""))
    return rows


def _arguments(command: Any) -> list[tuple[str, str]]:
    """(name, help) of each argument."""
    items = [item for item in command.params if item.param_type_name == "argument"]
    return [(item.metavar or item.name.upper(), item.help or "") for item in items]


def _help(command: Any) -> str:
    """What a command says of itself, without its examples."""
    return " ".join((command.help or "").partition("\n\nExample")[0].split())


def _examples(command: Any) -> list[str]:
    return command.examples() if hasattr(command, "examples") else []


def cli_page() -> str:
    """docs/cli.md, ending with a newline."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# Every command"
    yield ""
    yield (
        "This page lists every command with its arguments, its options and an example, as `--help` and `man "
        "threegate` show them."
    )
    yield ""
    yield (
        "[What a request may run](commands.md) describes the Command section of a request, and "
        "[codes.md](codes.md) the exit codes."
    )
    yield "`scripts/generate_docs.py` makes this page."
    for path, command in commands():
        yield from ("", f"## {path}", "", _help(command), "", f"    {usage(path, command)}")
        rows = [*_arguments(command), *_options(command)]
        if rows:
            yield from ("", "| | |", "|---|---|")
        for name, text in rows:
            yield f"| `{name.replace('|', chr(92) + '|')}` | {text.replace('|', chr(92) + '|')} |"
        examples = _examples(command)
        if examples:
            yield from ("", "For example:", "", *(f"    {line}" for line in examples))


def man_page(version: str) -> str:
    """threegate(1) in the man macros."""
    return "\n".join(_man(version)) + "\n"


def _roff(text: str) -> str:
    """A text as one safe line of roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("→", "\\(->")
    text = text.replace("`", "")
    return re.sub(r"^([.'])", r"\\&\1", text)


def _man(version: str) -> Iterator[str]:
    yield f'.TH THREEGATE 1 "" "threegate {version}" "User Commands"'
    yield ".SH NAME"
    yield "threegate \\- a gate between an AI agent and this machine"
    yield ".SH SYNOPSIS"
    yield ".B threegate"
    yield "[\\-\\-workspace DIR] [\\-\\-json] COMMAND [ARGUMENTS]"
    yield ".SH DESCRIPTION"
    yield _roff(
        "An agent drops a request into a folder; an operator reads it and signs it with an SSH key; it runs once, in a"
    )
    yield _roff(
        "sandbox, on exactly the bytes that were signed; the output is a file. Nothing runs that nobody signed."
    )
    yield ".SH COMMANDS"
    for path, command in commands():
        if path == "threegate":
            continue
        yield f".SS {_roff(usage(path, command))}"
        yield _roff(_help(command))
        for name, text in [*_arguments(command), *_options(command)]:
            yield ".TP"
            yield f".B {_roff(name)}"
            yield _roff(text) if text else "\\&"
        examples = _examples(command)
        if examples:
            yield from (".PP", "For example:", ".PP", ".nf", ".RS", *map(_roff, examples), ".RE", ".fi")
    yield ".SH EXIT STATUS"
    for code, text in EXITS.items():
        yield ".TP"
        yield f".B {code}"
        yield _roff(text)
    yield ".SH ENVIRONMENT"
    for name, text in (
        ("THREEGATE_WORKSPACE", "the workspace, where --workspace is not given"),
        ("XDG_STATE_HOME", "where the workspace's key and last known head are kept (default ~/.local/state)"),
        ("NO_COLOR", "no colours"),
    ):
        yield from (".TP", f".B {name}", _roff(text))
    yield ".SH FILES"
    for name, text in (
        ("threegate.toml", "the settings of a workspace"),
        ("inbox/", "where the agent writes"),
        ("tool-exec/", "the operator's side: queue, results, verdicts, contracts, trail"),
    ):
        yield from (".TP", f".I {_roff(name)}", _roff(text))
    yield ".SH SEE ALSO"
    yield ".BR ssh\\-keygen (1)"


os.environ.setdefault("COLUMNS", "100")
