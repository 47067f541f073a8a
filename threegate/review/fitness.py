"""Whether a request can run here: what would keep it from running for ever, and what it would only wait for.

`validate`, the daemon's verdict, the card, `draft`, the door and `submit_request` all take their answer here.

Invariant: `fitness` depends on the request, the bytes of its inputs and one value of what is known of the machine. What
is not known refuses nothing. These findings depend on the workspace; gate 1 itself never reads another file.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from threegate.approval.facts import requester_of
from threegate.approval.operators import Operators
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Refused
from threegate.core.secretscan.scan import mask_secrets
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.request.backend import BACKENDS, why_off
from threegate.request.command.python_line import python_line
from threegate.request.command.words import split_words
from threegate.request.in_folder import InFolder, OpenKnown
from threegate.request.job import effective_risk
from threegate.request.model import InputFile, Request, Risk, exposure_of
from threegate.request.named_inputs import missing_inputs
from threegate.request.python_check import check_python
from threegate.request.report import Finding, Fix, Report, Severity
from threegate.request.sandbox_contents import Contents, near
from threegate.review.input_copies import digest_now
from threegate.review.signers import few_signers, operators_here
from threegate.runners.backend import DoctorLine, RunNeed, running
from threegate.runners.machine import machine_of, never_fits, platforms, workers_answer
from threegate.trail.index import TrailIndex
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import Trail

DRAFT_RULES = {
    "TG901": "Take a new request_id (threegate draft makes one): an id and a file name can be used only once.",
    "TG902": "Put the file into inbox/files/ under exactly this name, or its sha256, as a regular file.",
    "TG903": "Declare the file's actual sha256 (sha256sum), or put the right file there.",
    "TG904": (
        "Name a program that the sandbox image has (python3, git, curl, the usual Debian tools), or ask the operator."
    ),
    "TG905": (
        "Ask for fewer cores or less memory (cpu_limit, memory_limit_mb), or ask the operator for a larger budget."
    ),
    "TG906": "List the tools again: only those that the operator added, and chose for this run, can be called.",
    "TG907": "List the tools again and write the call again: manifest_sha256 must be that of the currently "
    "signed server.",
    "TG908": "Give the tool arguments that match its input schema.",
    "TG909": "Ask for the same with another backend, or ask the operator to turn the plugin on.",
    "TG910": "Nothing is wrong with the request: it waits until the operator has done this.",
    "TG911": "Fix the script: it would not even be loaded.",
    "TG912": "Do without the module, or send it as an input: nothing can be installed in a run.",
    "TG913": "Declare the file in inputs and Input Files (unpack: true for what is in a .tar), or name one that is.",
    "TG914": "Name a registered project (threegate project list), or ask the operator to register it: "
    "threegate project add NAME DIR.",
    "TG915": "Leave derived_from out: only threegate project take ID PATH writes it.",
    "TG916": "Ask with the door's tool request_host, from a run that is alive; what a person refused or took back "
    "stays closed for the run.",
}
"""Rules that depend on the workspace, with the fix."""
WAITS: Final = "TG910"
"""The rule of what a request would only wait for."""
_CODES: Final = {"TG904": "program_missing", "TG905": "no_backend", "TG913": "input_undeclared"}
"""Reason codes of the refusals at `approve`; `script_unfit` for the others."""
_COMMAND: Final = re.compile(r"##[ \t]+Command[ \t]*#*[ \t]*")


class SandboxFacts(NamedTuple):
    """What all requests with one need have in common."""

    contents: Contents | None = None
    """What their runs find."""
    waits: DoctorLine | None = None
    """What they would wait for now."""
    operators: Operators | None = None
    """Who may sign; None if this account cannot read it."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What of the machine decides whether a request can run on it."""

    contents: Contents | None = None
    """What a run finds; None: its runs start no program."""
    never: str | None = None
    """Which of the request's limits no machine of the workspace can satisfy, as one line."""
    off: str | None = None
    """Why the plugin of the backend is off, as one line."""
    waits: tuple[DoctorLine, ...] = ()
    """What it cannot be signed or started without now, and what to type."""


