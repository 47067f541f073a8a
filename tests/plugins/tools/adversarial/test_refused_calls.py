"""Calls that nobody shall make: of what is not pinned, of what was pinned otherwise, with arguments that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.plugins.tools.notes_server import notes_server
from threegate.plugins.tools.argument_schema import why_unfit
from threegate.plugins.tools.mcp.answer_files import answer_files, progress_line
from threegate.plugins.tools.server_process import Answer

OTHER = support.request_id("other")


def test_what_is_not_pinned_exactly_so_is_refused(tmp_path: Path) -> None:
    with notes_server(tmp_path) as notes:
        cases: list[tuple[Path, str, str]] = [
            (notes.draft("add", {"text": "x"}, server="other"), "TG906", "tools_unknown"),
            (notes.draft("remove", {"text": "x"}), "TG906", "tools_unknown"),
            (notes.draft("image", {}, "0" * 64), "TG907", "tools_changed"),
            (notes.draft("fails", {}), "", ""),
        ]
        wrong = notes.draft("add", {"text": "SECRETIVE" * 5})
        notes.place.once()
        for draft, rule in (*((draft, rule) for draft, rule, _ in cases), (wrong, "TG908")):
            found = json.loads(notes.place.run("--json", "validate", str(draft), expect=2 if rule else 0).out)
            assert [item["rule"] for item in found["files"][0]["findings"]] == ([rule] if rule else []), found
        for draft, rule, _ in cases[:3]:
            assert notes.place.verdict(draft.name)["reason"] == rule
            assert ("see: threegate" in notes.place.approve(draft, expect=2).err) == (rule != "TG907")
        assert notes.place.verdict(cases[3][0].name)["valid"]
        verdict = notes.place.verdict(wrong.name)
        assert verdict["reason"] == "TG908" and "SECRETIVE" not in json.dumps(verdict)
        said = notes.place.approve(wrong, expect=2).err
        assert "$.text does not match the tool's schema (maxLength)" in said
        assert notes.calls == []


def test_a_manifest_that_changed_after_the_signature_calls_nothing(tmp_path: Path) -> None:
    with notes_server(tmp_path) as notes:
        draft = notes.draft("fails", {})
        notes.place.approve(draft)
        path = notes.workspace.tools / "notes.json"
        changed = path.read_bytes().replace(b'"writable":true', b'"writable":false')
        assert changed != path.read_bytes()
        path.write_bytes(changed)
        notes.place.once()
        result = notes.place.result(draft.stem)
        assert "tools_changed" in result and "status: refused" in result and notes.calls == []


def test_a_manifest_that_cannot_be_read_stops_its_own_calls_only(tmp_path: Path) -> None:
    """One request's trouble is its own: the round goes on, and so does whoever looks at what waits."""
    with notes_server(tmp_path) as notes:
        draft, other = (
            notes.draft("fails", {}),
            notes.place.drop(support.monty_draft(OTHER, "1"), f"{OTHER}.md"),
        )
        for path in (draft, other):
            notes.place.approve(path)
        manifest = notes.workspace.tools / "notes.json"
        manifest.unlink()
        manifest.mkdir()  # what no process can read, root's neither
        assert json.loads(notes.place.run("--json", "contracts", "checkpoints").out) == []
        waiting = notes.workspace.approved / draft.name
        signing = ("--as", "operator", "--key", str(notes.place.key), "--yes")
        said = notes.place.run("approve", str(waiting), *signing, expect=2).err
        assert "tools_changed" in said and "cannot be read" in said and len(said.splitlines()) == 1
        notes.place.once()
        assert "status: refused" in notes.place.result(draft.stem) and notes.calls == []
        assert "tools_changed" in notes.place.result(draft.stem)
        assert "status: succeeded" in notes.place.result(OTHER)
        again = notes.draft("fails", {})
        notes.place.once()
        assert notes.place.verdict(again.name)["reason"] == "TG907"


