"""The documentation as a whole: the site builds, the man page is well-formed, every command of a page is run or accounted for."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from threegate.approval import REASON_CODES
from threegate.contracts.reasons import REASONS
from threegate.core import errors

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_the_site_builds_strictly_and_asks_nobody_else(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the docs extra is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"?(https?:[^\" >]+)", page.read_text())
        assert not [url for url in loaded if not url.startswith("https://squidfunk.github.io/")], (
            page,
            loaded,
        )
    tour = (tmp_path / "first-request.html").read_text()
    assert "threegate init ws" in re.sub(r"<[^>]+>", "", tour), "the README's tour is shown there"


def test_the_navigation_and_the_decisions() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text)["nav"]
    named = set(re.findall(r"[\w/-]+\.md", str(nav)))
    assert named <= {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    index = (DOCS / "adr" / "index.md").read_text()
    decisions = sorted(path for path in (DOCS / "adr").glob("0*.md"))
    assert len(decisions) == 11
    for path in decisions:
        page = path.read_text()
        assert path.name in index and page.count("\n") <= 60
        assert page.startswith(f"# {int(path.name[:4])}. ") and "**What it costs.**" in page


def test_the_man_page_is_well_formed_and_names_every_command() -> None:
    from threegate.cli import COMMANDS

    page = DOCS / "man" / "threegate.1"
    text = page.read_text()
    for name in COMMANDS:
        assert f".SS threegate {name}" in text, name
    for command in (["mandoc", "-Tlint", "-Werror"], ["man", "--warnings", "-l"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, str(page)], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and not done.stderr, done.stderr
    shipped = (ROOT / "pyproject.toml").read_text()
    assert '"docs/man/threegate.1" = "share/man/man1/threegate.1"' in shipped


def codes_in_the_code() -> Iterator[str]:
    """Reason codes as the source names them: of refusals, AANA's blockers, results and the trail."""
    for path in (ROOT / "threegate").rglob("*.py"):
        text = path.read_text()
        if not re.search(r"Refused\(|Waiting\(|\.block\(|\"reason\":", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                at = {"Refused": 0, "Waiting": 0, "block": 1}.get(name)
                if at is not None and len(node.args) > at and (name != "block" or "aana" in path.parts):
                    yield from _text(node.args[at])
            elif isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "reason":
                        yield from _text(value)


def _text(node: ast.expr) -> Iterator[str]:
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[a-z_]{4,}", node.value)
    ):
        yield node.value


def test_every_code_has_its_line() -> None:
    page = (DOCS / "codes.md").read_text()
    found = {*codes_in_the_code(), *REASON_CODES, *REASONS}
    assert len(found) > 90
    assert not [code for code in sorted(found) if f"| `{code}` |" not in page]
    exits = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert all(f"| `{code}` |" in page for code in exits)


def test_explain_knows_every_code() -> None:
    """Whatever a screen, a verdict, a result or a page shows as a code."""
    from threegate.cli.explain_command import code_meaning
    from threegate.contracts.codes import CODES
    from threegate.daemon.draft_findings import SURROUNDING_RULES
    from threegate.results.result_facts import STATUSES
    from threegate.results.verdict import STATES

    listed = re.findall(r"^\| `([a-z_]{3,})` \|", (DOCS / "codes.md").read_text(), re.MULTILINE)
    proposals = {
        code
        for path in (ROOT / "threegate" / "proposals").glob("*.py")
        for code in re.findall(
            r'(?:FormProblem\([^\n]*?, |ArgvFinding\(\w+, )"([a-z_0-9]+)"', path.read_text()
        )
    }
    assert len(proposals) > 8
    every = {*listed, *codes_in_the_code(), *CODES, *SURROUNDING_RULES, *STATUSES, *STATES, *proposals}
    assert not sorted(code for code in every if not code_meaning(code))
    for code in ("drafted_before", "verdict_only", "no_draft", "accept", "refuse"):
        assert code_meaning(code)
    assert not code_meaning("nothing_of_that_name")


def test_every_setting_has_its_line_and_a_meaning() -> None:
    from threegate.core.settings import SecretReference, setting_rows

    page = (DOCS / "settings.md").read_text()
    rows = [
        *setting_rows(),
        *((f"secrets.NAME.{name}", item) for name, item in SecretReference.model_fields.items()),
    ]
    for name, entry in rows:
        assert entry.description, f"{name} has no description"
        assert re.search(rf"^\| `{re.escape(name)}` \| .* \| .+ \| .+ \|$", page, re.M), name


def test_every_command_has_its_place_and_what_it_says_of_itself() -> None:
    """The page is made of the commands; `--help` of each shows the same words."""

    manual = runpy.run_path(str(ROOT / "scripts" / "pages" / "manual.py"))
    page = (DOCS / "cli.md").read_text()
    seen = 0
    for path, command in manual["commands"]():
        assert f"\n## {path}\n" in page, path
        assert manual["usage"](path, command) in page
        assert command.help, f"{path} says nothing of itself"
        seen += 1
    assert seen > 80
