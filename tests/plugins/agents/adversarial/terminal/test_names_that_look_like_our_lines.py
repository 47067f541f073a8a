"""A name, path or word with a line break, and behind it what looks like a message of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.plugins.agents.people import Person
from tests.support import Done, Place, make_place, monty_draft, request_id, threegate
from threegate.cli import app

FORGED = "z\nthreegate: FORGED\rthreegate: FORGED\x1b[1Gthreegate: FORGED\x85threegate: FORGED\u2028threegate: FORGED"
ROWS = re.compile("[\n\r\x1b\x85\u2028]")


def assert_ours(*texts: str) -> None:
    """No row of a terminal begins with the forged words, and nothing moves its cursor."""
    for text in texts:
        assert not [row for row in ROWS.split(text) if row.lstrip("[1G").startswith("threegate: FORGED")], text
        assert "\x1b" not in text and "\r" not in text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(tmp_path_factory.mktemp("forged"))
    (place.root.parent / FORGED).mkdir()
    (place.root / FORGED).write_text(FORGED)
    return place


@pytest.mark.parametrize(
    "words",
    [
        ("validate", FORGED),
        ("validate", "--format", "github", FORGED),
        ("approve", FORGED),
        ("reject", FORGED, "--reason", "x"),
        ("cancel", FORGED),
        ("show", FORGED),
        ("validate", "--explain", FORGED),
        ("project", "add", "x", FORGED),
        ("agent", "show", FORGED),
        ("contracts", "check", FORGED),
        (FORGED,),
        (f"--{FORGED}",),
        ("approve", f"--{FORGED}"),
        ("approve", "a", FORGED),
        ("--workspace", FORGED, "status"),
    ],
    ids=lambda words: " ".join(words).replace(FORGED, "FORGED"),
)
def test_an_argument(place: Place, words: tuple[str, ...]) -> None:
    done = place.run(*words)
    assert_ours(done.out, done.err)


def test_a_request_in_the_inbox(place: Place) -> None:
    """Read, listed and refused under its name; one that is invalid too."""
    for text in (monty_draft(request_id("forged"), "1"), "no request"):
        path = place.drop(text, f"TR-{FORGED}.md")
        for words in (("validate", "inbox/"), ("status",), ("approve", str(path)), ("show", str(path))):
            done = place.run(*words)
            assert_ours(done.out, done.err)
        done = place.run("reject", str(path), "--reason", FORGED, "--key", str(place.key))
        assert_ours(done.out, done.err)
        path.unlink(missing_ok=True)
    done = place.run("audit", "show")
    assert_ours(done.out, done.err)


def test_a_project(place: Place) -> None:
    folder = place.root.parent / FORGED
    for words in (("add", "forged", str(folder)), ("list",), ("remove", "forged")):
        done = place.run("project", *words)
        assert_ours(done.out, done.err)


def test_files_that_an_agent_leaves_and_those_it_may_not_see(user: Person) -> None:
    """In the messages of its run, and in the list of what it changed."""
    (user.project / f".env.{FORGED}").write_text("TOKEN=1\n")
    (user.project / FORGED).mkdir()
    user.own()
    code = f"import os\nopen({FORGED + 'new'!r}, 'w').write('1')\nos.mkfifo({FORGED + 'pipe'!r})"
    done = user.run("/usr/bin/python3", "-c", code, options=["--propose", "always"])
    assert "FORGED" in done.stderr
    assert_ours(done.stdout, done.stderr)
    run = user.facts()["run"]
    for words in (("agent", "show", run), ("agent", "list"), ("status",), ("validate", str(user.workspace / "inbox"))):
        done = user.threegate(*words)
        assert_ours(done.stdout, done.stderr)


def leaves() -> Iterator[tuple[str, ...]]:
    """Each command with a forged word for each of its arguments."""
    for words, item in below((), typer.main.get_command(app)):
        arguments = [param for param in getattr(item, "params", ()) if param.param_type_name == "argument"]
        if arguments and words[0] not in ("run", "serve", "worker"):
            yield (*words, *(FORGED for _ in arguments))


def below(words: tuple[str, ...], item: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command that is not a group."""
    if not isinstance(item, typer.core.TyperGroup):
        yield words, item
        return
    context = typer.Context(item)
    for name in item.list_commands(context):
        yield from below((*words, name), item.get_command(context, name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [pytest.param(words, marks=pytest.mark.soak if number % 4 else ()) for number, words in enumerate(leaves())],
    ids=lambda words: " ".join(words).replace(FORGED, "FORGED"),
)
def test_an_argument_of_every_command(place: Place, words: tuple[str, ...]) -> None:
    done: Done = threegate(*words, cwd=place.root)
    assert_ours(done.out, done.err)
