"""Which request a person means: by its id, its file's name (with or without `.md`), its slug, a unique beginning of
these, or a path.

Invariant: a name never picks one of several requests. A slug is chosen by whoever drafts, so one that is also another
request's slug or id names neither. An id that was approved, claimed or ended is taken: a draft that claims it, or whose
file is called like it, can never run under it and does not compete. What is only a beginning, or only a slug, is no
answer where nobody will see the screen (`exact`).
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.file_names import is_request_name, slug_of
from threegate.core.settings import RequestSettings
from threegate.core.workspace import STATES, Workspace
from threegate.launch.context import Context
from threegate.request.model import Stage
from threegate.request.reader import read_request
from threegate.review.draft_sources import placed_at, placed_drafts
from threegate.trail import moves
from threegate.trail.history import RequestHistory
from threegate.trail.index import TrailIndex
from threegate.trail.story import sentence
from threegate.trail.trail import Trail

DRAFT: Final = "draft"
GONE: Final = "gone"
ANY: Final = frozenset((DRAFT, GONE, *STATES))
DRAFTS: Final = frozenset((DRAFT,))
TO_SIGN: Final = frozenset((DRAFT, "approved"))
OPEN: Final = frozenset(("approved", "running"))
ENDED: Final = frozenset(("finished", "refused"))
FINISHED: Final = frozenset(("finished",))


@dataclass(frozen=True, slots=True)
class Named:
    """One request. `path` is None if only the trail has it; the id is None if its file names none."""

    request_id: str | None
    path: Path | None
    state: str
    """`DRAFT`, the folder of STATES that it is in, or `GONE`."""
    taken: bool = False
    """Whether the trail has this id as approved, claimed or ended."""

    @property
    def label(self) -> str:
        """A name for it that is usually no other's."""
        return self.path.name if self.path is not None else str(self.request_id)


def find_request(
    workspace: Workspace, which: str, among: frozenset[str] = ANY, *, trail: Trail | None = None, exact: bool = False
) -> Named:
    """The request that `which` names, best among those in the states `among`.

    If none of these has the name, one in another state may be returned: `where_now` says what became of it. `exact`:
    refuse what is only a slug or a beginning. Raises InvalidInput if nothing or more than one thing has the name,
    TrailError.
    """
    search = _Search(workspace, trail or Trail(workspace), which)
    given = Path(which)
    if not which:
        raise InvalidInput("an empty name: give the id, the file or the slug of a request")
    # In an inbox, which an agent may write, a file that is called like an id is not what the id means.
    if given.parent != Path() or (which.endswith(".md") and stat.S_ISREG(_mode(given))):
        return search.at(given)
    return search.named(among, exact=exact)


def find_draft(workspace: Workspace, which: str, *, trail: Trail | None = None, exact: bool = False) -> Path:
    """The draft of a name or a path. Raises InvalidInput if there is none or more than one, or says what became of
    it.
    """
    trail = trail or Trail(workspace)
    return refuse_no_draft(workspace, which, find_request(workspace, which, DRAFTS, trail=trail, exact=exact), trail)


def finished_id(context: Context, which: str, *, exact: bool = False) -> str:
    """The id of a request that ran, as far as the name says; whether it did is for who uses it. Raises as
    `find_request`.
    """
    return find_request(context.workspace, which, FINISHED, trail=context.trail, exact=exact).request_id or which


def refuse_no_draft(workspace: Workspace, which: str, found: Named, trail: Trail) -> Path:
    """The path of a draft. Raises InvalidInput for what was decided on already."""
    if found.state != DRAFT or found.path is None:
        raise InvalidInput(f"{which}: {where_now(workspace, found, trail)}")
    return found.path


def where_now(workspace: Workspace, found: Named, trail: Trail) -> str:
    """Where a request is and what was decided, for who looked for it elsewhere, with what to type next."""
    if found.state == DRAFT:
        return f"is a draft: {found.path}; decide on it with: threegate approve {found.label}"
    with trail.locked() as held:
        history = held.index.history(found.request_id) if found.request_id else None
    name = found.request_id or found.label
    where = f", now {found.path}" if found.path is not None else ""
    if history is not None and history.end is not None:
        return f"was decided on already: {sentence(history.end)}{where}; see: threegate show {name}"
    return f"was approved already{where}; see: threegate show {name}"


