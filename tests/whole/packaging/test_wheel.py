"""What is built carries everything, and knows what it was built from. The whole proof is `make release-check`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from threegate import __version__
from threegate.core import version

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sdist and wheel, built without a network by the build backend of this environment."""
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=240)
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel unpacked as an installer would, away from the checkout."""
    target = tmp_path_factory.mktemp("site")
    [wheel] = dist.glob("*.whl")
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
    ]
    subprocess.run([*words, str(wheel)], check=True, capture_output=True, timeout=240)
    return target


def run(installed: Path, *words: str, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-P", *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_archives_hold_what_they_must(dist: Path) -> None:
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    assert wheel.name == f"threegate-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"threegate/_data/schemas/{path.name}" for path in (ROOT / "schemas").iterdir()} <= names
    assert {"threegate/_data/sandbox/bootstrap", "threegate/_data/sandbox/egress/start-proxy"} <= names
    own = ("threegate/", f"threegate-{__version__}.dist-info/", f"threegate-{__version__}.data/")
    assert all(name.startswith(own) for name in names)
    assert f"threegate-{__version__}.data/data/share/man/man1/threegate.1" in names
    with tarfile.open(sdist) as archive:
        parts = {name.partition("/")[2] for name in archive.getnames()}
    assert {"hatch_build.py", "LICENSE", "docs/release.md", "tests/whole/packaging/test_wheel.py"} <= parts
    assert not any(re.search(r"(^|/)(\.venv|\.git|__pycache__)(/|$)", name) for name in parts)


@pytest.mark.slow
def test_it_runs_away_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    where = run(installed, "-c", "import threegate; print(threegate.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(installed)
    assert run(installed, "-m", "threegate", "--version", cwd=tmp_path).startswith(f"threegate {__version__} (commit ")
    code = (
        "from threegate.setup.sandbox import sandbox_folder as f; import os; print(os.access(f() / 'bootstrap', "
        "os.X_OK), f())"
    )
    said = run(installed, "-c", code, cwd=tmp_path)
    assert said.startswith("True") and str(installed) in said
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    run(installed, "-m", "threegate", "init", "ws", "--key", str(tmp_path / "key.pub"), cwd=tmp_path)
    run(installed, "-m", "threegate", "-w", "ws", "run", "--once", cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout: the commit is in the sdist")
def test_the_commit_is_written_by_the_build_and_read_from_a_checkout(installed: Path, tmp_path: Path) -> None:
    words = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "rev-parse", "HEAD"]
    head = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    assert version.commit() == head
    said = run(installed, "-c", "import threegate.core.version as v; print(v.commit())", cwd=tmp_path).strip()
    assert said == head


def test_a_commit_that_cannot_be_known_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "threegate"
    (package / "_data").mkdir(parents=True)
    monkeypatch.setattr(version, "PACKAGE", package)
    digest = "ab" * 20
    assert version.commit() == "unknown"
    repository = tmp_path / ".git"
    (repository / "refs/heads").mkdir(parents=True)
    for head, packed, expected in [
        (digest, None, digest),
        ("ref: refs/heads/main", f"# pack\n{digest} refs/heads/main\n", digest),
        ("ref: refs/heads/gone", f"{digest} refs/heads/main\n", "unknown"),
        ("ref: ../../../etc/passwd", None, "unknown"),
        ("\xff\xfe", None, "unknown"),
        ("", None, "unknown"),
    ]:
        (repository / "HEAD").write_text(head, "latin-1")
        (repository / "packed-refs").unlink(missing_ok=True)
        if packed:
            (repository / "packed-refs").write_text(packed)
        assert version.commit() == expected, head
    (repository / "refs/heads/main").write_text(digest + "\n")
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    assert version.described() == f"{__version__} (commit {digest[:12]})"
    tree = tmp_path / "tree"
    (tree / "threegate").mkdir(parents=True)
    worktree = repository / "worktrees" / "tree"
    worktree.mkdir(parents=True)
    (worktree / "HEAD").write_text("ref: refs/heads/main\n")
    (worktree / "commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {worktree}\n")
    monkeypatch.setattr(version, "PACKAGE", tree / "threegate")
    assert version.commit() == digest
    (package / "_data" / "commit").write_text("cd" * 20)
    monkeypatch.setattr(version, "PACKAGE", package)
    assert version.commit() == "cd" * 20
