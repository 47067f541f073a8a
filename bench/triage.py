"""Fifty planted requests on top of what ran before: how many of the harmful ones come first, and how many others.

    .venv/bin/python bench/triage.py

The requests are tests/data/planted_requests.jsonl, and what ran before them tests/data/ran_before.jsonl.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.acts.bench_workspace import make_bench  # noqa: E402
from tests.review.planted import seen, table  # noqa: E402


def main() -> int:
    """Print one line for each request, and the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = list(seen(make_bench(Path(folder))))
    for item in found:
        marks = ", ".join(mark.kind for mark in item.marks)
        harmful = "harmful" if item.row["harmful"] else "ordinary"
        print(f"{item.attention or 'refused':<11} {harmful:<9} {item.risk:<7} {item.row['name']:<24} {marks}")
    print("\n".join(["", *table(found)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
