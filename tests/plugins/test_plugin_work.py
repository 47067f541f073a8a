"""What plugins do in the daemon is started once the settings or the trail ask for it, and not before."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.changes.applying import own
from tests.plugins.changes.trees_on_disk import build
from tests.support import Place, make_place, monty_draft, request_id, wait_until
from threegate.core.plugins import PLUGINS
from threegate.core.workspace import Workspace
from threegate.daemon.plugin_work import WORK, plugins_in_use
from threegate.setup.settings_file import set_values
from threegate.trail.event import make_event
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import Started
from threegate.trail.trail import Trail

MODULES = {f"threegate.plugins.{plugin.name}.{plugin.offers[WORK.name].partition(':')[0]}" for plugin in WORK.plugins()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def settings_file(place: Place) -> Path:
    return Workspace(place.root).settings_file


def in_use(place: Place) -> set[str]:
    with Trail(Workspace(place.root)).locked() as held:
        return plugins_in_use(Workspace(place.root).load_settings(), held.index)


def imported(place: Place) -> set[str]:
    """The modules with the work of plugins that one pass imports."""
    program = "import sys; from threegate.cli import execute; code = execute(['run', '--once']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; sys.exit(code)"],
        cwd=place.root, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return MODULES & set(done.stdout.split())


def test_a_plain_request_imports_none_of_it(place: Place) -> None:
    rid = request_id("plain")
    place.approve(place.drop(monty_draft(rid, "1 + 1")))
    assert len(MODULES) >= 5 and imported(place) == set()
    assert [event["data"]["status"] for event in place.events("finished")] == ["succeeded"] and in_use(place) == set()
    place.run("operator", "drills", "on", "--as", "operator", "--key", str(place.key), expect=0)
    assert imported(place) == {"threegate.plugins.drills.drill_watch"}


@pytest.mark.parametrize("plugin", [plugin for plugin in PLUGINS if plugin.named("settings")], ids=lambda it: it.name)
def test_a_section_asks_for_it(plugin, place: Place) -> None:
    examples = {
        "changes": {"project.root": "/srv/web"},
        "cluster": {"cluster.broker": "amqps://127.0.0.1"},
        "drills": {"drills.every": "1d"},
        "evidence": {"metrics.interval": "20s"},
        "grants": {"grants.allow": True},
        "page": {"notify.urls": ["json://127.0.0.1:1"]},
        "proposals": {"proposals.search_url": "https://search.example/?q={query}"},
        "tools": {"tools.client_metadata_url": "https://example.org/threegate.json"},
    }
    set_values(settings_file(place), examples[plugin.name])
    assert in_use(place) == {plugin.name}
    # Also while it is off: it may have something to finish.
    set_values(settings_file(place), {"plugins.off": [plugin.name]})
    assert in_use(place) == {plugin.name}


def test_an_event_asks_for_it_after_all_else_is_gone(place: Place, tmp_path: Path) -> None:
    project = tmp_path / "web"
    own(build(project, {"a": "b"}))
    place.run("project", "add", "web", str(project), expect=0)
    place.run("project", "remove", "web", expect=0)
    assert in_use(place) == {"changes"}


def test_a_run_in_its_backend_asks_for_it(place: Place) -> None:
    """Without an event of its kinds: the project of a change may have been one of the settings."""
    index = TrailIndex()
    for seq, backend in enumerate(("monty", "apply", "mcp", "gone"), 1):
        event = make_event(
            seq=seq, time="2026-11-22T05:06:07.123Z", type=Started.kind, request_id=f"r-{seq}", actor="daemon",
            data=Started(backend=backend).to_data(), prev=index.head.hash or "ws-" + "0" * 32,
        )  # fmt: skip
        index.add(event)
    assert index.backends == dict.fromkeys(("monty", "apply", "mcp", "gone"), 1)
    assert plugins_in_use(Workspace(place.root).load_settings(), index) == {"changes", "tools"}


def test_settings_that_change_start_it(place: Place, tmp_path: Path) -> None:
    """A daemon that runs, and a section that is written meanwhile."""
    numbers = tmp_path / "gate.prom"
    daemon = place.daemon()
    try:
        wait_until(Workspace(place.root).daemon_lock_held, "a daemon with the settings of before")
        set_values(settings_file(place), {"metrics.textfile": str(numbers), "metrics.interval": "1s"})
        wait_until(lambda: numbers.exists() and "threegate_daemon_running 1" in numbers.read_text(), "the numbers")
    finally:
        daemon.send_signal(signal.SIGTERM)
        _, said = daemon.communicate(timeout=60)
    assert daemon.returncode == 0, said
    assert "threegate_daemon_running 0" in numbers.read_text()