def test_a_servers_own_secret_comes_back_masked(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("correct-horse-battery-staple")
    secret.chmod(0o600)
    settings = {
        "secrets.NOTES_TOKEN.host": "notes.example.com",
        "secrets.NOTES_TOKEN.path": "/notes",
        "secrets.NOTES_TOKEN.file": str(secret),
    }
    with notes_server(tmp_path, settings=settings, secrets=("NOTES_TOKEN",)) as notes:
        draft = notes.draft("env", {})
        notes.place.approve(draft)
        notes.place.once()
        result = notes.place.result(draft.stem)
        assert "status: succeeded" in result and "token [secret]" in result
        for path in (notes.place.root / "tool-exec").rglob("*"):
            if path.is_file():
                assert b"correct-horse" not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("schema", "arguments", "why"),
    [
        ({"type": "object"}, {"a": 1}, None),
        ({"required": ["a", "b"]}, {"b": 1}, "$ lacks a"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": "x"}, "(type)"),
        ({"additionalProperties": False}, {"a": 1}, "(additionalProperties)"),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}, "$.a"),
        ({"additionalProperties": False, "properties": {"a": True}}, {"a": 1}, None),
        ({"patternProperties": {"^a": True}, "additionalProperties": False}, {"ab": 1}, None),
        ({"patternProperties": {"^a": False}}, {"ab": 1, "b": 1}, "(false)"),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 4000 + "b"}, "(pattern)"),
        *(
            # A part that names a draft of its own gets that draft's keywords no less bounded.
            ({"properties": {"a": {"$schema": draft, **part}}}, {"a": "a" * 4000 + "b"}, why)
            for draft in (
                "http://json-schema.org/draft-07/schema#",
                "https://json-schema.org/draft/2020-12/schema",
            )
            for part, why in (({"pattern": "^(a+)+$"}, "(pattern)"), ({"pattern": "(?=x)"}, "linear time"))
        ),
        ({"properties": {"a": {"pattern": "^x$"}}}, {"a": 5}, None),
        ({"properties": {"a": {"pattern": "(?=x)"}}}, {"a": "x"}, "linear time"),
        (
            {"properties": {"a": {"patternProperties": {"x": True}, "additionalProperties": False}}},
            {"a": 5},
            None,
        ),
        ({"unevaluatedProperties": False}, {}, "linear time"),
        ({"type": "nothing"}, {}, "not a JSON Schema"),
        ({"$ref": "https://example.com/schema"}, {}, "reference"),
        ({"$ref": "#"}, {}, "reference"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "null"}}},
            {"a": 1},
            "$.a",
        ),
        ({"additionalProperties": {"type": "string"}}, {"n" * 500: 1}, "…"),
        (
            {
                "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 4} for n in range(12)} | {"d12": True},
                "$ref": "#/$defs/d0",
            },
            {},
            "steps",
        ),
    ],
)
def test_schemas_of_strangers_are_bounded(schema: dict[str, Any], arguments: Any, why: str | None) -> None:
    found = why_unfit(schema, arguments)
    assert found is None if why is None else found is not None and why in found, found


@pytest.mark.parametrize("named", ["content-1.png", ["content-1.png"], {}])
def test_a_block_that_names_a_file_itself_gets_none(named: Any) -> None:
    """The door puts the bytes of a named file into a block: which one is for us to say."""
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    answer = Answer(({"type": "text", "text": "look", "threegate_file": named}, image), None, False)
    files = dict(answer_files(answer))
    [text, shown] = json.loads(files["result.json"])["content"]
    assert text == {"type": "text", "text": "look"}
    assert shown == {"type": "image", "mimeType": "image/png", "threegate_file": "content-1.png"}
    assert files["content-1.png"] == b"\0\0\0"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"progress": 1, "total": 2.5, "message": "a\n\tb  c"}, "1 of 2.5: a b c"),
        ({"progress": True, "total": [1], "message": 7}, ""),
        ({"message": "x" * 9000}, "x" * 400),
        ({"progress": 10**15}, "1000000000000000"),
    ],
)
def test_progress_is_one_bounded_line(said: dict[str, Any], line: str) -> None:
    assert progress_line(said).decode() == line
