"""`threegate audit`: show, verify, sign, prove and rotate the trail, and what else is read or done afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.audit.audit_verify import verify_workspace
from threegate.audit.practice import practice_lines, practice_of
from threegate.audit.trail_checkpoints import prove_line, write_trail_checkpoint
from threegate.audit.trail_checkpoints import rotate as rotate_trail
from threegate.cli import tab_completion
from threegate.cli.aana_events import aana
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_data,
    emit_json,
    moment_of,
    read_key,
    report,
    say,
    wants_json,
    workspace_here,
)
from threegate.cli.progress import busy
from threegate.cli.prune_command import prune
from threegate.cli.replay_command import replay
from threegate.core import durable, limits
from threegate.core.errors import EXIT_REFUSED, InvalidInput
from threegate.review.countersign import verify_approval
from threegate.review.named_request import DRAFT, find_request, where_now
from threegate.setup.init import account
from threegate.trail.checkpoint import LineProof, TrailCheckpoint
from threegate.trail.cosignature import WitnessKey
from threegate.trail.event import LineError, known_kinds, parse_line
from threegate.trail.story import select, story_line
from threegate.trail.trail import Trail
from threegate.trail.workspace_key import VerifierKey

app = typer.Typer()

KeyOption = Annotated[
    str, typer.Option("--key", metavar="KEY.pub", help="The workspace's verifier key, kept elsewhere.")
]


@app.command()
def show(
    request: Annotated[
        str,
        typer.Option(
            "--request", metavar="ID|FILE", help="Only this request.", autocompletion=tab_completion.with_result
        ),
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Start at this date or time, or this long ago: 24h, 7d.")
    ] = "",
    type_: Annotated[list[str] | None, typer.Option("--type", help="Only events of this type.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Show what happened, one line for each event.

    Every line is verified as it is read.

    Example: threegate audit show --request TR-20261122-101500Z-sum
    """
    kinds = known_kinds()
    unknown = sorted(set(type_ or ()) - kinds.keys())
    if unknown:
        raise InvalidInput(f"--type {unknown[0]}: no such event type; known types: {', '.join(sorted(kinds))}")
    workspace = workspace_here()
    trail = Trail(workspace)
    if request:
        request = find_request(workspace, request, trail=trail).request_id or request
    events = select(
        trail.events(),
        request_id=request or None,
        since=moment_of(since) if since else None,
        types=frozenset(type_ or ()),
    )
    shown = 0
    for event in events:
        shown += 1
        if wants_json(json_):
            emit_data(event.line.decode() + "\n")
        else:
            say(story_line(event))
    if request and not shown:
        raise InvalidInput(f"request {request} is not in the trail; see: threegate audit show")


