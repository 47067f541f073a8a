"""Reading keys, signatures, statements and the operators file: whole, in one spelling, or not at all."""

from __future__ import annotations

import base64
import string as letters
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.approval import material
from tests.approval.fido import mpint, string
from tests.approval.material import APPROVED, NOW, WORKSPACE, Approved
from threegate.approval.facts import LaunchFacts, requester_of
from threegate.approval.further_signatures import check_act
from threegate.approval.launch import check_launch, launch_checks
from threegate.approval.operators import Operator, load_operators, render_operator
from threegate.approval.ssh_wire import (
    NAMESPACE_ACT,
    MalformedError,
    PublicKey,
    WireReader,
    decode_base64,
    parse_armor,
    parse_key,
    parse_key_text,
    render_armor,
)
from threegate.approval.statement import (
    Act,
    Countersignature,
    SignedApproval,
    SignedBytes,
    Statement,
    StatementInput,
    format_utc,
    parse_utc,
)
from threegate.core.errors import Refused

ED25519 = string(b"ssh-ed25519") + string(b"k" * 32)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=0)
)
HEX64 = st.text("0123456789abcdef", min_size=64, max_size=64)
HEX32 = st.text("0123456789abcdef", min_size=32, max_size=32)
WORKSPACES = HEX32.map(lambda text: f"ws-{text}")
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}", fullmatch=True)
INPUT_NAMES = st.text(letters.ascii_letters + "._-", min_size=1, max_size=20)


def malformed(action: Any, *arguments: Any) -> None:
    with pytest.raises(MalformedError) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)


@given(
    st.builds(
        Statement,
        workspace_id=WORKSPACES,
        epoch=st.integers(1, 2**40),
        request_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}", fullmatch=True),
        request_sha256=HEX64,
        job_sha256=HEX64,
        inputs=st.lists(st.builds(StatementInput, INPUT_NAMES, HEX64), max_size=4).map(tuple),
        approved_by=NAMES,
        approved_utc=MOMENTS,
        expires_utc=MOMENTS,
        policy_sha256=HEX64,
        nonce=HEX32,
        shown_sha256=HEX64,
    )
)
def test_a_statement_reads_as_it_was_written(statement: Statement) -> None:
    assert Statement.parse(statement.to_bytes()) == statement


@given(st.builds(Countersignature, HEX64, NAMES, MOMENTS, HEX32))
def test_a_countersignature_reads_as_it_was_written(word: Countersignature) -> None:
    assert Countersignature.parse(word.to_bytes()) == word


@given(
    WORKSPACES,
    st.integers(1, 9),
    NAMES,
    MOMENTS,
    HEX32,
    st.dictionaries(NAMES, st.integers(0, 9), max_size=3),
)
def test_an_act_reads_as_it_was_written(
    workspace: str, epoch: int, name: str, moment: datetime, nonce: str, about: dict[str, int]
) -> None:
    act = Act("threegate-kill/1", workspace, epoch, name, moment, nonce, about)
    assert Act.parse(act.to_bytes(), "threegate-kill/1") == act
    malformed(Act.parse, act.to_bytes(), "threegate-apply/1")
    malformed(Act.parse, act.to_bytes(), "threegate-approval/1")


def test_an_approval_is_not_read_as_an_act() -> None:
    malformed(Act.parse, b"{}", "threegate-approval/1")


@given(st.binary(max_size=200))
def test_bytes_that_are_no_statement_are_refused(data: bytes) -> None:
    for parse in (
        Statement.parse,
        Countersignature.parse,
        SignedBytes.parse,
        SignedApproval.parse,
        parse_armor,
        parse_key,
    ):
        malformed(parse, data)


@pytest.mark.parametrize("about", ["1", "[]", "null", '{"x":1e400}', '{"x":"\\ud800"}', '{"x":1,"x":1}'])
def test_an_act_must_be_about_an_object(about: str) -> None:
    good = Act("threegate-kill/1", WORKSPACE, 1, "operator", APPROVED, "0" * 32, {}).to_bytes()
    malformed(Act.parse, good.replace(b'"about":{}', f'"about":{about}'.encode()), "threegate-kill/1")


