"""Each line of docs/install.md for pipx, uv and pip, typed as it stands: from a checkout, and from an index that has
our files.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from threegate.core.version import described

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "install.md"
LINES = re.findall(r"^(?:pipx|uv tool|python3 -m venv ~/threegate).* install .*$", PAGE.read_text("utf-8"), re.M)
QUICK = "uv tool install 'threegate[era,http,mcp,tui]'"
"""What `make test` types; the others are minutes of pip, and belong to the long form."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A simple index (PEP 503) on loopback that has this tree's sdist and wheel and nothing else; its URL, which no
    other run had: uv keeps wheels by the URL of their index, and ports come again.
    """
    home, own = tmp_path_factory.mktemp("index"), secrets.token_hex(8)
    folder = home / own / "simple" / "threegate"
    folder.mkdir(parents=True)
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=240)
    links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in folder.iterdir())
    (folder / "index.html").write_text(f"<!DOCTYPE html><title>threegate</title>{links}")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(home)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/{own}/simple/"
    server.shutdown()
    thread.join()
    server.server_close()


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
    "line", [pytest.param(line, marks=[] if line == QUICK else pytest.mark.soak) for line in LINES]
)
def test_the_line_installs_what_it_says(line: str, index: str, tools: Path, tmp_path: Path) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL", "UV_"))}
    environment = {
        **clean,
        "HOME": str(tmp_path),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / ".local/bin"),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
        "PIP_INDEX_URL": index,
        "PIP_EXTRA_INDEX_URL": configured_index(),
        "UV_INDEX": index,
        "UV_DEFAULT_INDEX": configured_index(),
        "UV_CACHE_DIR": uv_cache(tools),
        "UV_NATIVE_TLS": "1",
        "UV_PYTHON": sys.executable,
    }
    where = ROOT if "." in line.split()[-1].strip("'").partition("[")[0] else tmp_path
    done = subprocess.run(
        ["bash", "-ec", line], cwd=where, env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [command] = [
        path for path in (tmp_path / ".local/bin/threegate", tmp_path / "threegate/bin/threegate") if path.exists()
    ]
    said = subprocess.run([str(command), "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert said.stdout.strip() == f"threegate {described()}", said.stderr
    python = command.resolve().parent / "python"
    extras = "import docker, fastapi, mcp, textual" if "[" in line else "import threegate"
    subprocess.run([str(python), "-I", "-c", extras], cwd=tmp_path, check=True)
    subprocess.run([str(command), "--help"], cwd=tmp_path, env=environment, check=True, capture_output=True)


@functools.cache
def uv_cache(tools: Path) -> str:
    """uv's cache of this machine, whatever HOME is in the test: packages are not loaded twice."""
    return subprocess.run(
        [str(tools / "uv"), "cache", "dir"], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_page_has_each_tool_from_both_places() -> None:
    assert QUICK in LINES
    for tool in ("pipx", "uv tool", "python3 -m venv"):
        mine = [line for line in LINES if line.startswith(tool)]
        assert any("'.[" in line for line in mine) and any("'threegate[" in line for line in mine), tool
