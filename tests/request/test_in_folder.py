"""What /in will hold, from the declared inputs and the bytes that are at hand."""

from __future__ import annotations

import io
from typing import BinaryIO

from tests.request.test_tar_reader import pack
from threegate.request.in_folder import InFolder, OpenKnown
from threegate.request.model import InputFile

TAR = pack(("a/b.py", b"import x\n"), ("top.txt", b"0123456789"))
INPUTS = (InputFile("data.csv", "0" * 64), InputFile("tree.tar", "1" * 64, unpack=True))


def opener(**files: bytes | None) -> OpenKnown:
    def open_known(item: InputFile) -> BinaryIO | None:
        data = files.get(item.name.partition(".")[0])
        return None if data is None else io.BytesIO(data)

    return open_known


def test_files_and_folders_of_plain_and_unpacked_inputs() -> None:
    inside = InFolder(INPUTS, opener(data=b"1,2", tree=TAR))
    assert inside.is_file("data.csv") and not inside.is_file("data.csv/x") and not inside.is_folder("data.csv")
    assert inside.is_folder("") and inside.has("tree") and inside.is_folder("tree") and not inside.is_file("tree")
    assert inside.is_file("tree/a/b.py") and inside.is_folder("tree/a") and not inside.is_file("tree/a")
    assert inside.has("tree/a/c.py") is False and inside.has("tree.tar") is False and inside.has("other") is False
    assert set(inside.names("")) == {"data.csv", "tree"}
    assert set(inside.names("tree")) == {"a", "top.txt"} and list(inside.names("tree/a")) == ["b.py"]
    assert list(inside.names("data.csv")) == list(inside.names("other")) == []


def test_bytes_are_read_up_to_a_bound() -> None:
    inside = InFolder(INPUTS, opener(data=b"1,2,3", tree=TAR))
    assert inside.read("data.csv", 3) == b"1,2" and inside.read("tree/top.txt", 100) == b"0123456789"
    assert inside.read("tree/top.txt", 4) == b"0123"
    for path in ("tree/a", "tree/none", "data.csv/x", "other"):
        assert inside.read(path, 10) is None


def test_nothing_is_known_of_an_input_that_is_not_at_hand() -> None:
    for inside in (InFolder(INPUTS, opener()), InFolder(INPUTS, opener(tree=b"not a tar"))):
        assert inside.has("tree") is True and inside.has("data.csv") is True
        assert inside.has("tree/a/b.py") is inside.is_file("tree/x") is inside.is_folder("tree/x") is None
        assert list(inside.names("tree")) == [] and inside.read("tree/a", 9) is inside.read("data.csv", 9) is None


def test_an_input_that_cannot_be_opened_is_not_known() -> None:
    def fails(item: InputFile) -> BinaryIO | None:
        raise OSError("gone")

    inside = InFolder(INPUTS, fails)
    assert inside.read("data.csv", 1) is None and inside.has("tree/a") is None
