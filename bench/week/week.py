"""The drafts of `recipe.toml`, read by gate 1 as every draft is, and the week replayed as an operator decides on it."""

from __future__ import annotations

import hashlib
import itertools
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from datetime import time as clock
from pathlib import Path
from string import Template
from typing import Any

from threegate.core.settings import Settings
from threegate.plugins.grants.grant import matches, opened
from threegate.plugins.grants.widened import Widened, read_widened
from threegate.request.job import Job, Platform, build_job
from threegate.request.model import Request
from threegate.request.reader import read_request

OWNER = 1000
SETTINGS = Settings()
Shape = Callable[[Request, int], str | None]


@dataclass(frozen=True)
class Draft:
    """One draft: what it is, when it comes, and the bytes of its inputs by name. `near`: a near miss, and what was
    changed.
    """

    kind: str
    came: datetime
    text: str
    inputs: dict[str, bytes]
    request: Request
    job: Job
    near: str = ""


@dataclass(frozen=True)
class Decision:
    """One time that the operator said yes or no: to one draft, to a group of one shape, or to a grant."""

    what: str
    drafts: tuple[Draft, ...]
    widened: tuple[Widened, ...] = ()


@dataclass
class Replay:
    """What became of the week: the decisions, and what ran under grants."""

    decisions: list[Decision]
    granted: list[Draft]

    @property
    def covered_near(self) -> list[Draft]:
        """Near misses that a grant let run, or that were decided on together with others."""
        together = [draft for decision in self.decisions if len(decision.drafts) > 1 for draft in decision.drafts]
        return [draft for draft in (*self.granted, *together) if draft.near]


@dataclass
class _Given:
    widened: tuple[Widened, ...]
    pattern: dict[str, Any]
    uses: int
    until: datetime


def read_recipe() -> dict[str, Any]:
    """The recipe, as it is written."""
    return tomllib.loads(Path(__file__).with_name("recipe.toml").read_text())


def drafts_of(recipe: dict[str, Any]) -> list[Draft]:
    """Every draft of the week, by the time that it comes."""
    return sorted(_drafts(recipe), key=lambda draft: draft.came)


def near_misses(recipe: dict[str, Any], drafts: Sequence[Draft]) -> list[Draft]:
    """The near misses, each a minute after the first draft that has the text which it changes, on the week's last
    day of it.
    """
    made = []
    for miss in recipe["near"]["misses"]:
        honest = [draft for draft in drafts if draft.kind == miss["of"] and miss["was"] in draft.text][-1]
        text = honest.text.replace(miss["was"], miss["is"])
        assert text != honest.text
        inputs = {name.replace(miss["was"], miss["is"]): data for name, data in honest.inputs.items()}
        made.append(
            _draft(
                honest.kind,
                honest.came + timedelta(minutes=1),
                text,
                inputs,
                near=f"{miss['was']} -> {miss['is']}",
            )
        )
    return made


def replay(recipe: dict[str, Any], drafts: Sequence[Draft], shape: Shape | None, *, grants: bool = True) -> Replay:
    """The week: the daemon uses the grants, and at each visit the operator decides on everything that waits.

    `shape` is the name of the group that a draft is decided on with; None: each draft by itself.
    """
    done, given, waiting = Replay([], []), list[_Given](), list[Draft]()
    widths = {work["name"]: work["grant"] for work in recipe["work"] if "grant" in work} if grants else {}
    coming = sorted(drafts, key=lambda draft: draft.came)
    for visit in _visits(recipe):
        while coming and coming[0].came <= visit:
            waiting.append(coming.pop(0))
        waiting = [draft for draft in waiting if not _use(done, given, draft, visit)]
        while waiting:
            first = waiting[0]
            width = None if first.near else widths.pop(first.kind, None)
            if width is not None:
                widened = read_widened(first.job, width["widen"])
                pattern = opened(first.job, widened).pattern
                until = visit + timedelta(days=width["days"])
                given.append(_Given(widened, pattern, width["max_uses"], until))
                done.decisions += [Decision("approve", (first,)), Decision("grant", (first,), widened)]
                waiting = [draft for draft in waiting[1:] if not _use(done, given, draft, visit)]
                continue
            name = shape(first.request, OWNER) if shape else None
            group = [draft for draft in waiting[1:] if name and shape and shape(draft.request, OWNER) == name]
            done.decisions.append(Decision("group" if group else "approve", (first, *group)))
            waiting = [draft for draft in waiting[1:] if draft not in group]
    assert not coming
    return done


