"""An agent, a provider that is taken over, and another process that uses the same login: the token of a ChatGPT login
goes to the exact addresses of Codex, and nothing of the login gets into the jail.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.plugins.agents.chatgpt import (
    ACCOUNT,
    ACCOUNTS,
    IDENTITY,
    RESPONSES,
    USUAL,
    ChatGPT,
    Tokens,
    jwt,
    log_in,
    write_login,
)
from tests.plugins.agents.test_model_protocols import GOOD
from tests.plugins.agents.test_model_relay import Client
from threegate.core import limits
from threegate.plugins.agents.chatgpt_upstream import ChatGPTUpstream
from threegate.plugins.agents.model_counts import RelaySettings
from threegate.plugins.agents.model_forms import ModelRequestRefused
from threegate.plugins.agents.side_processes import start_model_relay

ASKED = [f"GET {ACCOUNTS}", f"POST {RESPONSES}"]


@pytest.fixture
def provider() -> Iterator[ChatGPT]:
    made = ChatGPT()
    with made.serving():
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "codex home"


@pytest.fixture
def tokens(home: Path) -> Tokens:
    return log_in(home)


@pytest.fixture
def client(tmp_path: Path, provider: ChatGPT, home: Path) -> Iterator[Client]:
    """An agent whose relay has the login."""
    settings = RelaySettings(
        "responses", provider.url, ("m",), "", 100, 1 << 20, 0, login=str(home), identity_url=provider.url
    )
    path = tmp_path / "model.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        process, counts = start_model_relay(listener, settings)
    try:
        yield Client(path, counts)
    finally:
        process.end()
        os.close(counts)


def ask(client: Client, path: str = "/v1/responses", body: Any = None, **headers: str) -> tuple[int, str]:
    """Status and everything that came back."""
    status, heads, said = client.post(path, body or GOOD["responses"], headers)
    return status, json.dumps(heads) + said.decode()


def test_the_token_and_the_account_are_the_relays(client: Client, provider: ChatGPT, tokens: Tokens) -> None:
    mine = {
        "Authorization": "Bearer mine", "ChatGPT-Account-ID": "mine", "originator": "mine", "Cookie": "mine",
        "x-openai-account-routing-override": "mine", "X-OpenAI-Fedramp": "mine", "session-id": "mine",
    }  # fmt: skip
    for _ in range(2):
        status, said = ask(client, **mine)
        assert status == 200 and "CANARY" not in said, said
    assert provider.paths() == [*ASKED, ASKED[1]], "the account is looked at once for a token"
    for asked in provider.seen:
        assert (asked.headers["authorization"], asked.headers["chatgpt-account-id"]) == (
            f"Bearer {tokens.access}",
            ACCOUNT,
        )
        everything = json.dumps(dict(asked.headers)) + asked.body.decode()
        assert "mine" not in everything and "cookie" not in asked.headers, everything
        assert tokens.refresh not in everything and tokens.identity not in everything


def test_no_other_path_is_asked(client: Client, provider: ChatGPT, tokens: Tokens) -> None:
    for path in (
        "/v1/responses/compact",
        "/v1/responses/",
        "/v1/responses/../../wham/tasks",
        "/v1/responses?x=1",
        "/v1//responses",
        "/v1/responses%2f..%2f",
        RESPONSES,
        ACCOUNTS,
        "/backend-api/wham/usage",
        "/backend-api/me",
        "/oauth/token",
        "http://auth.openai.com/oauth/token",
    ):
        status, said = ask(client, path)
        assert status == 403 and "refuses" in said and tokens.access not in said, path
    assert provider.seen == []


def test_what_a_key_may_not_ask_a_login_may_not_either(client: Client, provider: ChatGPT, tokens: Tokens) -> None:
    for change in ({"model": "other"}, {"store": True}, {"tools": [{"type": "web_search"}]}):
        assert ask(client, body={**GOOD["responses"], **change})[0] == 403
    assert provider.seen == []


def test_a_provider_that_repeats_the_login(client: Client, provider: ChatGPT, tokens: Tokens) -> None:
    """Whole and in two pieces at every place of the token; hidden in base64 it lacks its end."""
    encoded = base64.b64encode(f"x{tokens.access}".encode())
    provider.headers = {"content-type": "text/event-stream", "x-request-id": tokens.access, "x-other": tokens.refresh}
    for value in map(str.encode, tokens.values):
        for cut in (1, len(value) // 2, len(value) - 1):
            provider.pieces = [b"data: " + value[:cut], value[cut:] + b"\n\ndata: " + value + b"\n\n"]
            _, said = ask(client)
            assert value.decode() not in said and said.count("[secret]") >= 2, said
    provider.pieces = [b"data: " + encoded + b"\n\n"]
    _, said = ask(client)
    assert encoded.decode()[-300:] not in said
    for status in (400, 403, 429, 500):
        provider.status, provider.pieces = status, [json.dumps({"error": tokens.values}).encode()]
        found, said = ask(client)
        assert found == status and not any(value in said for value in tokens.values), said


def test_a_provider_that_sends_it_elsewhere(client: Client, provider: ChatGPT, tokens: Tokens) -> None:
    for status in (301, 302, 303, 307, 308):
        provider.status, provider.headers = status, {"location": f"{provider.url}/elsewhere"}
        found, said = ask(client)
        assert found == 502 and "redirect" in said and "elsewhere" not in said
    assert set(provider.paths()) == set(ASKED)


def test_a_provider_that_does_not_say_where_the_account_is(client: Client, provider: ChatGPT, tokens: Tokens) -> None:
    answers = [
        (302, b"{}", "no answer about the account"),
        (404, b"{}", "no answer about the account"),
        (500, b"{}", "no answer about the account"),
        (200, b" ", "no answer about the account"),
        (200, b"[]", "no answer about the account"),
        (200, b'{"accounts": [], "accounts": []}', "no answer about the account"),
        (200, b'{"accounts": "' + b"x" * (1 << 20) + b'"}', "no answer about the account"),
        (200, b"{}", "does not list its account"),
        (200, b'{"accounts": {"id": 1}}', "does not list its account"),
        (200, b'{"accounts": [7, {"id": "another"}]}', "does not list its account"),
        (401, b"{}", "codex login"),
    ]
    for status, data, why in answers:
        provider.accounts = status, data
        found, said = ask(client)
        assert found == 403 and why in said and tokens.access not in said, (status, data[:50], said)
    assert provider.paths() == ASKED[:1] * len(answers), "no body was sent"
    assert (client.counts.requests, client.counts.refused) == (0, len(answers))
    provider.accounts = None
    assert ask(client)[0] == 200, "the next request asks again"


def test_a_workspace_that_codex_would_ask_elsewhere_is_refused(
    client: Client, provider: ChatGPT, tokens: Tokens
) -> None:
    """Its people chose where their requests are read; neither the provider nor the agent names a host here."""
    for row in (
        {"workspace_backend_origin": "https://evil.example"},
        {"workspace_backend_origin": "https://gov.chatgpt.com"},
        {"workspace_backend_origin": None},
        {"workspace_backend_origin": ["NO_CONSTRAINT"]},
        {"account_routing_override": "us_cr"},
        {"account_routing_override": {}},
    ):
        provider.rows = [{"id": ACCOUNT, **USUAL, **row}]
        status, said = ask(client)
        assert status == 403 and "API key" in said and "evil" not in said, row
    assert set(provider.paths()) == {ASKED[0]}


def test_a_provider_that_takes_its_time_or_packs_its_answer(
    provider: ChatGPT, home: Path, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then does not extend the time, and what is packed is not unpacked."""
    monkeypatch.setattr(limits, "AGENT_LOGIN_SECONDS", 0.3)
    listed = json.dumps({"accounts": [{"id": ACCOUNT, **USUAL}]}).encode()

    async def refusal() -> str:
        async with httpx.AsyncClient(trust_env=False) as http:
            settings = RelaySettings("responses", provider.url, ("m",), "", 1, 1, 0, login=str(home))
            with pytest.raises(ModelRequestRefused) as refused:
                await ChatGPTUpstream(http, settings).headers()
            return str(refused.value)

    provider.accounts, provider.between = (200, b" " * 40 + listed), 0.05
    assert "no answer about the account" in asyncio.run(refusal())
    provider.accounts, provider.between = (200, gzip.compress(listed)), 0
    provider.plain["content-encoding"] = "gzip"
    assert "no answer about the account" in asyncio.run(refusal())


