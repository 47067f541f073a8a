"""Asking for changes: a draft ends, its requester gets a person's words, and the trail their digest."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from threegate.acts.reject import reject_draft
from threegate.acts.request_changes import (
    REQUEST_CHANGES,
    Remark,
    change_words,
    request_changes,
    request_changes_about,
)
from threegate.acts.signed_acts import OperatorDecision, decide
from threegate.acts.signing_key import Acting
from threegate.cli import execute
from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.launch.results.verdict import read_verdict
from threegate.review.reviewed_draft import read_draft
from threegate.trail.payloads import Rejected, Validated
from threegate.trail.trail import Trail

ME = OperatorDecision("account:test")


def last(bench: Bench) -> Rejected:
    payload = Rejected.of(list(Trail(bench.workspace).events())[-1])
    assert payload is not None
    return payload


def sent(bench: Bench) -> list[Path]:
    return sorted(bench.workspace.verdicts.glob("words-*.md"))


def test_the_requester_gets_the_words_and_the_trail_their_digest(bench: Bench) -> None:
    path = bench.draft()
    draft = read_draft(bench.workspace, path)
    said = change_words([Remark("Sum the second column.", "data.csv", 2), Remark("And say so.")], "operator:alice")
    acting = Acting("alice", bench.keys["alice"])
    about = request_changes_about(draft, said)
    by = decide(bench.context, REQUEST_CHANGES, about, account="account:me", acting=acting)
    done = request_changes(bench.context, path, words=said, by=by)
    assert done.request_id == "req-1" and done.draft_removed and not path.exists() and done.path.exists()
    event = last(bench)
    assert (event.reason, event.words_sha256) == ("changes_requested", said.sha256) and event.signed is not None
    assert "asked for changes of the draft" in event.sentence()
    line = bench.workspace.trail_file.read_text().splitlines()[-1]
    assert "second column" not in line and said.sha256 in line
    (there,) = sent(bench)
    assert there.read_bytes() == said.data and hashlib.sha256(there.read_bytes()).hexdigest() == said.sha256
    assert there.read_text().splitlines()[:5] == ["# Changes requested", "", "unsigned, from alice", "", "```text"]
    assert "at data.csv, line 2:\nSum the second column.\n" in there.read_text()
    verdict = read_verdict(bench.workspace, path.name)
    assert verdict is not None and verdict.state == "refused"
    assert (verdict.reason or "").startswith(f"changes_requested: {there.name} has the words")
    (result,) = bench.workspace.results.iterdir()
    assert "changes_requested" in result.read_text() and "second column" not in result.read_text()


def test_what_was_decided_is_not_decided_again(bench: Bench) -> None:
    path = bench.draft()
    first, second = (read_draft(bench.workspace, path) for _ in range(2))
    said = change_words([Remark("Once.")], "operator:alice")
    request_changes(bench.context, first, words=said, by=ME)
    path.write_bytes(first.data)
    for again in (second, path):
        with pytest.raises(Refused) as error:
            request_changes(bench.context, again, words=said, by=ME)
        assert error.value.code == "changes_requested" and "threegate draft --again req-1" in str(error.value)
    with pytest.raises(Refused) as error:
        bench.approve(path)
    assert error.value.code == "changes_requested"
    approved = bench.draft("req-2", slug="other")
    draft = read_draft(bench.workspace, approved)
    bench.approve(approved)
    with pytest.raises(Refused) as error:
        request_changes(bench.context, draft, words=said, by=ME)
    assert error.value.code == "replayed"


def test_a_draft_that_nobody_could_decide_on_is_rejected_instead(bench: Bench) -> None:
    said = change_words([Remark("Write a request.")], "operator:alice")
    path = bench.workspace.inbox / "TR-20260101-000000Z-x.md"
    path.write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match="reject it instead"):
        request_changes(bench.context, path, words=said, by=ME)
    assert path.exists() and sent(bench) == []


def test_a_file_of_another_account_with_the_same_id_is_rejected_instead(bench: Bench) -> None:
    path = bench.draft()
    if os.geteuid() != 0:
        pytest.skip("needs root for a file of another account")
    mine = read_draft(bench.workspace, path)
    with Trail(bench.workspace).locked() as held:
        validated = Validated(file=mine.path.name, valid=True, rules=(), owner_uid=4242)
        held.append(validated, request_id="req-1", actor="daemon")
    with pytest.raises(Refused) as error:
        request_changes(bench.context, mine, words=change_words([Remark("No.")], "me"), by=ME)
    assert error.value.code == "replayed" and "reject it instead" in str(error.value)


def test_the_folder_of_a_removed_run_takes_no_words(bench: Bench) -> None:
    path = bench.draft()
    draft = read_draft(bench.workspace, path)
    bench.workspace.verdicts.rmdir()
    with pytest.raises(Unavailable, match="reject the draft instead"):
        request_changes(bench.context, draft, words=change_words([Remark("No.")], "me"), by=ME)
    bench.workspace.verdicts.mkdir()
    assert path.exists() and reject_draft(bench.context, path, reason="no", by=ME).request_id == "req-1"


@pytest.mark.parametrize(
    "remark",
    [
        Remark(""),
        Remark(" \n "),
        Remark("x", line=3),
        Remark("x", "a\x1b[2Jb"),
        Remark("x", "a\nb"),
        Remark("x", "a" * 1025),
        Remark("x", "a", 0),
        Remark("x" * (limits.CHANGE_WORDS_BYTES + 1)),
        Remark("\x1b" * (limits.CHANGE_WORDS_BYTES - 100)),
    ],
)
def test_what_cannot_be_sent_is_refused(remark: Remark) -> None:
    with pytest.raises(InvalidInput) as error:
        change_words([remark], "operator:alice")
    assert "\n" not in str(error.value) and "\x1b" not in str(error.value)


def test_the_command_sends_words_of_an_option_or_of_standard_input(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    where = ["-w", str(bench.workspace.root), "request-changes"]
    bench.draft()
    assert execute([*where, "sum", "--at", "src/a.py:7", "--words", "Keep it."]) == 0
    assert "changes requested: req-1" in capsys.readouterr().out
    assert "at src/a.py, line 7:\nKeep it.\n" in sent(bench)[0].read_text()
    bench.draft("req-2", slug="other")
    given = tmp_path / "words"
    given.write_text("Longer\nwords.\n")
    with given.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert execute([*where, "other", "--at", "a:b", "--words", "-", "--json"]) == 0
    assert '"request_id": "req-2"' in capsys.readouterr().out
    assert any("at a:b:\nLonger\nwords.\n" in path.read_text() for path in sent(bench))
    bench.draft("req-3", slug="third")
    assert execute([*where, "third"]) == 2 and "in words of your own" in capsys.readouterr().err
