"""Proposals judged per second on one core, beside the jsonschema library with the schema alone.

Run: .venv/bin/python bench/proposals.py. Ours starts from bytes and applies every semantic rule; the library gets
values that were parsed before. Both see the proposals of the conformance file that the schema accepts.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from jsonschema import Draft202012Validator, FormatChecker

from threegate.core.settings import Settings
from threegate.plugins.proposals.rules import judge_proposal

ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests" / "data" / "clawguard_cases.jsonl"
SCHEMA = ROOT / "schemas" / "agent-action-proposal.schema.json"
ROUNDS = 15
SLICE_SECONDS = 0.15


def rates(first: Callable[[], int], second: Callable[[], int]) -> tuple[float, float]:
    """Medians of proposals a second of one core, in slices that take turns, so that a busy machine slows both alike."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for act, kept in zip((first, second), found, strict=True):
            start, count = time.process_time(), 0
            while (spent := time.process_time() - start) < SLICE_SECONDS:
                count += act()
            kept.append(count / spent)
    return statistics.median(found[0]), statistics.median(found[1])


def main() -> None:
    """Print ours, the reference and the ratio."""
    formats = FormatChecker(formats=["uri", "date-time"])
    schema = Draft202012Validator(json.loads(SCHEMA.read_bytes()), format_checker=formats)
    values = [json.loads(line)["proposal"] for line in CASES.read_text().splitlines()]
    values = [value for value in values if schema.is_valid(value)]
    settings = Settings()
    first = {value["tool"]: value for value in values}
    for name, mix in (
        ("conformance file (a third shell and URLs)", values),
        ("one of each tool", [*first.values()]),
    ):
        measure(name, mix, settings, schema)


def measure(name: str, values: list[dict[str, object]], settings: Settings, schema: Draft202012Validator) -> None:
    """Print ours, the reference and the ratio for one mix of proposals."""
    data = [json.dumps(value).encode() for value in values]

    def ours() -> int:
        for item in data:
            judge_proposal(item, settings=settings)
        return len(data)

    def theirs() -> int:
        for value in values:
            schema.is_valid(value)
        return len(values)

    ours()
    mine, reference = rates(ours, theirs)
    print(f"{name}: {len(values)} proposals")
    print(f"  threegate, bytes to verdict, all rules   {mine:>8.0f} /s")
    print(f"  jsonschema, schema alone, parsed values  {reference:>8.0f} /s")
    print(f"  ratio                                    {mine / reference:>8.1f} x")


if __name__ == "__main__":
    main()
