"""What is new about a draft, compared with what this workspace ran.

Invariant: marks only warn. Nothing that ran before is called known, usual or safe, and a draft without marks has no
line at all. No decision and no signature depends on a mark: it is in neither the Job nor the signed text, and whatever
goes wrong here is the line "novelty unknown". Foreign words are only in `Mark.names`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from threegate.approval.shown.request_sections import job_exposure
from threegate.core import limits
from threegate.core.screen_parts import Fact, Field, Item, Note
from threegate.core.secretscan.scan import mask_secrets
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.request.action import Action
from threegate.request.backend import Attention
from threegate.request.exposure import NETWORK_REACHED, Exposure
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.request.shown_whole import OpenInput
from threegate.review.attention import MarkKind, Weighed, attention_of
from threegate.review.look_alikes import PastHosts, hosts_in
from threegate.trail.event import trail_text
from threegate.trail.index import KnownRun, TrailIndex, run_of
from threegate.trail.past_uses import Kind, PastUses, Ran
from threegate.trail.payloads import Uses
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import Trail

_Found = TypeVar("_Found")

_CALLED: Final[dict[Kind, str]] = {
    "host": "host",
    "url": "host in an address",
    "program": "program",
    "folder": "input folder",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """One warning: what it is about, our line, and the foreign names that belong below it, each with our label."""

    kind: MarkKind
    text: str
    names: tuple[tuple[str, str], ...] = ()


UNKNOWN: Final = Mark("unknown", "novelty unknown: what ran before could not be read, so nothing is compared")


def uses_of(
    request: Request,
    action: Action,
    exposure: Exposure,
    *,
    owner: Owner | None,
    run: KnownRun | None,
    settings: Settings,
    scripts: Iterable[str] = (),
) -> Uses:
    """What a request uses. `action` and `exposure` may be those of its Job; `scripts` are the texts of its inputs that
    are code.
    """
    hosts = dict.fromkeys(
        _without_port(item.removeprefix(NETWORK_REACHED).partition(" ")[0])
        for item in exposure.reach
        if item.startswith(NETWORK_REACHED)
    )
    texts = (*(item.text for item in action.texts()), *scripts)
    named = dict.fromkeys(host for text in texts for host in hosts_in(text))
    digests = {f"/in/{item.name}": item.sha256 for item in request.inputs}
    program = action.program
    if program in digests:  # whose bytes may be others under the same name
        program = f"{program} sha256:{digests[program][:16]}"
    elif not action.runs_code:
        program = request.tool or ""
    project = action.keys().get("project") or (run.project if run is not None else None)
    return Uses(
        requester=_asks(request, settings, owner, run),
        hosts=tuple(hosts),
        urls=tuple(host for host in named if host not in hosts),
        program=program or None,
        folders=(f"project {project}",) if project else (),
    )


def _asks(request: Request, settings: Settings, owner: Owner | None, run: KnownRun | None) -> str:
    """Who asks, so that nobody gets another one's history by writing a name."""
    if run is not None:
        return f"{run.requester}, agent {run.profile}"
    named = settings.requesters.get(str(owner))
    return named if named is not None else f"{request.requested_by} (as the file of uid {owner} says)"


def _without_port(target: str) -> str:
    host, colon, port = target.rpartition(":")
    return host if colon and port.isdigit() else target


def kept_uses(uses: Uses) -> Uses:
    """As the trail can keep it word for word, so that no two values become the same: what is too long or looks like a
    secret is left out, and stays new.
    """
    left = limits.USES_CHARS

    def kept(values: Iterable[str] | None) -> tuple[str, ...]:
        nonlocal left
        found = []
        for value in values or ():
            if _keeps(value) and len(value) <= left:
                found.append(value)
                left -= len(value)
        return tuple(found)

    requester = kept([uses.requester or ""])
    return Uses(
        requester=requester[0] if requester else None,
        hosts=kept(uses.hosts),
        urls=kept(uses.urls),
        program=next(iter(kept([uses.program] if uses.program else [])), None),
        folders=kept(uses.folders),
    )


