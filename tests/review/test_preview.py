"""What is shown of inputs: all text, with escapes where bytes are none, and every file of a tar."""

from __future__ import annotations

from pathlib import Path

from tests.request.test_shown_whole import tarred
from threegate.core import limits
from threegate.request.model import InputFile
from threegate.review.input_copies import InputCopy
from threegate.review.preview import Preview, previews


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
