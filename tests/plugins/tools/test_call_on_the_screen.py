"""The screen before a signature holds every field of a call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.acts.bench_workspace import make_bench
from tests.review.test_review_sections import screen_of
from threegate.plugins.tools.action import JobServer, ToolCall

CALL = ToolCall("notes", "add", "6" * 64, '{"text":"hello"}')
SERVER = JobServer("jail", ("/usr/bin/notes",), ("a.example:443",), ("/srv/n (read-only)",), ("NOTES_TOKEN",))


def test_every_field_of_a_call_is_on_the_screen(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    path = bench.draft()
    before = screen_of(bench, path)
    after = screen_of(bench, path, job=lambda d: replace(d.job, action=CALL))
    signed = [line for line in after if not line.startswith("  job   ")]
    assert signed != [line for line in before if not line.startswith("  job   ")]
    with_call = screen_of(bench, path, job=lambda d: replace(d.job, action=CALL.bound(SERVER)))
    parts: dict[str, Any] = {"server": "other-1", "tool": "other-2", "manifest_sha256": "7" * 64}
    parts |= {"place": "host", "argv": ("/other-3",), "hosts": ("other-4",), "binds": ("/other-5",)}
    parts |= {"arguments_json": '{"other-6":1}', "secrets": ("OTHER_7",), "account": "other-8"}
    parts |= {"url": "https://other-9/"}
    for item, value in parts.items():
        called = replace(CALL, **{item: value}) if hasattr(CALL, item) else CALL
        on = replace(SERVER, **{item: value}) if hasattr(SERVER, item) else SERVER
        after = screen_of(bench, path, job=lambda d, c=called, s=on: replace(d.job, action=c.bound(s)))
        looked = value[0] if isinstance(value, tuple) else value.strip("{}").partition(":")[0]
        assert any(looked in line for line in after) and after != with_call, item
