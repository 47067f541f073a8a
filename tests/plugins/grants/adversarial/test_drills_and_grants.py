"""No grant covers a drill, nor a copy of one."""

from __future__ import annotations

import pytest

from tests.acts.bench_workspace import Bench
from tests.plugins.drills import test_drills_never_run
from tests.plugins.drills.test_drills_never_run import run
from threegate.core.errors import Refused
from threegate.plugins.drills.placed_drill import Drill
from threegate.plugins.grants.giving import finished_request, new_grant
from threegate.plugins.grants.promotion import promote_granted, use_grants
from threegate.plugins.grants.standing_grants import list_grants

bench = test_drills_never_run.bench
drill = test_drills_never_run.drill


def test_no_grant_covers_it(bench: Bench, drill: Drill) -> None:
    bench.settings(grants__allow=True)
    context = bench.context
    new_grant(
        context, finished_request(context, "req-20260101-101010-abcdef"), widened=[], max_uses=9, seconds=900, name="alice", key=bench.keys["alice"]  # noqa: E501
    )  # fmt: skip
    assert use_grants(context) == [] and use_grants(context, [drill.listed(bench.workspace)]) == []
    source = next(bench.workspace.finished.glob("TR-*.md")).read_bytes()
    text = b"\n".join(line for line in source.split(b"\n") if not line.startswith(b"approved_"))
    copy = bench.workspace.inbox / "TR-20260101-000000Z-copy.md"
    copy.write_bytes(text.replace(b"req-20260101-101010-abcdef", drill.request_id.encode()))
    grants = [standing.grant for standing in list_grants(context.workspace, context.trail)]
    with pytest.raises(Refused) as error:
        promote_granted(context, copy, grants)
    assert error.value.code == "replayed"
    run(bench)
