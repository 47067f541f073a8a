"""What each address of the page shows. An address is only ever looked up among existing entries."""

from __future__ import annotations

import threading
from typing import Any, Final

from starlette.requests import Request

from threegate.core import limits
from threegate.core.errors import InvalidInput, TrailError
from threegate.core.secretscan.scan import mask_secrets
from threegate.core.workspace import Workspace
from threegate.launch.context import Context, open_context
from threegate.launch.contract_sessions import ContractSessions
from threegate.plugins.page.commands import commands
from threegate.plugins.page.diff_pages import PagePart, files_of, page_parts, page_with_colours, with_colours
from threegate.plugins.page.page_templates import foreign, render
from threegate.review.asked import AskedReader
from threegate.review.overview import GROUPS, entries, find_entry, group_of, matching
from threegate.review.readiness import Readiness
from threegate.review.request_view import RequestView, view_request
from threegate.review.status import TITLES as NEXT_TITLES
from threegate.review.status import Line, RequestEntry, grouped, in_order, line_of
from threegate.review.status_screen import folded, in_turn
from threegate.trail.trail import Trail

TITLES: Final = {
    "drafts": "Drafts",
    "approved": "Approved",
    "running": "Running",
    "finished": "Finished",
    "refused": "Refused",
}
EMPTY: Final = {
    "others": "Nothing: everything open is yours to decide, or running.",
    "drafts": "No drafts. An agent puts them into the inbox; make one yourself with: threegate draft",
    "approved": "No approved requests are waiting. Read the drafts, then approve one with: threegate review",
    "running": "Nothing is running. The daemon starts approved requests: threegate run",
    "finished": "Nothing has run yet. Approve a draft with: threegate review",
    "refused": "Nothing was refused, cancelled or rejected.",
}
"""What an empty list shows, with the next step."""
_ENDED: Final = "HOW IT ENDED"
_STREAMS: Final = ("stdout", "stderr")
_FIRST_BYTES: Final = 16 * limits.PAGE_FIRST_CHARS
"""How many bytes of a stream are searched for its first piece."""


class Missing(Exception):
    """Nothing exists at this address; the text says so in one line."""


