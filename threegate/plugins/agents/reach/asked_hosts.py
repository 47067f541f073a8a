"""Hosts that a run asked for while it was alive: which request may be signed, and which hosts are open.

Invariant: a request for a host has a Job only if this run's door made it, for exactly this host, and no person refused
or took back the host in this run. Which hosts are open follows from the trail and from the bytes whose digest a claim
names; nothing that the run can write is asked. What cannot be read opens nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, Unavailable
from threegate.core.workspace import AgentRun, Workspace
from threegate.launch.context import Context
from threegate.plugins.agents.call_ledger import CallLedger
from threegate.plugins.agents.kinds import HostClosed
from threegate.plugins.agents.reach.host_action import HasRead, HostAccess
from threegate.plugins.agents.runs import RunFacts, is_alive
from threegate.request.backend import Binding, Bound
from threegate.request.model import Request
from threegate.request.reader import read_request
from threegate.trail import moves
from threegate.trail.history import RequestHistory
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import Claimed, Finished
from threegate.trail.payloads.payload import Owner

REQUEST_HOST: Final = "request_host"
"""The door's tool."""
_RULE: Final = "TG916"
_LOOK_SECONDS: Final = 0.02
_CLOSED: Final = "host_closed"
_UNASKED: Final = "host_unasked"


def host_call(host: str) -> str:
    """What identifies the call for a host in the record of calls: a run asks for each once."""
    return sha256_hex(f"{REQUEST_HOST} {host}".encode())


# ---- which request may be signed


def requested_host(binding: Binding) -> Bound:
    """What a request for a host opens, for which run. Raises Refused."""
    access, owner = _access(binding.request), binding.owner
    with binding.trail.locked() as held:
        run = _asking_run(binding.workspace, held.index, binding.request, owner)
    return Bound(action=access.bound(run.run_id, _has_read(run)))


def host_problem(
    workspace: Workspace, index: TrailIndex, request: Request, owner: Owner | None
) -> tuple[str, str] | None:
    """The rule and words about a request that opens nothing."""
    try:
        _asking_run(workspace, index, request, owner)
    except Refused as error:
        return _RULE, str(error)
    return None


def _access(request: Request) -> HostAccess:
    assert isinstance(request.action, HostAccess)
    return request.action


def _asking_run(workspace: Workspace, index: TrailIndex, request: Request, owner: Owner | None) -> AgentRun:
    """The run that asks. Raises Refused."""
    host = _access(request).host
    known = index.run(owner)
    if known is None:
        raise Refused(_UNASKED, f"{host}: only a run of an agent can be let to a host; see: threegate agent run --help")
    if known.ended:
        raise Refused(_CLOSED, f"{host}: the run {known.run} has ended, and with it all of its connections")
    if host in known.closed_hosts:
        raise Refused(_CLOSED, f"{host}: was taken back from the run {known.run}, and stays closed for it")
    run = workspace.agent_run(known.run)
    made = None
    with suppress(ThreeGateError, OSError):
        made = CallLedger(workspace, run).last(host_call(host))
    if made is None or made.request_id != request.request_id:
        raise Refused(_UNASKED, f"{host}: this draft is not what the run asked for; it asks with {REQUEST_HOST} only")
    return run


def _has_read(run: AgentRun) -> HasRead:
    try:
        facts = RunFacts.read(run)
        results = sum(name.startswith("TS-") for name in os.listdir(run.results))
    except (ThreeGateError, OSError) as error:
        raise Refused(_UNASKED, f"what the run {run.run_id} has read is not known ({error})") from None
    return HasRead(
        root=facts.root,
        shown=facts.shown,
        reading=facts.reading,
        home=facts.home,
        parent=facts.parent,
        hosts=read_open_hosts(run),
        results=results,
    )


# ---- which hosts are open


