"""Shell completion of the commands of grants."""

from __future__ import annotations

import pytest

from tests.cli import test_tab_completion
from tests.cli.test_tab_completion import offered
from tests.support import Place

GRANT = "3f9c" * 16
place = test_tab_completion.place


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("grant", "new", ""), ["TR-finished", "req-ran"]),
        (("grant", "show", "3f"), [GRANT]),
        (("grant", "revoke", ""), [GRANT]),
    ],
    ids=" ".join,
)
def test_each_command_is_offered_what_it_takes(place: Place, words: tuple[str, ...], names: list[str]) -> None:
    folder = place.root / "tool-exec" / "grants"
    folder.mkdir(exist_ok=True)
    (folder / f"{GRANT}.grant").write_text("-")
    assert offered(place, *words) == names
