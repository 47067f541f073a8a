"""What a command suggests to type is typed, as it was printed, in the state in which it was suggested.

The lines are found in what the real commands print. One that asks a person is typed on a terminal too. What a line
changes is undone before the next one: the folder with the workspace and the person's home is put back. A line with a
placeholder (`ID`) is not typed; tests/whole/test_suggested_lines.py parses it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.adversarial.approval.test_terminal import under_a_terminal
from tests.conftest import few
from tests.suggested_lines import lines_in
from tests.support import THREEGATE, Done, monty_draft, request_id, threegate
from threegate.setup.settings_file import set_values

ENDLESS = {"threegate run": "threegate run --once"}
"""What runs until it is stopped, and what is typed instead."""
ASKS = ("not on a terminal", "needs a terminal", "give the id, file or slug of a draft")
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*").fullmatch


@dataclass
class World:
    """A folder with a person's home and their workspace, made by `threegate init` alone."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "ws"

    @property
    def home(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
            "XDG_STATE_HOME": str(self.folder / ".state"),
            "SSH_AUTH_SOCK": "",
        }

    def run(self, *words: str, expect: int | None = None, cwd: Path | None = None) -> Done:
        done = threegate(*words, cwd=cwd or self.root, env=self.home)
        assert expect in (None, done.code), (words, done)
        return done

    def draft(self, slug: str, code: str = "1 + 1") -> str:
        """A draft as an agent writes one; returns its id."""
        name = request_id(slug)
        (self.root / "inbox" / f"{name}.md").write_text(monty_draft(name, code))
        return name

    def typed(self, line: str) -> Done:
        """A line, and the folder as it was before."""
        before = self.folder.with_name("before")
        shutil.copytree(self.folder, before, symlinks=True)
        done = self.run(*shlex.split(ENDLESS.get(line, line))[1:])
        if done.code and any(question in done.err for question in ASKS):
            shown, code = under_a_terminal(
                [*THREEGATE, "--workspace", str(self.root), *shlex.split(line)[1:]],
                [b"q\n" if "review" in line or line == "threegate approve" else b"y\n"],
                {**os.environ, **self.home, "TERM": "dumb", "NO_COLOR": "1"},
            )
            done = Done(code, shown.decode(), "")
        shutil.rmtree(self.folder)
        before.rename(self.folder)
        return done


def empty(world: World) -> str:
    return "nothing"


def draft(world: World) -> str:
    return world.draft("sum")


def two_drafts(world: World) -> str:
    world.draft("summary")
    return world.draft("sum")


def invalid(world: World) -> str:
    name = world.draft("sum")
    path = world.root / "inbox" / f"{name}.md"
    path.write_text(path.read_text().replace("backend: monty", "backend: none"))
    return name


def approved(world: World) -> str:
    name = world.draft("sum")
    world.run("approve", name, "--yes", expect=0)
    return name


def under_quorum(world: World) -> str:
    set_values(world.root / "threegate.toml", {"approval.quorum.low": 2})
    return approved(world)


def finished(world: World) -> str:
    name = approved(world)
    world.run("run", "--once", expect=0)
    return name


def granted(world: World) -> str:
    set_values(world.root / "threegate.toml", {"grants.allow": True})
    return finished(world)


def rejected(world: World) -> str:
    name = world.draft("sum")
    world.run("reject", name, "--reason", "No.", expect=0)
    return name


def without_settings(world: World) -> str:
    (world.root / "threegate.toml").unlink()
    return "nothing"


def with_bad_contracts(world: World) -> str:
    (world.root / "tool-exec" / "contracts" / "threegate.monty.yaml").write_text("contract: [")
    return world.draft("sum")


def changed_operators(world: World) -> str:
    name = world.draft("sum")
    with (world.root / "tool-exec" / "operators").open("a") as file:
        file.write("# by hand\n")
    return name


