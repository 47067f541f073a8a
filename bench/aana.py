"""Decisions a second on four example events, with the whole envelope, and the 64 KiB worst cases.

    .venv/bin/python bench/aana.py

The named reference is the documented SDK's figure of issue 5 (about 270 us a decision on this kind of machine); the
reference model of the tests is shown beside it as something that anybody can run here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.aana.reference import decide  # noqa: E402
from tests.aana.worst_cases import WORST_CASES  # noqa: E402
from threegate import aana  # noqa: E402
from threegate.plugins.serve.event_examples import EXAMPLES  # noqa: E402

SDK_MICROSECONDS = 270.0
AIM_MICROSECONDS = 20.0
AIM_WORST_MILLISECONDS = 100.0
NOW = datetime(2026, 5, 10, tzinfo=UTC)


def microseconds(call: Callable[[], Any], *, rounds: int = 7, number: int = 3000) -> float:
    """Best of several rounds, microseconds a call of CPU time: what the code costs, not what the neighbours do."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        for _ in range(number):
            call()
        best = min(best, (time.process_time() - begun) / number)
    return best * 1e6


def main() -> int:
    """Print the figures; 1 when an aim is missed."""
    total = 0.0
    for name, example in EXAMPLES.items():
        event = example["value"]
        taken = microseconds(lambda event=event: aana.check_tool_call(event, now=NOW))
        total += taken
        print(f"{name:<32} {taken:7.1f} us")
    mean = total / len(EXAMPLES)
    model = sum(
        microseconds(lambda event=example["value"]: decide(event, NOW), number=500) for example in EXAMPLES.values()
    ) / len(EXAMPLES)
    print(f"{'ours, mean, whole envelope':<32} {mean:7.1f} us   {1e6 / mean:,.0f} decisions a second")
    print(
        f"{'reference SDK (issue 5)':<32} {SDK_MICROSECONDS:7.1f} us   ours is {SDK_MICROSECONDS / mean:.1f} times as "
        "fast"
    )
    print(f"{'tests/aana/reference.py, here':<32} {model:7.1f} us   route and blockers only")
    worst = 0.0
    for name, event in WORST_CASES.items():
        size = len(json.dumps(event, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        taken = microseconds(lambda event=event: aana.check_tool_call(event, now=NOW), rounds=3, number=1) / 1000
        worst = max(worst, taken)
        print(f"{name:<32} {taken:7.1f} ms   {size} bytes")
    print(f"{'worst':<32} {worst:7.1f} ms")
    missed = mean > AIM_MICROSECONDS or worst > AIM_WORST_MILLISECONDS
    print("aims: 20 us a decision, 100 ms at 64 KiB:", "missed" if missed else "met")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
