"""What a command that is typed all day loads: no server, no client of an engine, no application."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import Place, make_place, monty_draft
from threegate.core.public_address import METADATA4, NOT_PUBLIC4
from threegate.runners.egress import secret_forwarder, secret_header

LOADED = """
import sys
from threegate.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
HEAVY = {
    "celery",
    "cryptography.x509",
    "docker",
    "fastapi",
    "jinja2",
    "mcp",
    "requests",
    "textual",
    "threegate.contracts.compiler",
    "threegate.plugins.proposals.rules",
    "urllib3",
    "uvicorn",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def loaded(place: Place, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words], cwd=place.root, capture_output=True, text=True, timeout=120
    )
    broken = words[0] == "doctor" and any(line.startswith("failure") for line in done.stdout.splitlines())
    assert done.returncode == (2 if broken else 0), done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("words", ["status", "audit verify", "doctor --no-probes"])
def test_a_command_that_only_looks_loads_nothing_heavy(
    place: Place, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place.root}/no-engine")
    assert not HEAVY & loaded(place, *words.split())


def test_showing_and_approving_a_draft_without_contracts_loads_nothing_heavy(place: Place) -> None:
    draft = place.drop(monty_draft("TR-a", "1 + 1"))
    assert not HEAVY & loaded(place, "show", str(draft))
    signed = ("--as", "operator", "--key", str(place.key), "--yes")
    assert not HEAVY & loaded(place, "approve", str(draft), *signed)


def test_the_forwarder_is_named_without_loading_it() -> None:
    assert secret_forwarder.LISTEN[1] == secret_header.FORWARD_PORT
    assert [*NOT_PUBLIC4, *METADATA4] == secret_forwarder.NOT_PUBLIC
    assert secret_header.forwarder_source() == Path(secret_forwarder.__file__).read_bytes()


def test_doctor_without_an_engine_loads_no_client_of_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place.root}/no-engine")
    assert not {"docker", "requests", "urllib3"} & loaded(place, "doctor")
