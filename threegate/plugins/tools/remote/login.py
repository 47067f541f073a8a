"""What a request to a remote server is sent with: its kept headers, and a token that is valid now.

Invariant: a refresh token is spent under the lock of its login, and the tokens that came for it are durable before one
of them is used. Whatever is lost on the way ends as `login_required`, never as a second try of a call.
"""

from __future__ import annotations

import time
from contextlib import suppress

from threegate.core.errors import Refused, Unavailable
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.remote.guarded_http import PUBLIC, Reach
from threegate.plugins.tools.remote.header_files import header_values
from threegate.plugins.tools.remote.oauth_documents import Tokens
from threegate.plugins.tools.remote.oauth_tokens import NotGrantedError, refreshed_tokens
from threegate.plugins.tools.remote.token_store import KeptLogin, TokenStore, login_required
from threegate.plugins.tools.remote_login import LoginServer, OAuthLogin, bound_to


def headers_for(
    workspace: Workspace, settings: Settings, manifest: LoginServer, *, reach: Reach = PUBLIC
) -> tuple[tuple[str, str], ...]:
    """The headers with secrets for one request, just before it. Their values belong in no message, file or result.

    Raises Refused (`login_required`; `url_refused`), Unavailable: the authorization server cannot be reached now, or a
    file of a header cannot be read.
    """
    login = manifest.login
    if login is None:
        return ()
    headers = header_values(workspace, settings, login.headers)
    if login.oauth is None:
        return headers
    token = _valid_token(TokenStore(settings, manifest.server), manifest, login.oauth, reach)
    return (*headers, ("Authorization", f"Bearer {token}"))


def token_was_refused(settings: Settings, manifest: LoginServer, sent: tuple[tuple[str, str], ...]) -> None:
    """The server answered 401: the token that was sent is used no more, and the next call refreshes it. A newer one
    stays. Raises Unavailable.
    """
    if manifest.login is None or manifest.login.oauth is None:
        return
    store, bound = TokenStore(settings, manifest.server), bound_to(manifest.url, manifest.login.oauth)
    with store.locked():
        kept = store.read(bound)
        if kept is not None and kept.access_token and ("Authorization", f"Bearer {kept.access_token}") in sent:
            store.write(kept.model_copy(update={"access_token": "", "expires_at": None}))


class ServerLogin:
    """Both of them, for one server."""

    def __init__(self, workspace: Workspace, settings: Settings, manifest: LoginServer, *, reach: Reach) -> None:
        self._workspace = workspace
        self._settings = settings
        self._manifest = manifest
        self._reach = reach

    def headers(self) -> tuple[tuple[str, str], ...]:
        """See `headers_for`."""
        return headers_for(self._workspace, self._settings, self._manifest, reach=self._reach)

    def was_refused(self, sent: tuple[tuple[str, str], ...]) -> None:
        """See `token_was_refused`. A token that cannot be forgotten now is refused again."""
        with suppress(Unavailable):
            token_was_refused(self._settings, self._manifest, sent)


def kept_with(kept: KeptLogin, tokens: Tokens) -> KeptLogin:
    """What is kept once these tokens came. A refresh token that was not replaced stays valid (RFC 6749, 6)."""
    expires = None if tokens.expires_in is None else int(time.time()) + tokens.expires_in
    return kept.model_copy(
        update={
            "access_token": tokens.access_token,
            "refresh_token": tokens.refresh_token or kept.refresh_token,
            "expires_at": expires,
        }
    )


def _valid_token(store: TokenStore, manifest: LoginServer, oauth: OAuthLogin, reach: Reach) -> str:
    server = manifest.server
    with store.locked():
        kept = store.read(bound_to(manifest.url, oauth))
        if kept is None:
            raise login_required(server, "nobody is logged in")
        if kept.is_valid():
            return kept.access_token
        if not kept.refresh_token:
            raise login_required(server, "its login has expired")
        try:
            tokens = refreshed_tokens(oauth, kept.client_secret, kept.refresh_token, reach=reach)
        except NotGrantedError as error:
            store.write(kept.model_copy(update={"access_token": "", "refresh_token": "", "expires_at": None}))
            raise login_required(server, f"its login is not valid any more ({error})") from None
        except Refused as error:
            if error.code != "login_refused":
                raise
            raise login_required(server, str(error)) from None
        kept = kept_with(kept, tokens)
        try:
            store.write(kept)
        except Unavailable as error:
            raise login_required(server, f"its new token was lost: {error}") from None
        return kept.access_token
