"""A launch takes the platform that was signed; if it is gone, the one line says what changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tests.approval.material import make_job, make_request
from threegate.launch.approved_file import ApprovedAs, choose_platform
from threegate.request.job import Job, Platform, Platforms

ENGINE = Platform("sha256:a", "sha256:e", "", "1")
JAIL = Platform("root:sha256:b", "", "bubblewrap", "2")


def build(*, platform: Platform) -> Job:
    """The Job of one request on this platform."""
    return make_job(make_request(), **asdict(platform))


def signed(platform: Platform, **changes: Any) -> ApprovedAs:
    """What is said of an approval given for this platform."""
    return ApprovedAs("TR-1", frozenset({build(platform=platform).digest}), platform)


def test_the_signed_one_is_taken_wherever_it_is_in_the_list() -> None:
    for possible in ((ENGINE, JAIL), (JAIL, ENGINE)):
        for platform in (ENGINE, JAIL):
            assert choose_platform(Platforms(possible), build, signed(platform)) == (platform, None)


def test_what_nobody_approved_is_for_the_preferred_one() -> None:
    nothing = ApprovedAs("TR-1", frozenset(), None)
    assert choose_platform(Platforms((JAIL, ENGINE)), build, nothing) == (JAIL, None)
    other = ApprovedAs("TR-1", frozenset({"0" * 64}), ENGINE)  # the platform is not all that differs
    assert choose_platform(Platforms((JAIL, ENGINE)), build, other) == (JAIL, None)


def test_another_root_image_or_way_is_named_with_what_to_type() -> None:
    for then, words in (
        (Platform("root:sha256:c", "", "bubblewrap", "2"), "the packages of this machine, or its root, changed"),
        (Platform("sha256:c", "sha256:e", "", "1"), "the ERA image changed"),
        (Platform("sha256:a", "sha256:f", "", "1"), "the egress image changed"),
        (Platform("sha256:a", "sha256:e", "", "3"), "the seccomp profile changed"),
        (Platform("sha256:a", "sha256:e", "runsc", "1"), "these settings no longer allow a run by runsc"),
    ):
        platform, elsewhere = choose_platform(Platforms((JAIL, ENGINE)), build, signed(then))
        said = f"{words} since it was approved; draft it again: threegate draft --again TR-1"
        assert (platform, elsewhere) == (JAIL, ("job_changed", said))
    gone = "these settings no longer allow a run by"
    for then, way, left in ((ENGINE, "the container engine", JAIL), (JAIL, "bubblewrap", ENGINE)):
        _, elsewhere = choose_platform(Platforms((left,)), build, signed(then))
        assert elsewhere is not None and elsewhere[1].startswith(f"{gone} {way} since")


def test_a_root_that_is_not_known_now_voids_nothing() -> None:
    possible = Platforms((ENGINE,), "the database is being written")
    assert choose_platform(possible, build, signed(JAIL)) == (ENGINE, ("no_backend", "the database is being written"))
    _, elsewhere = choose_platform(possible, build, signed(Platform("sha256:c", "sha256:e", "", "1")))
    assert elsewhere is not None and elsewhere[0] == "job_changed"
