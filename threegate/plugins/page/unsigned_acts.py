"""What an operator does on the page that takes passkeys without a signature: refuse a draft, ask for changes.

Invariant: it only ends the very draft that was given; the words are checked before anything is done, their secrets are
masked, and nothing of the draft is quoted.
"""

from __future__ import annotations

from collections.abc import Callable

from threegate.acts.reject import reject_draft
from threegate.acts.request_changes import Remark, change_words, request_changes
from threegate.acts.signed_acts import OperatorDecision
from threegate.approval.ssh_wire import MalformedError
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.secretscan.scan import mask_secrets
from threegate.launch.context import Context
from threegate.review.draft_sources import Answer
from threegate.review.reviewed_draft import Draft


def unsigned_act(kind: str, words: str, at: str, actor: str) -> Callable[[Context, Draft], Answer | None]:
    """The act of this kind, ``refuse`` or ``changes``, with an operator's words; `at` is the PATH[:LINE] that they are
    about, for changes only. It gives the answer of a draft that is never signed, and else nothing. Raises InvalidInput
    for words that cannot be sent, MalformedError for another kind.
    """
    by = OperatorDecision(actor)
    if kind == "changes":
        remark = Remark.at(at, words)
        said = change_words([remark], actor)

        def ask(context: Context, draft: Draft) -> Answer | None:
            if draft.placed is not None:
                about = [remark.path] if remark.path else None
                return draft.placed.answer(context, draft.data, yes=False, actor=actor, paths=about)
            request_changes(context, draft, words=said, by=by)
            return None

        return ask
    if kind != "refuse" or at:
        raise MalformedError("asks for an unknown act")
    if not words.strip():
        raise InvalidInput("say why you refuse it, in words of your own")
    if len(words) > limits.TRAIL_STRING_CHARS:
        raise InvalidInput(f"the reason has more than {limits.TRAIL_STRING_CHARS} characters; say it in fewer")
    reason = mask_secrets(words)

    def refuse(context: Context, draft: Draft) -> Answer | None:
        if draft.placed is not None:
            return draft.placed.answer(context, draft.data, yes=False, actor=actor, reason=reason)
        reject_draft(context, draft, reason=reason, by=by)
        return None

    return refuse
