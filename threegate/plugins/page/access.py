"""Who may see the operator's page: a browser on this machine in which an operator has logged in, and only its
own requests.

Invariant: a request is answered only if it came over loopback, to a loopback name, through no proxy, from no
other site or origin, and its path and cookie belong to one session. The server's bearer token does not open
the page, because agents hold it. Cookies ignore ports, so another server on this machine may receive one: the
cookie's path is therefore random and known only to the operator's browser, and both must match.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.core import limits

COOKIE: Final = "threegate_page"
_CHALLENGE: Final = re.compile(r"([0-9a-f]{1,16})\.([0-9a-f]{32})\.([0-9a-f]{64})")
_VIEW: Final = re.compile(r"[0-9a-f]{32}")
_PROXIED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Where a request claims to come from. Header names are lower case; each has all its values."""

    client: str
    server: tuple[str, int]
    """The local address and port of the connection."""
    headers: Mapping[str, Sequence[str]]
    writes: bool = False
    """Whether it is a POST."""
    linked: bool = False
    """Whether it is for a page that a mail or another site may link to."""


def refusal(asked: PageRequest, origin: str = "") -> str:
    """Why this request is not answered, in one line, or an empty string.

    `origin`: of a page that accepts passkeys, which is reachable by this name only; without it, the page is
    for this machine only.
    """
    return _site_refusal(asked, origin) if origin else _local_refusal(asked)


def _site_refusal(asked: PageRequest, origin: str) -> str:
    given = tuple(name.lower() for name in asked.headers.get("host", ()))
    if given != (origin.removeprefix("https://"),):
        return f"open it by its own address, {origin}"
    if any(name in asked.headers for name in _PROXIED):
        return "the page is not shown through a proxy"
    origins = tuple(asked.headers.get("origin", ()))
    if origins not in ((), (origin,)) or (asked.writes and not origins):
        return "the page is not shown to other pages"
    return _fetch_refusal(asked.headers, linked=asked.linked and not asked.writes)


def _local_refusal(asked: PageRequest) -> str:
    host, port = asked.server
    if not (_is_loopback(asked.client) and _is_loopback(host)):
        return "the page is for this machine only"
    names = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if port == 80:
        names |= {"127.0.0.1", "localhost", "[::1]"}
    # A name of somebody else that resolves to 127.0.0.1 (DNS rebinding) comes with another Host.
    given = asked.headers.get("host", ())
    if len(given) != 1 or given[0].lower() not in names:
        return f"open it by its own address, http://127.0.0.1:{port}"
    # Behind a proxy everybody would come from loopback.
    if any(name in asked.headers for name in _PROXIED):
        return "the page is not shown through a proxy"
    if any(origin != f"http://{given[0].lower()}" for origin in asked.headers.get("origin", ())):
        return "the page is not shown to other pages"
    return _fetch_refusal(asked.headers)


def _fetch_refusal(headers: Mapping[str, Sequence[str]], *, linked: bool = False) -> str:
    """Check the browser's Fetch Metadata headers. A browser that sends none is judged by the other checks.

    `linked`: another site may open it as a whole page (and still not embed, fetch or prefetch it).
    """
    site = tuple(headers.get("sec-fetch-site", ("none",)))
    if site not in (("none",), ("same-origin",)) and not (linked and site in (("cross-site",), ("same-site",))):
        return "the page must be opened from a terminal or the address bar, not from another page"
    destination = tuple(headers.get("sec-fetch-dest", ("document",)))
    mode = tuple(headers.get("sec-fetch-mode", ("navigate",)))
    whole = destination == ("document",) and mode == ("navigate",)
    own_look = destination == ("empty",) and mode in (("cors",), ("same-origin",))
    if not (whole or (own_look and site == ("same-origin",))):
        return "the page cannot be embedded in another one"
    if any("prefetch" in value for name in ("purpose", "sec-purpose") for value in headers.get(name, ())):
        return "the page cannot be prefetched"
    return ""


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


@dataclass(slots=True)
class _Session:
    digest: bytes
    """Of its cookie."""
    began: float
    whose: str
    verified: float
    """When the passkey last confirmed who uses it, at the latest."""
    unsigned: int = 0
    """How many unsigned acts were begun in it."""


