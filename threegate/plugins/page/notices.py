"""Notices: operators are notified of a waiting draft, the requester of the end of a request ([notify] extra).

Invariant: an operator's notice says who requests what, how far it reaches and its risk; the agent's own words
are quoted, cut, and stripped of characters that a messenger could turn into a link, a mention or markup.
Nothing of a request's code, inputs or result is sent. Sending happens in a separate thread, and a failed
notice stops nothing.
"""

from __future__ import annotations

import queue
import re
import threading
from typing import Final

from threegate.approval.facts import requester_of
from threegate.approval.shown.request_sections import requesters
from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.core.extras import missing_extra
from threegate.core.settings import Settings
from threegate.daemon.plugin_work import DaemonParts, WaitingDraft, Work
from threegate.plugins.page.draft_links import DraftLinks
from threegate.plugins.page.section import NotifySettings
from threegate.request.exposure import Exposure
from threegate.request.job import effective_risk
from threegate.request.model import Request
from threegate.review.reviewed_draft import expiry
from threegate.trail.index import KnownRun
from threegate.trail.payloads.payload import Owner

_WAITING = 256
"""The most notices that wait to be sent; the rest is counted and logged."""
_CLOSE_SECONDS = 5.0
"""How long the daemon's end waits for them."""

_PLAIN: Final = frozenset(" .,;!?()'+-=%/:")
_LINK: Final = re.compile(r"(?<=[:/.])(?=[^\s])")
_ANSWERED: Final = re.compile(r"error=(\d{3})")

Target = tuple[str, str]
"""The destination of a notice: the setting's name, and the URL, which may contain a secret."""


