"""A report tells of an event of a kind that nothing here knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.bench_workspace import make_bench
from tests.adversarial.trail.test_unknown_kinds import PROBE, SAID, say
from tests.support import threegate
from threegate.core import plugins
from threegate.core.plugins import PLUGINS
from threegate.trail.event import plugin_kinds


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A plugin that no command knows."""
    monkeypatch.setattr(plugins, "PLUGINS", (*PLUGINS, PROBE))
    plugin_kinds.cache_clear()
    yield
    monkeypatch.undo()
    plugin_kinds.cache_clear()


@pytest.mark.usefixtures("probe")
def test_a_report_is_made(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    bench.approve(bench.draft())
    say(bench, SAID, "req-1")
    root = bench.workspace.root
    done = threegate("audit", "report", "--out", str(root / "r.html"), cwd=root)
    assert done.code == 0, done.err
    assert "probe.did" in (root / "r.html").read_text()
