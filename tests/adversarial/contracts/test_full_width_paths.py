"""Paths with characters that some readers fold into dots and slashes: `under` and `glob` judge none of them."""

from __future__ import annotations

import pytest

from threegate.request.strict_texts import OPERATORS, BadOperand


@pytest.mark.parametrize(
    "text",
    [
        "/srv/．．/etc/passwd",
        "/srv/‥/etc/passwd",
        "/srv/.．/x",
        "/srv/．/x",
        "/srv/a／．．／x",
        "/srv／x",
        "/srv/a＼b",
        "/srv/％2e％2e/x",
        "/srv/＄HOME",
        "～/srv/x",
        "/srv/℀",
    ],
)
def test_they_are_neither_below_a_folder_nor_not(text: str) -> None:
    assert OPERATORS["under"]("/srv")(text) is None
    assert OPERATORS["glob"]("/srv/**")(text) is None
    with pytest.raises(BadOperand):
        OPERATORS["under"](text)


@pytest.mark.parametrize("name", ["報告：最終？.txt", "10～20.md", "wait….txt", "ﬁne²", "a．b", "ｄｏｃ"])
def test_names_that_only_look_wide_are_judged(name: str) -> None:
    assert OPERATORS["under"]("/srv")(f"/srv/{name}") is True
    assert OPERATORS["under"]("/srv")(f"/etc/{name}") is False
