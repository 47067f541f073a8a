"""The Job's effective risk: what is declared, or what the request can do, whichever is higher."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.request.examples import era, read
from threegate.request.exposure import Exposure
from threegate.request.job import Platform, build_job, effective_risk

SHOWN = Exposure("transparent", "x")
OPAQUE = Exposure("opaque", "x")
REACHES = ("network a.example.com:443",)


@pytest.mark.parametrize(
    ("changes", "exposure", "expected"),
    [
        ({"data_sensitivity": "public"}, SHOWN, "low"),
        ({"data_sensitivity": "internal"}, SHOWN, "medium"),
        ({"data_sensitivity": "public", "network": "allowlist"}, replace(SHOWN, reach=REACHES), "medium"),
        ({"data_sensitivity": "public", "risk_level": "high"}, SHOWN, "high"),
        ({"data_sensitivity": "public", "unusual_program": True}, SHOWN, "high"),
        ({"data_sensitivity": "public"}, OPAQUE, "medium"),
        ({"data_sensitivity": "public"}, replace(OPAQUE, reach=REACHES), "high"),
        ({"data_sensitivity": "public", "risk_level": "high"}, OPAQUE, "high"),
    ],
)
def test_effective_risk_is_never_below_what_is_declared_or_computed(
    changes: dict[str, object], exposure: Exposure, expected: str
) -> None:
    request = read(era()).request
    assert request is not None
    changed = replace(request, **{"risk_level": "low", **changes})  # type: ignore[arg-type]
    assert effective_risk(changed, exposure) == expected


def test_a_platform_says_by_what_it_runs_and_what_changed() -> None:
    engine, kata, jail = (
        Platform("a", "b", "", "1"),
        Platform("a", "b", "kata", "1"),
        Platform("c", "", "bubblewrap", "2"),
    )
    assert [item.engine for item in (engine, kata, jail)] == [True, True, False]
    assert [item.way for item in (engine, kata, jail)] == ["the container engine", "kata", "bubblewrap"]
    assert kata.difference([engine, jail]) == "these settings no longer allow a run by kata"
    assert engine.difference([jail, replace(engine, image="x")]) == "the ERA image changed"
    assert jail.difference([replace(jail, image="x")]) == "the packages of this machine, or its root, changed"
    assert engine.difference([replace(engine, egress_image="x")]) == "the egress image changed"
    assert engine.difference([replace(engine, seccomp_sha256="x")]) == "the seccomp profile changed"


def test_a_platform_is_read_back_from_an_event() -> None:
    """One that does not matter is not written."""
    jail = Platform("c", "", "bubblewrap", "2")
    assert Platform.from_json(jail.to_json() or {}) == jail and Platform().to_json() is None
    assert Platform.from_json({"image": "a", "more": "x"}) == Platform("a")


def test_a_job_names_its_platform() -> None:
    """The egress image only where there is a network."""
    request = read(era()).request
    assert request is not None
    sizes = {item.sha256: 1 for item in request.inputs}
    job = build_job(request, input_sizes=sizes, platform=Platform("a", "b", "", "1"))
    assert job.platform == Platform("a", "", "", "1")