class Sessions:
    """The sessions, each with its view (a random part of the path)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """No sessions. `clock` is in seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Session] = OrderedDict()

    def begin(self, whose: str = "", verified: float = -math.inf) -> tuple[str, str]:
        """A new session: its view and its cookie's value. The oldest one ends if there are too many. `verified`: when
        it was certain who begins it.
        """
        view, value = secrets.token_hex(16), secrets.token_urlsafe(32)
        with self._lock:
            self._open[view] = _Session(_digest(value), self._clock(), whose, verified)
            while len(self._open) > limits.PAGE_SESSIONS:
                self._open.popitem(last=False)
        return view, value

    def holds(self, view: str, cookie_headers: Sequence[str]) -> bool:
        """Whether one of the cookies belongs to the view. Other cookies with the same name are ignored."""
        if not _VIEW.fullmatch(view):
            return False
        with self._lock:
            session = self._open.get(view)
            if session is not None and self._clock() - session.began > limits.PAGE_SESSION_SECONDS:
                del self._open[view]
                session = None
            digest = b"" if session is None else session.digest
        given = [_digest(value) for value in cookies(cookie_headers)]
        return bool(digest) and any(hmac.compare_digest(digest, value) for value in given)

    def whose(self, view: str) -> str:
        """The start data of the session of a view, which `holds`."""
        with self._lock:
            return self._open[view].whose

    def verify(self, view: str, at: float) -> None:
        """Its passkey confirmed at `at` who uses it. A session that has ended stays ended."""
        with self._lock:
            if (session := self._open.get(view)) is not None:
                session.verified = max(session.verified, at)

    def is_verified(self, view: str) -> bool:
        """Whether that is recent enough for an unsigned act."""
        with self._lock:
            session = self._open.get(view)
            return session is not None and self._clock() - session.verified <= limits.PASSKEY_VERIFIED_SECONDS

    def count_unsigned(self, view: str) -> bool:
        """Count one unsigned act: False if the session has ended or had PASSKEY_UNSIGNED_ACTS."""
        with self._lock:
            session = self._open.get(view)
            if session is None or session.unsigned >= limits.PASSKEY_UNSIGNED_ACTS:
                return False
            session.unsigned += 1
            return True

    def end(self, view: str) -> None:
        """Log it out."""
        with self._lock:
            self._open.pop(view, None)


class Challenges:
    """Challenges for a login: each is valid for a time, works once, and is stored only once it has worked.

    A challenge has its time and a MAC with a key of this process, so however many are asked for, none expires another.
    Only an operator can use one up, so nobody else can fill the list of used ones.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """None was used. `clock` is in seconds."""
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}

    def make(self) -> str:
        """A new one, as text of letters, digits and dots."""
        head = f"{int(self._clock() * 1000):x}.{secrets.token_hex(16)}"
        return f"{head}.{self._mac(head)}"

    def is_valid(self, challenge: str) -> bool:
        """Whether it was made here and has not expired. It may have been used."""
        found = _CHALLENGE.fullmatch(challenge)
        if found is None or not hmac.compare_digest(found[3], self._mac(f"{found[1]}.{found[2]}")):
            return False
        return self._clock() - self.made(challenge) <= limits.PASSKEY_LOGIN_SECONDS

    def made(self, challenge: str) -> float:
        """When a valid one was made: whatever signs it was made later."""
        return int(challenge.partition(".")[0], 16) / 1000

    def use(self, challenge: str) -> bool:
        """Use up a valid one, for an operator whose signature of it was verified: False if that was done before, or if
        PASSKEY_LOGINS were used and have not expired.
        """
        now = self._clock()
        with self._lock:
            self._used = {text: at for text, at in self._used.items() if now - at <= limits.PASSKEY_LOGIN_SECONDS}
            # Full is refused, not made room in: a used challenge that is forgotten would work again.
            if challenge in self._used or len(self._used) >= limits.PASSKEY_LOGINS:
                return False
            self._used[challenge] = now
            return True

    def _mac(self, head: str) -> str:
        return hmac.new(self._key, head.encode(), hashlib.sha256).hexdigest()


def cookies(headers: Sequence[str]) -> list[str]:
    """Every value of our cookie's name in the Cookie headers."""
    pairs = [part.strip().partition("=") for header in headers for part in header.split(";")]
    return [value for name, equals, value in pairs if name == COOKIE and equals]


def set_cookie(view: str, value: str) -> str:
    """The Set-Cookie header of a session: for its own path, until the browser closes, and hidden from scripts."""
    return f"{COOKIE}={value}; Path=/page/{view}/; HttpOnly; SameSite=Strict"


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()
