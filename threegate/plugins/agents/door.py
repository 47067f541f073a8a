"""The door, an agent's MCP server: a tool call becomes a request, and the call waits until the request ends.

Invariant: no call runs anything; a person signs each request elsewhere. A disconnect or a cancelled call withdraws no
waiting request; only a tool-server call in progress is stopped when the client cancels it. Everything here belongs to
one requester's folders: requests that this requester's calls did not make are invisible.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio

from threegate.acts.cancel import cancel_request
from threegate.acts.signed_acts import OperatorDecision
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused, ThreeGateError
from threegate.core.settings import SENSITIVITIES
from threegate.core.workspace import AgentRun, Workspace
from threegate.launch.context import open_context
from threegate.plugins.agents.call_ledger import CallLedger, MadeRequest, OpenLedger, replaced
from threegate.plugins.agents.door_answers import DoorAnswer
from threegate.plugins.agents.door_arguments import (
    Arguments,
    Cancel,
    ProposeChanges,
    ReadOutput,
    RequestHost,
    Requests,
    RunProgram,
    RunPython,
    Wait,
    read_arguments,
)
from threegate.plugins.agents.door_calls import (
    DoorCall,
    calls_of,
    code_place,
    digest_of,
    draft_host,
    draft_of,
    fixes_of,
    told_findings,
    why_not,
)
from threegate.plugins.agents.door_files import read_files
from threegate.plugins.agents.door_tools import OfferedTool, is_tool_name, offered_tools
from threegate.plugins.agents.own_requests import (
    DATA,
    ENDED,
    STANDS,
    OwnRequests,
    as_asked,
    chosen_place,
    is_no,
    refused_value,
    taken_prefix,
)
from threegate.plugins.agents.propose import draft_changes, read_proposed
from threegate.plugins.agents.reach.asked_hosts import REQUEST_HOST, host_call
from threegate.plugins.agents.reach.host_action import PORT
from threegate.plugins.agents.runs import RunFacts, copy_of, read_frozen
from threegate.plugins.agents.tool_choice import is_chosen
from threegate.plugins.agents.work_changes import keep_bases
from threegate.plugins.changes.change_draft import left_out_lines
from threegate.plugins.tools.call_draft import draft_call, tool_call
from threegate.plugins.tools.requested_call import check_arguments
from threegate.request.hosts import HostError, read_host
from threegate.request.reader import read_request
from threegate.review.fitness import given_inputs, judged
from threegate.review.results import list_results

Tell = Callable[[float, float, str], Awaitable[None]]
"""(seconds waited, seconds to wait, what for) → a progress notification."""
_LOOK_SECONDS: Final = 0.05
_FIRST_LOOK_SECONDS: Final = 0.003
_LATE: Final = 0.04
"""The part of the time that a call has waited after which it looks again: a person's decision takes longer."""
_TELL_SECONDS: Final = 5.0
_AGAIN: Final = "call wait with this request_id, or repeat the same call; do not request it another way"

DOOR_TOOLS: Final[Mapping[str, tuple[type[Arguments], str]]] = {
    "run_python": (
        RunPython,
        "Ask to run Python outside of your sandbox. A person reads and signs it; then it runs once, isolated. The "
        "answer has `status`, stdout, stderr, and small outputs; `pending`: not decided yet.",
    ),
    "run_program": (
        RunProgram,
        "Ask to run a program, without a shell: your files are in /in, its outputs go to /out. Answers as run_python.",
    ),
    "propose_changes": (
        ProposeChanges,
        "Ask to apply your changes to the real project. A person reads the diff and signs it.",
    ),
    REQUEST_HOST: (
        RequestHost,
        "Ask to connect to one host by HTTPS from your sandbox, until this run ends. A person's no stands for the run.",
    ),
    "wait": (Wait, "Keep waiting for a request that was `pending`."),
    "requests": (Requests, "List your requests and what each is waiting for."),
    "read_output": (ReadOutput, "Read an output of a request that ran, or the rest of a cut answer, from `offset` on."),
    "cancel": (Cancel, "Withdraw one of your requests."),
}
"""Name: the arguments' class, and the description."""


