"""A way that a plugin brings adds its checks to those of the core and replaces none; an act that nothing judges
approves nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.approval import material
from tests.approval.material import APPROVED, NOW, WORKSPACE, Approved
from threegate.approval.facts import Check, LaunchFacts, Under
from threegate.approval.launch import check_launch, launch_checks
from threegate.approval.ssh_wire import NAMESPACE_ACT, NAMESPACE_APPROVAL
from threegate.approval.statement import Act, SignedBytes
from threegate.approval.way import WAYS, Given, Way
from threegate.core.errors import Refused

KIND = "threegate-kill/1"
WHY = "the plugin fake is off (plugins.off in threegate.toml)"


def read_any(facts: LaunchFacts, data: bytes) -> Given:
    """The weakest way that a plugin could bring: an act of one kind covers everything, for ever."""
    signed = SignedBytes.parse(data)
    return Given(
        says="read",
        approver=Act.parse(signed.statement, KIND).acted_by,
        approved_utc=APPROVED,
        expires_utc=NOW + timedelta(days=999),
        nonce="7" * 32,
        marks=(facts.request.sha256,),
        checks=iter([Check("covers", True, "", "everything")]),
        signed=signed,
        signed_utc=APPROVED,
        approval_sha256=signed.sha256,
        under=Under("any", 1),
    )


ANY = Way(read_any, ("covers",), is_mine=lambda data: KIND.encode() in data)


def act(key: Path, namespace: str = NAMESPACE_ACT, **changes: Any) -> bytes:
    made = Act(KIND, WORKSPACE, 1, "operator", APPROVED, "0" * 32, {"scope": "session", "name": "x"})
    return material.signed(replace(made, **changes).to_bytes(), key, namespace)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin is on."""
    monkeypatch.setattr(WAYS, "given", lambda off=(): {"fake": ANY})
    monkeypatch.setattr(WAYS, "why_unused", lambda off: None)


@pytest.fixture
def unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin is off."""
    monkeypatch.setattr(WAYS, "given", lambda off=(): {})
    monkeypatch.setattr(WAYS, "why_unused", lambda off: WHY)


def code_of(facts: LaunchFacts) -> str:
    with pytest.raises(Refused) as caught:
        check_launch(facts)
    failed = [check for check in launch_checks(facts) if check.ok is False]
    assert failed[0].code == caught.value.code
    return caught.value.code


@pytest.mark.usefixtures("given")
def test_what_it_says_goes_on_with_what_the_core_verified(approved: Approved) -> None:
    facts = approved.facts(signature=act(approved.key))
    verified = check_launch(facts)
    assert (verified.approved_by, verified.under, verified.authorization) == ("operator", Under("any", 1), "validated")
    assert [signer.name for signer in verified.signers] == ["operator"]
    names = [check.name for check in launch_checks(facts)]
    assert names == [
        "clock", "operators file", "history", "signature file", "not void", "signature", "covers", "used once",
        "requester", "inputs", "ssh-keygen",
    ]  # fmt: skip
    confirms = replace(verified, under=Under("any", 1, confirms=True))
    assert confirms.authorization == "confirmed"


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("clock_went_back", {"clock_behind_sec": 61.0}),
        ("operators_changed", {"recorded_operators": (None, None)}),
        ("approval_void", {"is_void": lambda *marks: True}),
        ("replayed", {"id_used": True}),
        ("replayed", {"nonces": ["7" * 32]}),
        ("self_approval", {"owner": 7, "requesters": {"7": "operator"}}),
        ("input_missing", {"pinned": {}}),
    ],
    ids=["clock", "operators", "void", "id", "nonce", "requester", "inputs"],
)
def test_what_the_core_checks_is_checked_all_the_same(approved: Approved, code: str, changes: dict[str, Any]) -> None:
    assert code_of(approved.facts(signature=act(approved.key), **changes)) == code


@pytest.mark.usefixtures("given")
def test_no_way_spares_the_signature_of_an_operator(approved: Approved, other_key: Path) -> None:
    assert code_of(approved.facts(signature=act(other_key))) == "signer_unknown"
    assert code_of(approved.facts(signature=act(approved.key, NAMESPACE_APPROVAL))) == "signature_invalid"
    assert code_of(approved.facts(signature=act(approved.key, acted_by="somebody"))) == "signer_unknown"
    forged = act(approved.key).replace(b'"session"', b'"subtree"')
    assert code_of(approved.facts(signature=forged)) == "signature_invalid"


@pytest.mark.usefixtures("given")
def test_it_is_asked_only_about_acts_of_its_kind(approved: Approved) -> None:
    assert check_launch(approved.facts()).under is None
    assert code_of(approved.facts(signature=act(approved.key, type="threegate-undo/1"))) == "signature_file_malformed"
    assert code_of(approved.facts(signature=None)) == "signature_missing"


@pytest.mark.usefixtures("unused")
def test_an_act_that_nothing_judges_waits_and_approves_nothing(approved: Approved) -> None:
    for data in (act(approved.key), act(approved.key, type="threegate-undo/1")):
        for changes in ({}, {"mode": "optional"}, {"shown_sha256": None}):
            facts = approved.facts(signature=data, **changes)
            with pytest.raises(Refused, match=r"nothing judges what covers it: the plugin fake is off") as caught:
                check_launch(facts)
            assert caught.value.code == code_of(facts) == "approval_not_judged"
    assert check_launch(approved.facts()).under is None


@pytest.mark.usefixtures("unused")
def test_it_waits_no_longer_than_an_approval_holds(approved: Approved) -> None:
    data = act(approved.key)
    assert code_of(approved.facts(signature=data, now=APPROVED + timedelta(seconds=material.TTL))) == "expired"
    undated = replace(approved.request, approved_utc=None)
    assert code_of(approved.facts(signature=data, request=undated)) == "signature_missing"


@pytest.mark.usefixtures("unused")
@pytest.mark.parametrize("data", [b"", b"{}", b'{"about":{}}\n', b'{"x":"\\"acted_by\\":"}\n-'], ids=repr)
def test_what_is_no_act_is_malformed_as_ever(approved: Approved, data: bytes) -> None:
    assert code_of(approved.facts(signature=data)) == "signature_file_malformed"
