"""The statements about the program itself: what it is made of, and what a clone of it does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.conftest import lacks_jail, missing
from tests.seeds.differences import differs
from tests.support import Place, make_key, make_place, monty_draft, request_id, threegate

ROOT = Path(__file__).parents[2]
NAMED = dict(
    re.findall(
        r"^\| `([a-z-]+)` \| `((?:threegate|tests)/[a-z_/]+\.py)` \|", (ROOT / "docs/architecture.md").read_text(), re.M
    )
)
MODULES = {"python-frontmatter": "frontmatter", "pyyaml": "yaml", "markdown-it-py": "markdown_it"}


def test_package_python_frontmatter_is_in_production() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert any(line.startswith("python-frontmatter") for line in dependencies)


def test_each_package_of_the_card_is_named_with_the_file_where_it_works() -> None:
    assert NAMED.keys() == {
        "python-frontmatter",
        "pyyaml",
        "markdown-it-py",
        "pydantic",
        "watchdog",
        "docker",
        "pytest",
    }
    for package, file in NAMED.items():
        module = MODULES.get(package, package)
        assert re.search(rf"^\s*(?:import|from) {module}\b", (ROOT / file).read_text(), re.M), package


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of this repository, as far as `init .` has to do with it: nothing in it that git does not have."""
    folder = tmp_path / "clone"
    for name in (".gitignore", "inbox/README.md", "tool-exec/README.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "examples", folder / "examples")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "--message", "clone")
    return folder


def git(folder: Path, *words: str) -> str:
    """What git prints, whatever its user has configured."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@differs("The daemon uses the `inbox/` and `tool-exec/` of the checkout")
def test_the_daemon_uses_inbox_and_tool_exec_of_the_checkout_after_init(clone: Path, tmp_path: Path) -> None:
    """The example drafts are approved and run without an engine; what a clone brings for people is not a draft, and git
    sees nothing of the workspace. The lines are those of inbox/README.md.
    """
    if (lacking := lacks_jail()) != "":
        missing(lacking)
    assert "no workspace" in threegate("run", "--once", cwd=clone).err
    place = Place(clone, make_key(tmp_path / "key"))
    page = (clone / "inbox" / "README.md").read_text()
    lines = re.findall(r"^(?:threegate|cp) .*", page, re.M)
    for line in lines:
        words = shlex.split(line)
        if words[0] == "cp":
            assert git(clone, "status", "--porcelain") == ""
            subprocess.run(words, cwd=clone, check=True)
            continue
        if words[1] == "init":
            words += ["--operator", "operator", "--key", f"{place.key}.pub"]
        if words[1] == "approve":
            words += ["--key", str(place.key), "--yes"]
        said = place.run(*words[1:], expect=0, env={"DOCKER_HOST": "unix:///nowhere"})
    assert [line.split()[1] for line in lines].count("approve") == 2
    assert said.out.count("  succeeded ") == 2 and len(said.out.splitlines()) == 2
    outputs = clone / "tool-exec" / "runs"
    assert (outputs / "TR-20260102-030406Z-convert/out/sorted.csv").read_text().splitlines()[1].endswith(",95")
    assert git(clone, "status", "--porcelain") == ""
    assert "README" not in place.run("status", expect=0).out
    assert not list((clone / "tool-exec" / "verdicts").glob("*README*"))
    (tmp_path / "own.py").write_text("1 + 1\n")
    place.run("draft", "--backend", "monty", "--code", str(tmp_path / "own.py"), "--purpose", "My own.", expect=0)
    assert git(clone, "status", "--porcelain") == ""


@differs("The operator promotes Markdown requests into TOOL-EXEC")
def test_the_operator_promotes_markdown_requests_with_approve(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    name = request_id("promoted")
    place.approve(place.drop(monty_draft(name, "1 + 1")))
    assert {path.name for path in (place.root / "tool-exec" / "approved").iterdir()} == {f"{name}.md", f"{name}.md.sig"}


def test_audit_trail_tells_the_truth_after_the_approval_is_void_it_does_not_run(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    name = request_id("void")
    place.approve(place.drop(monty_draft(name, "1 + 1")))
    approved, away = place.root / "tool-exec" / "approved", tmp_path / "away"
    shutil.copytree(approved, away)
    for path in approved.iterdir():
        path.unlink()
    place.once()
    shutil.copytree(away, approved, dirs_exist_ok=True)
    assert "void" in place.run("audit", "approval", f"tool-exec/approved/{name}.md", expect=2).out
    place.once()
    assert not place.events("claimed") and place.events("approval_abandoned")
