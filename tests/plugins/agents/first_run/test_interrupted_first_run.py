"""The first run is stopped at every step that it makes durable: an error leaves nothing, and after a kill the next one
completes it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import soak
from threegate.core import durable
from threegate.core.errors import ThreeGateError
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace, default_workspace
from threegate.launch.context import open_context
from threegate.plugins.agents.first_run import Made, Missing, ModelAccess, make_missing, remove_made
from threegate.plugins.changes.registered_projects import add_project

EACH = pytest.mark.parametrize("each", [7, soak(1)])
KEY = "sk-what-the-person-typed-0123456789"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, with all that this program keeps below it."""
    for name, folder in {
        "HOME": "",
        "XDG_CONFIG_HOME": "config",
        "XDG_DATA_HOME": "data",
        "XDG_STATE_HOME": "state",
    }.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


def missing(home: Path) -> Missing:
    file = home / "config/threegate/api.openai.com.key"
    return Missing(None, None, ModelAccess("codex", "api.openai.com", secret="codex", file=file, typed=True))


def make(home: Path) -> Workspace:
    return make_missing(missing(home), typed=KEY, locked=False)[0]


def files(home: Path) -> list[str]:
    """Every file in it; locks of the trail's user state are none of what was made."""
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir())


def watched(act: Callable[[int, str, str], None], home: Path) -> Workspace:
    """Make it, and call `act` with the number, name and path of each durable step before it."""
    number = iter(range(1_000_000))

    def observe(moment: str, operation: str, path: str) -> None:
        if moment == "before":
            act(next(number), operation, path)

    end = durable.observe(observe)
    try:
        return make(home)
    finally:
        end()


def steps(home: Path) -> Iterator[int]:
    """The numbers of the steps, one for each kind of step at each place."""
    seen: dict[tuple[str, str], int] = {}
    watched(
        lambda number, name, path: seen.setdefault((name, os.path.basename(path).split("-")[0]), number) and None, home
    )
    yield from sorted(seen.values())


def check(workspace: Workspace) -> None:
    """It works: the trail verifies, nothing blocks launches, and the key is where it belongs."""
    context = open_context(workspace)
    assert context.begin() is None
    assert context.policy.settings.secrets["codex"].host == "api.openai.com"
    assert Path(context.policy.settings.secrets["codex"].file).read_text() == f"{KEY}\n"
    assert len(list(UserState.of("any").folder.parent.glob("ws-*"))) == 1, "no state of an earlier attempt is left"


def killed_at(chosen: int, home: Path) -> None:
    """This process dies before a step."""
    watched(lambda number, name, path: os._exit(9) if number == chosen else None, home)
    os._exit(0)


@EACH
def test_an_error_at_any_step_leaves_nothing(each: int, home: Path) -> None:
    numbers = list(steps(home))[::each]
    assert len(numbers) > 4
    remove_made(Made.read())
    assert files(home) == []
    for chosen in numbers:
        once = [True]

        def fail(number: int, name: str, path: str, chosen: int = chosen, once: list[bool] = once) -> None:
            if number == chosen and once.pop():
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

        with pytest.raises(ThreeGateError) as refused:
            watched(fail, home)
        assert files(home) == [], (chosen, refused.value)
    check(make(home))


@EACH
def test_after_a_kill_at_any_step_the_next_one_completes_it(each: int, home: Path) -> None:
    numbers = list(steps(home))[each // 2 :: each]
    assert len(numbers) > 4
    remove_made(Made.read())
    for chosen in numbers:
        if (child := os.fork()) == 0:
            killed_at(chosen, home)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        check(make(home))
        remove_made(Made.read())
        assert files(home) == [], chosen


def test_a_workspace_that_was_used_and_lost_its_settings_is_not_removed(home: Path) -> None:
    workspace = make(home)
    (home / "project").mkdir()
    if os.geteuid() == 0:  # nothing is changed as root
        os.chown(home / "project", 65534, 65534)
    add_project(workspace, "project", str(home / "project"), actor="account:test")
    workspace.settings_file.rename(home / "away")
    with pytest.raises(ThreeGateError, match="is missing, and the workspace was used"):
        make(home)
    assert workspace.projects_file.exists() and default_workspace() == workspace.root
