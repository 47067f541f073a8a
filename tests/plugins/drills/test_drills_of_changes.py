"""Drills of change sets: made of a project, shown as any change, never applied, and counted by what was decided."""

from __future__ import annotations

import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from tests.acts.bench_workspace import Bench, once
from tests.adversarial.approval.test_terminal import terminal_environment, under_a_terminal
from tests.plugins.changes.applying import own, picture
from tests.plugins.drills.practice import answer_drill
from tests.plugins.drills.project_drills import SHOP, outcomes, placed_change, with_project
from threegate.approval.shown.escaped_lines import render_sections
from threegate.audit.audit_verify import verify_workspace
from threegate.cli import execute
from threegate.core.errors import InvalidInput, Refused
from threegate.core.file_names import new_agent_run_id
from threegate.plugins.agents.kinds import AgentStarted
from threegate.plugins.changes.change_tar import read_change_set
from threegate.plugins.changes.redraft import redraft
from threegate.plugins.changes.requested_change import change_of
from threegate.plugins.changes.take_part import take_part
from threegate.plugins.drills import placed_drill
from threegate.plugins.drills.change_drills import change_drills
from threegate.plugins.drills.change_plants import FILE_PLANTS, file_plants, harmless_edits
from threegate.plugins.drills.drills import place_drill, settle_drill
from threegate.plugins.drills.placed_drill import Drill, drills_folder, read_drill
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import Draft, open_reviewed_draft, read_draft, view_draft
from threegate.trail.trail import Trail


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return with_project(tmp_path)[0]


@pytest.fixture
def project(bench: Bench) -> Path:
    return bench.workspace.root.parent / "web"


def command(bench: Bench, *words: str) -> int:
    return execute(["-w", str(bench.workspace.root), *words])


def draft_of(bench: Bench, drill: Drill) -> Draft:
    return read_draft(bench.workspace, drill.listed(bench.workspace))


def nothing_of_it(bench: Bench) -> bool:
    """Whether no file of a drill is left, and no agent has anything of one."""
    left = [path for path in bench.workspace.root.rglob("*changes*") if path.suffix in (".md", ".json", ".tar")]
    return list(drills_folder(bench.workspace).iterdir()) == [] and left == []


def test_every_kind_is_made_of_the_files_of_the_project(bench: Bench, project: Path) -> None:
    before, kinds = picture(project), set()
    for seed in range(3):
        for drill, data, archive in change_drills(bench.context, Random(seed)):
            change = read_change_set(archive)
            paths = [row.path for row in change.rows]
            assert drill.path in paths and len(paths) >= 2 and drill.source == "project web"
            assert b"requested_by: agent" in data and b"project: web" in data
            kinds.add(drill.planted)
    assert kinds == set(FILE_PLANTS) and picture(project) == before


@pytest.mark.parametrize("kind", sorted(FILE_PLANTS))
def test_a_plant_changes_one_line_of_one_file(kind: str) -> None:
    texts = {path: text for path, text in SHOP.items() if isinstance(text, str)}
    for seed in range(20):
        edited, purpose = harmless_edits(texts, Random(seed))
        assert edited and purpose
        seen = {**texts, **edited}
        (plant,) = [plant for plant in file_plants(seen, Random(seed)) if plant.kind == kind]
        before, after = seen[plant.path].split("\n"), plant.text.split("\n")
        other = [line for line in after if line not in before]
        more = 0 if kind in ("check", "hidden", "host", "test") else 1
        assert len(other) == 1 and len(after) == len(before) + more, plant
        if plant.path.endswith(".py"):
            compile(plant.text, plant.path, "exec")


def test_the_edits_change_no_program() -> None:
    import ast

    texts = {path: text for path, text in SHOP.items() if isinstance(text, str)}
    edited, _ = harmless_edits(texts, Random(1))
    for path in [path for path in edited if path.endswith(".py")]:
        trees = [ast.parse(text) for text in (texts[path], edited[path])]
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
                    node.body = node.body[1:]
        assert ast.dump(trees[0]) == ast.dump(trees[1])


