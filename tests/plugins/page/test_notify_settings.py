"""[notify]: its addresses are secrets, it decides nothing, and the daemon's unit needs a network for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import make_place
from threegate.cli import execute
from threegate.core.settings import Settings, parse_settings
from threegate.core.workspace import Workspace
from threegate.plugins.page.section import unit_needs
from threegate.setup.service_unit import UnitNeeds
from threegate.setup.settings_file import set_values

_TOKEN = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
URLS = b"[notify]\nurls = ['json://localhost']\n"
HOOK = b"[notify]\nrequester_hook = 'json://localhost'\n"


def test_show_hides_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_place(tmp_path, settings={"notify.urls": [f"tgram://{_TOKEN}/12"]})
    set_values(place.root / "threegate.toml", {"notify.requester_hook": f"json://user:{_TOKEN}@host/x"})
    assert execute(["-w", str(place.root), "settings", "show", "--origin"]) == 0
    shown = capsys.readouterr().out
    assert 'notify.urls = ["tgram://..."]   # threegate.toml\n' in shown and _TOKEN not in shown
    assert execute(["-w", str(place.root), "--json", "settings", "show"]) == 0
    told = capsys.readouterr().out
    assert json.loads(told)["notify.requester_hook"] == {"value": "json://...", "origin": "file"}
    assert _TOKEN not in told


def test_whom_to_tell_decides_nothing() -> None:
    assert parse_settings(URLS).deciding() == parse_settings(HOOK).deciding() == Settings().deciding()


def test_the_daemons_unit_needs_a_network(tmp_path: Path) -> None:
    def needs(settings: bytes) -> UnitNeeds:
        return unit_needs(Workspace(tmp_path), parse_settings(settings), 0, False)

    assert needs(URLS) == needs(HOOK) == UnitNeeds(network=True)
    assert needs(b"") == UnitNeeds()
