"""What is signed about how a remote server learns who asks: an OAuth login, headers whose values are in files, or both.

Invariant: it has no secret. A token belongs to one `OAuthLogin` at one URL (`bound_to`), and is used for no other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from threegate.core import canonical, limits

_CONFIG: Final = ConfigDict(extra="forbid", hide_input_in_errors=True)
_Url = Annotated[str, Field(pattern="^https://", max_length=limits.REMOTE_URL_CHARS)]
ClientAuthentication = Literal["none", "client_secret_basic", "client_secret_post"]
"""How the client shows who it is at the token endpoint (RFC 7591, 2)."""


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """One client at one authorization server, for one resource."""

    __pydantic_config__ = _CONFIG

    issuer: _Url
    """Of the authorization server, letter for letter (RFC 8414, 3.3)."""
    authorization_endpoint: _Url
    """What a person's browser opens."""
    token_endpoint: _Url
    """What gets the code, and later the refresh token."""
    client_id: Annotated[str, Field(min_length=1, max_length=limits.LOGIN_CLIENT_ID_CHARS)]
    authentication: ClientAuthentication
    scopes: tuple[Annotated[str, Field(max_length=limits.LOGIN_SCOPE_CHARS)], ...]
    """What was asked for; a token for more is not accepted."""
    resource: _Url
    """What the tokens are for (RFC 8707)."""
    redirect_path: Annotated[str, Field(pattern=r"^/[A-Za-z0-9_-]{1,64}$")]
    """Of the client's address for answers, ``http://127.0.0.1:PORT``, whose port is another one each time."""
    iss: bool
    """Whether the authorization server promised to name itself in its answers (RFC 9207)."""


@dataclass(frozen=True, slots=True)
class KeptHeader:
    """A header of each request, whose value is a secret of the settings."""

    __pydantic_config__ = _CONFIG

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
    secret: str
    """The value is the file of `secrets.NAME`."""
    scheme: Literal["", "Bearer"] = ""
    """What is before the value."""


@dataclass(frozen=True, slots=True)
class RemoteLogin:
    """All of it."""

    __pydantic_config__ = _CONFIG

    oauth: OAuthLogin | None = None
    headers: tuple[KeptHeader, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """As in the manifest; every key is present."""
        oauth = None if self.oauth is None else {**asdict(self.oauth), "scopes": list(self.oauth.scopes)}
        return {"oauth": oauth, "headers": [asdict(header) for header in self.headers]}


def bound_to(url: str, oauth: OAuthLogin) -> str:
    """The digest of what tokens belong to: the server's URL and everything that is signed about the login."""
    return canonical.digest({"url": url, **asdict(oauth), "scopes": list(oauth.scopes)})