def _keeps(value: str) -> bool:
    return mask_secrets(value) == value and len(trail_text(value)) < limits.TRAIL_STRING_CHARS - len("...")


def marks_of(uses: Uses, past: PastUses, hosts: PastHosts | None = None) -> tuple[Mark, ...]:
    """The marks of a draft that uses this. `hosts` are those of `past`, if they are there already."""
    return tuple(_marks(uses, past, hosts))


def _marks(uses: Uses, past: PastUses, known: PastHosts | None) -> Iterator[Mark]:
    asks = uses.requester or ""
    if past.by(asks, "requester", asks) is None:
        yield Mark("requester", f"first request of this requester{_as_far(past)}")
    for host in uses.hosts or ():
        yield from _of_value(past, asks, "host", host)
    for host in uses.urls or ():
        if past.by(asks, "host", host) is None:
            yield from _of_value(past, asks, "url", host)
    if uses.program:
        yield from _of_value(past, asks, "program", uses.program)
    for folder in uses.folders or ():
        yield from _of_value(past, asks, "folder", folder)
    for host in (*(uses.hosts or ()), *(uses.urls or ())):
        own = past.by_all("host", host)
        known = known or PastHosts(past.hosts())
        alike = known.like(host, own.runs if own else 0)
        if alike is not None:
            yield Mark(
                "look-alike",
                f"host looks like another one, which {_ran(alike.ran)}",
                (("host", host), ("looks like", alike.host)),
            )


def _of_value(past: PastUses, asks: str, kind: Kind, value: str) -> Iterator[Mark]:
    called, names = _CALLED[kind], (("", value),)
    own = past.by(asks, kind, value)
    if own is None:
        others = past.by_all(kind, value)
        by_others = f" by this requester; with others it {_ran(others)}" if others else ""
        yield Mark(kind, f"first time for this {called}{by_others}{_as_far(past)}", names)
    elif kind == "host" and own.runs < limits.FEW_RUNS:
        yield Mark("few", f"this host {_ran(own)}", names)


def _as_far(past: PastUses) -> str:
    return " (runs of long ago are not counted any more)" if past.forgotten else ""


def _ran(ran: Ran) -> str:
    times = "once" if ran.runs == 1 else f"{ran.runs} times"
    first = f"first on {ran.first[:10]}, " if ran.first[:10] != ran.last[:10] else ""
    last = f"last on {ran.last[:10]}" if ran.runs > 1 else f"on {ran.last[:10]}"
    return f"ran {times}, {first}{last}"


@dataclass(frozen=True, slots=True)
class Novelty:
    """What a draft uses, and its marks. `uses` is None where that could not be found."""

    uses: Uses | None = None
    marks: tuple[Mark, ...] = (UNKNOWN,)

    @property
    def kept(self) -> Uses | None:
        """What its approval keeps, for the drafts after it."""
        return None if self.uses is None else kept_uses(self.uses)


def past_of(index: TrailIndex) -> PastUses | None:
    """What ran before, for use after the trail's lock was given back; None if it cannot be had."""
    return _quietly(index.uses.copy)


def novelty_of(
    request: Request,
    job: Job,
    open_input: OpenInput,
    past: PastUses | None,
    *,
    owner: Owner | None,
    run: KnownRun | None,
    settings: Settings,
) -> Novelty:
    """What is new about a request whose inputs are at hand. Never fails."""

    def find() -> Uses:
        exposure = job_exposure(request, job)
        scripts = _texts_of(request, exposure, open_input)
        return uses_of(request, job.action, exposure, owner=owner, run=run, settings=settings, scripts=scripts)

    uses = _quietly(find)
    if uses is None or past is None:
        return Novelty(uses)
    marks = _quietly(lambda: marks_of(uses, past))
    return Novelty(uses, (UNKNOWN,) if marks is None else marks)