class Views:
    """The pages of one workspace. Its trail is read incrementally."""

    def __init__(self, workspace: Workspace) -> None:
        """Store the workspace; nothing is read yet."""
        self._workspace = workspace
        self._lock = threading.Lock()
        self._trail: Trail | None = None
        self._contracts = ContractSessions(workspace)
        self._reading = threading.Lock()
        self._reader = AskedReader(workspace)
        self._health = Readiness(workspace)

    def overview(self, request: Request) -> str:
        """The state of the workspace, what needs an operator, what is running; the rest folded."""
        found = {group: self._entries(group) for group in GROUPS}
        lines = in_order(self._rows([*found["drafts"], *found["approved"], *found["running"]]))
        by_turn = {turn: [line for line in lines if line.next == turn] for turn in NEXT_TITLES}
        first = limits.PAGE_FIRST_ROWS
        health = self._health.look()
        others = by_turn["others"]
        others_part = _part("others", NEXT_TITLES["others"], len(others), others[:first])
        parts = [others_part] + [
            _part(group, TITLES[group], len(found[group]), self._rows(found[group][:first]))
            for group in ("finished", "refused")
        ]
        return self._render(
            request,
            "overview.html",
            counts=_counts(found),
            here="",
            health=health,
            daemon=health[0].state == "ok",
            needs=(needs := in_turn(folded(by_turn["operator"]))[: limits.PAGE_ROWS]),
            needs_shown=sum(entry.count for entry in needs),
            needs_total=len(by_turn["operator"]),
            running=folded(by_turn["running"][: limits.PAGE_ROWS]),
            running_total=len(by_turn["running"]),
            folded=parts,
        )

    def group(self, request: Request) -> str:
        """One group, page by page, in full or filtered by words."""
        group = request.path_params["group"]
        if group not in GROUPS:
            raise Missing("no such list")
        words = request.query_params.get("q", "")[: limits.PAGE_QUERY_CHARS]
        found = {name: self._entries(name) for name in GROUPS}
        matched = matching(found[group], words) if words.strip() else found[group]
        pages = max(1, -(-len(matched) // limits.PAGE_ROWS))
        page = min(_number(request.query_params.get("page", "1")), pages)
        start = (page - 1) * limits.PAGE_ROWS
        return self._render(
            request,
            "group.html",
            counts=_counts(found),
            here=group,
            title=TITLES[group],
            words=words,
            total=len(found[group]),
            matched=len(matched),
            page=page,
            pages=pages,
            start=start,
            end=min(start + limits.PAGE_ROWS, len(matched)),
            entries=folded(self._rows(matched[start : start + limits.PAGE_ROWS])),
            empty=EMPTY[group],
        )

    def request(self, request: Request) -> str:
        """One request in full."""
        entry = self.entry(request)
        view, added = self._looked(request, entry)
        parts = with_colours(page_parts(view.sections))
        files = files_of(parts)
        streams = []
        if view.facts is not None:
            for name in _STREAMS:
                pieces = pieces_of(view, name, limits.PAGE_FIRST_CHARS, _FIRST_BYTES)
                stream = getattr(view.facts, name)
                if pieces is not None:
                    more = len(pieces) > 1 or len(stream.kept) > _FIRST_BYTES
                    streams.append({"name": name, "text": pieces[0], "more": more, "stream": stream})
        return self._render(
            request,
            "request.html",
            counts=self._counts(),
            here=group_of(entry),
            entry=entry,
            view=view,
            ended=any(part.title == _ENDED for part in parts),
            card=_card(parts),
            sections=[part for part in parts if part.title not in ("REQUEST", _ENDED)],
            files=files,
            elsewhere=[file for file in files if not file.here],
            commands=commands(self._workspace, entry, view),
            streams=streams,
            **added,
        )

    def _looked(self, request: Request, entry: RequestEntry) -> tuple[RequestView, dict[str, Any]]:
        """The sections of a request, and the other values for its page."""
        return self._view(entry), {}

    def file(self, request: Request) -> str:
        """The change of one file, page by page."""
        entry = self.entry(request)
        files = files_of(page_parts(self._view(entry).sections))
        file = next((file for file in files if file.pages and file.key == request.path_params["file"]), None)
        if file is None:
            raise Missing("this change of a file is no longer in the request: open the request again")
        page = min(_number(request.query_params.get("page", "1")), len(file.pages))
        file = page_with_colours(file, page)
        return self._render(
            request,
            "file.html",
            counts=self._counts(),
            here=group_of(entry),
            entry=entry,
            file=file,
            files=files,
            page=page,
            pages=len(file.pages),
        )

    def stream(self, request: Request) -> str:
        """stdout or stderr of a run, page by page."""
        name = request.path_params["name"]
        entry = self.entry(request)
        view = self._view(entry)
        pieces = pieces_of(view, name, limits.PAGE_STREAM_CHARS) if name in _STREAMS else None
        if pieces is None:
            raise Missing("no such output")
        page = min(_number(request.query_params.get("page", "1")), len(pieces))
        return self._render(
            request,
            "stream.html",
            counts=self._counts(),
            here=group_of(entry),
            entry=entry,
            name=name,
            text=pieces[page - 1],
            page=page,
            pages=len(pieces),
        )

    def _render(self, request: Request, template: str, **values: Any) -> str:
        base = f"/page/{request.path_params['view']}/"
        groups = [(group, TITLES[group]) for group in GROUPS]
        return render(template, base=base, groups=groups, root=str(self._workspace.root), **values)

    def _rows(self, found: list[RequestEntry]) -> list[Line]:
        with self._reading:
            return grouped(
                [
                    line_of(self._workspace, entry, self._reader if number < limits.STATUS_ROWS_READ else None)
                    for number, entry in enumerate(found)
                ]
            )

    def _counts(self) -> dict[str, int]:
        return _counts({group: self._entries(group) for group in GROUPS})

    def _entries(self, group: str) -> list[RequestEntry]:
        """The files of a group that are listed."""
        return entries(self._workspace, group)

    def entry(self, request: Request) -> RequestEntry:
        """The file that an address identifies. Raises Missing."""
        folder, key = request.path_params["folder"], request.path_params["key"]
        entry = find_entry(self._workspace, folder, key)
        if entry is None:
            raise Missing("it is no longer in this folder: find it in the lists")
        return entry

    def _view(self, entry: RequestEntry, **more: Any) -> RequestView:
        """Raises Missing if the file has moved meanwhile; TrailError and any other error that prevents showing it."""
        try:
            return view_request(self.context(), entry, **more)
        except InvalidInput:
            if entry.path.exists():
                raise
            raise Missing("it just moved to another folder: find it in the lists") from None
        except TrailError:
            with self._lock:
                self._trail = None
            raise

    def context(self) -> Context:
        """Current settings and trail. Raises InvalidInput, TrailError."""
        with self._lock:
            if self._trail is None:
                self._trail = Trail(self._workspace)
            return open_context(self._workspace, contracts=self._contracts, trail=self._trail)


def pieces_of(view: RequestView, name: str, size: int, kept: int = limits.STREAM_KEPT_BYTES) -> list[str] | None:
    """A stream's first `kept` bytes in pieces of `size` characters, safe to show; None if it is empty."""
    stream = getattr(view.facts, name) if view.facts is not None else None
    if stream is None or not stream.kept:
        return None
    text = mask_secrets(stream.kept[:kept].decode("utf-8", "backslashreplace"))
    text = mask_secrets(foreign(text.removesuffix("\n")))
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def _part(group: str, title: str, total: int, rows: list[Line]) -> dict[str, Any]:
    listed = "drafts" if group == "others" else group
    found = {"rows": folded(rows), "shown": len(rows), "list": listed, "empty": EMPTY[group]}
    return {"group": group, "title": title, "total": total, **found}


def _card(parts: list[PagePart]) -> list[PagePart]:
    """The content of the card column: how it ended, else the request's own card."""
    found = {part.title: part for part in parts}
    return [found[title] for title in (_ENDED, "REQUEST") if title in found][:1]


def _counts(found: dict[str, list[RequestEntry]]) -> dict[str, int]:
    return {group: len(items) for group, items in found.items()}


def _number(text: str) -> int:
    """A page number from an address; anything invalid is page 1."""
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 7 else 1
