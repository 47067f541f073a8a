"""What a screen can show whole is a fact of the bytes, and what it cannot is said in words of ours."""

from __future__ import annotations

import io
import tarfile
import zipfile
from dataclasses import replace

import pytest

from tests.adversarial.request_commands.test_opacity import asked
from threegate.core import limits
from threegate.request.model import InputFile
from threegate.request.shown_whole import Part, ShownInput, shown_inputs, unread_inputs


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("__main__.py", "print('from the zip')")
    return stream.getvalue()


def tarred(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        folder = tarfile.TarInfo("d")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def shown(*inputs: bytes | tuple[bytes, bool]) -> list[ShownInput]:
    """What is shown of inputs, given as bytes; with True those of a tar to be unpacked."""
    given = [item if isinstance(item, tuple) else (item, False) for item in inputs]
    files = [InputFile(f"i{number}.tar", "0" * 64, unpack) for number, (_, unpack) in enumerate(given)]
    return shown_inputs(files, lambda item: io.BytesIO(given[files.index(item)][0]))


@pytest.mark.parametrize(
    "data",
    [b"", b"print(1)\n", "größe = 'ü'\n".encode(), b"a\tb\r\nc\r\n", b"# -*- coding: utf-8 -*-\n", (b"#\n#\n# coding: "
        b"utf-7\n"),
     b"x = 'coding: utf-7'\n", b"x" * limits.SHOWN_BYTES],
)  # fmt: skip
def test_plain_text_is_shown_whole(data: bytes) -> None:
    assert shown(data) == [ShownInput("", (Part("", 0, len(data), len(data)),))]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"print(1) # \xe9\n", "its byte 11 is not UTF-8"),
        (b"a\x00b", "hidden characters (U+0000 NULL)"),
        (b"# harmless\rimport os\n", "hidden characters (U+000D CARRIAGE RETURN)"),
        ("a \u202e b".encode(), "U+202E"),
        ("\ufeffprint(1)".encode(), "U+FEFF"),
        (b"# coding: utf-7\nprint(1)\n", "another encoding"),
        (b"#!/usr/bin/python3\n# vim: set fileencoding=unicode_escape :\n", "another encoding"),
        (b"print(1)\n" + zipped(), "text followed by a zip archive"),
        (b"\x00\x01" + zipped(), "data followed by a zip archive"),
        (zipped(), "it is a zip archive"),
        (b"x" * (limits.SHOWN_BYTES + 1), "it has 262145 bytes"),
        (b"print(1)\n" * 40_000 + zipped(), "text followed by a zip archive"),
    ],
)
def test_what_means_more_than_its_text_is_named(data: bytes, why: str) -> None:
    [found] = shown(data)
    assert why in found.why


def test_the_files_of_a_tar_are_shown_and_judged_one_by_one() -> None:
    [found] = shown((tarred(a=b"print(1)", b=b"2"), True))
    assert not found.why and [(part.path, part.size, part.shown) for part in found.parts] == [
        ("a", 8, 8),
        ("b", 1, 1),
    ]
    assert "a file in it: its byte 0 is not UTF-8" in shown((tarred(a=b"1", b=b"\xff", c=b"\xff"), True))[0].why
    [large] = shown((tarred(a=b"x" * limits.SHOWN_BYTES, b=b"2"), True))
    assert "a file in it: it has 262144 bytes" in large.why and [part.shown for part in large.parts] == [0, 1]
    assert "cannot be unpacked" in shown((b"no tar", True))[0].why


def test_a_tar_of_many_names_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SHOWN_BYTES", 40)
    assert shown((tarred(a=b"", b=b"", c=b""), True))[0].why.startswith("it holds 4 files and folders")


def test_all_inputs_share_the_room() -> None:
    half = b"x" * (limits.SHOWN_BYTES // 2 + 1)
    found = shown(half, half, b"small")
    assert [bool(item.why) for item in found] == [False, True, False]
    assert [item.parts[0].shown for item in found] == [len(half), limits.SHOWN_HEAD_BYTES, 5]


def test_only_inputs_that_may_be_code_count_as_unread() -> None:
    request = asked("python3 a.py", "a.py", "data.csv").request
    assert request is not None
    data = {"a.py": b"print(1)\n", "data.csv": b"\xff"}
    assert unread_inputs(request, lambda item: io.BytesIO(data[item.name])) == ("data.csv",)
    assert unread_inputs(replace(request, backend="monty"), lambda item: io.BytesIO(b"\xff")) == ()
