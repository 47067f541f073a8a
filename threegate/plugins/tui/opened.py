"""One request that is open on the screen: read once, with what is needed to decide on it.

Invariant: what is shown and what is signed come from the same values; a request that cannot be decided on
here is only shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from threegate.approval.shown.escaped_lines import FileLines, quoted, render_sections
from threegate.core.errors import InvalidInput, ThreeGateError, TrailError
from threegate.core.screen_parts import FileDiff, Section
from threegate.launch.approved_file import Approved
from threegate.launch.context import Context
from threegate.request.model import Delivery
from threegate.review.countersign import open_waiting
from threegate.review.request_view import RequestView, view_request, view_sections
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import Draft, InvalidDraft, ReviewedDraft, open_reviewed_draft, read_draft
from threegate.review.screen import render_invalid
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

    sections: tuple[Section, ...] = ()
    """What is shown of it, made once."""

    @property
    def digest(self) -> str:
        """Of the bytes that are decided on; the path, if nothing is."""
        return self.reviewed.request.sha256 if self.reviewed is not None else str(self.entry.path)

    @property
    def has_files(self) -> bool:
        """Whether it changes files."""
        return any(isinstance(item, FileDiff) for section in self.sections for item in section.items)

    def lines(self, *, width: int, full: bool, files: FileLines | None = None) -> list[str]:
        """All of its lines; `files` as in `render_sections`."""
        if self.sections or self.view is not None:
            return render_sections(self.sections, width=width, full=full, files=files)
        if isinstance(self.problem, InvalidDraft):
            return render_invalid(self.problem, width=width)
        return quoted(str(self.problem or ""), width=width)

    def shown(self) -> Opened:
        """The same with its sections."""
        made: Iterable[Section] = ()
        if self.reviewed is not None:
            made = review_sections(self.reviewed, self.context.policy.settings, operator=self.operator)
        if self.view is not None:
            made = view_sections(replace(self.view, sections=tuple(made)) if self.reviewed is not None else self.view)
        return replace(self, sections=tuple(made))


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
                    approved, reviewed = open_waiting(context, entry.path)
                    opened = replace(opened, approved=approved, reviewed=reviewed)
        except TrailError:
            raise
        except ThreeGateError as error:
            opened = replace(opened, view=None, problem=error)
        except OSError as error:
            why = f"it cannot be read now ({error.strerror}); it may have moved to another folder"
            opened = replace(opened, view=None, problem=InvalidInput(why))
        yield opened.shown()
