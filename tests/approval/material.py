"""Real keys, a request, and the facts of a launch that passes; tests change one thing each."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests import support
from threegate.approval.facts import LaunchFacts, PinnedFile, statement_inputs
from threegate.approval.operators import NAMESPACES, load_operators
from threegate.approval.signature import sign_statement
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, MalformedError, SshSignature
from threegate.approval.statement import Countersignature, SignedApproval, SignedBytes, Statement, render_signed
from threegate.core.settings import Settings
from threegate.request.action import Script
from threegate.request.job import Job, Platform, build_job
from threegate.request.model import InputFile, NetworkTarget, OutputFile, Request
from threegate.request.render_draft import blank_draft

CREATED = datetime(2026, 11, 22, 10, 0, 0, tzinfo=UTC)
APPROVED = CREATED + timedelta(minutes=5)
NOW = APPROVED + timedelta(minutes=5)
TTL = 86400
WORKSPACE = "ws-" + "0" * 32
POLICY = "ab" * 32
SHOWN = "5" * 64
DATA = b"column\n1\n2\n"
DATA_SHA = hashlib.sha256(DATA).hexdigest()


def make_key(folder: Path, name: str, kind: str = "ed25519", bits: int | None = None) -> Path:
    """A real key pair without a passphrase; the path of the private key."""
    size = ["-b", str(bits)] if bits else []
    return support.make_key(folder / name, [] if kind == "ed25519" else ["-t", kind, *size])


def public(key: Path) -> str:
    """Type and base64 of a public key."""
    return " ".join(key.with_name(key.name + ".pub").read_text().split()[:2])


def line(name: str, key: Path, before: str = "", after: str = "") -> str:
    """A line of the operators file; `before` are options before the namespaces, `after` those behind."""
    return f"{name} {before}{NAMESPACES}{after} {public(key)}\n"


def make_request(**changes: Any) -> Request:
    """A Monty request with one input, as gate 1 would have read it at stage `approved`."""
    data = changes.pop("data", b"---\na request\n---\n")
    request = replace(
        blank_draft(
            "TR-20261122-100000Z-sum.md", CREATED, "monty", Script("print(1)\n", changes.pop("vars_json", None))
        ),
        data=data,
        sha256=hashlib.sha256(data).hexdigest(),
        stage="approved",
        request_id="req-1",
        approved_by="operator",
        approved_utc=APPROVED,
        purpose="Sum a column.",
        language="python",
        cpu_limit=Decimal("1"),
        memory_limit_mb=64,
        time_limit_sec=10,
        inputs=(InputFile("data.csv", DATA_SHA),),
        outputs=(OutputFile("/out/sum.json"),),
        risk_level="low",
        justification="small",
        data_sensitivity="public",
        network_rationale="none",
    )
    return replace(request, **changes)


def make_job(request: Request, **changes: Any) -> Job:
    """The Job of a request, its inputs having the size of DATA."""
    sizes = {item.sha256: len(DATA) for item in request.inputs}
    return replace(build_job(request, input_sizes=sizes, platform=Platform()), **changes)


def make_statement(request: Request, job: Job, **changes: Any) -> Statement:
    """The statement that approves a request."""
    statement = Statement(
        workspace_id=WORKSPACE,
        epoch=1,
        request_id=request.request_id,
        request_sha256=request.sha256,
        job_sha256=job.digest,
        inputs=statement_inputs(request),
        approved_by="operator",
        approved_utc=APPROVED,
        expires_utc=APPROVED + timedelta(seconds=TTL),
        policy_sha256=POLICY,
        nonce="0" * 31 + "1",
        shown_sha256=SHOWN,
    )
    return replace(statement, **changes)


def signed(statement: bytes, key: Path, namespace: str = NAMESPACE_APPROVAL) -> bytes:
    """A signature file."""
    return render_signed(statement, sign_statement(statement, key, namespace))


def countersigned(approval_sha256: str, name: str, key: Path, **changes: Any) -> bytes:
    """A countersignature file."""
    word = Countersignature(approval_sha256, name, APPROVED + timedelta(minutes=1), "0" * 31 + "2")
    return signed(replace(word, **changes).to_bytes(), key)


def signer_of(data: bytes) -> str:
    """Who approved, by a signature file about req-1. Raises MalformedError."""
    return SignedApproval.parse(data, "req-1").statement.approved_by


def code_of_changed(
    data: bytes,
    key: Path,
    signer: Callable[[bytes], str] = signer_of,
    name: str = "operator",
    namespace: str = NAMESPACE_APPROVAL,
) -> str:
    """The code for a signature file of this key that was changed after it was signed, somewhere and somehow.

    Its form is looked at first, then who should have signed what it says now, and last what was signed.
    """
    try:
        named = signer(data)
        signature: SshSignature = SignedBytes.parse(data).signature
    except MalformedError:
        return "signature_file_malformed"
    ours = base64.b64decode(public(key).split()[1])
    known = (named, signature.key.blob) == (name, ours)
    return "signature_invalid" if known or signature.namespace != namespace else "signer_unknown"


def _settings_of(changes: dict[str, Any]) -> Settings:
    """The settings among the changes of facts, with those of approvals that are named by themselves."""
    names = {"mode": "signature", "quorum": "quorum", "ttl_sec": "ttl"}
    given = {names[name]: changes.pop(name) for name in names if name in changes}
    settings: Settings = changes.pop("settings", Settings())
    return settings.but(approval=settings.approval.but(**{"ttl": TTL, **given}))


def facts_of(
    request: Request,
    job: Job,
    signature: bytes | None,
    operators: bytes,
    *,
    revoked: bytes | None = None,
    nonces: Sequence[str] = (),
    **changes: Any,
) -> LaunchFacts:
    """Facts in which everything but the arguments is as it should be."""
    loaded = load_operators(operators, revoked)
    facts = LaunchFacts(
        request=request,
        job=job,
        signature=signature,
        operators=loaded,
        recorded_operators=loaded.digests,
        workspace_id=WORKSPACE,
        epoch=1,
        policy_sha256=POLICY,
        standing_sha256=POLICY,
        settings=_settings_of(changes),
        now=NOW,
        clock_behind_sec=0.0,
        pinned={DATA_SHA: PinnedFile(len(DATA))},
        nonce_used=frozenset(nonces).__contains__,
        id_used=False,
        shown_sha256=lambda: SHOWN,
    )
    return replace(facts, **changes)


@dataclass(frozen=True)
class Approved:
    """An approval that passes: its key, its operators file, its request, job, statement and signature file."""

    key: Path
    operators: bytes
    request: Request
    job: Job
    statement: Statement
    signature: bytes

    def facts(self, **changes: Any) -> LaunchFacts:
        """The facts of its launch, with changes."""
        values: dict[str, Any] = {
            "request": self.request,
            "job": self.job,
            "signature": self.signature,
            "operators": self.operators,
        }
        values.update(changes)
        return facts_of(**values)


def approve(key: Path, request: Request | None = None, **changes: Any) -> Approved:
    """Approve a request with a real signature."""
    request = request or make_request()
    job = make_job(request)
    statement = make_statement(request, job, **changes)
    return Approved(
        key=key,
        operators=line("operator", key).encode(),
        request=request,
        job=job,
        statement=statement,
        signature=signed(statement.to_bytes(), key),
    )


NETWORK_TARGET = NetworkTarget("example.com", 443)