def test_a_float_in_an_act_has_one_spelling() -> None:
    good = Act("threegate-kill/1", WORKSPACE, 1, "operator", APPROVED, "0" * 32, {"x": 1}).to_bytes()
    malformed(Act.parse, good.replace(b'"x":1', b'"x":1.0'), "threegate-kill/1")


def test_a_time_is_text(approved: Approved) -> None:
    text = approved.statement.to_bytes()
    malformed(Statement.parse, text.replace(b'"2026-11-22T10:05:00Z"', b"1795341900"))


@given(MOMENTS)
def test_a_time_reads_as_it_was_written(moment: datetime) -> None:
    assert parse_utc(format_utc(moment)) == moment


@pytest.mark.parametrize("text", ["2026-11-22T10:00:60Z", "2026-13-22T10:00:00Z", "2026-11-22 10:00:00Z", ""])
def test_other_times_are_refused(text: str) -> None:
    malformed(parse_utc, text)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        string(b"ssh-ed25519"),
        string(b"ssh-ed25519") + string(b"k" * 31),
        ED25519 + b"x",
        string(b"ssh-dss") + string(b"k" * 32),
        string(b"ssh-ed25519\x00") + string(b"k" * 32),
        string("ſsh".encode()) + string(b"k" * 32),
        string(b"ecdsa-sha2-nistp256") + string(b"nistp384") + string(b"\x04" + b"k" * 96),
        string(b"ecdsa-sha2-nistp256") + string(b"nistp999") + string(b"\x04" + b"k" * 64),
        string(b"ecdsa-sha2-nistp256") + string(b"nistp256") + string(b"\x02" + b"k" * 32),
        string(b"ecdsa-sha2-nistp256") + string(b"nistp256") + string(b"\x02" + b"k" * 64),
        string(b"ssh-rsa") + mpint(65537) + string(b""),
        string(b"ssh-rsa") + mpint(65537) + string(b"\x00"),
        string(b"ssh-rsa") + mpint(65537) + string(b"\x80" + b"k" * 400),
        string(b"ssh-rsa") + mpint(65537) + string(b"\x00\x01" + b"k" * 400),
        string(b"ssh-rsa") + mpint(65537) + mpint(2**3072 + 1) + b"x",
        string(b"sk-ssh-ed25519@openssh.com") + string(b"k" * 32),
        string(b"sk-ssh-ed25519@openssh.com") + string(b"k" * 32) + string(b"\xff"),
        b"\xff\xff\xff\xff",
    ],
)
def test_keys_are_read_whole_or_not_at_all(blob: bytes) -> None:
    malformed(parse_key, blob)


def test_a_key_is_told_by_its_fingerprint(key: Path) -> None:
    import subprocess

    listed = subprocess.run(["/usr/bin/ssh-keygen", "-l", "-f", str(key)], capture_output=True, text=True, check=True)
    type_name, text = material.public(key).split()
    assert parse_key_text(type_name, text).fingerprint == listed.stdout.split()[1]
    malformed(parse_key_text, "ssh-rsa", text)
    for wrong in (text + "=", text[:-1], "é", text[:-2] + "\n" + text[-2:]):
        malformed(decode_base64, wrong)


def certificate(authority: bytes = ED25519, kind: int = 1, critical: bytes = b"", names: bytes = b"") -> bytes:
    """A certificate blob made by hand; its signature is nonsense."""
    return b"".join(
        (
            string(b"ssh-ed25519-cert-v01@openssh.com"), string(b"nonce"), string(b"k" * 32), bytes(8),
            kind.to_bytes(4, "big"), string(b"id"), string(names), bytes(8), b"\xff" * 8, string(critical),
            string(b""), string(b""), string(authority), string(b"signature"),
        )
    )  # fmt: skip


