"""A no and a stop carry the operator's name, are signed where the key asks nothing, and are never held up by a key."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from threegate.acts.cancel import CANCEL, cancel_about, cancel_request
from threegate.acts.reject import REJECT, reject_about, reject_draft
from threegate.acts.signed_acts import OperatorDecision, decide
from threegate.acts.signing_key import Acting
from threegate.cli import execute
from threegate.core.errors import Refused
from threegate.review.reviewed_draft import Draft, read_draft
from threegate.trail.event import Event
from threegate.trail.payloads import Cancelled, CancelRequested, Claimed, Rejected
from threegate.trail.trail import Trail


def last(bench: Bench) -> Event:
    return list(Trail(bench.workspace).events())[-1]


def own(bench: Bench) -> Acting:
    return Acting("alice", bench.keys["alice"])


def rejection(bench: Bench, acting: Acting | None, slug: str = "sum") -> Event:
    draft = read_draft(bench.workspace, bench.draft(slug, slug=slug))
    by = decide(bench.context, REJECT, reject_about(draft, "no"), account="account:me", acting=acting)
    reject_draft(bench.context, draft, reason="no", by=by)
    return last(bench)


def test_a_key_that_asks_nothing_signs(bench: Bench) -> None:
    event = rejection(bench, own(bench))
    payload = Rejected.of(event)
    assert payload is not None and payload.signed is not None
    assert event.actor == "operator:alice" and payload.signed.key.startswith("SHA256:")
    with Trail(bench.workspace).locked() as held:
        assert held.index.nonce_used(payload.signed.nonce)


def test_a_stop_is_signed_in_both_forms(bench: Bench) -> None:
    for request_id in ("req-1", "req-2"):
        bench.approve(bench.draft(request_id, slug=request_id))
    with Trail(bench.workspace).locked() as held:
        held.append(Claimed.from_data({"nonce": "0" * 32}), request_id="req-2", actor="daemon")
    for request_id, kind in (("req-1", Cancelled), ("req-2", CancelRequested)):
        by = decide(bench.context, CANCEL, cancel_about(request_id, ""), account="me", acting=own(bench))
        cancel_request(bench.context, request_id, by=by, wait_seconds=0)
        event = next(item for item in Trail(bench.workspace).events() if isinstance(item.payload, kind))
        assert event.actor == "operator:alice"
        assert isinstance(event.payload, kind) and event.payload.signed is not None


def test_a_locked_key_gives_the_name_and_asks_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    command = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret words", "-f", str(bench.keys["alice"])]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    event = rejection(bench, own(bench))
    assert isinstance(event.payload, Rejected) and event.payload.signed is None
    assert event.actor == "operator:alice"


def test_a_key_to_be_touched_gives_the_name(bench: Bench, tmp_path: Path) -> None:
    public = tmp_path / "sk.pub"
    wire = b"\0\0\0\x1ask-ssh-ed25519@openssh.com\0\0\0\x20" + bytes(32) + b"\0\0\0\x04ssh:"
    import base64

    public.write_text(f"sk-ssh-ed25519@openssh.com {base64.b64encode(wire).decode()} me\n")
    event = rejection(bench, Acting("alice", public))
    assert isinstance(event.payload, Rejected) and event.payload.signed is None
    assert event.actor == "operator:alice"


def test_whoever_is_no_operator_is_named_by_account(bench: Bench) -> None:
    assert rejection(bench, None).actor == "account:me"


def test_a_key_that_does_not_hold_any_more_says_no_all_the_same(bench: Bench) -> None:
    with bench.workspace.operators_file.open("a") as file:
        file.write("# changed by hand\n")
    event = rejection(bench, own(bench))
    assert event.actor == "account:me"
    assert isinstance(event.payload, Rejected) and event.payload.signed is None


def test_a_signature_is_for_one_decision(bench: Bench) -> None:
    def draft(name: str) -> Draft:
        return read_draft(bench.workspace, bench.draft(name, slug=name))

    def signed(about: dict) -> OperatorDecision:
        return decide(bench.context, REJECT, about, account="me", acting=own(bench), ask=True)

    one, two = draft("one"), draft("two")
    by = signed(reject_about(one, "no"))
    for other, reason in ((two, "no"), (one, "another reason")):
        with pytest.raises(Refused) as caught:
            reject_draft(bench.context, other, reason=reason, by=by)
        assert caught.value.code == "statement_mismatch"
        assert other.path.exists()
    reject_draft(bench.context, one, reason="no", by=by)
    one.path.write_bytes(one.data)
    with pytest.raises(Refused) as caught:
        reject_draft(bench.context, read_draft(bench.workspace, one.path), reason="no", by=by)
    assert caught.value.code == "replayed"


def test_the_commands(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["-w", str(bench.workspace.root)]
    key = ["--as", "alice", "--key", str(bench.keys["alice"])]
    assert execute([*here, "reject", str(bench.draft("no", slug="no")), "--reason", "why", *key]) == 0
    event = last(bench)
    assert event.actor == "operator:alice"
    assert isinstance(event.payload, Rejected) and event.payload.signed is not None
    bench.approve(bench.draft("stop", slug="stop"))
    assert execute([*here, "cancel", "stop", *key]) == 0
    assert last(bench).actor == "operator:alice"
    path = bench.draft("bad", slug="bad")
    assert execute([*here, "reject", str(path), "--as", "nobody"]) == 2
    assert path.exists() and "nobody: not in operators" in capsys.readouterr().err
