"""The page that takes passkeys shows no drill and approves none."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.page.passkey_client import PasskeyClient, enrol
from threegate.acts.signing_key import Acting
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.plugins.drills.drills import place_drill, set_drills
from threegate.plugins.drills.placed_drill import Drill
from threegate.plugins.page.commands import commands
from threegate.review.overview import entries
from threegate.review.request_view import view_request
from threegate.trail.trail import Trail


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace in which one request ran and drills are on."""
    bench = make_bench(tmp_path)
    bench.approve(bench.draft("req-20260101-101010-abcdef"))
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    set_drills(bench.context, Acting("alice", bench.keys["alice"]), on=True)
    return bench


@pytest.fixture
def drill(bench: Bench) -> Drill:
    found = place_drill(bench.context, chance=Random(7))
    assert found is not None
    return found


def test_the_page_that_takes_passkeys_has_none(bench: Bench, drill: Drill) -> None:
    real = bench.draft("req-2", slug="real")
    client = PasskeyClient(bench, enrol(bench))
    assert client.log_in().status_code == 200
    (entry,) = [one for one in entries(bench.workspace, "drafts") if one.path.name == drill.name]
    for address in (client.base, f"{client.base}list/drafts"):
        text = client.ask(address).text
        assert real.name in text and drill.name not in text
    for kind, status in (("request", 404), ("approve", 400)):
        address = f"{client.base}{kind}/inbox/{entry.key}"
        given = {"statement": "e30", **client.assertion("e30")} if kind == "approve" else None
        assert client.ask(address, given).status_code == status
        assert drill.name not in client.ask(address, given).text
    taken = (event.payload for event in Trail(bench.workspace).events() if event.request_id == drill.request_id)
    assert list(taken) == []


@pytest.mark.slow
def test_the_commands_of_the_page_that_shows_it_say_nothing(bench: Bench, drill: Drill) -> None:
    (entry,) = entries(bench.workspace, "drafts")
    said = [str(item.line) for item in commands(bench.workspace, entry, view_request(bench.context, entry))]
    assert said and not [text for text in said if "drill" in text.replace(str(bench.workspace.root), "").casefold()]
