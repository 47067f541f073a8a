"""What code and pages refer to is in this repository: the page is there, and so is the section that is named."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
_PAGE = re.compile(r'\b(docs/[A-Za-z0-9_./-]+\.md)(?:(?:\)|,)? "([^"\n]+)")?')
_OUTSIDE = re.compile(r"\b[Ss]pec [0-9]\b|\b[Ss]eed 00[0-9]|\bFACTS|\bDESIGN\.md|\bLAYOUT\.md|\bSTYLE\.md|\.\./shared")
_TEXT = (".py", ".md", ".toml", ".yml", ".json", ".sh", "")


def texts() -> Iterator[tuple[str, str]]:
    """Every file of the repository that people read, by its path."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        path = ROOT / name
        if path.suffix in _TEXT and path.is_file() and not name.startswith("tests/data/") and path != Path(__file__):
            try:
                yield name, path.read_text("utf-8")
            except UnicodeDecodeError:
                continue


def headings(page: Path) -> set[str]:
    """The headings of a page, as they are written."""
    return {line.lstrip("#").strip() for line in page.read_text("utf-8").splitlines() if line.startswith("#")}


def test_every_page_and_section_that_is_named_is_there() -> None:
    missing = []
    for name, text in texts():
        for found in _PAGE.finditer(text):
            page = ROOT / found[1]
            if not page.is_file():
                missing.append(f"{name}: {found[1]}")
            elif found[2] and not any(found[2] in heading for heading in headings(page)):
                missing.append(f"{name}: {found[0]}")
    assert not missing, "\n".join(missing)


def test_nothing_points_outside_of_the_repository() -> None:
    outside = [f"{name}: {found[0]}" for name, text in texts() for found in _OUTSIDE.finditer(text)]
    assert not outside, "\n".join(outside)
