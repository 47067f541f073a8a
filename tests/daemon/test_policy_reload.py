"""What the daemon does about contracts that it cannot list: it goes on, starts nothing meanwhile, and reads them
again.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.acts.bench_workspace import make_bench
from threegate.daemon import policy_reload
from threegate.daemon.policy_reload import PolicyReload


def test_a_folder_that_cannot_be_listed_holds_up_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(tmp_path)
    contracts = bench.workspace.contracts
    (contracts / "sub").mkdir(parents=True, exist_ok=True)
    policy = PolicyReload(bench.workspace, bench.context.trail)

    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(policy_reload, "os", SimpleNamespace(lstat=os.lstat, scandir=refused))
    assert policy.look() is None
    assert policy.is_changing, "nothing is started before it was read again"
