"""The action of an apply request: a project is changed. First as the request says it, then as its bytes have it.

Invariant: a Job has the second form only, in which nothing is the request's own claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from threegate.core.screen_parts import LIMIT, Fact, Field, Item, Note, Quote
from threegate.request.action import NO_CODE, Action, ActionText, Category, Risk
from threegate.request.exposure import Exposure, Input

CHANGE_KINDS: Final = ("add", "modify", "delete", "mode", "type")
"""The kinds of changes, in the order in which they are counted."""

Deliver = Literal["tree", "branch"]
DELIVERIES: Final[tuple[Deliver, ...]] = ("tree", "branch")
"""What an approved change set of a project becomes: new files, or a commit on a new branch."""


@dataclass(frozen=True, slots=True)
class Changes:
    """An apply request's claims about its change set: the table's digest, how many of each kind, some of the paths."""

    sha256: str
    add: int
    modify: int
    delete: int
    mode: int
    type: int
    rows: tuple[tuple[str, str], ...] = ()
    """(kind, path)"""

    def lines(self) -> Iterator[str]:
        """The Changes section's text, without its heading: what `read_changes` reads."""
        yield f"- digest: sha256:{self.sha256}"
        for kind in CHANGE_KINDS:
            yield f"- {kind}: {getattr(self, kind)}"
        if self.rows:
            yield from ("", "```", *(f"{kind:6} {path}" for kind, path in self.rows), "```")


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """A project as it is bound: its registered name, real path, device, inode, and the owner's uid."""

    name: str
    path: str
    device: int
    inode: int
    uid: int
    deliver: Deliver = "tree"
    """What an approved change set becomes: new files in the project, or a commit on a branch of its repository."""

    def to_json(self) -> dict[str, Any]:
        """As the Job, the journal and the trail have it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class JobBranch:
    """What a change set becomes, one commit or several, where the project's changes are delivered as a branch."""

    name: str
    """The new branch, without `refs/heads/`; a number follows where a branch of this name exists."""
    base: str
    """The commit that it is made on: HEAD of the project."""
    tree: str
    """Id of its tree, and so of every byte in it."""
    author: str
    message: str
    notes: tuple[str, ...] = ()
    """What of the change set is not in the commit."""
    commits: tuple[tuple[str, str], ...] = ()
    """Tree and message of each commit, oldest first, where the agent's are delivered one by one: `tree` is the last
    one's, and `message` is empty.
    """

    def to_json(self) -> dict[str, Any]:
        """As the Job has it."""
        texts = {name: getattr(self, name) for name in ("name", "base", "tree", "author", "message")}
        commits = {"commits": [list(item) for item in self.commits]} if self.commits else {}
        return {**texts, "notes": list(self.notes), **commits}


@dataclass(frozen=True, slots=True)
class JobPart:
    """Which part of a larger change this is, as the trail says: a person took some of its paths and left others."""

    root: str
    """Id of the request whose words describe all of the change."""
    paths: int
    of: int
    left_out: tuple[str, ...]
    """The first of the paths that are not in it."""

    def to_json(self) -> dict[str, Any]:
        """As the Job has it."""
        return {"root": self.root, "paths": self.paths, "of": self.of, "left_out": list(self.left_out)}

    @property
    def unnamed(self) -> int:
        """How many paths were left out besides."""
        return self.of - self.paths - len(self.left_out)


@dataclass(frozen=True, slots=True)
class JobChange:
    """What an apply request does to which project, as computed from the bytes of its change set."""

    project: ProjectPlace
    sha256: str
    """The change set's digest: the sha256 of its table."""
    paths: int
    deletions: int
    run_later: int
    """Paths of files that something runs later by itself (changes/run_later.py)."""
    unseen: int
    """Paths whose new bytes are not text, so that the screen has their size and digest only."""
    hidden: int = 0
    """Paths whose new text has characters that cannot be seen, or names another encoding (request/shown_whole.py)."""
    branch: JobBranch | None = None
    """None where it is delivered as files."""
    part: JobPart | None = None
    """None where it is all that was proposed."""


