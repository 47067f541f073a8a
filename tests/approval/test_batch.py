"""A batch: its form, and what a launch asks of a member besides what it asks of every approval."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.approval import material
from tests.approval.material import APPROVED, POLICY, WORKSPACE, Approved
from threegate.approval.facts import LaunchFacts
from threegate.approval.launch import check_launch, launch_checks
from threegate.approval.ssh_wire import MalformedError
from threegate.approval.statement import Batch, BatchPlace, Countersignature, SignedApproval, Statement
from threegate.core import limits
from threegate.core.canonical import canonical_bytes, sha256_hex
from threegate.core.errors import Refused
from threegate.core.settings import QuorumSettings


def statements(count: int = 3) -> tuple[Statement, ...]:
    """Of req-0, req-1, …; each with a nonce of its own."""
    request = material.make_request()
    first = material.make_statement(request, material.make_job(request))
    return tuple(replace(first, request_id=f"req-{number}", nonce=f"{number:032x}") for number in range(count))


def member(approved: Approved, risk: str = "low", index: int = 1) -> tuple[Batch, BatchPlace, bytes]:
    """A signed batch that lists the approval at `index`, where in it, and the signature file."""
    others = [item for item in statements(4) if item.request_id != approved.statement.request_id]
    listed = [replace(item, nonce=f"{7 + at:032x}") for at, item in enumerate(others[:2])]
    listed.insert(index, approved.statement)
    batch = Batch(risk, tuple(listed))  # type: ignore[arg-type]
    data = batch.to_bytes()
    return batch, BatchPlace(sha256_hex(data), index), material.signed(data, approved.key)


def facts(approved: Approved, **changes: Any) -> LaunchFacts:
    _, place, signature = member(approved)
    values: dict[str, Any] = {
        "signature": signature,
        "was_approved": True,
        "recorded_approval": sha256_hex(approved.statement.to_bytes()),
        "recorded_batch": place,
    }
    return approved.facts(**{**values, **changes})


def code_of(found: LaunchFacts) -> str:
    with pytest.raises(Refused) as caught:
        check_launch(found)
    return caught.value.code


# ---- the form


def test_a_batch_is_read_as_it_was_written() -> None:
    batch = Batch("medium", statements())
    assert Batch.parse(batch.to_bytes()) == batch
    assert json.loads(batch.to_bytes())["statements"][0] == json.loads(statements()[0].to_bytes())


@given(
    st.sampled_from(["low", "medium", "high"]),
    st.lists(st.tuples(st.text("0123456789abcdef", min_size=32, max_size=32), st.text("abc.-_", max_size=9)),
             min_size=2, max_size=8, unique_by=(lambda pair: pair[0], lambda pair: pair[1])),
)  # fmt: skip
def test_any_batch_is_read_as_it_was_written(risk: Any, members: list[tuple[str, str]]) -> None:
    first = statements(1)[0]
    batch = Batch(risk, tuple(replace(first, nonce=nonce, request_id=f"req{name}") for nonce, name in members))
    assert Batch.parse(batch.to_bytes()) == batch


@given(st.binary(max_size=100))
def test_any_other_bytes_are_none(data: bytes) -> None:
    with pytest.raises(MalformedError):
        Batch.parse(data)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"request_id": "req-0"}, "two statements of one request"),
        ({"nonce": "0" * 32}, "one nonce"),
        ({"workspace_id": "ws-" + "1" * 32}, "another approver"),
        ({"epoch": 2}, "another approver"),
        ({"approved_by": "other"}, "another approver"),
        ({"approved_utc": APPROVED + timedelta(seconds=1)}, "another approver"),
        ({"expires_utc": APPROVED + timedelta(seconds=1)}, "another approver"),
        ({"policy_sha256": "0" * 64}, "another approver"),
    ],
)
def test_a_batch_of_statements_that_do_not_belong_together_is_none(changes: dict[str, Any], words: str) -> None:
    first, second, third = statements()
    with pytest.raises(MalformedError, match=words):
        Batch("low", (first, replace(second, **changes), third))


@pytest.mark.parametrize("count", [0, 1, limits.BATCH_MEMBERS + 1])
def test_a_batch_is_bounded(count: int) -> None:
    with pytest.raises(MalformedError, match="does not have 2 to 32"):
        Batch("low", statements(count))
    Batch("low", statements(limits.BATCH_MEMBERS))


def test_the_largest_batch_fits_into_a_signature_file(key: Path) -> None:
    data = Batch("low", statements(limits.BATCH_MEMBERS)).to_bytes()
    assert len(material.signed(data, key)) <= limits.SIGNATURE_FILE_BYTES


def altered(**changes: Any) -> bytes:
    value = json.loads(Batch("low", statements()).to_bytes())
    return canonical_bytes({**value, **changes})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        altered(more=1),
        altered(type="threegate-batch/2"),
        altered(type="threegate-approval/2"),
        altered(risk="none"),
        altered(risk=1),
        altered(risk=["low"]),
        altered(statements={}),
        altered(statements=[]),
        altered(statements=["x", "y"]),
        altered(statements=[{"type": "threegate-approval/2"}] * 2),
        Batch("low", statements()).to_bytes().replace(b'{"risk"', b'{ "risk"'),
        Batch("low", statements()).to_bytes().replace(b"threegate-approval/2", b"threegate-approval/1"),
        Batch("low", statements()).to_bytes().replace(b'"shown_sha256"', b'"shown"'),
        Batch("low", statements()).to_bytes()[:-1],
    ],
)
def test_what_is_no_batch_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        Batch.parse(data)


def test_a_batch_is_read_for_one_request_only(approved: Approved) -> None:
    batch, place, signature = member(approved)
    found = SignedApproval.parse(signature, "req-1")
    assert (found.batch, found.place, found.statement) == (batch, place, approved.statement)
    assert found.approval_sha256 == sha256_hex(approved.statement.to_bytes())
    for other in ("", "req-9"):
        with pytest.raises(MalformedError, match="does not list this request"):
            SignedApproval.parse(signature, other)


# ---- at launch


def test_a_member_with_its_event_passes(approved: Approved) -> None:
    verified = check_launch(facts(approved))
    assert verified.nonce == approved.statement.nonce and verified.authorization == "confirmed"
    assert verified.approval_sha256 == sha256_hex(approved.statement.to_bytes())
    checks = {check.name: check for check in launch_checks(facts(approved))}
    assert checks["batch"].detail.startswith("number 2 of 3 of the batch ")
    assert checks["ssh-keygen"].ok and all(check.ok for check in checks.values())
    assert {check.name: check.detail for check in launch_checks(approved.facts())}["batch"] == "not one of a batch"


def test_a_member_without_its_very_event_does_not_run(approved: Approved) -> None:
    _, place, _ = member(approved)
    never: dict[str, Any] = {"was_approved": False, "recorded_approval": None, "recorded_batch": None}
    assert code_of(facts(approved, **never)) == "statement_mismatch"
    for wrong in (None, replace(place, index=0), replace(place, batch_sha256="0" * 64)):
        assert code_of(facts(approved, recorded_batch=wrong)) == "statement_mismatch"


def test_an_approval_by_itself_is_none_where_the_trail_names_a_batch(approved: Approved) -> None:
    """The same statement, signed by itself: genuine, and not what was announced."""
    assert code_of(facts(approved, signature=approved.signature)) == "statement_mismatch"


def test_a_worker_leaves_the_event_to_the_daemon_and_the_rest_to_nobody(approved: Approved) -> None:
    alone: dict[str, Any] = {"shown_sha256": None, "recorded_approval": None, "recorded_batch": None}
    check_launch(facts(approved, **alone))
    other = material.make_request(request_id="req-9")
    assert code_of(facts(approved, request=other, **alone)) == "signature_file_malformed"


def test_a_statement_of_a_batch_is_nothing_alone_and_a_signature_of_its_own_signs_no_batch(
    approved: Approved,
) -> None:
    batch, place, signature = member(approved)
    line, _, armor = signature.partition(b"\n")
    assert line == batch.to_bytes()
    alone = approved.statement.to_bytes() + b"\n" + armor
    assert code_of(approved.facts(signature=alone)) == "signature_invalid"
    as_member = line + b"\n" + approved.signature.partition(b"\n")[2]
    assert code_of(facts(approved, signature=as_member, recorded_batch=place)) == "signature_invalid"


def test_every_bit_of_a_batch_counts(approved: Approved) -> None:
    found = facts(approved)
    signature = found.signature or b""
    check_launch(found)
    for place in range(0, signature.index(b"\n"), 7):
        flipped = bytearray(signature)
        flipped[place] ^= 1
        code = material.code_of_changed(bytes(flipped), approved.key)
        assert code_of(replace(found, signature=bytes(flipped))) == code


def test_the_quorum_is_that_of_the_highest_risk_in_it(approved: Approved, other_key: Path) -> None:
    _, place, signature = member(approved, "high")
    both = approved.operators + material.line("other", other_key).encode()
    changes: dict[str, Any] = {
        "signature": signature,
        "recorded_batch": place,
        "quorum": QuorumSettings(high=2),
        "operators": both,
    }
    assert code_of(facts(approved, **changes)) == "quorum_missing"
    word = material.countersigned(sha256_hex(approved.statement.to_bytes()), "other", other_key)
    signers = check_launch(facts(approved, **changes, countersignatures={"other": word})).signers
    assert [signer.name for signer in signers] == ["operator", "other"]


def test_a_countersignature_covers_what_it_names_and_no_other_member(approved: Approved, other_key: Path) -> None:
    batch, place, _ = member(approved)
    both = approved.operators + material.line("other", other_key).encode()
    for about in (sha256_hex(batch.statements[0].to_bytes()), place.batch_sha256):
        word = material.countersigned(about, "other", other_key)
        found = facts(approved, operators=both, countersignatures={"other": word}, quorum=QuorumSettings(low=2))
        assert code_of(found) == "statement_mismatch"


def test_one_countersignature_may_cover_a_list_and_nothing_else(approved: Approved, other_key: Path) -> None:
    batch, _, _ = member(approved)
    both = approved.operators + material.line("other", other_key).encode()
    covers = [sha256_hex(item.to_bytes()) for item in batch.statements]
    changes: dict[str, Any] = {"operators": both, "quorum": QuorumSettings(low=2)}

    def signed(*approvals: str) -> dict[str, bytes]:
        first, *others = approvals
        return {"other": material.countersigned(first, "other", other_key, others=tuple(others))}

    check_launch(facts(approved, **changes, countersignatures=signed(*covers)))
    check_launch(approved.facts(**changes, countersignatures=signed(covers[1], covers[0])))
    without = signed(covers[0], covers[2])
    assert code_of(facts(approved, **changes, countersignatures=without)) == "statement_mismatch"


@pytest.mark.parametrize(
    "approvals",
    [[], ["0" * 64], ["0" * 64] * 2, ["0" * 64, "1"], ["0" * 64, 1], "0" * 64, None,
     [f"{number:064x}" for number in range(limits.BATCH_MEMBERS + 1)]],
)  # fmt: skip
def test_a_list_that_a_countersignature_cannot_have(approvals: object) -> None:
    word = Countersignature("0" * 64, "bob", APPROVED, "0" * 32, ("1" * 64,))
    assert Countersignature.parse(word.to_bytes()) == word
    value = json.loads(word.to_bytes())
    with pytest.raises(MalformedError):
        Countersignature.parse(canonical_bytes({**value, "approvals": approvals}))


def test_a_batch_of_less_risk_than_its_member_is_refused(approved: Approved, key: Path) -> None:
    request = material.make_request(risk_level="medium")
    risky = material.approve(key, request)
    _, place, signature = member(risky)
    changes: dict[str, Any] = {"signature": signature, "recorded_batch": place}
    assert code_of(facts(risky, **changes)) == "statement_mismatch"
    assert (risky.statement.workspace_id, risky.statement.policy_sha256) == (WORKSPACE, POLICY)


def test_a_used_member_leaves_the_others_unused(approved: Approved) -> None:
    batch, _, _ = member(approved)
    used = [item.nonce for item in batch.statements if item != approved.statement]
    check_launch(facts(approved, nonces=used))
    assert code_of(facts(approved, nonces=[approved.statement.nonce])) == "replayed"
