"""Trails of many requests for reports and benches: events only, spread over days, with every kind of end."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.trail.workspaces import make_workspace
from threegate.core.workspace import Workspace
from threegate.trail.event import format_time, make_event, parse_line
from threegate.trail.trail import Trail


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def populate(root: Path, requests: int, *, days: int = 30, seed: int = 1) -> tuple[Workspace, Trail]:
    """A workspace whose trail tells of `requests` requests (about seven events each); nothing is in its folders."""
    random_ = random.Random(seed)
    workspace, trail = make_workspace(root)
    first = parse_line(workspace.trail_file.read_bytes().rstrip(b"\n"))
    seq, prev = first.seq, first.hash
    start, moment = datetime(2026, 2, 1, 8, tzinfo=UTC), datetime(2026, 2, 1, 8, tzinfo=UTC)
    with open(workspace.trail_file, "ab") as file:
        for number in range(requests):
            moment = max(moment, start + timedelta(days=days) * number / max(1, requests))
            rid = f"TR-{moment:%Y%m%d-%H%M%SZ}-{random_.choice(('rank', 'plot', 'fetch', 'clean', 'sum'))}-{number}"
            for kind, actor, data in story_of(rid, random_):
                moment += timedelta(milliseconds=random_.randint(3, 900))
                event = make_event(
                    seq=seq + 1,
                    time=format_time(moment),
                    type=kind,
                    request_id=rid,
                    actor=actor,
                    data=data,
                    prev=prev,
                )
                seq, prev = event.seq, event.hash
                file.write(event.line + b"\n")
    return workspace, trail


def story_of(rid: str, random_: random.Random) -> list[tuple[str, str, dict]]:
    digests = {
        name: digest(rid + name) for name in ("request_sha256", "job_sha256", "approval_sha256", "policy_sha256")
    }
    file = f"{rid}.md"
    story: list[tuple[str, str, dict]] = [
        (
            "validated",
            "daemon",
            {"file": file, "sha256": digests["request_sha256"], "valid": True, "rules": []},
        )
    ]
    draw = random_.random()
    if draw < 0.06:
        return [*story, ("rejected", "account:op", {"reason": "asks for too much"})]
    if draw < 0.1:
        return story
    story.append(
        (
            "approved",
            "operator:ada",
            {**digests, "approved_by": "ada", "nonce": digest(rid)[:32], "inputs": {"data.csv": digest("d")}},
        )
    )
    if draw < 0.16:
        return [
            *story,
            ("refused", "daemon", {"reason": "input_changed", "message": "data.csv has another sha256"}),
        ]
    story += [
        ("cleared", "daemon", {**digests, "route": "accept"}),
        ("claimed", "daemon", {**digests, "nonce": digest(rid)[:32]}),
        ("started", "daemon", {"backend": random_.choice(("monty", "ERA"))}),
    ]
    if draw < 0.19:
        return [*story, ("interrupted", "daemon", {"reason": "interrupted"})]
    status = "succeeded" if draw < 0.9 else random_.choice(("failed", "timed_out", "out_of_memory"))
    outputs = {"table.csv": digest(rid + "t"), "plot.svg": digest(rid + "p")} if status == "succeeded" else {}
    done = {
        "status": status,
        "exit_code": 0 if outputs else 1,
        "wall_ms": random_.randint(20, 60_000),
        "outputs": outputs,
    }
    return [
        *story,
        ("finished", "daemon", {**done, "stdout_sha256": digest("o"), "stderr_sha256": digest("e")}),
    ]
