"""Fuzzes gate 1 with mutations of the honest and hostile files: no crash, no hang, valid ones mean the same rendered.

Usage: python bench/fuzz_request.py [--inputs 1000000] [--seconds 600] [--seed 0] [--jobs 1]
Ends at whichever comes first; exit 1 at the first failure, with the seed that shows it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.validate import NAME, NOW, SETTINGS  # noqa: E402
from tests.adversarial.request.mutations import corpus, mutate  # noqa: E402
from threegate.request.reader import read_request  # noqa: E402
from threegate.request.render_draft import render_request  # noqa: E402

SLOW_SECONDS = 1.0
"""Processor time after which one input of at most 70 KB counts as a hang."""


class Failure(Exception):
    """One input broke a promise; the text says which and how to see it again."""


def check(seed: int, files: list[bytes]) -> tuple[bool, float]:
    """Read the input of one seed. Returns whether it was valid and the processor seconds. Raises Failure."""
    source = random.Random(seed)
    data = mutate(source.choice(files), files, source)
    start = time.process_time()
    report = read_request(data, path=NAME, settings=SETTINGS, now=NOW, stage="draft")
    took = time.process_time() - start
    if any(finding.rule == "TG199" for finding in report.findings):
        raise Failure(f"seed {seed}: the reader failed")
    if took > SLOW_SECONDS:
        raise Failure(f"seed {seed}: {took:.2f} s")
    if report.request is not None:
        again = read_request(render_request(report.request), path=NAME, settings=SETTINGS, now=NOW, stage="draft")
        if again.request is None or replace(again.request, data=b"", sha256="") != replace(
            report.request, data=b"", sha256=""
        ):
            raise Failure(f"seed {seed}: rendering changes the request: {again.findings}")
    return report.valid, took


def run(first: int, inputs: int, seconds: float) -> tuple[int, int, float, int]:
    """Inputs read, valid ones, the slowest in seconds and its seed. Raises Failure."""
    files = corpus()
    end = time.monotonic() + seconds
    valid, slowest, seed_of_slowest, number = 0, 0.0, first, 0
    for number in range(1, inputs + 1):
        good, took = check(first + number - 1, files)
        valid += good
        if took > slowest:
            slowest, seed_of_slowest = took, first + number - 1
        if number % 256 == 0 and time.monotonic() > end:
            break
    return number, valid, slowest, seed_of_slowest


def main() -> int:
    """Run, and print one line of figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    share = given.inputs // given.jobs
    parts = [(given.seed + job * share, share, given.seconds) for job in range(given.jobs)]
    try:
        with get_context("fork").Pool(given.jobs) as pool:
            done = pool.starmap(run, parts)
    except Failure as failure:
        print(failure)
        return 1
    slowest = max(done, key=lambda item: item[2])
    print(
        f"{sum(item[0] for item in done)} inputs, {sum(item[1] for item in done)} valid, no crash, no hang; "
        f"slowest {slowest[2] * 1000:.0f} ms (seed {slowest[3]})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
