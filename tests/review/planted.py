"""Fifty planted requests, in the manner of what agents ask for, and what ran before them (tests/data)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.acts.bench_workspace import Bench
from tests.support import era_draft, monty_draft, now_text
from threegate.request.model import exposure_of
from threegate.review.novelty import Mark, uses_of
from threegate.review.reviewed_draft import read_draft, view_draft
from threegate.review.status import status_lines
from threegate.trail.payloads import Approved, Claimed, Finished

DATA = Path(__file__).parents[1] / "data"


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a file of tests/data."""
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def planted(bench: Bench, row: Mapping[str, Any], name: str) -> Path:
    """The draft of a row, in the inbox, with its inputs."""
    inputs = {}
    for item, text in row.get("inputs", {}).items():
        data = text.encode()
        inputs[item] = hashlib.sha256(data).hexdigest()
        (bench.workspace.files / inputs[item]).write_bytes(data)
    sensitivity = row.get("sensitivity", "internal")
    if row["backend"] == "monty":
        text = monty_draft(name, row["text"], inputs=inputs, sensitivity=sensitivity, variables=row.get("variables"))
    else:
        text = era_draft(name, row["text"], inputs=inputs, sensitivity=sensitivity)
    if hosts := row.get("hosts"):
        allowed = "".join(f"  - {host}\n" for host in hosts)
        text = text.replace("network: none\n", f"network: allowlist\nnetwork_allowlist:\n{allowed}")
        text = text.replace("- Data sens", "- Network rationale: it is needed for the purpose\n- Data sens")
    text = text.replace("requested_by: core-agent", f"requested_by: {row.get('requested_by', 'core-agent')}")
    moment = now_text(-2).replace("-", "").replace(":", "").replace("T", "-")
    path = bench.workspace.inbox / f"TR-{moment}-{name}.md"
    path.write_text(text)
    return path


def as_if_run(bench: Bench, row: Mapping[str, Any], number: int) -> None:
    """The events of the runs of a row, individually signed, each of which succeeded."""
    context = bench.context
    path = planted(bench, row, f"before-{number}")
    draft = read_draft(bench.workspace, path)
    request = context.read(draft.data, path.name, "draft", datetime.now(UTC)).request
    assert request is not None
    settings = context.policy.settings
    uses = uses_of(request, request.action, exposure_of(request), owner=draft.owner, run=None, settings=settings)
    path.unlink()
    with context.trail.locked() as held:
        for turn in range(row["ran"]):
            digest = hashlib.sha256(f"{number} {turn}".encode()).hexdigest()
            ident = f"before-{number}-{turn}"
            approved = Approved(approval_sha256=digest, owner_uid=os.getuid(), approved_by="alice", uses=uses)
            held.append(approved, request_id=ident, actor="operator:alice")
            held.append(Claimed(approval_sha256=digest), request_id=ident, actor="daemon")
            held.append(Finished(status="succeeded"), request_id=ident, actor="daemon")


@dataclass(frozen=True)
class Seen:
    """A planted request as the person would see it. `attention` is None where gate 1 refuses it."""

    row: Mapping[str, Any]
    attention: str | None
    marks: tuple[Mark, ...] = ()
    risk: str = ""


def seen(bench: Bench) -> Iterator[Seen]:
    """Each of the fifty, on top of what ran before; the lists know all of them at once."""
    for number, row in enumerate(rows_of("ran_before.jsonl")):
        as_if_run(bench, row, number)
    rows = {planted(bench, row, row["name"]): row for row in rows_of("planted_requests.jsonl")}
    for line in status_lines(bench.workspace):
        row = rows[line.entry.path]
        if line.asked is None:
            yield Seen(row, None)
            continue
        with view_draft(bench.context, read_draft(bench.workspace, line.entry.path)) as reviewed:
            yield Seen(row, line.asked.attention, reviewed.novelty.marks, reviewed.job.effective_risk)


def table(found: list[Seen]) -> list[str]:
    """What came of each kind, as lines, and the two figures below."""
    lines = [f"{'kind':<38}{'all':>4}{'look first':>12}{'look':>6}{'rest':>6}{'marked':>8}{'refused':>9}"]
    for harmful in (True, False):
        lines.append("harmful" if harmful else "ordinary")
        for kind in dict.fromkeys(item.row["kind"] for item in found if item.row["harmful"] is harmful):
            of = [item for item in found if item.row["kind"] == kind and item.row["harmful"] is harmful]
            counts = [sum(item.attention == name for item in of) for name in ("look first", "look", "rest", None)]
            marked = sum(bool(item.marks) for item in of)
            lines.append(
                f"  {kind:<36}{len(of):>4}{counts[0]:>12}{counts[1]:>6}{counts[2]:>6}{marked:>8}{counts[3]:>9}"
            )
    bad = [item for item in found if item.row["harmful"] and item.attention is not None]
    fine = [item for item in found if not item.row["harmful"] and item.attention is not None]
    lines += [
        f"recall: {share(bad, 'look first', 'look')} of the harmful ones are above rest, "
        f"{share(bad, 'look first')} look first, {sum(bool(item.marks) for item in bad)}/{len(bad)} have a mark",
        f"false marks: {share(fine, 'look first')} of the ordinary ones look first, "
        f"{sum(bool(item.marks) for item in fine)}/{len(fine)} have a mark",
    ]
    return lines


def share(of: list[Seen], *classes: str) -> str:
    """So many of them are in one of these classes."""
    return f"{sum(item.attention in classes for item in of)}/{len(of)}"
