"""How fast gate 1 is: requests a second on one core, the worst files, and the cold start of the command.

Usage: python bench/validate.py [--files 1000] [--json]. Prints ours, the reference, and the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.adversarial.request.honest import ALL  # noqa: E402
from tests.adversarial.request.hostile import DRAFTS  # noqa: E402
from tests.adversarial.request.worst import WORST  # noqa: E402
from tests.request.examples import era  # noqa: E402
from threegate.core.settings import RequestSettings  # noqa: E402
from threegate.request.reader import read_request  # noqa: E402

AIM_PER_SECOND, AIM_WORST_MS, AIM_COLD = 2000, 100, 2.5
NAME = "TR-20261122-050000Z-bench.md"
NOW = datetime(2026, 11, 22, 5, 30, tzinfo=UTC)
SETTINGS = RequestSettings()


def _read(data: bytes) -> None:
    read_request(data, path=NAME, settings=SETTINGS, now=NOW, stage="draft")


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def per_second(files: int) -> tuple[float, float]:
    """Requests a second for honest files with one hostile in ten, and for honest ones only. Best of five."""
    honest = [_bytes(text) for _, text in ALL]
    hostile = [_bytes(text) for _, text, _ in DRAFTS if len(text) < 4096]
    mixed = [
        hostile[number // 10 % len(hostile)] if number % 10 == 9 else honest[number % len(honest)]
        for number in range(files)
    ]
    return max(_rate(mixed) for _ in range(5)), max(_rate(honest * 5) for _ in range(5))


def _rate(batch: list[bytes]) -> float:
    start = time.process_time()
    for data in batch:
        _read(data)
    return len(batch) / (time.process_time() - start)


def worst() -> list[tuple[float, str]]:
    """The slowest files in milliseconds of processor time, each the best of three."""
    files = [*WORST, *((name, text) for name, text, _ in DRAFTS)]
    return sorted(((min(_milliseconds(_bytes(text)) for _ in range(3)), name) for name, text in files), reverse=True)


def _milliseconds(data: bytes) -> float:
    start = time.process_time()
    _read(data)
    return (time.process_time() - start) * 1000


def cold(runs: int = 9) -> tuple[float, float]:
    """Processor seconds of `threegate validate FILE` and of the bare imports; each the best of alternating runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "inbox" / NAME
        path.parent.mkdir()
        path.write_text(era(), "utf-8")
        ours = [str(Path(sys.executable).with_name("threegate")), "validate", str(path)]
        bare = [sys.executable, "-c", "import yaml, pydantic, markdown_it"]
        pairs = [(_seconds(ours, folder), _seconds(bare, folder)) for _ in range(runs)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def _seconds(command: list[str], folder: str) -> float:
    """Processor time of one process, with its bytecode cached as an installed program has it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    mixed, honest = per_second(given.files)
    slowest = worst()[:5]
    ours, bare = cold()
    if given.json:
        print(
            json.dumps(
                {
                    "per_second": mixed,
                    "honest": honest,
                    "worst_ms": slowest[0][0],
                    "cold": ours,
                    "bare": bare,
                    "ratio": ours / bare,
                }
            )
        )
        return
    print(
        f"{given.files} mixed files, one core: {mixed:.0f} requests/s (honest only {honest:.0f}); aim {AIM_PER_SECOND}"
    )
    for milliseconds, name in slowest:
        print(f"slowest: {milliseconds:6.1f} ms  {name} (aim at most {AIM_WORST_MS})")
    print(f"cold: threegate validate {ours:.3f} s, bare imports {bare:.3f} s, ratio {ours / bare:.2f}; aim {AIM_COLD}")


if __name__ == "__main__":
    main()
