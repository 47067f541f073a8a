"""What a request file asks for: the few facts that a list shows.

Invariant: used for lists only; no decision and no signature depends on it. A folder that CORE may write to is
read through an open descriptor, never by its path.
"""

from __future__ import annotations

import io
import os
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Refused, ThreeGateError
from threegate.core.file_names import is_agent_run_id, is_request_name
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.request.backend import BACKENDS, Attention
from threegate.request.exposure import Exposure
from threegate.review.attention import Weighed, weigh
from threegate.review.draft_sources import place_of, placed_at

if TYPE_CHECKING:
    from threegate.request.model import InputFile, Request
    from threegate.review.group_shape import VaryingValue
    from threegate.review.novelty import PastReader
    from threegate.trail.trail import Trail


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts of one valid request. The requester and the purpose are foreign text."""

    requester: str
    vouched: bool
    """True if the settings name the requester by the file's owner; False if the name comes from the file."""
    risk: str
    """Effective risk before the inputs' bytes and the tool's contract are known; it may turn out higher when
    the request is opened.
    """
    backend: str
    purpose: str
    exposure: Exposure
    weighed: Weighed | None = None
    """For a draft: what decides how soon a person should look at it, apart from what ran before."""
    attention: Attention = "look"
    """How soon that is."""
    shape: str | None = None
    """For a draft: the shape of the group it could belong to (group_shape.py); None if it can be in no
    group.
    """
    values: tuple[VaryingValue, ...] = ()
    """For a draft with a shape: everything that may differ from another draft of it; foreign text."""


class AskedReader:
    """Reads request files, each only once until it changes. Not thread-safe."""

    def __init__(self, workspace: Workspace, trail: Trail | None = None) -> None:
        """Store the workspace; nothing is read yet. `trail` is an incremental reader."""
        self._workspace = workspace
        self._trail = trail
        self._past: PastReader | None = None
        self._settings: tuple[tuple[int, ...], Settings | None] = ((), None)
        self._kept: OrderedDict[Path, tuple[tuple[int, ...], Asked | None]] = OrderedDict()
        self._looking: tuple[float, float] = (0.0, 0.0)
        """Since when inputs are looked through, and for how many seconds that was done."""
        self._late = False
        """Whether no time was left for the inputs of the last draft that was read."""

    def read(self, path: Path, folder: str) -> Asked | None:
        """The facts of a file in `folder`; None if it is not a valid request or cannot be read now."""
        if not is_request_name(path.name):
            return None
        try:
            settings = self._settings_now()
            place = place_of(self._workspace, path)
            identity = _identity(place.lstat())
            past = self._past_now()
            identity = (*identity, past.refresh())
            kept = self._kept.get(path)
            if kept is None or kept[0] != identity:
                self._late = False
                kept = identity, self._read(path, place, folder, settings, past)
                if not self._late:  # else the next list looks through it
                    self._kept[path] = kept
                while len(self._kept) > limits.STATUS_ROWS_READ:
                    self._kept.popitem(last=False)
        except (OSError, ThreeGateError):
            return None
        asked = kept[1]
        if asked is None or asked.weighed is None:
            return asked
        return replace(asked, attention=past.attention(asked.weighed))

    def _inside(self, request: Request, folder: Path, settings: Settings) -> Attention | None:
        """The class by what is in the inputs of a draft in this folder. Where something goes wrong, or no time is left,
        it comes first, so that nobody hides by that.
        """
        started, self._late = time.monotonic(), False
        since, spent = self._looking
        if started - since >= limits.LISTED_INPUTS_AGAIN_SECONDS:
            since, spent = started, 0.0

        def open_input(item: InputFile) -> BinaryIO:
            if spent >= limits.LISTED_INPUTS_SECONDS:
                self._late = True
                raise Refused("input_unfit", "no time is left to look through it")
            place = self._workspace.input_place(folder, item.name, item.sha256)
            with self._workspace.hold(place.parent) as held:
                data, _ = held.read(place.name, max_bytes=limits.LISTED_CHANGE_BYTES)
            if sha256_hex(data) != item.sha256:  # else other bytes could be put there once this was remembered
                raise Refused("input_changed", "is not what the request declares")
            return io.BytesIO(data)

        try:
            return BACKENDS[request.backend].attention(self._workspace, settings, request, open_input)
        except Exception:  # noqa: BLE001 - it orders a list, and a list is a list without it
            return "look first"
        finally:
            self._looking = since, spent + time.monotonic() - started

    def _past_now(self) -> PastReader:
        from threegate.review.novelty import PastReader  # an empty list loads no gate

        self._past = self._past or PastReader(self._workspace, self._trail)
        return self._past

    def _read(self, path: Path, place: Path, folder: str, settings: Settings, past: PastReader) -> Asked | None:
        from threegate.approval.facts import requester_of  # an empty list loads no gate
        from threegate.request.job import effective_risk
        from threegate.request.model import exposure_of
        from threegate.request.reader import read_request
        from threegate.review.group_shape import shape_of, values_of
        from threegate.review.novelty import uses_of

        owner: int | str | None = None
        placed = placed_at(self._workspace, path)
        names = settings.requesters
        run = is_agent_run_id(folder)
        if folder == "inbox" or run:
            with self._workspace.hold(place.parent) as held:
                data, facts = held.read(path.name, max_bytes=limits.REQUEST_BYTES)
            owner = facts.st_uid if placed is None else placed.owner
            if run:  # the requester is the owner of the inbox
                owner, names = folder, {folder: f"run {folder}"}
        else:  # our copy: its owner is not the requester
            data = durable.read_regular(path, max_bytes=limits.REQUEST_BYTES)
        request = read_request(
            data,
            path=path.name,
            settings=settings.request,
            now=datetime.now(UTC),
            stage="draft" if run or folder in ("inbox", "drafts") else "approved",
        ).request
        if request is None:
            return None
        exposure, weighed = exposure_of(request), None
        if request.stage == "draft":
            agent = past.run(owner) if owner is not None else None
            uses = uses_of(request, request.action, exposure, owner=owner, run=agent, settings=settings)
            inside = self._inside(request, place.parent, settings)
            weighed = weigh(request, request.action, exposure, uses, inside=inside)
        shape = None
        if (
            owner is not None
            and placed is None
            and not BACKENDS[request.backend].keeps_state(self._workspace, request.action)
        ):
            shape = shape_of(request, owner)
        return Asked(
            requester=requester_of(request, names, owner),
            vouched=str(owner) in names,
            risk=effective_risk(request, exposure),
            backend=request.backend,
            purpose=request.purpose,
            exposure=exposure,
            weighed=weighed,
            shape=shape,
            values=tuple(values_of(request)) if shape is not None else (),
        )

    def _settings_now(self) -> Settings:
        """The settings; facts that were read under older ones are forgotten. Raises InvalidInput, OSError."""
        identity = _identity(self._workspace.settings_file.lstat())
        if (known := self._settings)[0] == identity and known[1] is not None:
            return known[1]
        settings = self._workspace.load_settings()
        self._settings = identity, settings
        self._kept.clear()
        return settings


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
