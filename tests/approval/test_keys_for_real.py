"""Every kind of key that ssh-keygen takes, for real: files, agents, certificates, revoked and expired ones.

FIDO tokens cannot be had here: their signatures are made by hand (tests/approval/fido.py), which ssh-keygen
verifies like those of a token; the command line that would sign with one is compared.
"""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.approval import fido, material
from tests.approval.material import APPROVED, NOW, Approved, facts_of, line, make_key, public, signed
from threegate.approval.launch import check_launch, launch_checks
from threegate.approval.operators import NAMESPACES, load_operators
from threegate.approval.signature import sign_command, sign_statement, verify_command
from threegate.approval.statement import Statement, render_signed
from threegate.core.errors import InvalidInput, Refused, Unavailable


def code_of(facts: object) -> str:
    with pytest.raises(Refused) as caught:
        check_launch(facts)  # type: ignore[arg-type]
    return caught.value.code


def fresh() -> tuple[material.Request, material.Job, Statement]:
    request = material.make_request()
    job = material.make_job(request)
    return request, job, material.make_statement(request, job)


def passes(key: Path, operators: str, revoked: bytes | None = None) -> None:
    request, job, statement = fresh()
    facts = facts_of(request, job, signed(statement.to_bytes(), key), operators.encode(), revoked=revoked)
    assert check_launch(facts).approved_by == "operator"


def refused(key: Path, operators: str, revoked: bytes | None = None) -> str:
    request, job, statement = fresh()
    facts = facts_of(request, job, signed(statement.to_bytes(), key), operators.encode(), revoked=revoked)
    return code_of(facts)


@pytest.mark.parametrize(
    ("kind", "bits"), [("ed25519", None), ("ecdsa", 256), ("ecdsa", 384), ("ecdsa", 521), ("rsa", 3072)]
)
def test_ordinary_keys(tmp_path: Path, kind: str, bits: int | None) -> None:
    key = make_key(tmp_path, "operator", kind, bits)
    passes(key, line("operator", key))