@dataclass(frozen=True, slots=True)
class ProjectChange(Action):
    """A project is changed by the change set in the first input; here are the request's claims about it. What each
    member is for is said in `request/action.py`.
    """

    runs_code: ClassVar[bool] = False
    grouped: ClassVar[bool] = False
    least_category: ClassVar[Category] = "write"
    own_tool: ClassVar[bool] = False
    open_part: ClassVar[str] = ""
    never_granted: ClassVar[str] = "a change of a project"
    never_replayed: ClassVar[str] = "changed a project; changes are not repeated for comparison"
    undone_by: ClassVar[str] = "project undo"
    project: str
    """The registered name of the project."""
    changes: Changes
    derived_from: str = ""
    """Id of the request of which a person took a part; the trail must say so."""

    def names(self) -> Iterator[Item]:
        yield Field("project", self.project)

    @property
    def does(self) -> str:
        return f"changes the project {self.project}"

    def keys(self) -> Mapping[str, str]:
        derived = {"derived_from": self.derived_from} if self.derived_from else {}
        return {"project": self.project, **derived}

    def without_open(self) -> ProjectChange:
        return self

    def may_change(self, project: str | None) -> bool:
        """Only the project that the run has a copy of."""
        return self.project == project

    def risks(self) -> tuple[tuple[Risk, bool, str], ...]:
        """By its own claims, before the bytes of the change set were read."""
        return _risks(self.changes.delete + self.changes.type, 0)

    @property
    def stateful(self) -> bool:
        """What was done before is in the project, whose bytes are compared."""
        return False

    @property
    def sends_out(self) -> bool:
        return False

    def texts(self) -> tuple[ActionText, ...]:
        """None of the request's own: the screen shows the files."""
        return ()

    def body(self, inputs: Sequence[Input]) -> Iterator[str]:
        yield from ("## Changes", "", *self.changes.lines())

    def exposure(self, workdir: str, inputs: Sequence[Input]) -> Exposure:
        reach = (f"the files of the project {self.project}",)
        return Exposure("transparent", "a change of files; what of them runs later is counted on the card", (), reach)

    def meaning(self) -> dict[str, Any]:
        """The project's name; what its bytes and the project are is the Job's."""
        return {**NO_CODE, "project": self.project}

    def gate_arguments(self, workdir: str, shared: Mapping[str, Any]) -> dict[str, Any]:
        return {"project": self.project, **shared}

    def bound(self, change: JobChange) -> BoundChange:
        """The same as the bytes of the change set and its project have it."""
        return BoundChange(self.project, self.changes, self.derived_from, change=change)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundChange(ProjectChange):
    """What the bytes of the change set do to which project."""

    change: JobChange

    def card(self) -> Iterator[Item]:
        return change_facts(self.change)

    def walls(self) -> Iterator[Item]:
        """Which folder is meant, beyond its name and path."""
        place, branch = self.change.project, self.change.branch
        yield Fact("change set", self.change.sha256)
        yield Fact("folder", f"device {place.device}, inode {place.inode}, owned by uid {place.uid}")
        yield Fact("deliver", place.deliver)
        if branch is not None:
            yield Fact("base", branch.base)
            yield from (Fact("tree", tree) for tree, _ in branch.commits or ((branch.tree, ""),))
            yield Fact("author", branch.author)
            yield Fact("committer", "the operator who approves it")

    @property
    def alone(self) -> tuple[int, int]:
        """A project has one change at a time, which can be reverted until it is recorded."""
        return self.change.project.device, self.change.project.inode

    def risks(self) -> tuple[tuple[Risk, bool, str], ...]:
        return _risks(self.change.deletions, self.change.run_later)

    def meaning(self) -> dict[str, Any]:
        names = ("sha256", "paths", "deletions", "run_later", "unseen", "hidden")
        change = {"project": self.change.project.to_json(), **{name: getattr(self.change, name) for name in names}}
        branch = {} if self.change.branch is None else {"branch": self.change.branch.to_json()}
        part = {} if self.change.part is None else {"part": self.change.part.to_json()}
        return {**ProjectChange.meaning(self), "change": {**change, **branch, **part}}

    def why_other(self) -> tuple[str, str]:
        """Bytes and policy are the signed ones: what is left is the project's entry and its repository."""
        if self.change.branch is None:
            return ProjectChange.why_other(self)
        return (
            "project_changed",
            f"{self.change.project.path}: its HEAD, its git settings or its delivery changed since it was signed; "
            "draft it again: threegate draft --again ID",
        )


def _risks(deletions: int, run_later: int) -> tuple[tuple[Risk, bool, str], ...]:
    return (
        ("high", bool(deletions), "it deletes or replaces what is in the project"),
        ("high", bool(run_later), "it changes files that run later by themselves"),
        ("medium", True, "it changes a project"),
    )


def change_facts(change: JobChange) -> Iterator[Item]:
    """Counts of a change set; they include everything that the screen folds or shows only by size."""
    yield Fact("project", f"{change.project.name}: {change.project.path}")
    counted = (
        (change.deletions, "deleted or replaced by another kind of file"),
        (change.run_later, "run later by themselves"),
        (change.unseen, "shown by size and digest only"),
        (change.hidden, "with hidden characters or another encoding"),
    )
    said = "".join(f"; {count} {what}" for count, what in counted if count)
    yield Fact("changes", f"{change.paths} {'path' if change.paths == 1 else 'paths'}{said}")
    if change.part is not None:
        yield from _part_facts(change.part)
    if change.branch is not None:
        yield from _branch_facts(change.branch)


def _part_facts(part: JobPart) -> Iterator[Item]:
    """Which part of what was proposed it is."""
    yield Fact("part", f"{part.paths} of {part.of} paths; the request's words, below, describe all {part.of}")
    yield Field("derived from", part.root)
    yield Field("left out", "\n".join(part.left_out), LIMIT)
    if part.unnamed:
        yield Fact("", f"and {part.unnamed} more")


def _branch_facts(branch: JobBranch) -> Iterator[Item]:
    """What arrives where the change is delivered as a branch, and what of its message something could act on."""
    from threegate.plugins.changes.commit_message import message_warnings  # most projects get files

    many = f"{len(branch.commits)} commits" if len(branch.commits) > 1 else "one commit"
    yield Fact("delivers", f"{many} on the new branch {branch.name}; the project's files stay as they are")
    for number, message in enumerate((message for _, message in branch.commits or (("", branch.message),)), 1):
        head = f"the message of commit {number}:" if branch.commits else "the commit's message:"
        yield Quote(message, head, None, "the message")
        for warning in message_warnings(message):
            yield Note(f"LOOK CLOSELY: {warning}")
    for note in branch.notes:
        yield Note(note)


def branch_undo_facts(about: Mapping[str, Any]) -> Iterator[Item]:
    """What the undo of a change that was delivered as a branch does."""
    yield Fact("project", f"{about['project']['name']}: {about['project']['path']}")
    yield Fact("removes", f"the branch {about['branch']}, which is at {about['commit']}")
