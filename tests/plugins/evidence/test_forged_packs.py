"""Whoever holds the log's key and may rewrite the whole log still cannot make an operator sign.

Each pack here is consistent in itself: trail, tree, checkpoint, digests and seal are made again after the change.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.approval.material import make_key
from tests.plugins.evidence.outside import Outside, reseal
from tests.plugins.page.passkey_client import PasskeyClient, enrol
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL
from threegate.plugins.evidence.pack import write_pack
from threegate.trail import tree
from threegate.trail.checkpoint import sign_trail_checkpoint
from threegate.trail.workspace_key import load_key


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Forger:
    """Changes files of a whole pack and makes everything around them fit again."""

    def __init__(self, bench: Bench, pack: Path) -> None:
        self.bench, self.pack = bench, pack
        self.folder = pack / "requests" / "forged"
        self.statement, self.armor = (self.folder / "request.md.sig").read_bytes().split(b"\n", 1)
        self._digests: dict[str, str] = {}

    def change(self, name: str, data: bytes) -> None:
        """Put other bytes into a file; the trail will name their digest."""
        path = self.pack / name
        self._digests[sha256(path.read_bytes())] = sha256(data)
        path.write_bytes(data)

    def sign_over(self, statement: bytes, armor: bytes) -> None:
        """Another statement, with this signature."""
        self._digests[sha256(self.statement)] = sha256(statement)
        self.change("requests/forged/request.md.sig", statement + b"\n" + armor)

    def finish(self) -> None:
        """A trail, a tree, a checkpoint and a seal that fit."""
        path = self.pack / "trail.jsonl"
        text = path.read_text()
        for old, new in self._digests.items():
            text = text.replace(old, new)
        path.write_text(text)
        for old, new in self._digests.items():
            if (self.pack / "operators" / old).exists():
                (self.pack / "operators" / old).rename(self.pack / "operators" / new)
        lines = text.encode().splitlines()
        workspace_id = json.loads(lines[0])["prev"]
        (note,) = (self.pack / "checkpoints").iterdir()
        root = tree.root_of([tree.leaf_hash(line) for line in lines])
        note.write_bytes(sign_trail_checkpoint(load_key(workspace_id), len(lines), root).render())
        reseal(self.pack, workspace_id)


@pytest.fixture(name="forger")
def a_forger(tmp_path: Path) -> Forger:
    bench = make_bench(tmp_path)
    bench.approve(bench.draft("forged"))
    return Forger(bench, write_pack(bench.workspace, tmp_path / "pack").path)


def nothing(forger: Forger) -> None:
    """Make the same pack again."""


def another_request(forger: Forger) -> None:
    """Other bytes than those that were signed, and a statement that names them."""
    text = (forger.folder / "request.md").read_bytes()
    forged = text.replace(b"sum(", b"max(")
    forger.change("requests/forged/request.md", forged)
    forger.sign_over(forger.statement.replace(sha256(text).encode(), sha256(forged).encode()), forger.armor)


def another_shown_text(forger: Forger) -> None:
    """The operator was shown something else, says the pack."""
    text = (forger.folder / "shown.txt").read_bytes()
    forger.change("requests/forged/shown.txt", text + b"nothing dangerous\n")
    statement = forger.statement.replace(sha256(text).encode(), sha256(text + b"nothing dangerous\n").encode())
    forger.sign_over(statement, forger.armor)


def a_key_of_ones_own(forger: Forger) -> None:
    """A signature by another key, which the operators file gives to alice."""
    with_a_key(forger, "{name} {options} {kind} {blob}")


def a_key_behind_a_trusted_one(forger: Forger) -> None:
    """A line in which OpenSSH reads another key than somebody who splits it at its blanks."""
    with_a_key(forger, '{name} namespaces="threegate-approval,x {kind} {trusted} " {kind} {blob}')


def with_a_key(forger: Forger, line: str) -> None:
    key = make_key(forger.bench.workspace.root.parent, "mallory")
    (operators,) = (forger.pack / "operators").iterdir()
    kind, blob, *_ = key.with_suffix(".pub").read_text().split()
    name, options, _, trusted, *_ = operators.read_text().split()
    text = line.format(name=name, options=options, kind=kind, blob=blob, trusted=trusted)
    forger.change(f"operators/{operators.name}", f"{text}\n".encode())
    done = subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-n", "threegate-approval", "-f", str(key)],
        input=forger.statement, capture_output=True, check=True,
    )  # fmt: skip
    forger.sign_over(forger.statement, done.stdout)


def a_signature_for_another_purpose(forger: Forger) -> None:
    """Alice's own key, over the very statement, in another namespace."""
    done = subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", str(forger.bench.keys["alice"])],
        input=forger.statement, capture_output=True, check=True,
    )  # fmt: skip
    forger.sign_over(forger.statement, done.stdout)


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (nothing, ""),
        (another_request, "request.md.sig: Signature verification failed: incorrect signature"),
        (another_shown_text, "request.md.sig: Signature verification failed: incorrect signature"),
        (a_key_of_ones_own, "is none of OPERATOR_KEYS"),
        (a_key_behind_a_trusted_one, "a line of another form"),
        (
            a_signature_for_another_purpose,
            "request.md.sig: Couldn't verify signature: namespace does not match",
        ),
    ],
)
def test_a_log_that_was_rewritten_whole_signs_for_nobody(
    forger: Forger, outside: Outside, forge: Callable[[Forger], None], message: str
) -> None:
    forge(forger)
    forger.finish()
    done = outside.check(forger.pack)
    assert (done.returncode, done.stderr == "") == ((1, False) if message else (0, True)), done.stderr
    assert message in done.stderr


def test_a_passkey_counts_for_its_site_and_a_verified_user(tmp_path: Path, outside: Outside) -> None:
    """What plain ssh-keygen takes: another origin in the pin, a signature of nobody, and one in another site's page."""
    bench = make_bench(tmp_path)
    client = PasskeyClient(bench, enrol(bench))
    bench.draft("forged")
    client.log_in()
    assert client.approve(client.page("sum")[1]).status_code == 200
    forger = Forger(bench, write_pack(bench.workspace, tmp_path / "pack").path)
    passkey, statement = client.passkey, forger.statement
    crossed = passkey.client_data(statement, NAMESPACE_APPROVAL, ',"crossOrigin":true')
    for armor in (passkey.sign(statement, flags=1), passkey.sign(statement, client_data=crossed)):
        forger.sign_over(statement, armor)
        forger.finish()
        assert "a site that is not pinned, or of nobody verified" in outside.check(forger.pack).stderr
    forger.sign_over(statement, forger.armor)
    forger.finish()
    assert outside.check(forger.pack).returncode == 0
    (pins,) = [path for path in (forger.pack / "operators").iterdir() if passkey.pin().encode() == path.read_bytes()]
    forger.change(f"operators/{pins.name}", passkey.pin().replace(":8443", ":9443").encode())
    forger.finish()
    assert "a site that is not pinned" in outside.check(forger.pack).stderr
