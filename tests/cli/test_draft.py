"""threegate draft: what it writes is valid, means what was asked, and is never half there."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from threegate import cli
from threegate.acts.draft import DraftOptions, write_draft
from threegate.cli import invocation
from threegate.core.workspace import Workspace


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with default settings and an inbox."""
    (tmp_path / "ws" / "inbox" / "files").mkdir(parents=True)
    (tmp_path / "ws" / "threegate.toml").write_text("")
    monkeypatch.chdir(tmp_path / "ws")
    monkeypatch.setattr(invocation, "ROOT", invocation.RootOptions())
    return tmp_path / "ws"


def drafts() -> list[Path]:
    return sorted(Path("inbox").glob("TR-*.md"))


def test_an_era_draft_with_inputs_outputs_and_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    Path("script.py").write_text("print(1)\n")
    arguments = [
        "draft",
        "--purpose",
        "Rank: the sales",
        "--command",
        "python3 /in/script.py 'a b'",
        "--input",
        "script.py",
    ]
    arguments += [
        "--output",
        "ranked.json",
        "--output",
        "/out/by region.csv",
        "--network-allow",
        "api.example.com:8443",
    ]
    assert cli.execute([*arguments, "--network-rationale", "reads the rates", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    digest = hashlib.sha256(b"print(1)\n").hexdigest()
    assert value["inputs"] == [{"name": "script.py", "sha256": digest}] and value["copied"] == ["script.py"]
    assert Path("inbox/files", digest).read_bytes() == b"print(1)\n"
    text = Path(value["path"]).read_text()
    assert "api.example.com:8443" in text and "- `/out/by region.csv`" in text
    assert cli.execute(["validate", "inbox"]) == 0


def test_a_monty_draft_with_variables_and_a_second_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("code.py").write_text("x = '```'\nprint(limit)")
    Path("vars.json").write_text('{"limit": 3}')
    arguments = [
        "draft",
        "--backend",
        "monty",
        "--purpose",
        "Count",
        "--code",
        "code.py",
        "--vars",
        "vars.json",
        "--slug",
    ]
    assert cli.execute([*arguments, "one"]) == 0
    assert (
        cli.execute([*arguments, "two", "--risk", "high", "--sensitivity", "public", "--justification", "asked for"])
        == 0
    )
    assert capsys.readouterr().out.count("valid (draft)") == 2
    assert len(drafts()) == 2 and all("````python" in path.read_text() for path in drafts())


def test_the_same_content_is_copied_once_and_another_of_its_name_has_a_place_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.csv").write_text("1")
    arguments = ["draft", "--purpose", "x", "--command", "cat /in/a.csv", "--input", "a.csv", "--slug"]
    assert cli.execute([*arguments, "one"]) == 0
    assert "copied a.csv" in capsys.readouterr().out
    assert cli.execute([*arguments, "two"]) == 0
    assert "copied" not in capsys.readouterr().out
    Path("a.csv").write_text("2")
    assert cli.execute([*arguments, "three"]) == 0
    assert "copied a.csv" in capsys.readouterr().out
    texts = {text: hashlib.sha256(text.encode()).hexdigest() for text in ("1", "2")}
    assert {path.name: path.read_text() for path in Path("inbox/files").iterdir()} == {
        digest: text for text, digest in texts.items()
    }
    one, two, three = (
        [text for text, digest in texts.items() if digest in path.read_text()]
        for path in sorted(drafts(), key=lambda path: ("one", "two", "three").index(path.stem.rpartition("-")[2]))
    )
    assert (one, two, three) == (["1"], ["1"], ["2"])
    assert cli.execute(["validate", "inbox"]) == 0


def test_drafts_of_one_second_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 11, 22, 10, 15, tzinfo=UTC)
    options = DraftOptions("ERA", "x", command="ls", slug="s" * 64)
    workspace = Workspace(Path.cwd())
    first = write_draft(workspace, options, now=moment).path
    second = write_draft(workspace, options, now=moment).path
    workspace.refused.mkdir(parents=True)
    first.rename(workspace.refused / first.name)
    third = write_draft(workspace, options, now=moment).path
    assert len({path.name for path in (first, second, third)}) == 3
    assert cli.execute(["validate", str(second), str(third)]) == 0


def test_what_has_the_name_of_other_content_is_refused_and_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_text("1")
    place = Path("inbox/files", hashlib.sha256(b"1").hexdigest())
    for plant in (lambda: place.write_text("evil"), lambda: place.symlink_to(Path("a.csv").absolute()), place.mkdir):
        plant()
        assert cli.execute(["draft", "--purpose", "x", "--command", "cat /in/a.csv", "--input", "a.csv"]) == 2
        assert "does not have the sha256 that is its name; remove it" in capsys.readouterr().err
        assert drafts() == [] and os.path.lexists(place)
        place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["a b.csv"], "cp -- 'a b.csv' a-b.csv"),
        (["Umsätze 2026 (März).csv"], "cp -- 'Umsätze 2026 (März).csv' Umsatze-2026-Marz-.csv"),
        (["表.csv"], "cp -- '表.csv' input.csv"),
        (["表"], "cp -- '表' input"),
        (["n" * 130 + ".csv"], f"{'n' * 60}.csv"),
        (["one/data.csv", "two/data.csv"], "cp -- two/data.csv 2-data.csv"),
        (["data.csv", "data.csv"], "cp -- data.csv 2-data.csv"),
        (["link.csv"], "is a link, which is not followed; name the file that it leads to"),
        (["dangling.csv"], "is a link"),
        (["nothing.csv"], "nothing.csv: cannot be read (No such file or directory)"),
        (["one"], "one: cannot be read (one: not a regular file)"),
        (["fifo"], "fifo: cannot be read (fifo: not a regular file)"),
    ],
)
def test_an_input_that_cannot_have_its_name_comes_with_the_line_that_helps(
    files: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        Path(name).mkdir()
        Path(name, "data.csv").write_text(name)
    for name in files:
        if not os.path.lexists(name) and name not in ("link.csv", "dangling.csv", "nothing.csv", "fifo"):
            Path(name).write_text("1")
    Path("link.csv").symlink_to("one/data.csv")
    Path("dangling.csv").symlink_to("nowhere")
    os.mkfifo("fifo")
    words = [word for name in files for word in ("--input", name)]
    assert cli.execute(["draft", "--purpose", "x", "--command", "ls", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert drafts() == [] and not list(Path("inbox/files").iterdir())
    if " cp -- " in error:  # the line works as it is printed, and so does the draft then
        line = error.rstrip("\n").rpartition("another name: ")[2]
        subprocess.run(line, shell=True, check=True)
        refused = shlex.split(line)[2]
        where = len(files) - 1 - files[::-1].index(refused)
        words[2 * where + 1] = shlex.split(line)[3]
        assert cli.execute(["draft", "--purpose", "x", "--command", "ls", *words]) == 0


def test_a_folder_on_the_way_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "data.csv").write_text("1")
    Path("near").symlink_to(tmp_path / "real")
    assert cli.execute(["draft", "--purpose", "x", "--command", "cat /in/data.csv", "--input", "near/data.csv"]) == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--command", "bash a.sh"], "TG312"),
        (["--command", "ls", "--memory", "999999"], "TG140"),
        (["--command", "ls", "--slug", "Not A Slug"], "--slug"),
        (["--command", "ls 'a"], "quot"),
        (["--command", "ls", "--cpu", "many"], "--cpu"),
        (["--command", "ls", "--cpu", "1e999999999"], "--cpu"),
        (["--command", "ls", "--cpu", "NaN"], "--cpu"),
        (["--command", "ls", "--network-allow", "127.0.0.1"], "IP address"),
        (["--command", "ls", "--input", "a b.csv"], "another name"),
        (["--command", "ls", "--code", "code.py"], "backend ERA"),
        ([], "--command"),
        (["--backend", "monty"], "--code"),
        (["--backend", "monty", "--code", "code.py", "--command", "ls"], "not a command"),
        (["--backend", "monty", "--code", "latin.py"], "UTF-8"),
        (["--command", "python3 a.py --password=hunter2secret"], "TG501"),
    ],
)
def test_what_would_be_refused_is_not_written(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("code.py").write_text("print(1)\n")
    Path("latin.py").write_bytes(b"\xe9")
    Path("a b.csv").write_text("1")
    assert cli.execute(["draft", "--purpose", "x", *arguments]) == 2
    error = capsys.readouterr().err
    assert word in error and "hunter2" not in error
    assert drafts() == [] and not list(Path("inbox/files").iterdir())


def test_wrong_choices_and_no_workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for option in ("--backend", "--risk", "--sensitivity"):
        assert cli.execute(["draft", "--purpose", "x", "--command", "ls", option, "other"]) == 64
    monkeypatch.chdir(tmp_path)
    assert cli.execute(["draft", "--purpose", "x", "--command", "ls"]) == 64
