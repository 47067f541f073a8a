"""What was approved and then touched never runs, and each result names its reason."""

from __future__ import annotations

import shutil

from tests.support import Place, make_key, monty_draft, request_id


def only_reason(place: Place, rid: str, code: str, *, verifies: int = 0) -> None:
    """Nothing ran, and the result says why. `verifies` is 2 where a pinned input itself was tampered with."""
    assert place.events("started") == []
    text = place.result(rid)
    assert "status: refused" in text
    assert f'reason: "{code}"' in text, text
    place.run("audit", "verify", expect=verifies)


def test_one_byte_edited_after_approval(place: Place) -> None:
    rid = request_id("edited")
    draft = place.drop(monty_draft(rid, "1 + 1"))
    place.approve(draft)
    path = place.root / "tool-exec" / "approved" / draft.name
    path.write_bytes(path.read_bytes().replace(b"1 + 1", b"1 + 2"))
    place.once()
    only_reason(place, rid, "request_changed")


def test_an_input_changed_after_approval(place: Place) -> None:
    rid = request_id("input")
    sha = place.input("a.txt", b"one")
    place.approve(place.drop(monty_draft(rid, "open('/in/a.txt').read()", inputs={"a.txt": sha})))
    pinned = place.root / "tool-exec" / "inputs" / sha
    pinned.chmod(0o600)
    pinned.write_bytes(b"two and more")
    place.once()
    only_reason(place, rid, "job_changed", verifies=2)


def test_an_input_of_the_same_length_changed_after_approval(place: Place) -> None:
    rid = request_id("same-length")
    sha = place.input("a.txt", b"one")
    place.approve(place.drop(monty_draft(rid, "open('/in/a.txt').read()", inputs={"a.txt": sha})))
    pinned = place.root / "tool-exec" / "inputs" / sha
    pinned.chmod(0o600)
    pinned.write_bytes(b"two")
    place.once()
    text = place.result(rid)
    assert "status: succeeded" not in text
    assert not (place.root / "tool-exec" / "runs" / rid / "out" / "result.json").exists()


def test_an_input_that_is_gone(place: Place) -> None:
    rid = request_id("gone")
    sha = place.input("a.txt", b"one")
    place.approve(place.drop(monty_draft(rid, "open('/in/a.txt').read()", inputs={"a.txt": sha})))
    (place.root / "tool-exec" / "inputs" / sha).unlink()
    place.once()
    only_reason(place, rid, "input_missing", verifies=2)  # the bytes that it needs are gone for good


def test_an_unknown_key(place: Place) -> None:
    rid = request_id("unknown")
    stranger = make_key(place.root.parent / "stranger")
    draft = place.drop(monty_draft(rid, "1 + 1"))
    done = place.run("approve", str(draft), "--as", "operator", "--key", str(stranger), "--yes")
    assert done.code == 2 and "operators gives" in done.err
    assert draft.exists()
    assert place.events("approved") == []


def test_copied_back_after_it_ran(place: Place) -> None:
    rid = request_id("again")
    draft = place.drop(monty_draft(rid, "1 + 1"))
    place.approve(draft)
    place.once()
    exec_ = place.root / "tool-exec"
    for suffix in ("", ".sig"):
        shutil.copy(exec_ / "finished" / f"{draft.name}{suffix}", exec_ / "approved" / f"{draft.name}{suffix}")
    place.once()
    assert len(place.events("started")) == 1
    texts = place.results()
    assert len(texts) == 2
    assert any('reason: "replayed"' in text and "status: refused" in text for text in texts)
    assert any("status: succeeded" in text for text in texts)


def test_hand_promoted_without_a_signature(place: Place) -> None:
    rid = request_id("unsigned")
    text = monty_draft(rid, "1 + 1").replace(
        "requested_by:",
        f'approved_by: "operator"\napproved_utc: "{rid[3:7]}-{rid[7:9]}-{rid[9:11]}T23:59:59Z"\nrequested_by:',
    )
    (place.root / "tool-exec" / "approved" / f"{rid}.md").write_text(text)
    place.once()
    assert place.events("started") == []
    assert "status: refused" in place.result(rid)


def test_a_file_that_is_no_request_in_approved(place: Place) -> None:
    (place.root / "tool-exec" / "approved" / "TR-nothing.md").write_text("hello")
    place.once()
    assert 'reason: "request_invalid"' in place.result("TR-nothing")
    place.run("audit", "verify", expect=0)
