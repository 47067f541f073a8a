"""What gate 1 calls valid, every later gate can read: a request that raises there would stop the daemon, again at
each start.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.adversarial.request.mutations import corpus, mutate
from tests.conftest import examples
from tests.contracts.material import compiled
from tests.request.examples import ids, monty, read
from threegate.contracts.contract_checkpoints import call_sha256
from threegate.contracts.session_table import SessionTable, call_from_json, call_to_json
from threegate.contracts.state import Call
from threegate.core.settings import Settings
from threegate.judgement.judge import assess, call_arguments, tool_name
from threegate.judgement.policy import make_policy
from threegate.request.job import Platform, build_job
from threegate.request.model import Request
from threegate.request.render_draft import render_request
from threegate.runners.backend import policy_facts

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
CORPUS = corpus()
POLICY = make_policy(Settings(), {}, facts=policy_facts(), environment={})
CONTRACTS = compiled({"threegate.monty": {}, "threegate.era": {}})
_NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20),
    st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, -(2**53), 10**300, 0]),
    st.floats(allow_nan=True, allow_infinity=True),
)
_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        _NUMBERS,
        st.text(max_size=12),
        st.sampled_from(["\ud800", "\x00", "\u202e", "<<"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)),
    max_leaves=12,
)


def every_gate(request: Request) -> None:
    """Drive a request through all that reads it between gate 1 and its run, for its judgement, screens and trail."""
    sizes = {item.sha256: 1 for item in request.inputs}
    job = build_job(request, input_sizes=sizes, platform=Platform())
    assert len(job.digest) == 64
    arguments = call_arguments(job)
    call = Call(tool_name(job), arguments, backend=f"threegate.{job.backend.lower()}", call_id="TR-1")
    assert call_from_json(json.loads(json.dumps(call_to_json(call)))) is not None
    call_sha256(call)
    decision = SessionTable(CONTRACTS).decide(call, NOW)
    assess(
        request, job, POLICY, decision, authorization="confirmed", approval_sha256="0" * 64, approved_utc=NOW,
        side_effect_above_read=False, now=NOW,
    )  # fmt: skip
    render_request(request)


@examples(400)
@given(st.dictionaries(st.sampled_from(["a", "b", "rows"]), _VALUES, max_size=3))
def test_inputs_that_gate_1_takes_are_taken_by_all(value: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        report = read(monty().replace('{"limit": 3}', text).encode("utf-8", "surrogatepass"))
        if report.request is not None:
            every_gate(report.request)


@examples(200)
@given(st.integers(0, 2**32))
def test_mutated_requests_that_gate_1_takes_are_taken_by_all(seed: int) -> None:
    source = random.Random(seed)
    report = read(mutate(source.choice(CORPUS), CORPUS, source))
    if report.request is not None:
        every_gate(report.request)


def test_an_integer_that_canonical_json_does_not_have_is_refused_in_gate_1() -> None:
    for number in (9007199254740993, -9007199254740993, Decimal(10) ** 30):
        report = read(
            monty().replace(
                '{"limit": 3}',
                f'{{"n": {number:f}}}' if isinstance(number, Decimal) else f'{{"n": {number}}}',
            )
        )
        assert report.request is None and "TG413" in ids(report)
    assert read(monty().replace('{"limit": 3}', '{"n": 9007199254740991}')).request is not None
