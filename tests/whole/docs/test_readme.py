"""The README is short, its links lead somewhere, and the first request works when typed as shown, under a terminal."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from scripts.type_tour import ANSWERS, ROOT, SHOWN, tours, type_in_terminal
from tests.conftest import lacks_jail
from tests.ordinary_user import ACCOUNT, python


def test_a_first_request_by_hand(tmp_path: Path) -> None:
    """The request in Monty, and where there is bubblewrap the program as well."""
    parts = 2 if lacks_jail() == "" else 1
    script = "".join(tours()[:parts]).replace("/tmp/", f"{tmp_path}/")
    code, shown = type_in_terminal(script, tmp_path, "".join(ANSWERS[:parts]))
    assert code == 0, shown
    assert re.search(r'"sum": ?14', shown)
    for told in SHOWN[:parts]:
        assert re.search(told, shown), shown
    results = [path.read_text() for path in (tmp_path / "ws" / "tool-exec" / "results").glob("TS-*.md")]
    assert [text.count("status: succeeded") for text in results] == [1] * parts


def test_a_change_and_its_undo_by_hand(tmp_path: Path) -> None:
    """By an ordinary user, as the page says."""
    account, home = ACCOUNT if os.geteuid() == 0 else "", Path(tempfile.mkdtemp(prefix="threegate-tour-"))
    interpreter, libraries = python()
    commands = home / "bin"
    commands.mkdir()
    (commands / "threegate").write_text(f'#!/bin/sh\nexec env PYTHONPATH={libraries} {interpreter} -m threegate "$@"\n')
    (commands / "threegate").chmod(0o755)
    if account:
        shutil.chown(home, account)
    try:
        script = f"threegate init ws && cd ws\n{tours()[2]}".replace("/tmp/", f"{home}/")
        code, shown = type_in_terminal(script, home, f"no\n{ANSWERS[2]}", commands=commands, account=account)
        assert code == 0 and re.search(SHOWN[2], shown), shown
        assert (home / "notes" / "todo.txt").read_text() == "Call Alice.\n"
    finally:
        shutil.rmtree(home)


def test_the_readme_fits_one_screen() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 120


def test_the_readme_begins_with_why_and_the_picture() -> None:
    title, why, picture, *_ = (ROOT / "README.md").read_text().split("\n\n")
    assert title == "# ThreeGate" and picture.startswith("```\n agent ")
    assert len(re.findall(r"[.!?](?:\s|$)", why)) == 2, "the problem, and what is different"


def test_the_commands_that_the_readme_names_exist() -> None:
    from scripts.pages.manual import commands

    named = set(re.findall(r"[`\n]threegate ([a-z]+)", (ROOT / "README.md").read_text()))
    assert {"agent", "review", "project"} <= named
    assert named <= {path.removeprefix("threegate ") for path, _ in commands()}


def test_the_links_of_the_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_the_makefile_has_the_two_commands() -> None:
    text = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:", text, re.M)
    assert re.search(r"^test:", text, re.M)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
