"""`threegate settings show`: what is set and where, in the file's own words."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.support import make_place
from threegate.cli import execute


def test_show_tells_values_and_origins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_place(tmp_path, settings={"approval.ttl": "2h"})
    assert execute(["-w", str(place.root), "settings", "show", "--origin"]) == 0
    shown = capsys.readouterr().out
    rows = dict(line.split(" = ", 1) for line in shown.splitlines())
    assert rows["approval.ttl"] == "7200   # threegate.toml"
    assert rows["contracts.mode"] == '"enforce"   # default'
    tomllib.loads("\n".join(f"x{number} = {value}" for number, value in enumerate(rows.values()) if "{}" not in value))
    assert execute(["-w", str(place.root), "--json", "settings", "show"]) == 0
    told = capsys.readouterr().out
    assert json.loads(told)["approval.ttl"] == {"value": 7200, "origin": "file"}
