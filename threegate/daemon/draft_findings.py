"""What only the daemon can say about a draft: whether its id is free and its inputs match their declarations.

Invariant: these findings depend on the workspace, so they are in the verdict and are checked again by
`approve`; gate 1 itself never reads another file.
"""

from __future__ import annotations

from collections.abc import Mapping

from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.request.backend import BACKENDS, why_off
from threegate.request.model import Request
from threegate.request.report import Finding, Fix
from threegate.review.reviewed_draft import missing_program_text
from threegate.trail.index import TrailIndex
from threegate.trail.payloads.payload import Owner

DRAFT_RULES = {
    "TG901": "Take a new request_id (threegate draft makes one): an id and a file name can be used only once.",
    "TG902": "Put the file into inbox/files/ under exactly this name, as a regular file.",
    "TG903": "Declare the file's actual sha256 (sha256sum), or put the right file there.",
    "TG904": (
        "Name a program that the sandbox image has (python3, git, curl, the usual Debian tools), or ask the operator."
    ),
    "TG905": (
        "Ask for fewer cores or less memory (cpu_limit, memory_limit_mb), or ask the operator for a larger budget."
    ),
    "TG906": "List the tools again: only those of servers that the operator added can be called.",
    "TG907": "List the tools again and write the call again: manifest_sha256 must be that of the currently "
    "signed server.",
    "TG908": "Give the tool arguments that match its input schema.",
    "TG909": "Ask for the same with another backend, or ask the operator to turn the plugin on.",
}
"""Rules that depend on the workspace, with the fix."""


def workspace_findings(
    request: Request,
    index: TrailIndex,
    digests: Mapping[str, str | None],
    *,
    owner: Owner | None,
    has_program: bool | None = True,
    never_fits: str | None = None,
) -> list[Finding]:
    """Findings about a draft that is itself well-formed.

    `digests` has the digest of each declared input by its name, None for an unusable one. `owner` is the
    draft's owner: an id belongs to the owner of the first file that named it. `has_program` says whether the
    sandbox image has the argv's program; None, if that is not known, causes no finding. `never_fits` says
    which of its limits no machine of the workspace can satisfy.
    """
    findings = []
    if _is_taken(request.request_id, index, owner):
        findings.append(used_id_finding(request))
    elif index.name_used(request.file_name):
        findings.append(_finding("TG901", f"the file name {request.file_name} was used before"))
    findings += input_findings(request, digests)
    if has_program is False:
        findings.append(_finding("TG904", missing_program_text(request.action.program)))
    if never_fits is not None:
        findings.append(never_fits_finding(request, never_fits))
    return findings


def off_findings(settings: Settings, request: Request) -> list[Finding]:
    """The finding about a backend whose plugin is off."""
    why = why_off(request.backend, settings)
    return [] if why is None else [_finding("TG909", why, _line_of(request, "backend"))]


def action_findings(workspace: Workspace, index: TrailIndex, request: Request) -> list[Finding]:
    """The finding about what the request is for and is not here; `index` is of the locked trail."""
    problem = BACKENDS[request.backend].problem(workspace, index, request.action)
    return [_finding(*problem)] if problem else []


def input_findings(request: Request, digests: Mapping[str, str | None]) -> list[Finding]:
    """Findings about the files that a draft declares; `digests` as in `workspace_findings`."""
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


def _finding(rule: str, message: str, line: int = 1) -> Finding:
    return Finding(rule, "error", line, 1, message, DRAFT_RULES[rule])


def _line_of(request: Request, key: str) -> int:
    """The line of a key of the front matter, from 1; 1 if it is written in an unusual form."""
    lines = request.data.decode("utf-8").replace("\r\n", "\n").split("\n")
    return next((at for at, line in enumerate(lines, start=1) if line.startswith(f"{key}:")), 1)


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
