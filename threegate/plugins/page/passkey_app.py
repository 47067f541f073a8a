"""The page that accepts passkeys: the same pages, login and signature by passkey, and enrolment of a passkey.

Invariant: nothing here approves by itself. A draft is promoted only with a signature over the statement that
its page was sent with, recreated from the current draft. Being logged in only allows viewing pages, and for some
minutes after the passkey confirmed who uses it, ending a draft that the page showed: unsigned, and it runs nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from threegate.acts.approve import known_operators, promote, seal, seal_as
from threegate.approval.operators import Operator
from threegate.approval.passkey import challenge_of, decode_base64url, encode_base64url, passkey_signature
from threegate.approval.shown.time_read import Reading
from threegate.approval.signer import verify_signer
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, NAMESPACE_LOGIN, MalformedError, parse_armor
from threegate.approval.statement import Statement, render_signed
from threegate.core import canonical, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused, ThreeGateError
from threegate.core.file_names import is_request_name
from threegate.core.web_origin import parse_origin
from threegate.core.workspace import Workspace
from threegate.launch.context import Context
from threegate.plugins.page.access import Challenges, Sessions, set_cookie
from threegate.plugins.page.app import Guard, look_routes, message, not_logged_in, routed
from threegate.plugins.page.draft_links import linked_draft
from threegate.plugins.page.page_login import enrolling, leave_passkey
from threegate.plugins.page.page_templates import render
from threegate.plugins.page.passkeys import read_made_passkey
from threegate.plugins.page.unsigned_acts import unsigned_act
from threegate.plugins.page.views import Missing, Views
from threegate.plugins.serve.connections import read_body
from threegate.plugins.serve.rate_limit import RateLimit
from threegate.review.draft_sources import Answer, PlacedDraft
from threegate.review.request_view import RequestView
from threegate.review.reviewed_draft import Draft, ReviewedDraft, open_reviewed_draft, read_draft
from threegate.review.status import RequestEntry, is_draft_folder

_ASSERTION = {"credential", "authenticator_data", "client_data", "signature"}
_NOWHERE: Final = (
    "This link leads nowhere",
    "Its draft may have been decided, changed or expired, or a later notice has a newer link.",
)
"""The same for every link that does not lead to a waiting draft: title and text."""
_LOGIN_TYPE = "threegate-login/1"
_YES_TYPE = "threegate-yes/1"


def create_passkey_server(
    workspace: Workspace,
    origin: str,
    *,
    per_minute: int = limits.SERVE_REQUESTS_PER_MINUTE,
    clock: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """The server's application for one origin: the page at /page/, to which / redirects."""
    page = _PasskeyPage(workspace, origin, clock)
    guard = Guard(page.app(), page.sessions, RateLimit(per_minute, clock=clock).wait_for, origin)
    server = Starlette(routes=[Mount("/page", guard), Route("/", lambda _: RedirectResponse("/page/"))])
    server.router.redirect_slashes = False
    return server


