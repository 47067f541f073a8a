"""Files of /in that a command names and that will not be there."""

from __future__ import annotations

import pytest

from tests.request.test_in_folder import INPUTS, TAR, opener
from threegate.request.command.python_line import python_line
from threegate.request.in_folder import InFolder
from threegate.request.named_inputs import missing_inputs


def missing(*argv: str, workdir: str = "/in", known: bool = True) -> list[tuple[int, str, str]]:
    inside = InFolder(INPUTS, opener(tree=TAR) if known else opener())
    return [tuple(item) for item in missing_inputs(argv, workdir, python_line(argv), inside)]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("argv", "at", "path"),
    [
        (["sort", "/in/date.csv"], 1, "/in/date.csv"),
        (["sort", "-k1", "--files0-from=/in/list"], 2, "/in/list"),
        (["curl", "-d", "@/in/body", "https://example.org"], 2, "/in/body"),
        (["curl", "-F", "file=@/in/body", "https://example.org"], 2, "/in/body"),
        (["/in/tool", "x"], 0, "/in/tool"),
        (["python3", "/in/a.py"], 1, "/in/a.py"),
        (["python3", "-u", "a.py"], 2, "/in/a.py"),
        (["node", "a.js"], 1, "/in/a.js"),
        (["awk", "-f", "/in/a.awk", "/in/data.csv"], 2, "/in/a.awk"),
        (["cat", "/in/data.csv/x"], 1, "/in/data.csv/x"),
        (["cat", "/in/tree/none"], 1, "/in/tree/none"),
        (["cat", "/in/tree.tar"], 1, "/in/tree.tar"),
    ],
)
def test_what_is_not_declared(argv: list[str], at: int, path: str) -> None:
    assert [item[:2] for item in missing(*argv)] == [(at, path)]


@pytest.mark.parametrize(
    "argv",
    [
        ["sort", "/in/data.csv", "/in/./data.csv"],
        ["ls", "/in", "/in/", "/in/tree", "/in/tree/a", "/in/tree/a/b.py"],
        ["sort", "other.csv"],
        ["echo", "/in/none"],
        ["test", "-e", "/in/none"],
        ["python3", "-c", "open('/in/none')"],
        ["python3", "-c", "/in/none"],
        ["awk", "/in/", "/in/data.csv"],
        ["grep", "-r", "--exclude", "/in/none", "x", "/in/tree"],
        ["grep", "--exclude=/in/none", "x", "/in/data.csv"],
        ["find", "/in", "-path", "/in/none", "-prune"],
        ["find", "/in", "-name", "/in/*.csv"],
        ["python3", "-m", "json.tool", "/in/data.csv"],
        ["cat", "/in/x y", "/input/none", "/out/none"],
    ],
)
def test_what_is_there_or_is_no_path(argv: list[str]) -> None:
    assert missing(*argv) == []


def test_each_path_is_told_once_with_what_is_like_it() -> None:
    ((at, path, why),) = missing("diff", "/in/date.csv", "/in/date.csv")
    assert (at, path) == (1, "/in/date.csv") and why == "it is not a declared input (did you mean data.csv?)"
    ((_, _, why),) = missing("cat", "/in/tree/a/bb.py")
    assert why == "the declared input has nothing of this name (did you mean b.py?)"
    ((_, _, why),) = missing("cat", "/in/tree.tar")
    assert why == "it is unpacked: its files are in /in/tree/"


def test_a_script_is_looked_for_in_the_folder_where_the_command_runs() -> None:
    assert missing("python3", "a/b.py", workdir="/in/tree") == []
    assert [item[1] for item in missing("python3", "b.py", workdir="/in/tree")] == ["/in/tree/b.py"]
    ((_, path, why),) = missing("python3", "b.py", workdir="/out")
    assert path == "/out/b.py" and why == "nothing is there when the run begins"
    assert missing("python3", "/usr/share/tool.py") == []


def test_what_is_in_an_archive_that_is_not_at_hand_is_not_known() -> None:
    assert missing("cat", "/in/tree/none", known=False) == []
    assert missing("cat", "/in/none", known=False) != []
