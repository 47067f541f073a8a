"""Escapes from a container: every attempt meets its wall, on runc and on gVisor, and the host's canary stays."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.adversarial.escapes.era_attempts import ATTEMPTS, GVISOR_DIFFERS
from tests.adversarial.escapes.era_tries import Tried, attempt_all, the_host_is_as_it_was, what_came_out_is_plain
from tests.ordinary_user import as_user, home
from threegate.runners.era.walls import NOT_READ

pytestmark = [pytest.mark.engine, pytest.mark.root]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    return attempt_all(tmp_path_factory.mktemp("runc"), "")


@pytest.fixture(scope="module")
def tried_by_user() -> Iterator[Tried]:
    """As an ordinary user who may speak to the engine: that daemon holds every wall as well."""
    with home() as folder:
        yield as_user(attempt_all, folder, "")


@pytest.fixture(scope="module")
def tried_gvisor(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    return attempt_all(tmp_path_factory.mktemp("runsc"), "runsc")


def test_there_are_enough_attempts() -> None:
    assert len(ATTEMPTS) >= 75


@pytest.mark.parametrize("name", ATTEMPTS)
def test_runc(name: str, tried: Tried) -> None:
    assert tried.answers, (tried.outcome.detail, tried.outcome.stderr.kept)
    assert re.fullmatch(ATTEMPTS[name][1], tried.answers[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTEMPTS)
def test_runc_of_an_ordinary_user(name: str, tried_by_user: Tried) -> None:
    assert tried_by_user.answers, (tried_by_user.outcome.detail, tried_by_user.outcome.stderr.kept)
    assert re.fullmatch(ATTEMPTS[name][1], tried_by_user.answers[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ATTEMPTS if name not in GVISOR_DIFFERS])
def test_gvisor(name: str, tried_gvisor: Tried) -> None:
    assert tried_gvisor.answers, (tried_gvisor.outcome.detail, tried_gvisor.outcome.stderr.kept)
    assert re.fullmatch(ATTEMPTS[name][1], tried_gvisor.answers[name])


def test_of_an_ordinary_user(tried_by_user: Tried) -> None:
    """Outside, too, all is as it was."""
    assert NOT_READ not in tried_by_user.outcome.effective_limits.values()
    the_host_is_as_it_was(tried_by_user)
    what_came_out_is_plain(tried_by_user)


def test_the_host_is_as_it_was(tried: Tried) -> None:
    the_host_is_as_it_was(tried)


def test_what_came_out_is_plain(tried: Tried) -> None:
    what_came_out_is_plain(tried)
