"""The verification in this process beside ssh-keygen's: over every kind of key, never more lenient.

Each mutation changes one thing of a genuine signature, of what was signed, or of the operators' files; a quarter of
them two. Both sides get the same bytes: ours through the parsers of this gate, ssh-keygen as files. The long form is
soak.
"""

from __future__ import annotations

import base64
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.approval import fido
from tests.approval.fido import mpint, string
from tests.approval.material import NOW, make_key, public
from threegate.approval.operators import NAMESPACES, load_operators
from threegate.approval.signature import sign_statement, verify_command
from threegate.approval.signer import verifies, verify_signer
from threegate.approval.ssh_wire import (
    NAMESPACE_ACT,
    NAMESPACE_APPROVAL,
    MalformedError,
    WireReader,
    parse_armor,
    render_armor,
)
from threegate.core.errors import Refused

DATA = b'{"type":"threegate-approval/2","x":1}'
ORDERS = {
    b"nistp256": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    b"nistp384": 2**384 - 0x389CB27E0BC8D220A7E5F24DB74F58851313E695333AD68D,
    b"nistp521": 2**521 - 0x5AE79787C40D069948033FEB708F65A2FC44A36477663B851449048E16EC79BF7,
}
ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493
KINDS = (
    "ed25519", "ecdsa-256", "ecdsa-384", "ecdsa-521", "rsa-3072", "rsa-4096", "rsa-3072-sha256", "sk-ed25519", "sk-ecdsa",  # noqa: E501
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Everything that a verification is a function of; the blob of the signature in its fields."""

    key: bytes
    namespace: bytes
    reserved: bytes
    hash: bytes
    inner: bytes
    data: bytes
    operators: str
    revoked: bytes | None = None
    name: str = "operator"
    asked: str = NAMESPACE_APPROVAL
    at: tuple[datetime, ...] = (NOW,)
    after: bytes = b""
    flip: int | None = None
    """A bit of the whole blob that is turned at the end."""

    def armor(self) -> bytes:
        parts = (self.key, self.namespace, self.reserved, self.hash, self.inner)
        blob = bytearray(b"SSHSIG\0\0\0\1" + b"".join(map(string, parts)) + self.after)
        if self.flip is not None:
            blob[self.flip // 8 % len(blob)] ^= 1 << self.flip % 8
        return render_armor(bytes(blob))


def read(armor: bytes, data: bytes, operators: str) -> Case:
    reader = WireReader(base64.b64decode(b"".join(armor.splitlines()[1:-1])))
    assert reader.take(10) == b"SSHSIG\0\0\0\1"
    return Case(*(reader.string() for _ in range(5)), data, operators)


def ours(case: Case) -> bool:
    operators = load_operators(case.operators.encode(), case.revoked)
    try:
        signature = parse_armor(case.armor())
        verify_signer(case.data, signature, case.name, case.asked, operators, at=case.at)
    except (Refused, MalformedError):
        return False
    return True


def theirs(case: Case, folder: Path) -> bool:
    (folder / "signers").write_text(case.operators)
    (folder / "armor").write_bytes(case.armor())
    paths = [str(folder / "signers"), str(folder / "armor")]
    if case.revoked is not None:
        (folder / "revoked").write_bytes(case.revoked)
        paths.append(str(folder / "revoked"))
    for moment in case.at:
        command = verify_command(case.name, case.asked, moment, paths)
        if subprocess.run(command, input=case.data, capture_output=True, env={"TZ": "UTC"}).returncode != 0:
            return False
    return True


@pytest.fixture(scope="session")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """One genuine signature by a key of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    made = {}
    for kind in KINDS:
        if kind.startswith("sk-"):
            token = fido.ed25519_key() if kind == "sk-ed25519" else fido.ecdsa_key()
            armor, text = token.sign(DATA, flags=1), token.text
        else:
            family, _, size = kind.partition("-")
            path = make_key(folder, kind, family, int(size[:4]) if size else None)
            armor, text = sign_statement(DATA, path, NAMESPACE_APPROVAL), public(path)
            if kind == "rsa-3072-sha256":
                armor = with_sha256(armor, path)
        made[kind] = read(armor, DATA, f"operator {NAMESPACES} {text}\n")
    return made


def with_sha256(armor: bytes, path: Path) -> bytes:
    """ssh-keygen signs with rsa-sha2-512 only, and verifies rsa-sha2-256 as well."""
    case = read(armor, DATA, "")
    private = serialization.load_ssh_private_key(path.read_bytes(), None)
    assert isinstance(private, rsa.RSAPrivateKey)
    hash_ = hashes.Hash(hashes.SHA512())
    hash_.update(DATA)
    signed = b"SSHSIG" + b"".join(map(string, (case.namespace, b"", b"sha512", hash_.finalize())))
    value = private.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    return replace(case, inner=string(b"rsa-sha2-256") + string(value)).armor()


def inner_of(case: Case) -> tuple[bytes, bytes, bytes]:
    """Algorithm, value, and what a FIDO key puts behind them."""
    reader = WireReader(case.inner)
    algorithm, value = reader.string(), reader.string()
    return algorithm, value, case.inner[reader.position :]


def with_value(case: Case, value: bytes) -> Case:
    algorithm, _, rest = inner_of(case)
    return replace(case, inner=string(algorithm) + string(value) + rest)


def with_key(case: Case, blob: bytes) -> Case:
    """Another key in the signature and in the operators file."""
    name, options, kind, _ = case.operators.split()[:4]
    return replace(case, key=blob, operators=f"{name} {options} {kind} {base64.b64encode(blob).decode()}\n")


def raw(value: int, zeros: int = 0) -> bytes:
    """An mpint that may have no leading zero where it needs one, or too many."""
    return string(bytes(zeros) + value.to_bytes((value.bit_length() + 7) // 8, "big"))


def ecdsa_values(case: Case, dice: random.Random) -> bytes:
    _, value, _ = inner_of(case)
    reader = WireReader(value)
    r, s = (int.from_bytes(reader.string(), "big") for _ in range(2))
    fields = WireReader(case.key)
    fields.string()
    order = ORDERS[fields.string()]
    return dice.choice(
        [
            mpint(r) + mpint(order - s), mpint(r + order) + mpint(s), mpint(r) + mpint(s + order), mpint(s) + mpint(r),
            mpint(0) + mpint(s), mpint(r) + mpint(0), string(b"") + mpint(s), mpint(order) + mpint(s), mpint(r),
            mpint(r) + mpint(s) + b"\0", mpint(r) + mpint(s) + mpint(s), raw(r, 2) + mpint(s), mpint(r) + raw(s, 3),
            raw(r) + raw(s), raw(r, 1) + raw(s, 1), mpint(order - r) + mpint(s), mpint(1) + mpint(1), value[:-1],
        ]
    )  # fmt: skip


def ed25519_values(case: Case, dice: random.Random) -> bytes:
    _, value, _ = inner_of(case)
    point, scalar = value[:32], int.from_bytes(value[32:], "little")
    return dice.choice(
        [
            point + (scalar + ED25519_ORDER).to_bytes(32, "little"),
            point + (ED25519_ORDER - scalar).to_bytes(32, "little"), point + bytes(32), bytes(32) + value[32:],
            value[:-1], value + b"\0", b"\0" + value, value[32:] + point, b"", value + value,
            bytes([*point[:31], point[31] ^ 0x80]) + value[32:], point + value[32:63] + bytes([value[63] | 0x10]),
        ]
    )  # fmt: skip


def rsa_values(case: Case, dice: random.Random) -> bytes:
    _, value, _ = inner_of(case)
    number = int.from_bytes(value, "big")
    fields = WireReader(case.key)
    fields.string()
    fields.string()
    modulus = int.from_bytes(fields.string(), "big")
    size = len(value)
    return dice.choice(
        [
            b"\0" + value, value[:-1], value[1:], value + b"\0", (modulus - number).to_bytes(size, "big"), bytes(size),
            (number + modulus).to_bytes(size + 1, "big"), b"", b"\1", modulus.to_bytes(size, "big"),
            (modulus - 1).to_bytes(size, "big"),
        ]
    )  # fmt: skip


def odd_value(case: Case, dice: random.Random) -> Case:
    algorithm, _, _ = inner_of(case)
    kinds = {b"ecdsa": ecdsa_values, b"ed25519": ed25519_values, b"rsa": rsa_values}
    make = next(make for name, make in kinds.items() if name in algorithm)
    return with_value(case, make(case, dice))


def odd_algorithm(case: Case, dice: random.Random) -> Case:
    _, value, rest = inner_of(case)
    names = (b"rsa-sha2-256", b"rsa-sha2-512", b"ssh-rsa", b"ssh-ed25519", b"ecdsa-sha2-nistp256",
             b"sk-ssh-ed25519@openssh.com", b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com", b"")  # fmt: skip
    return replace(case, inner=string(dice.choice(names)) + string(value) + rest)


def odd_rest(case: Case, dice: random.Random) -> Case:
    """Flags and counter, of a key that has them or not."""
    algorithm, value, _ = inner_of(case)
    rests = (
        b"",
        b"\0" * 5,
        b"\0\0\0\0\7",
        b"\1\0\0\0\7",
        b"\5\0\0\0\7",
        b"\1\0\0\0\6",
        b"\1\0\0\0\7\0",
        b"\xff" * 5,
        b"\1",
    )
    return replace(case, inner=string(algorithm) + string(value) + dice.choice(rests))


def odd_key(case: Case, dice: random.Random) -> Case:
    """A field of the key, in the signature and in the operators file."""
    reader, fields = WireReader(case.key), []
    while reader.position < len(case.key):
        fields.append(reader.string())
    place = dice.randrange(len(fields))
    field = bytearray(fields[place])
    change = dice.randrange(5)
    if change == 0:
        field[dice.randrange(len(field))] ^= 1 << dice.randrange(8)
    elif change == 1:
        field[:0] = b"\0"
    elif change == 2:
        del field[-1]
    elif change == 3:
        field += b"\0"
    else:
        field[:] = dice.choice((b"", b"\1", b"ssh:other", bytes(32), b"\1" + bytes(31), b"\4" + bytes(64)))
    fields[place] = bytes(field)
    return with_key(case, b"".join(map(string, fields)))


def odd_data(case: Case, dice: random.Random) -> Case:
    data = bytearray(case.data)
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return replace(case, data=dice.choice((bytes(data), case.data + b"\n", case.data[:-1], b"", DATA * 2)))


def odd_head(case: Case, dice: random.Random) -> Case:
    return replace(
        case,
        **dice.choice(
            (
                {"namespace": NAMESPACE_ACT.encode()},
                {"namespace": NAMESPACE_ACT.encode(), "asked": NAMESPACE_ACT},
                {"asked": NAMESPACE_ACT},
                {"namespace": b"file", "asked": "file"},
                {"namespace": b""},
                {"reserved": b"x"},
                {"hash": b"sha256"},
                {"hash": b"sha1"},
                {"hash": b"sha384"},
                {"hash": b"SHA512"},
                {"after": b"\0"},
                {"after": b"\0\0\0\0"},
            )
        ),
    )


def odd_operators(case: Case, dice: random.Random) -> Case:
    name, options, kind, key = case.operators.split()[:4]
    stranger = f"ssh-ed25519 {base64.b64encode(string(b'ssh-ed25519') + string(b'k' * 32)).decode()}"
    seconds = timedelta(seconds=dice.choice((-3600, -1, 0, 1, 3600)))
    date = f"{NOW + seconds:%Y%m%d%H%M%S}Z"
    changes: tuple[dict[str, object], ...] = (
        {"operators": f'{name} {options},valid-after="{date}" {kind} {key}\n'},
        {"operators": f'{name} {options},valid-before="{date}" {kind} {key}\n'},
        {"operators": f'{name} {options},valid-before="{date}" {kind} {key}\n', "at": (NOW - timedelta(days=1), NOW)},
        {"operators": f"{name} cert-authority,{options} {kind} {key}\n"},
        {"operators": f"{name} {options} {stranger}\n"},
        {"operators": f"other {options} {stranger}\n{case.operators}"},
        {"operators": f"other {options} {kind} {key}\n"},
        {"name": "other"},
        {"name": "Operator"},
        {"name": "oper*"},
        {"revoked": f"{kind} {key}\n".encode()},
        {"revoked": f"# a note\n{stranger} gone\n{kind} {key} gone too\n".encode()},
        {"revoked": f"{stranger}\n".encode()},
    )  # fmt: skip
    return replace(case, **dice.choice(changes))  # type: ignore[arg-type]


def flipped(case: Case, dice: random.Random) -> Case:
    return replace(case, flip=dice.randrange(8 * 4096))


MUTATIONS: tuple[Callable[[Case, random.Random], Case], ...] = (
    odd_value, odd_value, odd_value, odd_algorithm, odd_rest, odd_key, odd_key, odd_data, odd_head, odd_operators,
    odd_operators, flipped, flipped,
)  # fmt: skip

STRICTER = {"odd_value", "odd_rest", "odd_head", "odd_operators", "odd_key", "flipped"}
"""Where we refuse what ssh-keygen takes: numbers and values in another spelling, a FIDO key that nobody touched or
whose flags OpenSSH never sets, a reserved field that is not empty, and the very second of valid-before.
"""


def mutations(cases: dict[str, Case], count: int, seed: int) -> Iterator[tuple[str, Case]]:
    dice = random.Random(seed)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        case, names = cases[kind], []
        for _ in range(2 if dice.random() < 0.25 else 1):
            mutate = dice.choice(MUTATIONS)
            with suppress(StopIteration, ArithmeticError, ValueError, LookupError):
                case = mutate(case, dice)  # else what the first one left is too odd for the second
                names.append(mutate.__name__)
        yield "+".join(names), case


def compare(cases: dict[str, Case], folder: Path, count: int, seed: int) -> Counter[tuple[bool, bool]]:
    """How often each side said what; fails where ours is more lenient, or stricter where it need not be."""
    found: Counter[tuple[bool, bool]] = Counter()
    for number, (names, case) in enumerate(mutations(cases, count, seed)):
        answers = ours(case), theirs(case, folder)
        found[answers] += 1
        told = f"mutation {number} of seed {seed}, {names}: {case}"
        assert answers != (True, False), told
        assert answers != (False, True) or not STRICTER.isdisjoint(names.split("+")), told
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_genuine_signature_passes_on_both_sides(genuine: dict[str, Case], tmp_path: Path, kind: str) -> None:
    assert ours(genuine[kind])
    assert theirs(genuine[kind], tmp_path)


def test_never_more_lenient(genuine: dict[str, Case], tmp_path: Path) -> None:
    found = compare(genuine, tmp_path, 360, seed=1)
    assert found[True, True] > 10
    assert found[False, False] > 200


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_never_more_lenient_ten_thousand_times(genuine: dict[str, Case], tmp_path: Path) -> None:
    found = compare(genuine, tmp_path, 10_000, seed=2)
    assert found[True, True] > 300


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "ecdsa" in kind])
def test_the_other_half_of_an_ecdsa_signature_counts_on_both_sides(
    genuine: dict[str, Case], tmp_path: Path, kind: str
) -> None:
    case = genuine[kind]
    reader = WireReader(inner_of(case)[1])
    r, s = (int.from_bytes(reader.string(), "big") for _ in range(2))
    fields = WireReader(case.key)
    fields.string()
    case = with_value(case, mpint(r) + mpint(ORDERS[fields.string()] - s))
    assert ours(case)
    assert theirs(case, tmp_path)


def test_a_certificate_is_never_verified_here(tmp_path: Path) -> None:
    ca, key = make_key(tmp_path, "ca"), make_key(tmp_path, "key")
    command = ["/usr/bin/ssh-keygen", "-q", "-s", str(ca), "-I", "id", "-n", "operator", f"{key}.pub"]
    subprocess.run(command, check=True, capture_output=True)
    blob = base64.b64decode((tmp_path / "key-cert.pub").read_text().split()[1])
    case = read(sign_statement(DATA, key, NAMESPACE_APPROVAL), DATA, "")
    with pytest.raises(ValueError, match="certificate"):
        verifies(DATA, parse_armor(replace(case, key=blob).armor()))


def test_ssh_keygen_is_not_started_for_a_plain_key(genuine: dict[str, Case], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threegate.approval.signature.SSH_KEYGEN", "/nonexistent")
    assert all(ours(genuine[kind]) for kind in KINDS)
