"""The page that takes passkeys, in this process, and a browser with a passkey in software."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx

from tests.acts.bench_workspace import Bench
from tests.approval.soft_passkey import FLAGS, SoftPasskey
from tests.plugins.page.page_client import Clock
from threegate.acts.signed_acts import sign_act
from threegate.acts.signing_key import Acting
from threegate.approval.passkey import decode_base64url, encode_base64url
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, NAMESPACE_LOGIN
from threegate.plugins.page.passkey_app import create_passkey_server
from threegate.plugins.page.passkeys import PASSKEY_ACT, MadePasskey, enrol_passkey

ORIGIN = "https://approve.example.org:8443"
HOST = "approve.example.org:8443"


def enrol(bench: Bench, name: str = "alice", credential: bytes = b"credential-1") -> SoftPasskey:
    """A passkey of an operator, enrolled with their SSH key."""
    bench.settings(approval__passkey_origin=ORIGIN)
    passkey = SoftPasskey(ORIGIN, credential)
    made = MadePasskey(passkey.key, passkey.passkey)
    context = bench.context
    signed = sign_act(context, Acting(name, bench.keys[name]), PASSKEY_ACT, made.about(name))
    enrol_passkey(context, name, made, signed)
    return passkey


class PasskeyClient:
    """One server and one browser; `log_in` before `page` and `approve`."""

    def __init__(self, bench: Bench, passkey: SoftPasskey) -> None:
        self.bench, self.passkey, self.clock = bench, passkey, Clock()
        self.app = create_passkey_server(bench.workspace, ORIGIN, per_minute=100_000, clock=self.clock)
        self.base = self.cookie = ""

    def ask(
        self,
        path: str,
        body: dict[str, Any] | bytes | None = None,
        *,
        headers: dict[str, str] | None = None,
        method: str = "",
        cookie: bool = True,
    ) -> httpx.Response:
        """A request as our script sends it; `headers` replace, an empty text takes one away."""
        sent = {
            "Host": HOST,
            "Sec-Fetch-Site": "same-origin",
            "Sec-Fetch-Dest": "empty",
            "Sec-Fetch-Mode": "cors",
        }
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        if content is not None:
            sent |= {"Origin": ORIGIN, "Content-Type": "application/json"}
        if cookie and self.cookie and path.startswith(self.base):
            sent["Cookie"] = self.cookie
        sent |= headers or {}

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, client=("203.0.113.9", 40000))
            async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as browser:
                kind = method or ("GET" if content is None else "POST")
                request = browser.build_request(kind, f"{ORIGIN}{path}", content=content)
                length = {"Content-Length": str(len(content))} if content is not None else {}
                request.headers = httpx.Headers({name: value for name, value in {**sent, **length}.items() if value})
                return await browser.send(request)

        return asyncio.run(go())

    def assertion(self, challenge: str, passkey: SoftPasskey | None = None, *, origin: str = ORIGIN, flags: int = FLAGS) -> dict[str, str]:  # fmt: skip  # noqa: E501
        """What a browser gives for a challenge."""
        used = passkey or self.passkey
        client_data = (
            f'{{"type":"webauthn.get","challenge":"{challenge}","origin":"{origin}","crossOrigin":false}}'.encode()
        )
        head, signature = used.get(client_data, flags=flags)
        return {
            "credential": used.passkey.credential,
            "authenticator_data": encode_base64url(head),
            "client_data": encode_base64url(client_data),
            "signature": encode_base64url(signature),
        }

    def login_form(self) -> dict[str, str]:
        """What the login page is sent with."""
        return data_of(self.ask("/page/").text)

    def log_in(self, passkey: SoftPasskey | None = None, **changes: Any) -> httpx.Response:
        """The whole login; the answer."""
        form = self.login_form()
        answer = self.ask(
            "/page/login", {**self.assertion(form["challenge"], passkey, **changes), "nonce": form["nonce"]}
        )
        if answer.status_code == 200:
            self.base = answer.json()["to"]
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def page(self, part: str) -> tuple[str, dict[str, str]]:
        """A draft's page, and what it is sent with."""
        listed = self.ask(f"{self.base}list/drafts").text
        links = re.findall(r'href="([^"]+/request/[^"]+)">([^<]*)', listed)
        address = next(found for found, text in links if part in text)
        page = self.ask(address)
        assert page.status_code == 200, page.text
        return page.text, data_of(page.text)

    def approve(self, form: dict[str, str], **changes: Any) -> httpx.Response:
        """Sign and send what a draft's page was sent with."""
        to = changes.pop("to", form["to"])
        body = {**self.assertion(form["challenge"], **changes), "statement": form["statement"]}
        return self.ask(to, body)


def data_of(page: str) -> dict[str, str]:
    """The data attributes that our script reads."""
    found = re.search(r'<div id="passkey"([^>]*)>', page)
    return dict(re.findall(r'data-([a-z]+)="([^"]*)"', found[1])) if found else {}


def statement_of(form: dict[str, str]) -> bytes:
    """The bytes that a page asks to sign."""
    return decode_base64url(form["statement"])


__all__ = [
    "HOST",
    "NAMESPACE_APPROVAL",
    "NAMESPACE_LOGIN",
    "ORIGIN",
    "PasskeyClient",
    "data_of",
    "enrol",
    "statement_of",
]