def _texts_of(request: Request, exposure: Exposure, open_input: OpenInput) -> Iterator[str]:
    """The texts of the inputs that are code, as far as they are looked through."""
    left = limits.USED_SCRIPT_BYTES
    for item in request.inputs:
        if item.name in exposure.scripts:
            with open_input(item) as stream:
                data = stream.read(left)
            left -= len(data)
            yield data.decode("utf-8", "replace")


def _quietly(find: Callable[[], _Found]) -> _Found | None:
    """What `find` returns, or None, whatever goes wrong."""
    try:
        return find()
    except Exception:  # noqa: BLE001 - a mark decides nothing, so nothing else may fail for it
        return None


def card_items(marks: Iterable[Mark]) -> Iterator[Item]:
    """The marks of the card: all but those that `warnings_of` gives."""
    label = "new"
    for mark in marks:
        if mark.kind != "look-alike":
            yield Fact(label, mark.text)
            yield from (Field(name, value) for name, value in mark.names)
            label = ""


def warnings_of(marks: Iterable[Mark]) -> Iterator[tuple[Item, ...]]:
    """A warning for each host that looks like another one."""
    for mark in marks:
        if mark.kind == "look-alike":
            yield (Note(f"LOOK CLOSELY: {mark.text}:"), *(Field(name, value) for name, value in mark.names))


class PastReader:
    """What ran before, for lists that are made again and again. Not thread-safe; the trail may be shared."""

    def __init__(self, workspace: Workspace, trail: Trail | None = None) -> None:
        """Nothing is read yet."""
        self._trail = trail or Trail(workspace)
        self._looked: float | None = None
        self._known: _Known | None = None
        self._thread: threading.Thread | None = None

    def refresh(self) -> bool:
        """Read on, if the last look is old; whether anything is known. Whoever holds the trail keeps no list waiting:
        after HEALTH_WAIT_SECONDS it goes on with what is known.
        """
        if self._looked is None or time.monotonic() - self._looked >= limits.PAST_READ_SECONDS:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._read, name="past-uses", daemon=True)
                self._thread.start()
            self._thread.join(limits.HEALTH_WAIT_SECONDS)
            self._looked = time.monotonic()
        return self._known is not None

    def run(self, owner: Owner) -> KnownRun | None:
        """The run of an agent that asks, as far as it is known; None where none does."""
        known = self._known
        return run_of({} if known is None else known.runs, owner)

    def attention(self, weighed: Weighed) -> Attention:
        """How soon a person should look at a draft, by what was read."""
        known = self._known
        if known is None:
            return attention_of(weighed, (UNKNOWN.kind,))
        if weighed not in known.weighed:
            marks = _quietly(lambda: marks_of(weighed.uses, known.past, known.hosts))
            kinds = [mark.kind for mark in (marks if marks is not None else (UNKNOWN,))]
            known.weighed[weighed] = attention_of(weighed, kinds)
            if len(known.weighed) > limits.STATUS_ROWS_READ:
                known.weighed.pop(next(iter(known.weighed)))
        return known.weighed[weighed]

    def _read(self) -> None:
        before = self._known
        try:
            with self._trail.locked() as held:
                index = held.index
                runs = dict(index.known_runs)
                past = index.uses.copy() if before is None or before.past.runs != index.uses.runs else None
            if before is not None and past is None:
                self._known = before._replace(runs=runs)
            elif past is not None:
                self._known = _Known(past, PastHosts(past.hosts()), runs, {})
        except Exception:  # noqa: BLE001 - a list is a list without it; what is wrong with the trail, its own line says
            self._known = None


class _Known(NamedTuple):
    past: PastUses
    hosts: PastHosts
    runs: Mapping[str, KnownRun]
    weighed: dict[Weighed, Attention]
