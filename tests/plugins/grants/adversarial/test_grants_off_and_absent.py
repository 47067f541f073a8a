"""Grants that are switched off, or whose code was deleted: nothing of theirs runs, nothing is forgotten, and nothing
else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.acts.test_names_and_words import root
from tests.support import wait_until
from threegate.approval.launch import launch_checks
from threegate.cli import execute
from threegate.core.errors import Refused
from threegate.core.plugins import Plugin
from threegate.core.settings import Settings, parse_settings
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.plugins.grants.giving import finished_request, new_grant, revoke_grant
from threegate.plugins.grants.grant import Grant
from threegate.plugins.grants.promotion import promote_granted, use_grants
from threegate.plugins.grants.standing_grants import find_grant
from threegate.plugins.grants.widened import read_widened
from threegate.review.countersign import countersign, facts_now, open_waiting, read_waiting
from threegate.review.status import status_lines
from threegate.trail.event import plugin_kinds
from threegate.trail.trail import Trail

Switch = Callable[[bool], None]
HAD_CODE = Plugin.has_code


@pytest.fixture(params=["off", "absent"])
def switch(request: pytest.FixtureRequest, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Switch]:
    """Switches the plugin, by the settings or by its folder."""

    def by_settings(on: bool) -> None:
        bench.settings(plugins__off=() if on else ("grants",))

    def by_folder(on: bool) -> None:
        monkeypatch.setattr(Plugin, "has_code", lambda self: HAD_CODE(self) and (on or self.name != "grants"))
        plugin_kinds.cache_clear()  # as in another process: the kinds of its events are there or not

    yield by_settings if request.param == "off" else by_folder
    monkeypatch.undo()
    plugin_kinds.cache_clear()


@pytest.fixture
def ran(bench: Bench) -> Bench:
    """A workspace with grants allowed, in which req-1 ran."""
    bench.settings(grants__allow=True)
    bench.approve(bench.draft())
    daemon(bench)
    return bench


def daemon(bench: Bench) -> None:
    """Let the daemon do what there is to do, in this process."""
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0


def give(bench: Bench, *, uses: int = 2, seconds: int = 3600) -> Grant:
    approved = finished_request(bench.context, "req-1")
    widened = read_widened(approved.job, ["inputs.data.csv gte 0 lte 100"])
    return new_grant(
        bench.context, approved, widened=widened, max_uses=uses, seconds=seconds, name="alice", key=bench.keys["alice"]
    )


def promoted(bench: Bench, request_id: str = "req-2") -> Path:
    """A request that the grant covers, where the daemon has put it."""
    bench.draft(request_id, slug=request_id)
    (found,) = use_grants(bench.context)
    return found.path


def claims(bench: Bench) -> list[str | None]:
    """The requests that ran."""
    return [event.request_id for event in Trail(bench.workspace).events() if event.type == "claimed"]


def why(bench: Bench, path: Path) -> list[str]:
    """The codes of the checks that fail."""
    facts = facts_now(bench.context, read_waiting(bench.context, path))
    return [check.code for check in launch_checks(facts) if check.ok is False]


def uses(bench: Bench, grant: Grant) -> int | None:
    return find_grant(bench.workspace, Trail(bench.workspace), grant.id).uses


def test_off_and_absent_and_the_defaults_make_one_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = b"[grants]\nallow = true\n"
    assert parse_settings(allowed).deciding() != Settings().deciding()
    off = parse_settings(allowed + b"[plugins]\noff = ['grants']\n")
    monkeypatch.setattr(Plugin, "has_code", lambda self: self.name != "grants")
    absent = parse_settings(allowed)
    assert absent.unread().keys() == {"grants"}
    assert absent.deciding() == off.deciding() == parse_settings(b"").deciding()


def test_switching_what_nobody_uses_voids_no_approval(bench: Bench, switch: Switch) -> None:
    waits = bench.approve(bench.draft()).path
    switch(False)
    assert why(bench, waits) == []
    daemon(bench)
    also = bench.approve(bench.draft("req-2", slug="two")).path
    switch(True)
    assert why(bench, also) == []
    daemon(bench)
    assert claims(bench) == ["req-1", "req-2"]


def test_a_grant_covers_no_draft_while_it_is_off(ran: Bench, switch: Switch) -> None:
    give(ran)
    switch(False)
    draft = ran.draft("req-2", slug="two")
    daemon(ran)
    assert draft.exists() and claims(ran) == ["req-1"]
    ran.approve(draft)
    daemon(ran)
    assert claims(ran) == ["req-1", "req-2"], "a person can sign it as ever"


def test_what_was_promoted_waits_and_runs_once_it_is_on_again(
    ran: Bench, switch: Switch, capsys: pytest.CaptureFixture[str]
) -> None:
    grant = give(ran)
    path = promoted(ran)
    switch(False)
    daemon(ran)
    assert path.exists() and why(ran, path) == ["approval_not_judged"]
    (line,) = [line for line in status_lines(ran.workspace) if line.file == path.name]
    assert (line.state, line.reason) == ("waiting", "approval_not_judged")
    assert line.for_whom == "operator: turn its plugin on, or: threegate cancel FILE"
    assert line.under_grant.startswith(f"under grant {grant.id[:12]}, given by alice")
    waiting, _ = open_waiting(ran.context, path)
    with pytest.raises(Refused, match="nobody signed this request"):
        countersign(ran.context, waiting, "bob", ran.keys["alice"])
    capsys.readouterr()
    assert execute([*root(ran), "audit", "approval", path.name]) == 2
    assert "the plugin grants is" in capsys.readouterr().out
    assert claims(ran) == ["req-1"]
    switch(True)
    assert uses(ran, grant) == 0
    daemon(ran)
    assert claims(ran) == ["req-1", "req-2"] and uses(ran, grant) == 1


def test_its_count_is_as_it_was(ran: Bench, switch: Switch) -> None:
    grant = give(ran)
    promoted(ran)
    daemon(ran)
    assert uses(ran, grant) == 1
    switch(False)
    ran.approve(ran.draft("req-between", slug="between"))
    daemon(ran)
    assert execute([*root(ran), "audit", "verify"]) == 0
    switch(True)
    assert uses(ran, grant) == 1
    promoted(ran, "req-3")
    daemon(ran)
    assert uses(ran, grant) == 2
    ran.draft("req-4", slug="four")
    assert use_grants(ran.context) == [], "both uses are gone"


def test_a_use_that_waits_is_promised_still(ran: Bench, switch: Switch) -> None:
    give(ran, uses=1)
    promoted(ran)
    switch(False)
    daemon(ran)
    switch(True)
    ran.draft("req-3", slug="three")
    assert use_grants(ran.context) == []


def test_its_expiry_is_as_it_was(ran: Bench, switch: Switch) -> None:
    grant = give(ran, seconds=3)
    path = promoted(ran)
    switch(False)
    daemon(ran)
    wait_until(lambda: datetime.now(UTC) > grant.expires_utc)
    switch(True)
    assert why(ran, path) == ["expired"]
    with pytest.raises(Refused) as caught:
        promote_granted(ran.context, ran.draft("req-3", slug="three"), [grant])
    assert caught.value.code == "expired"
    daemon(ran)
    assert claims(ran) == ["req-1"] and (ran.workspace.refused / path.name).exists()


def test_one_that_was_revoked_stays_revoked(ran: Bench, switch: Switch) -> None:
    grant = give(ran)
    path = promoted(ran)
    revoke_grant(ran.context, grant.id, actor="test")
    switch(False)
    daemon(ran)
    switch(True)
    assert why(ran, path) == ["grant_missing"] and uses(ran, grant) is None


def test_an_approval_of_one_request_does_not_hang_on_grants_and_a_grant_hangs_on_all_that_decides(
    ran: Bench, switch: Switch
) -> None:
    """Whoever signs a request sees it; a grant signs none, so any other policy is not the one it was given for."""
    switch(False)
    path = ran.approve(ran.draft("req-2", slug="two")).path
    switch(True)
    assert why(ran, path) == []
    give(ran)
    under = promoted(ran, "req-3")
    assert why(ran, under) == []
    for setting in ({"approval__quorum__high": 2}, {"requesters__4000000": "x"}, {"secrets__a__env": "A"}):
        before = ran.workspace.settings_file.read_bytes()
        ran.settings(**setting)
        assert why(ran, under) == ["policy_changed"]
        ran.workspace.settings_file.write_bytes(before)


def test_without_its_file_nothing_runs_unsigned(ran: Bench, switch: Switch) -> None:
    """Whoever can write to approved/ takes the grant away, where requests of low risk may run by hand."""
    ran.settings(approval__signature="optional")
    ran.approve(ran.draft("req-0", slug="zero"))
    daemon(ran)
    give(ran)
    path = promoted(ran)
    path.with_name(f"{path.name}.sig").unlink()
    switch(False)
    assert why(ran, path)[0] == "signature_missing"
    daemon(ran)
    assert "req-2" not in claims(ran)


def test_another_act_in_its_place_is_no_way_round(ran: Bench, switch: Switch) -> None:
    """A grant that nobody signed, and one whose bytes were changed, wait as well and run never."""
    give(ran)
    path = promoted(ran)
    signature = path.with_name(f"{path.name}.sig")
    data = signature.read_bytes()
    switch(False)
    for changed in (
        data.replace(b'"max_uses":2', b'"max_uses":9'),
        data.replace(b"threegate-grant/1", b"threegate-kill/1"),
    ):
        signature.write_bytes(changed)
        assert why(ran, path) == ["approval_not_judged"]
    daemon(ran)
    assert claims(ran) == ["req-1"]
    switch(True)
    assert why(ran, path)[0] == "signature_file_malformed"
    daemon(ran)
    assert claims(ran) == ["req-1"]


def test_its_commands_are_gone(
    bench: Bench,
    switch: Switch,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(bench.workspace.root)
    switch(False)
    assert execute(["grant", "list"]) == {"off": 64, "absent": 3}[request.node.callspec.params["switch"]]
    assert execute(["--help"]) == 0
    assert "\n  grant " not in capsys.readouterr().out
