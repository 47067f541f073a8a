"""Write a draft: hash the inputs and copy them to inbox/files/, render the text, check it, and put it into the inbox.

Invariant: a draft is written only if it passes gate 1 under this workspace's settings and its limits do not exceed
every machine of the workspace; otherwise nothing is written. Each copy is named by its sha256, so no later draft can
replace what an earlier one needs.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import unicodedata
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, count
from pathlib import Path
from typing import Final, cast

from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput
from threegate.core.settings import SENSITIVITIES
from threegate.core.workspace import STATES, RequesterFolders, Workspace
from threegate.request.backend import BACKENDS
from threegate.request.fields import check_file_name
from threegate.request.hosts import HostError, read_target
from threegate.request.model import InputFile, NetworkTarget, OutputFile, Request, Risk, Sensitivity
from threegate.request.reader import read_request
from threegate.request.render_draft import blank_draft, file_name, render_request, slug_of
from threegate.request.report import Finding, Report
from threegate.review.fitness import given_inputs, judged
from threegate.review.input_copies import digest_now

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_KEPT: Final = limits.FILE_NAME_CHARS // 2


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """What a draft is made from. Paths are the user's files; the other fields go into the request."""

    backend: str
    purpose: str
    command: str | None = None
    code: str | None = None
    vars_json: str | None = None
    inputs: tuple[Path, ...] = ()
    outputs: tuple[str, ...] = ()
    slug: str = ""
    requested_by: str = "core"
    risk: Risk = "low"
    sensitivity: Sensitivity = "internal"
    justification: str = ""
    network_allow: tuple[str, ...] = ()
    network_rationale: str = ""
    cpu: str = "1"
    memory_mb: int = 256
    time_sec: int = 60
    language: str = "python"


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft that was written: its path, its report, and the copied input files."""

    path: Path
    report: Report
    copied: tuple[str, ...]


def write_draft(workspace: Workspace, options: DraftOptions, *, now: datetime) -> Drafted:
    """Write a draft into the inbox. Raises InvalidInput with every finding if it would not pass gate 1 or could
    never run here, OSError.
    """
    moment = now.astimezone(UTC).replace(microsecond=0)
    slug = options.slug or slug_of(options.purpose)
    # The slug becomes part of a file name and of the id.
    if slug != slug_of(slug):
        raise InvalidInput(f"--slug must be 1 to 64 of a-z, 0-9 and single dashes, such as {slug_of(slug)}")
    name = _free_name(workspace, moment, slug)
    read = _read_inputs(options.inputs)
    settings = workspace.load_settings()
    options = at_least(options, settings.least_sensitivity(options.inputs))
    request = draft_request(options, [item for item, _ in read], name, moment, slug)
    data = render_request(request)
    report = read_request(data, path=name, settings=settings.request, now=now, stage="draft")
    given = given_inputs({item.name: content for item, content in read})
    report = judged(report, workspace, settings, given, owner=os.geteuid())
    lines = [_line(item) for item in report.findings if item.severity == "error"]
    if lines:
        raise InvalidInput(f"the draft was not written because it would be refused: {'; '.join(lines)}")
    copied = tuple(item.name for item, content in read if keep_input(workspace, workspace, item, content))
    path = workspace.inbox / name
    with workspace.hold(workspace.inbox) as inbox:
        inbox.deliver(name, data, 0o644)
    return Drafted(path, replace(report, path=str(path)), copied)


def _line(finding: Finding) -> str:
    advice = "; ask for less with --cpu or --memory" if finding.rule == "TG905" else ""
    return f"{finding.rule}: {finding.message}{advice}"


def at_least(options: DraftOptions, least: str) -> DraftOptions:
    """The same options, with the sensitivity that they declare raised to `least`."""
    return replace(options, sensitivity=cast(Sensitivity, max(options.sensitivity, least, key=SENSITIVITIES.index)))


def draft_request(
    options: DraftOptions, inputs: Sequence[InputFile], name: str, moment: datetime, slug: str
) -> Request:
    """The request for these options, with a new id. Raises InvalidInput."""
    targets = tuple(_target(host) for host in options.network_allow)
    backend = BACKENDS[options.backend]
    action = backend.drafted(options.command or "", options.code or "", options.vars_json)
    return replace(
        blank_draft(name, moment, options.backend, action),
        request_id=f"{slug[:48].strip('-') or 'r'}-{moment:%Y%m%d%H%M%S}-{secrets.token_hex(4)}",
        requested_by=options.requested_by,
        purpose=options.purpose,
        language=backend.language or options.language,
        network="allowlist" if targets else "none",
        cpu_limit=_cores(options.cpu),
        memory_limit_mb=options.memory_mb,
        time_limit_sec=options.time_sec,
        inputs=tuple(inputs),
        outputs=tuple(OutputFile(path if path.startswith("/") else f"/out/{path}") for path in options.outputs),
        network_allowlist=targets,
        risk_level=options.risk,
        justification=options.justification or options.purpose,
        data_sensitivity=options.sensitivity,
        network_rationale=options.network_rationale or ("needed for the purpose above" if targets else "none"),
    )


def _cores(text: str) -> Decimal:
    with suppress(ArithmeticError):
        cores = Decimal(text)
        if cores.is_finite() and abs(cores.adjusted()) < 20:  # digits, as it is written without an exponent
            return cores
    raise InvalidInput('--cpu must be a decimal number of cores, such as "0.5"')


def _target(host: str) -> NetworkTarget:
    try:
        return read_target(host)
    except HostError as error:
        raise InvalidInput(f"--network-allow {host}: {error}") from None


def _free_name(workspace: Workspace, moment: datetime, slug: str) -> str:
    """A name that no file of the workspace has: several drafts of one second have several names."""
    folders = (workspace.inbox, *map(workspace.state_folder, STATES))
    slugs = chain((slug,), (f"{slug[: limits.SLUG_CHARS - 6].strip('-')}-{n}" for n in count(2)))
    names = (file_name(moment, each) for each in slugs)
    return next(name for name in names if not any(os.path.lexists(folder / name) for folder in folders))


def _read_inputs(paths: Sequence[Path]) -> list[tuple[InputFile, bytes]]:
    """The user's files as inputs. Raises InvalidInput with what to type instead, OSError."""
    seen: dict[str, Path] = {}
    names = {path.name for path in paths}
    read = []
    for path in paths:
        if (wrong := check_file_name(path.name)) is not None:
            raise InvalidInput(f"{path}: the name of an input {wrong}; {_copy_it(path, names)}")
        if (other := seen.get(path.name)) is not None:
            raise InvalidInput(f"{path}: {other} would be /in/{path.name} as well; {_copy_it(path, names)}")
        if path.is_symlink():
            raise InvalidInput(f"{path}: is a link, which is not followed; name the file that it leads to")
        seen[path.name] = path
        content = durable.read_named(path, max_bytes=limits.INPUT_FILE_BYTES)
        read.append((InputFile(path.name, sha256_hex(content)), content))
    return read


def _copy_it(path: Path, names: Collection[str]) -> str:
    """The line that gives a file a name that an input can have, that no other file has here, and no other input."""
    plain = unicodedata.normalize("NFKD", path.name).encode("ascii", "ignore").decode()
    name = _NOT_IN_NAMES.sub("-", plain).lstrip("-")[-_NAME_KEPT:]
    if not name or name.startswith("."):
        name = f"input{name}"
    tried = chain((name,), (f"{n}-{name}" for n in count(2)))
    free = next(each for each in tried if each not in names and not os.path.lexists(each))
    return f"give it another name: {shlex.join(['cp', '--', str(path), free])}"


def keep_input(workspace: Workspace, requester_folders: RequesterFolders, item: InputFile, content: bytes) -> bool:
    """Copy an input to the requester's inbox/files/, named by its sha256; return whether that was needed.

    Raises InvalidInput if something else has that name, OSError.
    """
    with workspace.hold(requester_folders.files) as files:
        new = files.deliver_content(content)
    place = requester_folders.files / item.sha256
    if not new and digest_now(workspace, place) != item.sha256:
        raise InvalidInput(f"{place}: does not have the sha256 that is its name; remove it")
    return new
