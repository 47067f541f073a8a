"""``threegate validate``: gate 1 on files, folders or standard input; and the checks of other documents.

A request needs no workspace: only the named files and the settings are read. For a draft in a workspace's inbox or
tool-exec/drafts, the declared input files are also hashed and the tool that the draft calls is looked up, as the
daemon does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from threegate.aana import EvidenceMode
from threegate.cli import invocation, output
from threegate.cli.invocation import argument
from threegate.cli.nouns import given_by_plugin
from threegate.core import durable, limits
from threegate.core.errors import EXIT_FAILED, EXIT_REFUSED, InvalidInput, NoWorkspace
from threegate.core.file_names import is_request_name
from threegate.core.settings import RequestSettings
from threegate.core.workspace import Workspace
from threegate.request.fixes import propose_fixes
from threegate.request.model import Stage
from threegate.request.reader import read_request, refuse_unread, stage_of
from threegate.request.report import Report

if TYPE_CHECKING:
    from threegate.trail.trail import Trail

_KINDS = ("request", "result", "aana", "proposal")

PARALLEL_FROM = 400
"""For fewer files than this, starting a second process costs more than it saves."""
_CHUNK = 100


def validate(
    paths: Annotated[
        list[str] | None, argument("FILE|ID|DIR|-", "Requests and folders of them, results, or other documents.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="KIND",
            help="request, result, aana (an event) or proposal; default: by the file's name.",
        ),
    ] = "",
    stage: Annotated[str, typer.Option(help="draft or approved; default: by the file's folder.")] = "",
    form: Annotated[
        str, typer.Option("--format", help="text or json; for requests also sarif or github, for rules markdown.")
    ] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 2 on warnings too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the findings, without help texts.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Read one event or proposal per line.")] = False,
    now: Annotated[
        str, typer.Option(metavar="ISO", help="aana: the time at which the age of evidence is measured.")
    ] = "",
    evidence: Annotated[
        EvidenceMode, typer.Option(help="aana: in production, evidence that is only a string is refused.")
    ] = "quickstart",
    log: Annotated[
        str, typer.Option(metavar="FILE", help="aana: append audit-safe events here; default: the workspace's log.")
    ] = "",
    rules: Annotated[bool, typer.Option("--rules", help="List the rules of gate 1 instead.")] = False,
    explain: Annotated[
        str, typer.Option("--explain", metavar="CODE", help="Explain a rule or any other code instead.")
    ] = "",
    json_: invocation.JsonFlag = False,
) -> None:
    """Check requests and other documents, and explain codes.

    A file TS-*.md is a result and AP-*.json a proposal. Exit 0 if all are valid, 2 if one is not; for an event, 0 only
    if the tool call should run now.

    Examples: threegate validate inbox/
              threegate validate --stage draft --format json - <request.md
              threegate validate --as aana event.json
              threegate validate --explain TG101
    """
    form = "json" if invocation.wants_json(json_) else form
    if rules or explain:
        from threegate.cli.explained_codes import (  # late: a check needs no examples and no other codes
            explain_code,
            list_rules,
        )

        if rules:
            list_rules(form)
        else:
            explain_code(explain, form)
        return
    if not paths:
        raise typer.BadParameter("name what to check: files, folders of requests, or - for standard input")
    kind = kind or _kind_of(paths)
    if kind not in _KINDS:
        raise typer.BadParameter(f"--as must be one of {', '.join(_KINDS)}")
    forms = output.FORMATS if kind == "request" else ("text", "json")
    if form not in ("", *forms):
        raise typer.BadParameter(f"--format must be one of {', '.join(forms)}")
    if kind == "request":
        _check_requests(paths, stage, form or "text", strict=strict, quiet=quiet)
        return
    as_json = form == "json" or (jsonl and not form)
    if kind == "aana":
        from threegate.cli.aana_events import check_events  # late: gate 3a, which a request does not need here

        good = check_events(paths, jsonl=jsonl, as_json=as_json, now=now, evidence=evidence, log=log)
    elif kind == "result":
        good = _check_results(paths, as_json=as_json)
    else:
        judge = given_by_plugin("validate --as proposal")
        good = judge(paths, jsonl=jsonl, as_json=as_json, explain=not quiet)
    if not good:
        raise typer.Exit(EXIT_REFUSED)


def _kind_of(paths: Sequence[str]) -> str:
    """What the files' names say they are. Raises BadParameter if they say nothing, or different things."""
    names = [Path(path).name for path in paths]
    if all(name.startswith("TS-") and name.endswith(".md") for name in names):
        return "result"
    if all(name.startswith("AP-") and name.endswith(".json") for name in names):
        return "proposal"
    # A document that another gate judges is never read as a request, which would only be refused.
    if any(name.endswith((".json", ".jsonl")) for name in names):
        raise typer.BadParameter("say what the file is: --as aana for an event, --as proposal for a proposal")
    return "request"


