"""What was changed × does a waiting approval survive: only what its request depends on voids it, and then the refusal
names what that is, and what to type. The settings of plugins: tests/whole/test_what_voids_an_approval.py.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, daemons, launched
from tests.runners.small_engine import small_engine
from tests.support import era_draft, request_id
from threegate.cli import execute
from threegate.launch.approved_file import Approved, Ended, read_approved
from threegate.launch.completion import refuse_unrunnable
from threegate.runners.era import engine_answer, platforms
from threegate.setup.settings_file import set_values

IMAGE = f"sha256:{'a' * 64}"
OTHER = f"sha256:{'b' * 64}"
CONTRACT = b"tool: threegate.monty\nside_effect: read\n"
KINDS = ("monty", "ERA")
"""A request in Monty of low risk, and one in a container of medium risk."""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(platforms, "PROGRAM", sys.executable)
    monkeypatch.setattr(platforms, "has_extra", lambda name: True)
    monkeypatch.setattr(engine_answer, "ANSWER_AGAIN_SECONDS", 0.0)
    made = make_bench(tmp_path)
    made.settings(
        runners__era__runtime="engine", runners__era__engine=f"unix://{tmp_path}/s", runners__era__image=IMAGE
    )
    return made


def approved(bench: Bench, kind: str) -> tuple[str, Path]:
    """A request that alice approved now: its id and file."""
    name = request_id(kind.lower())
    if kind == "monty":
        return name, bench.approve(bench.draft(name, slug=name)).path
    draft = bench.workspace.inbox / f"{name}.md"
    draft.write_text(era_draft(name, "sort --version"))
    return name, bench.approve(draft).path


def ends(bench: Bench, path: Path, runner: CountingRunner) -> Ended:
    """What the daemon does with it now."""
    context = daemons(bench, runner, 1)[0]
    found = read_approved(context, path)
    ended = launched(context, found) if isinstance(found, Approved) else refuse_unrunnable(context, found)
    assert isinstance(ended, Ended)
    return ended


def put(**values: object) -> Callable[[Bench], None]:
    return lambda bench: bench.settings(**values)


def table(bench: Bench, text: str) -> None:
    with bench.workspace.settings_file.open("a") as file:
        file.write(text)


def write_contract(bench: Bench) -> None:
    (bench.workspace.contracts / "threegate.monty.yaml").write_bytes(CONTRACT)


CHANGES: dict[str, Callable[[Bench], None]] = {
    "a comment": lambda bench: table(bench, "\n# a comment\n"),
    "an operator": lambda bench: bench.operator("bob"),
    "a program": put(request__programs=["python3", "sort", "jq"]),
    "higher limits": put(request__max_cpu=16, request__max_memory_mb=9000, request__max_time_sec=9000),
    "the ttl": put(approval__ttl="30d"),
    "the draft's ttl": put(approval__draft_ttl="1d"),
    "the quorum of another risk": put(approval__quorum__high=3),
    "another account's name": put(requesters__4000000="someone"),
    "the page for passkeys": put(approval__passkey_origin="https://approve.example.org:8443"),
    "the key of a model": put(secrets__openai__env="OPENAI_API_KEY", secrets__openai__host="api.openai.com"),
    "the budget": put(runners__memory_budget_mb=4096, runners__cpu_budget=4),
    "an egress image": put(runners__era__egress_image=OTHER),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_no_approval_depends_on_voids_none(bench: Bench, tmp_path: Path, change: str) -> None:
    runner = CountingRunner()
    with small_engine(tmp_path / "s", IMAGE):
        waiting = [approved(bench, kind)[1] for kind in KINDS]
        CHANGES[change](bench)
        assert [ends(bench, path, runner).code for path in waiting] == ["succeeded", "succeeded"]


class Voids(NamedTuple):
    """A change, the kinds of requests whose approval it voids with which code, and what the refusal names."""

    change: Callable[[Bench], None]
    codes: dict[str, str]
    named: str


BOTH = dict.fromkeys(KINDS, "policy_changed")
VOIDS = {
    "who is asked": Voids(put(approval__signature="optional"), BOTH, "approval.signature changed"),
    "what is returned": Voids(put(results__release="never"), BOTH, "results.release changed"),
    "the risk domain": Voids(put(aana__risk_domain="finance"), BOTH, "aana.risk_domain changed"),
    "the mode of contracts": Voids(put(contracts__mode="shadow"), BOTH, "contracts.mode changed"),
    "principals": Voids(put(principals__core__tier="L2"), BOTH, "principals.core.tier"),
    "a contract": Voids(write_contract, BOTH, "contracts/threegate.monty.yaml changed"),
    "its own quorum": Voids(put(approval__quorum__low=2), {"monty": "shown_changed"}, "approval.quorum changed"),
    "the other's quorum": Voids(put(approval__quorum__medium=2), {"ERA": "shown_changed"}, "approval.quorum changed"),
    "its requester's name": Voids(
        put(**{f"requesters__{os.geteuid()}": "worker"}), dict.fromkeys(KINDS, "shown_changed"), "requesters changed"
    ),
    "its program": Voids(put(request__programs=["python3"]), {"ERA": "job_changed"}, "request.programs changed"),
    "the engine": Voids(
        lambda bench: (
            os.symlink("s", bench.workspace.root.parent / "t")
            or bench.settings(runners__era__engine=f"unix://{bench.workspace.root.parent}/t")
        ),
        {"ERA": "shown_changed"},
        "runners.era.engine changed",
    ),
    "what must be read back": Voids(
        put(runners__era__require_readback=True), {"ERA": "shown_changed"}, "runners.era.require_readback changed"
    ),
    "the image": Voids(put(runners__era__image=OTHER), {"ERA": "job_changed"}, "the ERA image changed"),
}


@pytest.mark.parametrize("change", VOIDS)
def test_what_an_approval_depends_on_voids_it_and_the_line_works(
    bench: Bench, tmp_path: Path, change: str, capfd: pytest.CaptureFixture[str]
) -> None:
    case, runner = VOIDS[change], CountingRunner()
    with small_engine(tmp_path / "s", IMAGE):
        waiting = {kind: approved(bench, kind) for kind in KINDS}
        case.change(bench)
        for kind, (name, path) in waiting.items():
            ended = ends(bench, path, runner)
            assert ended.code == case.codes.get(kind, "succeeded")
            if kind not in case.codes:
                continue
            assert runner.runs[name] == 0 and ended.message.startswith(case.named)
            assert ended.message in ended.result.read_text().replace("\\", "")
            again = re.search(r"; draft it again: (threegate draft --again \S+)$", ended.message)
            assert again is not None, ended.message
            assert execute(["--workspace", str(bench.workspace.root), "status"]) == 0
            assert re.search(r"void: \d approvals? became void in the last day;", capfd.readouterr().out)
            for screen in (("status", "--ended", "20"), ("show", name)):  # the line, whatever it is wrapped to
                assert execute(["--workspace", str(bench.workspace.root), *screen]) == 0
                assert again[1] in " ".join(capfd.readouterr().out.split())
            words = shlex.split(again[1])[1:]
            assert execute(["--workspace", str(bench.workspace.root), *words]) == 0
            fresh = re.search(r"threegate approve (\S+)", capfd.readouterr().out)
            assert fresh is not None and Path(fresh[1]).exists()


def test_a_program_of_which_the_card_warned(bench: Bench, tmp_path: Path) -> None:
    """The Job of a request that says itself that it is of high risk stays: what was shown does not."""
    runner, name = CountingRunner(), request_id("warned")
    draft = bench.workspace.inbox / f"{name}.md"
    draft.write_text(era_draft(name, "jq .").replace("Risk level: low", "Risk level: high"))
    bench.settings(request__programs=["sort"])
    with small_engine(tmp_path / "s", IMAGE):
        path = bench.approve(draft).path
        bench.settings(request__programs=["sort", "jq"])
        ended = ends(bench, path, runner)
    assert (ended.code, runner.runs.total()) == ("shown_changed", 0)
    assert ended.message.startswith("request.programs changed")


def test_limits_below_a_waiting_request_refuse_it(bench: Bench) -> None:
    """They are not in the policy: gate 1 reads the approved file with today's."""
    runner = CountingRunner()
    _, path = approved(bench, "monty")
    set_values(bench.workspace.settings_file, {"request.max_memory_mb": 32})
    ended = ends(bench, path, runner)
    assert (ended.code, runner.runs.total()) == ("request_invalid", 0)
    assert "TG140" in ended.message


def test_a_shorter_ttl_ends_what_was_approved_for_longer(bench: Bench) -> None:
    runner = CountingRunner()
    _, path = approved(bench, "monty")
    bench.settings(approval__ttl="1h")
    ended = ends(bench, path, runner)
    assert (ended.code, runner.runs.total()) == ("expired", 0)
    assert "approval.ttl" in ended.message
