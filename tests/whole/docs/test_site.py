"""The documentation as a whole: the site builds, the man page is well-formed, every command of a page is run or
accounted for.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import missing, peer
from tests.whole.docs.test_explain import codes_in_the_code
from threegate.contracts.reasons import REASONS
from threegate.core import errors

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"


def test_the_site_builds_strictly_and_asks_nobody_else(tmp_path: Path) -> None:
    peer("material", "docs")
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
    assert (tmp_path / "review-card.svg").is_file()
    assert 'src="review-card.svg"' in (tmp_path / "first-request.html").read_text()


def test_the_navigation_and_the_decisions() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text)["nav"]
    named = set(re.findall(r"[\w/-]+\.md", str(nav)))
    assert named <= {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    index = (DOCS / "adr" / "index.md").read_text()
    decisions = sorted(path for path in (DOCS / "adr").glob("0*.md"))
    assert len(decisions) == 15
    for path in decisions:
        page = path.read_text()
        assert path.name in index and page.count("\n") <= 60
        assert page.startswith(f"# {int(path.name[:4])}. ") and "**What it costs.**" in page


def test_each_page_is_in_one_of_four_parts_and_begins_with_what_it_is_for() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert [name for part in nav for name in part] == [
        "Start",
        "Tutorial",
        "How-to",
        "Reference",
        "Explanation",
    ]
    named = re.findall(r"[\w/-]+\.md", str(nav))
    assert len(named) == len(set(named))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert not [page for page in pages - set(named) if not page.startswith("adr/0")]
    for page in named:
        _, _, first, *_ = (DOCS / page).read_text().split("\n", 3)
        assert re.match(r"[A-Z`]", first), f"{page} begins with: {first}"


def test_the_man_page_is_well_formed_and_names_every_command() -> None:
    from scripts.pages.manual import commands

    page = DOCS / "man" / "threegate.1"
    text = page.read_text()
    for path, _ in commands():
        assert path == "threegate" or f".SS {path}".replace("-", "\\-") in text, path
    shipped = (ROOT / "pyproject.toml").read_text()
    assert '"docs/man/threegate.1" = "share/man/man1/threegate.1"' in shipped
    if not shutil.which("man"):
        missing("man (apt-get install man-db)")
    done = subprocess.run(["man", "--warnings", "-l", str(page)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.mark.slow
def test_every_code_has_its_line() -> None:
    page = (DOCS / "codes.md").read_text()
    found = {*codes_in_the_code(), *REASONS}
    assert len(found) > 90
    assert not [code for code in sorted(found) if f"| `{code}` |" not in page]
    exits = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert all(f"| `{code}` |" in page for code in exits)


def test_every_setting_has_its_line_and_a_meaning() -> None:
    from threegate.core.settings import SecretReference, setting_rows

    page = (DOCS / "settings.md").read_text()
    rows = [
        *setting_rows(),
        *((f"secrets.NAME.{name}", None, rule) for name, rule in SecretReference.rules.items()),
    ]
    for name, _, rule in rows:
        assert rule.description, f"{name} has no description"
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
