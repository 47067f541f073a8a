"""Each code line of docs/install.md, typed as it stands: in a checkout, or in a folder that has the wheel of this tree
in its `dist/`. Those of the Debian package are typed by test_deb.py.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.type_tour import blocks
from tests.whole.packaging.test_deb import BUILDS_IT
from tests.whole.packaging.test_deb import LINES as OF_DEBIAN
from threegate import __version__
from threegate.core.version import described

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "install.md"
LINES = [line for block in blocks(PAGE.read_text("utf-8")) for line in block.splitlines() if line]
WHEEL = "make wheel"
FIRST = {
    "pipx runpip threegate install 'threegate[tui]'": "pipx install dist/*.whl",
    "~/threegate/bin/pip install 'threegate[tui]'": (
        "python3 -m venv ~/threegate && ~/threegate/bin/pip install dist/*.whl"
    ),
}
"""What adds to an installation, and the line of the page that is typed before it."""
TYPED = [line for line in LINES if line not in (WHEEL, BUILDS_IT, *OF_DEBIAN)]
QUICK = ("uv tool install .", "uv tool install dist/*.whl", "pipx install dist/*.whl")
"""What the slow tests type; the others are minutes on a slow machine, and belong to the long form."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, as `make wheel` makes it."""
    folder = tmp_path_factory.mktemp("built") / "dist"
    made = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "--old-file=.venv/.demo", "wheel"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    removes, builds = made.stdout.splitlines()
    assert removes == "rm -f dist/*.whl" and builds.endswith(" -d dist")
    words = builds.replace("-d dist", f"-d {folder}")
    subprocess.run(["sh", "-ec", words], cwd=ROOT, check=True, capture_output=True, timeout=240)
    [path] = folder.iterdir()
    assert path.name == f"threegate-{__version__}-py3-none-any.whl"
    return path


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the commands pipx and uv: this machine's, or else installed from the package index."""
    folder = tmp_path_factory.mktemp("tools")
    have = {
        name: shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") for name in ("pipx", "uv")
    }
    missing = [name for name, path in have.items() if path is None]
    if missing:
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        python = folder / "venv/bin/python"
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--retries", "5", *missing], check=True, timeout=600)
    for name, path in have.items():
        (folder / name).symlink_to(path or folder / "venv/bin" / name)
    return folder


def configured_index() -> str:
    """The package index that this machine's pip is set to."""
    words = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    said = subprocess.run(words, capture_output=True, text=True).stdout.strip()
    return os.environ.get("PIP_INDEX_URL") or said or "https://pypi.org/simple"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[] if line in QUICK else pytest.mark.soak) for line in TYPED]
)
def test_the_line_installs_what_it_says(line: str, wheel: Path, tools: Path, tmp_path: Path) -> None:
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL", "UV_", "XDG_"))
    }
    environment = {
        **clean,
        "HOME": str(tmp_path),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / ".local/bin"),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
        "UV_DEFAULT_INDEX": configured_index(),
        "UV_CACHE_DIR": uv_cache(tools),
        "UV_NATIVE_TLS": "1",
        "UV_PYTHON": sys.executable,
    }
    shutil.copytree(wheel.parent, tmp_path / "dist")
    in_clone = re.search(r" (?:\.|'\.\[.*\]')$", line) is not None
    script = "\n".join(filter(None, (FIRST.get(line), line)))
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=ROOT if in_clone else tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [command] = [
        path for path in (tmp_path / ".local/bin/threegate", tmp_path / "threegate/bin/threegate") if path.exists()
    ]
    said = subprocess.run([str(command), "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert said.stdout.strip() == f"threegate {described()}", said.stderr
    python = command.resolve().parent / "python"
    [extras] = re.findall(r"\[([a-z,]+)\]", line) or [""]
    modules = {"agents": "h11", "era": "docker", "http": "fastapi", "mcp": "mcp", "tui": "textual", "": "threegate"}
    imports = ", ".join(modules[extra] for extra in extras.split(","))
    subprocess.run([str(python), "-I", "-c", f"import {imports}"], cwd=tmp_path, check=True)
    subprocess.run([str(command), "--help"], cwd=tmp_path, env=environment, check=True, capture_output=True)


@functools.cache
def uv_cache(tools: Path) -> str:
    """uv's cache of this machine, whatever HOME is in the test: packages are not loaded twice."""
    return subprocess.run(
        [str(tools / "uv"), "cache", "dir"], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_page_has_each_tool_from_both_places() -> None:
    assert {*QUICK, *FIRST, *FIRST.values(), WHEEL, BUILDS_IT, *OF_DEBIAN} <= {*LINES}
    for tool in ("pipx install", "uv tool install", "python3 -m venv ~/threegate && "):
        mine = [line for line in TYPED if line.startswith(tool)]
        for end in (".", "'.[agents,era,http,mcp,tui]'", "dist/*.whl", '"$(ls dist/*.whl)[agents,era,http,mcp,tui]"'):
            assert sum(line.endswith(f"install {end}") for line in mine) == 1, (tool, end)


def test_the_readme_installs_by_a_line_of_the_page() -> None:
    readme = [line for block in blocks((ROOT / "README.md").read_text("utf-8")) for line in block.splitlines()]
    assert [line for line in readme if " install " in line and "apt-get" not in line] == [
        "pipx install '.[agents,era,http,mcp,tui]'"
    ] and readme.count(TYPED[1]) == 1


def test_nothing_is_said_to_be_on_an_index() -> None:
    """Until a release is: docs/release.md has a step that changes these pages."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        if page.name != "release.md":
            assert not re.search(r"(?:pipx|uv tool) install '?threegate", page.read_text("utf-8").replace("\n", " ")), (
                page
            )