def test_a_certificate_says_what_its_blob_says() -> None:
    found = parse_key(certificate(names=string(b"alice") + string(b"bob")))
    assert found.certificate is not None and found.certificate.principals == ("alice", "bob")
    assert found.blob == ED25519 and found.problem() is None
    assert parse_key(certificate(kind=2)).problem() == "a certificate that is not for a user"
    assert parse_key(certificate(critical=b"x")).problem() == "a certificate with critical options"
    short = string(b"ssh-rsa") + mpint(65537) + mpint(2**1023 + 1)
    assert "RSA key of 1024" in str(parse_key(certificate(authority=short)).problem())
    malformed(parse_key, certificate(authority=certificate()))
    malformed(parse_key, certificate(names=b"\x00"))
    malformed(parse_key, certificate()[:-1])
    text = base64.b64encode(certificate()).decode()
    malformed(parse_key_text, "ssh-ed25519", text)


def blob_of(approved: Approved) -> bytes:
    armor = approved.signature.partition(b"\n")[2]
    return base64.b64decode(b"".join(armor.splitlines()[1:-1]))


def rebuilt(
    key: bytes, *, namespace: bytes = b"n", reserved: bytes = b"", hashed: bytes = b"sha512", inner: bytes
) -> bytes:
    return render_armor(
        b"SSHSIG\x00\x00\x00\x01" + string(key) + string(namespace) + string(reserved) + string(hashed) + string(inner)
    )


def test_a_signature_has_one_form(approved: Approved) -> None:
    good = string(b"ssh-ed25519") + string(b"s" * 64)
    assert parse_armor(rebuilt(ED25519, inner=good)).namespace == "n"
    malformed(parse_armor, rebuilt(ED25519, reserved=b"x", inner=good))
    malformed(parse_armor, rebuilt(ED25519, hashed=b"md5", inner=good))
    malformed(parse_armor, rebuilt(ED25519, inner=good + b"x"))
    malformed(parse_armor, rebuilt(ED25519, inner=string(b"ssh-rsa") + string(b"s")))
    malformed(parse_armor, b"x" * 100_000)
    malformed(parse_armor, "ü".encode())
    malformed(SignedBytes.parse, b"x" * 100_000)
    malformed(SignedBytes.parse, b"no newline")
    rsa = string(b"ssh-rsa") + mpint(65537) + mpint(2**3071 + 1)
    for algorithm in (b"rsa-sha2-256", b"rsa-sha2-512"):
        assert parse_armor(rebuilt(rsa, inner=string(algorithm) + string(b"s"))).problem() is None
    malformed(parse_armor, rebuilt(rsa, inner=string(b"ssh-rsa") + string(b"s")))
    short = string(b"ssh-rsa") + mpint(65537) + mpint(2**2047 + 1)
    found = parse_armor(rebuilt(short, inner=string(b"rsa-sha2-512") + string(b"s")))
    assert "RSA key of 2048" in str(found.problem())
    assert SignedBytes.parse(approved.signature).to_bytes() == approved.signature


def test_a_short_rsa_key_that_a_line_could_not_name_is_no_valid_signature(approved: Approved) -> None:
    """Even where the operators file names it: the check of the signature stands on its own."""
    short = parse_key(string(b"ssh-rsa") + mpint(65537) + mpint(2**2047 + 1))
    armor = rebuilt(short.blob, namespace=b"threegate-approval", inner=string(b"rsa-sha2-512") + string(b"s"))
    facts = approved.facts(signature=approved.statement.to_bytes() + b"\n" + armor)
    entry = Operator("operator", short)
    facts = replace(facts, operators=replace(facts.operators, entries=(entry,)))
    with pytest.raises(Refused) as caught:
        check_launch(facts)
    assert caught.value.code == "signature_invalid"


@given(st.binary(max_size=80))
def test_armor_is_its_own_rendering(blob: bytes) -> None:
    armor = render_armor(blob)
    assert armor.startswith(b"-----BEGIN") and all(len(line) <= 70 for line in armor.splitlines())


def test_wire_values_end_where_they_end() -> None:
    reader = WireReader(b"\x01\x00\x00\x00\x00\x00\x00\x00\x02rest")
    assert reader.number(1) == 1 and reader.number(8) == 2
    malformed(reader.end)
    malformed(reader.number, 8)
    malformed(WireReader(string(b"\xff")).text)
    malformed(WireReader(string(b"\n")).text)


DATES = st.none() | MOMENTS