def test_an_account_that_is_listed_twice_is_refused(client: Client, provider: ChatGPT, tokens: Tokens) -> None:
    provider.rows = [{"id": ACCOUNT, **USUAL}, {"id": ACCOUNT, "workspace_backend_origin": "https://evil.example"}]
    assert ask(client)[0] == 403 and provider.paths() == ASKED[:1]


def test_the_account_of_an_access_token_is_asked_for(client: Client, provider: ChatGPT, home: Path) -> None:
    token = "at-CANARY-access-token-of-a-workspace"
    write_login(home, json.dumps({"OPENAI_API_KEY": None, "personal_access_token": token}))
    assert ask(client)[0] == 200
    assert provider.paths() == [f"GET {IDENTITY}", *ASKED]
    assert [asked.headers.get("chatgpt-account-id") for asked in provider.seen] == [None, ACCOUNT, ACCOUNT]
    assert {asked.headers["authorization"] for asked in provider.seen} == {f"Bearer {token}"}


def test_an_account_that_is_no_header_is_refused(client: Client, provider: ChatGPT, home: Path) -> None:
    write_login(home, json.dumps({"personal_access_token": "at-CANARY-access-token-of-a-workspace"}))
    for account in (None, 7, "", "a\r\nCookie: mine", "a" * 200, "ä"):
        provider.identity = {"chatgpt_account_id": account}
        status, said = ask(client)
        assert status == 403 and "names no account" in said, account
    assert set(provider.paths()) == {f"GET {IDENTITY}"}