@pytest.mark.parametrize(
    "files",
    [
        {"data.bin": "\x00\x01", "notes.md": "Nothing to tidy.\n"},
        {"only.py": SHOP["shop.py"]},
        {"secret.md": "It isn't safe: ghp_0123456789abcdefghijABCDEFGHIJ012345\n", "b.md": "x\n"},
    ],
)
def test_a_project_that_gives_no_change_has_no_drill(tmp_path: Path, files: dict[str, str]) -> None:
    bench, _ = with_project(tmp_path, files)
    assert place_drill(bench.context, chance=Random(1)) is None
    assert not drills_folder(bench.workspace).exists() or not any(drills_folder(bench.workspace).iterdir())


def test_a_list_of_projects_that_cannot_be_read_gives_none(bench: Bench) -> None:
    bench.workspace.projects_file.write_text("{")
    assert place_drill(bench.context, chance=Random(1)) is None


def test_what_agents_do_not_change_is_not_in_it(bench: Bench) -> None:
    bench.settings(agents__protected=["shop.py", "*.md"])
    found = list(change_drills(bench.context, Random(1)))
    paths = {row.path for _, _, archive in found for row in read_change_set(archive).rows}
    assert found and not paths & {"shop.py", "README.md"}


def test_its_screen_is_that_of_the_same_proposal(bench: Bench) -> None:
    context = bench.context
    drill, data, archive = next(change_drills(context, Random(5)))
    drills_folder(bench.workspace).mkdir(0o700)
    sha256 = read_input(data)
    (drills_folder(bench.workspace) / sha256).write_bytes(archive)
    (bench.workspace.files / sha256).write_bytes(archive)
    shown = []
    for placed in (drill, None):
        draft = Draft(drill.listed(bench.workspace), data, (0, 0, 0, 0, 0), drill.owner, placed)
        with view_draft(context, draft) as reviewed:
            shown.append(render_sections(review_sections(reviewed, context.policy.settings, operator="alice")))
    assert shown[0] == shown[1] and "drill" not in "\n".join(shown[0])
    assert drill.path in "\n".join(shown[0])


def read_input(data: bytes) -> str:
    """The digest of the one input of a draft."""
    return data.decode().partition("sha256: ")[2].lstrip('"')[:64]


