"""The list of plugins, their folders, and who names and imports what."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from threegate.core.plugins import PLUGINS, Place, Plugin
from threegate.setup.settings_file import render_settings

PACKAGE = Path(__file__).resolve().parents[2] / "threegate"


IMPORTS_BY_NAME = {
    "cli/nouns.py": "the table of the core's commands",
    "core/plugins.py": "the plugins",
    "request/backend.py": "the table of backends",
}
"""The files that import a module by a string."""


NAMES_MODULES = {
    "plugins/agents/profile.py": "data files of its own room",
    "plugins/agents/side_processes.py": "a process of its own, `python -m`",
    "cli/nouns.py": "the table of the core's commands",
    "core/plugins.py": "the plugins",
    "core/syntax_colours.py": "a process of its own",
    "plugins/evidence/how_to_check.py": "data files of its own room",
    "runners/jail/side_process.py": "a process of its own",
    "runners/jail/loopback_listener.py": "a process of its own",
    "plugins/changes/apply/as_owner.py": "a process of its own",
    "runners/era/container_engine.py": "labels of containers, one of which is also a room's name",
    "request/backend.py": "the table of backends",
    "plugins/tools/server_start.py": "a process of its own, in a container",
}
"""The files with strings that are names of modules, and what for."""


def trees(below: str = "") -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((PACKAGE / below).rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def module_names(tree: ast.Module) -> set[str]:
    """Strings that are the dotted name of something in the package, but for docstrings."""
    texts = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts
    }
    return {text for text in found if re.fullmatch(r"threegate(\.\w+)+\.?", text) and is_module(text)}


def is_module(name: str) -> bool:
    path = PACKAGE.parent / name.rstrip(".").replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def is_import(call: ast.Call) -> bool:
    return getattr(call.func, "attr", getattr(call.func, "id", "")) in {"import_module", "__import__"}


def test_strings_that_name_modules_are_where_they_are_listed() -> None:
    named, importing = {}, set()
    for name, tree in trees():
        if names := module_names(tree):
            named[name] = names
        if any(isinstance(node, ast.Call) and is_import(node) for node in ast.walk(tree)):
            importing.add(name)
    assert named.keys() == NAMES_MODULES.keys(), named
    for name, texts in named.items():
        own = ".".join(("threegate", *name.split("/")[:2]))
        assert name == "core/plugins.py" or all("plugins" not in text or text.startswith(own) for text in texts), name
    assert importing == IMPORTS_BY_NAME.keys()


def test_each_folder_is_listed_and_each_that_is_listed_is_there() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("plugins/*/__init__.py")}
    assert folders == {plugin.name for plugin in PLUGINS}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_what_a_plugin_offers_is_there(plugin: Plugin) -> None:
    assert plugin.why_absent() is None
    for name in plugin.offers:
        assert Place[object](name).of(plugin) is not None


def test_nothing_of_a_plugin_is_loaded_before_it_is_asked_for() -> None:
    """By a command that reads the settings that `init` writes, where each section is there and empty."""
    program = (
        "import sys, threegate.launch.context, threegate.cli; from threegate.core.settings import parse_settings;"
        "from threegate.runners.machine import machine_of; data = sys.stdin.buffer.read();"
        "settings = parse_settings(data); settings.deciding(); machine_of(settings);"
        "print([name for name in sys.modules if name.startswith('threegate.plugins.')])"
    )
    text = render_settings({})
    assert all(f"[{name}]" in text for name in Place[object]("settings").listed())
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_plugin_imports_those_that_its_entry_names_and_no_others() -> None:
    """As import-linter holds; a plugin whose entry named one too many would be absent for nothing."""
    for plugin in PLUGINS:
        imported = {
            str(node.module).split(".")[2]
            for _, tree in trees(f"plugins/{plugin.name}")
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("threegate.plugins.")
        }
        assert imported - {plugin.name} == set(plugin.uses), plugin.name


def test_no_module_of_the_core_imports_a_plugin() -> None:
    """Not even late or for its types only; the floors of import-linter say the same."""
    named = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and str(node.module).startswith("threegate.plugins"))
        or (isinstance(node, ast.Import) and any(item.name.startswith("threegate.plugins") for item in node.names))
    }
    assert named and all(name.startswith("plugins/") for name in named)