def machine_facts(
    workspace: Workspace,
    settings: Settings,
    request: Request,
    sandbox: SandboxFacts | None = None,
    *,
    owner: Owner | None,
    risk: Risk | None = None,
) -> MachineFacts:
    """What is known now, for one request of `owner`. `sandbox` is what is known of its backend's runs, if it is known
    already; `risk` is the effective one, otherwise the lowest that it can be.
    """
    off = why_off(request.backend, settings)
    if off is not None:
        return MachineFacts(off=off)
    known = sandbox or sandbox_facts(workspace, settings, RunNeed.of(request))
    waits = [known.waits, running(request.backend).lacks(workspace, settings, request.action)]
    if known.operators is not None:
        requester = requester_of(request, settings.requesters, owner)
        least = risk or effective_risk(request, exposure_of(request))
        waits.append(few_signers(known.operators, settings, requester, least, datetime.now(UTC)))
    fits = never_fits(workspace, settings, request)
    return MachineFacts(known.contents, fits, waits=tuple(line for line in waits if line is not None))


def sandbox_facts(workspace: Workspace, settings: Settings, need: RunNeed) -> SandboxFacts:
    """What a run finds, and what it would wait for now, on the platform that a Job made now would name."""
    if why_off(need.backend, settings) is not None:
        return SandboxFacts()
    kind, platform = running(need.backend), platforms(settings, need.backend).now[0]
    if not os.access(workspace.tool_exec, os.R_OK):  # an agent's own account, which may not ask the engine either
        line = None
    elif (rows := machine_of(settings).workers(workspace, settings)) is not None:
        line = workers_answer(rows, "threegate status", need)
    else:
        line = kind.blocked(settings, need, platform)
    waits = None if line is None or line.state == "ok" else line
    return SandboxFacts(kind.contents(settings.runners, platform), waits, operators_here(workspace))


def fitness(request: Request, facts: MachineFacts, open_known: OpenKnown) -> tuple[Finding, ...]:
    """What would keep a request from running, and as warnings what it would wait for or what may go wrong."""
    if facts.off is not None:
        return (_finding("TG909", facts.off, _line_of(request, "backend")),)
    found = [] if facts.never is None else [never_fits_finding(request, facts.never)]
    if facts.contents is not None and request.action.words:
        found += _command_findings(request, facts, facts.contents, open_known)
    for lacks in facts.waits:
        fix = f": {lacks.fix}" if lacks.fix else ""
        found.append(_finding(WAITS, f"would wait: {lacks.seen}{fix}", severity="warning"))
    return tuple(sorted(found, key=lambda finding: (finding.line, finding.column, finding.rule)))


def _command_findings(
    request: Request, facts: MachineFacts, contents: Contents, open_known: OpenKnown
) -> Iterator[Finding]:
    argv = request.action.words
    at = _Command.of(request)
    known = contents.has_program(argv[0])
    if known is False:
        yield at.found("TG904", 0, missing_program_text(argv[0], contents))
    elif known is None and not facts.waits:
        message = f"whether {contents.where} has this program is not known: a missing one is noticed only in the run"
        yield at.found("TG904", 0, message, "warning")
    inside = InFolder(request.inputs, open_known)
    yield from undeclared_findings(request, inside)
    python = python_line(argv)
    if python is None or known is False:
        return
    for problem in check_python(python, request.workdir, inside, contents):
        rule = "TG911" if problem.kind == "syntax" else "TG912"
        yield at.found(rule, python.at, f"{problem.where}: {problem.message}", problem.severity)


def undeclared_findings(request: Request, inside: InFolder | None = None) -> Iterator[Finding]:
    """The files that the command names and a run would not find. Without `inside`, the inputs are known by name only:
    that needs no workspace.
    """
    argv = request.action.words
    if not argv:
        return
    at = _Command.of(request)
    inside = inside or InFolder(request.inputs, lambda item: None)
    for missing in missing_inputs(argv, request.workdir, python_line(argv), inside):
        yield at.found("TG913", missing.at, f"{_shown(missing.path)} will not be there: {missing.why}")