def _check_results(paths: Sequence[str], *, as_json: bool) -> bool:
    from threegate.launch.results.validate import validate_result  # late: it loads the model of results

    found = {path: validate_result(durable.read_named(Path(path), max_bytes=limits.RESULT_BYTES)) for path in paths}
    if as_json:
        invocation.emit_json(
            {
                "results": [
                    {"path": path, "valid": not problems, "problems": [item.to_json() for item in problems]}
                    for path, problems in found.items()
                ]
            }
        )
    else:
        for name, problems in found.items():
            for item in problems:
                invocation.say(f"{name}:{item.line}: {item.message}")
            if not problems:
                invocation.say(f"{name}: valid")
    return not any(found.values())


def _check_requests(paths: Sequence[str], stage: str, form: str, *, strict: bool, quiet: bool) -> None:
    if stage not in ("", "draft", "approved"):
        raise typer.BadParameter("--stage must be draft or approved")
    settings = request_settings()
    unread: list[str] = []
    files = list(_files([_found(path) for path in paths], unread))
    if not files and not unread:
        invocation.warn(f"{', '.join(paths)}: no TR-*.md here; nothing was checked")
    now = datetime.now(UTC)
    check = partial(check_file, settings=settings, now=now, stage=stage, fixes=form == "json")
    reports = []
    for item in _checked(check, files):
        if isinstance(item, Report):
            reports.append(item)
        else:
            unread.append(item)
    shown = [report for report in reports if report.findings] if quiet and form == "text" else reports
    if form in ("text", "github"):
        invocation.put(output.report_lines(shown, form, show_help=not quiet))
    else:
        invocation.emit_data(output.render(shown, form))
    for line in (*unread, *(_waiting(reports) if form == "text" and not quiet else ())):
        invocation.warn(line)
    wrong = any(not report.valid or (strict and report.findings) for report in reports)
    if wrong and form != "sarif":
        raise typer.Exit(EXIT_REFUSED)
    if unread:
        raise typer.Exit(EXIT_FAILED)


def request_settings() -> RequestSettings:
    """The settings of the current workspace, or the defaults outside a workspace. Raises InvalidInput."""
    here = Path.cwd()
    named = invocation.ROOT.workspace or os.environ.get("THREEGATE_WORKSPACE")
    if named or any((folder / "threegate.toml").is_file() for folder in (here, *here.parents)):
        return invocation.workspace_here().load_settings().request
    return RequestSettings()


def check_file(path: str, *, settings: RequestSettings, now: datetime, stage: str, fixes: bool = False) -> Report | str:
    """Read one file and check it. If it cannot be read, return a line that says so."""
    if path == "-":
        data = sys.stdin.buffer.read(limits.REQUEST_BYTES + 1)
        decided = _stage(stage, path)
        report = _read(data, path, settings, now, decided, fixes)
        return _elsewhere(report) if decided == "draft" else report
    decided = _stage(stage, path)
    try:
        data = durable.read_regular(_place(Path(path)), max_bytes=limits.REQUEST_BYTES)
    except (FileNotFoundError, PermissionError) as error:
        return f"{path}: cannot be read ({error.strerror})"
    except OSError as error:
        reason = error.strerror or str(error).removeprefix(f"{Path(path).name}: ")
        return refuse_unread(path, reason, decided)
    report = _read(data, path, settings, now, decided, fixes)
    return _in_workspace(report, Path(path).absolute()) if decided == "draft" else report


