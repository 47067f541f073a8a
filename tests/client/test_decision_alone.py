"""What `threegate.client` says where nothing can be asked: without its plugin, with values that are not JSON, alone."""

from __future__ import annotations

import asyncio
import enum
import math
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support import make_place
from threegate.client import Decision, InvalidInput, NoWorkspace, Refused, Unavailable, ask
from threegate.core.workspace import Workspace
from threegate.launch.results.verdict import Verdict, write_verdict

CIRCLE: dict[str, Any] = {}
CIRCLE["a"] = CIRCLE


class Word(str):
    """A text of a class of its own."""


class Colour(enum.Enum):
    RED = 1


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_place(tmp_path_factory.mktemp("alone"), settings={"plugins.off": ["tools"]}).root


@pytest.mark.parametrize(
    "arguments",
    [
        {"a": {1, 2}},
        {"a": (1, 2)},
        {"a": b"x"},
        {"a": Decimal(1)},
        {"a": math.nan},
        {"a": math.inf},
        {"a": 2**60},
        {"a": "\ud800"},
        {"a": object()},
        {"a": Colour.RED},
        {1: "a"},
        {None: "a"},
        CIRCLE,
        [1],
        "text",
        None,
    ],
)
def test_values_that_are_not_json_are_refused(root: Path, arguments: Any) -> None:
    with pytest.raises(InvalidInput, match="arguments: not JSON"):
        asyncio.run(ask("pay.send", arguments, run="r", workspace=root))


def test_without_its_plugin_nothing_can_be_asked(root: Path) -> None:
    with pytest.raises(Unavailable, match="needs the plugin tools"):
        asyncio.run(ask("pay.send", {"a": [1, 2.5, None, True, Word("x")]}, run="r", workspace=root))
    with pytest.raises(NoWorkspace):
        asyncio.run(ask("pay.send", {}, run="r", workspace=root / "inbox"))
    assert not list((root / "inbox").glob("TR-*"))


def made(root: Path) -> Decision:
    return Decision("pay.send", "{}", "TR-20260101-000000Z-x", str(root), "ready", "")


def test_it_can_be_stored_and_proves_nothing(root: Path) -> None:
    decision = pickle.loads(pickle.dumps(made(root)))  # noqa: S301 - our own
    assert decision == made(root)
    with pytest.raises(Unavailable, match="nothing was called: daemon not running"), decision.use(workspace=root):
        pytest.fail("no daemon")
    with pytest.raises(AttributeError):
        decision.state = "ready"


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        ("draft", None, "not_approved"),
        ("invalid", None, "not_approved"),
        ("waiting", "quorum_missing", "quorum_missing"),
        ("finished", "succeeded", "replayed"),
        ("refused", "expired", "expired"),
    ],
)
def test_each_state_in_which_nothing_may_begin(
    root: Path, monkeypatch: pytest.MonkeyPatch, state: Any, reason: str | None, code: str
) -> None:
    """As an account sees it that cannot find out whether a daemon runs."""
    monkeypatch.setattr("threegate.client.asked_decision.would_wait", lambda workspace: "")
    file = "TR-20260101-000000Z-x.md"
    verdict = Verdict(file, "0" * 64, None, "draft", True, state, reason)
    write_verdict(Workspace(root), verdict)
    with pytest.raises(Refused) as caught, made(root).use(workspace=root):
        pytest.fail("it may not begin")
    assert caught.value.code == code and "\n" not in str(caught.value)
    assert not list((root / "inbox").glob(".use-*"))


def test_a_signed_call_that_no_daemon_takes_up_begins_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threegate.client.asked_decision.would_wait", lambda workspace: "")
    monkeypatch.setattr("threegate.core.limits.CALLER_GO_SECONDS", 0.1)
    write_verdict(
        Workspace(root),
        Verdict("TR-20260101-000000Z-x.md", "0" * 64, None, "approved", True, "waiting", "caller_absent"),
    )
    with pytest.raises(Unavailable, match="no daemon took it up"), made(root).use(workspace=root):
        pytest.fail("it may not begin")
