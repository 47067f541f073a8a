"""Every command's help: it can be shown, fits 80 columns, describes each argument and option, and its examples are
right.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest
import typer

from threegate.cli import app, execute
from threegate.cli.nouns import PANELS, Command

_HELP = ("--help", "--install-completion", "--show-completion")


def below(command: Any) -> dict[str, Any]:
    """The commands of a group, those that plugins add to it too; of a command none."""
    if not hasattr(command, "list_commands"):
        return {}
    context = typer.Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def tree(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, item in below(command).items():
        yield from tree((*path, name), item)


@pytest.fixture(scope="module")
def commands() -> dict[tuple[str, ...], Any]:
    return {path: command for path, command in tree((), typer.main.get_command(app)) if path}


@pytest.fixture(scope="module")
def leaves(commands: dict[tuple[str, ...], Any]) -> dict[tuple[str, ...], Command]:
    return {path: command for path, command in commands.items() if isinstance(command, Command)}


def flat(text: str) -> str:
    return " ".join(text.split())


def help_of(path: tuple[str, ...], command: Any) -> str:
    context = typer.Context(command, info_name=" ".join(("threegate", *path)), terminal_width=80)
    shown = command.get_help(context)
    assert isinstance(shown, str)
    return shown


@pytest.mark.parametrize("name", below(typer.main.get_command(app)))
def test_every_help_can_be_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([name, "--help"]) == 0
    shown = capsys.readouterr()
    assert "Usage: threegate" in shown.out and shown.err == ""


def test_brackets_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["serve", "worker", "--help"]) == 0
    assert "HOST[:PORT][/VHOST]" in "".join(capsys.readouterr().out.split())


def test_every_example_parses_as_the_command_that_shows_it(leaves: dict[tuple[str, ...], Command]) -> None:
    assert len(leaves) > 90
    for path, command in leaves.items():
        examples = command.examples()
        assert examples, f"{path} has no example"
        for example in examples:
            program, *arguments = takewhile(lambda word: word[0] not in "<>", shlex.split(example))
            assert (program, *arguments[: len(path)]) == ("threegate", *path), example
            command.make_context(path[-1], arguments[len(path) :])  # parses, and runs nothing
            assert f"{example}\n" in help_of(path, command) + "\n", f"{path}: the example is wrapped"


def test_every_argument_and_option_is_described(leaves: dict[tuple[str, ...], Command]) -> None:
    for path, command in leaves.items():
        shown = flat(help_of(path, command))
        for item in command.params:
            if set(_HELP) & set(item.opts):
                continue
            text = getattr(item, "help", None)
            assert text, f"{path} {item.name} has no description"
            assert "…" not in text, f"{path} {item.name}: {text}"
            assert flat(text) in shown, f"{path} {item.name}: its description is not shown"


def test_every_summary_is_one_whole_sentence_that_fits() -> None:
    for path, group in tree((), typer.main.get_command(app)):
        listed = below(group)
        shown = help_of(path, group).splitlines() if listed else []
        for name, command in listed.items():
            summary = (command.help or "").split("\n\n")[0]
            assert re.fullmatch(r"[A-Z][^…]*\.", summary) and ". " not in summary, f"{path} {name}: {summary}"
            assert any(line.split(maxsplit=1) == [name, summary] for line in shown), f"{path} {name} is cut"
            assert max(map(len, shown)) <= 80


def test_a_command_and_the_list_of_commands_say_the_same(commands: dict[tuple[str, ...], Any]) -> None:
    listed = {noun: says for nouns in PANELS.values() for noun, says in nouns.items()}
    assert len(listed) == 21
    for noun, says in listed.items():
        assert commands[(noun,)].help.split("\n\n")[0] == says
