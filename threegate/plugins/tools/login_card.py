"""What a person reads of a login before it: whom the browser visits, and what the tokens are for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from threegate.core.screen_parts import Fact, Field, Item, Note, Section
from threegate.plugins.tools.remote_login import OAuthLogin, RemoteLogin

if TYPE_CHECKING:
    from threegate.plugins.tools.remote.browser_login import Plan


def plan_sections(plan: Plan) -> list[Section]:
    """Of a login that is planned."""
    server = plan.discovered.server
    client = "ThreeGate registers itself there" if plan.client is None else plan.client.client_id
    return [
        Section(
            "THE LOGIN",
            (
                Field("server", f"{plan.server}, {plan.url}"),
                *_login(
                    server.issuer,
                    server.authorization_endpoint,
                    server.token_endpoint,
                    client,
                    plan.discovered.scopes,
                    plan.discovered.resource,
                ),
            ),
        )
    ]


def login_section(login: RemoteLogin) -> Section:
    """Of a login that is signed, or about to be."""
    items: list[Item] = []
    if login.oauth is not None:
        items += signed_items(login.oauth)
    for header in login.headers:
        scheme = f"{header.scheme} and " if header.scheme else ""
        items.append(Field("header", f"{header.name}: {scheme}the file of secrets.{header.secret}"))
    return Section("THE LOGIN", tuple(items))


def signed_items(oauth: OAuthLogin) -> Iterable[Item]:
    """Everything of it."""
    yield from _login(
        oauth.issuer, oauth.authorization_endpoint, oauth.token_endpoint, oauth.client_id, oauth.scopes, oauth.resource
    )
    yield Field("client has", "no secret" if oauth.authentication == "none" else f"a secret ({oauth.authentication})")
    names = "must name the issuer" if oauth.iss else "may name the issuer"
    yield Field("answers", f"come to 127.0.0.1, any port, {oauth.redirect_path}; they {names}")


def _login(
    issuer: str, authorization: str, token: str, client: str, scopes: Iterable[str], resource: str
) -> Iterable[Item]:
    yield Fact("browser", f"visits https://{urlsplit(authorization).netloc}")
    yield Field("issuer", issuer)
    yield Field("link", authorization)
    yield Field("tokens from", token)
    yield Field("client", client)
    yield Field("scopes", " ".join(scopes) or "none are asked for: the authorization server decides")
    yield Field("tokens for", resource)
    if urlsplit(issuer).netloc not in (urlsplit(authorization).netloc, urlsplit(token).netloc):
        yield Note("the issuer's host is neither the one that is visited nor the one that gives tokens")
