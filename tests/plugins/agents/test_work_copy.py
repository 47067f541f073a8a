"""The work copy: what is in it, and what comes back out of it, whatever the agent did with it."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

from tests.conftest import few
from tests.plugins.agents.conftest import jail_programs
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.plugins.agents.project_survey import survey
from threegate.plugins.agents.work_changes import keep_bases, read_changes, remember_proposed, was_proposed
from threegate.plugins.agents.work_copy import CopyKind, WorkCopy
from threegate.plugins.changes.make import MadeChangeSet
from threegate.plugins.changes.merge import base_name
from threegate.runners.jail.jail import Account, Jail

SECRET = "token = 'ghp_" + "n4Kd9Zq2Lw8Xr5Tb7Vm3Yc6Hj1Gf0SpQaRuE'\n"
KINDS = ("overlay", "plain")


@contextmanager
def working(tmp_path: Path, kind: CopyKind, *, shown: tuple[str, ...] = ()) -> Iterator[WorkCopy]:
    """A copy of `tmp_path/project` as an account of ours would have it; this process owns it all."""
    jail_programs()
    run = Workspace(tmp_path).agent_run("ar-20261123-102139z-0011223" + str(KINDS.index(kind)))
    (tmp_path / "tool-exec").mkdir(exist_ok=True)
    run.make()
    yield WorkCopy.make(run, tmp_path / "project", account=Account.own(), kind=kind, shown=shown)
    for place in (run.work / "scratch").glob("*"):
        place.chmod(0o700)


def inside(copy: WorkCopy, script: str) -> str:
    """Run a script in the copy, in the jail."""
    jail = Jail(Account.own(), copy.bound, copy.layered, cwd=str(copy.root))
    process = jail.start(
        ["/bin/bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, begin=False  # noqa: E501
    )  # fmt: skip
    out = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 0, out
    return out


def changed(made: MadeChangeSet) -> dict[str, str]:
    return {row.path: row.change for row in made.rows}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt", "gone/x", "gone/y", "mode", "turns", "same"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    (folder / ".env").write_text("TOKEN=1\n")
    (folder / "sub" / ".env.local").write_text("TOKEN=2\n")
    (folder / "settings.py").write_text(SECRET)
    (folder / "link").symlink_to("a.txt")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_hidden_is_not_there_and_is_no_deletion(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    with working(tmp_path, kind) as copy:
        assert copy.start.hidden == {
            ".env": "secret",
            "settings.py": "secret",
            "sub/.env.local": "secret",
        }
        said = inside(copy, "find . -type f | sort; echo mine >.env; rm -r gone")
        assert ".env" not in said and "settings.py" not in said and "./a.txt" in said
        made = read_changes(copy)
        assert changed(made) == {"gone": "delete", "gone/x": "delete", "gone/y": "delete"}
        assert [item.path for item in made.left_out] == [".env"]
    with working_again(tmp_path, kind) as shown:
        assert inside(shown, "cat .env settings.py") == "TOKEN=1\n" + SECRET


@contextmanager
def working_again(tmp_path: Path, kind: CopyKind) -> Iterator[WorkCopy]:
    shutil.rmtree(tmp_path / "tool-exec", onerror=lambda call, path, why: (os.chmod(path, 0o700), os.rmdir(path)))
    with working(tmp_path, kind, shown=(".env", "settings.py")) as copy:
        yield copy


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_change_comes_back(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    script = (
        "echo new >new; echo z >>sub/b.txt; rm -r gone; chmod +x mode; rm turns; mkdir turns; echo in >turns/in; touch "
        "same; rm link; ln -s same link; rm -r sub/deep; mkdir sub/deep; echo q >sub/deep/other; mkdir -p d/e/f; echo "
        "1 >d/e/f/g; : >empty"
    )
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with working(tmp_path, kind) as copy:
        inside(copy, script)
        made = read_changes(copy)
        keep_bases(copy, made.rows)
        assert (copy.run.base / base_name("sub/b.txt")).read_text() == "sub/b.txt\n"
    assert changed(made) == {
        "new": "add", "sub/b.txt": "modify", "gone": "delete", "gone/x": "delete", "gone/y": "delete", "mode": "mode",
        "turns": "type", "turns/in": "add", "link": "modify", "sub/deep/c.txt": "delete", "sub/deep/other": "add",
        "d": "add", "d/e": "add", "d/e/f": "add", "d/e/f/g": "add", "empty": "add",
    }  # fmt: skip
    with tarfile.open(fileobj=BytesIO(made.data)) as archive:
        assert archive.extractfile("tree/sub/b.txt").read() == b"sub/b.txt\nz\n"  # type: ignore[union-attr]
    assert before == {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_carried_is_named(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    script = (
        "mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; ln -s /etc/shadow out; "
        "ln -s ../../x up; cp /bin/true su; chmod 4755 su; ln same hard; echo ok >ok"
    )
    with working(tmp_path, kind) as copy:
        inside(copy, script)
        made = read_changes(copy)
    assert "ok" in changed(made) and {item.path for item in made.left_out} >= {
        "fifo",
        "sock",
        "out",
        "up",
        "su",
    }
    assert {"fifo", "sock", "out", "up", "su"}.isdisjoint(changed(made))


@pytest.mark.parametrize("kind", KINDS)
def test_links_and_fifos_are_not_followed_when_it_is_read(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    """A file became a FIFO, a folder a link to a folder outside with a file of the same name."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("OUTSIDE\n")
    with working(tmp_path, kind) as copy:
        inside(copy, f"rm a.txt; mkfifo a.txt; rm -r sub; ln -s {outside} sub")
        made = read_changes(copy)
    assert b"OUTSIDE" not in made.data and "a.txt" in {item.path for item in made.left_out}


