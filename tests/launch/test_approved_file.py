"""An approved file is read once: into a request that can be judged, or into the reason why it cannot."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.launch.launching import waiting
from threegate.launch.approved_file import Approved, Unrunnable, is_there, named_backend, peek_backend, read_approved
from threegate.launch.context import Context


def unrunnable(context: Context, path: Path) -> Unrunnable:
    found = read_approved(context, path)
    assert isinstance(found, Unrunnable)
    return found


def test_what_was_read_stays_when_the_file_changes(bench: Bench, context: Context) -> None:
    approved = waiting(bench, context)
    assert approved.data == approved.path.read_bytes() and is_there(approved)
    assert approved.signature == approved.path.with_name(f"{approved.path.name}.sig").read_bytes()
    assert approved.request_id == approved.request.request_id == "req-1"
    assert [item.name for item in approved.job.inputs] == ["data.csv"] and not approved.countersignatures
    assert approved.history is not None and approved.history.approved is not None
    assert approved.policy == context.policy.standing
    before = approved.data
    approved.path.write_bytes(before + b"\nmore\n")
    assert approved.data == before and not is_there(approved)
    approved.path.unlink()
    assert not is_there(approved)
    with pytest.raises(FileNotFoundError):
        read_approved(context, approved.path)


def test_signatures_beside_it_go_by_their_operators(bench: Bench, context: Context) -> None:
    path = waiting(bench, context).path
    path.with_name(f"{path.name}.sig.bob").write_bytes(b"bob's")
    path.with_name(f"{path.name}.sigh").write_bytes(b"nobody's")
    approved = read_approved(context, path)
    assert isinstance(approved, Approved) and approved.countersignatures == {"bob": b"bob's"}


def test_an_older_listing_never_hides_the_approvers_signature(bench: Bench, context: Context) -> None:
    """The folder may have been listed while the file came; a countersignature is read with the next listing."""
    path = waiting(bench, context).path
    path.with_name(f"{path.name}.sig.bob").write_bytes(b"bob's")
    approved = read_approved(context, path, ())
    assert isinstance(approved, Approved) and approved.signature and not approved.countersignatures
    listed = read_approved(context, path, (f"{path.name}.sig", f"{path.name}.sig.bob"))
    assert isinstance(listed, Approved) and listed.countersignatures == {"bob": b"bob's"}
    with pytest.raises(FileNotFoundError):
        read_approved(context, path, (f"{path.name}.sig.ann",))
    path.with_name(f"{path.name}.sig").unlink()
    unsigned = read_approved(context, path, ())
    assert isinstance(unsigned, Approved) and unsigned.signature is None


def test_a_file_that_is_no_request_names_rule_and_line(bench: Bench, context: Context) -> None:
    path = waiting(bench, context).path
    path.write_bytes(path.read_bytes().replace(b"memory_limit_mb: 64", b"memory_limit_mb: lots"))
    found = unrunnable(context, path)
    assert found.code == "request_invalid" and " at line 12: " in found.message
    assert found.request_id == "req-1", "the trail knows the name that it was approved under"
    stray = path.with_name("TR-20260101-000000Z-stray.md")
    stray.write_bytes(b"no request\n")
    assert unrunnable(context, stray).request_id == "TR-20260101-000000Z-stray"


def test_a_link_and_a_second_name_are_not_read(bench: Bench, context: Context, tmp_path: Path) -> None:
    path = waiting(bench, context).path
    second = tmp_path / "second"
    second.hardlink_to(path)
    found = unrunnable(context, path)
    assert (found.code, found.request_id) == ("request_unreadable", "req-1")
    second.unlink()
    path.rename(second)
    path.symlink_to(second)
    assert unrunnable(context, path).code == "request_unreadable"


def test_an_input_that_is_gone(bench: Bench, context: Context) -> None:
    approved = waiting(bench, context)
    (context.workspace.inputs / approved.request.inputs[0].sha256).unlink()
    found = unrunnable(context, approved.path)
    assert found.code == "input_missing" and approved.request.inputs[0].sha256[:12] in found.message


def test_an_input_whose_bytes_a_disk_does_not_give(
    bench: Bench, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an error names no file. It is this request's end and not the daemon's."""

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    approved = waiting(bench, context)
    monkeypatch.setattr("threegate.launch.approved_file.unread_inputs", fails)
    found = unrunnable(context, approved.path)
    assert (found.code, found.message) == (
        "input_missing",
        "an input of tool-exec/inputs cannot be read (Input/output error)",
    )


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        ("a: 1\nbackend: monty\n", "monty"),
        ("backend:ERA\n", "ERA"),
        ("backend: era\n", None),
        (" backend: monty\n", None),
        ("", None),
    ],
)
def test_a_peek_is_a_hint(tmp_path: Path, text: str, backend: str | None) -> None:
    path = tmp_path / "TR-a.md"
    assert peek_backend(path) is None
    path.write_text(text)
    assert peek_backend(path) == backend


def test_a_backend_that_is_not_here_is_named_all_the_same(tmp_path: Path) -> None:
    """The queue reads such a file and refuses it; what was claimed for it is not called interrupted."""
    path = tmp_path / "TR-a.md"
    path.write_text("a: 1\nbackend: gone\n")
    assert (peek_backend(path), named_backend(path)) == (None, "gone")
