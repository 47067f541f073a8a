"""What servers say about a login, read strictly: the challenge of a 401, and the documents of RFC 9728, 8414, 7591 and
6749.

Invariant: what is returned was checked to be what it claims. A resource is the URL's own, an issuer is identical to the
one that was asked for, every URL is https, and PKCE with S256 is promised. The SDK's models of the same documents are
not used: they rewrite URLs, so that two issuers which differ compare equal, take `http`, and let the last of two keys
win.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threegate.core import canonical, limits
from threegate.core.errors import Refused
from threegate.core.record import first_problem
from threegate.plugins.tools.remote.guarded_http import checked_url, origin_of
from threegate.plugins.tools.remote_login import ClientAuthentication

_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER: Final = re.compile(rf'[ \t,]*({_NAME})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_NAME}))[ \t]*(?=,|$)')
_SCHEME: Final = re.compile(
    rf"[ \t,]*({_NAME})(?:[ \t]+[A-Za-z0-9._~+/-]+=*[ \t]*(?=,|$)|[ \t]+(?=[^ \t,])|[ \t]*(?=,|$))"
)
"""The name of a scheme, with the one word after it that some have in place of parameters."""
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+")
_SECRET: Final = re.compile(r"[!-~]+")
_LINK: Final = re.compile(r"https://[A-Za-z0-9._~:/?\[\]@&=+,%-]+")
_SAID: Final = re.compile(r"https://[!-~]{1,200}")
"""What a message repeats of a URL that somebody else wrote."""
_WORD: Final = re.compile(r"[a-z_]{1,40}")
_Words = Annotated[list[str], Field(max_length=limits.LOGIN_SCOPES)]
_Secret = Annotated[str, Field(pattern=rf"^{_SECRET.pattern}$", max_length=limits.LOGIN_TOKEN_CHARS)]


def refused(why: str) -> Refused:
    """A login that ends here; nothing is kept."""
    return Refused("login_refused", why)


class Document(BaseModel):
    """Base of them: unknown members are of others, a null member is a missing one."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, hide_input_in_errors=True)

    def __repr__(self) -> str:
        """Without values: one may be a token."""
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    @classmethod
    def read(cls, data: bytes, what: str) -> Self:
        """Raises Refused (`login_refused`) for everything else; `what` it is, for the message."""
        try:
            value = canonical.loads_strict(data, max_bytes=limits.REMOTE_BYTES)
            if not isinstance(value, dict):
                raise refused(f"{what}: is not a JSON object")
            return cls.model_validate({name: item for name, item in value.items() if item is not None})
        except ValidationError as error:
            raise refused(f"{what}: {first_problem(error)}") from None
        except ValueError as error:
            raise refused(f"{what}: {error}") from None


class ResourceMetadata(Document):
    """RFC 9728, 2."""

    resource: str
    authorization_servers: Annotated[list[str], Field(min_length=1, max_length=limits.LOGIN_SCOPES)]
    scopes_supported: _Words = []

    def check(self, url: str) -> None:
        """Whether it is about this URL: the URL itself, or a path above it at the same origin (RFC 9728, 3.3; the
        metadata of a whole host). Raises Refused.
        """
        resource = checked_url(self.resource, "the resource in the server's metadata")
        asked = checked_url(url)
        path = resource.path.rstrip("/")
        same = origin_of(self.resource) == origin_of(url) and not resource.query
        if self.resource != url and not (same and (asked.path == path or asked.path.startswith(f"{path}/"))):
            raise refused("the server's metadata is about another resource than the server")


class ServerMetadata(Document):
    """RFC 8414, 2, and what RFC 7636, 9207 and Client ID Metadata Documents add."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    scopes_supported: _Words = []
    response_types_supported: _Words = ["code"]
    code_challenge_methods_supported: _Words = []
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False

    def check(self, issuer: str) -> None:
        """Whether it is this issuer's, and good enough to log in. Raises Refused."""
        if self.issuer != issuer:
            said = self.issuer if _SAID.fullmatch(self.issuer) else "no URL"
            raise refused(
                f"the authorization server's metadata names another issuer ({said}) than the server ({issuer})"
            )
        checked_url(self.authorization_endpoint, "the authorization endpoint")
        check_plain(self.authorization_endpoint)
        checked_url(self.token_endpoint, "the token endpoint")
        if self.registration_endpoint:
            checked_url(self.registration_endpoint, "the registration endpoint")
        if "S256" not in self.code_challenge_methods_supported:
            raise refused("the authorization server does not promise PKCE with S256, so a code could be stolen")
        if "code" not in self.response_types_supported:
            raise refused("the authorization server gives no codes")


