"""Code in input files that used to be cut, shown as hex or not shown at all: on every screen it is whole, or it is
named.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.support import era_draft
from threegate.cli import execute
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.launch.approved_file import Approved, read_approved
from threegate.request.tar_reader import TarError, read_tar
from threegate.review.request_view import view_request, view_sections
from threegate.review.reviewed_draft import ReviewedDraft, open_reviewed_draft, read_draft
from threegate.review.screen import render_reviewed_draft, render_sections
from threegate.review.status import RequestEntry

EVIL = "os.system('evil')"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = make_bench(tmp_path)
    bench.settings(runners__era__engine=f"unix://{tmp_path}/none", runners__era__image="sha256:" + "1" * 64)
    return bench


def draft(bench: Bench, command: str, unpack: bool = False, /, **inputs: bytes) -> Path:
    """An ERA draft with these inputs; a name's last _ is a dot."""
    files = {".".join(name.rsplit("_", 1)): data for name, data in inputs.items()}
    digests = {}
    for name, data in files.items():
        (bench.workspace.files / name).write_bytes(data)
        digests[name] = hashlib.sha256(data).hexdigest()
    text = era_draft("TR-20260102-030405Z-attack", command, inputs=digests)
    if unpack:
        text = text.replace("sha256: ", "unpack: true\n    sha256: ")
    path = bench.workspace.inbox / "TR-20260102-030405Z-attack.md"
    path.write_text(text)
    return path


@contextmanager
def reviewed(bench: Bench, path: Path) -> Iterator[ReviewedDraft]:
    with open_reviewed_draft(bench.context, read_draft(bench.workspace, path)) as found:
        yield found


def screen(bench: Bench, path: Path, *, full: bool = True) -> list[str]:
    with reviewed(bench, path) as found:
        return render_reviewed_draft(found, bench.context.policy.settings, operator="alice", full=full)


