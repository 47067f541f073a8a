"""`commits.tar` comes from an agent: commits that do not lead from the project to the change that is shown, archives
that are none, and whatever one commit would bring that the last one no longer has.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.plugins.changes.branches import Branching, archive, branching, step
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.plugins.changes.change_tar import change_tar
from threegate.plugins.changes.commit_chain import commits_tar, read_commits_tar
from threegate.plugins.changes.table import EXECUTABLE, LINK, ChangeSetError, Row, TableNode

ONE, TWO, THREE = b"print(1)\n", b"print(2)\n", b"print(3)\n"


def edit(work: Path) -> None:
    """The change that is shown."""
    (work / "app.py").write_bytes(THREE)


GOOD = archive({"app.py": (ONE, TWO)}, {"app.py": (TWO, THREE)})


@pytest.fixture(scope="module")
def here() -> Iterator[Branching]:
    with branching(
        {"app.py": "print(1)\n", "win.txt": b"a\r\n", ".gitattributes": "*.bin filter=lfs\n*.x filter=x\n"}
    ) as made:
        yield made


def refusal(here: Branching, commits: bytes, edit: Callable[[Path], None] = edit) -> str:
    """Why `approve --deliver commits` refuses a draft, before anything is signed."""
    draft = here.propose(edit, commits=commits)
    done = here.approve(draft, "--deliver", "commits", expect=2)
    assert draft.exists() and not (here.place.root / "tool-exec" / "approved" / draft.name).exists()
    return " ".join(done.err.split())


@pytest.mark.parametrize(
    ("commits", "why"),
    [
        (archive({"app.py": (ONE, TWO)}), "after the last commit the files are not those of the change"),
        (archive({"app.py": (ONE, THREE)}, {"more": (None, b"x\n")}), "after the last commit the files are not those"),
        (archive({"app.py": (TWO, THREE)}), "app.py: commit 1 was not made on what the project has in HEAD"),
        (archive({"app.py": (None, THREE)}), "app.py: commit 1 was not made on"),
        (archive({"app.py": (ONE, TWO)}, {"app.py": (ONE, THREE)}), "app.py: commit 2 was not made on"),
        (archive({"app.py": (ONE, None)}, {"app.py": (ONE, THREE)}), "app.py: commit 2 was not made on"),
        (archive({"app.py": (ONE, None)}, {"app.py": (ONE, None)}), "app.py: commit 2 was not made on"),
        (archive({"gone": (b"x", None), "app.py": (ONE, THREE)}), "gone: commit 1 was not made on"),
        (
            archive({"a.x": (None, b"1"), "app.py": (ONE, THREE)}, {"a.x": (b"1", None)}),
            "a.x: has the filter 'x' (git attributes), which is a program",
        ),
        (
            archive({"a.bin": (None, b"1"), "app.py": (ONE, THREE)}, {"a.bin": (b"1", None)}),
            "a.bin: is kept by git-lfs",
        ),
        (commits_tar([("x", step({"app.py": (ONE, THREE)}, EXECUTABLE))]), "app.py: commit 1 was not made on"),
        (
            commits_tar([("x", change_tar([Row("d", None, TableNode("040755"))], lambda row: b""))]),
            "d: commit 1 has a folder of its own",
        ),
        (b"x" * 2048, "commits.tar: "),
    ],
)  # fmt: skip
def test_they_lead_from_the_project_to_the_change(here: Branching, commits: bytes, why: str) -> None:
    assert why in refusal(here, commits)


def test_a_protected_path_between_is_refused(here: Branching) -> None:
    settings = here.place.root / "threegate.toml"
    kept = settings.read_text()
    settings.write_text(kept.replace("[agents]\n", '[agents]\nprotected = ["deploy/"]\n', 1))
    between = archive({"deploy/x": (None, b"1"), "app.py": (ONE, THREE)}, {"deploy/x": (b"1", None)})
    assert "deploy/x: is protected by agents.protected" in refusal(here, between)
    settings.write_text(kept)


def test_what_is_only_between_counts_on_the_card(here: Branching) -> None:
    """A workflow that the second commit removes again makes the risk high, and is shown with its diff."""
    workflow = ".github/workflows/x.yml"
    commits = archive(
        {workflow: (None, b"on: push\n"), "app.py": (ONE, TWO)},
        {workflow: (b"on: push\n", None), "app.py": (TWO, THREE)},
    )
    draft = here.propose(edit, commits=commits)
    shown = " ".join(here.approve(draft, "--deliver", "commits", "--full").out.split())
    assert "2 paths; 1 deleted or replaced by another kind of file; 1 run later by themselves" in shown
    assert "risk high, declared medium" in shown and "+ | on: push" in shown
    assert "RUNS LATER" in shown and f"| {workflow}" in shown


def test_an_archive_that_is_changed_after_the_signature_is_not_delivered() -> None:
    with branching({"app.py": "print(1)\n"}) as here:
        here.approve(here.propose(edit, commits=GOOD), "--deliver", "commits")
        inputs = here.place.root / "tool-exec" / "inputs"
        [pinned] = [path for path in inputs.iterdir() if path.read_bytes() == GOOD]
        pinned.chmod(0o600)
        pinned.write_bytes(archive({"app.py": (ONE, THREE)}))
        here.place.run("run", "--once")
        assert here.branches() == []
        assert here.place.events("refused")[-1]["data"]["reason"] == "project_changed"


def raw(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


CHANGE = step({"app.py": (ONE, THREE)})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        raw(),
        raw(("0001.txt", b"x")),
        raw(("0001.tar", CHANGE), ("0001.txt", b"x")),
        raw(("0001.txt", b"x"), ("0001.tar", CHANGE), ("0003.txt", b"x"), ("0003.tar", CHANGE)),
        raw(("a/0001.txt", b"x"), ("a/0001.tar", CHANGE)),
        raw(("0001.txt", b"\xff"), ("0001.tar", CHANGE)),
        raw(("0001.txt", b"x" * (limits.COMMIT_MESSAGE_CHARS + 1)), ("0001.tar", CHANGE)),
        raw(("0001.txt", b"token ghp_" + b"a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"), ("0001.tar", CHANGE)),
        raw(("0001.txt", b"x"), ("0001.tar", b"no tar")),
        raw(("0001.txt", b"x"), ("0001.tar", raw(("tree/a", b"x")))),
        raw(*((f"{n:04}.{kind}", data) for n in range(1, 26) for kind, data in (("txt", b"x"), ("tar", CHANGE)))),
        raw(("0001.txt", b"x"), ("0001.tar", b"\0" * limits.COMMITS_TAR_BYTES)),
    ],
)
def test_what_is_no_archive_of_commits_is_refused(data: bytes) -> None:
    with pytest.raises(ChangeSetError):
        read_commits_tar(data)


@pytest.mark.parametrize("path", [".git/hooks/x", ".env", "a/../b", ".gitmodules", "/etc/x"])
def test_a_commit_has_the_same_paths_as_a_change(path: str) -> None:
    with pytest.raises(ChangeSetError, match="commit 1"):
        read_commits_tar(archive({path: (None, b"x")}))


def test_a_link_that_leaves_the_project_is_refused_between_too() -> None:
    link = change_tar([Row("out", None, TableNode(LINK, sha256_hex(b"../../etc")))], lambda row: b"../../etc")
    with pytest.raises(ChangeSetError, match="leaves the project"):
        read_commits_tar(commits_tar([("x", link)]))
