"""Requests of version 2: what they need, what they may not have, and what the Job of one binds."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import jsonschema
import pytest
import yaml

from tests.request.examples import APPLY, APPLY_KEYS, apply, era, ids, read, request
from threegate.plugins.changes.action import JobBranch, JobChange, JobPart, ProjectChange, ProjectPlace
from threegate.request.job import Platform, build_job, effective_risk
from threegate.request.model import Request, exposure_of
from threegate.request.render_draft import render_request
from threegate.request.schema import request_schema_2

CHANGE = JobChange(ProjectPlace("web", "/srv/web", 1, 2, 3), "9" * 64, 4, 0, 0, 0)
SCHEMA = jsonschema.Draft202012Validator(request_schema_2())


def made(**changes: str) -> Request:
    found = read(apply(**changes)).request
    assert found is not None
    return found


def action_of(request: Request) -> ProjectChange:
    assert isinstance(request.action, ProjectChange)
    return request.action


def said(request: Request, **claims: Any) -> Request:
    """The request with other claims about its change set."""
    changes = replace(action_of(request).changes, **claims)
    return replace(request, action=request.action.changed(changes=changes))


def test_what_a_request_says() -> None:
    found = made()
    assert (found.backend, action_of(found).project, found.language, found.memory_limit_mb) == ("apply", "web", "", 0)
    changes = action_of(found).changes
    assert (changes.add, changes.modify) == (1, 2)
    assert found.signature_needed and not read(era()).request.signature_needed  # type: ignore[union-attr]
    exposure = exposure_of(found)
    assert not exposure.opaque and exposure.reach == ("the files of the project web",)


def test_it_is_read_as_it_was_written() -> None:
    found = said(made(), rows=(("add", "b"), ("modify", "a x")))
    again = read(render_request(found)).request
    assert again is not None
    for item in fields(Request):
        if item.name not in ("data", "sha256", "file_name"):
            assert getattr(again, item.name) == getattr(found, item.name), item.name
    assert list(action_of(made()).changes.lines())[-1] == "- type: 0"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (request({key: value for key, value in APPLY_KEYS.items() if key != "project"}, APPLY), "TG121"),
        (
            request({key: value for key, value in APPLY_KEYS.items() if key != "time_limit_sec"}, APPLY),
            "TG121",
        ),
        (apply(schema_version='"1"'), "TG131"),
        (apply(schema_version="2.0"), "TG131"),
        (apply(schema_version="true"), "TG131"),
        (era(schema_version='"2"'), "TG131"),
        (apply(network="allowlist", network_allowlist="[a.example.com]"), "TG138"),
        (apply(project="7"), "TG122"),
        (apply(inputs="[1]"), "TG150"),
        (request(APPLY_KEYS, {**APPLY, "Changes": "\n- digest: sha256:" + "a" * 64 + "\n"}), "TG223"),
        (request(APPLY_KEYS, {key: text for key, text in APPLY.items() if key != "Changes"}), "TG202"),
    ],
)
def test_what_is_refused(text: str, rule: str) -> None:
    report = read(text)
    assert not report.valid and rule in ids(report), report.findings


def test_version_2_as_a_number() -> None:
    assert read(apply(schema_version="2")).valid


def bound(asked: Request, change: JobChange) -> Request:
    """As its bytes have it."""
    assert isinstance(asked.action, ProjectChange)
    return replace(asked, action=asked.action.bound(change))


@pytest.mark.parametrize(
    ("change", "claims", "expected"),
    [
        (None, {}, "medium"),
        (None, {"delete": 1}, "high"),
        (None, {"type": 1}, "high"),
        (CHANGE, {"delete": 1}, "medium"),
        (replace(CHANGE, deletions=1), {}, "high"),
        (replace(CHANGE, run_later=1), {}, "high"),
        (replace(CHANGE, unseen=1), {}, "medium"),
    ],
)
def test_effective_risk(change: JobChange | None, claims: dict[str, Any], expected: str) -> None:
    found = replace(made(), data_sensitivity="public", risk_level="low")
    found = said(found, **claims)
    if change is not None:
        found = bound(found, change)
    assert effective_risk(found, exposure_of(found)) == expected


def test_the_job_binds_the_folder_and_the_change() -> None:
    def digest(change: JobChange | None) -> str:
        found = made() if change is None else bound(made(), change)
        return build_job(found, input_sizes={"a" * 64: 1}, platform=Platform()).digest

    digests = {digest(CHANGE), digest(None)}
    for item in fields(JobChange):
        if item.name not in ("project", "branch", "part"):
            digests.add(digest(replace(CHANGE, **{item.name: "8" * 64 if item.name == "sha256" else 77})))
    branch = JobBranch("threegate/ar-1", "1" * 40, "2" * 40, "a <a@b>", "words")
    digests.add(digest(replace(CHANGE, branch=branch)))
    for item in fields(JobBranch):
        other: Any = ("said",) if item.name == "notes" else "other"
        digests.add(digest(replace(CHANGE, branch=replace(branch, **{item.name: other}))))
    part = JobPart("TR-20261126-000000Z-whole", 1, 3, ("b", "c"))
    digests.add(digest(replace(CHANGE, part=part)))
    for item in fields(JobPart):
        differs: Any = {"root": "TR-20261126-000000Z-other", "left_out": ("b",)}.get(item.name, 2)
        digests.add(digest(replace(CHANGE, part=replace(part, **{item.name: differs}))))
    for item in fields(ProjectPlace):
        value: Any = "other" if item.name in ("name", "path") else 77
        digests.add(digest(replace(CHANGE, project=replace(CHANGE.project, **{item.name: value}))))
    parts = (JobChange, JobBranch, JobPart, ProjectPlace)
    assert len(digests) == 2 + sum(len(fields(kind)) for kind in parts) - 1


def test_the_schema_agrees() -> None:
    jsonschema.Draft202012Validator.check_schema(request_schema_2())

    def front(text: str) -> Any:
        value = yaml.safe_load(text.split("---\n")[1])
        value["created_utc"] = "2026-11-22T05:00:00Z"
        return value

    SCHEMA.validate(front(apply()))
    for text in (
        apply(language="python"),
        apply(backend="ERA"),
        apply(schema_version='"1"'),
        apply(network="allowlist"),
        apply(inputs="[]"),
    ):
        assert not read(text).valid and not SCHEMA.is_valid(front(text))
