"""Every check at launch: what passes, and each failure's own reason code."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.approval import material
from tests.approval.material import APPROVED, CREATED, DATA_SHA, NOW, TTL, Approved
from threegate.approval.facts import PinnedFile
from threegate.approval.launch import check_launch, launch_checks
from threegate.approval.operators import load_operators
from threegate.core.errors import Refused
from threegate.core.settings import QuorumSettings


def code_of(facts: Any) -> str:
    with pytest.raises(Refused) as caught:
        check_launch(facts)
    assert "\n" not in str(caught.value)
    return caught.value.code


def test_an_approval_of_these_bytes_passes(approved: Approved) -> None:
    verified = check_launch(approved.facts())
    assert verified.approved_by == "operator"
    assert verified.approved_utc == APPROVED
    assert verified.nonce == approved.statement.nonce
    assert verified.authorization == "confirmed"
    assert [signer.name for signer in verified.signers] == ["operator"]
    assert all(check.ok for check in launch_checks(approved.facts()))


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("clock_went_back", {"clock_behind_sec": 61.0}),
        ("operators_changed", {"recorded_operators": ("0" * 64, None)}),
        ("unknown_event", {"unknown_kind": "probe.did"}),
        ("signature_missing", {"signature": None}),
        ("signature_file_malformed", {"signature": b"{}\n"}),
        ("workspace_mismatch", {"workspace_id": "ws-" + "1" * 32}),
        ("workspace_mismatch", {"epoch": 2}),
        ("policy_changed", {"policy_sha256": "cd" * 32}),
        ("shown_changed", {"shown_sha256": lambda: "0" * 64}),
        ("statement_mismatch", {"recorded_approval": "0" * 64}),
        ("statement_mismatch", {"recorded_file": "TR-20261122-100000Z-copy.md"}),
        ("expired", {"now": APPROVED + timedelta(seconds=TTL)}),
        ("expired", {"ttl_sec": TTL - 1}),
        ("not_yet_valid", {"now": APPROVED - timedelta(seconds=61)}),
        ("replayed", {"id_used": True}),
        ("replayed", {"nonces": ["0" * 31 + "1"]}),
        ("approval_void", {"is_void": lambda nonce, approval: nonce == "0" * 31 + "1"}),
        ("approval_void", {"is_void": lambda nonce, approval: len(approval) == 64}),
        ("self_approval", {"owner": 1000, "requesters": {"1000": "operator"}}),
        ("input_missing", {"pinned": {}}),
        ("input_changed", {"pinned": {DATA_SHA: PinnedFile(1)}}),
        ("input_changed", {"pinned": {DATA_SHA: PinnedFile(len(material.DATA), "0" * 64)}}),
        ("quorum_missing", {"quorum": QuorumSettings(low=2)}),
    ],
)
def test_each_failure_has_its_code(approved: Approved, code: str, changes: dict[str, Any]) -> None:
    facts = approved.facts(**changes)
    assert code_of(facts) == code
    failed = [check for check in launch_checks(facts) if not check.ok]
    assert failed[0].code == code


def test_an_approval_that_does_not_say_what_was_shown_is_malformed(approved: Approved) -> None:
    silent = approved.statement.to_bytes().replace(f'"shown_sha256":"{material.SHOWN}",'.encode(), b"")
    for statement in (silent, silent.replace(b"threegate-approval/2", b"threegate-approval/1")):
        assert b"shown" not in statement
        facts = approved.facts(signature=material.signed(statement, approved.key))
        assert code_of(facts) == "signature_file_malformed"


def test_a_worker_leaves_the_shown_text_to_the_daemon(approved: Approved) -> None:
    checks = {check.name: check.detail for check in launch_checks(approved.facts(shown_sha256=None))}
    assert checks["shown text"] == "compared by the daemon"
    check_launch(approved.facts(shown_sha256=None))


def test_the_edges_of_time_hold(approved: Approved) -> None:
    check_launch(approved.facts(now=APPROVED + timedelta(seconds=TTL - 1)))
    check_launch(approved.facts(now=APPROVED - timedelta(seconds=60)))
    check_launch(approved.facts(clock_behind_sec=60.0))


def test_a_request_changed_by_one_byte_is_refused(approved: Approved) -> None:
    changed = replace(approved.request, sha256="0" * 64)
    assert code_of(approved.facts(request=changed)) == "request_changed"


@pytest.mark.parametrize(
    "changes",
    [
        {"request_id": "req-2"},
        {"approved_by": "other"},
        {"approved_utc": APPROVED + timedelta(seconds=1)},
        {"inputs": ()},
    ],
)
def test_a_statement_for_something_else_is_refused(approved: Approved, changes: dict[str, Any]) -> None:
    assert code_of(approved.facts(request=replace(approved.request, **changes))) == "statement_mismatch"


def test_another_meaning_is_refused(approved: Approved) -> None:
    job = replace(approved.job, limits=replace(approved.job.limits, open_files=1))
    assert code_of(approved.facts(job=job)) == "job_changed"


def test_another_platform_is_refused_in_its_own_words(approved: Approved) -> None:
    """What is said of it decides nothing: the Job that was signed passes, and any other one is refused."""
    elsewhere = ("job_changed", "the ERA image changed")
    check_launch(approved.facts(elsewhere=elsewhere))
    with pytest.raises(Refused, match="^the ERA image changed$") as refusal:
        check_launch(approved.facts(elsewhere=elsewhere, job=replace(approved.job, image="sha256:b")))
    assert refusal.value.code == "job_changed"


NAMES = ("approval.quorum", "secrets")
AGAIN = "draft it again: threegate draft --again req-1"
SINCE: list[tuple[dict[str, Any], str, str]] = [
    ({"policy_sha256": "cd" * 32}, "policy_changed", "settings, contracts or versions"),
    ({"policy_sha256": "cd" * 32, "changed_policy": lambda: NAMES}, "policy_changed", "approval.quorum, secrets"),
    ({"shown_sha256": lambda: "0" * 64}, "shown_changed", "what is shown of it"),
    ({"shown_sha256": lambda: "0" * 64, "changed_text": lambda: NAMES}, "shown_changed", "approval.quorum, secrets"),
]


@pytest.mark.parametrize(("changes", "code", "named"), SINCE)
def test_a_void_approval_names_what_changed_and_what_to_type(
    approved: Approved, changes: dict[str, Any], code: str, named: str
) -> None:
    with pytest.raises(Refused) as refusal:
        check_launch(approved.facts(**changes))
    assert (refusal.value.code, str(refusal.value)) == (code, f"{named} changed since it was approved; {AGAIN}")


def test_another_meaning_names_the_setting_if_there_is_one(approved: Approved) -> None:
    other = replace(approved.job, effective_risk="high")
    for known, said in (
        (NAMES, f"approval.quorum, secrets changed since it was approved; {AGAIN}"),
        ((), "the request "),
    ):
        with pytest.raises(Refused) as refusal:
            check_launch(approved.facts(job=other, changed_text=lambda known=known: known))
        assert refusal.value.code == "job_changed" and str(refusal.value).startswith(said)


def test_approved_before_created_is_refused(key: Path) -> None:
    request = material.make_request(created_utc=APPROVED + timedelta(seconds=1))
    assert code_of(material.approve(key, request).facts()) == "not_yet_valid"
    assert CREATED < APPROVED < NOW


@pytest.mark.parametrize("seconds", [0, -1, TTL + 1])
def test_an_end_that_the_ttl_does_not_allow_is_refused(key: Path, seconds: int) -> None:
    approved = material.approve(key, expires_utc=APPROVED + timedelta(seconds=seconds))
    assert code_of(approved.facts()) == "expired"


def test_whom_the_file_names_cannot_approve_it(key: Path) -> None:
    request = material.make_request(requested_by="operator")
    approved = material.approve(key, request)
    assert code_of(approved.facts()) == "self_approval"
    check_launch(approved.facts(owner=1000, requesters={"1000": "core"}))


def test_nothing_can_be_checked_without_a_statement(approved: Approved) -> None:
    outcomes = {check.name: check for check in launch_checks(approved.facts(signature=None))}
    assert outcomes["signature file"].code == "signature_missing"
    assert outcomes["job"].ok is None and outcomes["quorum"].ok is None
    assert outcomes["inputs"].ok is True


@pytest.mark.parametrize("data", [None, b"", b"garbage\n"])
def test_no_readable_operators_file_means_nobody(approved: Approved, data: bytes | None) -> None:
    loaded = load_operators(data, None)
    facts = replace(approved.facts(), operators=loaded, recorded_operators=loaded.digests)
    assert code_of(facts) == "operators_changed"
