"""Evidence that somebody agreed to one action, put forward for another: it confirms what it names, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from threegate import aana

NOW = datetime(2026, 5, 10, tzinfo=UTC)
ARGUMENTS = {"to": "ann@example.org", "body": "hello"}


def call(tool: str, summary: str, **changes: Any) -> dict[str, Any]:
    """A confirmed write with one reference, an approval unless changed."""
    ref = {
        "source_id": "approval.1",
        "kind": "approval",
        "trust_tier": "verified",
        "redaction_status": "redacted",
        "summary": summary,
        "freshness": {"status": "fresh"},
        **changes,
    }
    return {
        "tool_name": tool,
        "tool_category": "write",
        "authorization_state": "confirmed",
        "evidence_refs": [ref],
        "risk_domain": "customer_support",
        "proposed_arguments": {**ARGUMENTS, "to": "somebody"},
        "recommended_route": "accept",
    }


def decided(event: dict[str, Any]) -> tuple[bool, list[str]]:
    """Whether it runs, and the deviations that kept it from it."""
    result = aana.check_tool_call(event, now=NOW)
    assert aana.should_execute_tool(result) == (result["recommended_action"] == "accept")
    return aana.should_execute_tool(result), result["deviations"]


OTHERS = [
    ("send_email", "User approved deleting the database."),
    ("send_email", "User explicitly confirmed the refund action."),
    ("send_email", "User approved the deletion of the email."),
    ("send_email", "User confirmed delete_database."),
    ("send_email", "User confirmed sending, then deleting, the email."),
    ("send_email", "User confirmed the plan."),
    ("send_email", "User approved."),
    ("send_email", "User approved this email."),
    ("send_email", ""),
    ("email_user", "User confirmed get_user_email for the user."),
    ("email_user", "User confirmed lookupUserEmail for this user."),
    ("delete_file", "User approved sending the file to Ann."),
    ("deploy_service", "The owner confirmed the termination of the service deployment."),
    ("book_flight", "User approved cancelling the booked flight."),
    ("transfer_funds", "User paid, and confirmed the payment."),
    ("x", "User confirmed y-rays."),
    ("--", "User confirmed this."),
    ("\u0431", "User confirmed it."),
    ("n" * 300, "User confirmed it."),
]


@pytest.mark.parametrize(("tool", "summary"), OTHERS)
def test_an_approval_of_another_action_confirms_nothing(tool: str, summary: str) -> None:
    assert decided(call(tool, summary)) == (False, ["D16"])


@pytest.mark.parametrize(
    "changes",
    [
        {"source_id": "approval.delete_database", "supports": ["send_email"]},
        {"source_id": "approval.delete_database"},
        {"supports": ["delete_database"]},
        {"supports": ["send_emails", "Send_Email", "send"]},
        {"kind": "tool_result", "supports": ["send_email"], "summary": "Confirmed: delete_database."},
        {"kind": "audit_record", "summary": "User confirmed send_email after purge_cache."},
    ],
)
def test_no_other_field_makes_it_one(changes: dict[str, Any]) -> None:
    summary = changes.pop("summary", "User confirmed it.")
    runs, deviations = decided(call("send_email", summary, **changes))
    assert not runs and deviations == ["D16"]


@pytest.mark.parametrize(
    ("tool", "summary"),
    [
        ("send_email", "User approved sending the email."),
        ("send_email", "User explicitly confirmed the send."),
        ("sendEmail", "The mail was confirmed, and may be sent."),
        ("send_refund", "User explicitly confirmed the refund action."),
        ("send_customer_email", "The user confirmed this redacted email draft to the customer."),
        ("deploy_service", "The release owner confirmed deployment to production."),
        ("delete_file", "User approved the deletion."),
        ("terminate_instance", "User confirmed the termination."),
        ("cancel_subscription", "Cancellation confirmed by the user."),
        ("book_flight", "User approved booking the flights."),
        ("copy_file", "Ann confirmed copying it."),
        ("checkout", "User confirmed checkout."),
    ],
)
def test_an_approval_of_this_action_still_confirms_it(tool: str, summary: str) -> None:
    assert decided(call(tool, summary)) == (True, [])


def test_an_approval_that_names_the_tool_needs_no_words() -> None:
    assert decided(call("send_email", "", supports=["send_email"])) == (True, [])


# ---- the digest of the arguments


def test_a_digest_of_other_arguments_confirms_nothing() -> None:
    event = call("send_email", "User confirmed the send.")
    own = aana.arguments_sha256(event["proposed_arguments"])
    other = aana.arguments_sha256({**event["proposed_arguments"], "to": "everybody"})
    for named, runs in (([own], True), ([other], False), ([own, other], False)):
        for place in ("supports", "summary", "source_id"):
            event = call("send_email", "User confirmed the send.")
            texts = [f"arguments:sha256:{digest}" for digest in named]
            ref = event["evidence_refs"][0]
            if place == "supports":
                ref["supports"] = texts
            else:
                ref[place] = f"{ref[place]} {' '.join(texts)}"
            assert decided(event)[0] is runs, (named, place)
    changed = call("send_email", "User confirmed the send.", supports=[f"arguments:sha256:{own}"])
    changed["proposed_arguments"]["body"] = "other words"
    assert decided(changed) == (False, ["D16"])


def test_arguments_without_a_digest_fit_none() -> None:
    """RFC 8785 has no form for such a number; that the digest is of it cannot be known."""
    event = call("send_email", "User confirmed the send.", supports=[f"arguments:sha256:{'0' * 64}"])
    event["proposed_arguments"]["count"] = 2**60
    assert decided(event) == (False, ["D16"])


def test_another_approval_shows_who_agreed_and_not_to_what() -> None:
    """So it authenticates a read, as it did, and confirms no write."""
    event = call("read_transactions", "User approved deleting the database.")
    event |= {"tool_category": "private_read", "authorization_state": "authenticated"}
    assert decided(event) == (True, [])
