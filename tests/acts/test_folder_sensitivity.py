"""The sensitivity that a person sets for a folder raises what drafts with files from it declare, and lowers nothing."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from threegate.acts.draft import DraftOptions, write_draft
from threegate.core.errors import InvalidInput
from threegate.core.settings import Settings, parse_settings
from threegate.request.model import Sensitivity


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def declared(bench: Bench, file: Path, sensitivity: Sensitivity = "public") -> str:
    options = DraftOptions("monty", "Look.", code="print(1)\n", inputs=(file,), sensitivity=sensitivity)
    request = write_draft(bench.workspace, options, now=datetime.now(UTC)).report.request
    assert request is not None
    return request.data_sensitivity


def set_folders(bench: Bench, **folders: str) -> None:
    lines = "".join(f'"{path}" = "{sensitivity}"\n' for path, sensitivity in folders.items())
    text = bench.workspace.settings_file.read_text()
    assert text.count("[folders]\n") == 1
    bench.workspace.settings_file.write_text(text.replace("[folders]\n", f"[folders]\n{lines}"))


@pytest.mark.parametrize(
    ("folder", "given", "found"),
    [
        ("confidential", "public", "confidential"),
        ("confidential", "confidential", "confidential"),
        ("internal", "public", "internal"),
        ("internal", "confidential", "confidential"),
        ("public", "internal", "internal"),
    ],
)
def test_a_folder_only_raises(bench: Bench, tmp_path: Path, folder: str, given: Sensitivity, found: str) -> None:
    place = tmp_path / "payroll" / "2026"
    place.mkdir(parents=True)
    (place / "may.csv").write_text("1\n")
    settings = bench.workspace.settings_file.read_text()
    place_of = str(tmp_path / "payroll")
    set_folders(bench, **{place_of: folder})
    assert declared(bench, place / "may.csv", given) == found
    (tmp_path / "payrolls").mkdir()
    (tmp_path / "payrolls" / "other.csv").write_text("2\n")
    assert declared(bench, tmp_path / "payrolls" / "other.csv", given) == given, "a name that only begins the same"
    bench.workspace.settings_file.write_text(settings)
    assert declared(bench, place / "may.csv", given) == given


def test_a_folder_inside_of_another_one_does_not_lower_it(bench: Bench, tmp_path: Path) -> None:
    place = tmp_path / "payroll" / "public"
    place.mkdir(parents=True)
    (place / "may.csv").write_text("1\n")
    set_folders(bench, **{str(tmp_path / "payroll"): "confidential", str(place): "public"})
    assert declared(bench, place / "may.csv") == "confidential"


def test_a_way_through_links_and_dots_is_the_same_folder(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "payroll"
    place.mkdir()
    (place / "may.csv").write_text("1\n")
    (tmp_path / "linked").symlink_to(place)
    set_folders(bench, **{str(tmp_path / "linked"): "confidential"})
    assert declared(bench, place / "may.csv") == "confidential"
    assert declared(bench, tmp_path / "linked" / ".." / "payroll" / "may.csv") == "confidential"
    monkeypatch.chdir(tmp_path)
    assert declared(bench, Path("payroll/may.csv")) == "confidential"
    (tmp_path / "circle").symlink_to("circle")
    assert Settings(folders={str(tmp_path / "circle"): "internal"}).least_sensitivity([tmp_path / "x"]) == "public"


def test_a_link_in_the_folder_that_leads_elsewhere_counts_as_in_it(tmp_path: Path) -> None:
    place = tmp_path / "payroll"
    place.mkdir()
    os.symlink(tmp_path / "elsewhere.csv", place / "may.csv")
    settings = Settings(folders={str(place): "confidential"})
    assert settings.least_sensitivity([place / "may.csv"]) == "confidential"
    assert settings.least_sensitivity([tmp_path / "elsewhere.csv"]) == "public"
    assert settings.least_sensitivity([]) == "public"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('"payroll" = "confidential"', "/an/absolute/folder"),
        ('"/payroll/" = "confidential"', "/an/absolute/folder"),
        ('"/a/../payroll" = "confidential"', "/an/absolute/folder"),
        ('"/payroll" = "secret"', "public, internal, confidential"),
        ('"/payroll" = 3', "must be text"),
    ],
)
def test_what_is_no_folder_or_no_sensitivity_is_refused(line: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        parse_settings(f"[folders]\n{line}\n".encode())
    assert "folders" in str(caught.value)


def test_no_approval_and_no_grant_depends_on_it() -> None:
    """What a folder raises is in the request: nothing that waits becomes void when a folder is added."""
    one, other = Settings(), Settings(folders={"/payroll": "confidential"})
    assert one.deciding() == other.deciding() and one.unbound() == other.unbound()
