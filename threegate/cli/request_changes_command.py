"""`threegate request-changes`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from threegate.acts.request_changes import (
    REQUEST_CHANGES,
    Remark,
    change_words,
    request_changes_about,
)
from threegate.acts.request_changes import request_changes as ask_for
from threegate.cli import tab_completion
from threegate.cli.invocation import (
    JsonFlag,
    argument,
    context_here,
    emit_json,
    say,
    wants_json,
    warn,
)
from threegate.cli.signing_options import KeyOption, NameOption, actor_here, decision_here
from threegate.cli.signing_screens import reveal
from threegate.core import limits
from threegate.review.named_request import find_draft
from threegate.review.reviewed_draft import read_draft


def request_changes(
    which: Annotated[str, argument("ID|FILE", "A draft: its id, file or slug.", tab_completion.drafts)],
    words: Annotated[str, typer.Option("--words", metavar="TEXT", help="What to change; - reads standard input.")] = "",
    at: Annotated[
        str, typer.Option("--at", metavar="PATH[:LINE]", help="The path, or the line in it, that the words are about.")
    ] = "",
    name: NameOption = "",
    key: KeyOption = None,
    json_: JsonFlag = False,
) -> None:
    """Ask an agent to change its draft.

    The draft ends, and its agent gets your words about what to change.

    The words go to the run that asked and to nobody else, with secrets masked; the trail has their digest. Nothing of
    the draft is quoted. The act is signed if your key needs no passphrase; the words are not.

    Example: threegate request-changes TR-20261122-101500Z-fix --at src/app.py:12 --words 'Keep the old timeout.'
    """
    context = context_here()
    draft = read_draft(context.workspace, find_draft(context.workspace, which, trail=context.trail))
    if words == "-":
        # One byte more than is taken, so that longer words are refused and not cut.
        words = sys.stdin.buffer.read(limits.CHANGE_WORDS_BYTES + 1).decode("utf-8", "replace")
    remark = Remark.at(at, words)
    actor = actor_here(context, name, key)
    said = change_words([remark], actor)
    if (placed := draft.placed) is not None:
        about = [remark.path] if remark.path else None
        told = reveal(context, draft, placed, yes=False, actor=actor, paths=about, quiet=wants_json(json_))
        if wants_json(json_):
            emit_json(told)
        return
    by = decision_here(context, REQUEST_CHANGES, request_changes_about(draft, said), name, key)
    done = ask_for(context, draft, words=said, by=by)
    if wants_json(json_):
        row = {"file": str(done.path), "request_id": done.request_id, "draft_removed": done.draft_removed}
        emit_json({**row, "words_sha256": said.sha256})
        return
    say(f"changes requested: {done.request_id}")
    if not done.draft_removed:
        warn("the draft's file changed after it was read, so it was not moved")
