"""Attacks on a worker by whoever holds the broker, and by whoever holds the daemon with the workspace's key."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.plugins.cluster.conftest import Bench, bench, signed_place
from tests.plugins.cluster.envelopes import envelope_of, sealed_of
from tests.support import make_key, monty_draft, request_id
from threegate.approval.operators import load_operators
from threegate.core.errors import Refused
from threegate.core.settings import QuorumSettings
from threegate.plugins.cluster.job_envelope import open_envelope, seal_envelope
from threegate.plugins.cluster.seal import seal, unseal
from threegate.trail.workspace_key import SigningKey, load_key

__all__ = ["bench", "signed_place"]


def refusal(bench: Bench, data: bytes, **more: datetime) -> str:
    """The code that an envelope is refused with."""
    with pytest.raises(Refused) as caught:
        bench.verify(data, **more)
    return caught.value.code


def test_every_byte_counts(bench: Bench) -> None:
    """One byte changed, anywhere: payload, newline, signature."""
    good = bench.sealed()
    step = max(1, len(good) // 400)
    for place in [*range(0, len(good), step), len(good) - 1, good.rindex(b"\n")]:
        changed = bytearray(good)
        changed[place] ^= 1
        assert refusal(bench, bytes(changed)) == "envelope_invalid", place


def test_signed_by_another_key(bench: Bench) -> None:
    """Another workspace's key, and a worker's."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    stranger = SigningKey(bench.trust.workspace_key.name, Ed25519PrivateKey.generate())
    assert refusal(bench, seal_envelope(bench.envelope(), stranger)) == "envelope_invalid"


def test_another_note_of_the_daemon_is_no_envelope(bench: Bench) -> None:
    """Types do not mix: a beat is no envelope, whatever it carries."""
    key = load_key(bench.trust.workspace_id)
    value = bench.envelope().model_dump(mode="json")
    value.pop("type")
    assert refusal(bench, seal(key, "beat", value)) == "envelope_invalid"
    assert refusal(bench, seal(key, "threegate-job/1", {**value, "more": 1})) == "envelope_invalid"
    value["request"] = "a"
    assert refusal(bench, seal(key, "threegate-job/1", value)) == "envelope_invalid"


def test_a_checkpoint_signature_is_none_for_a_note(bench: Bench) -> None:
    """The workspace's key signs checkpoints too: such a signature never counts here."""
    key = load_key(bench.trust.workspace_id)
    payload = bench.sealed().rpartition(b"\n")[0]
    assert refusal(bench, payload + b"\n" + key.sign(payload).hex().encode()) == "envelope_invalid"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"worker": "w2"}, "envelope_misdirected"),
        ({"workspace_id": "ws-" + "0" * 32}, "workspace_mismatch"),
        ({"epoch": 2}, "workspace_mismatch"),
        ({"run": "ar-20261123-100000z-0123abcd", "requester": "operator"}, "self_approval"),
        ({"signature": b"no statement"}, "signature_file_malformed"),
        ({"policy_sha256": "0" * 64}, "policy_changed"),
        ({"job_sha256": "0" * 64}, "job_changed"),
        ({"write_class": True}, "job_changed"),
        ({"time_cap_sec": 1}, "job_changed"),
        ({"proposal_sha256": "0" * 64}, "job_changed"),
        ({"limits": {"cpu": "64"}}, "job_changed"),
        ({"request": b"---\nnot: a request\n---\n"}, "request_invalid"),
        ({"issued": 4_000_000_000, "expires": 4_000_000_100}, "not_yet_valid"),
        ({"expires": 1}, "envelope_expired"),
    ],
)
def test_a_taken_over_daemon_changes_a_field(bench: Bench, changes: dict[str, object], code: str) -> None:
    """Signed by the workspace's own key: still nothing passes that an operator did not sign."""
    assert refusal(bench, bench.sealed(**changes)) == code