@dataclass(frozen=True, slots=True)
class _Command:
    """Where the words of the command are in the request's file."""

    line: int
    columns: tuple[int, ...]

    @classmethod
    def of(cls, request: Request) -> _Command:
        lines = _lines(request)
        heading = next((at for at, line in enumerate(lines) if _COMMAND.fullmatch(line)), len(lines))
        line = next((at for at in range(heading + 1, len(lines)) if lines[at].strip()), None)
        if line is None:
            return cls(1, ())
        words, _ = split_words(lines[line])
        values = tuple(word.value for word in words)
        return cls(line + 1, tuple(word.column for word in words) if values == request.action.words else ())

    def found(self, rule: str, index: int, message: str, severity: Severity = "error") -> Finding:
        """A finding at a word of the command."""
        column = self.columns[index] if index < len(self.columns) else 1
        return Finding(rule, severity, self.line, column, message, DRAFT_RULES[rule])


def judged(
    report: Report, workspace: Workspace, settings: Settings, open_known: OpenKnown, *, owner: Owner | None
) -> Report:
    """A report with what fitness finds for a draft of `owner`; as it is for a file that is not a request."""
    if report.request is None:
        return report
    facts = machine_facts(workspace, settings, report.request, owner=owner)
    return replace(report, findings=(*report.findings, *fitness(report.request, facts, open_known)))


def refuse_unfit(found: tuple[Finding, ...]) -> None:
    """A request that could only fail is not signed. Raises Refused."""
    for finding in found:
        if finding.severity == "error":
            raise Refused(_CODES.get(finding.rule, "script_unfit"), finding.message)


def waits_for(found: tuple[Finding, ...]) -> list[str]:
    """What a request would wait for, a line each."""
    return [finding.message for finding in found if finding.rule == WAITS]


def missing_program_text(program: str, contents: Contents) -> str:
    """One line about a program that the sandbox is known to lack."""
    like = near(program.rpartition("/")[2], contents.programs or ())
    hint = f" (did you mean {' or '.join(like)}?)" if like else ""
    shown = f"{contents.where} has no program {_shown(program)!r}{hint}"
    return f"{shown}: the run could only fail; name another, or build an image that has it"


def _shown(text: str) -> str:
    return mask_secrets(text)[:60]


def draft_findings(workspace: Workspace, request: Request, path: Path, trail: Trail) -> list[Finding]:
    """All of it for a draft in a folder of the workspace, hashed here and now: what the daemon says of it.

    What only the trail knows is left out where this account may not read it.
    """
    folder = path.parent
    places, digests = inputs_now(workspace, request, folder)
    owner = None if folder == workspace.drafts else workspace.run_of(folder) or path.lstat().st_uid
    facts = machine_facts(workspace, workspace.load_settings(), request, owner=owner)
    found = [
        *input_findings(request, digests),
        *fitness(request, facts, placed_inputs(workspace, places, digests)),
    ]
    if facts.off is not None or not os.access(workspace.trail_file, os.R_OK | os.W_OK):
        return found
    with trail.locked() as held:
        return [*found, *trail_findings(workspace, held.index, request, owner=owner)]


# ---- inputs


def inputs_now(workspace: Workspace, request: Request, folder: Path) -> tuple[dict[str, Path], dict[str, str | None]]:
    """Where the inputs of a draft in a folder of the workspace are, and their digests, hashed now."""
    places = {item.name: workspace.input_place(folder, item.name, item.sha256) for item in request.inputs}
    return places, {name: digest_now(workspace, place) for name, place in places.items()}