def tarred(*files: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def test_code_after_byte_4096_of_a_script_is_on_the_full_screen(bench: Bench) -> None:
    script = b"import os\n" + b"# padding\n" * 1000 + EVIL.encode() + b"\n"
    path = draft(bench, "python3 run.py", run_py=script)
    lines = screen(bench, path)
    assert any(line.endswith(f"| {EVIL}") for line in lines)
    assert sum("| # padding" in line for line in lines) == 1000
    with reviewed(bench, path) as found:
        assert found.job.unread == () and found.job.effective_risk == "low"


def test_code_is_whole_on_the_short_screen_and_what_it_leaves_out_of_data_is_named_first(
    bench: Bench,
) -> None:
    lines = screen(bench, draft(bench, "python3 run.py", run_py=b"x = 1\n" * 300), full=False)
    assert sum(line.endswith("| x = 1") for line in lines) == 300
    lines = screen(bench, bench.draft(data=b"1\n" * 300), full=False)
    assert lines[1] == "== REQUEST" and lines[2].startswith("  left out below: 290 lines of input 1; --full")


def test_one_byte_that_is_no_text_does_not_turn_a_script_into_hex(bench: Bench) -> None:
    path = draft(bench, "python3 run.py", run_py=b"# caf\xe9\nimport os\n" + EVIL.encode())
    lines = screen(bench, path)
    assert any(line.endswith("| # caf\\xe9") for line in lines) and any(line.endswith(EVIL) for line in lines)
    assert "  NOT SHOWN WHOLE:" in lines[:22]
    with reviewed(bench, path) as found:
        assert found.job.unread == ("run.py",) and found.job.effective_risk == "medium"


def test_text_followed_by_a_zip_is_named_and_raises_the_risk(bench: Bench) -> None:
    stream = io.BytesIO(b"print('harmless')\n")
    stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr("__main__.py", EVIL)
    path = draft(bench, "python3 run.py", run_py=stream.getvalue())
    lines = screen(bench, path)
    assert "  NOT SHOWN WHOLE:" in lines[:22]
    assert "text followed by a zip archive" in " ".join(line.strip() for line in lines[:24])
    with reviewed(bench, path) as found:
        assert found.job.effective_risk == "medium"


def test_a_script_in_another_encoding_is_named(bench: Bench) -> None:
    path = draft(bench, "python3 run.py", run_py=b"# coding: utf-7\n# harmless +AAo-import os\n")
    assert "another encoding" in " ".join(line.strip() for line in screen(bench, path)[:24])


def test_the_files_of_a_tar_are_shown_whole(bench: Bench) -> None:
    path = draft(bench, "ls -l /in/tree", True, tree_tar=tarred(("a/b.py", b"import os\n"), ("run.sh", EVIL.encode())))
    lines = screen(bench, path)
    at = next(number for number, line in enumerate(lines) if line == "  inside      | run.sh")
    assert lines[at + 1] == f"  {len(EVIL)} bytes, all of them:" and lines[at + 2] == f"  1 | {EVIL}"


@pytest.mark.parametrize(
    "header",
    [
        b"\x80" + bytes(3) + (1 << 62).to_bytes(8, "big"),  # a size of 2^62
        b"-0000001000\x00",  # a negative one
    ],
)
def test_a_tar_with_a_size_that_lies_is_refused_before_anybody_signs(bench: Bench, header: bytes) -> None:
    block = b"a".ljust(100, b"\0") + b"0000644\0" * 3 + header + b"0" * 11 + b"\0" + b" " * 8 + b"L" + bytes(100)
    block = (block + b"ustar\x0000").ljust(512, b"\0")
    data = block[:148] + b"%06o\0 " % sum(block) + block[156:] + bytes(1024)
    with pytest.raises(TarError):
        read_tar(data)
    path = draft(bench, "ls -l /in/tree", True, tree_tar=data)
    with pytest.raises(Refused) as refused, reviewed(bench, path):
        pass
    assert refused.value.code == "input_unfit"


def test_more_than_a_person_reads_is_named(bench: Bench) -> None:
    path = draft(bench, "python3 run.py", run_py=b"x = 1\n" * limits.SHOWN_BYTES)
    lines = screen(bench, path)
    assert "  NOT SHOWN WHOLE:" in lines[:22] and len(lines) < 2000


def long_script() -> bytes:
    """More than SHOWN_BYTES, with what matters at its end."""
    return b"# padding\n" * (limits.SHOWN_BYTES // 5) + EVIL.encode() + b"\n"


def commands(lines: list[str]) -> list[list[str]]:
    """The commands that a screen names for what it does not show, as a shell would take them."""
    text = "".join(line[16:] if line.startswith(" " * 14) else f"\n{line.strip()}" for line in lines)
    return [
        shlex.split(line.partition("| threegate ")[2]) for line in text.split("\n") if line.startswith("read with   | ")
    ]


@pytest.mark.parametrize("approved", [False, True])
def test_what_does_not_fit_is_read_whole_with_the_command_on_the_screen(
    bench: Bench, capfd: pytest.CaptureFixture[str], approved: bool
) -> None:
    """Before the approval from the bytes that the draft declares, after it from the pinned ones, whatever is in the
    inbox.
    """
    path = draft(bench, "python3 run.py", run_py=long_script())
    lines = screen(bench, path)
    assert not any(EVIL in line for line in lines)
    [command] = commands(lines)
    assert command[:2] == ["show", path.name]
    if approved:
        bench.approve(path)
        (bench.workspace.files / "run.py").write_bytes(b"harmless\n")
    capfd.readouterr()
    assert execute(["-w", str(bench.workspace.root), *command]) == 0
    shown = capfd.readouterr().out.split("\n")
    count = long_script().count(b"\n")
    assert sum(line.endswith("| # padding") for line in shown) == count - 1
    digest = hashlib.sha256(long_script()).hexdigest()
    assert shown[0].endswith(digest) and digest in "".join(line.partition("| ")[2] for line in lines)
    assert f"  {count} | {EVIL}" in shown and max(map(len, shown)) <= 80
    assert [item.name for item in bench.workspace.inputs.iterdir() if item.name.startswith(".tmp")] == []


def test_an_input_that_changed_since_it_was_declared_is_not_read(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    """Else the agent would show one file and have another one approved."""
    path = draft(bench, "python3 run.py", run_py=long_script())
    (bench.workspace.files / "run.py").write_bytes(b"harmless\n")
    where = ["-w", str(bench.workspace.root), "show", path.name]
    assert execute([*where, "--input", "run.py"]) == 2
    said = capfd.readouterr()
    assert "harmless" not in said.out and "the request declares" in said.err
    assert execute([*where, "--input", "other"]) == 2 and "no input 'other'" in capfd.readouterr().err
    assert execute([*where, "--input", "run.py", "--json"]) == 64


def test_every_file_of_a_large_archive_is_read_whole(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    archive = tarred(("a/b.py", long_script()), ("run.sh", EVIL.encode()))
    path = draft(bench, "ls -l /in/tree", True, tree_tar=archive)
    [command] = commands(screen(bench, path))
    assert execute(["-w", str(bench.workspace.root), *command]) == 0
    shown = capfd.readouterr().out.split("\n")
    assert sum(line.endswith(f"| {EVIL}") for line in shown) == 2 and "  inside      | run.sh" in shown


def test_a_request_that_was_claimed_names_the_command_too(bench: Bench) -> None:
    path = bench.approve(draft(bench, "python3 run.py", run_py=b"x = 1\n")).path
    claimed = bench.workspace.state_folder("running") / path.name
    path.rename(claimed)
    look = view_request(bench.context, RequestEntry.of("running", claimed))
    [command] = commands(render_sections(view_sections(look)))
    assert command == ["show", path.name, "--input=run.py"]


def test_the_job_at_the_launch_is_the_one_that_was_signed(bench: Bench) -> None:
    path = draft(bench, "python3 run.py", run_py=b"# coding: latin-1\n# \xff\xfe\n")
    done = bench.approve(path)
    approved = read_approved(bench.context, done.path)
    assert isinstance(approved, Approved) and approved.job.unread == ("run.py",)
    assert approved.job.effective_risk == "medium"
