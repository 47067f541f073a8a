"""From what was discovered to tokens: a client, the link for a browser, and the answer that comes back.

Invariant: a code is sent only when the answer has this login's `state` and, where one was promised or given, the `iss`
of this issuer (RFC 9207); both are checked before anything else of it is believed. PKCE is S256.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from mcp.client.auth.oauth2 import PKCEParameters
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

from threegate.core import canonical
from threegate.core.errors import Unavailable
from threegate.plugins.tools.remote.guarded_http import Reach, checked_url, fetch
from threegate.plugins.tools.remote.oauth_discovery import Discovered
from threegate.plugins.tools.remote.oauth_documents import Registration, plain_word, refused
from threegate.plugins.tools.remote_login import ClientAuthentication, OAuthLogin

CLIENT_NAME: Final = "ThreeGate"


@dataclass(frozen=True, slots=True)
class Client:
    """Who we are for an authorization server."""

    client_id: str
    authentication: ClientAuthentication = "none"
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The secrets of one visit of a browser."""

    state: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    proof: PKCEParameters = field(default_factory=PKCEParameters.generate, repr=False)


def register(discovered: Discovered, redirect_uri: str, *, reach: Reach) -> Client:
    """A client of our own (RFC 7591), where there is an endpoint for it. Raises Refused (`login_refused`,
    `url_refused`), Unavailable.
    """
    endpoint = discovered.server.registration_endpoint
    asked = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_uri)],
        token_endpoint_auth_method="none",  # noqa: S106 - the name of a method
        scope=" ".join(discovered.scopes) or None,
        client_name=CLIENT_NAME,
        application_type="native",
    )
    body = canonical.canonical_bytes(asked.model_dump(mode="json", exclude_none=True))
    what = "the registration"
    headers = [("content-type", "application/json"), ("accept", "application/json")]
    answer, data = fetch(endpoint, what, "POST", headers, body, reach=reach)
    if answer.status not in (200, 201):
        raise Unavailable(f"{what}: the authorization server answers with status {answer.status}")
    made = Registration.read(data, what)
    made.check(redirect_uri)
    return Client(made.client_id, made.authentication, made.client_secret or "")


def login_of(discovered: Discovered, client: Client, redirect_path: str) -> OAuthLogin:
    """What is to be signed."""
    server = discovered.server
    return OAuthLogin(
        issuer=server.issuer,
        authorization_endpoint=server.authorization_endpoint,
        token_endpoint=server.token_endpoint,
        client_id=client.client_id,
        authentication=client.authentication,
        scopes=discovered.scopes,
        resource=discovered.resource,
        redirect_path=redirect_path,
        iss=server.authorization_response_iss_parameter_supported,
    )


def authorization_url(oauth: OAuthLogin, attempt: Attempt, redirect_uri: str) -> str:
    """What a browser opens. Raises Refused (`url_refused`)."""
    asked = {
        "response_type": "code",
        "client_id": oauth.client_id,
        "redirect_uri": redirect_uri,
        "state": attempt.state,
        "code_challenge": attempt.proof.code_challenge,
        "code_challenge_method": "S256",
        "resource": oauth.resource,
        **({"scope": " ".join(oauth.scopes)} if oauth.scopes else {}),
    }
    parts = checked_url(oauth.authorization_endpoint, "the authorization endpoint")
    return f"{oauth.authorization_endpoint}{'&' if parts.query else '?'}{urlencode(asked)}"


def answered_code(answer: Mapping[str, str], oauth: OAuthLogin, attempt: Attempt) -> str:
    """The code in a browser's answer. Raises Refused (`login_refused`)."""
    if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
        raise refused("the answer does not belong to this login (its state differs); nothing was sent; log in again")
    iss = answer.get("iss")
    if iss is None and oauth.iss:
        raise refused("the answer does not name the authorization server, which it promised; nothing was sent")
    if iss is not None and iss != oauth.issuer:
        raise refused("the answer comes from another authorization server (its iss differs); nothing was sent")
    if "error" in answer:
        raise refused(f"the authorization server refused: {plain_word(answer['error'])}")
    if not answer.get("code"):
        raise refused("the answer has no code")
    return answer["code"]
