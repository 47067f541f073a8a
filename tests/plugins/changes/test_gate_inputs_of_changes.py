"""What the gates get of a change of a project."""

from __future__ import annotations

from dataclasses import replace

from tests.judgement.test_gate_inputs import request
from tests.plugins.changes.example_change import PROJECT
from threegate.judgement.judge import call_arguments, category
from threegate.request.job import Platform, build_job


def test_a_change_of_a_project_is_a_write_and_names_the_project() -> None:
    asked = request()
    job = replace(build_job(asked, input_sizes={}, platform=Platform(seccomp_sha256="0" * 64)), action=PROJECT)
    assert call_arguments(job)["project"] == "web" and "code_sha256" not in call_arguments(job)
    assert category(job, side_effect_above_read=False) == "write"
