"""The lines of docs/approval.md and docs/check-the-trail.md that check us with other programs, run as they stand.

They accept a real approval, checkpoint, proof and statement, and refuse each of them with one bit changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import Place, make_key, monty_draft, request_id, threegate

DOCS = Path(__file__).resolve().parents[3] / "docs"


def lines_of(page: str, language: str) -> str:
    """The fenced lines of a page's section on checking without ThreeGate, or of the page that has no such section."""
    section = (DOCS / page).read_text().split("\n## Checking it without ThreeGate\n")[-1].split("\n## ")[0]
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", section, re.M | re.S))


def run(command: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A program that finds `threegate` and the rest where this Python is."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **env}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def changed(path: Path, part: bytes) -> None:
    """Change one bit in the middle of a part of a file, which must be in it."""
    data = bytearray(path.read_bytes())
    at = data.index(part) + len(part) // 2
    data[at] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)


@pytest.fixture(scope="module", name="ran")
def a_workspace_with_a_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, str]:
    """A workspace of alice's in which one request of hers ran, and the request's id."""
    folder = tmp_path_factory.mktemp("outside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        place = Place(folder / "ws", make_key(folder / "key"))
        done = threegate("init", str(place.root), "--operator", "alice", "--key", f"{place.key}.pub", cwd=folder)
        assert done.code == 0, done.err
        name = request_id("outside")
        given = place.input("a.csv", b"1\n")
        text = monty_draft(name, "print(len(open('/in/a.csv').read()))", inputs={"a.csv": given})
        signer = ("--as", "alice", "--key", str(place.key), "--yes")
        place.run("approve", str(place.drop(text)), *signer, expect=0)
        place.run("audit", "checkpoint", "--out", "kept", expect=0)
        place.run("audit", "rotate", expect=0)
        place.once()
    return place, name


@pytest.fixture(name="workspace")
def a_copy_of_the_workspace(ran: tuple[Place, str], tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(ran[0].root, tmp_path / "ws", symlinks=True))


def openssh(workspace: Path, name: str) -> subprocess.CompletedProcess[str]:
    return run(["sh", "-e", "-c", lines_of("approval.md", "sh").replace("TR-….md", f"{name}.md")], workspace)


def test_openssh_accepts_the_approval(workspace: Path, ran: tuple[Place, str]) -> None:
    done = openssh(workspace, ran[1])
    assert done.returncode == 0, done.stderr
    assert re.match(r'Good "threegate-approval" signature for alice with ED25519 key', done.stdout)


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (".md.sig", b'"nonce":"'),
        (".md.sig", b'"approved_by":"alice"'),
        (".md.sig", b'"request_sha256":'),
        (".md.sig", b"}}\n"),
        (".md.sig", b"U1NIU0lH"),
        (".md.sig", b"threegate-approval/2"),
        (".md", b"request_id"),
        (".md", b"print(len("),
    ],
)
def test_openssh_refuses_an_approval_with_one_bit_changed(
    workspace: Path, ran: tuple[Place, str], file: str, part: bytes
) -> None:
    changed(workspace / "tool-exec" / "finished" / f"{ran[1]}{file}", part)
    assert openssh(workspace, ran[1]).returncode != 0


def test_openssh_refuses_another_operator(workspace: Path, ran: tuple[Place, str]) -> None:
    changed(workspace / "tool-exec" / "operators", b"AAAAC3NzaC1lZDI1NTE5AAAAI")
    assert openssh(workspace, ran[1]).returncode != 0


@pytest.fixture(scope="module", name="taken")
def what_the_page_says_to_take(ran: tuple[Place, str]) -> Path:
    """The folder of whoever checks, filled by the page's own lines."""
    folder = ran[0].root.parent
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    lines = lines_of("check-the-trail.md", "sh").replace("ELSEWHERE", str(elsewhere))
    done = run(["sh", "-e", "-c", lines], ran[0].root, XDG_STATE_HOME=str(folder / "state"))
    assert done.returncode == 0, done.stderr
    program = lines_of("check-the-trail.md", "python")
    assert not re.search(r"(?:import|from) +threegate", program)
    (elsewhere / "check.py").write_text(program)
    return elsewhere


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-I", "check.py"], folder)


def test_other_libraries_accept_trail_checkpoints_proof_and_statement(taken: Path, ran: tuple[Place, str]) -> None:
    assert len(list(taken.glob("trail-*.jsonl"))) == 1, "a closed file and the open one"
    done = check(taken)
    assert done.returncode == 0, done.stderr
    statement, proven = done.stdout.splitlines()
    assert statement == f"{ran[1]}.intoto.json ['stdout', 'stderr', 'record.json']"
    assert proven.startswith("proven: {") and '"seq":5,' in proven


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("workspace.pub", b"threegate.local"),
        ("workspace.pub", b"+A"),
        ("kept", b"threegate.local"),
        ("kept", b"\n3\n"),
        ("kept", b"=\n\n"),
        ("new", b"\n\n"),
        ("new", b" threegate.local/"),
        ("proof", b"extra ey"),
        ("proof", b"index 4"),
        ("proof", b"=\n\n"),
        ("proof", b"tlog-proof"),
        ("trail.jsonl", b'"type":"claimed"'),
        ("trail.jsonl", b'"nonce":"'),
        ("trail.jsonl", b"\n"),
        ("trail-*.jsonl", b'"type":"approved"'),
        ("trail-*.jsonl", b'"workspace_created"'),
        ("*.intoto.json", b'"payload": "ewog'),
        ("*.intoto.json", b"vnd.in-toto+json"),
        ("*.intoto.json", b'"sig": "'),
    ],
)  # fmt: skip
def test_other_libraries_refuse_what_has_one_bit_changed(taken: Path, tmp_path: Path, file: str, part: bytes) -> None:
    copy = Path(shutil.copytree(taken, tmp_path / "copy"))
    (found,) = copy.glob(file)
    changed(found, part)
    done = check(copy)
    assert done.returncode == 1 and done.stdout.count("proven") == 0, done.stdout


@pytest.mark.parametrize("file", ["kept", "new", "proof", "trail.jsonl", "workspace.pub"])
def test_nothing_can_be_left_out(taken: Path, tmp_path: Path, file: str) -> None:
    copy = Path(shutil.copytree(taken, tmp_path / "copy"))
    (copy / file).unlink()
    assert check(copy).returncode == 1
