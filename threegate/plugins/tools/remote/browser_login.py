"""A login by a person's browser: the plan that the person reads, then the visit, then tokens in the store.

Invariant: nothing is registered, opened or kept before the plan was shown and accepted; and nothing is kept of a visit
that did not end with tokens for what was planned. A login again is for exactly what is signed: no document of a server
is asked.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from threegate.core import limits
from threegate.core.settings import Settings
from threegate.plugins.tools.remote.callback_listener import CallbackListener
from threegate.plugins.tools.remote.guarded_http import Reach
from threegate.plugins.tools.remote.login import kept_with
from threegate.plugins.tools.remote.oauth_discovery import Discovered, discover
from threegate.plugins.tools.remote.oauth_documents import Tokens, checked_scopes, refused
from threegate.plugins.tools.remote.oauth_flow import (
    Attempt,
    Client,
    answered_code,
    authorization_url,
    login_of,
    register,
)
from threegate.plugins.tools.remote.oauth_tokens import code_tokens
from threegate.plugins.tools.remote.token_store import KeptLogin, TokenStore, lost_client
from threegate.plugins.tools.remote_login import OAuthLogin, bound_to
from threegate.plugins.tools.section import ToolsSettings

FIXED_PATH: Final = "/callback"
"""Of the address for answers of a client that somebody registered by hand, or that a document describes."""
ShowLink = Callable[[str], None]
"""Takes the link that a browser must open."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a login to a new server would be."""

    server: str
    url: str
    discovered: Discovered
    client: Client | None
    """None: ThreeGate registers itself there."""


def plan_login(
    settings: Settings,
    server: str,
    url: str,
    challenges: Sequence[str],
    *,
    client_id: str = "",
    scopes: Sequence[str] = (),
    reach: Reach,
) -> Plan:
    """Ask the server and its authorization server for their documents. `challenges`: the values of its
    `WWW-Authenticate` headers; `scopes`: other ones than these name.

    Raises Refused (`login_account`, `login_refused`, `url_refused`), Unavailable.
    """
    TokenStore(settings, server).check_account()
    discovered = discover(url, challenges, reach=reach)
    if scopes:
        discovered = replace(discovered, scopes=checked_scopes(scopes))
    document = settings.section(ToolsSettings).client_metadata_url
    if not client_id and document and discovered.server.client_id_metadata_document_supported:
        client_id = document
    if not client_id and not discovered.server.registration_endpoint:
        raise refused("the authorization server registers no clients; register one there, then give --client-id ID")
    return Plan(server, url, discovered, Client(client_id) if client_id else None)


def log_in(settings: Settings, plan: Plan, show_link: ShowLink, *, reach: Reach) -> OAuthLogin:
    """Carry a plan out; what is to be signed. Raises Refused, Unavailable."""
    path = FIXED_PATH if plan.client is not None else f"/{secrets.token_urlsafe(16)}"
    with CallbackListener(path) as listener:
        client = plan.client or register(plan.discovered, listener.redirect_uri, reach=reach)
        oauth = login_of(plan.discovered, client, path)
        tokens = _visited(oauth, client.secret, listener, show_link, reach)
    if not oauth.scopes and tokens.scope:  # nobody named any: what was given is what will be signed
        oauth = replace(oauth, scopes=checked_scopes(tokens.scope.split()))
    kept = KeptLogin(bound_to=bound_to(plan.url, oauth), client_secret=client.secret)
    _keep(TokenStore(settings, plan.server), kept, oauth, tokens)
    return oauth


class Again:
    """The same login with new tokens, for this account. Raises Refused: `login_account`, and `login_required` when the
    secret of its client was lost.
    """

    def __init__(self, settings: Settings, server: str, url: str, oauth: OAuthLogin) -> None:
        self.oauth = oauth
        self.store = TokenStore(settings, server)
        self.store.check_account()
        with self.store.locked():
            kept = self.store.read(bound_to(url, oauth))
        if kept is None and oauth.authentication != "none":
            raise lost_client(server)
        self.kept = kept or KeptLogin(bound_to=bound_to(url, oauth))


def log_in_again(again: Again, show_link: ShowLink, *, reach: Reach) -> None:
    """Carry it out. Raises Refused, Unavailable."""
    with CallbackListener(again.oauth.redirect_path) as listener:
        tokens = _visited(again.oauth, again.kept.client_secret, listener, show_link, reach)
    _keep(again.store, again.kept, again.oauth, tokens)


def _visited(
    oauth: OAuthLogin, client_secret: str, listener: CallbackListener, show_link: ShowLink, reach: Reach
) -> Tokens:
    attempt = Attempt()
    show_link(authorization_url(oauth, attempt, listener.redirect_uri))
    code = answered_code(listener.answer(limits.LOGIN_SECONDS), oauth, attempt)
    return code_tokens(oauth, client_secret, code, attempt.proof.code_verifier, listener.redirect_uri, reach=reach)


def _keep(store: TokenStore, kept: KeptLogin, oauth: OAuthLogin, tokens: Tokens) -> None:
    tokens.check(oauth.scopes)
    with store.locked():
        store.write(kept_with(kept.model_copy(update={"refresh_token": ""}), tokens))
