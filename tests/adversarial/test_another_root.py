"""An approval names the root that its run sees: under another one it never runs, and an engine that goes away and comes
back voids nothing. Who can write a root can say nothing about what it has.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, daemons, launched
from tests.runners.small_engine import small_engine
from tests.runners.test_root_identity import STATUS, rewrite, unpacked
from tests.support import era_draft, request_id
from threegate.core.errors import Unavailable
from threegate.core.settings import EraSettings
from threegate.launch.approved_file import Approved, Ended, read_approved
from threegate.runners.era import engine_answer, platforms, root_identity
from threegate.runners.era.root_identity import identify

IMAGE = f"sha256:{'a' * 64}"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A workspace on a machine with two packages, bubblewrap, and an engine that is not there yet."""
    monkeypatch.setattr(root_identity, "DPKG", tmp_path / "status")
    monkeypatch.setattr(platforms, "PROGRAM", sys.executable)
    monkeypatch.setattr(platforms, "has_extra", lambda name: True)
    monkeypatch.setattr(engine_answer, "ANSWER_AGAIN_SECONDS", 0.0)
    (tmp_path / "status").write_text(STATUS)
    made = make_bench(tmp_path)
    made.settings(runners__era__engine=f"unix://{tmp_path}/s", runners__era__image=IMAGE)
    return made


def approve(bench: Bench, name: str) -> Path:
    """An ERA request that alice approved now."""
    draft = bench.workspace.inbox / f"{name}.md"
    draft.write_text(era_draft(name, "true"))
    return bench.approve(draft).path


def read(bench: Bench, path: Path, runner: CountingRunner) -> tuple[Approved, Ended | object]:
    """The request as a daemon reads it now, and what its launch ends with."""
    context = daemons(bench, runner, 1)[0]
    approved = read_approved(context, path)
    assert isinstance(approved, Approved)
    return approved, launched(context, approved)


def test_an_approval_is_not_run_under_another_root(bench: Bench, tmp_path: Path) -> None:
    runner, name = CountingRunner(), request_id("root")
    path = approve(bench, name)
    rewrite(tmp_path / "status", "Version: 3.11", "Version: 3.12")
    approved, ended = read(bench, path, runner)
    assert approved.job.runtime == "bubblewrap" and not runner.runs
    assert isinstance(ended, Ended) and (ended.event, ended.code) == ("refused", "job_changed")
    said = "the packages of this machine, or its root, changed since it was approved; draft it again: threegate draft"
    assert f"{said} --again {name}" in ended.result.read_text()


def test_nor_by_whoever_turns_the_packages_back(bench: Bench, tmp_path: Path) -> None:
    """Only the root that was signed runs it; that it was another one meanwhile voids nothing that nobody looked at."""
    runner = CountingRunner()
    path = approve(bench, request_id("back"))
    rewrite(tmp_path / "status", "Version: 3.11", "Version: 3.12")
    rewrite(tmp_path / "status", "Version: 3.12", "Version: 3.11")
    _, ended = read(bench, path, runner)
    assert isinstance(ended, Ended) and ended.code == "succeeded" and runner.runs.total() == 1


def test_a_flapping_engine_voids_nothing(bench: Bench, tmp_path: Path) -> None:
    """Approved while it was there and while it was not: each runs where it was signed, whatever is preferred now."""
    runner, socket = CountingRunner(), tmp_path / "s"
    without = approve(bench, request_id("without"))
    with small_engine(socket, IMAGE):
        with_it = approve(bench, request_id("with"))
        approved, ended = read(bench, without, runner)
        assert (approved.job.runtime, isinstance(ended, Ended) and ended.code) == ("bubblewrap", "succeeded")
    approved, ended = read(bench, with_it, runner)
    # The runner says that its engine is away, and the request waits; a counting one says nothing.
    assert (approved.job.image, isinstance(ended, Ended) and ended.code) == (IMAGE, "succeeded")


def test_a_root_that_is_not_known_for_a_moment_keeps_it_waiting(bench: Bench, tmp_path: Path) -> None:
    runner = CountingRunner()
    path = approve(bench, request_id("waits"))
    (tmp_path / "status").rename(tmp_path / "kept")
    _, answer = read(bench, path, runner)
    assert not isinstance(answer, Ended) and answer.code == "no_backend" and path.exists()  # type: ignore[attr-defined]
    (tmp_path / "kept").rename(tmp_path / "status")
    _, ended = read(bench, path, runner)
    assert isinstance(ended, Ended) and ended.code == "succeeded"


def test_a_new_image_voids_only_what_it_would_have_run(bench: Bench, tmp_path: Path) -> None:
    runner = CountingRunner()
    with small_engine(tmp_path / "s", IMAGE):
        path = approve(bench, request_id("era"))
    other = bench.approve(bench.draft("req-1")).path
    bench.settings(runners__era__image=f"sha256:{'b' * 64}")
    _, ended = read(bench, path, runner)
    assert isinstance(ended, Ended) and ended.code == "job_changed"
    assert "the ERA image changed since it was approved" in ended.result.read_text()
    _, ended = read(bench, other, runner)
    assert isinstance(ended, Ended) and ended.code == "succeeded"


@pytest.mark.parametrize("place", ["", "root.json", "tree", "tree/usr", "tree/usr/bin", "tree/etc"])
def test_a_root_that_others_can_write_is_refused(tmp_path: Path, place: str) -> None:
    folder = unpacked(tmp_path)
    settings = EraSettings(root=str(folder))
    assert identify(settings).path is not None
    target = folder / place
    mode = target.stat().st_mode
    for bits in (0o002, 0o020):
        target.chmod(mode | bits)
        with pytest.raises(Unavailable, match="can be changed by others"):
            identify(settings)
    target.chmod(mode)
    assert identify(settings).path is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="another account owns nothing here")
@pytest.mark.parametrize("place", [".", "tree", "tree/usr/bin", "root.json", ".."])
def test_a_root_of_an_agents_account_is_refused(tmp_path: Path, place: str) -> None:
    folder = unpacked(tmp_path / "above")
    os.chown(folder / place, 65534, 65534)
    with pytest.raises(Unavailable, match="uid 65534"):
        identify(EraSettings(root=str(folder)))