class Notices(Work):
    """Sends notices in its own thread, which starts with the first one. Without URLs, it imports nothing."""

    def __init__(self, daemon: DaemonParts) -> None:
        super().__init__(daemon)
        self._queue: queue.Queue[tuple[tuple[Target, ...], str, str] | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self._beginning = threading.Lock()
        self._links = DraftLinks(daemon.workspace)

    def draft_waits(self, *draft: *WaitingDraft) -> None:
        settings = self._daemon.settings()
        operators, _ = targets(settings)
        if operators:
            self._put(operators, *waiting_text(settings, *draft, link=self._link(settings, *draft)))

    def look(self) -> None:
        try:
            self._links.end_old(keep=self._daemon.settings().section(NotifySettings).link)
        except OSError as error:
            self._daemon.log.say("notice", what=f"the old links cannot be removed ({error.strerror})")

    def request_ended(self, request_id: str, status: str) -> None:
        _, requesters = targets(self._daemon.settings())
        if requesters:
            self._put(requesters, "A request has ended", f"{request_id}: {status}")

    def close(self, *, wait: bool) -> None:
        """Send waiting notices, for a short while, and stop."""
        if self._thread is not None:
            try:
                self._queue.put(None, timeout=_CLOSE_SECONDS)
            except queue.Full:
                return
            self._thread.join(_CLOSE_SECONDS)

    def _link(self, settings: Settings, *draft: *WaitingDraft) -> str:
        """The link for a notice; empty if none is wanted or none can be made: the notice is sent all the same."""
        origin = settings.approval.passkey_origin
        if not (settings.section(NotifySettings).link and origin):
            return ""
        _, request, _, _, run, _ = draft
        try:
            return self._links.new(origin, request, run)
        except OSError as error:
            self._daemon.log.say("notice", what=f"it has no link: that cannot be stored ({error.strerror})")
            return ""

    def _put(self, to: tuple[Target, ...], title: str, body: str) -> None:
        # Requests end in threads of their own; two of them must not start two senders.
        with self._beginning:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="notices", daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait((to, title, body))
        except queue.Full:
            self._daemon.log.say("notice", what="too many notices are waiting; one was dropped")

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            to, title, body = item
            for target in to:
                if (problem := send(target, title, body)) is not None:
                    self._daemon.log.say("notice", what=problem)


def targets(settings: Settings) -> tuple[tuple[Target, ...], tuple[Target, ...]]:
    """The destinations in the settings: the operators' URLs, and the requester's."""
    notify = settings.section(NotifySettings)
    hook = notify.requester_hook
    operators = tuple((f"notify.urls[{number}]", url) for number, url in enumerate(notify.urls))
    return operators, ((("notify.requester_hook", hook),) if hook else ())


def waiting_text(
    settings: Settings,
    file_name: str,
    request: Request,
    exposure: Exposure,
    owner: Owner | None,
    run: KnownRun | None,
    changed_ns: int,
    *,
    link: str = "",
) -> tuple[str, str]:
    """Title and body of the notice about a waiting draft: the first lines of its card, and our own link to it."""
    risk = effective_risk(request, exposure)
    names = requesters(settings, run)
    who = plain(requester_of(request, names, owner))
    said = "" if str(owner) in names else " (as the file says)"
    reach = plain("; ".join(exposure.reach)) or "nothing"
    opacity = "; not all its code is on the screen" if exposure.opaque else ""
    # A proposal's tool can raise the risk; that is judged when the draft is opened.
    least = " or higher" if owner is None else ""
    ttl = settings.approval.draft_ttl
    until = f"{expiry(changed_ns, ttl):%Y-%m-%d %H:%M} UTC" if ttl else ""
    lines = (
        f"asked by {who}{said}; risk {risk}{least}",
        f"reaches: {reach}{opacity}",
        f"it says: '{plain(request.purpose)}'",
        *([f"refused if not decided by {until}"] if until else []),
        f"read it: threegate review ({file_name})",
        *([f"or: {link}"] if link else []),
    )
    return f"A request is waiting for approval, risk {risk}", "\n".join(lines)


def plain(text: str) -> str:
    """Foreign words for a messenger: cut, on one line, without anything that becomes a link, a mention or markup."""
    kept = "".join(char if char.isalnum() or char in _PLAIN else " " for char in text[: limits.NOTICE_CHARS])
    return " ".join(_LINK.sub(" ", kept).split()) + ("…" if len(text) > limits.NOTICE_CHARS else "")


def send(target: Target, title: str, body: str) -> str | None:
    """Send one notice; one line with the cause if that failed, without the URL, which may contain secrets."""
    name, url = target
    if (problem := missing_extra("a notice", "notify")) is not None:
        return problem
    import apprise

    messenger = apprise.Apprise()
    with apprise.LogCapture(level=apprise.logging.WARNING, name="apprise") as heard:
        if not messenger.add(url):
            return f"{name}: not a URL that apprise supports; see docs/notices.md"
        try:
            done = messenger.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT)
        except Exception as error:  # noqa: BLE001 - of a library: the thread sends the next notice all the same
            return f"{name}: could not be sent ({type(error).__name__})"
        return None if done else f"{name}: could not be sent: {_cause(heard.getvalue())}"


def _cause(said: str) -> str:
    """The cause, in our words: apprise's messages may contain the URL."""
    if answered := _ANSWERED.search(said):
        return f"the server answered {answered[1]}"
    if "onnection error" in said:
        return "no connection; check the host name, the port and the network"
    return "the service did not accept it; check the URL's parts in docs/notices.md"


def send_test(settings: Settings) -> tuple[list[str], list[str]]:
    """Send a test notice to each configured URL: those reached, and a line for each failure. Raises Unavailable."""
    operators, requesters = targets(settings)
    if not operators and not requesters:
        raise Unavailable("no URL is set: threegate.toml has none in notify.urls; docs/notices.md has recipes")
    taken, problems = [], []
    if settings.section(NotifySettings).link and not settings.approval.passkey_origin:
        problems.append(
            "notify.link: no notice has a link; set approval.passkey_origin (docs/approve-from-elsewhere.md)"
        )
    for target in (*operators, *requesters):
        problem = send(target, "A test of ThreeGate", "Notices arrive here. Nothing is waiting for you.")
        if problem is None:
            taken.append(target[0])
        else:
            problems.append(problem)
    return taken, problems
