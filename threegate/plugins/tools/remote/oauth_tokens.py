"""The token endpoint: a code or a refresh token becomes tokens (RFC 6749, 4.1.3 and 6; RFC 8707; RFC 7636).

Invariant: a request goes to the signed endpoint only, and is not repeated. No message has anything of an answer but a
plain error code.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from threegate.core.errors import Refused, Unavailable
from threegate.plugins.tools.remote.guarded_http import Reach, fetch
from threegate.plugins.tools.remote.oauth_documents import TokenError, Tokens, plain_word, refused
from threegate.plugins.tools.remote_login import OAuthLogin

_FORM: Final = ("content-type", "application/x-www-form-urlencoded")
_JSON: Final = ("accept", "application/json")


class NotGrantedError(Exception):
    """The authorization server said no: the code or token is not valid (any more). The text is its error code."""


def code_tokens(
    oauth: OAuthLogin, client_secret: str, code: str, verifier: str, redirect_uri: str, *, reach: Reach
) -> Tokens:
    """Tokens for a code, for whatever scopes. Raises Refused (`login_refused`, `url_refused`), Unavailable."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": redirect_uri,
    }
    try:
        return _tokens(oauth, client_secret, form, reach)
    except NotGrantedError as error:
        raise refused(f"the authorization server gave no token: {error}") from None


def refreshed_tokens(oauth: OAuthLogin, client_secret: str, refresh_token: str, *, reach: Reach) -> Tokens:
    """Tokens for a refresh token, which may be void afterwards. Raises NotGrantedError, Refused, Unavailable."""
    tokens = _tokens(oauth, client_secret, {"grant_type": "refresh_token", "refresh_token": refresh_token}, reach)
    tokens.check(oauth.scopes)
    return tokens


def _tokens(oauth: OAuthLogin, client_secret: str, form: Mapping[str, str], reach: Reach) -> Tokens:
    what = "the token endpoint"
    headers = [_FORM, _JSON]
    form = {**form, "client_id": oauth.client_id, "resource": oauth.resource}
    if oauth.authentication == "client_secret_basic":
        pair = f"{quote(oauth.client_id, safe='')}:{quote(client_secret, safe='')}"
        headers.append(("authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"))
        del form["client_id"]
    elif oauth.authentication == "client_secret_post":
        form["client_secret"] = client_secret
    answer, body = fetch(oauth.token_endpoint, what, "POST", headers, urlencode(form).encode(), reach=reach)
    if answer.status == 200:
        return Tokens.read(body, what)
    if answer.status in (400, 401, 403):
        try:
            error = TokenError.read(body, what).error
        except Refused:
            error = ""
        raise NotGrantedError(plain_word(error))
    raise Unavailable(f"{what}: answers with status {answer.status}")