class _PasskeyViews(Views):
    """The pages as seen by an operator who can sign."""

    def __init__(self, workspace: Workspace, origin: str, sessions: Sessions) -> None:
        super().__init__(workspace)
        self._origin, self._sessions = origin, sessions

    def _render(self, request: Request, template: str, **values: Any) -> str:
        view = request.path_params["view"]
        try:
            _entry_of(self.context(), self._sessions.whose(view).split(" ")[0], self._origin)
        except Refused:
            self._sessions.end(view)  # revoked since, or removed from operators
            raise
        return super()._render(request, template, origin=self._origin, **values)

    def _looked(self, request: Request, entry: RequestEntry) -> tuple[RequestView, dict[str, Any]]:
        base = f"/page/{request.path_params['view']}"
        place = f"{entry.folder}/{entry.key}"
        credential, name = self._sessions.whose(request.path_params["view"]).split(" ")
        who = {"who": name, "rp": parse_origin(self._origin)[0], "credential": credential}
        signing: dict[str, str] = {}
        unsigned: dict[str, str] = {}
        if is_draft_folder(entry.folder) and is_request_name(entry.path.name):
            # Read before it is shown: what is exchanged meanwhile has another digest, and is not ended.
            sha256 = sha256_hex(read_draft(self._workspace, entry.path).data)
            unsigned = {**who, "draft": sha256, "to": f"{base}/end/{place}", "verify": f"{base}/verify"}

        def seen(reviewed: ReviewedDraft) -> None:
            unsigned["draft"] = sha256_hex(reviewed.draft.data)
            namespace = NAMESPACE_APPROVAL
            if reviewed.draft.placed is not None:  # no approval of it is ever made, not even to be signed
                shown_utc = datetime.now(UTC).isoformat()
                statement, namespace = _yes_to_placed(self._origin, reviewed.draft, name, shown_utc), NAMESPACE_LOGIN
            else:
                statement = seal(self.context(), reviewed, name).statement.to_bytes()
            signing.update(
                **who,
                statement=encode_base64url(statement),
                challenge=challenge_of(statement, namespace),
                to=f"{base}/approve/{place}",
            )

        view = self._view(entry, operator=name, seen=seen)
        return view, {"signing": signing or None, "unsigned": unsigned or None}


