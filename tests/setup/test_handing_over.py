"""Root hands a workspace over to an account, whose home and inbox others may write: no link leads elsewhere."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.core.user_state import UserState
from threegate.setup.systemd_service import ServiceStep, plan_install

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of an account that is there."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
    found = pwd.struct_passwd((*NOBODY[:5], str(home), NOBODY[6]))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: found)
    return home


def step(bench: Bench, begins: str) -> ServiceStep:
    plan = plan_install(bench.workspace, name="threegate", user="nobody", era=False)
    (found,) = (step for step in plan.steps if step.what.startswith(begins))
    return found


def test_key_and_head_move_and_belong_to_the_account(bench: Bench, home: Path) -> None:
    workspace_id = bench.workspace.load_settings().workspace.id
    before = UserState.of(workspace_id)
    key = before.key_file.read_bytes()
    (before.folder / "login-bank.json").write_text("{}")
    make, move = step(bench, "make the folder"), step(bench, "move the workspace's key")
    make.do()
    move.do()
    state = home / ".local" / "state" / "threegate" / workspace_id
    assert (state / "workspace.key").read_bytes() == key and not before.folder.exists()
    kept = [state / name for name in ("workspace.key", "head.json", "login-bank.json")]
    owned = [*state.parents[:3], state, *kept]
    assert {path.stat().st_uid for path in owned} == {NOBODY.pw_uid}
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}


@pytest.mark.parametrize("link", [".local", ".local/state/threegate"])
def test_a_link_in_the_home_is_not_followed(bench: Bench, home: Path, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "etc"
    elsewhere.mkdir()
    (home / link).parent.mkdir(parents=True, exist_ok=True)
    (home / link).symlink_to(elsewhere)
    for begins in ("make the folder", "move the workspace's key"):
        with pytest.raises(OSError):
            step(bench, begins).do()
    assert (
        list(elsewhere.iterdir()) == [] and UserState.of(bench.workspace.load_settings().workspace.id).folder.is_dir()
    )


def test_a_link_in_place_of_the_state_is_not_followed(bench: Bench, home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "etc"
    elsewhere.mkdir()
    (elsewhere / "passwd").write_text("root")
    (home / ".local/state/threegate").mkdir(parents=True)
    (home / ".local/state/threegate" / bench.workspace.load_settings().workspace.id).symlink_to(elsewhere)
    with pytest.raises(OSError):
        step(bench, "move the workspace's key").do()
    assert os.listdir(elsewhere) == ["passwd"] and (elsewhere / "passwd").stat().st_uid == 0


def test_a_file_in_place_of_a_folder_of_the_inbox_keeps_its_owner(bench: Bench, home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "shadow"
    secret.write_text("root")
    bench.workspace.files.rmdir()
    os.link(secret, bench.workspace.files)
    with pytest.raises(OSError):
        step(bench, "give ").do()
    assert secret.stat().st_uid == 0
