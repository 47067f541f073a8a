"""Fixes as an agent meets them: in the verdict of a real daemon, and in the validator's JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema

from tests.request.examples import NAME, era
from tests.support import make_place, monty_draft, request_id, threegate
from threegate.launch.results.verdict_schema import verdict_schema
from threegate.request.schema import report_schema


def test_verdicts_carry_fixes_that_any_program_can_apply(tmp_path: Path) -> None:
    """A real daemon pass; the draft is fixed from the verdict's JSON alone, by an applier written here."""
    place = make_place(tmp_path)
    good = place.input("data.csv", b"1,2\n")
    draft = monty_draft(request_id("first"), "x = 1\nx + 1", inputs={"data.csv": good}, time_sec=99999)
    name = place.drop(draft.replace("network: none", "network: off")).name
    place.once()
    verdict = place.verdict(name)
    jsonschema.validate(verdict, verdict_schema())
    assert verdict["state"] == "invalid" and {fix["rule"] for fix in verdict["fixes"]} == {"TG138", "TG141"}
    text = applied((place.root / "inbox" / name).read_text(), verdict["fixes"])
    other = place.input("data.csv", b"other\n")
    place.drop(text, name)
    place.once()
    verdict = place.verdict(name)
    assert verdict["reason"] == "TG903" and verdict["fixes"] == []
    assert other not in str(verdict), "whoever may read the file knows its digest, and nobody else learns it"
    text = text.replace(good, other)
    place.drop(text, name)
    place.once()
    assert place.verdict(name)["state"] == "draft" and place.verdict(name)["fixes"] == []
    place.approve(place.root / "inbox" / name)
    place.once()
    again = place.drop(text, name.replace("first", "second")).name
    place.once()
    verdict = place.verdict(again)
    jsonschema.validate(verdict, verdict_schema())
    assert [fix["rule"] for fix in verdict["fixes"]] == ["TG901"]
    place.drop(applied(text, verdict["fixes"]), again)
    place.once()
    assert place.verdict(again)["state"] == "draft"


def applied(text: str, made: list[dict[str, Any]]) -> str:
    lines = text.split("\n")
    for fix in sorted(made, key=lambda item: (-item["line"], item["op"] == "insert")):
        at = fix["line"] - 1
        if fix["op"] == "replace":
            lines[at] = fix["text"]
        elif fix["op"] == "delete":
            del lines[at]
        elif fix["op"] == "insert":
            lines.insert(at, fix["text"])
    return "\n".join(lines)


def test_validate_prints_fixes_as_json(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(era(network="off"))
    done = threegate("validate", "--stage", "draft", "--json", str(path), cwd=tmp_path)
    assert done.code == 2
    report = done.json()
    jsonschema.validate(report, report_schema())
    assert report["files"][0]["fixes"] == [{"rule": "TG138", "op": "replace", "line": 10, "text": "network: none"}]