@pytest.mark.parametrize("bits", [1024, 2048, 3071])
def test_short_rsa_keys(tmp_path: Path, bits: int) -> None:
    key = make_key(tmp_path, "operator", "rsa", bits)
    assert refused(key, line("operator", key)) == "operators_changed"
    other = make_key(tmp_path, "other")
    assert refused(key, line("operator", other)) == "signer_unknown"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """A running ssh-agent; its socket."""
    socket = str(tmp_path / "agent")
    process = subprocess.Popen(["/usr/bin/ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    for _ in range(500):
        if os.path.exists(socket):
            break
        process.poll()
        subprocess.run(["/bin/sleep", "0.01"])
    yield socket
    process.terminate()
    process.wait()


def test_a_key_that_only_an_agent_holds(tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key(tmp_path, "operator")
    operators = line("operator", key)
    subprocess.run(["/usr/bin/ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": agent}, check=True, capture_output=True)
    key.unlink()
    monkeypatch.setenv("SSH_AUTH_SOCK", agent)
    request, job, statement = fresh()
    armor = sign_statement(statement.to_bytes(), key.with_name("operator.pub"), "threegate-approval")
    facts = facts_of(request, job, render_signed(statement.to_bytes(), armor), operators.encode())
    check_launch(facts)
    monkeypatch.delenv("SSH_AUTH_SOCK")
    with pytest.raises(InvalidInput):
        sign_statement(statement.to_bytes(), key.with_name("operator.pub"), "threegate-approval")


def certify(tmp_path: Path, ca: Path, key: Path, *options: str, names: str = "operator", window: str = "") -> Path:
    """Sign a certificate; ssh-keygen then signs with the key and presents the certificate."""
    window = window or f"{APPROVED - timedelta(days=1):%Y%m%d}:{NOW + timedelta(days=400):%Y%m%d}"
    principals = ["-n", names] if names else []
    command = ["/usr/bin/ssh-keygen", "-q", "-s", str(ca), "-I", "id", *principals, "-V", window, *options]
    subprocess.run(
        [*command, str(key) + ".pub"], check=True, capture_output=True, env={"TZ": "UTC", "PATH": "/usr/bin"}
    )
    return key.with_name(key.name + "-cert.pub")


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Path, str]:
    """A certificate authority, and its line."""
    ca = make_key(tmp_path, "ca")
    return ca, line("operator", ca, before="cert-authority,")


def sign_with_certificate(statement: bytes, certificate: Path, agent: str, key: Path) -> bytes:
    """ssh-keygen signs with a certificate when an agent holds it."""
    subprocess.run(["/usr/bin/ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": agent}, check=True, capture_output=True)
    return render_signed(statement, sign_statement(statement, certificate, "threegate-approval"))


@pytest.mark.parametrize(
    ("code", "options", "names", "window"),
    [
        ("", [], "operator", ""),
        ("", [], "other,operator", ""),
        ("signature_invalid", ["-O", "force-command=x"], "operator", ""),
        ("signature_invalid", ["-h"], "operator", ""),
        ("signer_unknown", [], "other", ""),
        ("signer_unknown", [], "", ""),
        ("signer_expired", [], "operator", "20200101:20210101"),
        ("signer_expired", [], "operator", "20261122100700:20300101"),
        ("signer_expired", [], "operator", "20200101:20261122100700"),
    ],
)
def test_certificates(
    tmp_path: Path,
    agent: str,
    authority: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    options: list[str],
    names: str,
    window: str,
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", agent)
    ca, operators = authority
    key = make_key(tmp_path, "operator")
    certificate = certify(tmp_path, ca, key, *options, names=names, window=window)
    request, job, statement = fresh()
    signature = sign_with_certificate(statement.to_bytes(), certificate, agent, key)
    facts = facts_of(request, job, signature, operators.encode())
    if code:
        assert code_of(facts) == code
        return
    assert check_launch(facts).signers[0].fingerprint.startswith("SHA256:")
    plain = facts_of(request, job, signature, line("operator", key).encode())
    assert code_of(plain) == "signer_unknown"
    for revoked in (public(key), public(ca)):
        facts = facts_of(request, job, signature, operators.encode(), revoked=f"{revoked}\n".encode())
        assert code_of(facts) == "signer_revoked"


def test_a_certificate_of_another_authority(
    tmp_path: Path, agent: str, authority: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", agent)
    stranger, key = make_key(tmp_path, "stranger"), make_key(tmp_path, "operator")
    certificate = certify(tmp_path, stranger, key)
    request, job, statement = fresh()
    signature = sign_with_certificate(statement.to_bytes(), certificate, agent, key)
    assert code_of(facts_of(request, job, signature, authority[1].encode())) == "signer_unknown"


def test_a_certificate_signed_by_a_short_rsa_key(tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", agent)
    ca, key = make_key(tmp_path, "ca", "rsa", 2048), make_key(tmp_path, "operator")
    certificate = certify(tmp_path, ca, key)
    request, job, statement = fresh()
    signature = sign_with_certificate(statement.to_bytes(), certificate, agent, key)
    facts = facts_of(request, job, signature, line("operator", ca, before="cert-authority,").encode())
    assert code_of(facts) == "operators_changed"


@pytest.mark.parametrize("as_krl", [False, True])
def test_revoked_keys(tmp_path: Path, as_krl: bool) -> None:
    key, other = make_key(tmp_path, "operator"), make_key(tmp_path, "other")
    revoked = f"{public(key)} gone\n".encode()
    harmless = f"# nobody of ours\n{public(other)}\n".encode()
    if as_krl:
        for name, source in (("krl", key), ("krl2", other)):
            command = ["/usr/bin/ssh-keygen", "-q", "-k", "-f", str(tmp_path / name), f"{source}.pub"]
            subprocess.run(command, check=True, capture_output=True)
        revoked, harmless = (tmp_path / "krl").read_bytes(), (tmp_path / "krl2").read_bytes()
    passes(key, line("operator", key), harmless)
    assert refused(key, line("operator", key), revoked) == "signer_revoked"
    if as_krl:
        assert refused(key, line("operator", key), revoked[:-5]) == "signer_revoked"


@pytest.mark.parametrize("revoked", [b"garbage\n", b"ssh-ed25519 AAAA\n", b"", b"ssh-ed25519\n"])
def test_an_unreadable_revocation_file_lets_nobody_approve(tmp_path: Path, revoked: bytes) -> None:
    key = make_key(tmp_path, "operator")
    assert refused(key, line("operator", key), revoked) == "operators_changed"


@pytest.mark.parametrize(
    ("options", "valid"),
    [
        (',valid-before="20261122101001Z"', True),
        (',valid-before="20261122101000Z"', False),
        (',valid-before="20261122100500Z"', False),
        (',valid-before="20261122Z"', False),
        (',valid-after="20261122100500Z"', True),
        (',valid-after="20261122100501Z"', False),
        (',valid-after="202611221005Z",valid-before="20270101Z"', True),
        (',valid-after="20261123Z",valid-before="20270101Z"', False),
    ],
)
def test_a_key_counts_only_in_its_time(approved: Approved, key: Path, options: str, valid: bool) -> None:
    facts = approved.facts(operators=line("operator", key, after=options).encode())
    if valid:
        check_launch(facts)
    else:
        assert code_of(facts) == "signer_expired"


@pytest.mark.parametrize("make", [fido.ed25519_key, fido.ecdsa_key])
@pytest.mark.parametrize(
    ("flags", "code"),
    [(0x01, ""), (0x05, ""), (0x00, "signature_invalid"), (0x04, "signature_invalid"),
     (0x41, "signature_file_malformed")],
)  # fmt: skip
def test_fido_keys_must_be_touched(make: object, flags: int, code: str) -> None:
    token = make()  # type: ignore[operator]
    request, job, statement = fresh()
    data = statement.to_bytes()
    operators = f"operator {NAMESPACES} {token.text}\n".encode()
    facts = facts_of(request, job, render_signed(data, token.sign(data, flags=flags)), operators)
    if code:
        assert code_of(facts) == code
    else:
        check_launch(facts)


def test_a_fido_signature_whose_flags_were_changed_afterwards() -> None:
    token = fido.ed25519_key()
    request, job, statement = fresh()
    data = statement.to_bytes()
    untouched = token.sign(data, flags=0)
    body = b"".join(untouched.splitlines()[1:-1])
    blob = bytearray(base64.b64decode(body))
    assert blob[-5] == 0
    blob[-5] = 1
    operators = f"operator {NAMESPACES} {token.text}\n".encode()
    facts = facts_of(request, job, render_signed(data, fido.render_armor(bytes(blob))), operators)
    assert code_of(facts) == "signature_invalid"


def test_the_command_line_is_the_same_for_a_token() -> None:
    expected = "/usr/bin/ssh-keygen -q -Y sign -n threegate-approval -f /home/a/.ssh/id_ed25519_sk"
    assert " ".join(sign_command(Path("/home/a/.ssh/id_ed25519_sk"), "threegate-approval")) == expected
    command = verify_command("alice", "threegate-approval", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), ["a", "s"])
    assert " ".join(command) == (
        "/usr/bin/ssh-keygen -q -Y verify -n threegate-approval -I alice -O verify-time=20260102030405 -f a -s s"
    )


def test_no_key_no_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        sign_statement(b"x", tmp_path / "missing", "threegate-approval")
    (tmp_path / "broken").write_text("nothing")
    with pytest.raises(InvalidInput, match="did not sign"):
        sign_statement(b"x", tmp_path / "broken", "threegate-approval")


def test_a_dsa_key_signs_nothing(tmp_path: Path) -> None:
    dsa = tmp_path / "dsa"
    made = subprocess.run(["/usr/bin/ssh-keygen", "-q", "-t", "dsa", "-N", "", "-f", str(dsa)], capture_output=True)
    if made.returncode != 0:
        pytest.skip("OpenSSH 10 makes none")
    with pytest.raises(InvalidInput, match="may not approve"):
        sign_statement(b"x", dsa, "threegate-approval")


def test_on_a_terminal_ssh_keygen_speaks_for_itself(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.isatty", lambda descriptor: True)
    assert sign_statement(b"x", key, "threegate-approval").startswith(b"-----BEGIN SSH SIGNATURE-----")
    (tmp_path / "broken").write_text("nothing")
    with pytest.raises(InvalidInput, match="message above"):
        sign_statement(b"x", tmp_path / "broken", "threegate-approval")
    assert "broken" in capfd.readouterr().err


@pytest.fixture
def krl(tmp_path: Path) -> bytes:
    """A revocation list that names no key of ours: with it every signature is ssh-keygen's to verify."""
    make_key(tmp_path, "gone")
    command = ["/usr/bin/ssh-keygen", "-q", "-k", "-f", str(tmp_path / "krl"), str(tmp_path / "gone.pub")]
    subprocess.run(command, check=True, capture_output=True)
    return (tmp_path / "krl").read_bytes()


def test_without_ssh_keygen_nothing_is_known(
    approved: Approved, key: Path, krl: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_launch(approved.facts(revoked=krl))
    monkeypatch.setattr("threegate.approval.signature.SSH_KEYGEN", str(tmp_path / "missing"))
    with pytest.raises(Unavailable):
        check_launch(approved.facts(revoked=krl))
    with pytest.raises(Unavailable):
        launch_checks(approved.facts())
    with pytest.raises(Unavailable):
        sign_statement(b"x", key, "threegate-approval")


def test_beside_a_krl_ssh_keygen_refuses_the_signature_of_other_bytes(
    approved: Approved, key: Path, krl: bytes
) -> None:
    statement = replace(approved.statement, nonce="7" * 32).to_bytes()
    other = render_signed(approved.statement.to_bytes(), sign_statement(statement, key, "threegate-approval"))
    assert code_of(approved.facts(signature=other, revoked=krl)) == "signature_invalid"
    assert code_of(approved.facts(signature=other)) == "signature_invalid"


def test_an_ssh_keygen_that_does_not_agree(approved: Approved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch_checks(approved.facts())[-1].ok is True
    monkeypatch.setattr("threegate.approval.signature.SSH_KEYGEN", "/bin/false")
    last = launch_checks(approved.facts())[-1]
    assert (last.name, last.ok, last.code) == ("ssh-keygen", False, "signature_invalid")


def test_an_ssh_keygen_that_never_answers(
    approved: Approved, krl: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "stuck"
    stuck.write_text("#!/bin/sh\nexec sleep 60\n")
    stuck.chmod(0o755)
    monkeypatch.setattr("threegate.approval.signature.SSH_KEYGEN", str(stuck))
    monkeypatch.setattr("threegate.core.limits.SSH_KEYGEN_SECONDS", 0.05)
    with pytest.raises(Unavailable):
        check_launch(approved.facts(revoked=krl))


def test_operators_are_read_from_the_snapshot_not_from_the_disk(approved: Approved) -> None:
    loaded = load_operators(approved.operators, None)
    assert loaded.problem is None and len(loaded.of("operator")) == 1 and loaded.of("nobody") == ()
