"""Without the folder of any one plugin, and without all of them, a request goes its whole way from the command line."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer import Typer

from tests.conftest import engine_host, long_form
from tests.plugins.changes.end_to_end.test_change_sets import Proposed
from tests.request.examples import apply, mcp
from tests.support import Done, Place, make_key, make_place, now_text, threegate
from tests.whole.test_payloads import OF_PLUGINS
from threegate.cli.nouns import ADDED
from threegate.core.plugins import PLUGINS
from threegate.core.plugins import Place as Offered
from threegate.core.workspace import Workspace
from threegate.setup.settings_file import set_values
from threegate.trail import moves
from threegate.trail.event import known_kinds
from threegate.trail.payloads import Claimed
from threegate.trail.trail import Trail

ROOT = Path(__file__).resolve().parents[2]
EACH = [*(f"plugins/{plugin.name}" for plugin in PLUGINS), "plugins"]


@dataclass
class Tree:
    """A copy of the program without some of its plugins, and a workspace that is made and used by it alone."""

    folder: Path
    workspace: Path
    key: Path
    deleted: set[str]
    """The plugins whose folders are gone."""
    lacking: set[str]
    """Those, and the plugins that use one of them."""

    def run(self, *words: str, cwd: Path | None = None, code: int = 0) -> Done:
        """Run a command of the copy."""
        done = threegate(*words, cwd=cwd or self.workspace, env={"PYTHONPATH": str(self.folder)})
        assert done.code == code, f"{words}: exit {done.code}\n{done.out}\n{done.err}"
        return done

    def init(self) -> None:
        """Make the workspace."""
        self.run("init", str(self.workspace), "--operator", "operator", "--key", f"{self.key}.pub", cwd=self.folder)

    def decide_and_run(self) -> Path:
        """Approve and run the one draft that waits; returns its result."""
        [draft] = (self.workspace / "inbox").glob("*.md")
        self.run("validate", str(draft))
        self.run("approve", str(draft), "--as", "operator", "--key", str(self.key), "--yes")
        self.run("run", "--once")
        assert "succeeded" in self.run("show", draft.stem).out
        [result] = (self.workspace / "tool-exec" / "results").glob("TS-*.md")
        assert "verifies" in self.run("audit", "verify").out
        return result

    def commands(self, *words: str) -> set[str]:
        """What `--help` lists, as `words` and a name: nouns in panels, of which the first is Work, or verbs."""
        listed = self.run(*words, "--help", cwd=self.folder).out.partition("\nCommands:\n" if words else "\nWork:\n")[2]
        return {" ".join((*words, name)) for name in re.findall(r"^  (\S+)", listed, re.MULTILINE)}


def tree_without(deleted: str, folder: Path) -> Tree:
    """The copy without a folder below threegate/."""
    tree = folder / "tree"
    folder.mkdir(exist_ok=True)
    shutil.copytree(ROOT / "threegate", tree / "threegate", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("schemas", "sandbox"):
        (tree / name).symlink_to(ROOT / name)
    shutil.rmtree(tree / "threegate" / deleted)
    gone = {plugin.name for plugin in PLUGINS if deleted in ("plugins", f"plugins/{plugin.name}")}
    lacking = set(gone)
    while more := {plugin.name for plugin in PLUGINS if lacking & set(plugin.uses)} - lacking:
        lacking |= more
    return Tree(tree, folder / "ws", make_key(folder / "operator_key"), gone, lacking)


def commands_of(names: Iterable[str]) -> set[str]:
    """The nouns and verbs of the commands that plugins bring."""
    found = set()
    for path in [path for plugin in PLUGINS if plugin.name in names for path in plugin.named("commands")]:
        given = ADDED.named(path)
        if " " in path or not isinstance(given, Typer):
            found.add(path)
        else:
            callbacks = [(item.name, item.callback) for item in given.registered_commands]
            found |= {f"{path} {name or getattr(callback, '__name__', '')}" for name, callback in callbacks}
    return {path for path in found if "--" not in path}


@pytest.mark.slow
@pytest.mark.parametrize("deleted", long_form(EACH, "plugins"))
def test_the_core_is_whole_without(deleted: str, tmp_path: Path) -> None:
    tree = tree_without(deleted, tmp_path)
    tree.init()
    (tmp_path / "code.py").write_text("print(6 * 7)\n")
    tree.run("draft", "--backend", "monty", "--code", str(tmp_path / "code.py"), "--purpose", "Multiply.")
    assert "42" in tree.decide_and_run().read_text()
    doctor = " ".join(tree.run("doctor", "--no-probes").out.split())
    for name in tree.deleted:
        assert f"{name} is absent: the plugin {name} is not part of this installation" in doctor
    for name in tree.lacking - tree.deleted:
        assert f"{name} is absent: the plugin {name} needs another one, and the plugin" in doctor
    assert doctor.count(" is absent: ") == len(tree.lacking)
    assert "plugins" not in tree.run("status").out
    gone = [plugin for plugin in PLUGINS if plugin.name in tree.lacking]
    names = [name for plugin in gone for name in plugin.named("settings")]
    with (tree.workspace / "threegate.toml").open("a") as settings:
        settings.writelines(f"\n[{name}]\nanything = 1\n" for name in names)
    checked, status = tree.run("settings", "check").err, " ".join(tree.run("status").out.split())
    for name in names:  # what was set is a warning, no mistake
        assert f"[{name}] is not read" in checked
        assert f"[{name}] in threegate.toml is not read" in status


@pytest.mark.slow
@pytest.mark.engine
def test_era_is_whole_without_any(tmp_path: Path) -> None:
    tree = tree_without("plugins", tmp_path)
    tree.init()
    values = {"runners.era.engine": engine_host() or "", "runners.era.image": os.environ["THREEGATE_TEST_IMAGE"]}
    set_values(tree.workspace / "threegate.toml", values)
    tree.run("draft", "--command", "printf %d 42", "--purpose", "Say a number.")
    assert "42" in tree.decide_and_run().read_text()


@pytest.mark.slow
@pytest.mark.parametrize("deleted", long_form(EACH))
def test_help_lists_what_is_there_and_nothing_else(deleted: str, tmp_path: Path) -> None:
    tree = tree_without(deleted, tmp_path)
    gone, there = commands_of(tree.lacking), commands_of({plugin.name for plugin in PLUGINS} - tree.lacking)
    nouns = tree.commands()
    assert {"init", "approve", "run"} <= nouns
    assert nouns >= {path.split()[0] for path in there}, "and of the others those that have verbs of the core"
    listed = {path for noun in nouns for path in tree.commands(noun)}
    assert listed & (gone | there) == there
    for path in gone:
        said = tree.run(*path.split(), cwd=tmp_path, code=3).err
        needs = r"threegate: the plugin \w+ (needs another one, and the plugin .*|is not part of this installation)\n"
        assert re.fullmatch(needs, said), said
    for words in ("draft --proposal x", "validate --as proposal x"):
        tree.run(*words.split(), cwd=tmp_path, code=3 if "proposals" in tree.lacking else 2)


@pytest.mark.slow
@pytest.mark.parametrize("deleted", long_form(EACH, "plugins", "plugins/changes", "plugins/tools"))
def test_a_request_for_a_backend_that_is_not_there_is_refused_in_one_line(deleted: str, tmp_path: Path) -> None:
    tree = tree_without(deleted, tmp_path)
    for backend, plugin, text in (("apply", "changes", apply), ("mcp", "tools", mcp)):
        draft = tmp_path / "TR-20261122-050000Z-rank.md"
        draft.write_text(text(created_utc=now_text(-60)))
        code = 2 if plugin in tree.lacking else 0
        out = tree.run("validate", "--stage", "draft", str(draft), cwd=tmp_path, code=code).out
        errors = [line for line in out.splitlines() if " error " in line]
        wanted = f"{draft}:8:10: error TG136: backend is {backend}, and the plugin {plugin}"
        assert [line.startswith(wanted) for line in errors] == [True] * (plugin in tree.lacking), out


@pytest.mark.slow
@pytest.mark.parametrize("deleted", long_form(EACH, "plugins", "plugins/grants"))
def test_events_of_what_is_not_there_are_verified_and_shown_as_opaque(deleted: str, tmp_path: Path) -> None:
    place = make_place(tmp_path)
    tree = tree_without(deleted, tmp_path / "copy")
    trail = Trail(Workspace(place.root))
    for kind in OF_PLUGINS:
        trail.announce(known_kinds()[kind].from_data({}), actor="operator")
    trail.close()
    verified = tree.run("audit", "verify", cwd=place.root).out
    assert "verifies" in verified
    given = {plugin.name: plugin for plugin in PLUGINS if plugin.name in tree.lacking and "kinds" in plugin.offers}
    unknown = {cls.kind for plugin in given.values() for cls in Offered[tuple[type, ...]]("kinds").of(plugin)}  # type: ignore[attr-defined]
    shown = " ".join(tree.run("audit", "show", cwd=place.root).out.split())
    for kind in OF_PLUGINS:
        assert (f"recorded {kind}, a kind of event that is not known here" in shown) == (kind in unknown), kind


@pytest.mark.slow
@pytest.mark.parametrize("how", ["off", "absent"])
def test_no_daemon_starts_over_a_change_that_was_begun(how: str, tmp_path: Path) -> None:
    """It is not called interrupted, whichever way `changes` is not there; with the plugin it is settled."""
    change = Proposed(tmp_path, {"a": "1"}, {"a": "2"})
    place: Place = change.place
    place.approve(change.draft)
    with Trail(Workspace(place.root)).locked() as held:
        moves.announce(held, Claimed(file=change.draft.name), request_id=change.draft.stem, actor="daemon")
    settings = place.root / "threegate.toml"
    before = settings.read_text()
    if how == "off":
        settings.write_text(before.replace("[plugins]\n", '[plugins]\noff = ["changes"]\n'))
        done, why = place.run("run", "--once"), "of the plugin changes, which is off (plugins.off in threegate.toml)"
    else:
        tree = tree_without("plugins/changes", tmp_path / "copy")
        done, why = tree.run("run", "--once", cwd=place.root, code=3), "its backend apply is not here"
    assert done.code == 3 and f"{change.draft.stem} is claimed and has not ended, and " in done.err and why in done.err
    assert done.err.count("\n") == 1 and not place.events("interrupted")
    settings.write_text(before)
    place.once()
    assert len(place.events("interrupted")) == 1


def test_the_copy_is_what_runs(tmp_path: Path) -> None:
    """The tree of `PYTHONPATH` comes before the installed one."""
    (tmp_path / "threegate").mkdir()
    (tmp_path / "threegate" / "__init__.py").write_text("")
    (tmp_path / "threegate" / "__main__.py").write_text("print('the copy')\n")
    assert threegate("status", cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}).out == "the copy\n"
