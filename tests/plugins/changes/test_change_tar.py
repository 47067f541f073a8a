"""The reader of `changes.tar`: a claim that anybody may have made is refused unless table and members agree."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from threegate.core import limits
from threegate.plugins.changes.change_tar import TABLE, change_tar, read_change_set
from threegate.plugins.changes.table import (
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    ChangeSetError,
    Mode,
    Row,
    TableNode,
    read_table,
    render_table,
)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def file(text: str, mode: Any = FILE) -> TableNode:
    return TableNode(mode, digest(text))


ROWS = (
    Row("a", file("1"), file("2")),
    Row("d", None, TableNode(FOLDER)),
    Row("d/l", None, TableNode(LINK, digest("../a"))),
)
CONTENT = {"a": b"2", "d/l": b"../a"}


def good() -> bytes:
    return change_tar(ROWS, lambda row: CONTENT[row.path])


def archive(*members: tuple[str, bytes | None | str, dict[str, Any]]) -> bytes:
    """A tar of (name, bytes | None for a folder | a link's target, attributes of the member)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, more in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
            else:
                info.size = len(content)
            for key, value in more.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


def with_table(rows: tuple[Row, ...], *members: tuple[str, bytes | None | str, dict[str, Any]]) -> bytes:
    return archive((TABLE, render_table(rows), {}), *members)


A = ("tree/a", b"2", {})
D = ("tree/d", None, {})
L = ("tree/d/l", "../a", {})


def test_what_is_written_is_read() -> None:
    read = read_change_set(good())
    assert read.rows == ROWS
    assert read.read(io.BytesIO(good()), "a") == b"2"
    assert read_change_set(with_table(ROWS, A, D, L)).sha256 == read.sha256


@pytest.mark.parametrize("name", ["f", "f" * 94, "f" * 95, "f" * 96, "d/" * 40 + "f", "ä", "é" * 60, "a b", "-x", "~"])
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 20_000])
@pytest.mark.parametrize("mode", [FILE, EXECUTABLE])
def test_it_is_byte_for_byte_what_tarfile_writes(name: str, size: int, mode: Mode) -> None:
    data = b"x" * size
    rows = (Row(name, None, TableNode(mode, sha256(data).hexdigest())),)
    member = (f"tree/{name}", data, {"mode": 0o755 if mode == EXECUTABLE else 0o644})
    assert change_tar(rows, lambda _: data) == with_table(rows, member)


def test_a_long_name_and_a_long_target() -> None:
    name, target = "n" * 200, "t" * 200
    rows = (Row(name, None, TableNode(LINK, digest(target))),)
    assert read_change_set(change_tar(rows, lambda _: target.encode())).targets == {name: target}


def _without(keys: str) -> Callable[[dict[str, Any]], None]:
    return lambda value: value.pop(keys)


