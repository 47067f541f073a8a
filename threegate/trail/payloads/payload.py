"""What every payload is: a frozen value whose fields are the keys of its event's `data`; and what several families of
them share, an event about a request's file and an act that an operator signed.

Invariant: the bytes of a line follow from the fields alone, and `to_data` of what `from_data` read gives the same data
again for everything that this version writes. Reading never fails: a key that is missing, or has a value of another
type than its field, is read as the empty value of the field's type (None where the type allows it); a key that no field
names is ignored. What a gate must know is therefore `... | None`, and None means that the trail does not say it.

A field without a default is always written; a field whose default is None, and there is no other default, is left out
while it is None, except that `nulls` names the keys beside which None is written as null. `state` and `file` are set by
`trail.moves`, just before the event is appended, to where the file then goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Protocol, Self, TypeVar, dataclass_transform

_T = TypeVar("_T")
_Reader = Callable[[object], Any]


class Fields:
    """A frozen value that is an object in a line of the trail: a payload, or something inside of one."""

    nulls: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """For a field that has a value: which fields beside it are written as null when they have none."""

    def __init__(self, **values: Any) -> None:
        plan = _plan(type(self))
        if not (values.keys() <= plan.names and plan.required_names <= values.keys()):
            wrong = (values.keys() - plan.names) | (plan.required_names - values.keys())
            raise TypeError(f"{type(self).__name__}: {', '.join(sorted(wrong))}")
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(name)

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(name)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The value of an object in a line. Never fails.

        It does not go through `__init__`, since each line that enters the index is read: what is not in the line is the
        class's own default, so that a value takes time and memory for what its line says, whatever its kind could say.
        """
        made = object.__new__(cls)
        values = vars(made)
        readers, required, *_ = _plan(cls)
        for key, value in data.items():
            if (known := readers.get(key)) is not None:
                values[known[0]] = known[1](value)
        for item in required:
            values.setdefault(item.name, item.read(None))
        return made

    @classmethod
    def read(cls, value: object) -> Self | None:
        """The value of what should be an object; None when it is none."""
        return cls.from_data(value) if isinstance(value, dict) else None

    def to_data(self) -> dict[str, Any]:
        """The object as it is in the line (`event.trail_value` is still to come: escaping and bounds)."""
        data = {}
        readers, required, *_ = _plan(type(self))
        for key, item in readers.items():
            value = getattr(self, item.name)
            if value is not None or item in required:
                data[key] = _plain(value)
        for beside, names in self.nulls.items():
            if beside in data:
                for name in names:
                    data.setdefault(name, None)
        return data


class _Event(Protocol):
    """An event, as far as a payload looks at it (`trail.event.Event`)."""

    @property
    def payload(self) -> Payload: ...


class History(Protocol):
    """What payloads change in the history of a request (`trail.history.RequestHistory`, which says what it means)."""

    approved: Any
    countersigned: list[Any]
    end: Any
    abandoned: bool
    state: str | None
    file: str | None
    owner: Any
    proposal_sha256: str | None
    unknown: str | None


class Payload(Fields):
    """What one kind of event says. Subclasses say what it means to people and to the history of its request."""

    kind: ClassVar[str]
    """The event's `type`."""
    slot: ClassVar[str] = ""
    """The field of `RequestHistory` that keeps the last event of this kind."""

    @classmethod
    def of(cls, event: _Event | None) -> Self | None:
        """The payload of an event of this kind; None for no event and for one of another kind."""
        payload = event.payload if event is not None else None
        return payload if isinstance(payload, cls) else None

    def moves_sessions(self) -> bool:
        """Whether sessions of the contracts follow from it (`contracts.session` folds these events)."""
        return False

    def sentence(self) -> str:
        """What happened, in plain words; it says nothing that the event does not say."""
        raise NotImplementedError  # the base of the payloads is not a kind of event; a test constructs each kind and reads its sentence  # noqa: E501

    def change(self, history: History, event: object) -> None:
        """Take the event, whose payload this is, into the history of its request."""
        if self.slot:
            setattr(history, self.slot, event)

    # ---- of a plugin's kind, besides what its reserved keys mean (`trail.reserved`)

    def learn(self, index: Any, event: Any) -> None:
        """What its plugin asks the index for (`trail.index.TrailIndex`)."""

    def tally(self, practice: Any, event: Any) -> None:
        """What it adds to the records of what operators did (`audit.practice.Practice`)."""

    def contradicts(self, seen: dict[str, Any]) -> str | None:
        """What is wrong with it after the events before, for `audit verify`; `seen` is what its plugin remembers."""
        return None


def nested(*, default: None, read: _Reader) -> Any:
    """A field for an object, or for a list of them, that `read` reads."""
    return field(default=default, metadata={"read": read})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(nested,))
def frozen_fields(cls: type[_T]) -> type[_T]:
    """A frozen dataclass, compared by identity. Its methods are those of `Fields`: making them for each kind of event
    would be a tenth of the processor time of a command that only looks.
    """
    return dataclass(kw_only=True, init=False, eq=False, repr=False)(cls)


