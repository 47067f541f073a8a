"""What `threegate tools add --url` and `threegate tools login` show and ask of a person who logs in.

What needs the extra mcp is imported where it is used: `threegate tools --help` works without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from threegate.approval.shown.escaped_lines import render_sections
from threegate.cli.invocation import (
    emit_json,
    on_terminal,
    put,
    say,
    screen_width,
    wants_json,
    warn,
)
from threegate.cli.signing_options import ask
from threegate.core.errors import InvalidInput
from threegate.core.extras import require_extra
from threegate.core.screen_parts import Section
from threegate.core.settings import Settings
from threegate.launch.context import Context
from threegate.plugins.tools.called_server import LoginRequiredError
from threegate.plugins.tools.login_card import plan_sections, signed_items
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.remote.header_files import kept_headers
from threegate.plugins.tools.remote.token_store import TokenStore
from threegate.plugins.tools.remote_login import KeptHeader, OAuthLogin, RemoteLogin
from threegate.plugins.tools.tool_servers import LookedAt, WantedServer, look_at_new

if TYPE_CHECKING:
    from threegate.plugins.tools.remote.guarded_http import Reach

_NEEDS = "a login to a remote server"


@dataclass(frozen=True, slots=True)
class AskedLogin:
    """The arguments of `threegate tools add --url` for a login."""

    client_id: str = ""
    scopes: tuple[str, ...] = ()
    bearer: str = ""
    """The name of a secret."""
    headers: tuple[str, ...] = ()
    """HEADER=NAME, each."""


@contextmanager
def looked_at(
    context: Context,
    wanted: WantedServer,
    asked: AskedLogin,
    *,
    yes: bool,
    quiet: bool = False,
    reach: Reach | None = None,
) -> Iterator[LookedAt]:
    """A new server, to be signed in the block; after a login if it wants one. If it is not signed, nothing of the login
    is kept.

    Raises as `look_at_new` and `log_in_here`, InvalidInput.
    """
    headers = _headers(wanted, asked)
    wanted = replace(wanted, login=RemoteLogin(None, headers) if headers else None)
    try:
        looked = look_at_new(context, wanted, reach=reach)
    except LoginRequiredError as error:
        if any(header.name.lower() == "authorization" for header in headers):
            raise  # a token beside it would be a second header of that name
        challenges = error.challenges
    else:
        yield looked
        return
    settings = context.policy.settings
    with TokenStore(settings, wanted.name).kept_only_if_done():
        oauth = log_in_here(
            settings,
            wanted.name,
            wanted.url,
            challenges,
            client_id=asked.client_id,
            scopes=asked.scopes,
            yes=yes,
            quiet=quiet,
            reach=reach,
        )
        yield look_at_new(context, replace(wanted, login=RemoteLogin(oauth, headers)), reach=reach)


def _headers(wanted: WantedServer, asked: AskedLogin) -> tuple[KeptHeader, ...]:
    """Raises InvalidInput."""
    if not wanted.url:
        if asked != AskedLogin():
            raise InvalidInput("--client-id, --scope, --bearer and --header: are for a server at a URL; give --url")
        return ()
    if asked.bearer and (asked.client_id or asked.scopes):
        raise InvalidInput("--bearer: is instead of a login; leave out --client-id and --scope")
    return kept_headers(asked.bearer, asked.headers)


def log_in_here(
    settings: Settings,
    server: str,
    url: str,
    challenges: Sequence[str],
    *,
    client_id: str = "",
    scopes: Sequence[str] = (),
    yes: bool,
    quiet: bool = False,
    reach: Reach | None = None,
) -> OAuthLogin:
    """The first login to a server that answered 401: show what it would be, ask, and carry it out. `challenges`: the
    values of its `WWW-Authenticate` headers; `quiet`: everything is written to stderr. What is returned is to be signed
    with the server.

    Raises Refused (`login_account`, `login_refused`, `url_refused`), Unavailable, InvalidInput, Exit.
    """
    require_extra(_NEEDS, "mcp")
    from threegate.plugins.tools.remote import browser_login, guarded_http

    reach = reach or guarded_http.PUBLIC
    plan = browser_login.plan_login(settings, server, url, challenges, client_id=client_id, scopes=scopes, reach=reach)
    link = _Link(plan.discovered.server.authorization_endpoint, plan_sections(plan), yes, quiet)
    return browser_login.log_in(settings, plan, link, reach=reach)


def log_in_again_here(
    settings: Settings, manifest: Manifest, *, yes: bool, json_: bool, reach: Reach | None = None
) -> None:
    """A new login to a signed server. Raises as `log_in_here`, and Refused `login_required` if its client was lost."""
    require_extra(_NEEDS, "mcp")
    from threegate.plugins.tools.remote import browser_login, guarded_http

    oauth = manifest.oauth
    if oauth is None:
        raise InvalidInput(f"{manifest.server}: was added without a login; nothing to log in to")
    again = browser_login.Again(settings, manifest.server, manifest.url, oauth)
    sections = [Section(f"THE LOGIN TO {manifest.server}", tuple(signed_items(oauth)))]
    link = _Link(oauth.authorization_endpoint, sections, yes, wants_json(json_))
    browser_login.log_in_again(again, link, reach=reach or guarded_http.PUBLIC)
    if wants_json(json_):
        emit_json({"server": manifest.server, "logged_in": True})
    else:
        say(f"logged in to {manifest.server}")


class _Link:
    """Shows the login and asks; then it takes the link."""

    def __init__(self, endpoint: str, sections: list[Section], yes: bool, quiet: bool) -> None:
        from threegate.plugins.tools.remote import browser, guarded_http

        self._browser = browser
        self._origin = guarded_http.origin_of(endpoint)
        put(render_sections(sections, full=True, width=screen_width(to_stderr=quiet)), err=quiet)
        ask(f"Log in there, with your browser at {self._origin}?", yes)
        self._opens = on_terminal() and not yes

    def __call__(self, link: str) -> None:
        self._browser.check_link(link, self._origin)
        if self._opens and self._browser.open_browser(link, self._origin):
            warn("your browser opens this link; the login waits five minutes for it:")
        else:
            warn("open this link in a browser on this machine, within five minutes:")
        say(link, err=True, copied=True)
