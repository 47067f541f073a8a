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
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.remote.guarded_http import Reach
from threegate.plugins.tools.remote.header_files import header_values
from threegate.plugins.tools.remote.oauth_documents import Tokens
from threegate.plugins.tools.remote.oauth_tokens import NotGrantedError, refreshed_tokens
from threegate.plugins.tools.remote.token_store import KeptLogin, TokenStore, login_required
from threegate.plugins.tools.remote_login import OAuthLogin, bound_to


class ServerLogin:
    """Both of one server's, whenever a request is sent."""

    def __init__(self, workspace: Workspace, settings: Settings, manifest: Manifest, *, reach: Reach) -> None:
        self._workspace = workspace
        self._settings = settings
        self._manifest = manifest
        self._reach = reach
        self._store = TokenStore(settings, manifest.server)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers with secrets for one request, just before it. Their values belong in no message, file or result.

        Raises Refused (`login_required`; `url_refused`), Unavailable: the authorization server cannot be reached now,
        or a file of a header cannot be read.
        """
        login = self._manifest.login
        if login is None:
            return ()
        headers = header_values(self._workspace, self._settings, login.headers)
        if login.oauth is None:
            return headers
        return (*headers, ("Authorization", f"Bearer {self._valid_token(login.oauth)}"))

    def was_refused(self, sent: tuple[tuple[str, str], ...]) -> None:
        """The server answered 401: the token that was sent is used no more, and the next call refreshes it. A newer one
        stays; one that cannot be forgotten now is refused again.
        """
        oauth = self._manifest.oauth
        if oauth is None:
            return
        with suppress(Unavailable), self._store.locked():
            kept = self._store.read(bound_to(self._manifest.url, oauth))
            if kept is not None and kept.access_token and ("Authorization", f"Bearer {kept.access_token}") in sent:
                self._store.write(kept.model_copy(update={"access_token": "", "expires_at": None}))

    def _valid_token(self, oauth: OAuthLogin) -> str:
        server, store = self._manifest.server, self._store
        with store.locked():
            kept = store.read(bound_to(self._manifest.url, oauth))
            if kept is None:
                raise login_required(server, "nobody is logged in")
            if kept.is_valid():
                return kept.access_token
            if not kept.refresh_token:
                raise login_required(server, "its login has expired")
            try:
                tokens = refreshed_tokens(oauth, kept.client_secret, kept.refresh_token, reach=self._reach)
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