class _PasskeyPage:
    """Who is logged in, and the handlers of all routes."""

    def __init__(self, workspace: Workspace, origin: str, clock: Callable[[], float]) -> None:
        self._workspace, self._origin = workspace, origin
        self.sessions = Sessions(clock)
        self._views = _PasskeyViews(workspace, origin, self.sessions)
        self._challenges = Challenges(clock)

    def app(self) -> Starlette:
        """Every route below /page."""
        return routed(
            [
                Route("/", self._show_login, methods=["GET"]),
                Route("/login", self._answer(self._log_in), methods=["POST"]),
                Route("/draft/{handle}", self._show_linked_login, methods=["GET"]),
                Route("/draft/{handle}", self._answer(self._log_in_to_draft), methods=["POST"]),
                Route("/enrol/{code}", self._show_enrolment, methods=["GET"]),
                Route("/enrol/{code}", self._answer(self._enrol), methods=["POST"]),
                Route("/{view}/approve/{folder}/{key}", self._answer(self._approve), methods=["POST"]),
                Route("/{view}/verify", self._ask_to_verify, methods=["GET"]),
                Route("/{view}/verify", self._answer(self._verify), methods=["POST"]),
                Route("/{view}/end/{folder}/{key}", self._answer(self._end), methods=["POST"]),
                *look_routes(self._views, self.sessions, self._origin),
            ]
        )

    def _answer(self, act: Callable[[Request, bytes], Response]) -> Callable[[Request], Any]:
        """A route that takes JSON from our script and answers with JSON: the result, or the reason for a refusal."""

        async def answer(request: Request) -> Response:
            if request.headers.get("content-type") != "application/json":
                return JSONResponse({"error": "send JSON"}, 415)
            try:
                data = await read_body(request, limits.PASSKEY_REQUEST_BYTES, limits.PASSKEY_REQUEST_SECONDS)
                if data is None:
                    return JSONResponse({"error": "this is too long"}, 413, {"Connection": "close"})
                return await run_in_threadpool(act, request, data)
            except TimeoutError:
                return JSONResponse({"error": "this arrived too slowly"}, 408, {"Connection": "close"})
            except (MalformedError, canonical.StrictJSONError, KeyError, TypeError):
                return JSONResponse({"error": "the browser did not send a passkey signature; try again"}, 400)
            except Missing as missing:
                return JSONResponse({"error": str(missing)}, 404)
            except ThreeGateError as error:
                code = error.code if isinstance(error, Refused) else ""
                status = 403 if code else 422 if isinstance(error, InvalidInput) else 503
                return JSONResponse({"error": str(error), "code": code}, status)
            except OSError as error:
                return JSONResponse({"error": error.strerror or type(error).__name__}, 503)

        return answer

    async def _show_login(self, _request: Request) -> Response:
        return self._login_page("/page/login")

    async def _show_linked_login(self, request: Request) -> Response:
        """The login of a link in a notice. It is looked up and not changed: mail scanners open it first."""
        began = time.monotonic()
        try:
            found = await run_in_threadpool(self._linked, request)
        except (ThreeGateError, OSError):
            found = None
        if found is not None:
            return self._login_page("")
        await asyncio.sleep(max(0.0, began + limits.DRAFT_LINK_MISS_SECONDS - time.monotonic()))
        return message(404, *_NOWHERE, login="/page/")

    def _linked(self, request: Request) -> RequestEntry | None:
        """Raises InvalidInput, OSError."""
        return linked_draft(self._workspace, self._workspace.load_settings(), request.path_params["handle"])

    def _login_page(self, to: str) -> Response:
        """The login, which is sent to `to`; to the page's own address if that is empty."""
        host, _ = parse_origin(self._origin)
        form = self._login_form()
        return Response(
            render("passkey_login.html", origin=self._origin, rp=host, to=to, **form), media_type="text/html"
        )

    def _log_in(self, _request: Request, data: bytes) -> Response:
        return self._begin(*self._confirmed(data), "")

    def _log_in_to_draft(self, request: Request, data: bytes) -> Response:
        """The login of a link, which then opens its draft. Who has no passkey here learns nothing about the link."""
        confirmed = self._confirmed(data)
        if (entry := self._linked(request)) is None:
            raise Missing(". ".join(_NOWHERE))
        return self._begin(*confirmed, f"request/{entry.folder}/{entry.key}")

    def _begin(self, entry: Operator, credential: str, verified: float, part: str) -> Response:
        """Begin a session; its browser opens this page of it."""
        view, cookie = self.sessions.begin(f"{credential} {entry.name}", verified)
        return JSONResponse(
            {"to": f"/page/{view}/{part}"}, headers={"Set-Cookie": f"{set_cookie(view, cookie)}; Secure"}
        )

    async def _ask_to_verify(self, request: Request) -> Response:
        if not self.sessions.holds(request.path_params["view"], request.headers.getlist("cookie")):
            return not_logged_in(self._origin)
        return JSONResponse(self._login_form())

    def _verify(self, request: Request, data: bytes) -> Response:
        """Confirm once more who uses the passkey of this login."""
        view, who = self._logged_in(request)
        entry, credential, verified = self._confirmed(data)
        if f"{credential} {entry.name}" != who:
            raise _another_passkey()
        self.sessions.verify(view, verified)
        return JSONResponse({})

    def _login_form(self) -> dict[str, str]:
        nonce = self._challenges.make()
        return {"nonce": nonce, "challenge": challenge_of(self._login_statement(nonce), NAMESPACE_LOGIN)}

    def _confirmed(self, data: bytes) -> tuple[Operator, str, float]:
        """Whose passkey signed a login with its user verified, its credential, and when at the earliest. Raises
        Refused, MalformedError.
        """
        value = _read(data, _ASSERTION | {"nonce"})
        if not self._challenges.is_valid(value["nonce"]):
            raise _expired()
        context = self._views.context()
        entry = _entry_of(context, value["credential"], self._origin)
        signed = _armor(entry, NAMESPACE_LOGIN, value)
        verify_signer(
            self._login_statement(value["nonce"]),
            parse_armor(signed),
            entry.name,
            NAMESPACE_LOGIN,
            known_operators(context),
            at=[datetime.now(UTC)],
        )
        # Only now: a stranger without a passkey must not be able to use up a challenge.
        if not self._challenges.use(value["nonce"]):
            raise _expired()
        return entry, value["credential"], self._challenges.made(value["nonce"])

    def _logged_in(self, request: Request) -> tuple[str, str]:
        """View, and credential and name of a session that is open. Raises Refused."""
        view = request.path_params["view"]
        if not self.sessions.holds(view, request.headers.getlist("cookie")):
            raise Refused("expired", "you are no longer logged in; reload the page")
        return view, self.sessions.whose(view)

    def _login_statement(self, nonce: str) -> bytes:
        """What a login signs: valid for this origin and once only."""
        return canonical.canonical_bytes({"type": _LOGIN_TYPE, "origin": self._origin, "nonce": nonce})

    async def _show_enrolment(self, request: Request) -> Response:
        code = request.path_params["code"]
        name = await run_in_threadpool(enrolling, self._workspace, code)
        if name is None:
            return message(403, "This link is not valid (any more)", "Type: threegate operator passkey")
        host, _ = parse_origin(self._origin)
        return Response(
            render("passkey_enrol.html", origin=self._origin, rp=host, name=name, user=secrets.token_urlsafe(16)),
            media_type="text/html",
        )

    def _enrol(self, request: Request, data: bytes) -> Response:
        made = read_made_passkey(data, self._origin)
        if not leave_passkey(self._workspace, request.path_params["code"], data):
            raise Refused("expired", "this link is no longer valid; type: threegate operator passkey")
        return JSONResponse({"fingerprint": made.key.fingerprint})

    def _approve(self, request: Request, data: bytes) -> Response:
        credential, name = self._logged_in(request)[1].split(" ")
        value = _read(data, _ASSERTION | {"statement"})
        statement_bytes = decode_base64url(value["statement"])
        context = self._views.context()
        entry = _entry_of(context, credential, self._origin)
        place = self._draft_at(request)
        draft = read_draft(self._workspace, place.path)
        if draft.placed is not None:
            return self._answer_placed(context, draft, draft.placed, entry, value)
        statement = Statement.parse(statement_bytes)
        if (value["credential"], statement.approved_by) != (credential, name):
            raise _another_passkey()
        # The statement has the time at which its page was made, and the signature covers it.
        seconds = _seconds_since(statement.approved_utc)
        signed = render_signed(statement_bytes, _armor(entry, NAMESPACE_APPROVAL, value))
        with open_reviewed_draft(context, draft, compared=False) as reviewed:
            # Made again from the draft as it is now: a statement that differs is refused.
            sealed = seal_as(context, reviewed, statement)
            done = promote(
                context, reviewed, sealed, signed, actor=f"operator:{name}", reading=Reading(max(0, seconds), False)
            )
        return JSONResponse(
            {
                "approved": done.path.name,
                "waits_for_quorum": done.waits_for_quorum,
                "daemon_runs": self._workspace.daemon_lock_held(),
            }
        )

    def _answer_placed(
        self, context: Context, draft: Draft, placed: PlacedDraft, entry: Operator, value: dict[str, str]
    ) -> Response:
        """The operator's yes to a draft that is never signed: the passkey signed only that they say it. Raises Refused,
        MalformedError, TrailError, OSError.
        """
        said = decode_base64url(value["statement"])
        told = canonical.loads_strict(said, max_bytes=limits.PASSKEY_REQUEST_BYTES, max_depth=2)
        try:
            shown_utc = datetime.fromisoformat(told["shown_utc"]).astimezone(UTC)
        except (ValueError, OverflowError):
            raise MalformedError("has a time that cannot be read") from None
        if said != _yes_to_placed(self._origin, draft, entry.name, told["shown_utc"]):
            raise Refused("statement_mismatch", f"{draft.path.name}: it changed since it was shown; reload the page")
        seconds = _seconds_since(shown_utc)
        signed = parse_armor(_armor(entry, NAMESPACE_LOGIN, value))
        verify_signer(said, signed, entry.name, NAMESPACE_LOGIN, known_operators(context), at=[datetime.now(UTC)])
        reading = Reading(max(0, seconds), False)
        answer = placed.answer(context, draft.data, yes=True, actor=f"operator:{entry.name}", reading=reading)
        return JSONResponse({"told": _told(answer)})

    def _draft_at(self, request: Request) -> RequestEntry:
        place = self._views.entry(request)
        if not is_draft_folder(place.folder):
            raise InvalidInput(f"{place.path.name}: no longer a draft; see: threegate status")
        return place

    def _end(self, request: Request, data: bytes) -> Response:
        """Refuse the draft that was shown, or ask for changes of it, unsigned and under the login's name."""
        view, who = self._logged_in(request)
        credential, name = who.split(" ")
        value = _read(data, {"act", "draft", "words", "at"})
        context = self._views.context()
        if _entry_of(context, credential, self._origin).name != name:
            raise _another_passkey()
        if not self.sessions.is_verified(view):
            why = f"your passkey must confirm it is you, at most {limits.PASSKEY_VERIFIED_SECONDS // 60} minutes before"
            return JSONResponse({"error": f"{why}; press again", "code": "expired", "verify": True}, 403)
        act = unsigned_act(value["act"], value["words"], value["at"], f"operator:{name}")
        draft = read_draft(self._workspace, self._draft_at(request).path)
        if sha256_hex(draft.data) != value["draft"]:
            raise Refused("request_changed", f"{draft.path.name}: it changed since it was shown; reload the page")
        if not self.sessions.count_unsigned(view):
            most = limits.PASSKEY_UNSIGNED_ACTS
            raise Refused("expired", f"one login ends at most {most} drafts; log in again: {self._origin}/page/")
        answer = act(context, draft)
        return JSONResponse({"ended": draft.path.name} if answer is None else {"told": _told(answer)})


