"""Which platforms an ERA request may run on here, and in which order; the engine is asked as little as possible."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.runners.small_engine import DOCKER, small_engine
from threegate.core.errors import Unavailable
from threegate.core.settings import EraSettings
from threegate.request.job import Platform
from threegate.runners.era import engine_answer, platforms
from threegate.runners.era.platforms import era_platforms
from threegate.runners.era.root_identity import Root
from threegate.runners.seccomp import BUBBLEWRAP_SECCOMP_SHA256, SECCOMP_SHA256

IMAGE = f"sha256:{'a' * 64}"
ROOT = f"root:sha256:{'b' * 64}"
ENGINE = Platform(IMAGE, "", "", SECCOMP_SHA256)
BUBBLEWRAP = Platform(ROOT, "", "bubblewrap", BUBBLEWRAP_SECCOMP_SHA256)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with bubblewrap and a root that is known; no answer of an engine is used again."""
    monkeypatch.setattr(platforms, "PROGRAM", sys.executable)
    monkeypatch.setattr(platforms, "identify", lambda settings: Root(None, ROOT, frozenset(), frozenset(), ""))
    monkeypatch.setattr(platforms, "has_extra", lambda name: True)
    monkeypatch.setattr(engine_answer, "ANSWER_AGAIN_SECONDS", 0.0)


def test_the_engine_comes_first_while_it_answers_and_has_the_image(tmp_path: Path) -> None:
    socket = tmp_path / "s"
    settings = EraSettings(engine=f"unix://{socket}", image=IMAGE)
    for _ in range(2):  # it goes away, and comes back
        assert era_platforms(settings).now == (BUBBLEWRAP, ENGINE)
        with small_engine(socket, IMAGE):
            assert era_platforms(settings).now == (ENGINE, BUBBLEWRAP)
    with small_engine(socket, f"sha256:{'c' * 64}"):
        assert era_platforms(settings).now == (BUBBLEWRAP, ENGINE)
    podman = {**DOCKER, "Components": [{"Name": "Podman Engine"}]}
    with small_engine(socket, IMAGE, podman):
        assert era_platforms(settings).now == (BUBBLEWRAP, ENGINE)


def test_an_answer_is_used_again_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_answer, "ANSWER_AGAIN_SECONDS", 60.0)
    socket = tmp_path / "s"
    settings = EraSettings(engine=f"unix://{socket}", image=IMAGE)
    with small_engine(socket, IMAGE):
        assert era_platforms(settings).now[0] == ENGINE
    assert era_platforms(settings).now[0] == ENGINE


def test_without_bubblewrap_or_the_library_there_is_one_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = EraSettings(engine=f"unix://{tmp_path}/s", image=IMAGE)
    with small_engine(tmp_path / "s", IMAGE):
        monkeypatch.setattr(platforms, "has_extra", lambda name: False)
        assert era_platforms(settings).now == (BUBBLEWRAP, ENGINE)
    monkeypatch.setattr(platforms, "PROGRAM", str(tmp_path / "none"))
    assert era_platforms(settings).now == (ENGINE, BUBBLEWRAP)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (EraSettings(), [BUBBLEWRAP]),
        (EraSettings(runtime="bubblewrap", image=IMAGE), [BUBBLEWRAP]),
        (EraSettings(runtime="engine", image=IMAGE), [ENGINE]),
        (EraSettings(runtime="runsc", image=IMAGE), [Platform(IMAGE, "", "runsc", SECCOMP_SHA256)]),
    ],
)
def test_a_setting_that_names_the_way(settings: EraSettings, expected: list[Platform]) -> None:
    assert list(era_platforms(settings).now) == expected and not era_platforms(settings).unknown
    assert all(item.engine for item in era_platforms(settings, here=False).now)  # a cluster's workers have engines


def test_a_root_that_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(settings: EraSettings) -> Root:
        raise Unavailable("no database")

    monkeypatch.setattr(platforms, "identify", unknown)
    auto = era_platforms(EraSettings(image=IMAGE))
    assert (auto.now, auto.unknown) == ((ENGINE,), "no database")
    alone = era_platforms(EraSettings(runtime="bubblewrap"))
    assert (alone.now, alone.unknown) == ((Platform(runtime="bubblewrap"),), "no database")
