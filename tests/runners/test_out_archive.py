"""/out as an engine hands it out: plain files are kept, everything else is named or counted, nonsense is refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from threegate.core import limits
from threegate.request.job import JobLimits
from threegate.runners.era.out_archive import collect_archive
from threegate.runners.staging import Collected

BOUNDS = JobLimits("1", 64, 5, out_bytes=10_000, out_files=400, file_bytes=4_000)


def entry(name: str, kind: bytes = tarfile.REGTYPE, *, size: int = 0, link: str = "", mode: int = 0o644):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode = kind, size, link, mode
    return info


def pack(*entries: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    """An archive as Go's writer makes it: pax, with the folder itself first."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as archive:
        for info in (entry("out", tarfile.DIRTYPE), *entries):
            archive.addfile(info, io.BytesIO(b"x" * info.size))
    return stream.getvalue()


def collect(data: bytes, folder: Path, *, names: int = 0, bounds: JobLimits = BOUNDS) -> Collected:
    """What is collected of an archive that the engine hands out in parts."""
    parts = [data[start : start + 700] for start in range(0, len(data), 700)]
    api = cast(Any, SimpleNamespace(get_archive=lambda *_, **__: (iter(parts), {})))
    return collect_archive(api, "container", names, folder, folder / "out", bounds)


def test_plain_files_and_folders_are_kept(tmp_path: Path) -> None:
    data = pack(
        entry("out/a", size=3),
        entry("out/d", tarfile.DIRTYPE),
        entry("out/d/größe", size=700),
        entry("out/e"),
    )
    found = collect(data, tmp_path, names=4)
    assert [(item.path, item.size) for item in found.artifacts] == [("a", 3), ("d/größe", 700), ("e", 0)]
    assert found.dropped == [] and found.exceeded is None
    assert (tmp_path / "out" / "d" / "größe").read_bytes() == b"x" * 700
    assert (tmp_path / "out" / "a").stat().st_mode & 0o7777 == 0o400


def test_every_other_kind_is_named_with_its_reason(tmp_path: Path) -> None:
    deep = ["out/" + "/".join(["d"] * depth) for depth in range(1, limits.OUT_DEPTH + 3)]
    data = pack(
        entry("out/bad\x1b", tarfile.DIRTYPE),
        entry("out/bad\x1b/inside", size=1),
        *(entry(name, tarfile.DIRTYPE) for name in deep),
        entry("out/device", tarfile.BLKTYPE),
        entry("out/fifo", tarfile.FIFOTYPE),
        entry("out/large", size=4_001),
        entry("out/link", tarfile.SYMTYPE, link="/etc/" + "ü" * 90),
        entry("out/one", size=4),
        entry("out/suid", mode=0o4755),
        entry("out/two", tarfile.LNKTYPE, link="out/one"),
        entry("out/ok", size=1),
    )
    found = collect(data, tmp_path, names=100)
    reasons = dict(line.rsplit(": ", 1) for line in found.dropped if ": its" not in line and ": sock" not in line)
    assert reasons["device"] == "a device" and reasons["fifo"] == "a FIFO"
    assert reasons["link"] == "a symbolic link" and reasons["suid"].startswith("a file with a set-user-id")
    assert reasons["one"] == reasons["two"] == "a file with several hard links"
    assert reasons["large"].startswith("4001 bytes")
    assert reasons["/".join(["d"] * (limits.OUT_DEPTH + 1))] == f"a folder more than {limits.OUT_DEPTH} deep"
    assert [item.path for item in found.artifacts] == ["ok"]
    assert found.dropped[-1] == "56 that the engine does not deliver: sockets, or paths that are too long"
    assert not any("inside" in line for line in found.dropped)


def test_a_name_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    found = collect(pack(entry("out/\udcff", size=1), form=tarfile.GNU_FORMAT), tmp_path, names=1)
    assert found.dropped == ["\\udcff: its name is not UTF-8"] and found.artifacts == []


def test_past_a_limit_nothing_more_is_kept(tmp_path: Path) -> None:
    data = pack(*(entry(f"out/{name}", size=4_000) for name in "abc"), entry("out/d", size=1))
    found = collect(data, tmp_path, names=4)
    assert found.exceeded == "/out holds more than 10000 bytes"
    assert [item.path for item in found.artifacts] == ["a", "b"]
    assert [line.partition(":")[0] for line in found.dropped] == ["c", "d"]


def test_an_archive_without_an_end_is_cut(tmp_path: Path) -> None:
    """Files with holes: the archive is larger than any /out, and is not read on."""
    bounds = JobLimits("1", 64, 5, out_bytes=10_000, out_files=4, file_bytes=1 << 30)
    data = pack(*(entry(f"out/{number}", size=9_000) for number in range(50)))
    found = collect(data, tmp_path, names=50, bounds=bounds)
    assert found.exceeded == "/out holds more than 10000 bytes" and len(found.artifacts) == 1


@pytest.mark.parametrize(
    ("error", "data"),
    [
        (ValueError, pack(entry("out/../x", size=1))),
        (ValueError, pack(entry("out//x"))),
        (ValueError, pack(entry("etc/passwd", size=1))),
        (ValueError, pack(entry("/out/x"))),
        (NotADirectoryError, pack(entry("out/a", size=1), entry("out/a/b", size=1))),
        (FileExistsError, pack(entry("out/a", size=1), entry("out/a", size=1))),
        (FileNotFoundError, pack(entry("out/no/folder", size=1))),
        (ValueError, pack(entry("out/a", size=600))[:1500]),
        (ValueError, b""),
        (ValueError, b"nonsense" * 400),
    ],
)
def test_nonsense_is_refused_and_nothing_is_written_elsewhere(
    error: type[Exception], data: bytes, tmp_path: Path
) -> None:
    with pytest.raises(error):
        collect(data, tmp_path, names=1)
    assert {path.name for path in tmp_path.iterdir()} <= {"out"}


def test_an_engine_that_is_slow_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUT_COLLECT_SECONDS", -1)
    with pytest.raises(TimeoutError, match="not delivered"):
        collect(pack(), tmp_path)
