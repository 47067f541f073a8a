"""Plugins are listed in one place, named there only, and not loaded before a room asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from threegate.core import plugins
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.plugins import Place, Plugin, require_plugin
from threegate.core.settings import Settings, parse_settings
from threegate.setup.settings_file import render_settings


def test_only_listed_plugins_can_be_off() -> None:
    assert parse_settings(b"[plugins]\noff = []\n") == Settings()
    with pytest.raises(InvalidInput, match="there is no plugin 'clutser'; the plugins are: "):
        parse_settings(b"[plugins]\noff = ['clutser']\n")


def test_an_absent_plugin_gives_nothing_and_its_section_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Plugin("gone", "is not there", offers={"settings.gone": "section:SECTION", "machine": "capacity:MACHINE"})
    monkeypatch.setattr(plugins, "PLUGINS", (gone,))
    assert not gone.has_code()
    assert gone.why_absent() == "the plugin gone is not part of this installation"
    assert Place[object]("settings").all_named() == {}
    settings = parse_settings(b"[gone]\nanything = 'at all'\n")
    assert settings.unread() == {"gone": gone}
    assert settings.deciding() == Settings().deciding()
    assert "gone" not in settings.to_json() and "[gone]" not in render_settings({})
    off = parse_settings(b"[gone]\nanything = 1\n[plugins]\noff = []\n")
    assert off.unread() == {"gone": gone}, "a section says so until it is off"
    with pytest.raises(InvalidInput, match=r"other: unknown key"):
        parse_settings(b"[other]\na = 1\n")


def test_a_folder_with_nothing_but_caches_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threegate.plugins

    (tmp_path / "left" / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(threegate.plugins, "__path__", [str(tmp_path)])
    assert not Plugin("left", "had a folder").has_code()


def test_a_plugin_is_absent_with_one_that_it_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threegate.plugins

    (tmp_path / "above").mkdir()
    (tmp_path / "above" / "__init__.py").touch()
    monkeypatch.setattr(threegate.plugins, "__path__", [str(tmp_path)])
    gone = Plugin("gone", "is not there")
    above = Plugin("above", "uses it", uses=("gone",), offers={"commands": "commands:COMMANDS"})
    monkeypatch.setattr(plugins, "PLUGINS", (gone, above))
    said = "the plugin above needs another one, and the plugin gone is not part of this installation"
    assert above.has_code() and above.why_absent() == said
    assert Place[object]("commands").given() == {}
    with pytest.raises(Unavailable, match="^a walk needs the plugin above: the plugin above needs another one"):
        require_plugin("a walk", "above", ())
    with pytest.raises(Unavailable, match="^a walk needs the plugin never: the plugin never is not part"):
        require_plugin("a walk", "never", ())
    with pytest.raises(Unavailable, match=r"^a walk needs the plugin above, which is off \(plugins.off"):
        require_plugin("a walk", "above", ("above",))
