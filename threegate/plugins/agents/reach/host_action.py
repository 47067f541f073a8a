"""The action of a request for a host: the run that asks may connect to it. First as the request says it, then with what
is known of the run.

Invariant: a Job has the second form only, with the run that owns the draft; no text of the draft names a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from threegate.core import canonical, limits
from threegate.core.screen_parts import LIMIT, Fact, Field, Item, Note, Quote
from threegate.plugins.tools.call_section import check_arguments
from threegate.request.action import NO_CODE, Action, ActionText, Category, Risk, fenced
from threegate.request.exposure import NETWORK_REACHED, Exposure, Input
from threegate.request.problem import Problem

PORT: Final = 443
"""The one port that a run of an agent reaches of a host."""


def check_why(text: str) -> tuple[Problem, ...]:
    """Problems of the Arguments (JSON) of a request for a host. Never raises; linear time."""
    if (wrong := check_arguments(text)) or why_of(text) is not None:
        return wrong
    return (Problem("TG225", 1, 1, f'write {{"why":"…"}}: one line of at most {limits.PURPOSE_CHARS} characters'),)


def why_of(text: str) -> str | None:
    """The agent's words in these arguments, which must be well-formed; None if they have another form."""
    match json.loads(text):
        case {"why": str(why), **others} if not others and 0 < len(why) <= limits.PURPOSE_CHARS and "\n" not in why:
            return why
    return None


@dataclass(frozen=True, slots=True)
class HasRead:
    """What a run can have read, and so can send."""

    root: str
    """The project that it has a copy of."""
    shown: tuple[str, ...] = ()
    """Hidden paths that the operator let it see."""
    reading: tuple[str, ...] = ()
    """Folders besides."""
    home: str = ""
    """The run whose HOME it took over."""
    parent: str = ""
    """The run in whose copy it continues."""
    hosts: tuple[str, ...] = ()
    """Hosts that it may reach already."""
    results: int = 0
    """Results of its requests so far: more than when it is signed may be there when it is opened."""

    def meaning(self) -> dict[str, Any]:
        """As the Job has it: what stays the same for as long as the run lives."""
        lists = {name: list(getattr(self, name)) for name in ("shown", "reading")}
        return {"root": self.root, "home": self.home, "parent": self.parent, **lists}


@dataclass(frozen=True, slots=True)
class HostAccess(Action):
    """A run may connect to a host. What each member is for is said in `request/action.py`."""

    runs_code: ClassVar[bool] = False
    grouped: ClassVar[bool] = False
    never_granted: ClassVar[str] = "a host for an agent's run"
    least_category: ClassVar[Category] = "write"
    own_tool: ClassVar[bool] = False
    open_part: ClassVar[str] = ""
    never_replayed: ClassVar[str] = "opened a host for one run; that is not repeated for comparison"
    host: str
    """Its exact name."""
    why: str
    """The agent's words."""

    @property
    def does(self) -> str:
        return f"lets its run send anything to {self.host}"

    def keys(self) -> Mapping[str, str]:
        return {"host": self.host}

    def names(self) -> Iterator[Item]:
        yield Field("opens", self.host)
        yield Fact("", f"port {PORT}, for the run that asks, until it ends")
        yield Quote(self.why, "why, in the agent's words:", None, "the reason")

    def without_open(self) -> HostAccess:
        return self

    def may_change(self, project: str | None) -> bool:
        return True

    @property
    def stateful(self) -> bool:
        return False

    @property
    def sends_out(self) -> bool:
        return True

    def risks(self) -> tuple[tuple[Risk, bool, str], ...]:
        return (("high", True, "its run may send there everything that it has read"),)

    def texts(self) -> tuple[ActionText, ...]:
        return (ActionText("reason", self.why),)

    def body(self, inputs: Sequence[Input]) -> Iterator[str]:
        words = canonical.canonical_bytes({"why": self.why}).decode()
        yield from ("## Arguments (JSON)", "", *fenced(words, "json"))

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        reach = (f"{NETWORK_REACHED}{self.host}:{PORT}",)
        return Exposure("transparent", "no code of the request runs; what the run sends is not seen", (), reach)

    def meaning(self) -> dict[str, Any]:
        return {**NO_CODE, "host": {"name": self.host, "port": PORT, "why": self.why}}

    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        return {"host": self.host, "port": PORT}

    def bound(self, run: str, has_read: HasRead) -> BoundHostAccess:
        """The same for the run that asks."""
        return BoundHostAccess(self.host, self.why, run, has_read)


@dataclass(frozen=True, slots=True)
class BoundHostAccess(HostAccess):
    """A host, the run that it is opened for, and what that can send there."""

    run: str
    has_read: HasRead

    def meaning(self) -> dict[str, Any]:
        return {**HostAccess.meaning(self), "run": self.run, "has_read": self.has_read.meaning()}

    def card(self) -> Iterator[Item]:
        read = self.has_read
        yield Fact("may send", "everything that this run has read, and will read, until it ends:")
        yield Field("the project", f"{read.root}, without what is hidden there")
        if read.shown:
            yield Field("hidden", "\n".join(read.shown), LIMIT)
        if read.reading:
            yield Field("folders", "\n".join(read.reading), LIMIT)
        if read.hosts:
            yield Field("answers of", "\n".join(read.hosts), LIMIT)
        for name, run in (("the home of", read.home), ("the copy of", read.parent)):
            if run:
                yield Fact(name, f"{run}, and what that run had read")
        yield Fact("results of", f"its requests, {read.results} so far")
        yield Note("Nobody looks into the connection. Behind a shared address (a CDN) it can reach other sites, too.")
        yield Fact("close with", f"threegate agent close {self.run} {self.host}")
