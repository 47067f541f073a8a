"""Requests on their way: written or called, signed by one person with a real key, run by a real daemon, and read back.

One workspace and one daemon serve all of them.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.door_client import daemon, with_door
from tests.drafting.corpus import Answer, Drafted, answers
from tests.support import Place, wait_until
from threegate.cli import execute

SECONDS = 240
VALID_AT_FIRST = 0.90
RIGHT_AT_FIRST = 0.95
FORESEEN = re.compile(
    r"NotImplementedError|(?:is|are) not (?:yet )?supported|not implemented|No module named|cannot import name"
    r"|has no attribute|is not defined|unexpected keyword argument|No such file or directory: '/in/"
    r"|not found|was not started"
)
"""What a failed run says where validation had everything that it takes to know it."""


@dataclass
class Seen:
    """What became of a request. `findings` are why it was not valid; `got` is what a signed run left."""

    drafted: Drafted
    valid: bool = False
    findings: str = ""
    got: Answer | None = None
    why: str = ""

    @property
    def right(self) -> bool:
        """Whether it ran and left what it must."""
        want = answers().get(self.drafted.key)
        return self.got is not None and want is not None and self.drafted.is_right(self.got, want)

    def line(self) -> str:
        """What to read when it is not."""
        if not self.valid:
            return f"{self.drafted.key}: not valid: {self.findings}"
        return f"{self.drafted.key}: not right: {self.why.strip()[-300:]} {self.got}"[:900]


def approve(place: Place, draft: Path) -> None:
    """As `threegate approve FILE` in this process: a new one for each of 200 signatures would take minutes, and so
    would an id instead of the file, for which each file of the inbox is read.
    """
    words = ["approve", str(draft), "--as", "operator", "--key", str(place.key), "--yes"]
    with redirect_stdout(io.StringIO()):
        assert execute(["--workspace", str(place.root), *words]) == 0, draft.name


def as_files(place: Place, requests: Sequence[Drafted]) -> list[Seen]:
    """Each written into the inbox as a file, and signed if its verdict is good."""
    written = []
    for drafted in requests:
        for name, data in drafted.inputs().items():
            place.input(name, data)
        rid, text = drafted.file()
        written.append((drafted, rid, place.drop(text)))
    verdicts = place.root / "tool-exec" / "verdicts"
    seen = []
    for drafted, _, draft in written:
        path = verdicts / f"{draft.name}.json"
        wait_until(path.exists, f"the verdict of {draft.name}", SECONDS)
        verdict = place.verdict(draft.name)
        errors = [item for item in verdict["findings"] if item["severity"] == "error"]
        one = Seen(drafted, verdict["state"] == "draft", "; ".join(f"{e['rule']} {e['message']}" for e in errors))
        seen.append(one)
        if one.valid:
            approve(place, draft)
    results = place.root / "tool-exec" / "results"
    for one, (_, rid, _) in zip(seen, written, strict=True):
        if one.valid:
            wait_until(lambda rid=rid: list(results.glob(f"TS-*-{rid}.md")), f"the result of {rid}", SECONDS)
            one.got, one.why = read_back(place, rid)
    return seen


def read_back(place: Place, rid: str) -> tuple[Answer, str]:
    """What the operator finds of a run, and why it ended so."""
    text = place.result(rid)
    front = dict(line.split(": ", 1) for line in text.split("\n---\n")[0].splitlines() if ": " in line)
    run = place.root / "tool-exec" / "runs" / rid
    outputs = {str(path.relative_to(run / "out")): path for path in (run / "out").rglob("*") if path.is_file()}
    said = {name: (run / name).read_text() if (run / name).exists() else "" for name in ("stdout", "stderr")}
    code = front["exit_code"]
    return (
        Answer(
            int(code) if code.lstrip("-").isdigit() else -1,
            said["stdout"],
            {path: file.read_bytes().decode(errors="replace") for path, file in outputs.items()},
            json.loads(outputs["result.json"].read_bytes()) if "result.json" in outputs else None,
        ),
        f"{front['status']} {front['reason']} {said['stderr']}",
    )


def by_door(place: Place, requests: Sequence[Drafted]) -> list[Seen]:
    """Each called as a tool, signed, and waited for with the tool `wait`."""
    for drafted in requests:
        for name, data in drafted.inputs().items():
            place.input(name, data)

    async def work(client: Client) -> list[Seen]:
        seen: list[tuple[Seen, str]] = []
        for drafted in requests:
            tool, arguments = drafted.call()
            result = await client.call_tool(tool, {**arguments, "wait_sec": 0})
            said: Any = result.structured_content or {}
            rid = str(said.get("request_id") or "")
            pending = said.get("status") == "pending"
            seen.append((Seen(drafted, pending, "" if pending else str(said or result.content)), rid))
        drafts = {path: path.read_text() for path in (place.root / "inbox").glob("*.md")}
        for one, rid in seen:
            if one.valid:
                [draft] = [path for path, text in drafts.items() if rid in text]
                await asyncio.to_thread(approve, place, draft)
        for one, rid in seen:
            if one.valid:
                result = await client.call_tool("wait", {"request_id": rid, "wait_sec": 80})
                answer: Any = result.structured_content
                texts = {item["path"]: item.get("text", "") for item in answer.get("outputs", ())}
                value = json.loads(texts["result.json"]) if texts.get("result.json") else None
                code = answer.get("exit_code")
                one.got = Answer(-1 if code is None else code, answer.get("stdout") or "", texts, value)
                one.why = f"{answer.get('status')} {answer.get('why')} {answer.get('stderr')}"
        return [one for one, _ in seen]

    found: list[Seen] = with_door(place, None, work)
    return found


def proven(seen: Sequence[Seen], way: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Print the figures, and hold them against the aims."""
    asked = [one for one in seen if not one.drafted.refused]
    valid = [one for one in asked if one.valid]
    right = [one for one in valid if one.right]
    foreseen = [one.line() for one in valid if not one.right and FORESEEN.search(one.why)]
    figures = [
        f"{way}: of {len(asked)} requests {len(valid)} valid at first, {len(right)} right at the first signature"
    ]
    for backend in ("monty", "ERA"):
        own = [one for one in asked if one.drafted.backend == backend]
        passed = [one for one in own if one.valid]
        figures.append(f"  {backend}: {len(passed)} of {len(own)} valid, {sum(one.right for one in passed)} right")
    with capsys.disabled():
        print("", *figures, *(f"  {one.line()}" for one in asked if not one.right), sep="\n")
    refused = [one for one in seen if one.drafted.refused]
    clear = [one for one in refused if not one.valid and one.drafted.refused in one.findings]
    assert [one.line() for one in refused if one not in clear] == [], "to be refused, with a line that names why"
    assert foreseen == [], "failed for a reason that was known at validation"
    assert len(right) >= RIGHT_AT_FIRST * len(valid), [one.line() for one in valid if not one.right]
    assert len(valid) >= VALID_AT_FIRST * len(asked), [one.line() for one in asked if not one.valid]


__all__ = ["as_files", "by_door", "daemon", "proven"]
