"""Passkeys: what counts of a browser's signature, beside plain ssh-keygen; and the two files that name one."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from tests.approval import fido
from tests.approval.material import NOW, facts_of, line, make_job, make_key, make_request, make_statement
from tests.approval.soft_passkey import FLAGS, ORIGIN, SoftPasskey
from threegate.approval.launch import check_launch
from threegate.approval.operators import NAMESPACES, PASSKEY_NAMESPACES, Operators, load_operators, render_operator
from threegate.approval.passkey import (
    Passkey,
    decode_base64url,
    encode_base64url,
    parse_pin,
    passkey_of,
    passkey_signature,
)
from threegate.approval.signature import sign_statement, verify_command
from threegate.approval.signer import verify_signer
from threegate.approval.ssh_wire import (
    NAMESPACE_ACT,
    NAMESPACE_APPROVAL,
    NAMESPACE_LOGIN,
    MalformedError,
    parse_armor,
    render_armor,
)
from threegate.approval.statement import render_signed
from threegate.core.errors import Refused

DATA = b'{"type":"threegate-approval/2","x":1}'
OTHER = b'{"type":"threegate-approval/2","x":2}'
PASSKEY = SoftPasskey()


def operators(passkey: SoftPasskey = PASSKEY, revoked: bytes | None = None) -> Operators:
    loaded = load_operators(passkey.line().encode(), revoked, passkey.pin().encode())
    assert loaded.problem is None
    return loaded


def why_not(armor: bytes, data: bytes = DATA, namespace: str = NAMESPACE_APPROVAL) -> str:
    """Why we refuse a signature; empty when it counts."""
    try:
        verify_signer(data, parse_armor(armor), "operator", namespace, operators(), at=[NOW])
    except (Refused, MalformedError) as error:
        return str(error)
    return ""


def theirs(folder: Path, armor: bytes, data: bytes = DATA, namespace: str = NAMESPACE_APPROVAL) -> bool:
    """Whether plain ssh-keygen takes it, with the operators file as it is."""
    (folder / "signers").write_text(PASSKEY.line())
    (folder / "armor").write_bytes(armor)
    command = verify_command("operator", namespace, NOW, [str(folder / "signers"), str(folder / "armor")])
    return subprocess.run(command, input=data, capture_output=True, env={"TZ": "UTC"}).returncode == 0


def said(rest: str = "", *, data: bytes = DATA, origin: str = ORIGIN, kind: str = "webauthn.get") -> bytes:
    """Client data with one thing changed."""
    text = replace_origin(PASSKEY.client_data(data, NAMESPACE_APPROVAL, rest), origin)
    return text.replace(b"webauthn.get", kind.encode())


def replace_origin(text: bytes, origin: str) -> bytes:
    return text.replace(ORIGIN.encode(), origin.encode())


@pytest.mark.parametrize(
    "client_data",
    [
        said(),
        said(',"crossOrigin":false'),
        said(',"crossOrigin":false,"other_keys_can_be_added_here":"do not"'),
    ],
)
@pytest.mark.parametrize("flags", [0x05, 0x0D, FLAGS])
def test_what_browsers_give_counts_on_both_sides(tmp_path: Path, client_data: bytes, flags: int) -> None:
    armor = PASSKEY.sign(DATA, client_data=client_data, flags=flags)
    assert why_not(armor) == ""
    assert theirs(tmp_path, armor)


BAD_CLIENT_DATA = {
    "another type": said(kind="webauthn.create"),
    "a payment": said(kind="payment.get"),
    "another request": said(data=OTHER),
    "another host": said(origin="https://approve.example.net:8443"),
    "another port": said(origin="https://approve.example.org:8444"),
    "no port": said(origin="https://approve.example.org"),
    "plain http": said(origin="http://approve.example.org:8443"),
    "upper case": said(origin="https://Approve.example.org:8443"),
    "inside of another page": said(',"crossOrigin":true'),
    "crossOrigin as a number": said(',"crossOrigin":0'),
    "crossOrigin as null": said(',"crossOrigin":null'),
    "a top origin": said(',"crossOrigin":false,"topOrigin":"https://evil.example"'),
    "a top origin of its own": said(f',"topOrigin":"{ORIGIN}"'),
    "type twice": said(',"type":"webauthn.get"'),
    "challenge twice": said(',"challenge":"AAAA"'),
    "origin twice": said(',"origin":"https://evil.example"'),
    "origin twice, escaped": said(',"\\u006frigin":"https://evil.example"'),
    "crossOrigin twice": said(',"crossOrigin":true,"crossOrigin":false'),
    "nested origin alone": b'{"x":' + said() + b"}",
    "blanks": said().replace(b'":"', b'": "'),
    "another order": said().replace(b'"type":"webauthn.get",', b"").replace(b"}", b',"type":"webauthn.get"}'),
    "more behind": said() + b" {}",
    "no JSON": said()[:-1],
    "no object": b"[]",
    "not UTF-8": said(',"x":"\x00"').replace(b"\x00", b"\xff"),
    "a byte order mark": b"\xef\xbb\xbf" + said(),
    "too long": said(f',"x":"{"y" * 3000}"'),
    "nothing": b"",
}


@pytest.mark.parametrize("name", BAD_CLIENT_DATA)
def test_client_data_that_says_anything_else(name: str) -> None:
    """Correctly signed by the passkey, and refused all the same, whatever origin the signature itself names."""
    client_data = BAD_CLIENT_DATA[name]
    assert why_not(PASSKEY.sign(DATA, client_data=client_data)) != ""
    for origin in (
        "https://approve.example.net:8443",
        "https://approve.example.org:8444",
        "https://approve.example.org",
    ):
        assert "pinned" in why_not(PASSKEY.sign(DATA, client_data=client_data, origin=origin))


def test_an_origin_that_writes_json(tmp_path: Path) -> None:
    """The beginning that ssh-keygen compares could be had with an origin that ends its own string."""
    origin = f'{ORIGIN}","crossOrigin":false,"x":"y'
    client_data = said(origin=origin)
    armor = PASSKEY.sign(DATA, client_data=client_data, origin=origin)
    assert "pinned" in why_not(armor)
    signature = parse_armor(armor)
    from threegate.approval.signer import verifies

    assert not verifies(DATA, signature)
    assert not theirs(tmp_path, armor)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"flags": 0x01}, "PIN or biometrics"),
        ({"flags": 0x19}, "PIN or biometrics"),
        ({"flags": 0x04}, "touched"),
        ({"flags": 0x00}, "touched"),
        ({"flags": 0x45}, "flags"),
        ({"flags": 0x85}, "flags"),
        ({"flags": 0x07}, "flags"),
        ({"flags": 0x25}, "flags"),
        ({"flags": 0x85, "extensions": b"\xa0"}, "flags"),
        ({"extensions": b"\xa0"}, "extensions"),
        ({"rp_id": "example.org"}, "not one over these bytes"),
        ({"rp_id": "approve.example.net"}, "not one over these bytes"),
        ({"origin": "https://approve.example.org"}, "pinned"),
    ],
)
def test_flags_extensions_and_host(changes: dict[str, object], words: str) -> None:
    assert words in why_not(PASSKEY.sign(DATA, **changes))  # type: ignore[arg-type]


def test_for_another_statement_namespace_or_person(tmp_path: Path) -> None:
    armor = PASSKEY.sign(DATA)
    assert "not one over these bytes" in why_not(armor, OTHER)
    assert not theirs(tmp_path, armor, OTHER)
    assert "not for threegate-login" in why_not(armor, namespace=NAMESPACE_LOGIN)
    with pytest.raises(Refused, match="operators gives"):
        verify_signer(DATA, parse_armor(armor), "alice", NAMESPACE_APPROVAL, operators(), at=[NOW])


def test_it_signs_approvals_and_logins_and_no_act(tmp_path: Path) -> None:
    assert why_not(PASSKEY.sign(DATA, NAMESPACE_LOGIN), namespace=NAMESPACE_LOGIN) == ""
    act = PASSKEY.sign(DATA, NAMESPACE_ACT)
    assert "approvals only" in why_not(act, namespace=NAMESPACE_ACT)
    assert not theirs(tmp_path, act, namespace=NAMESPACE_ACT)


def test_an_ssh_key_logs_nobody_in(tmp_path: Path) -> None:
    key = make_key(tmp_path, "key")
    loaded = load_operators(line("operator", key).encode(), None)
    armor = sign_statement(DATA, key, NAMESPACE_LOGIN)
    with pytest.raises(Refused, match="no logins"):
        verify_signer(DATA, parse_armor(armor), "operator", NAMESPACE_LOGIN, loaded, at=[NOW])


def test_a_token_never_signs_in_a_browsers_form_nor_the_other_way() -> None:
    """A FIDO key's own line pins no origin; a passkey's key without a browser around it shows nobody where it
    signed.
    """
    token = fido.ecdsa_key()
    ordinary = load_operators(f"operator {NAMESPACES} {token.text}\n".encode(), None)
    assert ordinary.problem is None
    browser = SoftPasskey()
    browser.private = token.private  # type: ignore[assignment]
    browser.key = replace(browser.key, blob=token.blob)
    armor = browser.sign(DATA, rp_id="ssh:")
    with pytest.raises(Refused, match="no web origin"):
        verify_signer(DATA, parse_armor(armor), "operator", NAMESPACE_APPROVAL, ordinary, at=[NOW])
    bare = fido.SecurityKey(token.type, PASSKEY.key.blob, PASSKEY.private).sign(DATA, flags=5)
    with pytest.raises(Refused, match="pinned to https"):
        verify_signer(DATA, parse_armor(bare), "operator", NAMESPACE_APPROVAL, operators(), at=[NOW])


def test_revoked_by_list_and_by_krl(tmp_path: Path) -> None:
    public = " ".join(PASSKEY.line().split()[2:4])
    (tmp_path / "pub").write_text(public + "\n")
    subprocess.run(["/usr/bin/ssh-keygen", "-q", "-k", "-f", tmp_path / "krl", tmp_path / "pub"], check=True)
    stranger = make_key(tmp_path, "stranger")
    subprocess.run(["/usr/bin/ssh-keygen", "-q", "-k", "-f", tmp_path / "other", f"{stranger}.pub"], check=True)
    armor = parse_armor(PASSKEY.sign(DATA))
    for revoked in (public.encode() + b"\n", (tmp_path / "krl").read_bytes()):
        with pytest.raises(Refused, match="revoked"):
            verify_signer(DATA, armor, "operator", NAMESPACE_APPROVAL, operators(revoked=revoked), at=[NOW])
    other = operators(revoked=(tmp_path / "other").read_bytes())
    verify_signer(DATA, armor, "operator", NAMESPACE_APPROVAL, other, at=[NOW])
    crossed = parse_armor(PASSKEY.sign(DATA, client_data=said(',"crossOrigin":true')))
    with pytest.raises(Refused, match="not one over"):
        verify_signer(DATA, crossed, "operator", NAMESPACE_APPROVAL, other, at=[NOW])


def test_a_certificate_that_its_authority_did_not_sign(tmp_path: Path) -> None:
    """What only ssh-keygen verifies is refused when it says no, with no revocation file to blame."""
    ca, key = make_key(tmp_path, "ca"), make_key(tmp_path, "key")
    command = ["/usr/bin/ssh-keygen", "-q", "-s", ca, "-I", "id", "-n", "operator", f"{key}.pub"]
    subprocess.run(command, check=True, capture_output=True)
    certificate = tmp_path / "key-cert.pub"
    kind, text = certificate.read_text().split()[:2]
    blob = bytearray(base64.b64decode(text))
    blob[-1] ^= 1
    genuine = sign_statement(DATA, key, NAMESPACE_APPROVAL)
    inner = base64.b64decode(b"".join(genuine.splitlines()[1:-1]))
    plain = parse_armor(genuine).key.blob
    armor = render_armor(inner.replace(fido.string(plain), fido.string(bytes(blob)), 1))
    loaded = load_operators(line("operator", ca, "cert-authority,").encode(), None)
    with pytest.raises(Refused, match="ssh-keygen does not verify"):
        verify_signer(DATA, parse_armor(armor), "operator", NAMESPACE_APPROVAL, loaded, at=[NOW])
    assert kind.startswith("ssh-ed25519-cert")


def test_a_whole_launch(tmp_path: Path) -> None:
    request = make_request()
    statement = make_statement(request, make_job(request)).to_bytes()
    signature = render_signed(statement, PASSKEY.sign(statement))
    loaded = operators()
    facts = facts_of(request, make_job(request), signature, PASSKEY.line().encode())
    assert facts.operators.problem is not None
    facts = replace(facts, operators=loaded, recorded_operators=loaded.digests)
    assert check_launch(facts).signers[0].fingerprint == PASSKEY.key.fingerprint
    for recorded in ((*loaded.digests[:2], None), (*loaded.digests[:2], "0" * 64)):
        with pytest.raises(Refused) as refused:
            check_launch(replace(facts, recorded_operators=recorded))
        assert refused.value.code == "operators_changed"


SECOND = SoftPasskey(credential=b"credential-2")


@pytest.mark.parametrize(
    ("lines", "pins", "words"),
    [
        (PASSKEY.line(), None, "operators.passkeys does not pin"),
        (PASSKEY.line(), SECOND.pin(), "does not pin"),
        (PASSKEY.line() + SECOND.line("alice"), PASSKEY.pin(), "operators:2: is a passkey that"),
        (PASSKEY.line(), PASSKEY.pin() + SECOND.pin(), "which is not a passkey of operators"),
        (PASSKEY.line().replace(PASSKEY_NAMESPACES, NAMESPACES), None, "does not pin"),
        (
            PASSKEY.line().replace(PASSKEY_NAMESPACES, NAMESPACES),
            PASSKEY.pin(),
            "does not pin",
        ),
        (
            PASSKEY.line().replace("namespaces", "cert-authority,namespaces"),
            PASSKEY.pin(),
            "has options other",
        ),
        (PASSKEY.line(), PASSKEY.pin() * 2, "a second time"),
        (PASSKEY.line(), PASSKEY.pin().replace("approve.", "other."), "does not pin"),
        (PASSKEY.line(), PASSKEY.pin().replace(" approve.", " other.", 1), "RPID"),
        (PASSKEY.line(), PASSKEY.pin().replace("https", "http"), "is not an origin like"),
        (PASSKEY.line(), PASSKEY.pin().replace(" https", "  https"), "is not: SHA256"),
        (PASSKEY.line(), "", "is empty"),
        (PASSKEY.line(), PASSKEY.pin()[:-1], "newline"),
    ],
)
def test_files_that_do_not_fit(lines: str, pins: str | None, words: str) -> None:
    loaded = load_operators(lines.encode(), None, None if pins is None else pins.encode())
    assert loaded.problem is not None and words in loaded.problem
    assert loaded.entries == ()


def test_a_passkeys_line_has_a_passkeys_key(tmp_path: Path) -> None:
    """An ordinary key or a token in a line of that form: what is pinned must fit the key."""
    key = make_key(tmp_path, "key")
    for text in (" ".join(Path(f"{key}.pub").read_text().split()[:2]), fido.ecdsa_key().text):
        from threegate.approval.ssh_wire import parse_key_text

        fingerprint = parse_key_text(*text.split()).fingerprint
        pin = f"{fingerprint} approve.example.org {ORIGIN} Y3JlZA\n"
        loaded = load_operators(f"operator {PASSKEY_NAMESPACES} {text}\n".encode(), None, pin.encode())
        assert loaded.problem is not None and "does not pin" in loaded.problem


def test_a_passkey_may_have_its_time() -> None:
    (entry,) = operators().entries
    timed = replace(entry, valid_after=NOW, valid_before=NOW.replace(year=2030))
    text = render_operator(timed, base64.b64encode(entry.key.blob).decode())
    loaded = load_operators(f"{text}\n".encode(), None, PASSKEY.pin().encode())
    assert loaded.entries == (timed,)


def test_files_that_fit_are_read_back() -> None:
    loaded = load_operators(
        (PASSKEY.line() + SECOND.line("alice")).encode(),
        None,
        f"# ours\n{SECOND.pin()}{PASSKEY.pin()}".encode(),
    )
    assert loaded.problem is None
    assert [(entry.name, entry.passkey) for entry in loaded.entries] == [
        ("operator", PASSKEY.passkey), ("alice", SECOND.passkey),
    ]  # fmt: skip
    assert loaded.digests[2] is not None


@pytest.mark.parametrize(
    "origin",
    [
        "https://localhost", "https://localhost:8443", "https://127.0.0.1", "https://[::1]",
        "https://1.2.3.4:8443", "https://approve", "https://approve.example.org:443", "https://approve.example.org/",
        "https://approve.example.org:0", "https://approve.example.org:65536", "https://Approve.example.org",
        "https://user@approve.example.org", "https://approve..org", "https://-a.example.org", "http://a.example.org",
        "https://approve.example.org.", "https://" + "a." * 130 + "org", "", "https://приём.example", "https://a.b_c.org",
    ],
)  # fmt: skip
def test_origins_that_nothing_may_be_pinned_to(origin: str) -> None:
    with pytest.raises(ValueError, match="is not an origin like"):
        passkey_of(PASSKEY.spki, origin, "Y3JlZA")


def test_a_passkey_is_pinned_to_no_name_of_this_machine() -> None:
    with pytest.raises(ValueError, match="any program of this machine"):
        passkey_of(PASSKEY.spki, "https://a.localhost", "Y3JlZA")


def test_keys_and_credentials_that_are_none() -> None:
    p384 = ec.generate_private_key(ec.SECP384R1()).public_key()
    edwards = ed25519.Ed25519PrivateKey.generate().public_key()
    for spki in (b"", b"x" * 91, *(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) for key in (p384, edwards))):  # fmt: skip  # noqa: E501
        with pytest.raises(MalformedError, match="public key"):
            passkey_of(spki, ORIGIN, "Y3JlZA")
    for credential, wrong in (
        ("", "1 to 1023 bytes"),
        (encode_base64url(b"x" * 1024), "1 to 1023 bytes"),
        ("Y3JlZB", "unusual spelling"),
        ("Y3JlZA==", "unusual spelling"),
        ("a b", "not base64url"),
        ("é", "not base64url"),
    ):
        with pytest.raises(MalformedError, match=wrong):
            passkey_of(PASSKEY.spki, ORIGIN, credential)


def test_an_assertion_that_is_cut() -> None:
    client_data = said()
    head, signature = PASSKEY.get(client_data)
    for data, value, words in (
        (head[:36], signature, "ends in"),
        (head, signature[:-1], "not an ECDSA"),
        (head, b"", "not an ECDSA"),
    ):
        with pytest.raises(MalformedError, match=words):
            passkey_signature(
                PASSKEY.key, ORIGIN, NAMESPACE_APPROVAL,
                authenticator_data=data, client_data=client_data, signature=value,
            )  # fmt: skip


@given(st.binary(max_size=60))
def test_base64url_has_one_spelling(data: bytes) -> None:
    assert decode_base64url(encode_base64url(data)) == data


@given(
    credential=st.binary(min_size=1, max_size=80),
    port=st.none() | st.integers(1, 65535).filter(lambda n: n != 443),
)
def test_a_pin_is_read_back(credential: bytes, port: int | None) -> None:
    origin = "https://a.b-c.example" + (f":{port}" if port else "")
    passkey = Passkey(origin, encode_base64url(credential))
    assert parse_pin(passkey.pin(PASSKEY.key)) == (PASSKEY.key.fingerprint, passkey)


MUTATIONS: list[Callable[[], bytes]] = [
    *(lambda name=name: PASSKEY.sign(DATA, client_data=BAD_CLIENT_DATA[name]) for name in BAD_CLIENT_DATA),
    *(lambda flags=flags: PASSKEY.sign(DATA, flags=flags) for flags in range(0, 256, 5)),
    lambda: PASSKEY.sign(DATA),
    lambda: PASSKEY.sign(OTHER),
    lambda: PASSKEY.sign(DATA, extensions=b"\xa0"),
    lambda: PASSKEY.sign(DATA, rp_id="example.org"),
    lambda: SECOND.sign(DATA),
]


def test_never_more_lenient_than_ssh_keygen(tmp_path: Path) -> None:
    """It takes more than we do: it knows no origin, and reads flags and client data less strictly."""
    answers = [(why_not(armor) == "", theirs(tmp_path, armor)) for armor in (make() for make in MUTATIONS)]
    assert (True, False) not in answers
    assert answers.count((True, True)) >= 2 and answers.count((False, True)) >= 5 and (False, False) in answers
