"""The job envelope: everything that a worker needs to verify for itself what it is to run.

Invariant: an envelope is for one worker, once (its nonce), until it expires; what it says about the job
beyond the signed request only lets the worker build the same Job, whose digest the operator signed.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from threegate.core import limits
from threegate.core.errors import Refused
from threegate.core.record import Record
from threegate.plugins.cluster.seal import NONCE, WORKER, Base64, seal, unseal
from threegate.request.job import Job, Platform
from threegate.runners.interface import Evidence
from threegate.trail.payloads.payload import Owner, owner_fields
from threegate.trail.workspace_key import SigningKey, VerifierKey

ENVELOPE_TYPE: Final = "threegate-job/1"
_SHA256: Final = r"^[0-9a-f]{64}$"
_LAST_SECOND: Final = 253_402_300_799


class EnvelopePlatform(Record):
    """What the daemon's settings say of the sandbox; part of the Job's digest."""

    image: str = Field(max_length=100)
    egress_image: str = Field(max_length=100)
    runtime: str = Field(max_length=64)
    seccomp_sha256: str = Field(max_length=64)


class JobEnvelope(Record):
    """One request for one worker. Times are whole seconds since 1970."""

    type: Literal["threegate-job/1"] = "threegate-job/1"
    workspace_id: str = Field(pattern=r"^ws-[0-9a-f]{32}$")
    epoch: int = Field(ge=1)
    boot: str = Field(pattern=r"^[0-9a-f]{16}$", description="which life of the daemon sent it")
    worker: str = Field(pattern=rf"^{WORKER.pattern}$")
    nonce: str = Field(pattern=rf"^{NONCE.pattern}$")
    away_sec: int = Field(
        ge=limits.CLUSTER_AWAY_LEAST,
        le=limits.CLUSTER_AWAY_MOST,
        description="how long the run goes on without a beat of the daemon",
    )
    issued: int = Field(ge=0, le=_LAST_SECOND)
    expires: int = Field(ge=0, le=_LAST_SECOND)
    file_name: str = Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9._-]+$")
    request: Base64
    signature: Base64
    """The ``.sig`` file: the operator's statement (or grant) and signature."""
    countersignatures: dict[str, Base64] = Field(max_length=limits.COUNTERSIGNATURES)
    """The ``.sig.<name>`` files by name."""
    policy_sha256: str = Field(pattern=_SHA256)
    job_sha256: str = Field(pattern=_SHA256)
    owner_uid: int | None
    run: str | None = Field(default=None, max_length=64, description="the agent's run that asks, in place of a uid")
    requester: str | None = Field(default=None, max_length=256, description="whom that run stands for")
    write_class: bool
    time_cap_sec: int | None = Field(ge=1)
    proposal_sha256: str | None = Field(pattern=_SHA256)
    platform: EnvelopePlatform
    inputs: dict[Annotated[str, Field(pattern=_SHA256)], Annotated[int, Field(ge=0, le=limits.INPUT_FILE_BYTES)]] = (
        Field(max_length=256)
    )
    """Sizes of the pinned inputs in bytes, by digest."""
    unread: tuple[str, ...] = Field(strict=False, max_length=256)
    limits: dict[str, int | str]

    @property
    def owner(self) -> Owner | None:
        """Who asks."""
        return self.owner_uid if self.run is None else self.run

    def platform_value(self) -> Platform:
        """The platform as a Job is built with."""
        return Platform(**self.platform.model_dump())


def make_envelope(
    evidence: Evidence,
    job: Job,
    *,
    workspace_id: str,
    boot: str,
    worker: str,
    nonce: str,
    away_sec: int,
    now: datetime,
) -> JobEnvelope:
    """The envelope of a job for one worker. Raises Refused (signature_missing) for an unsigned request."""
    if evidence.signature is None:
        raise Refused("signature_missing", "a worker runs nothing that no operator signed")
    size = sum(item.size for item in job.inputs)
    issued = int(now.timestamp())
    return JobEnvelope(
        workspace_id=workspace_id,
        epoch=evidence.epoch,
        boot=boot,
        worker=worker,
        nonce=nonce,
        away_sec=away_sec,
        issued=issued,
        expires=issued + limits.CLUSTER_START_SECONDS + size // limits.CLUSTER_SLOWEST_BYTES_PER_SECOND,
        file_name=evidence.file_name,
        request=evidence.request,
        signature=evidence.signature,
        countersignatures=dict(evidence.countersignatures),
        policy_sha256=evidence.policy_sha256,
        job_sha256=job.digest,
        **{"owner_uid": None, **owner_fields(evidence.owner)},
        requester=evidence.requester,
        write_class=evidence.write_class,
        time_cap_sec=evidence.time_cap_sec,
        proposal_sha256=job.proposal_sha256,
        platform=EnvelopePlatform(**asdict(evidence.platform)),
        inputs={item.sha256: item.size for item in job.inputs},
        unread=job.unread,
        limits=job.meaning()["limits"],
    )


def seal_envelope(envelope: JobEnvelope, key: SigningKey) -> bytes:
    """The signed bytes that travel."""
    value: dict[str, Any] = envelope.model_dump(mode="json")
    return seal(key, value.pop("type"), value)


def open_envelope(data: bytes, key: VerifierKey) -> JobEnvelope:
    """The envelope that the workspace's key signed. Raises Refused (envelope_invalid)."""
    value = unseal(data, key, ENVELOPE_TYPE, max_bytes=limits.CLUSTER_ENVELOPE_BYTES)
    try:
        return JobEnvelope.model_validate(value)
    except ValidationError:
        raise Refused("envelope_invalid", "the envelope has missing or invalid parts") from None
