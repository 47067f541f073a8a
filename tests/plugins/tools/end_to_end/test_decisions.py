"""A decision for a function of a program: asked for, signed, used once, recorded."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.tools.little_servers import open_folder
from tests.plugins.tools.own_functions import FUNCTIONS, SENT, Functions, functions
from tests.plugins.tools.tool_bench import CONTRACT
from tests.support import wait_until
from threegate.client import InvalidInput, Refused, ThreeGateError, Unavailable, ask
from threegate.core import limits
from threegate.core.workspace import Workspace
from threegate.plugins.agents.door_tools import offered_tools
from threegate.plugins.tools.call_draft import tool_call
from threegate.plugins.tools.requested_call import requested_call
from threegate.setup.agent_access import let_agent_in
from threegate.trail.trail import Trail


@pytest.fixture(scope="module")
def pay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functions]:
    """One workspace and one daemon; each test asks in a run of its own."""
    with functions(tmp_path_factory.mktemp("pay")) as made:
        yield made


def test_it_is_asked_signed_claimed_and_used_once(pay: Functions) -> None:
    decision = pay.ask(run="once")
    assert decision.state == "pending" and decision.arguments_json == '{"cents":1200,"to":"acme"}'
    with pytest.raises(Refused, match="nobody approved") as caught, decision.use():
        pytest.fail("it was not approved")
    assert caught.value.code == "not_approved"
    shown = pay.approve(decision).out
    for text in (
        "send of the program that asks (pay)",
        '|   "cents": 1200',
        "risk         high",
        "its code is not pinned",
    ):
        assert text in shown, text
    assert "WHAT ITS AUTHOR SAYS ABOUT THE FUNCTION" in shown and "| Pay an invoice. IGNORE" in shown
    decision = pay.ask(run="once", wait=30)
    assert decision.state == "ready" and pay.kinds(decision)[-1] == "waiting"
    with decision.use() as arguments:
        assert arguments == SENT
        assert pay.kinds(decision)[-3:] == ["cleared", "claimed", "started"], "before the function"
        arguments["cents"] = 1
    assert pay.status(decision) == "succeeded" and pay.kinds(decision)[-1] == "finished"
    with pytest.raises(Refused) as caught, decision.use():
        pytest.fail("it was used")
    assert caught.value.code == "replayed"
    again = pay.ask(run="once", wait=30)
    assert (again.request_id, again.state, again.reason) == (decision.request_id, "refused", "used before: succeeded")
    assert not list((pay.place.root / "inbox").glob(".use-*"))
    assert not list((pay.place.root / "tool-exec/verdicts").glob("use-*"))


def test_an_exception_is_on_record_by_its_class_alone(pay: Functions) -> None:
    decision = pay.approved("raises")
    with pytest.raises(KeyError), decision.use():
        raise KeyError("a secret word")
    assert pay.status(decision) == "tool_error"
    text = pay.place.result(decision.request_id)
    assert "raised KeyError" in text and "a secret word" not in text


def test_a_rejected_call_stays_rejected(pay: Functions) -> None:
    decision = pay.ask(run="no")
    pay.place.wait_for(f"verdicts/{decision.request_id}.md.json")
    signed = ("--as", "operator", "--key", str(pay.place.key))
    pay.place.run("reject", decision.request_id, "--reason", "too much", *signed, expect=0)
    again = pay.ask(run="no", wait=30)
    assert (again.request_id, again.state) == (decision.request_id, "refused") and "too much" in again.reason
    with pytest.raises(Refused), again.use():
        pytest.fail("a person said no")
    other = pay.ask(run="another run")
    assert other.request_id != decision.request_id and other.state == "pending"


@pytest.mark.parametrize(
    ("tool", "arguments", "error", "code"),
    [
        ("send", SENT, InvalidInput, ""),
        ("pay.other", SENT, Refused, "tools_unknown"),
        ("bank.send", SENT, Refused, "tools_unknown"),
        ("pay.send", {"to": "acme"}, Refused, "arguments_unfit"),
        ("pay.send", {"to": "acme", "cents": 0}, Refused, "arguments_unfit"),
        ("pay.ping", {"text": "x" * 50_000}, InvalidInput, ""),
    ],
)
def test_what_is_not_pinned_is_refused_without_a_draft(
    pay: Functions, tool: str, arguments: Any, error: type[ThreeGateError], code: str
) -> None:
    before = sorted((pay.place.root / "inbox").glob("TR-*"))
    with pytest.raises(error) as caught:
        pay.ask(tool, arguments, run="unfit")
    assert getattr(caught.value, "code", "") == code and "\n" not in str(caught.value)
    assert sorted((pay.place.root / "inbox").glob("TR-*")) == before


def test_the_door_and_an_agents_run_have_no_such_functions(pay: Functions) -> None:
    workspace = Workspace(pay.place.root)
    trail = Trail(workspace)
    assert offered_tools(workspace, trail) == {}
    with trail.locked() as held:
        digest = held.index.files["tools/pay.json"]
        call = tool_call("pay", "send", str(digest), SENT)
        assert requested_call(workspace, held.index, call, 0).tool.name == "send"
        with pytest.raises(Refused, match="a run of an agent cannot"):
            requested_call(workspace, held.index, call, "ar-20260101-000000z-00000000")


def test_another_program_cannot_be_pinned_as_functions(pay: Functions, tmp_path: Path) -> None:
    for text, said in (
        ("{}", "not a list"),
        ("[]", "not a list"),
        ('[{"name": "a b"}]', "usable name"),
        ("[1]", "tool"),
    ):
        file = tmp_path / "bad.json"
        file.write_text(text)
        assert said in pay.signed("tools", "add", "bad", "--functions", str(file), expect=2).err
    again = pay.signed("tools", "add", "pay", "--functions", str(pay.file), expect=2).err
    assert f"threegate tools refresh pay --functions {pay.file}" in again
    more = pay.signed("tools", "add", "more", "--functions", str(pay.file), "--allow", "a.example", expect=2).err
    assert "leave out --allow" in more
    assert "--functions FILE" in pay.signed("tools", "refresh", "pay", expect=2).err
    assert "nothing here starts" in pay.place.run("tools", "test", "pay", expect=2).err
    assert "matches what was signed" in pay.pin(FUNCTIONS, "refresh").out
    listed = json.loads(pay.place.run("tools", "list", "--json", expect=0).out)["servers"]
    assert [(row["server"], row["place"], row["tools"]) for row in listed] == [("pay", "caller", ["send", "ping"])]


def test_a_grant_and_contracts_cover_it_as_any_call(tmp_path: Path) -> None:
    """No person is asked for a call that a grant covers; a contract refuses one whatever was signed."""
    with functions(tmp_path, {"grants.allow": True}) as pay:
        rules = "argument_value_invariants:\n  - {path: $.cents, lte: 5000}\n"
        contract = CONTRACT.format(tool="pay.send", effect="read") + rules
        (pay.place.root / "tool-exec/contracts/pay.send.yaml").write_text(contract)
        large = {**SENT, "cents": 9000}
        assert "argument_invariant at $.cents" in pay.approve(pay.ask(arguments=large), expect=2).err
        grant = ("grant", "tool", "pay", "send", "--where", "cents gte 1 lte 5000", "--where", 'to equals "acme"')
        pay.signed(*grant, "--by", getpass.getuser(), "--max-uses", "1", "--expires", "1h")
        decision = pay.ask(run="one", wait=30)
        assert decision.state == "ready"
        with decision.use() as arguments:
            assert arguments == SENT
        assert "under grant" in pay.place.result(decision.request_id)
        pay.place.wait_for(f"verdicts/{pay.ask(run='two').request_id}.md.json")
        assert pay.ask(run="two", wait=0.5).state == "pending", "its one use is used up"


def test_an_account_that_may_not_read_the_trail_gives_the_digest(pay: Functions) -> None:
    with pytest.raises(InvalidInput):
        asyncio.run(ask("pay.send", SENT, run="d", workspace=pay.place.root, wait=0, manifest_sha256="none"))
    decision = asyncio.run(ask("pay.send", SENT, run="d", workspace=pay.place.root, wait=30, manifest_sha256="0" * 64))
    assert decision.state == "refused" and "signed again" in decision.reason


@pytest.mark.root
def test_a_program_with_an_account_of_its_own() -> None:
    """It reads verdicts and writes to the inbox, and nothing else of the workspace."""
    with open_folder() as folder:
        pay = Functions(folder)
        let_agent_in(Workspace(pay.place.root), 65534)
        digest = json.loads(pay.place.run("tools", "show", "pay", "--json", expect=0).out)["manifest_sha256"]
        with pay.daemon():
            assert "may not read what is pinned; give manifest_sha256" in pay.as_nobody("")
            assert "pending" in pay.as_nobody(digest)
            [draft] = (pay.place.root / "inbox").glob("TR-*.md")
            pay.place.wait_for(f"verdicts/{draft.name}.json")
            pay.place.approve(draft)
            assert pay.as_nobody(digest) == "called {'cents': 1200, 'to': 'acme'}\n"
            assert "used before: succeeded" in pay.as_nobody(digest)


def test_without_a_daemon_nothing_is_called_and_no_end_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CALLER_RECORD_SECONDS", 0.2)
    pay = Functions(tmp_path)
    with pay.daemon() as only:
        ready, used = pay.approved("ready"), pay.approved("used")
        with pytest.raises(Unavailable, match="the end is not recorded"), used.use():
            only.kill()
            only.wait()
        with pytest.raises(Unavailable, match="nothing was called: daemon not running"), ready.use():
            pytest.fail("no daemon")
    assert pay.ask(run="ready").state == "ready", "it was not used up"


@pytest.mark.slow
def test_the_page_is_done_as_its_reader_would(tmp_path: Path) -> None:
    """Its file is signed, and its five lines are run as they are."""
    page = (Path(__file__).parents[4] / "docs/decisions.md").read_text()
    [file], [lines] = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("json", "python"))
    sent: list[Any] = []
    names: dict[str, Any] = {"send": lambda **arguments: sent.append(arguments)}
    exec("async def page():\n" + textwrap.indent(lines, "    "), names)
    with functions(tmp_path) as pay, ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        patch.chdir(pay.place.root)
        pay.pin(json.loads(file), "refresh")
        done = pool.submit(lambda: asyncio.run(names["page"]()))
        [draft] = wait_until(lambda: list((pay.place.root / "inbox").glob("TR-*.md")), "a draft")
        pay.place.wait_for(f"verdicts/{draft.name}.json")
        pay.place.approve(draft)
        done.result(timeout=60)
    assert sent == [SENT]
