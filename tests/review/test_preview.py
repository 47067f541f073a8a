"""What is shown of inputs: all text, with escapes where bytes are none, and every file of a tar."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.request.test_shown_whole import tarred
from threegate.core import limits
from threegate.request.model import InputFile
from threegate.review.input_copies import InputCopy
from threegate.review.preview import Preview, pages, previews


def looked_at(tmp_path: Path, data: bytes, *, unpack: bool = False) -> list[Preview]:
    path = tmp_path / "copy"
    path.write_bytes(data)
    [(_, found)] = previews([InputFile("name", "", unpack)], [InputCopy("name", "", len(data), path)])
    return found


def test_a_text_is_shown_whole(tmp_path: Path) -> None:
    text = "print('ü')\n" * 5000
    assert looked_at(tmp_path, text.encode()) == [Preview(f"{len(text.encode())} bytes, all of them:", text)]
    assert looked_at(tmp_path, b"") == [Preview("empty", "")]


def test_one_byte_that_is_no_text_hides_nothing_of_the_others(tmp_path: Path) -> None:
    [found] = looked_at(tmp_path, b"import os\n\xff\nos.system('id')\x00\n")
    assert found.text == "import os\n\\xff\nos.system('id')\x00\n"


def test_of_what_does_not_fit_the_beginning_is_shown(tmp_path: Path) -> None:
    [found] = looked_at(tmp_path, b"a" * (limits.SHOWN_BYTES + 1))
    assert found == Preview("the first 4096 of 262145 bytes:", "a" * 4096)


def test_a_tar_is_listed_and_its_files_are_shown(tmp_path: Path) -> None:
    data = tarred(a=b"import os\n", b=b"", c=b"x" * limits.SHOWN_BYTES)
    names, first, large = looked_at(tmp_path, data, unpack=True)
    assert names.head == "archive, 3 files:" and [line.split() for line in names.text.split("\n")] == [
        ["0", "d/"], ["10", "a"], ["0", "b"], ["262144", "c"],
    ]  # fmt: skip
    assert (first.path, first.text) == ("a", "import os\n")
    assert (large.path, large.head, large.text) == ("c", "262144 bytes, not shown", "")


def paged(folder: Path, data: bytes, *, unpack: bool = False) -> list[Preview]:
    path = folder / "copy"
    path.write_bytes(data)
    return list(pages(InputFile("name", "", unpack), InputCopy("name", "", len(data), path)))


@given(st.lists(st.sampled_from([b"\n", b"ab", "ü€𝄞".encode(), b"\xff", b"\xe2\x82", b"\0"])).map(b"".join))
@pytest.mark.slow
def test_pages_together_are_the_whole_input(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "INPUT_PAGE_BYTES", 7)
        found = paged(tmp_path_factory.getbasetemp(), data)
    assert "".join(page.text for page in found) == data.decode("utf-8", "backslashreplace")
    for page, text in zip(found, ["", *(page.text for page in found)], strict=False):
        assert page.head.endswith("continued:") == (not text.endswith("\n") and text != "")
    assert [page.line for page in found] == [
        1 + "".join(page.text for page in found[:number]).count("\n") for number in range(len(found))
    ]


def test_pages_of_a_tar_are_its_names_and_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INPUT_PAGE_BYTES", 4)
    names, first, second, empty = paged(tmp_path, tarred(a=b"x\ny\nzz", b=b""), unpack=True)
    assert names.head == "archive, 2 files:"
    assert first == Preview("bytes 0 to 4 of 6:", "x\ny\n", "a") and second.line == 3
    assert empty == Preview("bytes 0 to 0 of 0:", "", "b")


def test_a_file_that_is_shorter_than_it_was_ends_its_pages(tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(b"a\nb")
    found = list(pages(InputFile("name", "", False), InputCopy("name", "", 9, path)))
    assert "".join(page.text for page in found) == "a\nb"