def test_an_input_more_or_less(bench: Bench) -> None:
    """Inputs are the signed request's, neither more nor fewer."""
    name = request_id("input")
    digest = bench.place.input("a.txt", b"abc")
    bench.place.approve(bench.place.drop(monty_draft(name, "1", inputs={"a.txt": digest})))
    good = envelope_of(bench.place.root, name, "w1")
    assert bench.verify(sealed_of(bench.place.root, good)).job.inputs[0].sha256 == digest
    none = good.model_copy(update={"inputs": {}})
    assert refusal(bench, sealed_of(bench.place.root, none)) == "input_missing"
    both = good.model_copy(update={"inputs": {**good.inputs, "0" * 64: 3}})
    assert refusal(bench, sealed_of(bench.place.root, both)) == "job_changed"
    longer = good.model_copy(update={"inputs": {digest: 4}})
    assert refusal(bench, sealed_of(bench.place.root, longer)) == "job_changed"


def test_a_request_of_one_signature_of_another(bench: Bench) -> None:
    """The statement of one request does not carry another."""
    other = request_id("other")
    bench.place.approve(bench.place.drop(monty_draft(other, "2 + 2")))
    mixed = bench.envelope().model_copy(update={"signature": envelope_of(bench.place.root, other, "w1").signature})
    assert refusal(bench, sealed_of(bench.place.root, mixed)) == "statement_mismatch"


def test_an_era_job_with_another_seccomp_profile(bench: Bench) -> None:
    """What the job's digest says of this machine's walls must be what they are here."""
    from tests.support import era_draft
    from threegate.request.job import build_job
    from threegate.request.reader import read_request

    name = request_id("era")
    bench.place.approve(bench.place.drop(era_draft(name, "true")))
    good = envelope_of(bench.place.root, name, "w1")
    platform = good.platform.model_copy(update={"seccomp_sha256": "0" * 64})
    changed = good.model_copy(update={"platform": platform})
    report = read_request(
        good.request,
        path=good.file_name,
        settings=bench.trust.settings.request,
        now=datetime.now(UTC),
        stage="approved",
    )
    assert report.request is not None
    job = build_job(report.request, input_sizes={}, platform=changed.platform_value())
    changed = changed.model_copy(update={"job_sha256": job.digest})
    assert refusal(bench, sealed_of(bench.place.root, changed)) == "job_changed"
    assert bench.verify(sealed_of(bench.place.root, good)).job.backend == "ERA"


def test_operators_of_this_worker_alone_count(bench: Bench, tmp_path: Path) -> None:
    """Another key under the same name, an empty file, an unreadable one, and a revoked key."""
    good = bench.sealed()
    key = make_key(tmp_path / "stranger")
    kind, text, *_ = Path(f"{key}.pub").read_text().split()
    line = f'operator namespaces="threegate-approval,threegate-act" {kind} {text}\n'.encode()
    ours = bench.trust.operators
    for operators, code in (
        (load_operators(line, None), "signer_unknown"),
        (load_operators(None, None), "operators_changed"),
        (load_operators(b"unreadable\n", None), "operators_changed"),
    ):
        bench.trust = replace(bench.trust, operators=operators)
        assert refusal(bench, good) == code
    public = Path(f"{bench.place.key}.pub").read_text().rpartition(" ")[0] + "\n"
    bench.trust = replace(bench.trust, operators=load_operators(ours.data, public.encode()))
    assert refusal(bench, good) == "signer_revoked"


def test_the_worker_asks_for_its_own_quorum_and_ttl(bench: Bench) -> None:
    """What the daemon's settings ask for is the daemon's; a worker's own floor holds whatever is sent."""
    good = bench.sealed()
    own = bench.trust.settings
    two = own.approval.but(quorum=QuorumSettings(low=2, medium=2, high=2))
    short = own.approval.but(ttl=60)
    for approval, code in ((two, "quorum_missing"), (short, "expired")):
        bench.trust = replace(bench.trust, settings=own.but(approval=approval))
        assert refusal(bench, good) == code