@dataclass
class _Search:
    """A search for one name, in one look at the folders and the trail."""

    workspace: Workspace
    trail: Trail
    which: str
    near: set[str] = field(default_factory=set)
    """Names that may have been meant."""

    def at(self, given: Path) -> Named:
        """What is at a path; for one that was there, the request whose file has this name now."""
        for path in (given.absolute(), (self.workspace.root / given).absolute()):
            if placed_at(self.workspace, path) is not None or os.path.lexists(path):
                return self._of_file(path, _state_of(self.workspace, path))
        if not is_request_name(given.name):
            raise InvalidInput(f"{self.which}: no such file; `threegate status` lists the requests here")
        with self.trail.locked() as held:
            found = [one for one, name, _ in self._files(held.index) if name == given.name]
            request_id = held.index.request_of(given.name)
            if not found and request_id is not None and (history := held.index.history(request_id)):
                found = [self._known(history)]
        one = self._one(found)
        if one.state == DRAFT:  # its name is an agent's choice: it may be another request
            raise InvalidInput(f"{self.which}: not there; a draft of this name is {one.path}")
        return one

    def named(self, among: frozenset[str], *, exact: bool) -> Named:
        """What has this name."""
        which = self.which
        whole: list[Named] = []
        slugs: list[Named] = []
        begun: list[Named] = []
        with self.trail.locked() as held:
            index = held.index
            history = index.history(which)
            taken = history is not None and _is_taken(history)
            if history is not None and taken:
                whole.append(self._known(history))
            for one, name, slug in self._files(index, ids=not taken):
                # A taken id is no draft's, and a file that is called like it is not meant; its full name still is.
                loses = taken and one.state == DRAFT
                if which == name or (not loses and which in (one.request_id, name.removesuffix(".md"))):
                    whole.append(one)
                elif which == slug:
                    slugs.append(one)
                elif any(text.startswith(which) for text in (name, slug, one.request_id or "")):
                    begun.append(one)
                if one.state in among:
                    self.near |= {name.removesuffix(".md"), slug, one.request_id or ""}
            if len(which) >= limits.NAME_BEGINNING_CHARS:
                ids = index.ids_beginning(which)[: limits.NAMES_COMPARED]
                known = [index.history(name) for name in ids if name != which]
                begun += [self._known(other) for other in known if other is not None and _is_taken(other)]
            else:
                begun = []
            self.near |= set(index.ids_beginning(which[: limits.NAME_BEGINNING_CHARS])[: limits.NAMES_COMPARED])
        # An id that is taken is meant even if nothing can be done with it any more: no slug answers for it.
        here = [one for one in (*whole, *slugs) if one.state in among or (one.taken and one.request_id == which)]
        gone = [self._known(history)] if history is not None else []
        tiers = (here, [one for one in begun if one.state in among], [*whole, *slugs], begun, gone)
        found = self._one(next((tier for tier in tiers if tier), []))
        if exact and not any(_same(found, one) for one in (*whole, *gone)):
            raise InvalidInput(f"{which}: unseen, only a whole id or file is signed: give {found.label}")
        return found

    def _one(self, found: list[Named]) -> Named:
        """The only one. Raises InvalidInput."""
        different: list[Named] = []
        for one in found:
            if not any(_same(one, other) for other in different):
                different.append(one)
        if len(different) == 1:
            return different[0]
        if not different:
            names = sorted(filter(None, self.near), reverse=True)[: limits.NAMES_COMPARED]
            like = difflib.get_close_matches(self.which.removesuffix(".md"), names, 2, 0.6)
            hint = f"; did you mean {' or '.join(like)}?" if like else ";"
            raise InvalidInput(f"{self.which}: no such request here{hint} `threegate status` lists them")
        labels = [one.label for one in different]
        shown = [
            f"{label if labels.count(label) == 1 and label != self.which else one.path or one.request_id} ({one.state})"
            for label, one in zip(labels, different, strict=True)
        ][: limits.NAMES_LISTED]
        more = f" and {len(labels) - len(shown)} more" if len(labels) > len(shown) else ""
        raise InvalidInput(f"{self.which}: names {len(labels)} requests: {', '.join(shown)}{more}; give one of these")

    def _files(self, index: TrailIndex, *, ids: bool = True) -> Iterator[tuple[Named, str, str]]:
        """Each request that has a file, its file's name and its slug. `ids`: read those of drafts."""
        settings = self.workspace.load_settings().request if ids else None
        placed = {draft.listed(self.workspace): draft.request_id for draft in placed_drafts(self.workspace)}
        for path, request_id in placed.items():
            if not os.path.lexists(path):
                yield Named(request_id, path, DRAFT), path.name, slug_of(path.name)
        for folder in self.workspace.draft_folders():
            for name in _names_in(folder):
                if not stat.S_ISREG(_mode(folder / name)):
                    continue
                found = self._id_in(folder / name, settings) if settings is not None else None
                yield Named(found, folder / name, DRAFT), name, slug_of(name)
        for state in STATES:
            for name in _names_in(self.workspace.state_folder(state)):
                slug, stem, typed = slug_of(name), name.removesuffix(".md"), Path(self.which).name
                path = self.workspace.state_folder(state) / name
                # Its id is needed only if it may be the one, because there are many.
                if stem.startswith(typed.removesuffix(".md")) or (slug and slug.startswith(typed)):
                    if stat.S_ISREG(_mode(path)):
                        yield self._of_file(path, state, index), name, slug
                else:
                    yield Named(None, path, state), name, slug

    def _of_file(self, path: Path, state: str, index: TrailIndex | None = None) -> Named:
        """The request of a file, by the trail if it has that file, else by what the file says."""
        if index is None:
            with self.trail.locked() as held:
                return self._of_file(path, state, held.index)
        placed = placed_at(self.workspace, path)
        if placed is not None:
            return Named(placed.request_id, path, state)
        said = self._id_in(path, self.workspace.load_settings().request)
        for request_id in filter(None, (index.request_of(path.name), said)):
            history = index.history(request_id)
            if history is not None and moves.find_file(self.workspace, history) == path:
                return self._known(history)
        return Named(said, path, state)

    def _known(self, history: RequestHistory) -> Named:
        """A request of the trail: where its file is now."""
        path = moves.find_file(self.workspace, history)
        return Named(history.request_id, path, path.parent.name if path is not None else GONE, taken=True)

    def _id_in(self, path: Path, settings: RequestSettings) -> str | None:
        """The id that a file names, as far as it can be read."""
        folder = next((place for place in self.workspace.draft_folders() if place == path.parent), None)
        try:
            if folder is not None:
                with self.workspace.hold(folder) as held:
                    data, _ = held.read(path.name, max_bytes=limits.REQUEST_BYTES)
            else:
                data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
        except OSError:
            return None
        stage: Stage = "approved" if path.parent.name in STATES else "draft"
        return read_request(data, path=path.name, settings=settings, now=datetime.now(UTC), stage=stage).request_id


def _same(one: Named, other: Named) -> bool:
    if one.path is not None and other.path is not None:
        return one.path == other.path
    return one.request_id is not None and one.request_id == other.request_id


def _is_taken(history: RequestHistory) -> bool:
    return bool(history.approved or history.claimed or history.end)


def _state_of(workspace: Workspace, path: Path) -> str:
    folder = os.path.realpath(path.parent)
    return next((state for state in STATES if os.path.realpath(workspace.state_folder(state)) == folder), DRAFT)


def _names_in(folder: Path) -> list[str]:
    """The request files of a folder, newest first."""
    try:
        return sorted(filter(is_request_name, os.listdir(folder)), reverse=True)
    except FileNotFoundError:
        return []


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0
