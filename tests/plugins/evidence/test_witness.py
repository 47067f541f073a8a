"""`threegate serve witness` by the words of c2sp.org/tlog-witness: each answer, bounds, and what a restart
remembers.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.plugins.evidence.test_cosignature import check_by_the_spec
from tests.plugins.evidence.witnesses import Running, witness
from tests.trail.proofs import consistency_proof
from threegate.core import durable
from threegate.core.errors import InvalidInput, Unavailable
from threegate.plugins.evidence.witness import Witness
from threegate.trail import tree
from threegate.trail.checkpoint import NoteSignature, TrailCheckpoint, sign_trail_checkpoint
from threegate.trail.cosignature import AddCheckpoint, WitnessKey
from threegate.trail.workspace_key import SigningKey

LEAVES = [tree.leaf_hash(b"line %d" % number) for number in range(40)]
LOG = SigningKey("threegate.local/ws-" + "1" * 32, Ed25519PrivateKey.from_private_bytes(b"1" * 32))
NEXT = SigningKey(LOG.name, Ed25519PrivateKey.from_private_bytes(b"2" * 32))
"""The key of the same workspace after an adoption elsewhere."""
STRANGER = SigningKey("threegate.local/ws-" + "9" * 32, LOG.private)


def checkpoint(size: int, key: SigningKey = LOG, root: bytes | None = None) -> TrailCheckpoint:
    return sign_trail_checkpoint(key, size, root or tree.root_of(LEAVES[:size]))


def asked(
    old: int, size: int, key: SigningKey = LOG, root: bytes | None = None, proof: list[bytes] | None = None
) -> bytes:
    if proof is None:
        proof = consistency_proof(old, LEAVES[:size]) if 0 < old <= size else []
    return AddCheckpoint(old, tuple(proof), checkpoint(size, key, root)).render()


@pytest.fixture(name="running", scope="module")
def a_witness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with witness(tmp_path_factory.mktemp("w"), [LOG.public.render()], "--name", "witness.example/w1") as running:
        yield running


def post(running: Running, body: bytes) -> httpx.Response:
    return httpx.post(f"{running.url}/add-checkpoint", content=body, timeout=60)


def seen(running: Running) -> int:
    """The size that the witness cosigned last; it cosigns the first line when it has cosigned nothing."""
    answer = post(running, asked(0, 1))
    return int(answer.text) if answer.status_code == 409 else 1


def test_each_answer_of_the_protocol(running: Running) -> None:
    first = post(running, asked(0, 7))
    assert first.status_code == 200
    assert (
        first.text.count("\n") == 1
        and first.text.startswith("\u2014 witness.example/w1 ")
        and first.text.endswith("\n")
    )
    check_by_the_spec(checkpoint(7).render() + first.content, running.vkey)

    for body, status, said in (
        (b"hello", 400, "is not a request of the form"),
        (asked(8, 7, proof=[]), 400, "the old size 8 is above the checkpoint's 7"),
        (asked(0, 9, STRANGER), 404, "does not know that log"),
        (asked(7, 9, NEXT), 403, "has no signature by"),
        (asked(7, 9)[:-9] + b"AAAAAAA=\n", 403, "does not verify"),
        (asked(7, 9, root=b"x" * 32), 422, "9 lines do not continue the 7 cosigned before"),
        (asked(7, 9, proof=[]), 422, "the proof is empty"),
        (asked(7, 7, root=b"x" * 32), 422, "two trees of one size have different roots"),
        (asked(7, 7, proof=[b"x" * 32]), 422, "two trees"),
    ):
        answer = post(running, body)
        assert answer.status_code == status and said in answer.text and answer.text.count("\n") == 1, answer.text
        assert said in running.log.read_text().splitlines()[-1]
    for old in (0, 3, 6):
        conflict = post(running, asked(old, 9))
        assert (conflict.status_code, conflict.text) == (409, "7\n")
        assert conflict.headers["content-type"].partition(";")[0] == "text/x.tlog.size"

    assert post(running, asked(7, 7)).status_code == 200
    assert post(running, asked(7, 20)).status_code == 200
    assert post(running, asked(7, 30)).text == "20\n"


def test_every_signature_of_a_known_key_must_verify_and_others_do_not_matter(running: Running) -> None:
    size = seen(running)
    note, strange = checkpoint(30), NoteSignature("somebody.example", b"1234", b"x" * 64)
    bad = NoteSignature(LOG.name, LOG.public.key_id, b"x" * 64)
    for signatures, status in (
        ((*note.signatures, bad), 403),
        ((strange,), 403),
        ((strange, *note.signatures), 200),
    ):
        several = TrailCheckpoint(note.origin, note.size, note.root, signatures)
        proof = tuple(consistency_proof(size, LEAVES[:30]))
        assert post(running, AddCheckpoint(size, proof, several).render()).status_code == status


def test_monitors_get_the_last_one(running: Running) -> None:
    size = seen(running)
    name = hashlib.sha256(LOG.name.encode()).hexdigest()
    answer = httpx.get(f"{running.url}/{name}/checkpoint")
    note = TrailCheckpoint.parse(answer.content)
    note.verify(LOG.public)
    assert note.size == size and check_by_the_spec(answer.content, running.vkey) > 0
    for path, status in (
        ("0" * 64 + "/checkpoint", 404),
        ("checkpoint", 404),
        ("", 404),
        ("add-checkpoint", 405),
    ):
        assert httpx.get(f"{running.url}/{path}").status_code == status


def test_no_body_beyond_its_bound_is_read(running: Running) -> None:
    assert post(running, b"x" * 200_000).status_code == 400
    port = int(running.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nold")
        connection.shutdown(socket.SHUT_WR)
        connection.recv(4096)
    assert post(running, asked(0, 40)).status_code == 409


def opened(
    folder: Path, *keys: SigningKey, clock: Callable[[], float] = lambda: 1_700_000_000.5, name: str = ""
) -> Witness:
    logs = {key.name: [item.public for item in keys if item.name == key.name] for key in keys}
    return Witness.open(folder, logs, clock, name)


def test_one_process_works_on_a_state(tmp_path: Path) -> None:
    mine = opened(tmp_path / "w", LOG)
    with pytest.raises(Unavailable, match="another witness is running here"):
        opened(tmp_path / "w", LOG)
    mine.close()
    opened(tmp_path / "w", LOG).close()


def test_the_state_is_on_disk_before_the_answer(tmp_path: Path) -> None:
    mine = opened(tmp_path / "w", LOG)
    stages: list[tuple[str, str, str]] = []
    stop = durable.observe(lambda *stage: stages.append(tuple(map(str, stage))))  # type: ignore[arg-type]
    try:
        assert mine.add(asked(0, 5)).status == 200
    finally:
        stop()
    done = [operation for moment, operation, _ in stages if moment == "after"]
    assert done[-2:] == ["replace", "sync_folder"] and "sync" in done
    kept = json.loads((tmp_path / "w" / "witness.json").read_text())
    assert TrailCheckpoint.parse(kept["logs"][LOG.name].encode()).size == 5
    assert (tmp_path / "w" / "witness.json").stat().st_mode & 0o777 == 0o600


def test_a_disk_that_fails_cosigns_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = opened(tmp_path / "w", LOG)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "replace", full)
        with pytest.raises(Unavailable, match="cannot be written"):
            mine.add(asked(0, 5))
    assert mine.add(asked(0, 6, root=b"y" * 32)).status == 200
    mine.close()


def test_an_empty_tree_is_a_beginning(tmp_path: Path) -> None:
    mine = opened(tmp_path / "w", LOG)
    assert mine.add(asked(0, 0, root=b"x" * 32)).status == 422
    assert mine.add(asked(0, 0)).status == 200
    assert mine.add(asked(0, 3, proof=[b"x" * 32])).status == 422
    assert mine.add(asked(0, 3)).status == 200
    mine.close()


def test_an_adopted_workspace_goes_on_with_its_next_key(tmp_path: Path) -> None:
    mine = opened(tmp_path / "w", LOG)
    assert mine.add(asked(0, 5)).status == 200
    mine.close()
    with pytest.raises(InvalidInput, match="name the log's earlier key too"):
        opened(tmp_path / "w", NEXT)
    mine = opened(tmp_path / "w", LOG, NEXT)
    assert mine.add(asked(5, 9, NEXT)).status == 200
    assert mine.add(asked(5, 9, LOG)).status == 409
    mine.close()


def test_a_changed_state_stops_it(tmp_path: Path) -> None:
    mine = opened(tmp_path / "w", LOG)
    mine.add(asked(0, 5))
    mine.close()
    path = tmp_path / "w" / "witness.json"
    good = path.read_text()
    older = checkpoint(3).render().decode()
    for bad in ("", "{}", "[]", good[:-3], good.replace("witness/1", "witness/2"), good.replace("\\n5\\n", "\\n4\\n"),
                json.dumps({**json.loads(good), "logs": {LOG.name: older}}),
                json.dumps({**json.loads(good), "logs": {"x": json.loads(good)["logs"][LOG.name]}}),
                json.dumps({**json.loads(good), "logs": {LOG.name: 7}}),
                json.dumps({**json.loads(good), "key": "00"})):  # fmt: skip
        path.write_text(bad)
        with pytest.raises(InvalidInput, match=r"witness\.json"):
            opened(tmp_path / "w", LOG)
    path.write_text(good)
    with pytest.raises(InvalidInput, match="leave --name out"):
        opened(tmp_path / "w", LOG, name="other.example")
    with pytest.raises(InvalidInput, match="verifier key"):
        opened(tmp_path / "new", LOG, name="two words")
    mine = opened(tmp_path / "w", LOG)
    assert WitnessKey.parse(mine.vkey) == WitnessKey.of(mine.key) and mine.add(asked(0, 9)).body == "5\n"
    mine.close()
