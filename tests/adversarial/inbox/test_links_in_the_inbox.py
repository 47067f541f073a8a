"""An agent with write access to its inbox puts links where folders and files were, and learns or moves nothing by
it.
"""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path

import pytest

from tests.support import Place, make_place, monty_draft, request_id

ROOT = Path(__file__).parents[3]
PIN = b"1234"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace beside a folder of the operator's with a file that the agent may not read."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "pin").write_bytes(PIN)
    return make_place(tmp_path)


def link_files(place: Place) -> Path:
    """``mv files away; ln -s TARGET files``, which the right to write into inbox/ allows."""
    files = place.root / "inbox" / "files"
    private = place.root.parent / "private"
    files.rename(files.with_name("away"))
    files.symlink_to(private)
    return private


def test_no_verdict_says_whether_a_guess_at_a_private_file_is_right(place: Place) -> None:
    link_files(place)
    verdicts = []
    for guess in (PIN, b"0000"):
        rid = request_id(f"guess-{guess.decode()}")
        digest = hashlib.sha256(guess).hexdigest()
        place.drop(monty_draft(rid, "1", inputs={"pin": digest}))
        place.once(expect=3)
        verdicts.append(place.verdict(f"{rid}.md"))
    for verdict in verdicts:
        assert verdict["reason"] == "TG902" and not verdict["valid"]
        assert [item["rule"] for item in verdict["findings"] if item["severity"] == "error"] == ["TG902"]


def test_a_wrong_digest_is_said_to_be_wrong_and_the_right_one_is_not_named(place: Place) -> None:
    digest = place.input("data", b"mine")
    rid = request_id("wrong")
    place.drop(monty_draft(rid, "1", inputs={"data": hashlib.sha256(b"other").hexdigest()}))
    place.once()
    said = json.dumps(place.verdict(f"{rid}.md"))
    assert "TG903" in said and digest not in said


def test_approve_pins_nothing_through_a_link(place: Place) -> None:
    private = link_files(place)
    draft = place.drop(monty_draft(request_id("steal"), "1", inputs={"pin": hashlib.sha256(PIN).hexdigest()}))
    done = place.approve(draft, expect=2)
    assert done.err == "threegate: inbox/files/pin: cannot be read (Not a directory); put the file there\n"
    assert not list((place.root / "tool-exec" / "inputs").iterdir())
    assert sorted(path.name for path in private.iterdir()) == ["pin"]


def test_draft_writes_nothing_through_a_link(place: Place, tmp_path: Path) -> None:
    private = link_files(place)
    (tmp_path / "mine.csv").write_text("1\n")
    (tmp_path / "code.py").write_text("1\n")
    words = ("draft", "--backend", "monty", "--purpose", "p", "--code", str(tmp_path / "code.py"))
    done = place.run(*words, "--input", str(tmp_path / "mine.csv"))
    assert done.code != 0
    assert sorted(path.name for path in private.iterdir()) == ["pin"]


def test_retry_writes_nothing_through_a_link(place: Place) -> None:
    digest = place.input("data", b"mine")
    rid = request_id("again")
    place.approve(place.drop(monty_draft(rid, "1", inputs={"data": digest})))
    place.once()
    private = link_files(place)
    assert place.run("draft", "--again", rid).code != 0
    assert sorted(path.name for path in private.iterdir()) == ["pin"]


def test_nothing_is_launched_while_a_link_is_where_a_folder_belongs(place: Place) -> None:
    rid = request_id("later")
    place.approve(place.drop(monty_draft(rid, "1")))
    link_files(place)
    place.once(expect=3)
    assert place.events("claimed") == []
    assert "inbox/files" in place.run("doctor", expect=2).out
    files = place.root / "inbox" / "files"
    files.unlink()
    files.with_name("away").rename(files)
    place.once()
    assert len(place.events("finished")) == 1


READING_CALLS = frozenset(
    "open read_bytes read_text write_bytes write_text iterdir glob rglob rename replace unlink mkdir touch stat lstat "
    "exists "
    "is_file is_dir is_symlink symlink_to hardlink_to chmod chown listdir scandir deliver read_regular overwrite".split()  # noqa: E501
)
HINTS = {"threegate/core/workspace.py", "threegate/setup/systemd_service.py"}
"""Where a path of the inbox may be given to the system: the folders are made there, before there is an agent."""


def test_nothing_touches_the_inbox_but_through_a_held_folder() -> None:
    """A lint: a path that begins at `.inbox` or `.files` of a workspace goes to `hold`, or is only named."""
    found = []
    for path in sorted((ROOT / "threegate").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name in HINTS:
            continue
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if called in READING_CALLS and any(_names_inbox(part) for part in _subject(call)):
                found.append(f"{name}:{call.lineno}: {called}")
    assert not found, "\n".join(found)


def _subject(call: ast.Call) -> list[ast.expr]:
    own = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return [*own, *call.args]


def _names_inbox(expression: ast.expr) -> bool:
    if isinstance(expression, ast.Call):
        return False  # what a call gives is judged where that call is made
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("inbox", "files")
        and isinstance(node.value, ast.Attribute | ast.Name)
        and (getattr(node.value, "attr", "") or getattr(node.value, "id", "")).endswith("workspace")
        for node in ast.walk(expression)
    )
