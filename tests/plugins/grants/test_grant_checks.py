"""A grant at launch, stretched in each dimension: every stretch is refused with its code."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.approval import material
from tests.approval.material import APPROVED, NOW, POLICY, WORKSPACE
from tests.plugins.changes.example_change import PROJECT
from tests.plugins.tools.example_call import CALL
from threegate.approval.facts import LaunchFacts, Under
from threegate.approval.launch import check_launch, launch_checks
from threegate.approval.ssh_wire import NAMESPACE_ACT, NAMESPACE_APPROVAL, MalformedError
from threegate.approval.statement import Act
from threegate.core.errors import Refused
from threegate.core.settings import QuorumSettings, Settings, parse_settings
from threegate.plugins.grants.constraint import Constraint
from threegate.plugins.grants.grant import GRANT_TYPE, Grant, covers, terms
from threegate.plugins.grants.widened import Widened
from threegate.request.action import Command, Script
from threegate.request.job import Job, JobInput

OWNER = 1000
ALLOWED = parse_settings(b"[grants]\nallow = true\n")
ANY_SIZE = Widened("inputs.data.csv", Constraint.read("gte 0 lte 1000000", ["integer"]))


def about(job: Job, **changes: Any) -> dict[str, Any]:
    """The terms of a grant that leaves the content of the input open."""
    made = terms(
        job, from_request="req-0", widened=[ANY_SIZE], owner=OWNER, policy_sha256=POLICY, max_uses=3,
        expires_utc=NOW + timedelta(days=1),
    )  # fmt: skip
    return {**made, **changes}


def granted(key: Path, *, namespace: str = NAMESPACE_ACT, act: dict[str, Any] | None = None, **changes: Any) -> bytes:
    job = material.make_job(material.make_request())
    made = Act(GRANT_TYPE, WORKSPACE, 1, "operator", APPROVED, "0" * 32, about(job, **changes))
    return material.signed(replace(made, **(act or {})).to_bytes(), key, namespace)


def facts(key: Path, data: bytes | None = None, **changes: Any) -> LaunchFacts:
    request = material.make_request()
    values: dict[str, Any] = {
        "settings": ALLOWED, "grant_uses": lambda grant: 0, "owner": OWNER, "request": request, **changes,
    }  # fmt: skip
    request = values.pop("request")
    job = values.pop("job", None) or material.make_job(request)
    return material.facts_of(request, job, data or granted(key), material.line("operator", key).encode(), **values)


def code_of(found: LaunchFacts, *, listed: bool = False) -> str:
    with pytest.raises(Refused) as caught:
        check_launch(found)
    if not listed:
        return caught.value.code
    failed = [check for check in launch_checks(found) if check.ok is False]
    assert failed[0].code == caught.value.code
    return caught.value.code


def test_a_grant_that_holds(key: Path) -> None:
    verified = check_launch(facts(key))
    assert verified.under == Under(verified.approval_sha256, 3)
    assert verified.authorization == "validated"
    other = check_launch(facts(key, request=material.make_request(request_id="req-2")))
    assert other.nonce != verified.nonce
    assert all(check.ok for check in launch_checks(facts(key)))


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("grants_off", {"settings": Settings()}),
        ("grant_missing", {"grant_uses": lambda grant: None}),
        ("grant_used_up", {"grant_uses": lambda grant: 3}),
        ("grant_used_up", {"grant_uses": lambda grant: 99}),
        ("grant_mismatch", {"owner": OWNER + 1}),
        ("grant_mismatch", {"owner": None}),
        ("policy_changed", {"standing_sha256": "0" * 64}),
        ("workspace_mismatch", {"workspace_id": "ws-" + "1" * 32}),
        ("workspace_mismatch", {"epoch": 2}),
        ("quorum_missing", {"quorum": QuorumSettings(low=2)}),
        ("expired", {"now": NOW + timedelta(days=1)}),
        ("expired", {"ttl_sec": 60}),
        ("not_yet_valid", {"now": APPROVED - timedelta(seconds=61)}),
        ("replayed", {"id_used": True}),
        ("approval_void", {"is_void": lambda request: len(request) == 64}),
        ("replayed", {"nonce_used": lambda nonce: True}),
        ("self_approval", {"requesters": {str(OWNER): "operator"}}),
        ("input_missing", {"pinned": {}}),
        ("operators_changed", {"recorded_operators": (None, None)}),
        ("clock_went_back", {"clock_behind_sec": 61.0}),
    ],
)
def test_what_a_grant_is_bound_to(key: Path, code: str, changes: dict[str, Any]) -> None:
    assert code_of(facts(key, **changes), listed=True) == code


@pytest.mark.parametrize(
    ("code", "request_changes"),
    [
        ("statement_mismatch", {"approved_by": "other"}),
        ("statement_mismatch", {"approved_utc": None}),
        ("not_yet_valid", {"approved_utc": NOW + timedelta(seconds=61)}),
        ("not_yet_valid", {"approved_utc": APPROVED - timedelta(seconds=1)}),
        ("not_yet_valid", {"created_utc": APPROVED + timedelta(seconds=1)}),
    ],
)
def test_how_a_request_is_promoted_under_it(key: Path, code: str, request_changes: dict[str, Any]) -> None:
    assert code_of(facts(key, request=material.make_request(**request_changes))) == code


def test_every_field_of_the_job_counts(key: Path) -> None:
    job = material.make_job(material.make_request())
    changes: list[dict[str, Any]] = [
        {"backend": "ERA"}, {"action": Command(("x",))}, {"action": Script("print(2)\n")},
        {"action": job.action.changed(vars_json="{}")}, {"action": CALL}, {"workdir": "/out"},
        {"outputs": ()}, {"network": ("example.com:443",)}, {"environment": {"A": "b"}}, {"image": "x"},
        {"egress_image": "x"}, {"runtime": "x"}, {"seccomp_sha256": "x"}, {"tool": "t"}, {"session_id": "s"},
        {"labels": ("l",)}, {"workflow": "w"}, {"role": "r"}, {"requested_by": "else"},
        {"effective_risk": "medium"}, {"effective_risk": "high"}, {"data_sensitivity": "internal"},
        {"proposal_sha256": "0" * 64}, {"inputs": ()},
        {"inputs": (JobInput("other.csv", material.DATA_SHA, 1, False),)},
        {"inputs": (replace(job.inputs[0], unpack=True),)},
    ]  # fmt: skip
    changes += [
        {"limits": replace(job.limits, **{name: "9" if name == "cpu" else 9})}
        for name in job.limits.__dataclass_fields__
    ]
    grant = Grant.parse(granted(key))
    for change in changes:
        assert not covers(grant, replace(job, **change)), change
        assert code_of(facts(key, job=replace(job, **change))) == "grant_mismatch", change
    other = JobInput("data.csv", "0" * 64, 5, False)
    assert covers(grant, replace(job, inputs=(other,)))
    closed = Grant.parse(granted(key, pattern=job.meaning(), widened=[]))
    assert covers(closed, job) and not covers(closed, replace(job, inputs=(other,)))


def test_what_was_promoted_for_another_root_is_refused(key: Path) -> None:
    """Even where the grant leaves the root open: what the trail recorded is what runs, and the next draft is new."""
    assert code_of(facts(key, elsewhere=("job_changed", "the ERA image changed"))) == "job_changed"


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"network": ("example.com:443",)}, []),
        ({"effective_risk": "high"}, []),
        ({"backend": "ERA"}, ["data.csv"]),
        ({"action": PROJECT}, []),
        ({}, ["other.csv"]),
    ],
)
def test_what_no_grant_may_cover(changes: dict[str, Any], names: list[str]) -> None:
    job = replace(material.make_job(material.make_request()), **changes)
    with pytest.raises(Refused) as caught:
        terms(job, from_request="r", widened=[Widened(f"inputs.{name}", None) for name in names], owner=1,
              policy_sha256=POLICY, max_uses=1, expires_utc=NOW)  # fmt: skip
    assert caught.value.code == "grant_mismatch"


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1}, {"pattern": []}, {"pattern": None}, {"widened": "data.csv"}, {"widened": [1]},
        {"from": 1}, {"policy_sha256": None}, {"owner_uid": "1000"}, {"owner_uid": True}, {"max_uses": 0},
        {"max_uses": 10_001}, {"max_uses": 1.5}, {"max_uses": True}, {"expires_utc": 5}, {"expires_utc": "tomorrow"},
    ],
)  # fmt: skip
def test_terms_of_a_wrong_form(key: Path, changes: dict[str, Any]) -> None:
    data = granted(key, **changes)
    with pytest.raises(MalformedError):
        Grant.parse(data)
    assert code_of(facts(key, data), listed=True) == "signature_file_malformed"


def test_a_grant_is_signed_as_an_act(key: Path, other_key: Path) -> None:
    assert code_of(facts(key, granted(key, namespace=NAMESPACE_APPROVAL))) == "signature_invalid"
    assert code_of(facts(key, granted(other_key))) == "signer_unknown"
    assert code_of(facts(key, granted(key, act={"acted_utc": NOW + timedelta(seconds=61)}))) == "not_yet_valid"
    good = granted(key)
    for place in range(0, len(good), 23):
        flipped = bytearray(good)
        flipped[place] ^= 1
        code = material.code_of_changed(
            bytes(flipped), key, lambda data: Grant.parse(data).act.acted_by, namespace=NAMESPACE_ACT
        )
        assert code_of(facts(key, bytes(flipped))) == code


def test_raised_uses_are_not_what_was_signed(key: Path) -> None:
    good = granted(key)
    raised = good.replace(b'"max_uses":3', b'"max_uses":9')
    assert raised != good
    assert code_of(facts(key, raised)) == "signature_invalid"


def test_a_grant_of_a_run_covers_that_run_alone(key: Path) -> None:
    run = "ar-20261123-100000z-0123abcd"
    job = material.make_job(material.make_request())
    of_a_run = {name: value for name, value in about(job).items() if name != "owner_uid"} | {"run": run}
    act = {"about": of_a_run}
    data = granted(key, act=act)
    assert Grant.parse(data).owner == run
    assert check_launch(facts(key, data, owner=run)).under == Under(Grant.parse(data).id, 3)
    for other in (OWNER, "ar-20261123-100000z-ffffffff", None):
        assert code_of(facts(key, data, owner=other)) == "grant_mismatch"
    assert code_of(facts(key, owner=run)) == "grant_mismatch", "an account's grant is none of its runs'"
    with pytest.raises(MalformedError):
        Grant.parse(granted(key, act={"about": {**of_a_run, "owner_uid": OWNER}}))
    with pytest.raises(MalformedError):
        Grant.parse(granted(key, act={"about": {**of_a_run, "run": 1000}}))
