"""The backend apply: a project is changed by a change set of an agent, completely or not at all."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from threegate.core import limits
from threegate.plugins.changes.changes_section import ARCHIVE, COMMITS, check_inputs, read_change
from threegate.request.backend import Attention, Binding, Bound, Opened, Reading
from threegate.runners.backend import RunningBackend

if TYPE_CHECKING:
    from threegate.core.screen_parts import Item
    from threegate.core.settings import SecretReference, Settings
    from threegate.core.workspace import Workspace
    from threegate.plugins.changes.action import ProjectChange
    from threegate.request.model import Request
    from threegate.request.shown_whole import OpenInput
    from threegate.runners.interface import Runner
    from threegate.trail.index import TrailIndex
    from threegate.trail.payloads.payload import Owner


class Apply(RunningBackend):
    """What each member is for is said where it is defined."""

    name = "apply"
    sections = ("Changes", "Output Expectations", "Risk Assessment")
    closely = ("Changes",)
    version = "2"
    keys = ("project",)
    optional = ("deliver", "derived_from")
    lists: ClassVar[Mapping[str, Any]] = {"inputs": {"minItems": 1, "maxItems": 2}}
    no_outputs = "TG243", "a change of a project leaves no files in /out; write none"
    overhead_mb = 64
    at_once = limits.APPLY_AT_ONCE
    most_cpus = Decimal(1)
    waits_for = "project_not_writable"

    def check(self, values: Mapping[str, Any], written: Container[str], wrong: Callable[[str, str, str], None]) -> None:
        check_inputs(values, written, wrong)

    def read(self, reading: Reading) -> ProjectChange | None:
        return read_change(reading.parts, reading.values, reading.findings)

    def bind(self, binding: Binding) -> Bound:
        from threegate.plugins.changes.requested_change import requested_change

        return requested_change(binding)

    def attention(
        self, workspace: Workspace, settings: Settings, request: Request, open_input: OpenInput
    ) -> Attention | None:
        from threegate.plugins.changes.action import ProjectChange
        from threegate.plugins.changes.change_attention import attention_of_change
        from threegate.plugins.changes.projects import find_project

        assert isinstance(request.action, ProjectChange)
        place = find_project(workspace, settings, request.action.project)
        with open_input(request.inputs[0]) as stream:
            return attention_of_change(stream, place)

    def problem(
        self, workspace: Workspace, index: TrailIndex, request: Request, owner: Owner | None
    ) -> tuple[str, str] | None:
        """Its project is not registered, or is another folder now; or nobody took this part of what it names."""
        from threegate.plugins.changes.action import ProjectChange
        from threegate.plugins.changes.projects import project_problem
        from threegate.plugins.changes.taken_parts import part_problem

        assert isinstance(request.action, ProjectChange)
        return project_problem(workspace, request.action.project) or part_problem(index, request.action)

    def input_items(self, bound: Bound, inputs: Sequence[Opened]) -> Mapping[str, tuple[Item, ...]]:
        from threegate.plugins.changes.change_screen import change_items, commit_items
        from threegate.plugins.changes.requested_change import change_of

        change = change_of("the request", bound)
        return {ARCHIVE: change_items(change, inputs[0]), COMMITS: commit_items(change)}

    def make(self, settings: Settings, *, secrets: Mapping[str, SecretReference], once: bool) -> Runner:
        from threegate.plugins.changes.apply.runner import ApplyRunner

        return ApplyRunner()


BACKEND = Apply()
