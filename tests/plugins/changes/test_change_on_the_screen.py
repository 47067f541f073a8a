"""The screen before a signature holds every field of a change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.acts.bench_workspace import make_bench
from tests.plugins.changes.example_change import PROJECT
from tests.review.test_review_sections import screen_of
from threegate.plugins.changes.action import JobChange, ProjectPlace

CHANGE = JobChange(ProjectPlace("web", "/srv/web", 1, 2, 3), "9" * 64, 4, 1, 1, 1)


def test_every_field_of_a_change_is_on_the_screen(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    path = bench.draft()
    before = screen_of(bench, path)
    after = screen_of(bench, path, job=lambda d: replace(d.job, action=PROJECT))
    signed = [line for line in after if not line.startswith("  job   ")]
    assert signed != [line for line in before if not line.startswith("  job   ")]
    with_change = screen_of(bench, path, job=lambda d: replace(d.job, action=PROJECT.bound(CHANGE)))
    place: dict[str, Any] = {"name": "other", "path": "/srv/other", "device": 99, "inode": 98, "uid": 97}
    counts: dict[str, Any] = {"sha256": "8" * 64, "paths": 91, "deletions": 92, "run_later": 93, "unseen": 94}
    for item, value in (*place.items(), *counts.items()):
        changed = (
            replace(CHANGE, project=replace(CHANGE.project, **{item: value}))
            if item in place
            else replace(CHANGE, **{item: value})
        )
        after = screen_of(bench, path, job=lambda d, c=changed: replace(d.job, action=PROJECT.bound(c)))
        assert any(str(value) in line for line in after) and after != with_change, item
