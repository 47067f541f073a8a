"""Where the model of an agent is and where its key comes from, before anybody is asked; and what takes it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugins.agents.chatgpt import log_in
from tests.support import make_key
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.settings import Settings, parse_settings
from threegate.core.workspace import Workspace, default_workspace
from threegate.plugins.agents.first_run import (
    Made,
    Missing,
    ModelAccess,
    key_from,
    make_missing,
    model_access,
    remove_made,
    why_not_forget,
)
from threegate.plugins.agents.profile import load_profile, profile_names
from threegate.setup.init import init_workspace

KEY = "sk-what-the-person-has-0123456789"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, and no variable of any agent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in profile_names(Settings()):
        profile = load_profile(name, Settings())
        for variable in (profile.key_variable, profile.url_variable):
            monkeypatch.delenv(variable or "UNUSED", raising=False)
    return tmp_path


def access(name: str = "codex", settings: str = "") -> ModelAccess | None:
    read = parse_settings(settings.encode())
    return model_access(load_profile(name, read), read)


def stored(home: Path, host: str = "api.openai.com") -> Path:
    return home / f"config/threegate/{host}.key"


def test_without_anything_the_person_types_it(home: Path) -> None:
    assert access() == ModelAccess("codex", "api.openai.com", secret="codex", file=stored(home), typed=True)
    stored(home).parent.mkdir(parents=True)
    stored(home).write_text(KEY)
    found = access()
    assert found is not None and not found.typed, "an earlier answer"
    assert found.settings() == {
        "agents.codex.key": "codex",
        "secrets.codex.file": str(stored(home)),
        "secrets.codex.host": "api.openai.com",
    }


def test_the_agents_own_variable_is_used_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    found = access()
    assert found == ModelAccess("codex", "api.openai.com", secret="codex", variable="OPENAI_API_KEY")
    assert KEY not in json.dumps(found.settings()) and found.settings()["secrets.codex.env"] == "OPENAI_API_KEY"
    monkeypatch.setenv("OPENAI_API_KEY", "two words")
    with pytest.raises(Unavailable, match="not a token"):
        access()


def test_a_login_in_its_place_goes_before_a_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was put there for this; an endpoint that is named is another one."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    login = home / "config/threegate/codex"
    log_in(login)
    found = access()
    assert found == ModelAccess("codex", "chatgpt.com", login=login)
    assert found.settings() == {"agents.codex.login": str(login)}
    read = "".join(f'{name} = "{value}"\n' for name, value in found.settings().items())
    assert access(settings=read) is None, "then nothing is missing"
    other = access(settings='[agents.codex]\nurl = "https://api.example.org"\n')
    assert other is not None and (other.login, other.host) == (None, "api.example.org")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://llm.example.org/v1")
    named = access()
    assert named is not None and (named.login, named.host) == (None, "llm.example.org")
    monkeypatch.delenv("OPENAI_BASE_URL")
    log_in(home / "config/threegate/claude")
    claude = access("claude")
    assert claude is not None and claude.login is None and claude.secret
    log_in(login, ends_in=-1)
    with pytest.raises(Unavailable, match="the login has expired; log in with: CODEX_HOME="):
        access()


def test_each_agent_with_a_model_has_a_variable() -> None:
    for name in profile_names(Settings()):
        profile = load_profile(name, Settings())
        assert bool(profile.key_variable) == bool(profile.url), name


def test_nothing_is_missing_if_the_settings_say_it() -> None:
    assert access("generic") is None
    assert access(settings='[agents.codex]\nkey = "mine"\n') is None
    assert access(settings='[agents.codex]\nurl = "http://127.0.0.1:11434"\n') is None


def test_a_secret_for_the_same_host_is_used() -> None:
    found = access(settings='[secrets.openai]\nfile = "/home/me/key"\nhost = "api.openai.com"\n')
    assert found is not None and found.settings() == {"agents.codex.key": "openai"}
    other = access(settings='[secrets.codex]\nfile = "/home/me/key"\nhost = "api.github.com"\n')
    assert other is not None and other.secret == "codex-2", "a secret of this name is for another host"


@pytest.mark.parametrize(
    ("given", "url", "secret"),
    [
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434", ""),
        ("http://localhost:8000/v1/", "http://localhost:8000", ""),
        ("https://llm.example.org/openai/v1", "https://llm.example.org/openai", "codex"),
    ],
)
def test_another_endpoint_in_the_agents_own_variable(
    given: str, url: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", given)
    found = access()
    assert found is not None and (found.url, found.secret) == (url, secret)
    assert found.settings()["agents.codex.url"] == url
    configured = access(settings='[agents.codex]\nurl = "https://api.example.org"\n')
    assert configured is not None and (configured.host, configured.url) == ("api.example.org", "")


@pytest.mark.parametrize(
    "given", ["http://192.168.1.4/v1", "http://evil.example", "ftp://x", "https://a b", "nonsense"]
)
def test_an_endpoint_without_tls_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", given)
    with pytest.raises(Unavailable, match="OPENAI_BASE_URL") as refused:
        access()
    assert len(given) < 2 or given not in str(refused.value)


def test_a_key_or_the_file_that_has_it(home: Path) -> None:
    assert key_from(f" {KEY} ") == KEY
    (home / "key").write_text(f"{KEY}\n")
    assert key_from(str(home / "key")) == key_from("~/key") == KEY
    for wrong in ("", "short", "two words and more", "/nowhere/key", "~nobody-at-all/key", "a\x1b[2Jb" * 3):
        with pytest.raises(InvalidInput, match="nothing was made") as refused:
            key_from(wrong)
        assert not wrong or wrong not in str(refused.value)


def test_a_workspace_that_was_there_gets_its_settings_back(home: Path) -> None:
    """Unless they were changed since; what was in it stays."""
    workspace = init_workspace(home / "ws", make_key(home / "key").with_suffix(".pub").read_text()).workspace
    before = workspace.settings_bytes()
    for edit in (b"", b"\n# mine\n"):
        made, lines = make_missing(Missing(workspace, None, access()), typed=KEY, locked=False)
        assert made.root == workspace.root and workspace.load_settings().secrets["codex"].host == "api.openai.com"
        assert [line.split()[0] for line in lines] == ["file", "settings"]
        workspace.settings_file.write_bytes(changed := workspace.settings_bytes() + edit)
        stays = remove_made(Made.read())
        assert Made.read() == Made() and workspace.settings_bytes() == (changed if edit else before)
        assert stored(home).exists() is bool(edit), "the settings name it still"
        assert len(stays) == (2 if edit else 0), stays


def test_a_key_that_another_workspace_uses_stays(home: Path) -> None:
    missing = Missing(None, None, access())
    workspace, _ = make_missing(missing, typed=KEY, locked=False)
    operator = home / "config/threegate/operator_ed25519"
    init_workspace(home / "other", operator.with_suffix(".pub").read_text())
    stays = remove_made(Made.read())
    assert [line.partition(": ")[0] for line in stays] == [str(operator), f"{operator}.pub"]
    assert operator.exists() and not stored(home).exists() and not workspace.root.exists()


def test_two_at_once_make_one_workspace(home: Path) -> None:
    """The second one found nothing before, and uses what the first one made."""
    missing = Missing(None, None, access())
    first, _ = make_missing(missing, typed=KEY, locked=False)
    events = first.trail_file.read_bytes()
    second, _ = make_missing(missing, typed=KEY, locked=False)
    assert first.root == second.root == default_workspace() and second.trail_file.read_bytes() == events
    assert why_not_forget(Made.read()) is None
    with first.daemon_lock():
        assert "a daemon is running" in str(why_not_forget(Made.read()))
        with pytest.raises(InvalidInput, match="nothing was removed"):
            remove_made(Made.read())


@pytest.mark.parametrize(
    "text", ["", "[]", '{"workspace": 1}', '{"workspace": "", "workspace_id": "", "files": 3, "settings": {}}']
)
def test_a_broken_list_is_one_line(text: str, home: Path) -> None:
    (home / "data/threegate").mkdir(parents=True)
    (home / "data/threegate/made.json").write_text(text)
    with pytest.raises(Unavailable, match="cannot be read"):
        Made.read()


def test_the_workspace_is_for_its_user_alone(home: Path) -> None:
    workspace, _ = make_missing(Missing(None, None, None), typed="", locked=False)
    assert workspace.root.stat().st_mode & 0o777 == 0o700 and Workspace(workspace.root).load_settings().secrets == {}
