"""`agent connect --write` adds one entry to an agent's own settings, and `--undo` gives back what was there."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.plugins.agents.people import Person
from threegate.core.errors import InvalidInput
from threegate.plugins.agents.client_entry import ClientEntry, take_back

TOML = '\n[mcp_servers.threegate]\ncommand = "t"\nargs = ["serve"]\n'
JSON = '{"mcpServers": {"threegate": {"command": "t", "args": ["serve"]}}}'
SETTINGS = {
    "settings.json": (JSON, '{"mcpServers": {"other": {"command": "o"}}, "theme": "dark"}'),
    "config.toml": (TOML, '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "o"\n'),
}


def value(path: Path) -> dict[str, object]:
    text = path.read_text()
    loaded = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("is_there", [True, False])
def test_an_entry_is_added_and_taken_back(tmp_path: Path, name: str, is_there: bool) -> None:
    entry, earlier = SETTINGS[name]
    file = tmp_path / "folder" / name
    if is_there:
        file.parent.mkdir()
        file.write_text(earlier)
        file.chmod(0o640)
    planned = ClientEntry.plan(file, entry)
    assert not is_there or file.read_text() == earlier, "a plan changes nothing"
    text = planned.change.text
    assert text is not None and "\n".join(text.new) == planned.after.decode().rstrip("\n")
    assert "\n".join(text.old) == (earlier.rstrip("\n") if is_there else "")
    kept = planned.write()
    assert (kept is not None) == is_there and (kept is None or kept.read_text() == earlier)
    servers = value(file)["mcp_servers" if name == "config.toml" else "mcpServers"]
    assert isinstance(servers, dict) and servers["threegate"] == {"command": "t", "args": ["serve"]}
    assert ("other" in servers) == is_there and file.stat().st_mode & 0o777 == (0o640 if is_there else 0o600)
    again = ClientEntry.plan(file, entry)
    assert again.after == again.before
    assert take_back(file, entry) and not take_back(file, entry)
    assert file.read_text() == earlier if is_there else not file.exists()
    assert not list(tmp_path.rglob("*.before-threegate"))


def test_what_changed_since_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(SETTINGS["config.toml"][1])
    planned = ClientEntry.plan(file, TOML)
    file.write_text("other = 1\n")
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        planned.write()
    ClientEntry.plan(file, TOML).write()
    file.write_text(file.read_text() + "[added]\n")
    with pytest.raises(InvalidInput, match=r"changed since.*before-threegate has the old content"):
        take_back(file, TOML)
    assert "[added]" in file.read_text()


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.json", '{"mcpServers": {"threegate": {"command": "else"}}}', "another server named threegate"),
        ("a.json", "// a comment\n{}", "is not JSON without comments"),
        ("a.json", '{"a": 1, "a": 2}', "is not JSON without comments"),
        ("a.json", "[]", "is not a JSON object"),
        ("a.json", '{"mcpServers": []}', "is not a table of servers"),
        ("a.toml", "a = ", "is not TOML"),
        ("a.toml", 'mcp_servers = {other = {command = "o"}}', "cannot be appended; add"),
        ("a.toml", '[mcp_servers.threegate]\ncommand = "else"\n', "another server named threegate"),
    ],
)
def test_a_file_that_would_lose_something_is_not_written(tmp_path: Path, name: str, text: str, why: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InvalidInput, match=why):
        ClientEntry.plan(file, TOML if name == "a.toml" else JSON)
    assert file.read_text() == text and [path.name for path in tmp_path.iterdir()] == [name]


def test_a_link_stays_a_link_and_other_bytes_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    (tmp_path / "link.json").symlink_to(target)
    ClientEntry.plan(tmp_path / "link.json", JSON).write()
    assert (tmp_path / "link.json").is_symlink() and "threegate" in target.read_text()
    target.write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        ClientEntry.plan(target, JSON)


@pytest.mark.slow
def test_the_command_shows_asks_and_says_that_there_is_no_wall(user: Person) -> None:
    unasked = user.threegate("agent", "connect", "codex", "--write")
    assert unasked.returncode == 64 and "--yes to write it" in unasked.stderr
    assert "+[mcp_servers.threegate]" in unasked.stdout and not (user.home / ".codex").exists()
    done = user.threegate("agent", "connect", "codex", "--write", "--yes")
    assert done.returncode == 0 and "no jail here" in done.stderr
    assert str(user.workspace) in (user.home / ".codex" / "config.toml").read_text()
    assert "has the entry" in user.threegate("agent", "connect", "codex", "--write", "--yes").stdout
    assert "restored" in user.threegate("agent", "connect", "codex", "--undo").stdout
    assert not (user.home / ".codex" / "config.toml").exists()
    assert "nothing was changed" in user.threegate("agent", "connect", "codex", "--undo").stdout
    nowhere = user.threegate("agent", "connect", "claude", "--write")
    assert nowhere.returncode == 64 and "--file FILE" in nowhere.stderr
    assert user.threegate("agent", "connect", "codex", "--write", "--undo").returncode == 64