def test_an_approval_that_ended(bench: Bench) -> None:
    """A fresh envelope does not make an old approval young."""
    later = datetime.now(UTC) + timedelta(days=2)
    fresh = bench.sealed(issued=int(later.timestamp()), expires=int(later.timestamp()) + 60)
    assert refusal(bench, fresh, now=later) == "expired"


def test_unsigned_by_hand_is_nothing_here(bench: Bench) -> None:
    """Even where the daemon's settings let an unsigned request run."""
    own = bench.trust.settings
    loose = own.approval.but(signature="optional")
    bench.trust = replace(bench.trust, settings=own.but(approval=loose))
    assert refusal(bench, bench.sealed(signature=b"")) == "signature_file_malformed"


def test_once_here_whatever_is_signed(bench: Bench) -> None:
    """Same envelope, same approval in a new envelope, same request id: each is a replay."""
    now = datetime.now(UTC)
    cleared = bench.verify(bench.sealed())
    bench.journal.spend(cleared.spent(now))
    assert refusal(bench, bench.sealed()) == "replayed"
    assert refusal(bench, bench.sealed(nonce="c" * 32)) == "replayed"
    with pytest.raises(Refused) as caught:
        bench.journal.spend(replace(cleared.spent(now), nonce="d" * 32))
    assert caught.value.code == "replayed"


def test_a_clock_that_was_set_back(bench: Bench) -> None:
    """An entry may be forgotten once it has expired: a clock behind the journal lets nothing run."""
    now = datetime.now(UTC)
    spent = replace(bench.verify(bench.sealed()).spent(now), nonce="e" * 32, approval="e" * 32)
    bench.journal.spend(replace(spent, request_id="TR-other", at=spent.at + 600))
    assert refusal(bench, bench.sealed()) == "clock_went_back"
    with pytest.raises(Refused) as caught:
        bench.journal.spend(replace(spent, nonce="f" * 32, approval="f" * 32, request_id="TR-third"))
    assert caught.value.code == "clock_went_back"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{}",
        b"{}\n" + b"0" * 128,
        b"\xff\n" + b"0" * 128,
        b"x" * 3_000_000,
        b'{"a":1}\n' + b"g" * 128,
    ],
)
def test_what_is_no_note(bench: Bench, data: bytes) -> None:
    """Anything else is one refusal, never an exception of another kind."""
    assert refusal(bench, data) == "envelope_invalid"


def test_what_the_key_signed_but_is_not_canonical(bench: Bench) -> None:
    """Two spellings of one value: only the canonical one counts; JSON that is none is refused."""
    key = load_key(bench.trust.workspace_id)
    for payload in (b'{"type": "beat"}', b'{"type":"beat","type":"beat"}', b"[1]", b'{"a":1'):
        signed = payload + b"\n" + key.sign(b"threegate-cluster/1\n" + payload).hex().encode()
        with pytest.raises(Refused) as caught:
            unseal(signed, key.public, "beat")
        assert caught.value.code == "envelope_invalid"
    for odd in (["beat"], {}, None, "bea"):
        with pytest.raises(Refused, match="another type"):
            unseal(seal(key, odd, {}), key.public, "beat")  # type: ignore[arg-type]
    assert unseal(seal(key, "beat", {}), key.public, "beat") == {"type": "beat"}


def test_a_good_envelope_passes(bench: Bench) -> None:
    """The same code as the daemon's: the same Job, the operator's name, and a Clearance from the judge."""
    cleared = bench.verify(bench.sealed())
    assert open_envelope(bench.sealed(), bench.trust.workspace_key).expires > datetime.now(UTC).timestamp()
    assert cleared.clearance.approved_by == "operator"
    assert cleared.clearance.job_sha256 == cleared.job.digest
    assert cleared.spent(datetime.now(UTC)).expires > cleared.envelope.expires
