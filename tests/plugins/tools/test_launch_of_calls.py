"""A call of a tool at launch: what it is bound to is the Job's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.approval import material
from tests.approval.material import Approved
from tests.plugins.tools.example_call import CALL
from threegate.approval.launch import check_launch
from threegate.core.errors import Refused
from threegate.plugins.tools.action import JobServer, ServerState


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Approved:
    """An approval that passes."""
    return material.approve(material.make_key(tmp_path_factory.mktemp("keys"), "operator"))


def code_of(facts: Any) -> str:
    with pytest.raises(Refused) as caught:
        check_launch(facts)
    assert "\n" not in str(caught.value)
    return caught.value.code


def test_another_state_of_its_server_is_refused_as_that(approved: Approved) -> None:
    """Only where its server keeps one; of any other it is another meaning."""
    server = JobServer("jail", ("/usr/bin/hub",), (), (), ())
    for state, code in ((None, "job_changed"), (ServerState(), "state_changed")):
        job = replace(approved.job, action=CALL.bound(replace(server, state=state)))
        assert code_of(approved.facts(job=job)) == code


def test_a_call_in_place_of_the_action_that_was_signed_is_refused(approved: Approved) -> None:
    assert code_of(approved.facts(job=replace(approved.job, action=CALL))) == "job_changed"