@app.command()
def verify(
    checkpoint: Annotated[
        list[Path] | None, typer.Option("--checkpoint", help="A trail checkpoint kept elsewhere.")
    ] = None,
    key: KeyOption = "",
    witness: Annotated[
        list[str] | None,
        typer.Option(
            "--witness",
            metavar="KEY",
            help="A witness that must have cosigned the newest trail checkpoint (repeatable).",
        ),
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Check the trail, its signatures and the folders.

    The chain and the tree must be intact, and folders and artifacts must match the trail. Exit 2 if they do
    not.

    Example: threegate audit verify --checkpoint kept.note --key workspace.pub
    """
    workspace = workspace_here()
    external = [(str(path), _read(path)) for path in checkpoint or ()]
    with busy("verifying the trail"):
        witnesses = [read_key(WitnessKey, item) for item in witness or ()]
        result = verify_workspace(workspace, external=external, key=_key(key), witnesses=witnesses)
    if wants_json(json_):
        emit_json(
            {
                "ok": result.ok,
                "workspace": result.workspace_id,
                "lines": result.lines,
                "segments": result.segments,
                "checkpoints": result.checkpoints,
                "head": {"seq": result.seq, "hash": result.head, "time": result.last_time},
                "root": result.root.hex(),
                "cosigned": {name: {"size": size, "time": time} for name, size, time in result.cosigned},
                "problem_count": result.problem_count,
                "problems": [
                    {"place": item.place, "line": item.line, "message": item.message} for item in result.problems
                ],
                "notes": [{"place": item.place, "message": item.message} for item in result.notes],
            }
        )
    else:
        for problem in result.problems:
            say(str(problem))
        left = result.problem_count - len(result.problems)
        if left > 0:
            say(f"... and {left} more")
        for note in result.notes:
            say(f"note: {note}")
        for name, size, time in result.cosigned:
            say(f"cosigned by {name}: {size} events at {time}")
        verdict = "trail verifies" if result.ok else f"TRAIL DOES NOT VERIFY ({result.problem_count} problems)"
        say(
            f"{verdict}: {result.lines} events in {result.segments} files, {result.checkpoints} checkpoints, "
            f"head {result.head[:16]}"
        )
    if not result.ok:
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def checkpoint(
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the note to this file, to keep it elsewhere.")
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Sign the size and root of the trail's tree.

    Keep the note on paper, in mail or on another machine.

    Example: threegate audit checkpoint --out kept.note
    """
    workspace = workspace_here()
    with Trail(workspace).locked() as held:
        path, note = write_trail_checkpoint(held, actor=account())
    if out is not None:
        durable.overwrite(out.absolute(), note.render(), 0o644)
    if wants_json(json_):
        emit_json({"path": str(path), "size": note.size, "root": note.root.hex(), "note": note.render().decode()})
    else:
        emit_data(note.render().decode())


@app.command()
def prove(
    seq: Annotated[int, typer.Argument(min=1, help="The event's number.")],
    with_checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", help="Prove for this trail checkpoint instead of a fresh one."),
    ] = None,
) -> None:
    """Print a proof that an event is in the trail.

    Anyone can check it with only the key.

    Example: threegate audit prove 17
    """
    note = TrailCheckpoint.parse(_read(with_checkpoint)) if with_checkpoint else None
    with busy("building the proof"):
        proof = prove_line(Trail(workspace_here()), seq, note=note)
    emit_data(proof.render().decode())


@app.command("check-proof")
def check_proof(
    proof: Annotated[Path, typer.Argument(help="A file made by `audit prove`.")],
    key: KeyOption = "",
    json_: JsonFlag = False,
) -> None:
    """Check a proof and print the event it proves.

    With --key, no workspace is needed.

    Example: threegate audit check-proof event-17.proof --key workspace.pub
    """
    verifier = _key(key)
    if verifier is None:
        named = _read(workspace_here().audit / "workspace.pub").decode("ascii", "replace").strip()
        verifier = VerifierKey.parse(named)
    try:
        item = LineProof.parse(_read(proof))
        item.verify(verifier)
        event = parse_line(item.line)
    except InvalidInput as error:
        raise InvalidInput(f"{proof}: {error}") from None
    except LineError as error:
        raise InvalidInput(f"{proof}: the proven line {error}") from None
    if event.seq != item.index + 1:
        raise InvalidInput(f"{proof}: the event's number does not match its position in the tree")
    size, origin = item.checkpoint.size, item.checkpoint.origin
    value = {"ok": True, "size": size, "origin": origin, "event": event.to_json()}
    report(json_, value, [f"proven: event {event.seq} of {size} of {origin}", item.line.decode()])


@app.command("approval")
def verify_an_approval(
    which: Annotated[str, argument("ID|FILE", "A request in approved/: id, file or slug.", tab_completion.waiting)],
    json_: JsonFlag = False,
) -> None:
    """Run every check that a launch runs on an approval.

    Exit 2 when one fails.

    Example: threegate audit approval tool-exec/approved/TR-20261122-101500Z-sum.md
    """
    context = context_here()
    named = find_request(context.workspace, which, frozenset(("approved",)), trail=context.trail)
    if named.path is None or named.state == DRAFT:
        raise InvalidInput(f"{which}: {where_now(context.workspace, named, context.trail)}")
    checks = verify_approval(context, named.path)
    words = {True: "ok    ", False: "FAILED", None: "-     "}
    report(
        json_,
        [{"check": item.name, "ok": item.ok, "code": item.code or None, "detail": item.detail} for item in checks],
        [f"{words[item.ok]} {item.name:<19}{item.detail}{f' [{item.code}]' if item.code else ''}" for item in checks],
    )
    if not all(item.ok for item in checks):
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def stats(
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Start at this date or time, or this long ago: 24h, 7d.")
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """Show who decided how much and how fast.

    It also shows why drafts were rejected, what ran under grants, and how often and how fast
    something was stopped.

    Example: threegate audit stats --since 30d
    """
    found = practice_of(Trail(workspace_here()).events(), since=moment_of(since) if since else None)
    lines = [f"{label:<22} {value}" for label, value in practice_lines(found)]
    report(json_, found.to_json(), lines or ["no decisions yet; decide on drafts with: threegate review"])


app.command()(replay)
app.command()(aana)
app.command()(prune)


@app.command()
def rotate(json_: JsonFlag = False) -> None:
    """Close the trail's current file and start the next one.

    The closed file ends with a signed trail checkpoint.

    Example: threegate audit rotate
    """
    with Trail(workspace_here()).locked() as held:
        path, note = rotate_trail(held, actor=account())
    value = {"checkpoint": str(path), "size": note.size}
    report(json_, value, [f"closed at {note.size} events; checkpoint {path}"])


def _read(path: Path) -> bytes:
    return durable.read_named(path, max_bytes=limits.AUDIT_FILE_BYTES)


def _key(given: str) -> VerifierKey | None:
    return read_key(VerifierKey, given) if given else None