def placed_inputs(workspace: Workspace, places: Mapping[str, Path], digests: Mapping[str, str | None]) -> OpenKnown:
    """Opens the inputs of a draft where they are, if their digests are the declared ones."""

    def open_known(item: InputFile) -> BinaryIO | None:
        if digests.get(item.name) != item.sha256:
            return None
        place = places[item.name]
        with workspace.hold(place.parent) as folder:
            descriptor, _ = folder.open_regular(place.name)
        return os.fdopen(descriptor, "rb")

    return open_known


def given_inputs(contents: Mapping[str, bytes]) -> OpenKnown:
    """Opens inputs that were given as bytes, by name."""

    def open_known(item: InputFile) -> BinaryIO | None:
        data = contents.get(item.name)
        return None if data is None or sha256_hex(data) != item.sha256 else io.BytesIO(data)

    return open_known


def input_findings(request: Request, digests: Mapping[str, str | None]) -> list[Finding]:
    """Findings about the files that a draft declares. `digests` has each one's by name, None for an unusable one."""
    findings = []
    for item in request.inputs:
        found = digests[item.name]
        if found is None:
            findings.append(
                _finding("TG902", f"inbox/files/{item.name} is missing, not a regular file, or keeps changing")
            )
        elif found != item.sha256:
            findings.append(_finding("TG903", f"inbox/files/{item.name} has a sha256 other than the declared one"))
    return findings


# ---- what only the trail knows


def trail_findings(workspace: Workspace, index: TrailIndex, request: Request, *, owner: Owner | None) -> list[Finding]:
    """Findings about what was before: used ids and names, and what the request is for. `index` is of the locked trail.

    `owner` is the draft's owner: an id belongs to the owner of the first file that named it.
    """
    findings = []
    if _is_taken(request.request_id, index, owner):
        findings.append(used_id_finding(request))
    elif index.name_used(request.file_name):
        findings.append(_finding("TG901", f"the file name {request.file_name} was used before"))
    problem = BACKENDS[request.backend].problem(workspace, index, request, owner)
    return [*findings, _finding(*problem)] if problem else findings


def never_fits_finding(request: Request, why: str) -> Finding:
    """The finding about a limit that no machine of the workspace can satisfy, at the limit's line; `why` is
    from `never_fits`.
    """
    key = "cpu_limit" if " cores" in why.partition(",")[0] else "memory_limit_mb"
    return _finding("TG905", why, _line_of(request, key))


def _is_taken(request_id: str, index: TrailIndex, owner: Owner | None) -> bool:
    """Whether the id was used, or first named by another owner's file."""
    if index.id_used(request_id):
        return True
    history = index.history(request_id)
    first = history.owner if history is not None else None
    return owner is not None and first is not None and first != owner


def _finding(rule: str, message: str, line: int = 1, severity: Severity = "error") -> Finding:
    return Finding(rule, severity, line, 1, message, DRAFT_RULES[rule])


def _lines(request: Request) -> list[str]:
    return request.data.decode("utf-8").replace("\r\n", "\n").split("\n")


def _line_of(request: Request, key: str) -> int:
    """The line of a key of the front matter, from 1; 1 if it is written in an unusual form."""
    return next((at for at, line in enumerate(_lines(request), start=1) if line.startswith(f"{key}:")), 1)


def workspace_fixes(request: Request, index: TrailIndex, *, owner: Owner | None) -> tuple[Fix, ...]:
    """Automatic fixes for such findings: a new id for one that is taken.

    A file's digest is never suggested: anyone who may read the file can compute it, and no one else should learn it.
    """
    if not _is_taken(request.request_id, index, owner) or index.history(_fresh_id(request)) is not None:
        return ()
    return (fresh_id_fix(request),)


def used_id_finding(request: Request) -> Finding:
    """The finding about a used id."""
    return _finding("TG901", f"request_id {request.request_id} was used before")


def fresh_id_fix(request: Request) -> Fix:
    """The line that gives the request an id derived from its bytes."""
    number = _line_of(request, "request_id")
    return Fix("TG901", "replace", number, f"request_id: {_fresh_id(request)}")


def _fresh_id(request: Request) -> str:
    return f"{request.request_id[:100]}-{request.sha256[:8]}"
