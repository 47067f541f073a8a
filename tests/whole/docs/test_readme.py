"""The README is short, its links lead somewhere, and the first request works when typed as shown, under a terminal."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.type_tour import ANSWERS, ROOT, tour, type_in_terminal


def test_a_first_request_by_hand(tmp_path: Path) -> None:
    code, shown = type_in_terminal(tour().replace("/tmp/", f"{tmp_path}/"), tmp_path, ANSWERS)
    assert code == 0, shown
    assert "trail verifies" in shown
    results = list((tmp_path / "ws" / "tool-exec" / "results").glob("TS-*.md"))
    assert len(results) == 1
    assert "status: succeeded" in results[0].read_text()


def test_the_readme_fits_two_screens() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 120


def test_the_commands_that_the_readme_names_exist() -> None:
    from scripts.pages.manual import commands

    named = set(re.findall(r"[`\n]threegate ([a-z]+)", (ROOT / "README.md").read_text()))
    assert {"agent", "review", "run"} <= named
    assert named <= {path.removeprefix("threegate ") for path, _ in commands()}


def test_the_links_of_the_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "inbox").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_the_makefile_has_the_two_commands() -> None:
    text = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:", text, re.M)
    assert re.search(r"^test:", text, re.M)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