def _yes_to_placed(origin: str, draft: Draft, name: str, shown_utc: str) -> bytes:
    """What a passkey signs for a draft that is never signed: of another kind and form than any approval."""
    sha256 = sha256_hex(draft.data)
    return canonical.canonical_bytes(
        {"type": _YES_TYPE, "origin": origin, "draft": sha256, "by": name, "shown_utc": shown_utc}
    )


def _told(answer: Answer) -> str:
    """What the operator reads, in one line of text."""
    return f"{answer.says}; {answer.label}: {answer.line}"


def _seconds_since(shown_utc: datetime) -> int:
    """How long ago a page was shown. Raises Refused if that is too long."""
    seconds = round((datetime.now(UTC) - shown_utc).total_seconds())
    if seconds > limits.PASSKEY_STATEMENT_SECONDS:
        raise Refused("expired", "this was shown too long ago; reload the page")
    return seconds


def _another_passkey() -> Refused:
    return Refused("statement_mismatch", "the signature is from another passkey than the one that is logged in")


def _expired() -> Refused:
    return Refused("expired", "this login has expired or was already used; reload the page")


def _read(data: bytes, keys: set[str]) -> dict[str, str]:
    """The JSON object of strings that our script sends. Raises StrictJSONError, MalformedError."""
    value = canonical.loads_strict(data, max_bytes=limits.PASSKEY_REQUEST_BYTES, max_depth=2)
    if not isinstance(value, dict) or value.keys() != keys:
        raise MalformedError("has unexpected or missing fields")
    if not all(isinstance(text, str) for text in value.values()):
        raise MalformedError("has a value that is not a string")
    return value


def _entry_of(context: Context, credential: str, origin: str) -> Operator:
    """The operator's entry of a passkey enrolled for this page. Raises Refused."""
    operators = known_operators(context)
    for entry in operators.entries:
        passkey = entry.passkey
        if passkey is not None and (passkey.credential, passkey.origin) == (credential, origin):
            if entry.key.blob in (operators.revoked_keys or ()):
                raise Refused("signer_revoked", f"the passkey of {entry.name} is revoked")
            return entry
    raise Refused("signer_unknown", "this passkey is not enrolled; in a terminal, type: threegate operator passkey")


def _armor(entry: Operator, namespace: str, value: dict[str, str]) -> bytes:
    """The signature in OpenSSH's format. Raises MalformedError."""
    return passkey_signature(
        entry.key,
        entry.passkey.origin if entry.passkey is not None else "",
        namespace,
        authenticator_data=decode_base64url(value["authenticator_data"]),
        client_data=decode_base64url(value["client_data"]),
        signature=decode_base64url(value["signature"]),
    )
