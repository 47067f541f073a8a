"""Ask for changes of a draft: its id ends as `changes_requested`, and its requester gets a person's words.

Invariant: what is sent is the person's alone, never a text of the draft: at most CHANGE_WORDS_BYTES, secrets masked,
controls as escapes, in a fence that nothing in it closes, under a line that says who wrote it and that it is not
signed. It goes to the requester's own folder of verdicts, and only its digest to the trail; it is on disk before the
event that names it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from threegate.acts.reject import Rejected, end_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.approval.shown.time_read import Reading
from threegate.core import access_lists, durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.secretscan.scan import mask_secrets
from threegate.core.workspace import AgentRun, RequesterFolders
from threegate.launch.context import Context
from threegate.launch.results.render import fence
from threegate.launch.results.verdict import words_path
from threegate.request.characters import has_hidden, visible
from threegate.review.reviewed_draft import CHANGES_REQUESTED, Draft, read_draft
from threegate.trail import moves, payloads

REQUEST_CHANGES = "threegate-request-changes/1"
_MOST: Final = limits.CHANGE_WORDS_BYTES
_LINES: Final = 10**9
"""No file has a line of a higher number."""
_NUMBER: Final = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Remark:
    """What a person says about a draft, or about one path or line in it."""

    words: str
    path: str = ""
    line: int | None = None

    @classmethod
    def at(cls, place: str, words: str) -> Remark:
        """The remark about a PATH or PATH:LINE; about the whole draft if that is empty."""
        path, _, line = place.rpartition(":")
        return cls(words, path, int(line)) if path and _NUMBER.fullmatch(line) else cls(words, place)


@dataclass(frozen=True, slots=True)
class ChangeWords:
    """The text that the requester gets, in UTF-8."""

    data: bytes
    name: str
    """Who wrote it."""

    @property
    def sha256(self) -> str:
        """Its digest, as the trail has it."""
        return sha256_hex(self.data)


def change_words(remarks: Sequence[Remark], actor: str) -> ChangeWords:
    """The text of some remarks; `actor` is who writes them, as in the trail. Raises InvalidInput for no words, too
    many, or a path that could not be one.
    """
    name = actor.removeprefix("operator:")
    if not any(remark.words.strip() for remark in remarks):
        raise InvalidInput("say what to change, in words of your own")
    if sum(len(part.encode("utf-8", "replace")) for item in remarks for part in (item.words, item.path)) > _MOST:
        raise _too_many()
    lines = ["# Changes requested", "", f"unsigned, from {name}"]
    size = 0
    for remark in remarks:
        said = [_place(remark), *_shown(remark.words)]
        shown = [line for line in said if line is not None]
        size += sum(len(line.encode()) + 1 for line in shown)
        lines += ["", *fence(tuple(shown))]
    if size > _MOST:
        raise _too_many()
    return ChangeWords("".join(f"{line}\n" for line in lines).encode(), name)


def _too_many() -> InvalidInput:
    return InvalidInput(f"the words have more than {_MOST // limits.KIB} KiB; say it in fewer")


def _place(remark: Remark) -> str | None:
    """The line in front of a remark: the path and line that it is about. Raises InvalidInput."""
    if not remark.path:
        if remark.line is not None:
            raise InvalidInput(f"line {remark.line}: of which path? write PATH:LINE")
        return None
    if has_hidden(remark.path) or {"\n", "\t"} & set(remark.path) or len(remark.path) > limits.TAR_PATH_BYTES:
        raise InvalidInput("the path of a remark has hidden characters, or is too long")
    if remark.line is not None and not 0 < remark.line < _LINES:
        raise InvalidInput(f"{remark.path}: lines are counted from 1")
    return mask_secrets(f"at {remark.path}{'' if remark.line is None else f', line {remark.line}'}:")


def _shown(words: str) -> tuple[str, ...]:
    """The lines of some words, masked and with controls as escapes."""
    text = mask_secrets(words.replace("\r\n", "\n").strip("\n").encode("utf-8", "replace").decode())
    # Again: an escape that `visible` wrote can complete a pattern.
    return tuple(mask_secrets(visible(line)) for line in text.split("\n"))


def request_changes_about(draft: Draft, words: ChangeWords) -> dict[str, Any]:
    """What a signed act of asking for changes states."""
    name = moves.told_name(draft.path.name)
    return {"file": name, "draft_sha256": sha256_hex(draft.data), "words_sha256": words.sha256}


def request_changes(
    context: Context,
    which: Path | Draft,
    *,
    words: ChangeWords,
    by: OperatorDecision,
    reading: Reading | None = None,
) -> Rejected:
    """End one draft, by its file or as it was read, and give its requester the words of `change_words`.

    Raises InvalidInput for a draft that is not valid, Refused if it was decided meanwhile (`changes_requested`,
    `superseded`, `replayed` and the like) or the signature of `by` is invalid, TrailError, Unavailable, OSError.
    """
    draft = which if isinstance(which, Draft) else read_draft(context.workspace, which)
    return end_draft(
        context,
        draft,
        payloads.Rejected(
            reason=CHANGES_REQUESTED,
            message=f"{words_path(context.workspace, words.sha256).name} has the words, unsigned, from {words.name}",
            words_sha256=words.sha256,
        ),
        by=by,
        kind=REQUEST_CHANGES,
        about=request_changes_about(draft, words),
        prepare=lambda _, owner: _put(context.workspace.requester_folders(owner), words),
        reading=reading,
    )


def _put(requester_folders: RequesterFolders, words: ChangeWords) -> None:
    """Write the words where only their requester reads. Raises Unavailable, OSError."""
    path = words_path(requester_folders, words.sha256)
    if not path.parent.is_dir():
        raise Unavailable(f"{path.parent}: the run that asked for this was removed; reject the draft instead")
    # As the verdict beside it: the folder of a run is the operator's alone, but its jail may have another account.
    of_run = isinstance(requester_folders, AgentRun)
    durable.overwrite(path, words.data, 0o644 if of_run else access_lists.file_mode(path.parent))
