"""The TypeScript client, built once for all tests of this folder from what is tracked."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.agents.npm_agents import asked_again

ROOT = Path(__file__).parents[4]


def npm(folder: Path, *arguments: str, expect: int = 0) -> str:
    """Run npm quietly; its standard output."""
    done = subprocess.run(
        ["npm", *arguments], cwd=folder, capture_output=True, text=True, timeout=280,
        env={**os.environ, "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_update_notifier": "false"},  # noqa: E501
    )  # fmt: skip
    assert done.returncode == expect, f"npm {' '.join(arguments)}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, built in a copy that holds only what is tracked; the packages come from the npm registry. All
    workers of a run have the same one, which the first makes.
    """
    for program in ("node", "npm"):
        if not shutil.which(program):
            missing(f"{program} (apt-get install nodejs npm)")
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "typescript"
    root.mkdir(exist_ok=True)
    with (root / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (root / "built").exists():
            build(root)
            (root / "built").touch()
    return root / "clients" / "typescript"


def build(root: Path) -> None:
    """Copy, install and compile it."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-co", "--exclude-standard", "clients/typescript", "schemas"],  # noqa: E501
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in [*listed, *(f"tests/data/{path.name}" for path in (ROOT / "tests/data").glob("*.jsonl"))]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    shutil.copytree(ROOT / "examples", root / "examples", dirs_exist_ok=True)
    folder = root / "clients" / "typescript"

    def attempt() -> str:
        try:
            npm(folder, "ci", "--ignore-scripts", "--prefer-offline", "--fetch-retries", "5")
        except AssertionError as error:
            return str(error)
        return ""

    assert not (error := asked_again(attempt)), error
    npm(folder, "run", "build")
