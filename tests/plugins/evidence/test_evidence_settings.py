"""[witnesses] and [metrics]: witnesses are named, mistakes are refused whole and named, and a policy has neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import make_place
from threegate.cli import execute
from threegate.core.errors import InvalidInput
from threegate.core.settings import Settings, parse_settings
from threegate.core.workspace import Workspace
from threegate.plugins.evidence.section import MetricsSettings, WitnessSettings, unit_needs
from threegate.setup.service_unit import UnitNeeds
from threegate.setup.settings_file import render_settings, set_values

WITNESS = "threegate.local/witness-0123456789abcdef+591bc8f7+BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
LOG_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
GOOD = f"url = 'https://[::1]:8767/prefix'\nkey = '{WITNESS}'"


def witnesses(**tables: str) -> str:
    return "\n".join(f"[witnesses.{name}]\n{text}" for name, text in tables.items())


def test_witnesses_are_named() -> None:
    settings = parse_settings(witnesses(office=GOOD).encode())
    assert settings.section(WitnessSettings).named["office"].url == "https://[::1]:8767/prefix"
    assert settings.deciding() == Settings().deciding()
    assert settings.to_json()["witnesses"] == {"office": {"url": "https://[::1]:8767/prefix", "key": WITNESS}}


def test_metrics_decide_nothing() -> None:
    settings = parse_settings(b"[metrics]\ntextfile = '/srv/gate.prom'\ninterval = '1m'\n")
    assert settings.section(MetricsSettings) == MetricsSettings(textfile="/srv/gate.prom", interval=60)
    assert settings.deciding() == Settings().deciding()


@pytest.mark.parametrize(
    ("text", "place", "key"),
    [
        (witnesses(a="url = 'http://x'"), ":1:", "witnesses.a.key"),
        (witnesses(a=f"url = 'ftp://x'\nkey = '{WITNESS}'"), ":2:", "witnesses.a.url"),
        (witnesses(a=f"url = 'http://u:p@x'\nkey = '{WITNESS}'"), ":2:", "witnesses.a.url"),
        (witnesses(a=f"url = 'http://x/?q'\nkey = '{WITNESS}'"), ":2:", "witnesses.a.url"),
        (witnesses(a=f"url = 'http://x'\nkey = '{WITNESS[:-1]}k'"), ":3:", "witnesses.a.key"),
        (witnesses(a=f"url = 'http://x'\nkey = '{LOG_KEY}'"), ":3:", "witnesses.a.key"),
        (witnesses(a=f"url = 'http://x'\nkey = '{WITNESS}'\nname = 'x'"), ":4:", "witnesses.a.name"),
        (witnesses(**{"../a": GOOD}).replace("[witnesses.../a]", "[witnesses.'../a']"), "", "witnesses"),
        (witnesses(a=GOOD, b=GOOD), "", "witnesses"),
        (witnesses(**{f"w{number}": GOOD for number in range(17)}), "", "witnesses"),
        ("[witnesses]\noffice = 1", ":2:", "witnesses.office"),
        ("[trail.witnesses.office]\n" + GOOD, ":1:", "trail"),
        ("[metrics]\ntextfile = 'relative.prom'", ":2:", "metrics.textfile"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, place: str, key: str) -> None:
    with pytest.raises(InvalidInput) as found:
        parse_settings(text.encode(), "threegate.toml")
    assert place in str(found.value)
    assert f" {key}: " in str(found.value)


def test_init_writes_both_with_an_example() -> None:
    text = render_settings({})
    assert "\n[witnesses]\n# Who else sees the trail (docs/witnesses.md).\n" in text
    assert '\n# office = { url = "http://10.0.0.2:8767", key = "..." }\n' in text
    assert "\n[metrics]\n" in text and '\n# textfile = ""\n' in text


def test_the_daemons_unit_has_what_they_need(tmp_path: Path) -> None:
    def needs(settings: str) -> UnitNeeds:
        return unit_needs(Workspace(tmp_path), parse_settings(settings.encode()), 0, False)

    assert needs("") == UnitNeeds()
    assert needs(witnesses(office=GOOD)) == UnitNeeds(network=True)
    assert needs("[metrics]\ntextfile = '/srv/m/gate.prom'\n") == UnitNeeds(writable=(Path("/srv/m"),))


@pytest.mark.root
def test_a_unit_of_a_plugin_that_is_off_has_none_of_it(tmp_path: Path) -> None:
    place = make_place(tmp_path, settings={"metrics.textfile": str(tmp_path / "numbers" / "gate.prom")})
    with (place.root / "threegate.toml").open("a") as file:
        file.write("\n" + witnesses(office=GOOD))
    unit = place.run("settings", "service", "install", "--print", expect=0).out
    assert "\nPrivateNetwork=no\n" in unit and f" {tmp_path / 'numbers'}\n" in unit
    set_values(place.root / "threegate.toml", {"plugins.off": ["evidence"]})
    unit = place.run("settings", "service", "install", "--print", expect=0).out
    assert "\nPrivateNetwork=yes\n" in unit and "numbers" not in unit


def test_settings_show_names_a_witness_as_the_file_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["init", str(tmp_path / "ws")]) == 0
    with (tmp_path / "ws" / "threegate.toml").open("a") as file:
        file.write("\n" + witnesses(office=GOOD))
    capsys.readouterr()
    assert execute(["-w", str(tmp_path / "ws"), "settings", "show", "--origin"]) == 0
    assert f'witnesses.office.key = "{WITNESS}"   # threegate.toml\n' in capsys.readouterr().out
