"""Real agents for the tests: installed at first use, or missing with the reason."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import lacks_jail, missing, slow
from tests.plugins.agents.npm_agents import Unavailable, install
from tests.plugins.agents.online import SERVER
from tests.plugins.agents.people import Person, person
from tests.plugins.agents.real_agents import AGENTS, Agent, BareAgent
from tests.plugins.agents.scripted_model import Model, NextStep
from tests.runners.egress_attempts import certificate
from tests.runners.own_internet import Internet, own_internet
from tests.support import THREEGATE, Place, make_place

_LICENSED = pytest.mark.skipif(
    os.environ.get("THREEGATE_CLAUDE_LICENCE") != "accepted",
    reason="Claude Code is proprietary: THREEGATE_CLAUDE_LICENCE=accepted if your licence covers it",
)


def _marks(agent: Agent) -> list[pytest.MarkDecorator]:
    if agent.in_ci:
        return [] if agent.name == "codex" else [pytest.mark.slow]
    return [pytest.mark.soak, *([_LICENSED] if agent.name == "claude" else ())]


EACH_AGENT = [pytest.param(agent, id=agent.name, marks=_marks(agent)) for agent in AGENTS]
"""For `parametrize`: Codex always, the other of CI with the slow tests, all others in `make soak`."""
IN_CI = [pytest.param(agent, id=agent.name, marks=_marks(agent)) for agent in AGENTS if agent.in_ci]


@pytest.fixture
def model() -> Iterator[Callable[[Sequence[NextStep]], Model]]:
    """Starts scripted models, which end with the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(Model(script).serving())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder that an agent works in, empty."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def bare(place: Place, project: Path, tmp_path: Path) -> Iterator[Callable[[Agent, Model], BareAgent]]:
    """Makes an agent ready that has `threegate serve mcp` of the workspace; nothing of it may be left at the end.

    What the server answers is kept in `mcp.out`.
    """
    made: list[BareAgent] = []

    def make(agent: Agent, model: Model) -> BareAgent:
        try:
            install(agent.name)
        except Unavailable as error:
            missing(str(error))
        home = tmp_path / "home"
        home.mkdir()
        record = ["/bin/sh", "-c", '"$@" | tee "$0"', str(tmp_path / "mcp.out")]
        where = ["--workspace", str(place.root), "serve", "mcp", "--log", str(tmp_path / "mcp.jsonl")]
        state = {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
        made.append(BareAgent(agent, home, project, model.url, [*record, *THREEGATE, *where], mcp_environment=state))
        made[-1].prepare()
        return made[-1]

    yield make
    for agent in made:
        assert agent.left_behind() == []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace of its own."""
    return make_place(tmp_path)


def _ways() -> list[str]:
    return ["user", slow("root")] if os.geteuid() == 0 else ["user"]


@pytest.fixture(params=_ways())
def somebody(request: pytest.FixtureRequest) -> Iterator[Person]:
    """Somebody who runs agents in jails: an ordinary account, then root with an account for the agent."""
    jail_programs()
    with person(request.param) as who:
        yield who


@pytest.fixture
def user() -> Iterator[Person]:
    """An ordinary account that runs agents in jails."""
    jail_programs()
    with person("user") as who:
        yield who


def jail_programs() -> None:
    """Skip, or fail where everything is required, without what the jail is made of."""
    if wanting := lacks_jail():
        missing(wanting)


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    """A machine with an internet of its own, and the server of `online`."""
    folder = Path(tempfile.mkdtemp(prefix="tg-internet-", dir="/var/tmp"))
    folder.chmod(0o755)
    certificate(folder)
    try:
        with own_internet(folder, SERVER) as made:
            yield made
    finally:
        shutil.rmtree(folder)
