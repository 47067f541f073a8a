"""Kinds of events of agents' runs: what each was given access to, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Final

from threegate.trail.event import Event
from threegate.trail.index import KnownRun, TrailIndex
from threegate.trail.payloads.payload import Payload, SignedAct, because, frozen_fields, named


@frozen_fields
class AgentStarted(SignedAct):
    """An agent is about to start in its jail; signed if an operator lets it reach hosts."""

    kind = "agent_started"

    run: str | None
    """Id of the run; requester, session, limits and results of its requests follow from it."""
    profile: str | None
    program_sha256: str | None = None
    """Digest of the agent's program file."""
    project: str | None = None
    """Name of the one project that this run may ask to change."""
    root: str | None = None
    """The project's real path."""
    copy: str | None = None
    """Kind of the work copy: ``overlay`` or ``plain``."""
    shown: tuple[str, ...] | None = None
    """Protected paths that the operator let the agent read (``--with``)."""
    account: str | None = None
    """The account that the agent runs as."""
    requester: str | None = None
    """Who its requests come from, as gates name it."""
    walls: tuple[str, ...] | None = None
    """The walls in force."""
    missing: tuple[str, ...] | None = None
    """Limits that could not be had here."""
    model: str | None = None
    """The one model it may ask for."""
    endpoint: str | None = None
    """The one host that the model relay sends the agent's requests to."""
    hosts: tuple[str, ...] | None = None
    """Hosts that it may send anything to (``--allow``)."""
    parent: str | None = None
    """Id of the run that ended, in whose work copy this one continues."""
    tools: tuple[str, ...] | None = None
    """Tools of added servers that it may call, as SERVER or SERVER/GLOB. None: all of them."""

    def sentence(self) -> str:
        project = f" on the project {self.project}" if self.project else ""
        hosts = f"; it may send anything to {', '.join(self.hosts)}" if self.hosts else ""
        parent = f", in the copy of {self.parent}" if self.parent else ""
        tools = f"; of tool servers it may call {', '.join(self.tools)}" if self.tools else ""
        return f"started the agent{named(self.profile)}{project} in its jail{parent}{hosts}{tools}"

    def learn(self, index: TrailIndex, event: Event) -> None:
        if self.run is not None:
            profile = self.profile or "agent"
            known = KnownRun(self.run, profile, self.requester or profile, self.project, tools=self.tools or ())
            index.known_runs.setdefault(self.run, known)


@frozen_fields
class FindingsDecided(Payload):
    """A person decided which files with what looks like a secret agents see."""

    kind = "findings_decided"

    root: str | None
    """The project's real path."""
    hidden: tuple[str, ...] | None = None
    """Keyed digests of findings whose files are hidden from now on."""
    shown: tuple[str, ...] | None = None
    """Keyed digests of findings that hide nothing from now on."""
    files: Mapping[str, str] | None = None
    """Digest of `findings.json` with these answers, and with those of the events beside this one, by its path."""

    def sentence(self) -> str:
        hidden, shown = len(self.hidden or ()), len(self.shown or ())
        return f"decided about findings in {self.root or 'a project'}: {hidden} hidden from agents, {shown} shown"


@frozen_fields
class AgentEnded(Payload):
    """An agent's run ended: none of its processes is alive any more."""

    kind = "agent_ended"

    run: str | None
    exit: int | None = None
    """The agent's own exit code, or 128 plus the signal's number. None: its exit was not observed."""
    reason: str | None = None
    """Why it ended, if it did not end on its own: ``stopped``, ``killed`` (its launcher died), ``disk_bytes`` or
    ``disk_names`` (its files exceeded its bound), ``disk_unmeasured`` (they could not be measured), ``disk_reserve``
    (too little space was left on the disk).
    """
    requests: int | None = None
    """Requests to the model that were passed on."""
    refused_requests: int | None = None
    """Requests to the model that were refused."""
    bytes_out: int | None = None
    """To the model, in bytes."""
    bytes_in: int | None = None
    """From the model, in bytes."""
    tokens: int | None = None
    """As the model's provider counted them."""
    reached: tuple[str, ...] | None = None
    """Other hosts that it reached."""
    reached_bytes: tuple[int, ...] | None = None
    """How many bytes went to each of them and came from it together, in their order."""
    refused: tuple[str, ...] | None = None
    """Other hosts that it was refused, the first ones."""
    refused_unlisted: int | None = None
    """How many attempts at further hosts were refused."""
    changed: int | None = None
    """Paths that differ in the work copy."""
    changes_sha256: str | None = None
    """Digest of the change set that was drafted at the end."""

    def sentence(self) -> str:
        exit_code = f" with exit code {self.exit}" if self.exit is not None else ""
        changed = f"; {self.changed} paths differ in its work copy" if self.changed else ""
        reached = f"; it reached {', '.join(self._reached())}" if self.reached else ""
        more = f" and {self.refused_unlisted} more attempts" if self.refused_unlisted else ""
        refused = f"; it was refused {len(self.refused)} hosts{more}" if self.refused else ""
        return f"the agent run{named(self.run)} ended{exit_code}{changed}{reached}{refused}{because(self.reason)}"

    def _reached(self) -> Iterator[str]:
        """Each host, with its bytes where they were counted."""
        for host, size in zip_longest(self.reached or (), self.reached_bytes or ()):
            yield host if size is None else f"{host} ({size} bytes)"

    def learn(self, index: TrailIndex, event: Event) -> None:
        if self.run is not None and (known := index.known_runs.get(self.run)) is not None:
            index.known_runs[self.run] = known._replace(ended=True)


@frozen_fields
class HostClosed(Payload):
    """A person took a host back from an agent's run: its connections are broken off, and it stays closed."""

    kind = "agents.host_closed"

    run: str | None
    host: str | None

    def sentence(self) -> str:
        return f"took the host{named(self.host)} back from the agent run{named(self.run)}"

    def learn(self, index: TrailIndex, event: Event) -> None:
        if self.run is None or self.host is None or (known := index.known_runs.get(self.run)) is None:
            return
        if self.host not in known.closed_hosts:
            index.known_runs[self.run] = known._replace(closed_hosts=(*known.closed_hosts, self.host))


KINDS: Final = (AgentStarted, FindingsDecided, AgentEnded, HostClosed)