@pytest.mark.parametrize("kind", KINDS)
def test_git_works_in_the_copy_and_its_traps_stay_there(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    """The history is there, the configuration is not; what the agent configures runs nowhere when changes are read."""
    git = "git -c user.name=a -c user.email=a@b.c"
    trap = tmp_path / "sprung"
    subprocess.run(
        f"git init -q . && git add a.txt sub && {git} commit -qm first && git config core.fsmonitor 'touch {trap}' && "
        "git config credential.helper store && git remote add origin https://user:pw@example.com/x && echo "
        "'#!/bin/sh' >.git/hooks/pre-commit",
        shell=True, cwd=project, check=True,
    )  # fmt: skip
    before = sorted((path, path.lstat().st_mtime_ns) for path in (project / ".git").rglob("*"))
    script = (
        f"cat .git/config; git log --format=%s; ls .git/hooks 2>/dev/null; echo more >>a.txt; git add -A; {git} commit "
        f"-qm second; git config core.fsmonitor 'touch {trap}'; git config diff.external 'touch {trap}'; git config "
        f"filter.x.clean 'touch {trap}'; echo '* filter=x' >.gitattributes; mkdir -p .git/hooks; echo 'touch {trap}' "
        ">.git/hooks/post-checkout; chmod +x .git/hooks/*"
    )
    with working(tmp_path, kind) as copy:
        said = inside(copy, script)
        made = read_changes(copy)
    assert "first" in said and "fsmonitor" not in said and "user:pw" not in said and "credential" not in said
    assert changed(made) == {"a.txt": "modify", ".gitattributes": "add"} and not trap.exists()
    assert before == sorted((path, path.lstat().st_mtime_ns) for path in (project / ".git").rglob("*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_the_project_changed_too_is_left_out(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    with working(tmp_path, kind) as copy:
        inside(copy, "echo agent >>a.txt; echo agent >>mode; echo agent >born")
        (project / "a.txt").write_text("somebody else\n")
        (project / "born").write_text("somebody else\n")
        (project / "same").write_text("changed by somebody else alone\n")
        made = read_changes(copy)
    assert changed(made) == {"mode": "modify"}
    assert {item.path: item.reason for item in made.left_out} == dict.fromkeys(
        ("a.txt", "born"), "changed in the project too since the run began"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_goes_on_from_what_was_applied_of_its_own(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    """What is in the project because this run proposed it is not taken for what others did."""
    with working(tmp_path, kind) as copy:
        inside(copy, "echo 1 >>a.txt; mkdir pkg; echo 1 >pkg/m; echo 1 >pkg/n; rm mode")
        first = read_changes(copy)
        remember_proposed(copy.run, first)
        assert was_proposed(copy.run, first.sha256) and not was_proposed(copy.run, "0" * 64)
        for path in ("a.txt", "pkg/m", "pkg/n"):  # as apply does it: other inodes
            work = copy.run.work / ("upper" if kind == "overlay" else "tree") / path
            (project / path).unlink(missing_ok=True)
            (project / path).parent.mkdir(exist_ok=True)
            (project / path).write_bytes(work.read_bytes())
        (project / "mode").unlink()
        applied = read_changes(copy)
        assert (changed(applied), applied.left_out) == ({}, ())
        inside(copy, "echo 2 >>a.txt; echo 2 >>pkg/m; echo 3 >pkg/o; echo back >mode")
        (project / "pkg/n").write_text("a person wrote this\n")
        (project / "pkg/theirs").write_text("and this\n")
        second = read_changes(copy)
    assert changed(second) == {"a.txt": "modify", "pkg/m": "modify", "pkg/o": "add", "mode": "add"}
    assert [item.path for item in second.left_out] == ["pkg/n"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", few(range(12), 3))
def test_whatever_an_agent_does_is_what_comes_back(tmp_path: Path, kind: CopyKind, seed: int) -> None:
    """A random script in the copy, and the same script on a plain tree: the change set makes one of the other."""
    rng = random.Random(seed)
    project = tmp_path / "project"
    names = [f"{folder}{name}" for folder in ("", "d1/", "d1/d2/", "d3/") for name in "abcé"]
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(rng.randbytes(rng.choice([0, 10, 5000])))
    steps = []
    for number in range(30):
        one, other = rng.choice(names), rng.choice(names)
        steps.append(
            rng.choice([
                f"echo {number} >>'{one}'", f"rm -rf '{one}'", f"mv '{one}' '{other}'", f"mv '{one}' new{number}", "rm -rf d1/d2",  # noqa: E501
                f"mkdir -p d1/d2/n{number} && echo x >d1/d2/n{number}/f", f"chmod +x '{one}'", (f"rm -rf '{one}'; mkdir -p '{one}'; echo y "  # noqa: E501
        f">'{one}/z'"),
                f"cp -r d1 copy{number}", f"mv d3 moved{number}", "mkdir -p d3 d1/d2", f"touch '{one}'", (f"ln -sfn '{os.path.basename(other)}' "  # noqa: E501
        f"'{one}'"),
            ])
        )  # fmt: skip
    script = "exec 2>/dev/null; umask 022\n" + "\n".join(steps) + "\ntrue\n"
    wanted = tmp_path / "wanted"
    shutil.copytree(project, wanted, symlinks=True)
    subprocess.run(["bash", "-c", script], cwd=wanted, check=True)
    with working(tmp_path, kind) as copy:
        inside(copy, script)
        made = read_changes(copy)
    left = {item.path for item in made.left_out}
    got = after(project, made)
    for path, value in tree(wanted).items():
        if not any(path == other or path.startswith(f"{other}/") for other in left):
            assert got.pop(path, None) == value, (path, left)
    rest = {
        path
        for path in got
        if not any(path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in left)
    }
    assert rest == set()


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder",)
        else:
            found[name] = ("file", bool(path.stat().st_mode & stat.S_IXUSR), path.read_bytes())
    return found


def after(project: Path, made: MadeChangeSet) -> dict[str, tuple[object, ...]]:
    """The project as the change set would make it, without touching it."""
    found = tree(project)
    if not made.data:
        return found
    with tarfile.open(fileobj=BytesIO(made.data)) as archive:
        for row in made.rows:
            found.pop(row.path, None)
            if row.after is None:
                continue
            member = archive.getmember(f"tree/{row.path}")
            if member.issym():
                found[row.path] = ("link", member.linkname)
            elif member.isdir():
                found[row.path] = ("folder",)
            else:
                found[row.path] = ("file", bool(member.mode & 0o100), archive.extractfile(member).read())  # type: ignore[union-attr]
    return found


def test_which_files_were_scanned_is_remembered(tmp_path: Path, project: Path) -> None:
    cache = tmp_path / "cache"
    first = survey(project, cache=cache)
    [kept] = cache.iterdir()
    before = kept.stat().st_ino
    assert survey(project, cache=cache).hidden == first.hidden and kept.stat().st_ino == before
    (project / "a.txt").write_text(SECRET)
    assert survey(project, cache=cache).hidden["a.txt"] == "secret"
    kept.write_text('{"a.txt": "nonsense"}')
    assert survey(project, cache=cache).hidden["a.txt"] == "secret"


def test_a_project_that_is_too_deep_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path
    for _ in range(70):
        place = place / "d"
    place.mkdir(parents=True)
    with pytest.raises(InvalidInput, match="deeper"):
        survey(tmp_path)
    monkeypatch.setattr("threegate.core.limits.AGENT_COPY_ENTRIES", 3)
    with pytest.raises(InvalidInput, match="more than 3 entries"):
        survey(tmp_path)


def test_what_is_special_is_hidden(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".git").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("x")
    (tmp_path / "data" / "y").write_text("y")
    assert survey(tmp_path).hidden == {"fifo": "special", "sub/.git": "git"}
    found = survey(tmp_path, protected=("Data/",))
    assert found.hidden == {"data": "protected", "fifo": "special", "sub/.git": "git"}
    assert found.hides("sub/DATA/x") and found.hides("data/z") and not found.hides("database")
    shown = survey(tmp_path, shown=("data/x",), protected=("data/",))
    assert shown.entries.keys() == {"sub", "data", "data/x"} and shown.hidden["data/y"] == "protected"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_somebody_edited_meanwhile_is_merged(tmp_path: Path, project: Path, kind: CopyKind) -> None:
    """The bytes of the start are those that git had. What was merged once and applied is never taken back by the copy,
    which does not have the other side.
    """
    lines = "".join(f"{number}\n" for number in range(20))
    (project / "text").write_text(lines)
    (project / "other").write_text(lines)
    subprocess.run("git init -q . && git add -A", shell=True, cwd=project, check=True)
    with working(tmp_path, kind) as copy:
        inside(copy, "sed -i s/^3$/three/ text; echo mine >>other")
        (project / "text").write_text(lines.replace("17\n", "seventeen\n"))
        (project / "other").write_text(f"{lines}theirs\n")
        made = read_changes(copy)
        both = lines.replace("17\n", "seventeen\n").replace("\n3\n", "\nthree\n")
        assert changed(made) == {"text": "modify"} and content(made, "text") == both
        assert [item.path for item in made.left_out] == ["other"]
        remember_proposed(copy.run, made)
        (project / "text").write_text(both)
        assert changed(read_changes(copy)) == {}
        inside(copy, "sed -i s/^9$/nine/ text")
        assert content(read_changes(copy), "text") == both.replace("\n9\n", "\nnine\n")


def content(made: MadeChangeSet, path: str) -> str:
    with tarfile.open(fileobj=BytesIO(made.data)) as archive:
        return archive.extractfile(f"tree/{path}").read().decode()  # type: ignore[union-attr]
