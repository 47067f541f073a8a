"""The statements about the program itself: what it is made of, and what a clone of it does."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

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


@differs("The daemon uses the `inbox/` and `tool-exec/` of the checkout")
def test_the_daemon_uses_inbox_and_tool_exec_of_the_checkout_after_init(tmp_path: Path) -> None:
    """What a clone brings there for people is not a draft."""
    clone = tmp_path / "clone"
    for folder in ("inbox", "tool-exec"):
        shutil.copytree(ROOT / folder, clone / folder)
    assert "no workspace" in threegate("run", "--once", cwd=clone).err
    key = make_key(tmp_path / "key")
    made = threegate("init", ".", "--operator", "operator", "--key", f"{key}.pub", cwd=clone)
    assert made.code == 0, made.err
    place = Place(clone, key)
    place.once()
    listed = place.run("status", expect=0).out
    assert "TR-20260102-030405Z-rank-sales.md" in listed and "README" not in listed
    assert not list((clone / "tool-exec" / "verdicts").glob("*README*"))


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