class Door:
    """The tools for one requester: an agent's run, or the owner of files in the inbox."""

    def __init__(self, workspace: Workspace, run: AgentRun | None, wait_sec: int) -> None:
        """Store the requester. Raises OSError, Unavailable."""
        self._workspace = workspace
        self._run = run
        self._folders = run or workspace
        self._wait_sec = wait_sec
        self._ledger = CallLedger(workspace, run)
        facts = RunFacts.read(run) if run else None
        self._requester = facts.profile if facts else "core"
        self._choice = facts.tools if facts else ()
        self._requests = OwnRequests(workspace, run or workspace, self._ledger)

    def offered(self) -> dict[str, OfferedTool]:
        """The tools of added servers that the requester may call, by their names here."""
        return {name: tool for name, tool in self._known_tools().items() if is_chosen(self._choice, tool)}

    def _known_tools(self) -> dict[str, OfferedTool]:
        return offered_tools(self._workspace, self._requests.trail)

    async def call(
        self, name: str, arguments: Mapping[str, Any], tell: Tell, gave_up: Callable[[], bool] = lambda: False
    ) -> DoorAnswer:
        """Answer a tool call. `gave_up`: whether a cancelled wait was cancelled by the client itself.

        Raises ThreeGateError, OSError.
        """
        if is_tool_name(name):
            return await self._ask_tool(name, arguments, tell, gave_up)
        asked = read_arguments(DOOR_TOOLS[name][0], arguments)
        made: tuple[str, MadeRequest] | DoorAnswer
        match asked:
            case RunPython() | RunProgram():
                files = read_files(self._workspace, self._run, asked.files)
                calls = calls_of(asked, files, self._requester, self._from_folders(asked.files))
                made = self._ask(calls, asked.again)
            case ProposeChanges():
                made = self._propose(asked)
            case RequestHost():
                made = self._ask_host(asked)
            case Wait():
                made = self._requests.own(asked.request_id)
                if asked.again:
                    return self._let_again(*made)
            case ReadOutput():
                return DoorAnswer({**self._requests.read_output(asked), "note": DATA})
            case Cancel():
                return self._cancel(*self._requests.own(asked.request_id))
            case _:
                return self._requests.listed()
        if isinstance(made, DoorAnswer):
            return made
        return await self._wait(*made, self._seconds(asked.wait_sec), tell)

    def delivered(self, completes: tuple[str, str]) -> None:
        """The answer that completes a call reached the client."""
        with suppress(ThreeGateError, OSError):  # at worst it is given once more
            self._ledger.delivered(*completes)

    def _seconds(self, asked: int | None) -> int:
        return self._wait_sec if asked is None else asked

    def _earlier(self, ledger: OpenLedger, digest: str, again: bool) -> MadeRequest | DoorAnswer | None:
        """The request that a repeated call finds, or the answer that it gets; None if it makes a new one."""
        made = ledger.last(digest)
        if made is None or made.withdrawn or not self._requests.appeared(made):
            return None
        if not made.placed:
            made = replaced(made, placed=True)
            ledger.put(digest, made)
        rejected = self._requests.rejection(made)
        if rejected is None:
            return None if made.delivered else made
        if again or made.again:
            return None
        return replace(rejected, completes=(digest, made.request_id))

    def _let_again(self, digest: str, made: MadeRequest) -> DoorAnswer:
        if made.kept:
            raise InvalidInput(f"again: {STANDS}")
        if self._requests.rejection(made) is None:
            raise InvalidInput("again: no person rejected this request; leave `again` out")
        with self._ledger.locked() as ledger:
            ledger.put(digest, replaced(made, again=True))
        value = {"status": "refused", "request_id": made.request_id, "next": "the same call asks once more now"}
        return DoorAnswer(value)

    def _ask(self, calls: Sequence[DoorCall], again: bool) -> tuple[str, MadeRequest] | DoorAnswer:
        """The request of a call: the existing one, if it is open or its answer never arrived, else a new one."""
        digest = digest_of(calls)
        with self._ledger.locked() as ledger:
            found = self._earlier(ledger, digest, again)
            if isinstance(found, DoorAnswer):
                return found
            if found is not None:
                return digest, found
            chosen = self._choose(calls)
            if isinstance(chosen, DoorAnswer):
                return chosen
            call, made, data = chosen
            self._deliver_inputs(call)
            return digest, self._deliver(ledger, digest, made, data)

    def _from_folders(self, files: Sequence[str]) -> str:
        """The least sensitivity of what is made with these files: they are copies of the project's."""
        root = RunFacts.read(self._run).root if self._run is not None and files else None
        paths = [Path(root) / path for path in files] if root is not None else []
        return self._workspace.load_settings().least_sensitivity(paths)

    def _choose(self, calls: Sequence[DoorCall]) -> tuple[DoorCall, MadeRequest, bytes] | DoorAnswer:
        """The first form of a call that gate 1 accepts, with its draft; the refusal if it accepts none."""
        settings = self._workspace.load_settings()
        now = datetime.now(UTC)
        refused: list[list[dict[str, Any]]] = []
        fixes: list[str] = []
        for call in calls:
            request, data = draft_of(call, now)
            # What `threegate validate` says: a form that could only fail is not the one that a person is asked for.
            report = read_request(data, path=request.file_name, settings=settings.request, now=now, stage="draft")
            given = given_inputs(dict(call.inputs))
            report = judged(
                report, self._workspace, settings, given, owner=self._run.run_id if self._run else os.geteuid()
            )
            place = code_place(call, data)
            if report.valid:
                where = call.options.backend.lower() if len(calls) > 1 else ""
                why = f"Monty refuses it: {why_not(refused[0])}" if refused else "Monty accepts the code"
                made = MadeRequest(
                    request_id=request.request_id,
                    file=request.file_name,
                    tool=call.tool,
                    placed=False,
                    where=where,
                    why=why if where else "",
                    code_line=place[0],
                    code_lines=place[1],
                )
                return call, made, data
            findings = [finding.to_json() for finding in report.findings]
            fixes += [fix for fix in fixes_of(findings) if fix not in fixes]
            form = {"where": call.options.backend.lower()} if len(calls) > 1 else {}
            refused.append([{**form, **row} for row in told_findings(findings, place, data)])
        told = [row for rows in refused for row in rows]
        return DoorAnswer(refused_value("gate 1 refuses this", told, fixes), refused=True)

    async def _ask_tool(
        self, name: str, arguments: Mapping[str, Any], tell: Tell, gave_up: Callable[[], bool]
    ) -> DoorAnswer:
        """The request for a call of a server's tool, like `_ask`."""
        offered = self._known_tools().get(name)
        if offered is None:
            raise InvalidInput("no such tool; list the tools again")
        if not is_chosen(self._choice, offered):
            raise InvalidInput(
                f"{offered.server}/{offered.tool.name} is not among the tools of this run ({', '.join(self._choice)}); "
                f"your user can start one with: threegate agent run {self._requester} --tools {offered.server}"
            )
        call = tool_call(offered.server, offered.tool.name, offered.manifest_sha256, arguments)
        try:
            check_arguments(offered.tool, call)
        except Refused as error:
            return DoorAnswer({"status": "refused", "reason": error.code, "why": str(error)}, refused=True)
        digest = sha256_hex(f"{name} {call.manifest_sha256} {call.arguments_json}".encode())
        with self._ledger.locked() as ledger:
            found = self._earlier(ledger, digest, False)
            if isinstance(found, DoorAnswer):
                return found
            made = found
            if made is None:
                settings = self._workspace.load_settings().request
                request, data = draft_call(call, requested_by=self._requester, now=datetime.now(UTC), settings=settings)
                named = MadeRequest(request_id=request.request_id, file=request.file_name, tool=name, placed=False)
                made = self._deliver(ledger, digest, named, data)
        try:
            return await self._wait(digest, made, self._seconds(None), tell)
        except anyio.get_cancelled_exc_class():
            if gave_up():
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._stop_running, made)
            raise

    def _stop_running(self, made: MadeRequest) -> None:
        """Stop a call that its server is working on. A request that is undecided, or waiting for its turn, stays."""
        verdict = self._requests.verdict(made)
        if verdict is not None and verdict.state == "running" and self._run is not None:
            with suppress(ThreeGateError, OSError):  # it ended meanwhile; the client is no longer listening
                self._take_back(self._run, made, "the agent's client cancelled its call")

    def _propose(self, asked: ProposeChanges) -> tuple[str, MadeRequest] | DoorAnswer:
        """The request for the current changes of the work copy, or the open one for these very changes."""
        if self._run is None:
            raise InvalidInput("there is no work copy outside a run; see: threegate agent run PROFILE")
        copy = copy_of(self._run, RunFacts.read(self._run))
        changes, commits = read_frozen(self._run, lambda: read_proposed(copy, asked.paths))
        if not changes.rows:
            left = "; ".join((*left_out_lines(changes), *commits.left_out()))
            raise InvalidInput(f"no changes that could be proposed{f': {left}' if left else ''}")
        digest = sha256_hex(f"propose_changes {changes.sha256} {sha256_hex(asked.purpose.encode())}".encode())
        with self._ledger.locked() as ledger:
            found = self._earlier(ledger, digest, asked.again)
            if isinstance(found, DoorAnswer):
                return found
            if found is not None:
                return digest, found
            settings = self._workspace.load_settings()
            keep_bases(copy, changes.rows)

            def named(name: str) -> None:
                own = name.removesuffix(".md")
                ledger.put(digest, MadeRequest(request_id=own, file=name, tool="propose_changes", placed=False))

            name = draft_changes(
                self._workspace,
                settings,
                self._run,
                copy.root,
                changes,
                profile=self._requester,
                purpose=asked.purpose,
                commits=commits,
                announce=named,
            )
            made = MadeRequest(request_id=name.removesuffix(".md"), file=name, tool="propose_changes")
            ledger.put(digest, made)
            return digest, made

    def _ask_host(self, asked: RequestHost) -> tuple[str, MadeRequest] | DoorAnswer:
        """The request for a host: the one that was made for it in this run, unless it came to nothing by itself."""
        if self._run is None:
            raise InvalidInput("host: only a run of an agent can be let to a host; see: threegate agent run PROFILE")
        try:
            host = read_host(asked.host)
        except HostError as error:
            raise InvalidInput(f"host: {error}") from None
        if asked.port != PORT:
            raise InvalidInput(f"port: only {PORT} can be opened, for HTTPS")
        facts = RunFacts.read(self._run)
        with self._requests.trail.locked() as held:
            known = held.index.run(self._run.run_id)
        if known is not None and host in known.closed_hosts:
            return DoorAnswer({"status": "refused", "why": f"{host} was taken back from this run; {STANDS}"}, True)
        if host in facts.hosts:
            return DoorAnswer({"status": "succeeded", "why": "this run was started with it: it is open"})
        digest = host_call(host)
        with self._ledger.locked() as ledger:
            made = ledger.last(digest)
            if made is not None and self._is_decided(made) is not False:
                return digest, made
            asks = [made for _, made in ledger.all() if made.kept]
            if sum(self._is_decided(made) is None for made in asks) >= limits.AGENT_HOST_ASKS:
                raise InvalidInput(
                    f"{limits.AGENT_HOST_ASKS} hosts are asked for and not decided; wait for one of them"
                )
            if len(asks) + len(facts.hosts) >= limits.ALLOWLIST_ENTRIES:
                raise InvalidInput(f"this run has asked for {len(asks)} hosts; it may ask for no more")
            settings = self._workspace.load_settings()
            folders = [Path(folder) / "x" for folder in (facts.root, *facts.reading)]
            request, data = draft_host(
                host,
                asked.why,
                requested_by=self._requester,
                sensitivity=max("internal", settings.least_sensitivity(folders), key=SENSITIVITIES.index),
                now=datetime.now(UTC),
                settings=settings.request,
            )
            named = MadeRequest(
                request_id=request.request_id, file=request.file_name, tool=REQUEST_HOST, placed=False, kept=True
            )
            return digest, self._deliver(ledger, digest, named, data)

    def _is_decided(self, made: MadeRequest) -> bool | None:
        """Whether a request for a host has an answer that stands; None while it is open. False: it was withdrawn, never
        appeared, or ended by itself.
        """
        if made.withdrawn or not self._requests.appeared(made):
            return False
        verdict = self._requests.verdict(made)
        if verdict is None or verdict.state not in ENDED:
            return None
        if is_no(verdict):
            return True
        rows = list_results(self._folders, made.request_id, shared=True)
        return rows[-1].status == "succeeded" if rows else None  # its result is still missing

    def _deliver_inputs(self, call: DoorCall) -> None:
        """Write the inputs, each under its digest, so that no later call's file can replace this one's."""
        with self._workspace.hold(self._folders.files) as files:
            for _, content in call.inputs:
                files.deliver_content(content)

    def _deliver(self, ledger: OpenLedger, digest: str, made: MadeRequest, data: bytes) -> MadeRequest:
        """Note in the ledger which draft the call makes, then write it into the inbox."""
        ledger.put(digest, made)
        with self._workspace.hold(self._folders.inbox) as inbox:
            inbox.deliver(made.file, data, 0o644)
        placed = replaced(made, placed=True)
        ledger.put(digest, placed)
        return placed

    async def _wait(self, digest: str, made: MadeRequest, seconds: float, tell: Tell) -> DoorAnswer:
        """The request's end or, after the timeout, what it is waiting for."""
        begun = told = time.monotonic()
        said = ""
        while True:
            if made.withdrawn:
                return DoorAnswer({"status": "withdrawn", "request_id": made.request_id})
            current, part = self._requests.current(made)
            verdict = self._requests.verdict(current)
            if verdict is not None and verdict.state in ENDED:
                ended = self._requests.ended(current, verdict)
                if ended is not None:
                    return replace(as_asked(ended, made, part), completes=(digest, made.request_id))
            now = time.monotonic()
            waits_for = f"{taken_prefix(part)}{self._requests.waits_for(verdict)}"
            if is_tool_name(made.tool) and verdict is not None and verdict.state == "running":
                waits_for += self._requests.progress(made)
            if now - begun >= seconds:
                value = {"status": "pending", "request_id": made.request_id, "waits_for": waits_for, "next": _AGAIN}
                return DoorAnswer({**value, **chosen_place(made)})
            if waits_for != said or now - told >= _TELL_SECONDS:
                said, told = waits_for, now
                await tell(round(now - begun, 3), seconds, f"{made.request_id}: {waits_for}")
            await anyio.sleep(min(max((now - begun) * _LATE, _FIRST_LOOK_SECONDS), _LOOK_SECONDS))

    def _cancel(self, digest: str, made: MadeRequest) -> DoorAnswer:
        """Remove a draft from the inbox; cancel a signed request through the trail, if this process may write it."""
        current, _ = self._requests.current(made)
        with self._workspace.hold(self._folders.inbox) as inbox, suppress(FileNotFoundError):
            inbox.unlink(current.file)
            with self._ledger.locked() as ledger:
                ledger.put(digest, replaced(made, withdrawn=True))
            return DoorAnswer({"status": "withdrawn", "request_id": made.request_id})
        if self._run is None:
            raise InvalidInput("request_id: it is already signed; only the operator can stop it now")
        outcome = self._take_back(self._run, current, "withdrawn by the agent")
        status = "withdrawn" if outcome == "cancelled" else outcome
        return DoorAnswer({"status": status, "request_id": made.request_id})

    def _take_back(self, run: AgentRun, made: MadeRequest, why: str) -> str:
        """Cancel a signed request through the trail; return the outcome. Raises ThreeGateError, OSError."""
        by = OperatorDecision(f"agent:{run.run_id}")
        context = open_context(self._workspace)
        return cancel_request(context, made.request_id, by=by, reason=why, wait_seconds=0.0).outcome
