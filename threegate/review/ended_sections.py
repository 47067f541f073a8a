"""The screen of a request that was claimed or has ended: the request's own words, the trail's, and the
record's, kept apart.

Invariant: who approved, what was judged and how it ended come only from the trail and the record; labels,
headings and notes are ours, as in review_sections.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from threegate.approval.shown.request_sections import action_texts, exposure_items, read_all
from threegate.approval.statement import format_utc
from threegate.core.screen_parts import LIMIT, Fact, Field, Item, Note, Section
from threegate.launch.results.result_facts import ResultFacts
from threegate.request.job import BUBBLEWRAP
from threegate.request.model import Request
from threegate.request.report import Report
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Approved, Cleared, Countersigned, End, under_grant


def ended_sections(report: Report, history: RequestHistory | None, facts: ResultFacts | None) -> Iterator[Section]:
    """The sections that are not empty. `history` and `facts` are None if the trail has nothing about this file."""
    request = report.request
    exposed = exposure_items(report.exposure) if report.exposure is not None else ()
    parts: tuple[tuple[str, Iterable[Item]], ...] = (
        ("REQUEST", [Field("file", report.path)]),
        ("HOW IT ENDED", _end(history, facts)),
        ("WHO APPROVED", _approval(history)),
        ("WHAT THE JUDGEMENT SAID", _judgement(history)),
        ("WHAT WAS ASKED FOR", (*exposed, *_asked(request)) if request else ()),
        ("WHAT THE SANDBOX ENFORCED", _enforced(facts) if facts else ()),
        ("OUTPUTS", _outputs(facts) if facts else ()),
        ("WHAT THE REQUEST SAYS ABOUT ITSELF", _own_words(request) if request else ()),
    )
    for title, items in parts:
        if shown := tuple(items):
            yield Section(title, shown)


def _own_words(request: Request) -> Iterator[Item]:
    yield Field("id", request.request_id)
    yield Field("asked by", f"{request.requested_by} (as the file says)")
    yield Fact("created", format_utc(request.created_utc))
    yield Field("purpose", request.purpose)
    yield Fact("declares", f"risk {request.risk_level}, data {request.data_sensitivity}")
    yield Field("because", request.justification)


def _end(history: RequestHistory | None, facts: ResultFacts | None) -> Iterator[Item]:
    end = End.of(history.end) if history is not None else None
    if end is None:
        return
    yield Fact("as", end.status or end.kind)
    yield from _known((("reason", end.reason), ("exit code", end.exit_code)))
    if end.message:
        yield Field("message", end.message)
    if facts is not None:
        if facts.detail:
            yield Field("detail", facts.detail)
        if facts.runtime_ms is not None:
            yield Fact("took", f"{facts.runtime_ms} ms")
        for note in (*facts.notes, *facts.dropped):
            yield Field("noted", note)


def _approval(history: RequestHistory | None) -> Iterator[Item]:
    approved = Approved.of(history.approved) if history else None
    if history is None or approved is None:
        if history is not None and history.claimed is not None:
            yield Note("unsigned: it was put into approved/ by hand")
        return
    if approved.grant is not None:
        yield Fact("ran" if history.claimed else "approved", under_grant(approved.grant, approved.approved_by))
    yield from _known(
        (
            ("by", approved.approved_by if approved.grant is None else None),
            ("at", approved.approved_utc),
            ("until", approved.expires_utc),
            ("because", approved.reason),
            ("key", approved.key),
            ("risk", approved.risk),
            ("request", approved.request_sha256),
            ("job", approved.job_sha256),
            ("statement", approved.approval_sha256),
            ("batch", _batch(approved)),
            ("policy", approved.policy_sha256),
        ),
    )
    for signed in filter(None, map(Countersigned.of, history.countersigned)):
        yield Fact("also by", f"{signed.countersigned_by or ''} with {signed.key or 'a key'}")


def _batch(approved: Approved) -> str | None:
    """The batch that was signed, if the statement is one of several."""
    if approved.batch_sha256 is None or approved.batch_index is None:
        return None
    return f"{approved.batch_sha256}, its number {approved.batch_index + 1}"


def _judgement(history: RequestHistory | None) -> Iterator[Item]:
    cleared = Cleared.of(history.cleared) if history else None
    if cleared is None:
        return
    yield Fact("AANA", cleared.route or "")
    for blocker in cleared.blockers or ():
        yield Fact("reason", blocker)
    if (contract := cleared.contract) is not None:
        shadow = " (shadow: blocked nothing)" if contract.shadow else ""
        yield Fact("contracts", f"{contract.verdict or ''}{shadow}")
        for reason in contract.reasons or ():
            yield Fact("reason", reason.code or "")
            if reason.path:
                yield Field("at", reason.path)


def _asked(request: Request) -> Iterator[Item]:
    yield Fact("backend", request.backend)
    yield from action_texts(request.action, LIMIT)
    for item in request.inputs:
        yield Field("input", f"/in/{item.name}{' (unpacked)' if item.unpack else ''}, sha256 {item.sha256}")
        yield read_all(request.file_name, item.name)
    yield Field("network", "\n".join(f"{item.host}:{item.port}" for item in request.network_allowlist) or "none")
    yield from request.action.names()
    if request.signature_needed:
        yield Fact("limits", f"{request.time_limit_sec} s")
        return
    yield Fact("limits", f"{request.cpu_limit} cores, {request.memory_limit_mb} MiB, {request.time_limit_sec} s")


def _enforced(facts: ResultFacts) -> Iterator[Item]:
    image, runtime = ("root", "sandbox") if facts.runtime == BUBBLEWRAP else ("image", "OCI runtime")
    for name, value in (("backend", facts.backend), (image, facts.image), (runtime, facts.runtime)):
        if value:
            yield Field(name, value)
    for name in sorted(facts.effective_limits):
        yield Fact("limit", f"{name}: {facts.effective_limits[name]}")
    for item in facts.destinations:
        if item.reached or not item.allowed:  # what was allowed and not reached is named below
            word = "reached" if item.allowed else "refused"
            yield Field("network", f"{word} {item.host}:{item.port}, {item.bytes} bytes")
    if not facts.destinations:
        yield Field("network", "nothing was reached")
    for name in facts.network_not_reached:
        yield Field("network", f"allowed and not reached {name}")


def _outputs(facts: ResultFacts) -> Iterator[Item]:
    for item in facts.artifacts:
        yield Field("file", f"/out/{item.path}, {item.size} bytes, sha256 {item.sha256}")
    for path in facts.outputs_missing:
        yield Field("not there", f"/out/{path}: declared, and not there at the end")
    if not facts.artifacts:
        yield Note("no output files")


def _known(facts: tuple[tuple[str, str | int | None], ...]) -> Iterator[Item]:
    for label, value in facts:
        if value not in (None, ""):
            yield Fact(label, str(value))
