"""Where requests with a ChatGPT login go, and what they need besides a body, as Codex 0.169.0 makes them.

Invariant: a token goes to three exact addresses and no other: RESPONSES and _ACCOUNTS of the upstream, and, for an
access token, _IDENTITY of the host that knows its account. The login is read for each request and never refreshed.
An account whose requests Codex sends elsewhere, or of which that is not known, is refused.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import httpx

from threegate.core import limits
from threegate.core.canonical import StrictJSONError, loads_strict
from threegate.plugins.agents.codex_login import EXPIRED, CodexLogin, LoginUnusable, is_account, read_login
from threegate.plugins.agents.model_counts import RelaySettings
from threegate.plugins.agents.model_forms import ModelRequestRefused

RESPONSES: Final = "/backend-api/codex/responses"
EXPIRED_OUTSIDE: Final = "the ChatGPT login has expired; outside of the jail it is renewed with: codex login"
"""For the agent, and whoever reads its screen."""
_ACCOUNTS: Final = "/backend-api/wham/accounts/check"
_IDENTITY: Final = "/api/accounts/v1/user-auth-credential/whoami"
_UNCONSTRAINED: Final = "NO_CONSTRAINT"


class ChatGPTUpstream:
    """The upstream of one run."""

    def __init__(self, client: httpx.AsyncClient, settings: RelaySettings) -> None:
        self._client, self._settings = client, settings
        self._turn = asyncio.Lock()
        self._token = self._account = ""
        self.values: frozenset[str] = frozenset()
        """All values of the logins so far that must not get into the jail."""

    async def headers(self) -> dict[str, str]:
        """The headers of a request. Raises ModelRequestRefused."""
        try:
            login = read_login(Path(self._settings.login))
        except LoginUnusable as error:
            text = EXPIRED_OUTSIDE if error.why == EXPIRED else f"the ChatGPT login: {error.why}"
            raise ModelRequestRefused(text) from None
        self.values |= login.values
        async with self._turn:
            if self._token != login.token:
                self._account = await self._checked(login)
                self._token = login.token
            return _headers(login, self._account)

    def forget(self) -> None:
        """Check the account again before the next request: the provider refused the token."""
        self._token = ""

    async def _checked(self, login: CodexLogin) -> str:
        """The account of a login, if the upstream is where its requests go."""
        account: object = login.account
        if not account:
            found = await self._get(self._settings.identity_url + _IDENTITY, _headers(login, ""))
            account = found.get("chatgpt_account_id")
        if not is_account(account):
            raise ModelRequestRefused("the ChatGPT login: its provider names no account")
        found = await self._get(self._settings.url + _ACCOUNTS, _headers(login, account))
        listed = found.get("accounts")
        rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
        own = [row for row in rows if row.get("id") == account]
        if len(own) != 1:
            raise ModelRequestRefused("the ChatGPT login: its provider does not list its account")
        origin, override = own[0].get("workspace_backend_origin"), own[0].get("account_routing_override")
        if origin not in (_UNCONSTRAINED, self._settings.url) or override not in (_UNCONSTRAINED, None):
            raise ModelRequestRefused(
                "the ChatGPT login: its workspace is not served at the host of other accounts, and nothing is sent "
                "elsewhere; an API key works"
            )
        return account

    async def _get(self, url: str, headers: dict[str, str]) -> dict[str, Any]:
        """What one address says about the account; no redirect is followed. Raises ModelRequestRefused."""
        data = b""
        try:
            async with (
                asyncio.timeout(limits.AGENT_LOGIN_SECONDS),
                self._client.stream("GET", url, headers={**headers, "accept": "application/json"}) as reply,
            ):
                if reply.status_code == httpx.codes.UNAUTHORIZED:
                    raise ModelRequestRefused(EXPIRED_OUTSIDE)
                async for piece in reply.aiter_raw():
                    data += piece
                    if len(data) > limits.AGENT_LOGIN_ANSWER_BYTES:
                        break
            found = loads_strict(data, max_bytes=limits.AGENT_LOGIN_ANSWER_BYTES) if reply.status_code == 200 else None
        except (httpx.HTTPError, TimeoutError, StrictJSONError):
            found = None
        if not isinstance(found, dict):
            raise ModelRequestRefused("the ChatGPT login: its provider gives no answer about the account; try again")
        return found


def _headers(login: CodexLogin, account: str) -> dict[str, str]:
    made = {"authorization": f"Bearer {login.token}", "accept-encoding": "identity", "user-agent": "threegate"}
    return {**made, "originator": "threegate", **({"chatgpt-account-id": account} if account else {})}
