"""Without the folder of any one plugin, and without all of them, a request goes its whole way from the command line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support import Done, make_key, threegate
from threegate.core.plugins import PLUGINS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [*(f"plugins/{plugin.name}" for plugin in PLUGINS), "plugins"])
def test_the_core_is_whole_without(deleted: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "threegate", tree / "threegate", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("schemas", "sandbox"):
        (tree / name).symlink_to(ROOT / name)
    shutil.rmtree(tree / "threegate" / deleted)
    workspace, key = tmp_path / "ws", make_key(tmp_path / "operator_key")

    def run(*words: str, cwd: Path = workspace, code: int = 0) -> Done:
        done = threegate(*words, cwd=cwd, env={"PYTHONPATH": str(tree)})
        assert done.code == code, f"{words}: exit {done.code}\n{done.out}\n{done.err}"
        return done

    run("init", str(workspace), "--operator", "operator", "--key", f"{key}.pub", cwd=tmp_path)
    (tmp_path / "code.py").write_text("print(6 * 7)\n")
    run("draft", "--backend", "monty", "--code", str(tmp_path / "code.py"), "--purpose", "Multiply.")
    [draft] = (workspace / "inbox").glob("*.md")
    run("validate", str(draft))
    run("approve", str(draft), "--as", "operator", "--key", str(key), "--yes")
    run("run", "--once")
    assert "succeeded" in run("show", draft.stem).out
    [result] = (workspace / "tool-exec" / "results").glob("TS-*.md")
    assert "42" in result.read_text()
    assert "verifies" in run("audit", "verify").out
    doctor = run("doctor", "--no-probes").out
    gone = [plugin for plugin in PLUGINS if deleted in ("plugins", f"plugins/{plugin.name}")]
    for plugin in gone:
        assert f"{plugin.name} is absent: the plugin {plugin.name} is not part of this installation" in doctor
    assert "plugins" not in run("status").out
    for name in [name for plugin in gone for name in plugin.named("settings")]:  # what was set is a warning, no mistake
        settings = workspace / "threegate.toml"
        settings.write_text(f"{settings.read_text()}\n[{name}]\nanything = 1\n")
        assert f"[{name}] is not read" in run("settings", "check").err
        assert f"[{name}] in threegate.toml is not read" in run("status").out.replace("\n          ", " ")


def test_the_copy_is_what_runs(tmp_path: Path) -> None:
    """The tree of `PYTHONPATH` comes before the installed one."""
    (tmp_path / "threegate").mkdir()
    (tmp_path / "threegate" / "__init__.py").write_text("")
    (tmp_path / "threegate" / "__main__.py").write_text("print('the copy')\n")
    assert threegate("status", cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}).out == "the copy\n"