class OpenHosts:
    """Which hosts a run may reach now: those it was started with, and those that were signed since."""

    def __init__(self, workspace: Workspace, run: AgentRun, allowed: Iterable[str]) -> None:
        self._workspace, self._run = workspace, run
        self.without_the_trail = tuple(allowed)
        """What is open while the trail cannot be read: what the run was started with, and was not taken back."""
        self.on_their_way = False
        """Whether a claimed file was not in its place yet."""
        self._claimed: dict[str, str] = {}
        """The hosts of requests whose bytes were read, by the digest that their claim names."""

    def now(self, index: TrailIndex) -> tuple[str, ...]:
        """The hosts; `index` is of the locked trail. A request whose file is on its way is left out until it is there.
        Raises ThreeGateError, OSError.
        """
        known = index.run(self._run.run_id)
        closed = () if known is None else known.closed_hosts
        self.without_the_trail = tuple(host for host in self.without_the_trail if host not in closed)
        self.on_their_way = False
        asked = [made for made in CallLedger(self._workspace, self._run).all() if made.tool == REQUEST_HOST]
        found = [host for made in asked if (host := self._host_of(index.history(made.request_id))) is not None]
        opened = (host for host in dict.fromkeys(found) if host not in closed)
        return tuple(dict.fromkeys((*self.without_the_trail, *opened)))

    def _host_of(self, history: RequestHistory | None) -> str | None:
        """The host that a request opens: it was claimed, for this run, and has not ended in another way."""
        claimed = None if history is None else Claimed.of(history.claimed)
        if history is None or claimed is None or history.owner != self._run.run_id or claimed.grant is not None:
            return None
        ended = Finished.of(history.end)
        if history.end is not None and (ended is None or ended.result_status != "succeeded"):
            return None
        digest = claimed.request_sha256 or ""
        if digest not in self._claimed:
            host = self._read(history, digest)
            if host is None:
                self.on_their_way = True
                return None
            self._claimed[digest] = host
        return self._claimed[digest]

    def _read(self, history: RequestHistory, digest: str) -> str | None:
        name = history.file or ""
        path = self._workspace.state_folder(history.state or "") / name
        try:
            data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
        except OSError:
            return None
        settings = self._workspace.load_settings().request
        report = read_request(data, path=name, settings=settings, now=datetime.now(UTC), stage="approved")
        if sha256_hex(data) != digest or report.request is None or not isinstance(report.request.action, HostAccess):
            return None
        return report.request.action.host


def withdraw_hosts(workspace: Workspace, run: AgentRun) -> None:
    """Remove the drafts for hosts that nobody has decided about: the run that asked has ended. One that stays cannot
    be signed. Raises Unavailable, OSError.
    """
    asked = [made.file for made in CallLedger(workspace, run).all() if made.kept]
    with suppress(OSError), workspace.hold(run.inbox) as inbox:
        for file in asked:
            with suppress(OSError):  # the inbox is the agent's own: it may be closed, or have a folder in its place
                inbox.unlink(file)


def close_host(context: Context, run: AgentRun, facts: RunFacts, host: str, *, actor: str) -> None:
    """Take a host back from a run, and wait until its connections are broken off. A full disk does not prevent it.
    Raises InvalidInput, TrailError, Unavailable if the run's launcher does not answer.
    """
    asked = CallLedger(context.workspace, run).last(host_call(host))
    if host not in facts.hosts and asked is None:
        raise InvalidInput(f"{host}: the run {run.run_id} neither may reach it nor asked for it")
    with disk_reserve(context.workspace.reserve), context.trail.locked() as held:
        known = held.index.run(run.run_id)
        if known is None or known.ended:
            raise InvalidInput(f"{run.run_id}: has ended, and with it all of its connections")
        if host not in known.closed_hosts:
            moves.announce(held, HostClosed(run=run.run_id, host=host), actor=actor)
    until = time.monotonic() + limits.AGENT_HOST_OPEN_SECONDS
    while is_alive(run) and ((noted := _noted_hosts(run)) is None or host in noted):
        if time.monotonic() > until:
            raise Unavailable(
                f"{host}: is taken back, but the run's launcher does not answer; threegate agent stop {run.run_id}"
            )
        time.sleep(_LOOK_SECONDS)


def write_open_hosts(run: AgentRun, hosts: Iterable[str]) -> None:
    """Note which hosts the proxy lets through now. Raises OSError."""
    durable.overwrite(run.open_hosts, json.dumps({"open": list(hosts)}).encode() + b"\n")


def read_open_hosts(run: AgentRun) -> tuple[str, ...]:
    """The hosts that the run's proxy lets through; none if that is not known, or the proxy has gone with its
    launcher.
    """
    return (_noted_hosts(run) or ()) if is_alive(run) else ()


def _noted_hosts(run: AgentRun) -> tuple[str, ...] | None:
    """The hosts in the launcher's note; None if there is none that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        value = json.loads(durable.read_regular(run.open_hosts, max_bytes=limits.HOST_LIST_BYTES))
        return tuple(map(str, value["open"]))
    return None