def test_the_login_is_read_each_time_and_never_refreshed(client: Client, provider: ChatGPT, home: Path) -> None:
    """Codex renews it beside us, and the person logs in as somebody else; nothing of an old login is shown later."""
    first = log_in(home, "first")
    assert ask(client)[0] == 200
    second = log_in(home, "second")
    provider.pieces = [f"data: {first.access} {second.refresh}\n\n".encode()]
    _, said = ask(client)
    assert "[secret] [secret]" in said
    assert [asked.headers["authorization"][7:] for asked in provider.seen] == [first.access] * 2 + [second.access] * 2
    assert set(provider.paths()) == set(ASKED), "no refresh"
    assert sorted(path.name for path in home.iterdir()) == ["auth.json"]


def test_an_expired_login_is_said_and_sent_nowhere(client: Client, provider: ChatGPT, home: Path) -> None:
    log_in(home, ends_in=-1)
    status, said = ask(client)
    assert status == 403 and "the ChatGPT login has expired" in said and "codex login" in said and str(home) not in said
    assert provider.seen == []
    log_in(home, "renewed")
    assert ask(client)[0] == 200, "as soon as it is renewed"


def test_a_token_that_the_provider_refuses_is_said_once(client: Client, provider: ChatGPT, tokens: Tokens) -> None:
    """A 401 is not repeated with another token, and what the provider says about it is not passed on."""
    provider.status, provider.pieces = 401, [json.dumps({"error": tokens.refresh}).encode()]
    status, said = ask(client)
    assert status == 403 and "codex login" in said and "CANARY" not in said and "error" in said
    assert provider.paths() == ASKED
    provider.status = 200
    assert ask(client)[0] == 200 and provider.paths() == ASKED * 2, "the account is looked at again"


def test_a_login_that_goes_away_in_the_middle(client: Client, provider: ChatGPT, home: Path) -> None:
    log_in(home)
    assert ask(client)[0] == 200
    for spoil in (
        lambda: (home / "auth.json").unlink(),
        lambda: write_login(home, '{"tokens": {"access_tok'),
        lambda: write_login(home, json.dumps({"auth_mode": "agentIdentity"})),
        lambda: (home / "config.toml").write_text('cli_auth_credentials_store = "keyring"\n'),
    ):
        spoil()
        status, said = ask(client)
        assert status == 403 and "the ChatGPT login: " in said and str(home) not in said, said
    assert len(provider.seen) == 2


def test_no_cookie_is_kept_or_shown(client: Client, provider: ChatGPT, tokens: Tokens) -> None:
    answers = [client.post("/v1/responses", GOOD["responses"]) for _ in range(3)]
    assert all("set-cookie" not in heads and b"CANARY" not in body for _, heads, body in answers)
    assert all("cookie" not in asked.headers for asked in provider.seen)


def test_a_token_that_is_as_long_as_a_token_may_be(client: Client, provider: ChatGPT, home: Path) -> None:
    long = jwt("access", padding="p" * 9000)
    log_in(home, tokens={"access_token": long, "account_id": ACCOUNT, "refresh_token": "r" * 90, "id_token": jwt("i")})
    provider.pieces = [b"data: " + long[:5000].encode(), long[5000:].encode() + b"\n\n"]
    status, said = ask(client)
    assert status == 200 and "data: [secret]" in said and long[:5000] not in said