def test_show_has_the_whole_card(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    drill = placed_change(bench)
    capsys.readouterr()
    assert command(bench, "show", drill.request_id) == 0
    said = capsys.readouterr()
    assert "cannot be shown" not in said.err and "MODIFIED    | " in said.out and "drill" not in said.out
    assert command(bench, "show", drill.request_id, "--input", "changes.tar") == 0


def test_approve_on_a_terminal_is_a_miss_and_changes_nothing(bench: Bench, project: Path) -> None:
    before, drill = picture(project), placed_change(bench)
    bench.keys["alice"].write_text("no key at all")
    words = [sys.executable, "-m", "threegate", "-w", str(bench.workspace.root), "approve", drill.request_id]
    given = [*words, "--key", str(bench.keys["alice"])]
    output, status = under_a_terminal(given, [b"y\n"], terminal_environment(NO_COLOR="1"))
    assert status == 2 and b"this was a drill: you missed it" in output, output
    once(bench)
    assert outcomes(bench) == ["missed"] and picture(project) == before and nothing_of_it(bench)
    assert verify_workspace(bench.workspace).problems == []


def other_path(bench: Bench, drill: Drill) -> str:
    """A path of the change without the planted line."""
    with open_reviewed_draft(bench.context, draft_of(bench, drill)) as reviewed:
        return next(row.path for row in change_of("", reviewed.bound).change.rows if row.path != drill.path)


@pytest.mark.parametrize(
    ("words", "status", "outcome"),
    [
        (["reject", "ID", "--reason", "no"], 0, "caught"),
        (["project", "take", "ID", "PLANTED"], 2, "missed"),
        (["project", "take", "ID", "--without", "PLANTED"], 2, "caught"),
        (["project", "take", "ID", "OTHER"], 2, "caught"),
        (["project", "take", "ID", "--without", "OTHER"], 2, "missed"),
        (["request-changes", "ID", "--at", "PLANTED:3", "--words", "Why?"], 0, "caught"),
        (["request-changes", "ID", "--at", "./FOLDER", "--words", "Why?"], 0, "caught"),
        (["request-changes", "ID", "--at", "OTHER", "--words", "Why?"], 0, "missed"),
        (["request-changes", "ID", "--words", "Why?"], 0, "caught"),
    ],
)
@pytest.mark.parametrize("json_", [False, True])
def test_each_way_of_deciding_is_counted(
    bench: Bench,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    outcome: str,
    json_: bool,
) -> None:
    before, drill = picture(project), placed_change(bench)
    files = sorted(bench.workspace.inbox.rglob("*"))
    stands = {"ID": drill.request_id, "PLANTED": drill.path, "OTHER": other_path(bench, drill)}
    stands["FOLDER"] = drill.path.split("/")[0]
    given = []
    for word in words:
        for name, value in stands.items():
            word = word.replace(name, value)
        given.append(word)
    capsys.readouterr()
    assert command(bench, *given, *(["--json"] if json_ else [])) == status
    said = capsys.readouterr()
    if json_:
        assert json.loads(said.out)["drill"] == outcome and json.loads(said.out)["line"] == drill.line
    else:
        assert f"this was a drill: you {outcome} it" in said.out and drill.path in said.out
    assert outcomes(bench) == [outcome] and picture(project) == before and nothing_of_it(bench)
    assert sorted(bench.workspace.inbox.rglob("*")) == files, "nothing reaches who asks"
    assert not [path for path in bench.workspace.verdicts.iterdir() if drill.request_id in path.read_text()]
    assert verify_workspace(bench.workspace).problems == []


@pytest.mark.parametrize(
    "words",
    [
        ["project", "take", "ID"],
        ["project", "take", "ID", "nowhere"],
        ["project", "take", "ID", "."],
        ["request-changes", "ID", "--words", ""],
        ["request-changes", "ID", "--at", "a:0", "--words", "no"],
        ["project", "redraft", "ID"],
        ["approve", "ID", "--yes"],
        ["approve", "ID", "--group"],
    ],
)
def test_what_decides_nothing_says_nothing(bench: Bench, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    drill = placed_change(bench)
    capsys.readouterr()
    assert command(bench, *(drill.request_id if word == "ID" else word for word in words)) == 2
    said = capsys.readouterr()
    assert "drill" not in said.err and said.out == "" and outcomes(bench) == [] and read_drill(bench.workspace) == drill


def test_no_part_of_it_is_made_a_draft(bench: Bench) -> None:
    drill = placed_change(bench)
    other = other_path(bench, drill)
    context = bench.context
    with open_reviewed_draft(context, draft_of(bench, drill)) as reviewed:
        with pytest.raises(Refused) as refused:
            take_part(context, reviewed, only=[other], decided=lambda *given: pytest.fail("asked for a key"))
        with pytest.raises(InvalidInput, match="proposed again"):
            redraft(context, reviewed)
    assert refused.value.code == "drill" and not any(bench.workspace.files.iterdir())


def test_a_copy_of_it_never_changes_the_project(bench: Bench, project: Path) -> None:
    before, drill = picture(project), placed_change(bench)
    folder = drills_folder(bench.workspace)
    data = drill.file(bench.workspace).read_bytes()
    (bench.workspace.files / "changes.tar").write_bytes((folder / read_input(data)).read_bytes())
    copy = bench.workspace.inbox / f"{drill.name[:-3]}-copy.md"
    copy.write_bytes(data)
    with pytest.raises(Refused) as refused:
        bench.approve(copy)
    assert refused.value.code == "replayed"
    placed = bench.workspace.root / "tool-exec/approved" / copy.name
    shutil.copy(copy, placed)
    once(bench)
    assert picture(project) == before and not placed.exists()


@pytest.mark.parametrize("harm", ["archive changed", "archive gone", "another beside it"])
def test_files_that_are_not_as_placed_are_lost(bench: Bench, harm: str) -> None:
    drill = placed_change(bench)
    archive = drills_folder(bench.workspace) / read_input(drill.file(bench.workspace).read_bytes())
    if harm == "archive changed":
        archive.write_bytes(archive.read_bytes().replace(b"\n", b" ", 1))
    elif harm == "archive gone":
        archive.unlink()
    else:
        (archive.parent / ("0" * 64)).write_bytes(b"")
    once(bench)
    assert outcomes(bench) == ["lost"] and nothing_of_it(bench)


@pytest.mark.parametrize("moved", ["edited", "unregistered"])
def test_a_project_that_moved_on_ends_it(bench: Bench, project: Path, moved: str) -> None:
    drill = placed_change(bench)
    assert settle_drill(bench.context) is None
    if moved == "edited":
        (project / drill.path).write_text("other\n")
        own(project)
    else:
        assert command(bench, "project", "remove", "web") == 0
    once(bench)
    assert outcomes(bench) == ["expired"] and nothing_of_it(bench)


def test_a_taken_name_hides_nothing(bench: Bench) -> None:
    drill = placed_change(bench)
    drill.listed(bench.workspace).write_text("taken")
    assert settle_drill(bench.context) is None
    again = read_drill(bench.workspace)
    assert again is not None and again.name != drill.name and again.commitment == drill.commitment
    with open_reviewed_draft(bench.context, draft_of(bench, again)) as reviewed:
        assert reviewed.unfit is None


def test_a_machine_that_dies_right_after_the_answer(
    bench: Bench, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, drill = picture(project), placed_change(bench)
    draft = draft_of(bench, drill)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(placed_drill, "remove_files", dies)
        answer_drill(bench.context, draft, yes=True, actor="operator:alice")
    assert outcomes(bench) == ["missed"] and read_drill(bench.workspace) == drill, "its files are still there"
    with pytest.raises(Refused) as over:
        answer_drill(bench.context, draft, yes=True, actor="operator:alice")
    assert over.value.code == "drill_over"
    once(bench)
    assert outcomes(bench) == ["missed"] and nothing_of_it(bench) and picture(project) == before


def test_a_machine_that_dies_before_it_is_placed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(placed_drill.durable, "deliver", dies)
        placed_change(bench)
    assert any(drills_folder(bench.workspace).iterdir()), "the archive was there first"
    once(bench)
    assert outcomes(bench) == ["lost"] and nothing_of_it(bench)
    assert verify_workspace(bench.workspace).problems == []


def test_one_that_is_open_is_not_touched_by_another(bench: Bench) -> None:
    placed_change(bench)
    before = sorted(os.listdir(drills_folder(bench.workspace)))
    assert place_drill(bench.context, chance=Random(9)) is None
    assert sorted(os.listdir(drills_folder(bench.workspace))) == before


def test_changes_of_a_drill_of_a_request_are_asked_for_as_well(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.approve(bench.draft("req-20260101-101010-abcdef"))
    once(bench)
    assert command(bench, "project", "remove", "web") == 0
    drill = place_drill(bench.context, chance=Random(7))
    assert drill is not None and not drill.path
    capsys.readouterr()
    assert command(bench, "request-changes", drill.request_id, "--at", "x.py", "--words", "Less memory.") == 0
    assert "you caught it" in capsys.readouterr().out and outcomes(bench) == ["caught"]


def test_it_seems_to_come_from_a_run_on_the_project(bench: Bench) -> None:
    runs = [bench.workspace.agent_run(new_agent_run_id(datetime.now(UTC))).make() for _ in range(2)]
    for run, name in zip(runs, ("web", "other"), strict=True):
        Trail(bench.workspace).announce(AgentStarted(run=run.run_id, profile="codex", project=name), actor="operator")
    before = [sorted(run.folder.rglob("*")) for run in runs]
    drill = placed_change(bench)
    assert (drill.owner, drill.folder) == (runs[0].run_id, runs[0].run_id)
    assert drill.listed(bench.workspace).parent == runs[0].inbox
    with open_reviewed_draft(bench.context, draft_of(bench, drill)) as reviewed:
        assert reviewed.run is not None and reviewed.request.requested_by == "codex" and reviewed.unfit is None
    assert command(bench, "project", "take", drill.request_id, "--without", drill.path) == 2
    assert command(bench, "project", "take", drill.request_id, drill.path) != 0, "it is over"
    assert outcomes(bench) == ["caught"] and [sorted(run.folder.rglob("*")) for run in runs] == before
