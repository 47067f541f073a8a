"""What a command that is typed all day loads: modules are counted, not milliseconds (bench/cli.py has those)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import Place, collects_as_usual, make_place, monty_draft
from threegate.runners.egress import secret_forwarder, secret_header

COUNT = """
import sys
from threegate.cli import main
try:
    main()
finally:
    print(len(sys.modules), *sys.modules, file=sys.stderr)
"""
HEAVY = {
    "cryptography",
    "docker",
    "jsonpath_rfc9535",
    "markdown_it",
    "pathspec",
    "pydantic",
    "pydantic_monty",
    "threegate.contracts.compiler",
    "threegate.aana.guard",
    "threegate.judgement.judge",
    "threegate.plugins.proposals.rules",
    "http.client",
    "ssl",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def loaded(place: Place, *words: str) -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *words], cwd=place.root, capture_output=True, text=True, timeout=120
    )
    broken = words[0] == "doctor" and any(line.startswith("failure") for line in done.stdout.splitlines())
    assert done.returncode == (2 if broken else 0), done.stderr
    count, *names = done.stderr.splitlines()[-1].split()
    return int(count), set(names)


@pytest.mark.parametrize(
    ("words", "most", "needed"),
    [
        (("status",), 307, {"cryptography"}),
        (("audit", "verify"), 246, set()),
        (("doctor", "--no-probes"), 428, {"cryptography", "pydantic_monty", "ssl"}),
    ],
)
def test_a_command_that_only_looks_loads_no_gate(
    place: Place, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], most: int, needed: set[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place.root}/no-engine")
    count, names = loaded(place, *words)
    assert count <= most
    assert not (HEAVY - needed) & names


def test_showing_a_draft_reads_it_and_judges_nothing(place: Place) -> None:
    draft = place.drop(monty_draft("TR-a", "1 + 1"))
    count, names = loaded(place, "show", str(draft))
    assert count <= 420
    assert not (HEAVY - {"cryptography", "markdown_it"}) & names


def test_approving_without_contracts_loads_the_gates_and_no_compiler(place: Place) -> None:
    draft = place.drop(monty_draft("TR-a", "1 + 1"))
    key = str(place.key)
    count, names = loaded(place, "approve", str(draft), "--as", "operator", "--key", key, "--yes")
    assert count <= 578
    gates = {"threegate.aana.guard", "threegate.judgement.judge", "markdown_it", "pydantic_monty"}
    assert not (HEAVY - gates - {"cryptography", "ssl"}) & names


@pytest.mark.parametrize(("words", "at_once"), [(["status"], False), (["run", "--once"], True)])
def test_only_a_command_that_ends_soon_puts_off_looking_for_garbage(
    place: Place, words: list[str], at_once: bool
) -> None:
    assert collects_as_usual(*words, cwd=place.root) == at_once


def test_the_forwarder_is_named_without_loading_it() -> None:
    assert secret_forwarder.LISTEN[1] == secret_header.FORWARD_PORT
    assert secret_header.forwarder_source() == Path(secret_forwarder.__file__).read_bytes()


def test_doctor_without_an_engine_loads_no_client_of_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place.root}/no-engine")
    done = subprocess.run(
        [sys.executable, "-c", COUNT, "doctor"], cwd=place.root, capture_output=True, text=True, timeout=120
    )
    count, *names = done.stderr.splitlines()[-1].split()
    assert "no container engine: " in done.stdout and int(count) <= 433
    assert not {"docker", "requests", "urllib3"} & set(names)
