"""One request that is open on the screen: read once, with what is needed to decide on it.

Invariant: what is shown and what is signed come from the same values; a request that cannot be decided on
here is only shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from threegate.approval.shown.escaped_lines import quoted, render_sections
from threegate.core.errors import InvalidInput, ThreeGateError, TrailError
from threegate.launch.approved_file import Approved
from threegate.launch.context import Context
from threegate.request.model import Delivery
from threegate.review.countersign import open_waiting
from threegate.review.request_view import RequestView, view_request, view_sections
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import Draft, InvalidDraft, ReviewedDraft, open_reviewed_draft, read_draft
from threegate.review.screen import render_invalid, render_reviewed_draft
from threegate.review.status import RequestEntry, is_draft_folder


@dataclass(frozen=True, slots=True)
class Opened:
    """`reviewed` is set if `operator` can sign it: a draft, or with `approved` a waiting request."""

    entry: RequestEntry
    context: Context
    operator: str
    draft: Draft | None = None
    reviewed: ReviewedDraft | None = None
    approved: Approved | None = None
    view: RequestView | None = None
    problem: ThreeGateError | None = None
    """Why it cannot be decided on now."""

    def lines(self, *, width: int, full: bool) -> list[str]:
        """All of its lines."""
        if self.view is not None:
            view = self.view
            if self.reviewed is not None:
                settings = self.context.policy.settings
                view = replace(view, sections=tuple(review_sections(self.reviewed, settings, operator=self.operator)))
            return render_sections(view_sections(view), width=width, full=full)
        if self.reviewed is not None:
            settings = self.context.policy.settings
            return render_reviewed_draft(self.reviewed, settings, operator=self.operator, width=width, full=full)
        if isinstance(self.problem, InvalidDraft):
            return render_invalid(self.problem, width=width)
        return quoted(str(self.problem or ""), width=width)


@contextmanager
def open_request(
    context: Context, entry: RequestEntry, operator: str, deliver: Delivery | None = None
) -> Iterator[Opened]:
    """Read a request; copies of inputs exist until the block ends. `operator` is empty without a key, `deliver` is what
    they choose that a change becomes. Raises TrailError.
    """
    opened = Opened(entry, context, operator)
    with ExitStack() as held:
        try:
            if operator and is_draft_folder(entry.folder) and entry.path.suffix == ".md":
                draft = read_draft(context.workspace, entry.path)
                opened = replace(opened, draft=draft)
                reviewed = held.enter_context(open_reviewed_draft(context, draft, deliver=deliver))
                opened = replace(opened, reviewed=reviewed)
            else:
                view = view_request(context, entry)
                opened = replace(opened, view=view)
                if operator and any(check.code == "quorum_missing" for check in view.checks):
                    approved, reviewed = held.enter_context(open_waiting(context, entry.path))
                    opened = replace(opened, approved=approved, reviewed=reviewed)
        except TrailError:
            raise
        except ThreeGateError as error:
            opened = replace(opened, view=None, problem=error)
        except OSError as error:
            why = f"it cannot be read now ({error.strerror}); it may have moved to another folder"
            opened = replace(opened, view=None, problem=InvalidInput(why))
        yield opened