def _use(done: Replay, given: Sequence[_Given], draft: Draft, now: datetime) -> bool:
    for grant in given:
        if grant.uses and now < grant.until and matches(draft.job, grant.widened, grant.pattern):
            grant.uses -= 1
            done.granted.append(draft)
            return True
    return False


def _visits(recipe: dict[str, Any]) -> Iterator[datetime]:
    for day in range(8):
        for text in recipe["visits"]:
            yield _at(recipe, day, text)


def _at(recipe: dict[str, Any], day: int, text: str) -> datetime:
    return datetime.combine(recipe["monday"] + timedelta(days=day), clock.fromisoformat(text), UTC)


def _drafts(recipe: dict[str, Any]) -> Iterator[Draft]:
    for work in recipe["work"]:
        each = work.get("each", {})
        for day in work["days"]:
            for number, values in enumerate(itertools.product(*each.values())):
                came = _at(recipe, day, work["at"]) + timedelta(seconds=number)
                words = {
                    **dict(zip(each, values, strict=True)),
                    "day": f"{came:%Y-%m-%d}",
                    "n": f"{day}{number}",
                }
                yield _draft(work["name"], came, *_text(work, came, words))


def _text(work: dict[str, Any], came: datetime, words: dict[str, str]) -> tuple[str, dict[str, bytes]]:
    """A draft as the agent writes it, and its inputs."""

    def filled(text: str) -> str:
        return Template(text).substitute(words)

    inputs = {name: filled(text).encode() for name, text in work.get("inputs", {}).items()}
    era = work.get("backend", "monty") == "ERA"
    hosts = work.get("hosts", [])
    front = [
        "request_type: tool_request",
        'schema_version: "1"',
        f"request_id: TR-{came:%Y%m%d-%H%M%S}Z-{work['name']}",
        f'created_utc: "{came:%Y-%m-%dT%H:%M:%SZ}"',
        "requested_by: analyst-agent",
        f"purpose: {filled(work['purpose'])}",
        f"backend: {'ERA' if era else 'monty'}",
        "language: python",
        f"network: {'allowlist' if hosts else 'none'}",
        'cpu_limit: "1"',
        "memory_limit_mb: 64",
        "time_limit_sec: 10",
    ]
    if hosts:
        front += ["network_allowlist:", *(f"  - {host}" for host in hosts)]
    if inputs:
        front += [
            "inputs:",
            *(f"  - name: {name}\n    sha256: {hashlib.sha256(data).hexdigest()}" for name, data in inputs.items()),
        ]
    body = [("Command", filled(work["command"]))] if era else [("Code", f"```python\n{work['code'].strip()}\n```")]
    if era:
        body.append(("Input Files", "\n".join(f"- /in/{name}" for name in inputs) or "none"))
    if "variables" in work:
        body.append(("Inputs (JSON)", f"```json\n{filled(work['variables'])}\n```"))
    body.append(("Output Expectations", "\n".join(f"- {filled(path)}" for path in work.get("outputs", [])) or "none"))
    rationale = "\n- Network rationale: the rates are published there" if hosts else ""
    risk = (
        f"- Risk level: {work.get('risk', 'low')}\n- Justification: a daily job\n- Data sensitivity: public{rationale}"
    )
    body.append(("Risk Assessment", risk))
    lines = ["---", *front, "---", ""]
    return "\n".join(lines) + "\n".join(f"## {title}\n\n{text}\n" for title, text in body), inputs


def _draft(kind: str, came: datetime, text: str, inputs: dict[str, bytes], *, near: str = "") -> Draft:
    """Gate 1 reads it, and the Job is built of it; a recipe whose draft is not valid is wrong."""
    report = read_request(
        text.encode(),
        path=f"TR-{came:%Y%m%d-%H%M%S}Z-{kind}.md",
        settings=SETTINGS.request,
        now=came,
        stage="draft",
    )
    if report.request is None:
        raise ValueError(f"{kind} {near}: {[finding.message for finding in report.findings]}")
    sizes = {hashlib.sha256(data).hexdigest(): len(data) for data in inputs.values()}
    job = build_job(report.request, input_sizes=sizes, platform=Platform())
    return Draft(kind, came, text, inputs, report.request, job, near)
