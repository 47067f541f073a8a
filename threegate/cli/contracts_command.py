"""``threegate contracts``: check, test, play and draw a contracts folder, and the verbs of session_verbs.py.

The commands here read only the named folder (default: the workspace's) and change no session of the daemon.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from threegate.cli.invocation import (
    JsonFlag,
    argument,
    emit_data,
    emit_json,
    report,
    say,
    wants_json,
    warn,
    workspace_here,
)
from threegate.cli.session_verbs import allow, checkpoints, close, deny, kill, open_, sessions, workflows
from threegate.contracts.compiled import Compiled, read_folder
from threegate.contracts.compiler import compile_folder
from threegate.contracts.drawing import mermaid, svg
from threegate.contracts.play import Play
from threegate.contracts.provider import check_request as check_a_request
from threegate.contracts.provider import check_response as check_a_response
from threegate.contracts.scenario import run_tests
from threegate.contracts.skeleton import skeleton
from threegate.core import durable, limits
from threegate.core.canonical import StrictJSONError, loads_strict
from threegate.core.errors import EXIT_REFUSED, InvalidInput, NoWorkspace

app = typer.Typer()

Contracts = Annotated[
    str, typer.Option("--contracts", metavar="DIR", help="A contracts folder; default: the workspace's.")
]
Folder = Annotated[str, argument("DIR", "A contracts folder; default: the workspace's.")]


def _load(folder: str) -> tuple[Compiled, dict[str, bytes]]:
    """The folder's files, compiled under the workspace's settings if there is a workspace. Raises
    InvalidInput.
    """
    permit = False
    try:
        workspace = workspace_here()
        permit = workspace.load_settings().contracts.permit_timeout_allow
    except NoWorkspace:
        if not folder:
            raise
    files = read_folder(Path(folder) if folder else workspace.contracts)
    return compile_folder(files, environment=os.environ, permit_timeout_allow=permit), files


def _compiled(folder: str) -> tuple[Compiled, dict[str, bytes]]:
    """Like `_load`, but report a folder that does not compile and exit with 2."""
    compiled, files = _load(folder)
    if not compiled.ok:
        for item in compiled.diagnostics:
            warn(item.render())
        raise InvalidInput("the contracts do not compile; fix them first: threegate contracts check")
    return compiled, files


@app.command()
def check(folder: Folder = "", json_: JsonFlag = False) -> None:
    """Compile a folder and report what is wrong and where.

    Exit 2 if there is an error.

    Example: threegate contracts check contracts/
    """
    compiled, _ = _load(folder)
    errors = sum(item.severity == "error" for item in compiled.diagnostics)
    if wants_json(json_):
        diagnostics = [item.to_json() for item in compiled.diagnostics]
        emit_json({"ok": compiled.ok, "diagnostics": diagnostics, "left_out": compiled.left_out})
    else:
        for item in compiled.diagnostics:
            say(item.render())
        if compiled.left_out:
            shown = len(compiled.diagnostics)
            say(
                f"stopped after {shown} diagnostics; {compiled.left_out} more are not shown: fix these, then "
                "check again"
            )
        count = "no contracts" if compiled.empty else f"{len(compiled.contracts)} tools"
        warnings = len(compiled.diagnostics) - errors
        say(f"{errors} errors, {warnings} warnings" if errors else f"compiles: {count}, {warnings} warnings")
    if errors:
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def test(folder: Folder = "", json_: JsonFlag = False) -> None:
    """Run golden cases and *.test.yaml files.

    Rules that no case reaches are listed.

    Example: threegate contracts test contracts/
    """
    compiled, files = _compiled(folder)
    done = run_tests(compiled, files)
    failed = [item for item in done.results if item.problem]
    cases = [{"file": item.file, "name": item.name, "problem": item.problem} for item in done.results]
    report(
        json_,
        {"passed": done.passed, "cases": cases, "unreached": done.unreached},
        [
            *(f"{item.file}: {item.name}: {item.problem}" for item in failed),
            *(f"not reached by any case: {rule}" for rule in done.unreached),
            f"{len(done.results) - len(failed)} of {len(done.results)} cases passed",
        ],
    )
    if failed:
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def decide(
    folder: Folder = "",
    calls: Annotated[str, typer.Option("--calls", metavar="FILE.jsonl", help="A file with one call per line.")] = "",
    form: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
    json_: JsonFlag = False,
) -> None:
    """Decide calls, one per line, and print one decision per line.

    Exit 0 if all calls were decided, whatever the decisions; 2 if the contracts do not compile.

    Example: threegate contracts decide contracts/ --calls calls.jsonl --format json
    """
    if form not in ("text", "json"):
        raise typer.BadParameter("--format is text or json")
    if not calls:
        raise typer.BadParameter("name the file with --calls FILE.jsonl")
    compiled, _ = _load(folder)
    data = durable.read_named(Path(calls), max_bytes=limits.CONTRACT_CALLS_BYTES)
    play = Play(compiled)
    as_json = form == "json" or wants_json(json_)
    for number, line in enumerate(data.splitlines(), start=1):
        if line.strip():
            _decide_line(play, line, f"{calls}:{number}", as_json)
    if not compiled.ok:
        raise InvalidInput("the contracts do not compile, so every call is blocked; see: threegate contracts check")


def _decide_line(play: Any, line: bytes, where: str, as_json: bool) -> None:
    try:
        value = loads_strict(line, max_bytes=limits.CONTRACT_CALL_BYTES)
    except StrictJSONError as error:
        raise InvalidInput(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: each line must be a JSON object")
    try:
        played = play.line(value)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None
    if as_json:
        emit_data(json.dumps(played.to_json(), ensure_ascii=True, separators=(",", ":")) + "\n")
        return
    answer = played.to_json()
    verdict = answer.get("verdict") or answer.get("outcome", {}).get("status") or "done"
    codes = " ".join(item["code"] for item in answer.get("reasons", ()))
    say(f"{verdict}{' ' + codes if codes else ''}")


@app.command()
def new(
    tool: Annotated[str, argument("TOOL", "The tool's name, as used in calls.")],
) -> None:
    """Print a commented contract for a tool.

    Save it as TOOL.yaml.

    Example: threegate contracts new web.fetch >web.fetch.yaml
    """

    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,128}", tool):
        raise InvalidInput(f"{tool}: a tool's name may contain only letters, digits, _ . and -")
    emit_data(skeleton(tool))


@app.command()
def graph(
    folder: Folder = "",
    out: Annotated[str, typer.Option("--out", metavar="FILE.svg|.mmd", help="The .svg or .mmd file to write.")] = "",
    json_: JsonFlag = False,
) -> None:
    """Draw phases, tools and preconditions.

    Without --out, Mermaid text is printed.

    Example: threegate contracts graph contracts/ --out contracts.svg
    """
    if out and not out.endswith((".svg", ".mmd")):
        raise typer.BadParameter("--out must end with .svg or .mmd")
    compiled, _ = _compiled(folder)
    if compiled.empty:
        raise InvalidInput("there are no contracts to draw")
    if not out:
        emit_data(mermaid(compiled))
        return
    text = svg(compiled) if out.endswith(".svg") else mermaid(compiled)
    Path(out).write_text(text, encoding="utf-8")
    report(json_, {"out": out}, [f"wrote {out}"])


def _traffic(file: str) -> Any:
    try:
        data = durable.read_regular(Path(file), max_bytes=limits.CONTRACT_TRAFFIC_BYTES)
        return loads_strict(data, max_bytes=limits.CONTRACT_TRAFFIC_BYTES)
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror or error})") from None
    except StrictJSONError as error:
        raise InvalidInput(f"{file}: {error}") from None


def _tell(findings: list[Any], json_: bool) -> None:
    lines = [f"{item.severity}: {item.code} ({item.path}): {item.message}" for item in findings]
    report(json_, [item.to_json() for item in findings], lines or ["follows the contracts"])
    if any(item.severity == "error" for item in findings):
        raise typer.Exit(EXIT_REFUSED)


@app.command("check-response")
def check_response(
    file: Annotated[str, argument("FILE.json", "The model's response.")],
    folder: Contracts = "",
    json_: JsonFlag = False,
) -> None:
    """Check a model's response against response_format_invariants.

    Example: threegate contracts check-response response.json --contracts contracts/
    """
    compiled, _ = _compiled(folder)
    _tell(check_a_response(compiled, _traffic(file)), json_)


@app.command("check-request")
def check_request(
    file: Annotated[str, argument("FILE.json", "The request to send.")],
    provider: Annotated[
        str,
        typer.Option("--provider", metavar="NAME", help="The provider, as provider_constraints names it."),
    ],
    folder: Contracts = "",
    json_: JsonFlag = False,
) -> None:
    """Check a request to a provider against provider_constraints.

    Example: threegate contracts check-request request.json --provider openai
    """
    compiled, _ = _compiled(folder)
    _tell(check_a_request(compiled, _traffic(file), provider), json_)


app.command()(sessions)
app.command("open")(open_)
app.command()(close)
app.command()(kill)
app.command()(workflows)
app.command()(checkpoints)
app.command()(allow)
app.command()(deny)
