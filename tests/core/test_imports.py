"""What is heavy is imported only by the command that needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import monty_draft

HEAVY = (
    "docker",
    "watchdog",
    "fastapi",
    "mcp",
    "textual",
    "uvicorn",
    "jinja2",
    "apprise",
    "prometheus_client",
    "pydantic_monty",
)


def loaded(arguments: list[str]) -> set[str]:
    """Top-level names of the modules that a command line loads."""
    code = (
        "import json, sys\nfrom threegate.cli import execute as run\n"
        f"code = run({arguments!r})\n"
        "print('\\n' + json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code_and_names = json.loads(done.stdout.splitlines()[-1])
    assert code_and_names[0] == 0, done.stdout + done.stderr
    return set(code_and_names[1])


def test_help_loads_nothing_heavy() -> None:
    assert loaded(["--help"]).isdisjoint({*HEAVY, "pydantic", "yaml", "markdown_it", "cryptography", "rich"})


def test_validate_loads_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "TR-20260101-000000Z-x.md"
    path.write_text(monty_draft("TR-x", "1 + 1"))
    assert loaded(["validate", "--stage", "draft", str(path)]).isdisjoint({*HEAVY, "cryptography"})


@pytest.mark.parametrize("module", ["threegate", "threegate.aana"])
def test_the_api_loads_nothing_heavy(module: str) -> None:
    code = f"import sys\nimport {module}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint({*HEAVY, "typer", "rich"})
