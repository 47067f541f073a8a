"""Logins as Codex writes them: which are used, and what is said of the others. Nothing is ever written."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.agents.chatgpt import ACCOUNT, jwt, log_in, write_login
from tests.plugins.agents.npm_agents import Unavailable, install
from tests.plugins.agents.people import Person
from threegate.core.errors import InvalidInput
from threegate.core.settings import parse_settings
from threegate.plugins.agents.codex_login import LoginUnusable, read_login
from threegate.plugins.agents.profile import load_profile
from threegate.plugins.agents.secret_files import is_secret_path

ACCESS_TOKEN = "at-CANARY-access-token-of-a-workspace"


def refused(home: Path) -> LoginUnusable:
    with pytest.raises(LoginUnusable) as found:
        read_login(home)
    said = str(found.value)
    assert "CANARY" not in said and "\n" not in said and str(home) in said, said
    assert str(home) not in found.value.why, "an agent reads that"
    return found.value


def test_a_login_of_the_browser(tmp_path: Path) -> None:
    tokens = log_in(tmp_path)
    before = {path: (path.lstat(), path.read_bytes()) for path in tmp_path.iterdir()}
    login = read_login(tmp_path)
    assert (login.token, login.account, login.values) == (tokens.access, ACCOUNT, frozenset(tokens.values))
    assert "CANARY" not in repr(login) and tokens.access not in repr(login)
    after = {path: (path.lstat(), path.read_bytes()) for path in tmp_path.iterdir()}
    assert [(kept[0].st_ino, kept[0].st_mtime_ns, kept[1]) for kept in before.values()] == [
        (kept[0].st_ino, kept[0].st_mtime_ns, kept[1]) for kept in after.values()
    ]


def test_the_account_is_that_of_the_id_token_if_the_file_names_none(tmp_path: Path) -> None:
    tokens = {"id_token": jwt("identity"), "access_token": jwt("access"), "refresh_token": "r" * 30}
    log_in(tmp_path, tokens=tokens)
    assert read_login(tmp_path).account == ACCOUNT
    for identity in ("not-a-jwt-but-a-token", "a.b.c" * 8, jwt("x", **{"https://api.openai.com/auth": "text"})):
        log_in(tmp_path, tokens={**tokens, "id_token": identity})
        assert refused(tmp_path).why == "the login has no account"


def test_a_documented_access_token(tmp_path: Path) -> None:
    write_login(tmp_path, json.dumps({"OPENAI_API_KEY": None, "personal_access_token": ACCESS_TOKEN}))
    login = read_login(tmp_path)
    assert (login.token, login.account, login.values) == (ACCESS_TOKEN, "", frozenset((ACCESS_TOKEN,)))


def test_an_expired_login_says_what_to_type(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    log_in(home, ends_in=-1)
    assert str(refused(home)) == f"{home}: the login has expired; log in with: CODEX_HOME='{home}' codex login"


@pytest.mark.parametrize("store", ["keyring", "ephemeral", "something-new"])
def test_a_login_that_is_not_in_a_file_is_one_refusal(tmp_path: Path, store: str) -> None:
    """Also if an old file is still there."""
    (tmp_path / "config.toml").write_text(f'cli_auth_credentials_store = "{store}"\n')
    said = str(refused(tmp_path))
    assert 'cli_auth_credentials_store = "file"' in said and "codex login" in said
    log_in(tmp_path)
    assert str(refused(tmp_path)) == said


@pytest.mark.parametrize("text", ['cli_auth_credentials_store = "file"\n', 'cli_auth_credentials_store = "auto"\n', ""])
def test_a_store_that_has_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert refused(tmp_path).why == "there is no login in it"
    log_in(tmp_path)
    assert read_login(tmp_path).account == ACCOUNT


@pytest.mark.parametrize("text", ["cli_auth = [", "a = 1\na = 2\n", "\x00", "a = " + "[" * 5000])
def test_settings_of_codex_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    log_in(tmp_path)
    assert "config.toml cannot be read" in str(refused(tmp_path))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"auth_mode": "apikey", "OPENAI_API_KEY": "sk-CANARY-key-0123456789", "tokens": None}, "with an API key"),
        ({"auth_mode": None, "OPENAI_API_KEY": "sk-CANARY-key-0123456789"}, "with an API key"),
        ({"auth_mode": "agentIdentity", "agent_identity": "CANARY"}, "cannot be used here"),
        ({"auth_mode": "chatgptAuthTokens"}, "cannot be used here"),
        ({"auth_mode": ["chatgpt"]}, "cannot be used here"),
        ({"tokens": None}, "has no token"),
        ({"tokens": {"access_token": ["CANARY"]}}, "has no token"),
        ({"tokens": {"access_token": "CANARY\r\nHost: evil.example", "account_id": ACCOUNT}}, "has no token"),
        ({"tokens": {"access_token": jwt("a"), "account_id": "a\r\nCookie: CANARY"}}, "has no account"),
        ({"tokens": {"access_token": jwt("a"), "account_id": 7}}, "has no account"),
        ({"tokens": "CANARY"}, "not one that Codex wrote"),
        ({"auth_mode": "personalAccessToken"}, "has no token"),
    ],
)
def test_what_is_no_usable_login(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    log_in(tmp_path, **changes)
    assert why in refused(tmp_path).why


def _raw(text: str) -> Callable[[Path], None]:
    return lambda home: write_login(home, text)


def _linked(home: Path) -> None:
    log_in(home / "other")
    (home / "auth.json").symlink_to(home / "other" / "auth.json")


def _hard_linked(home: Path) -> None:
    log_in(home)
    os.link(home / "auth.json", home / "second")


def _shared(home: Path) -> None:
    log_in(home)
    (home / "auth.json").chmod(0o640)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_raw(""), "not one that Codex wrote"),
        (_raw("[]"), "not one that Codex wrote"),
        (_raw('{"auth_mode": "chatgpt", "auth_mode": "chatgpt"}'), "not one that Codex wrote"),
        (_raw('{"tokens": {"access_token": "CANARY'), "not one that Codex wrote"),
        (_raw(" " * 300_000), "cannot be read"),
        (_linked, "cannot be read"),
        (_hard_linked, "cannot be read"),
        (_shared, "not for you alone"),
        (lambda home: os.mkfifo(home / "auth.json"), "cannot be read"),
        (lambda home: (home / "auth.json").mkdir(), "cannot be read"),
    ],
)
def test_what_is_no_file_of_a_login(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    make(tmp_path)
    assert why in refused(tmp_path).why


@pytest.mark.root
def test_a_login_of_another_account_is_refused(tmp_path: Path) -> None:
    log_in(tmp_path)
    os.chown(tmp_path / "auth.json", 65534, 65534)
    assert refused(tmp_path).why == "its auth.json is another account's"


def test_the_settings_name_a_login_or_a_key() -> None:
    settings = parse_settings(b'[agents.codex]\nlogin = "/home/me/codex"\n')
    profile = load_profile("codex", settings)
    assert profile.url == "https://chatgpt.com" and profile.host == "chatgpt.com" and not profile.needs_key
    other = parse_settings(b'[agents.mine]\nprofile = "codex"\nlogin = "/home/me/codex"\n')
    assert load_profile("mine", other).url == "https://chatgpt.com"
    for more in ('key = "openai"', 'url = "https://evil.example"', 'url = "http://127.0.0.1:1"', 'protocol = "chat"'):
        both = parse_settings(f'[agents.codex]\nlogin = "/home/me/codex"\n{more}\n'.encode())
        with pytest.raises(InvalidInput, match=r"both set.*https://chatgpt\.com only"):
            load_profile("codex", both)
    for name in ("claude", "gemini", "opencode", "generic"):
        claude = parse_settings(f'[agents.{name}]\nlogin = "/home/me/claude"\n'.encode())
        with pytest.raises(InvalidInput, match=f"agents.{name}.key"):
            load_profile(name, claude)
    with pytest.raises(InvalidInput):
        parse_settings(b'[agents.codex]\nlogin = "codex"\n')


def test_a_run_does_not_start_without_a_usable_login(user: Person) -> None:
    """Nothing is made, and what is said is for the person, who has to type it."""
    home = user.home / ".config" / "threegate" / "codex"
    settings = user.workspace / "threegate.toml"
    plain = settings.read_text()

    def said(login: Path, code: int, *options: str) -> str:
        settings.write_text(f'{plain}\n[agents.codex]\nlogin = "{login}"\nprogram = "/bin/true"\n')
        user.own()
        done = user.run(profile="codex", options=options)
        assert done.returncode == code and "CANARY" not in done.stderr, done
        assert user.events("agent_started") == [] and list((user.workspace / "tool-exec/agents").glob("ar-*")) == []
        return done.stderr

    command = f"CODEX_HOME={home} codex login -c cli_auth_credentials_store=file"
    assert f"{home}: there is no login in it; log in with: {command}" in said(home, 3)
    log_in(home, ends_in=-1)
    assert f"{home}: the login has expired; log in with: CODEX_HOME={home} codex login" in said(home, 3)
    for place in (user.project / "codex", user.workspace / "tool-exec" / "codex", user.project):
        log_in(place)
        assert "move it, and set the new path" in said(place, 2), "the agent would see it"
    other = user.home / "other"
    log_in(other / "codex")
    assert "move it, and set the new path" in said(other / "codex", 2, "--read", str(other))
    (user.home / "link").symlink_to(user.project / "codex")
    assert "move it, and set the new path" in said(user.home / "link", 2)


def test_a_login_in_a_project_is_hidden_by_its_name() -> None:
    """Codex may have its folder in a project."""
    assert all(map(is_secret_path, (".codex/auth.json", "sub/.codex/auth.json", ".Codex/Auth.JSON")))
    assert not any(map(is_secret_path, ("auth.json", "codex/auth.json", ".codex/config.toml")))


def test_codex_itself_takes_such_a_login(tmp_path: Path) -> None:
    """The real program says what it finds, and writes an API key in a form that is refused here by name."""
    try:
        program = install("codex") / "node_modules" / ".bin" / "codex"
    except Unavailable as error:
        missing(str(error))

    def codex(*words: str, stdin: str = "") -> str:
        environment = {"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "codex"), "PATH": "/usr/local/bin:/usr/bin"}
        done = subprocess.run(
            [program, *words], env=environment, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr

    log_in(tmp_path / "codex")
    assert "Logged in using ChatGPT" in codex("login", "status")
    codex("login", "--with-api-key", stdin="sk-CANARY-key-0123456789\n")
    assert refused(tmp_path / "codex").why == "is a login with an API key"
    (tmp_path / "codex" / "config.toml").write_text('cli_auth_credentials_store = "ephemeral"\n')
    (tmp_path / "codex" / "auth.json").unlink()
    codex("login", "--with-api-key", stdin="sk-CANARY-key-0123456789\n")
    assert not (tmp_path / "codex" / "auth.json").exists() and "in memory" in refused(tmp_path / "codex").why
    command = "login --with-api-key -c cli_auth_credentials_store=file".split()
    codex(*command, stdin="sk-CANARY-key-0123456789\n")
    assert (tmp_path / "codex" / "auth.json").exists(), "what is suggested where there is no login"