class Registration(Document):
    """RFC 7591, 3.2.1."""

    client_id: Annotated[str, Field(min_length=1, max_length=limits.LOGIN_CLIENT_ID_CHARS, pattern="^[ -~]+$")]
    client_secret: _Secret | None = None
    token_endpoint_auth_method: ClientAuthentication | None = None
    redirect_uris: _Words | None = None

    @property
    def authentication(self) -> ClientAuthentication:
        """Without a word of the server's: as it was asked for."""
        return self.token_endpoint_auth_method or "none"

    def check(self, redirect_uri: str) -> None:
        """Whether it is the client that was asked for, in what matters. Raises Refused."""
        if self.authentication != "none" and self.client_secret is None:
            raise refused("the authorization server wants a client secret, and gave none")
        if self.redirect_uris is not None and redirect_uri not in self.redirect_uris:
            raise refused("the authorization server registered another address for its answer")


class Tokens(Document):
    """RFC 6749, 5.1."""

    access_token: _Secret
    token_type: Annotated[str, Field(pattern="^[Bb][Ee][Aa][Rr][Ee][Rr]$")]
    expires_in: Annotated[int, Field(ge=0, le=limits.LOGIN_EXPIRES_SECONDS)] | None = None
    refresh_token: _Secret | None = None
    scope: Annotated[str, Field(max_length=limits.LOGIN_SCOPES * limits.LOGIN_SCOPE_CHARS)] | None = None

    def check(self, scopes: Sequence[str]) -> None:
        """Whether they are for no more than these. Raises Refused: more rights are never taken unseen."""
        if self.scope is not None and not set(self.scope.split()) <= set(scopes):
            raise refused("the authorization server gave a token for scopes that nobody signed")


class TokenError(Document):
    """RFC 6749, 5.2."""

    error: Annotated[str, Field(max_length=limits.LOGIN_SCOPE_CHARS)]


def check_plain(link: str) -> None:
    """Raises Refused for a link with a character that means something to a shell: what opens browsers is a script."""
    if not _LINK.fullmatch(link):
        raise refused("the link of the login has characters that no link needs")


def plain_word(text: str) -> str:
    """A server's error code, if it is one that a message may repeat."""
    return text if _WORD.fullmatch(text) else "an error without a plain code"


def checked_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Each once, in their order (RFC 6749, 3.3). Raises Refused."""
    found = tuple(dict.fromkeys(scopes))
    if len(found) > limits.LOGIN_SCOPES or any(
        not _SCOPE.fullmatch(scope) or len(scope) > limits.LOGIN_SCOPE_CHARS for scope in found
    ):
        raise refused("the scopes are too many, too long, or none that can be asked for")
    return found


def bearer_challenge(headers: Sequence[str]) -> Mapping[str, str]:
    """The parameters of the Bearer challenge in `WWW-Authenticate` headers (RFC 9110, 11.6.1); empty for none.

    Raises Refused for headers that cannot be read, or have two such challenges or a parameter twice.
    """
    found: list[dict[str, str]] = []
    for header in headers:
        current: dict[str, str] | None = None
        place = 0
        while header[place:].strip(" \t,"):
            if (match := _PARAMETER.match(header, place)) and current is not None:
                name = match[1].lower()
                if name in current:
                    raise refused("the server's WWW-Authenticate has a parameter twice")
                current[name] = match[3] if match[2] is None else re.sub(r"\\(.)", r"\1", match[2])
            elif match := _SCHEME.match(header, place):
                current = {}
                if match[1].lower() == "bearer":
                    found.append(current)
            else:
                raise refused("the server's WWW-Authenticate cannot be read")
            place = match.end()
    if len(found) > 1:
        raise refused("the server's WWW-Authenticate has two Bearer challenges")
    return found[0] if found else {}
