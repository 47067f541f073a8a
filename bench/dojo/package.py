"""AgentDojo in an environment of its own, installed once into a cache outside of the checkout.

    python -m bench.dojo.package            # install it, print its interpreter
    python -m bench.dojo.package --record   # install it, and write tests/data/agentdojo.json

Its own requirements are the clients of a dozen models. What its environments and tools import is 60 MB, so it is
installed without its requirements, and those few beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.own_environment import environment

PACKAGE = "agentdojo==0.1.35"
NEEDS = (
    "pydantic[email]>=2.7.1",
    "docstring-parser>=0.15",
    "pyyaml>=6.0.1",
    "deepdiff>=8.6.1",
    "rich>=13.7.1",
)
SERVER = Path(__file__).with_name("server.py")
RECORDED = Path(__file__).resolve().parents[2] / "tests" / "data" / "agentdojo.json"
SOURCE = (
    f"{PACKAGE.replace('==', ' ')} (github.com/ethz-spylab/agentdojo), MIT licence, copyright (c) 2024 Edoardo "
    "Debenedetti, Jie Zhang, Mislav Balunovic, Luca Beurer-Kellner, Marc Fischer, and Florian Tramèr; made by: python "
    "-m bench.dojo.package --record"
)


def interpreter() -> Path:
    """The Python that has the package, installed now if it is not there. Raises CalledProcessError."""
    return environment("agentdojo", PACKAGE, NEEDS, ("--no-deps", PACKAGE))


def read_package() -> dict[str, Any]:
    """What the package has now, in the form of the recorded file. Raises CalledProcessError."""
    done = subprocess.run(
        [str(interpreter()), "-I", str(SERVER), "--record"], check=True, capture_output=True, text=True
    )
    return {"source": SOURCE, "suites": json.loads(done.stdout)}


def read_recorded() -> dict[str, Any]:
    """The recorded file."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def _lines(value: Any, depth: int = 4) -> str:
    """JSON with a line for each tool and task."""
    text = json.dumps(value, ensure_ascii=False)
    if depth == 0 or len(text) < 100 or not isinstance(value, dict | list):
        return text
    rows = (
        [f"{json.dumps(key)}: {_lines(item, depth - 1)}" for key, item in value.items()]
        if isinstance(value, dict)
        else [json.dumps(item, ensure_ascii=False) for item in value]
    )
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return opened + "\n" + ",\n".join(rows) + "\n" + closed


if __name__ == "__main__":
    if "--record" in sys.argv:
        RECORDED.write_text(_lines(read_package()) + "\n")
        print(RECORDED)
    else:
        print(interpreter())
