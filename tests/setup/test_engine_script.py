"""scripts/engine: what is missing is named, and another home is brought up and down without touching the first."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.engine_fixtures import ENGINE

SCRIPT = Path(__file__).parents[2] / "scripts" / "engine"
pytestmark = [pytest.mark.root, pytest.mark.engine]


def run(*words: str, home: Path, script: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Words with nothing of the test engine in their environment; `script` goes in by the standard input."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "THREEGATE_ENGINE_HOME": str(home)}
    text = None if script is None else script.read_text()
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, input=text, cwd="/")


def test_without_root_what_is_missing_is_named() -> None:
    """In a mount namespace of its own dockerd and debootstrap are no programs any more."""
    home = Path(f"/var/tmp/tg-home-{uuid.uuid4().hex[:8]}")
    home.mkdir()
    os.chown(home, 65534, 65534)
    hide = (
        "for name in dockerd debootstrap; do mount --bind /dev/null $(command -v $name); done; "
        "exec setpriv --reuid 65534 --regid 65534 --clear-groups -- sh -s up"
    )
    try:
        done = run("unshare", "--mount", "--", "sh", "-c", hide, home=home, script=SCRIPT)
    finally:
        shutil.rmtree(home)
    assert done.returncode == 3 and done.stdout == ""
    assert "engine: missing: docker.io debootstrap; install it as root: apt-get install" in done.stderr


@pytest.mark.soak
def test_another_home_goes_up_and_down_beside_the_first() -> None:
    """In a network namespace of its own (a second dockerd would take docker0 away), with the first one's images."""
    home = Path(f"/var/tmp/tg-home-{uuid.uuid4().hex[:8]}")
    apart = ("unshare", "--net", "--", "sh", "-c", 'ip link set lo up; exec sh "$0" "$@"', str(SCRIPT))
    try:
        # There is no network to build images with: an engine, and the word that it has none.
        first = run(*apart, "up", home=home)
        assert first.returncode == 3 and "the ERA image could not be built" in first.stderr
        tags = subprocess.run(
            [str(SCRIPT.parents[1] / "sandbox" / "bootstrap"), "--print-tags"],
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        saved = subprocess.Popen(["docker", "-H", ENGINE, "save", *tags], stdout=subprocess.PIPE)
        subprocess.run(["docker", "-H", f"unix://{home}/docker.sock", "load"], stdin=saved.stdout, check=True)
        assert saved.wait() == 0
        told = run(*apart, "up", home=home)
        assert told.returncode == 0 and f"THREEGATE_TEST_ENGINE=unix://{home}/docker.sock" in told.stdout
        assert run(str(SCRIPT), "down", "--keep", home=home).returncode == 0 and (home / "data").exists()
        assert run(*apart, "up", home=home).stdout == told.stdout
    finally:
        assert run(str(SCRIPT), "down", home=home).returncode == 0
    assert not home.exists()
    assert subprocess.run(["docker", "-H", ENGINE, "version"], capture_output=True).returncode == 0
