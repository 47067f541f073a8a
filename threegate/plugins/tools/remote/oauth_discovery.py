"""Which authorization server a remote server names, and what that one says of itself (RFC 9728, RFC 8414).

Invariant: nothing is guessed. A server without metadata cannot be logged in to, and where it named the place of its
metadata no other place is tried. Only this module and `oauth_flow` use parts of the MCP SDK, which loads slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
)

from threegate.core.errors import Unavailable
from threegate.plugins.tools.remote.guarded_http import Reach, checked_url, fetch
from threegate.plugins.tools.remote.oauth_documents import (
    Document,
    ResourceMetadata,
    ServerMetadata,
    bearer_challenge,
    checked_scopes,
    refused,
)

_OFFLINE = "offline_access"
_Read = TypeVar("_Read", bound=Document)


@dataclass(frozen=True, slots=True)
class Discovered:
    """What a login to a server would be, as far as its documents say."""

    resource: str
    server: ServerMetadata
    scopes: tuple[str, ...]
    """Those of the challenge, else those of the metadata, else none; and the one for a refresh token, if there is."""


def discover(url: str, challenges: Sequence[str], *, reach: Reach) -> Discovered:
    """`challenges`: the values of the server's `WWW-Authenticate` headers. Raises Refused (`login_refused`,
    `url_refused`), Unavailable.
    """
    challenge = bearer_challenge(challenges)
    named = challenge.get("resource_metadata")
    places = [named] if named is not None else build_protected_resource_metadata_discovery_urls(None, url)
    resource = _first(places, "the server's metadata", ResourceMetadata, reach)
    resource.check(url)
    issuer = resource.authorization_servers[0]
    if checked_url(issuer, "the issuer that the server names").query:
        raise refused("the issuer that the server names has a query")
    places = build_oauth_authorization_server_metadata_discovery_urls(issuer, url)
    server = _first(places, "the authorization server's metadata", ServerMetadata, reach)
    server.check(issuer)
    scopes = challenge["scope"].split() if "scope" in challenge else resource.scopes_supported
    if scopes and _OFFLINE in server.scopes_supported:
        scopes = [*scopes, _OFFLINE]
    return Discovered(resource.resource, server, checked_scopes(scopes))


def _first(places: Sequence[str], what: str, kind: type[_Read], reach: Reach) -> _Read:
    """The document at the first place that has one; each of the others says 404."""
    for place in places:
        answer, body = fetch(place, what, headers=[("accept", "application/json")], reach=reach)
        if answer.status == 200:
            return kind.read(body, what)
        if answer.status != 404:
            raise Unavailable(f"{what}: the answer has status {answer.status}")
    raise refused(f"{what}: there is none, so nobody can log in")
