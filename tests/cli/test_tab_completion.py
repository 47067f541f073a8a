"""Tab offers the ids and names that a command takes, the same in each shell, and nothing that a shell would act on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.material import folder as contracts_folder
from tests.support import Place, make_place, monty_draft, offered

SHOWN_BY = {
    "bash": ["TR-first", "TR-second"],
    "zsh": ["""_arguments '*: :(("TR-first\"""", """"TR-second"))'"""],
    "fish": ["TR-first", "TR-second"],
}


def filled(folder: Path) -> Place:
    """A workspace with one thing or two of each kind."""
    place = make_place(folder)
    for name in ("TR-first", "TR-second"):
        place.drop(monty_draft(name, "1 + 1"))
    place.drop("not offered", "TR-$(reboot).md")
    place.drop("not offered", ".TR-hidden.md")
    side = place.root / "tool-exec"
    for state in ("approved", "running", "finished", "refused"):
        (side / state / f"TR-{state}.md").write_text("-")
    (side / "runs" / "req-ran").mkdir()
    (side / "results" / "TS-20261122-101530Z-req-ended.md").write_text("-")
    for name, data in contracts_folder({"session": {}}).items():
        (side / "contracts" / name).parent.mkdir(parents=True, exist_ok=True)
        (side / "contracts" / name).write_bytes(data)
    place.run("contracts", "open", "march", expect=0)
    return place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return filled(tmp_path_factory.mktemp("tab"))


@pytest.mark.parametrize("shell", SHOWN_BY)
def test_each_shell_gets_the_drafts_in_its_own_form(place: Place, shell: str) -> None:
    assert offered(place, "reject", "TR-", shell=shell) == SHOWN_BY[shell]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("approve", "TR-s"), ["TR-second"]),
        (("approve", "TR-a"), ["TR-approved"]),
        (("reject", "TR-first", "TR-s"), ["TR-second"]),
        (("audit", "approval", ""), ["TR-approved"]),
        (("cancel", ""), ["TR-approved", "TR-running"]),
        (("draft", "--again", ""), ["TR-finished", "TR-refused"]),
        (("show", "TR-first", "--against", "TR-f"), ["TR-finished", "TR-first"]),
        (("show", "TR-r"), ["TR-refused", "TR-running"]),
        (("audit", "replay", ""), ["TR-finished", "req-ran"]),
        (("audit", "show", "--request", ""), ["req-ended"]),
        (("approve", "TR-first", "--as", ""), ["operator"]),
        (("operator", "revoke", ""), ["operator"]),
        (("contracts", "sessions", ""), ["march"]),
        (("contracts", "kill", "s"), ["session", "subtree"]),
        (("contracts", "kill", "session", ""), ["march"]),
        (("contracts", "kill", "workflow", ""), []),
    ],
    ids=" ".join,
)
def test_each_command_is_offered_what_it_takes(place: Place, words: tuple[str, ...], names: list[str]) -> None:
    assert offered(place, *words) == names


def test_slugs_that_one_request_has_and_ids_are_offered(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    for name in ("TR-20260101-000000Z-sum", "TR-20260102-000000Z-sum", "TR-20260103-000000Z-mean"):
        place.drop(monty_draft(f"req-{name[9:11]}", "1 + 1"), f"{name}.md")
    place.once()  # a verdict names the id
    assert offered(place, "approve", "m") == ["mean"]
    assert offered(place, "approve", "s") == [], "two have it"
    assert offered(place, "show", "req-") == ["req-01", "req-02", "req-03"]


def test_the_workspace_of_the_command_line_is_asked(place: Place, tmp_path: Path) -> None:
    elsewhere = Place(tmp_path, place.key)
    assert offered(elsewhere, "approve", "") == []
    assert offered(elsewhere, "-w", str(place.root), "approve", "TR-s") == ["TR-second"]


def test_what_cannot_be_read_is_not_offered(place: Place) -> None:
    settings = place.root / "threegate.toml"
    before = settings.read_text()
    settings.write_text("[nonsense")
    try:
        assert offered(place, "contracts", "sessions", "") == []
        assert offered(place, "approve", "TR-s") == ["TR-second"]
    finally:
        settings.write_text(before)
