"""Contract decisions a second, beside the same rules in edictum, and the growth with the length of a session.

    .venv/bin/python bench/contracts.py

Four argument rules, a limit and a policy. edictum's `evaluate` is a dry run that leaves its session limits out; ours
checks the limit too. Both run in turn, several rounds, best of each; CPU time of one core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.contracts.material import compiled  # noqa: E402
from threegate.contracts import engine, transitions  # noqa: E402
from threegate.contracts.state import Call, CallOutcome  # noqa: E402

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AIM_A_SECOND = 100_000
AIM_RATIO = 4.0
AIM_GROWTH = 1.5
ARGUMENTS = {"symbol": "ACME", "shares": 10, "side": "buy", "price": 100.5, "note": "x"}
LIMIT = 10**9

OURS: dict[str, Any] = {
    "order": {
        "argument_value_invariants": [
            {"path": "$.symbol", "regex": "^[A-Z]{1,5}$"},
            {"path": "$.shares", "lte": 1000},
            {"path": "$.side", "one_of": ["buy", "sell"]},
            {"path": "$.price", "gte": 0},
        ]
    },
    "session": {
        "session_limits": {"max_calls_per_tool": {"order": LIMIT}},
        "policy": {"rules": [{"deny": {"principal": {"path": "$.role", "equals": "readonly"}}}]},
    },
}

THEIRS = f"""
apiVersion: edictum/v1
kind: Ruleset
metadata: {{name: bench}}
defaults: {{mode: enforce}}
rules:
  - id: symbol
    type: pre
    tool: order
    when: {{not: {{args.symbol: {{matches: "^[A-Z]{{1,5}}$"}}}}}}
    then: {{action: block, message: symbol}}
  - id: shares
    type: pre
    tool: order
    when: {{args.shares: {{gt: 1000}}}}
    then: {{action: block, message: shares}}
  - id: side
    type: pre
    tool: order
    when: {{args.side: {{not_in: [buy, sell]}}}}
    then: {{action: block, message: side}}
  - id: price
    type: pre
    tool: order
    when: {{args.price: {{lt: 0}}}}
    then: {{action: block, message: price}}
  - id: policy
    type: pre
    tool: order
    when: {{principal.role: {{equals: readonly}}}}
    then: {{action: block, message: policy}}
  - id: limit
    type: session
    limits: {{max_calls_per_tool: {{order: {LIMIT}}}}}
    then: {{action: block, message: limit}}
"""


def a_second(work: Callable[[], Any], number: int) -> float:
    """How often `work` runs in a second of CPU time."""
    begun = time.process_time()
    for _ in range(number):
        work()
    return number / (time.process_time() - begun)


def main() -> int:
    """Print the figures; 1 when an aim is missed."""
    import logging

    logging.disable(logging.CRITICAL)
    from edictum import Edictum, Principal

    session = transitions.open_session(compiled(OURS).rules)
    call = Call("order", ARGUMENTS, principal={"role": "trader"})
    transitions.commit(session, call, CallOutcome("succeeded"))
    guard = Edictum.from_yaml_string(THEIRS)
    principal = Principal(role="trader")
    bad = {**ARGUMENTS, "shares": 1001}
    assert engine.decide(session, call, NOW).verdict == "allow"
    assert engine.decide(session, Call("order", bad, principal={"role": "trader"}), NOW).verdict == "block"
    assert guard.evaluate("order", dict(ARGUMENTS), principal=principal).decision == "allow"
    assert guard.evaluate("order", dict(bad), principal=principal).decision != "allow"
    ours = theirs = 0.0
    for _ in range(7):
        ours = max(ours, a_second(lambda: engine.decide(session, call, NOW), 20_000))
        theirs = max(theirs, a_second(lambda: guard.evaluate("order", ARGUMENTS, principal=principal), 1_500))
    print(f"ours                          {ours:12,.0f} decisions a second (aim {AIM_A_SECOND:,})")
    print(f"edictum evaluate              {theirs:12,.0f} decisions a second")
    print(f"ratio                         {ours / theirs:12.1f} (aim {AIM_RATIO})")
    growth = []
    for earlier in (10, 1_000, 100_000):
        long = transitions.open_session(compiled(LONG).rules)
        for number in range(earlier):
            transitions.commit(long, Call("order", {**ARGUMENTS, "shares": number % 9}), CallOutcome("succeeded"))
        rate = max(a_second(lambda long=long: engine.decide(long, LONG_CALL, NOW), 10_000) for _ in range(5))
        growth.append(rate)
        print(f"after {earlier:>7,} calls           {rate:12,.0f} decisions a second (aggregates, loop, limit)")
    spread = growth[0] / growth[-1]
    print(f"growth 10 to 100,000          {spread:12.2f} (aim below {AIM_GROWTH})")
    return int(ours < AIM_A_SECOND or ours / theirs < AIM_RATIO or spread > AIM_GROWTH)


LONG: dict[str, Any] = {
    "order": {},
    "session": {
        "session_limits": {"max_steps": LIMIT, "loop_detection": {"window": 10, "threshold": 10}},
        "aggregates": [
            {"name": name, "metric": name, "tool": "order", "path": "$.shares", "lte": LIMIT, "reason": "r"}
            for name in ("sum", "count", "max", "count_distinct")
        ],
    },
}
LONG_CALL = Call("order", {**ARGUMENTS, "note": "another"})

if __name__ == "__main__":
    sys.exit(main())