@given(NAMES, st.booleans(), DATES, DATES, st.sampled_from(["", "a comment", "#1"]))
def test_a_line_reads_as_it_was_written(
    name: str, authority: bool, after: datetime | None, before: datetime | None, comment: str
) -> None:
    key = PublicKey("ssh-ed25519", ED25519, 256)
    entry = Operator(name, key, authority, after, before, comment)
    line = render_operator(entry, base64.b64encode(ED25519).decode()) + "\n"
    loaded = load_operators(b"# comment\n\n" + line.encode(), None)
    if after is not None and before is not None and before <= after:
        assert loaded.problem is not None and loaded.entries == ()
    else:
        assert loaded.problem is None and loaded.entries == (entry,)


@pytest.mark.parametrize(
    ("revoked", "good"),
    [
        (b"SSHKRL\n\x00 whatever", True),
        (b"SSHKRL\n\x00" + b"x" * 300_000, False),
        (b"# nobody\n", True),
        (b"ssh-ed25519\n", False),
        (b"ssh-ed25519 AAAA comment\n", False),
        (b"ssh-ed25519 " + base64.b64encode(ED25519) + b" a comment\n", True),
        (b"ssh-ed25519 " + base64.b64encode(ED25519), False),
        (b"\x00\n", False),
    ],
)
def test_the_revocation_file_is_a_krl_or_a_list_of_keys(key: Path, revoked: bytes, good: bool) -> None:
    loaded = load_operators(material.line("operator", key).encode(), revoked)
    assert (loaded.problem is None) is good
    assert loaded.digests[1] is not None


def test_the_owner_names_the_requester_where_the_settings_know_them() -> None:
    request = material.make_request(requested_by="text")
    assert requester_of(request, {}, 5) == "text"
    assert requester_of(request, {"5": "core"}, 5) == "core"
    assert requester_of(request, {"5": "core"}, None) == "text"


def unsigned(approved: Approved, **changes: Any) -> LaunchFacts:
    return approved.facts(signature=None, mode="optional", **changes)


def test_a_hand_promoted_request_only_validates(approved: Approved) -> None:
    verified = check_launch(unsigned(approved))
    assert verified.approval_sha256 is None and verified.authorization == "validated"
    assert verified.approved_by == "operator" and verified.signers == ()
    assert all(check.ok for check in launch_checks(unsigned(approved)))
    nobody = unsigned(approved, request=replace(approved.request, approved_by=None, approved_utc=None))
    failed = {check.name: check.code for check in launch_checks(nobody) if not check.ok}
    assert failed == {"unsigned promotion": "signature_missing", "time": "signature_missing"}


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("", {}),
        ("operators_changed", {"recorded_operators": ("0" * 64, None)}),
        ("workspace_mismatch", {"workspace_id": "ws-" + "1" * 32}),
        ("workspace_mismatch", {"epoch": 2}),
        ("not_yet_valid", {"now": APPROVED - timedelta(seconds=61)}),
        ("expired", {"now": APPROVED + timedelta(seconds=600)}),
        ("replayed", {"nonce_used": lambda nonce: True}),
        ("signature_file_malformed", {"type": "threegate-apply/1"}),
    ],
)
def test_an_act_counts_once_here_and_now(key: Path, code: str, changes: dict[str, Any]) -> None:
    act = Act("threegate-kill/1", WORKSPACE, 1, "operator", APPROVED, "0" * 32, {"session": "s"})
    data = material.signed(act.to_bytes(), key, NAMESPACE_ACT)
    operators = load_operators(material.line("operator", key).encode(), None)
    values: dict[str, Any] = {
        "type": "threegate-kill/1", "operators": operators, "recorded_operators": operators.digests,
        "workspace_id": WORKSPACE, "epoch": 1, "nonce_used": lambda nonce: False, "now": NOW, "max_age_sec": 600,
        **changes,
    }  # fmt: skip
    kind = values.pop("type")
    if not code:
        found, signer = check_act(data, kind, **values)
        assert found == act and signer.name == "operator"
        return
    with pytest.raises(Refused) as caught:
        check_act(data, kind, **values)
    assert caught.value.code == code