SAYS_NO: dict[Callable[[World], str], dict[str, int]] = {
    invalid: {"threegate validate": 2},
    under_quorum: {"threegate approve": 2},
    with_bad_contracts: {"threegate contracts check": 2},
    changed_operators: {"threegate approve": 2, "threegate run": 3},
}
"""Lines that say by their exit code that something is still wrong: it is what they look for, or another line fixes it
first.
"""
SHOW = "threegate show {}"
HERE = "threegate status"
SCREENS: list[tuple[Callable[[World], str], str, set[str]]] = [
    (empty, "statsu", {"threegate status", "threegate --help"}),
    (draft, "status", {"threegate run", "threegate approve"}),
    (invalid, "approve {}", {"threegate validate {ws}/inbox/{}.md"}),
    (rejected, "draft --again {}", {"threegate approve {ws}/inbox/"}),
    (rejected, "approve inbox/{}.md", {SHOW}),
    (empty, "status", {"threegate run", "threegate draft --help", "threegate agent prompt"}),
    (empty, "show nothing", {HERE}),
    (empty, "approve", {HERE}),
    (empty, "reject nothing", {HERE}),
    (empty, "cancel nothing", {HERE}),
    (empty, "validate nothing", {HERE}),
    (empty, "draft --again nothing", {HERE}),
    (empty, "audit replay nothing", {HERE}),
    (empty, "audit approval nothing", {HERE}),
    (empty, "audit pack nothing --out pack", {HERE}),
    (empty, "audit show --request nothing", {HERE}),
    (empty, "audit stats", {"threegate review"}),
    (empty, "project undo nothing", {HERE}),
    (empty, "contracts allow nothing", {HERE}),
    (empty, "audit verfy", {"threegate audit verify", "threegate audit --help"}),
    (empty, "checkpoints", {"threegate contracts checkpoints", "threegate --help"}),
    (empty, "agent show nothing", {"threegate agent list"}),
    (empty, "agent list", {"threegate agent run codex --project DIR"}),
    (empty, "project list", {"threegate project add NAME DIR"}),
    (empty, "tools show nothing", {"threegate tools list"}),
    (empty, "tools list", {"threegate tools add NAME -- COMMAND"}),
    (empty, "grant show nothing", {"threegate grant list"}),
    (empty, "operator add bob", {"threegate operator add --help"}),
    (empty, "contracts sessions nothing", {"threegate contracts new TOOL"}),
    (empty, "doctor", set()),
    (without_settings, "status", {"threegate init DIR"}),
    (invalid, "validate {}", set()),
    (invalid, "status", {"threegate run"}),
    (draft, "cancel {}", {"threegate reject {}.md"}),
    (draft, "draft --again {}", {"threegate approve {}.md"}),
    (draft, "approve {} --yes", {"threegate run"}),
    (draft, "show {} --result", {HERE, "threegate status --results"}),
    (two_drafts, "show smu", {HERE}),
    (approved, "status", {"threegate run"}),
    (approved, "reject {}", {SHOW}),
    (approved, "reject inbox/{}.md", {SHOW}),
    (approved, "approve {} --yes", set()),
    (under_quorum, "run --once", {"threegate approve {}"}),
    (under_quorum, "audit approval {}", {"threegate approve {}"}),
    (finished, "approve {}", {SHOW}),
    (finished, "cancel {}", set()),
    (granted, "grant new {} --max-uses 1 --expires 1d --yes", set()),
    (granted, "project undo {} --yes", set()),
    (finished, "draft --again {}", {"threegate approve {ws}/inbox/"}),
    (rejected, "approve {}", {SHOW}),
    (with_bad_contracts, "approve {} --yes", {"threegate contracts check"}),
    (changed_operators, "status", {"threegate operator record --yes"}),
    (changed_operators, "approve {} --yes", {"threegate operator record --yes"}),
    (changed_operators, "operator list", {"threegate operator record --yes"}),
    (changed_operators, "doctor", set()),
]


@pytest.mark.parametrize(
    ("prepare", "typed", "suggested"),
    few(SCREENS, 5),
    # The same name in every process: the order of a set is not.
    ids=lambda item: " ".join(sorted(item)) if isinstance(item, set) else getattr(item, "__name__", item),
)
def test_what_a_screen_suggests_works(
    tmp_path: Path, prepare: Callable[[World], str], typed: str, suggested: set[str]
) -> None:
    world = World(tmp_path / "home")
    world.folder.mkdir()
    world.run("init", "ws", expect=0, cwd=world.folder)
    name = prepare(world)
    done = world.run(*shlex.split(typed.format(name)))
    text = done.out + done.err
    found = {line for row in (*text.splitlines(), re.sub(r"\n {0,10}", " ", text)) for line in lines_in(row)}
    # A row may end in the middle of a line.
    found = {line for line in found if not any(other.startswith(f"{line} ") for other in found)}
    wanted = {line.replace("{ws}", str(world.root)).replace("{}", name) for line in suggested}
    missing = {line for line in wanted if not any(one.startswith(line) for one in found)}
    assert not missing, (done, found)
    for line in sorted(found):
        if not any(PLACEHOLDER(word) for word in shlex.split(line)):
            again = world.typed(line)
            codes = [code for start, code in SAYS_NO.get(prepare, {}).items() if line.startswith(start)]
            assert again.code == (codes or [0])[0], (line, again)