def _waiting(reports: Sequence[Report]) -> Iterator[str]:
    """What valid drafts here would wait for, whatever is in them: a line for each workspace without a daemon."""
    drafts = [Path(item.path).absolute() for item in reports if item.valid and item.stage == "draft"]
    for root in dict.fromkeys(here.root for here in map(_workspace_of, drafts) if here is not None):
        from threegate.review.readiness import would_wait  # late: only a draft in a workspace needs it

        if line := would_wait(Workspace(root)):
            yield line


def _workspace_of(path: Path) -> Workspace | None:
    """The workspace that a draft is in; None if it is elsewhere."""
    roots = [root for root in path.parents[1:5] if (root / "threegate.toml").is_file()]
    return next((w for w in map(Workspace, roots) if path.parent in w.draft_folders()), None)


def _in_workspace(report: Report, path: Path) -> Report:
    """For a draft in a workspace: the daemon's findings about whether it can run there."""
    if report.request is None:
        return report
    workspace = _workspace_of(path)
    if workspace is None:
        return _elsewhere(report)
    if not os.path.lexists(path):
        return report
    from threegate.review.fitness import draft_findings  # late: only a draft in a workspace needs it

    found = draft_findings(workspace, report.request, path, _trail(workspace.root))
    return replace(report, findings=(*report.findings, *found))


def _place(path: Path) -> Path:
    """Where the bytes of a draft are: nearly always at its path (`review/draft_sources.py`)."""
    if os.path.lexists(path) or (workspace := _workspace_of(path.absolute())) is None:
        return path
    from threegate.review.draft_sources import place_of  # late: as above

    return place_of(workspace, path.absolute())


def _elsewhere(report: Report) -> Report:
    """For a draft that is in no workspace: the findings that its own text is enough for."""
    if report.request is None or not report.request.action.words:
        return report
    from threegate.review.fitness import undeclared_findings  # late, as above

    return replace(report, findings=(*report.findings, *undeclared_findings(report.request)))


@lru_cache(maxsize=1)
def _trail(root: Path) -> Trail:
    """The trail of a workspace, read once for all drafts of a folder; the process ends soon."""
    from threegate.trail.trail import Trail

    return Trail(Workspace(root))


def _read(data: bytes, path: str, settings: RequestSettings, now: datetime, stage: Stage, fixes: bool) -> Report:
    report = read_request(data, path=path, settings=settings, now=now, stage=stage)
    if not fixes:
        return report
    return replace(report, fixes=propose_fixes(data, report, settings=settings, now=now))


def _stage(stage: str, path: str) -> Stage:
    return cast("Stage", stage) if stage else stage_of(str(Path(path).absolute()) if path != "-" else path)


def _found(path: str) -> str:
    """The path, or where a request of this name is in the workspace; the path again if there is none."""
    if path == "-" or os.path.lexists(path):
        return path
    from threegate.review.named_request import find_request  # late: only for what is not a file

    try:
        named = find_request(invocation.workspace_here(), path)
    except NoWorkspace:
        return path
    except InvalidInput:
        if is_request_name(Path(path).name) or not path.endswith((".md", ".json", ".jsonl")):
            raise
        return path
    return path if named.path is None else str(named.path)


def _files(paths: Sequence[str], unread: list[str]) -> Iterator[str]:
    """The files of the arguments; for a folder, all TR-*.md in it and below, without following links."""
    for path in paths:
        if path == "-" or not Path(path).is_dir():
            yield path
            continue
        for folder, below, names in os.walk(
            path, onerror=lambda error: unread.append(f"{error.filename}: cannot be read ({error.strerror})")
        ):
            below[:] = sorted(name for name in below if not name.startswith("."))
            for name in sorted(names):
                if name.startswith("TR-") and name.endswith(".md"):
                    yield str(Path(folder) / name)


def _checked(check: partial[Report | str], files: Sequence[str]) -> Iterator[Report | str]:
    """The files' reports in order; many files are checked in parallel on several processors."""
    workers = min(os.cpu_count() or 1, len(files) // (PARALLEL_FROM // 2))
    if workers < 2 or "-" in files:
        yield from map(check, files)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        yield from pool.map(partial(_light, check), files, chunksize=_CHUNK)


def _light(check: partial[Report | str], path: str) -> Report | str:
    """A report with only what is printed, so that less is sent between processes."""
    report = check(path)
    if isinstance(report, str):
        return report
    return replace(report, request=None, masked_lines=report.masked_lines if report.findings else ())
