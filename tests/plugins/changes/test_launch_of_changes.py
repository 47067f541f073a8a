"""A change of a project at launch: what it is bound to is the Job's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.approval import material
from tests.approval.material import Approved
from tests.plugins.changes.example_change import PROJECT
from threegate.approval.launch import check_launch
from threegate.core.errors import Refused
from threegate.plugins.changes.action import JobBranch, JobChange, ProjectPlace


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Approved:
    """An approval that passes."""
    return material.approve(material.make_key(tmp_path_factory.mktemp("keys"), "operator"))


def code_of(facts: Any) -> str:
    with pytest.raises(Refused) as caught:
        check_launch(facts)
    assert "\n" not in str(caught.value)
    return caught.value.code


def test_another_head_of_its_repository_is_refused_as_that(approved: Approved) -> None:
    """Only where the change set becomes a commit on it; as files it is another meaning."""
    change = JobChange(ProjectPlace("web", "/srv/web", 1, 2, 3), "9" * 64, 1, 0, 0, 0)
    branch = JobBranch("threegate/run", "a" * 40, "b" * 40, "an agent", "words")
    for made, code in ((None, "job_changed"), (branch, "project_changed")):
        job = replace(approved.job, action=PROJECT.bound(replace(change, branch=made)))
        assert code_of(approved.facts(job=job)) == code


def test_a_change_in_place_of_the_action_that_was_signed_is_refused(approved: Approved) -> None:
    assert code_of(approved.facts(job=replace(approved.job, action=PROJECT))) == "job_changed"
