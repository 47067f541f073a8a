"""A cluster that is off, or of which a library is missing: its commands are gone, everybody is told, and nothing that
was meant for a worker runs here unless an operator says so.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.cli import execute
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.plugins import PLUGINS
from threegate.core.settings import Settings, parse_settings
from threegate.core.workspace import Workspace
from threegate.launch.context import daemon_context
from threegate.plugins.cluster.section import ClusterSettings, unit_needs
from threegate.review.readiness import Readiness
from threegate.runners.machine import THIS_MACHINE, machine_of
from threegate.setup.doctor import examine
from threegate.setup.systemd_service import NEEDS
from threegate.trail.payloads import Claimed, Started
from threegate.trail.trail import Trail

SECTION = b"[cluster]\nbroker = 'amqps://broker'\n"
OFF = SECTION + b"[plugins]\noff = ['cluster']\n"
NEEDED = "the plugin cluster needs the extra cluster: pip install 'threegate[cluster]'"

HERE = Workspace(Path("/ws"))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = make_bench(tmp_path)
    monkeypatch.chdir(made.workspace.root)
    return made


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "celery", None)


def plugins_line(bench: Bench) -> list[tuple[str, str]]:
    """What `threegate status` says of plugins."""
    return [(line.state, line.seen) for line in Readiness(bench.workspace).look() if line.name == "plugins"]


def doctor_line(bench: Bench) -> list[tuple[str, str]]:
    """What `threegate doctor` says of this plugin."""
    lines = examine(bench.workspace, probes=False)
    return [(line.state, line.seen) for line in lines if line.name == "plugins" and "cluster" in line.seen]


def test_on_off_and_absent_make_one_policy(no_library: None) -> None:
    absent = parse_settings(SECTION)
    assert absent.unread().keys() == {"cluster"}
    assert absent.deciding() == parse_settings(OFF).deciding() == Settings().deciding()


def test_off_runs_here_and_needs_nothing() -> None:
    on, off = parse_settings(SECTION), parse_settings(OFF)
    assert machine_of(on) is not THIS_MACHINE and unit_needs(HERE, on, 0, False).network and NEEDS.given()
    assert machine_of(off) is THIS_MACHINE and "cluster" not in NEEDS.given(off.plugins.off)
    assert off.deciding() == on.deciding()


def test_a_section_that_is_there_is_read_strictly() -> None:
    with pytest.raises(InvalidInput, match=r"threegate.toml:2: cluster.broker: must match"):
        parse_settings(b"[cluster]\nbroker = 'http://broker'\n", "threegate.toml")
    with pytest.raises(InvalidInput, match=r"runners.cluster: unknown key"):
        parse_settings(b"[runners.cluster]\nbroker = 'amqps://broker'\n", "threegate.toml")
    with pytest.raises(InvalidInput, match=r"cluster: must be a table"):
        parse_settings(b"cluster = 3\n", "threegate.toml")
    assert parse_settings(SECTION).section(ClusterSettings).broker == "amqps://broker"


def verbs_of(noun: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The verbs that the help of a noun shows."""
    assert execute([noun, "--help"]) == 0
    return {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ") and line.strip()}


def test_a_command_of_what_is_off_says_so(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cluster" in verbs_of("settings", capsys) and "worker" in verbs_of("serve", capsys)
    bench.settings(plugins__off=("cluster",))
    assert "cluster" not in verbs_of("settings", capsys) and "worker" not in verbs_of("serve", capsys)
    for words in (["settings", "cluster", "x"], ["serve", "worker", "--help"]):
        assert execute(words) == 64
        off = "is a command of the plugin cluster, which is off (plugins.off in threegate.toml)"
        assert capsys.readouterr().err == f"threegate: {' '.join(words[:2])} {off}\n"
    assert plugins_line(bench) == doctor_line(bench) == [("ok", "cluster is off (plugins.off in threegate.toml)")]


def test_a_command_of_what_is_absent_says_so(
    bench: Bench, no_library: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cluster" not in verbs_of("settings", capsys)
    assert execute(["settings", "cluster", "x"]) == 3
    assert capsys.readouterr().err == f"threegate: {NEEDED}\n"
    assert plugins_line(bench) == []
    assert doctor_line(bench) == [("ok", f"cluster is absent: {NEEDED}")]


def test_the_section_of_what_is_absent_is_a_warning(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.settings(cluster__broker="amqps://broker")
    assert plugins_line(bench) == [] and doctor_line(bench) == [
        ("ok", f"on: {', '.join(plugin.name for plugin in PLUGINS)}")
    ]
    monkeypatch.setitem(sys.modules, "kombu", None)
    said = ("warning", f"{NEEDED}; [cluster] in threegate.toml is not read")
    assert plugins_line(bench) == doctor_line(bench) == [said]
    assert execute(["settings", "check"]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("the settings are valid\n", f"threegate: [cluster] is not read: {NEEDED}\n")


def test_the_daemon_does_not_run_here_what_a_section_sends_elsewhere(bench: Bench, no_library: None) -> None:
    bench.settings(cluster__broker="amqps://broker")
    trail = Trail(bench.workspace)
    with pytest.raises(Unavailable) as refused:
        daemon_context(bench.workspace, trail, bench.context.policy, boot_nonce="0" * 16)
    assert str(refused.value) == (
        f'{NEEDED}; [cluster] in threegate.toml is for it: to run everything here, set plugins.off = ["cluster"]'
    )
    bench.settings(plugins__off=("cluster",))
    daemon_context(bench.workspace, trail, bench.context.policy, boot_nonce="0" * 16).close()
    trail.close()


@pytest.mark.parametrize("how", ["off", "absent"])
def test_the_daemon_does_not_start_while_a_worker_has_a_request(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    trail = Trail(bench.workspace)
    with trail.locked() as held:
        held.append(Claimed(), actor="daemon", request_id="TR-far")
        held.append(Started(backend="monty", worker="w1"), actor="daemon", request_id="TR-far")
        held.append(Claimed(), actor="daemon", request_id="TR-here")
        held.append(Started(backend="monty"), actor="daemon", request_id="TR-here")
        held.sync()
    policy = bench.context.policy
    daemon_context(bench.workspace, trail, policy, boot_nonce="0" * 16).close()  # the plugin is there
    if how == "off":
        bench.settings(plugins__off=("cluster",))
        policy = bench.context.policy
        why = "the plugin cluster is off (plugins.off in threegate.toml)"
    else:
        monkeypatch.setitem(sys.modules, "amqp", None)
        why = NEEDED
    with pytest.raises(Unavailable) as refused:
        daemon_context(bench.workspace, trail, policy, boot_nonce="0" * 16)
    assert str(refused.value) == (
        f"TR-far runs on worker w1, and {why}; start the daemon with the plugin once, which settles it"
    )
    trail.close()