Owner = int | str
"""The requester: uid of the owner of the draft's file; for a draft of an agent's run that run's id, whoever
owns the file.
"""


def owner_fields(owner: Owner | None) -> dict[str, Any]:
    """The fields of an event that say who asks."""
    return {"run": owner} if isinstance(owner, str) else {"owner_uid": owner}


@frozen_fields
class Placed(Payload):
    """An event that says where a request's file goes, or whose it is."""

    state: str | None = None
    """The state folder that the file goes to."""
    file: str | None = None
    """The file's name; there, when there is a `state`."""
    owner_uid: int | None = None
    """uid of the owner of the file."""
    run: str | None = None
    """Id of the requesting agent's run, instead of a uid: the file was in that run's inbox."""
    proposal_sha256: str | None = None
    """Digest of the proposal that the draft was made of."""
    files: Mapping[str, str] | None = None
    """Digest of the file ("") and of its companions, by their suffix (".sig", ".sig.NAME", ".proposal.json")."""

    @property
    def owner(self) -> Owner | None:
        """Who asks, as far as this event says."""
        return self.owner_uid if self.run is None else self.run

    def change(self, history: History, event: object) -> None:
        Payload.change(self, history, event)
        if self.state is not None and self.file is not None:
            history.state, history.file = self.state, self.file
        if history.owner is None:
            # The first event that names an owner determines the requester: a later file with the same id is
            # another party's attempt.
            history.owner = self.owner
        if self.proposal_sha256 is not None:
            history.proposal_sha256 = self.proposal_sha256


@frozen_fields
class Signature(Fields):
    """That a decision, which needs no signature, was signed all the same."""

    nonce: str
    """Used up by this event."""
    key: str
    """Fingerprint of the key, ``SHA256:…``."""
    act_sha256: str
    """Digest of the signed statement."""


@frozen_fields
class SignedAct(Payload):
    """An act that an operator signed; unsigned where the fields are None."""

    nonce: str | None = None
    """Used up by this event."""
    key: str | None = None
    """Fingerprint of the key, ``SHA256:…``."""
    act_sha256: str | None = None
    """Digest of the signed statement."""


def short(digest: str) -> str:
    """The first characters of a digest, for people; any other text as it is."""
    return digest[:12] if len(digest) == 64 else digest


def named(name: str | None) -> str:
    """A name behind a word, where there is one."""
    return f" {short(name)}" if name else ""


def because(*parts: str | None) -> str:
    """``: a - b`` of the parts that are there."""
    said = [part for part in parts if part]
    return f": {' - '.join(said)}" if said else ""


# ---- reading


class _Field(NamedTuple):
    name: str
    read: _Reader


class _Plan(NamedTuple):
    readers: Mapping[str, _Field]
    """By the key in the line: the name without the underscore that keeps it from being a word of Python (`from_`)."""
    required: tuple[_Field, ...]
    """Those without a default."""
    names: frozenset[str]
    required_names: frozenset[str]


_plans: dict[Any, _Plan] = {}


def _plan(cls: Any) -> _Plan:
    """How a class is read and written, worked out once, when the first of it is."""
    if cls in _plans:
        return _plans[cls]
    known = {
        item.name.rstrip("_"): _Field(item.name, item.metadata.get("read") or READERS[str(item.type)])
        for item in fields(cls)
    }
    required = tuple(known[item.name.rstrip("_")] for item in fields(cls) if item.default is MISSING)
    _plans[cls] = _Plan(
        known,
        required,
        frozenset(item.name for item in known.values()),
        frozenset(item.name for item in required),
    )
    return _plans[cls]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    # `isinstance` would take true and false for 1 and 0.
    return value if type(value) is int else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _texts(value: object, kind: type = str) -> tuple[Any, ...] | None:
    if not isinstance(value, (list, tuple)) or not {kind}.issuperset(map(type, value)):
        return None
    return tuple(value)


def _digests(value: object) -> dict[str, str] | None:
    if not isinstance(value, dict) or not {str}.issuperset(map(type, value.values())):
        return None
    return value


def _paths(value: object) -> dict[str, str | None] | None:
    if not isinstance(value, dict) or not all(item is None or isinstance(item, str) for item in value.values()):
        return None
    return value


READERS: Final[Mapping[str, _Reader]] = {
    "str | None": _text,
    "str": lambda value: _text(value) or "",
    "int | None": _number,
    "bool | None": _flag,
    "bool": lambda value: value is True,
    "tuple[str, ...] | None": _texts,
    "tuple[int, ...] | None": lambda value: _texts(value, int),
    "tuple[str, ...]": lambda value: _texts(value) or (),
    "Mapping[str, str] | None": _digests,
    "Mapping[str, str | None] | None": _paths,
}
"""What reads a field, by its type as it is written: these are the types that a field may have."""


def _plain(value: Any) -> Any:
    if isinstance(value, Fields):
        return value.to_data()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
