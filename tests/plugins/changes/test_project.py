"""The project on disk: snapshots that repeat, links that lead nowhere, bounds that are named."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.plugins.proposals.test_drafts import make_project
from threegate.core import limits
from threegate.plugins.changes.project import Project, ProjectError
from threegate.plugins.changes.project_paths import PathBlocked, read_path
from threegate.plugins.changes.snapshot import take_snapshot
from threegate.request.tar_reader import read_tar


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A small git repository."""
    return Project.open(str(make_project(tmp_path)))


def names(data: bytes) -> list[str]:
    """Names in a tar."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def test_a_snapshot_is_the_same_after_a_touch_and_holds_nothing_protected(project: Project) -> None:
    first = take_snapshot(project, with_git=False)
    os.utime(project.root / "README.md", (1, 1))
    (project.root / "src" / "a.py").chmod(0o600)
    second = take_snapshot(project, with_git=False)
    assert first.data == second.data
    found = names(first.data)
    assert found == sorted(found, key=lambda name: name.split("/"))
    assert "README.md" in found
    assert not any(".env" in name or "secrets" in name or ".git" in name or "twin" in name for name in found)
    assert b"swordfish" not in first.data
    assert dict(first.withheld) == {
        ".env": "protected",
        "secrets": "protected",
        "build/x.db": "protected",
        "coverage/sub/up": "link",
        "src/link": "link",
        "src/twin": "linked file",
        "src/twin-too": "linked file",
    }
    with tarfile.open(fileobj=io.BytesIO(first.data)) as archive:
        for member in archive:
            assert (member.mtime, member.uid, member.gid, member.uname, member.gname) == (0, 0, 0, "", "")
        assert archive.getmember("src/run.sh").mode == 0o755
        assert archive.getmember("README.md").mode == 0o644


def test_gate_1_reads_the_snapshot(project: Project) -> None:
    for with_git in (False, True):
        assert read_tar(take_snapshot(project, with_git=with_git).data)


def test_git_comes_without_hooks_and_configuration(project: Project) -> None:
    data = take_snapshot(project, with_git=True).data
    found = names(data)
    assert ".git/HEAD" in found
    assert not any("hooks" in name or "logs" in name for name in found)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        config = archive.extractfile(".git/config")
        assert config is not None
        assert config.read() == b"[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = false\n"


def test_a_snapshot_is_a_repository_that_git_reads(project: Project, tmp_path: Path) -> None:
    target = tmp_path / "unpacked"
    with tarfile.open(fileobj=io.BytesIO(take_snapshot(project, with_git=True).data)) as archive:
        archive.extractall(target)  # Debian's Python 3.11.2 knows no filter
    done = subprocess.run(["git", "-C", str(target), "log", "--format=%s"], capture_output=True, check=True)
    assert done.stdout == b"first\n"


def test_a_repository_of_another_hash_is_told_to_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(tmp_path / "p")], check=True)
    data = take_snapshot(Project.open(str(tmp_path / "p")), with_git=True).data
    assert b"[extensions]\n\tobjectformat = sha256\n" in data
    assert b"repositoryformatversion = 1" in data


def test_repositories_that_cannot_be_taken_are_named(project: Project, tmp_path: Path) -> None:
    def refused(said: str) -> None:
        with pytest.raises(ProjectError, match=said):
            take_snapshot(project, with_git=True)

    head = project.root / ".git" / "HEAD"
    os.link(head, tmp_path / "head")
    refused("shares files with another")
    (tmp_path / "head").unlink()
    os.symlink("/etc", project.root / ".git" / "refs" / "out")
    refused("links in it")
    (project.root / ".git" / "refs" / "out").unlink()
    config = project.root / ".git" / "config"
    config.write_text(config.read_text() + "[extensions]\n\trefstorage = reftable\n")
    refused("reftable")
    config.unlink()
    refused("config cannot be read")
    (project.root / ".git").rename(tmp_path / "git")
    refused("not a git repository")
    (project.root / ".git").write_text("gitdir: /elsewhere\n")
    refused("cannot be opened")


def test_a_project_that_is_too_large_names_its_largest_folders(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / "big").mkdir()
    (project.root / "big" / "file").write_bytes(b"x" * (2 << 20))
    monkeypatch.setattr(limits, "SNAPSHOT_BYTES", 1 << 20)
    with pytest.raises(ProjectError, match=r"larger than 1 MiB; the largest are big \(2 MiB\)"):
        take_snapshot(project, with_git=False)
    monkeypatch.setattr(limits, "SNAPSHOT_BYTES", 1 << 30)
    monkeypatch.setattr(limits, "SNAPSHOT_ENTRIES", 1)
    with pytest.raises(ProjectError, match="more than 1 names; most are in"):
        take_snapshot(project, with_git=False)


def test_a_file_that_changes_while_it_is_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from threegate.plugins.changes import snapshot

    def gone(*_: object, **__: object) -> bytes:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(snapshot, "read_at", gone)
    with pytest.raises(ProjectError, match="changed or cannot be read"):
        take_snapshot(project, with_git=False)


def test_names_that_no_screen_can_show_are_left_out(project: Project) -> None:
    for name in (b"bad\xff", "hid\u202eden".encode(), b"line\nbreak", b"back\\slash"):
        (project.root / os.fsdecode(name)).write_text("x\n")
    taken = take_snapshot(project, with_git=False)
    assert sum(reason == "other" for _, reason in taken.withheld) == 4
    os.mkfifo(project.root / "fifo")
    assert ("fifo", "other") in take_snapshot(project, with_git=False).withheld


def test_links_inside_of_the_project_are_followed_to_where_they_lead(project: Project) -> None:
    os.symlink("src", project.root / "alias")
    os.symlink(str(project.root / "src"), project.root / "absolute")
    os.symlink("../README.md", project.root / "src" / "readme")
    os.symlink(".", project.root / "here")
    for text, led in (
        ("alias/a.py", "src/a.py"),
        ("absolute/a.py", "src/a.py"),
        ("src/readme", "README.md"),
        ("here/here/alias", "src"),
        ("none/below", "none/below"),
        ("README.md/x", "README.md/x"),
    ):
        assert project.resolve(read_path(text)).text == led
    os.symlink("../..", project.root / "src" / "far")
    with pytest.raises(PathBlocked, match="leaves"):
        project.resolve(read_path("src/far/x"))


def test_a_folder_that_cannot_be_entered_is_said(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def failing(path: object, flags: int, *args: int, **more: int) -> int:
        if path == "pack":
            raise OSError(40, "Too many levels of symbolic links")
        return real(path, flags, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(ProjectError, match="changed while it was read"):
        list(project.walk())


def test_a_name_that_vanishes_is_passed_over(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda where: [*real(where), "vanished"])
    assert not any("vanished" in entry.path for entry, _ in project.walk())


def test_a_link_that_cannot_be_read_is_taken_as_it_stands(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "readlink", failing)
    assert project.resolve(read_path("src/link")).text == "src/link"