HOSTILE = {
    "no table": archive(A),
    "the table is a folder": archive((TABLE, None, {}), A),
    "the table is a link": archive((TABLE, "tree/a", {}), A),
    "the table is second": archive(A, (TABLE, render_table(ROWS[:1]), {})),
    "a member too many": with_table(ROWS, A, D, L, ("tree/b", b"", {})),
    "a member outside of the tree": with_table(ROWS, A, D, L, ("b", b"", {})),
    "the tree itself": with_table(ROWS[:1], A, ("tree", None, {})),
    "a member is missing": with_table(ROWS, A, D),
    "a member of what is deleted": with_table((Row("a", file("2"), None),), A),
    "other bytes": with_table(ROWS, ("tree/a", b"3", {}), D, L),
    "another target": with_table(ROWS, A, D, ("tree/d/l", "../b", {})),
    "another mode": with_table(ROWS, ("tree/a", b"2", {"mode": 0o755}), D, L),
    "set-user-id": with_table(ROWS, ("tree/a", b"2", {"mode": 0o4755}), D, L),
    "a folder for all": with_table(ROWS, A, ("tree/d", None, {"mode": 0o777}), L),
    "another kind": with_table(ROWS, ("tree/a", None, {}), D, L),
    "a hard link": with_table(ROWS, ("tree/a", "tree/x", {"type": tarfile.LNKTYPE}), D, L),
    "a FIFO": with_table(ROWS, ("tree/a", b"", {"type": tarfile.FIFOTYPE}), D, L),
    "an attribute": with_table(ROWS, ("tree/a", b"2", {"pax_headers": {"SCHILY.xattr.user.x": "1"}}), D, L),
    "an access list": with_table(ROWS, ("tree/a", b"2", {"pax_headers": {"SCHILY.acl.access": "u::rwx"}}), D, L),
    "a capability": with_table(ROWS, ("tree/a", b"2", {"pax_headers": {"RHT.security.selinux": "1"}}), D, L),
    "a target for a file": with_table(ROWS, ("tree/a", b"2", {"pax_headers": {"linkpath": "x"}}), D, L),
    "no tar": b"x" * 1024,
    "an empty table": archive((TABLE, b"", {})),
    "a table that is cut off": archive((TABLE, render_table(ROWS)[:-1], {}), A, D, L),
    "a table in another order": archive((TABLE, b"".join(reversed(render_table(ROWS).splitlines(True))), {}), A, D, L),
    "a row twice": archive((TABLE, render_table(ROWS[:1]) * 2, {}), A),
    "a table with blanks": archive((TABLE, render_table(ROWS[:1]).replace(b":", b": "), {}), A),
    "a row that is not an object": archive((TABLE, b"[]\n", {}), A),
    "a row that is not JSON": archive((TABLE, b"{\n", {}), A),
    "a key too many": archive((TABLE, render_table(ROWS[:1]).replace(b'{"', b'{"a":1,"'), {}), A),
    "another change": archive((TABLE, render_table(ROWS[:1]).replace(b'"modify"', b'"mode"'), {}), A),
    "another mode in the table": archive((TABLE, render_table(ROWS[:1]).replace(b"100644", b"104755"), {}), A),
    "a row without a digest": archive((TABLE, render_table(ROWS[:1]).replace(f'"{digest("2")}"'.encode(), b"null"), {}), A),  # noqa: E501
    "a row that changes nothing": with_table((Row("a", file("2"), file("2")),), A),
    "a row of nothing": archive((TABLE, render_table(ROWS[:1]).replace(b'"modify"', b'"add"'), {}), A),
    "a folder with a digest": archive((TABLE, render_table(ROWS[:1]).replace(b"100644", b"040755"), {}), A),
    "below a file": with_table((Row("a", None, file("1")), Row("a/b", None, file("2"))), ("tree/a", b"1", {}), ("tree/a/b", b"2", {})),  # noqa: E501
    "below what is deleted": with_table((Row("a", TableNode(FOLDER), None), Row("a/b", None, file("2"))), ("tree/a/b", b"2", {})),  # noqa: E501
    "gone below what is new": with_table((Row("a", None, TableNode(FOLDER)), Row("a/b", file("2"), None)), ("tree/a", None, {})),  # noqa: E501
    "names that collide": with_table((Row("A", None, file("2")), Row("a", None, file("2"))), ("tree/A", b"2", {}), A),
    "folders that collide": with_table(
        (Row("D", None, TableNode(FOLDER)), Row("D/a", None, file("2")), Row("d/b", None, file("2"))),
        ("tree/D", None, {}), ("tree/D/a", b"2", {}), ("tree/d/b", b"2", {}),
    ),
    "Unicode forms that collide": with_table(
        (Row("é", None, file("2")), Row("é", None, file("2"))), ("tree/é", b"2", {}), ("tree/é", b"2", {})
    ),
}  # fmt: skip
for _path in (
    ".git", ".GIT", ".git/config", "d/.Git/hooks/x", "git~1", "GIT~1/config", ".git ", ".git.", ".gi‌t", ".ｇｉｔ",
    ".git::$INDEX_ALLOCATION", ".gitmodules", "x/.GitModules", ".env", ".env.local", "a/.ENV-prod", "tool-exec/x", "threegate.toml", "a\\b", "end ", "d /x", "end\u3000",  # noqa: E501
):  # fmt: skip
    HOSTILE[f"the path {_path!r}"] = with_table((Row(_path, None, file("2")),), (f"tree/{_path}", b"2", {}))
for _path in ("/a", "../a", "d/../a", "d//a", "./a", ""):
    HOSTILE[f"the path {_path!r} in the table only"] = with_table((Row(_path, file("2"), None),))
for _target in ("/etc/passwd", "../a", "d/../../a", ".git/config", ".env", "x\ny", "a\\b", "‮x", "a/.env.local"):
    HOSTILE[f"a link to {_target!r}"] = with_table(
        (Row("l", None, TableNode(LINK, digest(_target))),), ("tree/l", _target, {})
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(ChangeSetError) as caught:
        read_change_set(HOSTILE[name])
    assert "\n" not in str(caught.value)


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    data = good()
    monkeypatch.setattr(limits, "CHANGE_ROWS", 2)
    with pytest.raises(ChangeSetError, match="in parts"):
        read_change_set(data)
    monkeypatch.setattr(limits, "CHANGE_TABLE_BYTES", 10)
    with pytest.raises(ChangeSetError, match="more than 10 bytes"):
        read_change_set(data)
    with pytest.raises(ChangeSetError, match="more than 10 bytes"):
        read_table(render_table(ROWS))


def test_a_change_set_that_is_too_large_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAR_BYTES", limits.CHANGE_TABLE_BYTES)
    with pytest.raises(ChangeSetError, match="in parts"):
        good()


def test_every_byte_of_a_change_set_matters() -> None:
    """Each flipped byte is refused, is seen in the digest, or means the same (padding, unused header fields)."""
    data = good()
    expected = read_change_set(data)
    met = {"refused": 0, "another digest": 0, "the same": 0}
    for place in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[place] ^= 1
        try:
            read = read_change_set(bytes(flipped))
        except ChangeSetError:
            met["refused"] += 1
            continue
        met["the same" if read.sha256 == expected.sha256 else "another digest"] += 1
        if read.sha256 == expected.sha256:
            assert (read.rows, read.targets) == (expected.rows, expected.targets)
            assert read.read(io.BytesIO(bytes(flipped)), "a") == b"2"
    assert all(met.values()), met
