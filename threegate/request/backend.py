"""The backends: each is one object, with everything that differs between what requests for them may contain and mean.

Invariant: a backend is an entry of one table, here or among the plugins, and its module (`runners/*/backend.py`).
Nothing of one is imported until it is asked for by its name, and no other code asks which one it is.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Literal, Protocol

from threegate.core.errors import InvalidInput, Refused
from threegate.core.plugins import OFF, Place, Plugin

if TYPE_CHECKING:
    from threegate.core.screen_parts import Item, Section
    from threegate.core.settings import Settings
    from threegate.core.workspace import Workspace
    from threegate.request.action import Action
    from threegate.request.findings import Findings
    from threegate.request.model import Delivery, InputFile, Request, Stage
    from threegate.request.problem import Problem

Version = Literal["1", "2"]
Attention = Literal["look first", "look", "rest"]
"""How soon a person should look at a draft: the order of lists, and of nothing else."""
ATTENTIONS: Final[tuple[Attention, ...]] = ("look first", "look", "rest")
"""In the order of a list."""
DEFAULT_BACKEND: Final = "ERA"


class Reading(Protocol):
    """A request that gate 1 is reading, as far as a backend sees it."""

    stage: Stage
    values: dict[str, Any]
    """The keys of the front matter that were accepted."""
    parts: dict[str, Any]
    """The sections of the body, by name."""
    findings: Findings
    """Where problems go."""

    def knows(self, key: str) -> bool:
        """Whether what a key says is known: it was accepted, or is not there."""

    def command(self) -> tuple[str, ...] | None:
        """The words of the section Command."""

    def block(
        self,
        name: str,
        rule: str,
        info: Literal["python", "json"],
        check: Callable[[str], tuple[Problem, ...]],
        *,
        mentions_all: bool = False,
    ) -> str | None:
        """The text of a section's block. `mentions_all`: it may name whatever it likes, but no secret."""


class Opened(Protocol):
    """Bytes of an input that were read."""

    def open(self) -> BinaryIO:
        """Raises OSError."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A request together with what is known of it in this workspace. This is one that runs code: nothing is."""

    action: Action
    """The Job's."""
    unfit: Refused | None = None
    """Why it could not run, for a reason that only these bytes have."""
    way: Delivery = "tree"
    """What a change becomes: what the person chose, otherwise what the project's setting says."""
    ways: tuple[Delivery, ...] = ()
    """What a person may choose from."""

    @property
    def next_way(self) -> Delivery:
        """The choice after this one, the first again after the last."""
        at = self.ways.index(self.way) if self.way in self.ways else -1
        return self.ways[(at + 1) % len(self.ways)]

    def why_unfit(self) -> Refused | None:
        """Why it cannot be done as things are now."""
        return self.unfit

    def claims(self) -> Section | None:
        """What others say of it, apart from the request."""
        return None


@dataclass(frozen=True, slots=True)
class Binding:
    """What a request is bound to."""

    workspace: Workspace
    settings: Settings
    trail: Any
    """Its `threegate.trail.Trail`."""
    request: Request
    open_input: Callable[[InputFile], BinaryIO]
    owner: int | str | None
    """The requester: a `threegate.trail.Owner`."""

    def bound(self) -> Bound:
        """The request with what it is bound to. Raises Refused, also while the plugin of its backend is off."""
        if (why := why_off(self.request.backend, self.settings)) is not None:
            raise Refused("backend_off", why)
        return BACKENDS[self.request.backend].bind(self)


class Backend(ABC):
    """One backend, as gate 1, the Job, a grant and a person see it. How it runs is in `threegate.runners.backend`."""

    name: ClassVar[str]
    sections: ClassVar[tuple[str, ...]]
    """The sections of the body, in order (docs/spec/1-tool-request.md, "Body")."""
    optional_sections: ClassVar[tuple[str, ...]] = ()
    closely: ClassVar[tuple[str, ...]]
    """The sections that have a closer reader than prose has."""
    network: ClassVar[bool] = False
    """Whether `network: allowlist` is possible."""
    container: ClassVar[bool] = False
    """Whether the Job names the platform's image, OCI runtime and seccomp profile, and a fixed environment."""
    data_inputs: ClassVar[bool] = True
    """Whether an input is data and never code, so that a grant may leave its content open."""
    language: ClassVar[str] = ""
    """The only language of its code."""
    version: ClassVar[Version] = "1"
    """The `schema_version` of its requests."""
    keys: ClassVar[tuple[str, ...]] = ()
    """Front matter keys that its requests need besides those of their version."""
    optional: ClassVar[tuple[str, ...]] = ()
    """Keys that they may have besides."""
    lists: ClassVar[Mapping[str, Any]] = {}
    """What the published schema says of its lists of files besides, by key."""
    no_outputs: ClassVar[tuple[str, str] | None] = None
    """The rule and its words against output files, if it leaves none."""

    def check(self, values: Mapping[str, Any], written: Container[str], wrong: Callable[[str, str, str], None]) -> None:
        """Rules between keys: `values` are those `written` that were accepted; `wrong` takes rule, key and words."""
        return None

    @abstractmethod
    def read(self, reading: Reading) -> Action | None:
        """The action, from the sections; None where they do not say one, which is then a finding."""

    def drafted(self, command: str, code: str, variables: str | None) -> Action:
        """The action of a draft made from these options. Raises InvalidInput."""
        raise InvalidInput(f"backend {self.name}: its requests are not drafted from options")

    def bind(self, binding: Binding) -> Bound:
        """What the request means here. Raises Refused, OSError."""
        return Bound(action=binding.request.action)

    def input_items(self, bound: Bound, inputs: Sequence[Opened]) -> Mapping[str, tuple[Item, ...]]:
        """What a screen shows of each input, by name; empty where their bytes are shown."""
        return {}

    def attention(
        self, workspace: Workspace, settings: Settings, request: Request, open_input: Callable[[InputFile], BinaryIO]
    ) -> Attention | None:
        """How soon a person should look at a draft for what is in its inputs; None where a list does not look into
        them. `open_input` gives their verified bytes. May raise anything: then it comes first.
        """
        return None

    def problem(self, workspace: Workspace, index: Any, request: Request, owner: Any) -> tuple[str, str] | None:
        """What keeps a draft of `owner` from running here, as rule and words; `index` is the locked `TrailIndex`."""
        return None

    def keeps_state(self, workspace: Workspace, action: Action) -> bool:
        """Whether what it does may depend on what was done before, so that it is decided on alone."""
        return False

    def refuse_other_state(self, workspace: Workspace, owner: int | str | None, action: Action) -> None:
        """Raises Refused where what was done before is not what the Job says."""
        return None


_CORE: Final = {"ERA": "threegate.runners.era.backend", "monty": "threegate.runners.monty.backend"}
_PLUGINS: Final = Place[Backend]("backend")


class _Backends(Mapping[str, Backend]):
    """All backends, by name. Names import nothing."""

    def __init__(self) -> None:
        self.loaded: dict[str, Backend] = {}

    def __getitem__(self, name: str) -> Backend:
        """Raises KeyError."""
        if name not in self.loaded:
            found = importlib.import_module(_CORE[name]).BACKEND if name in _CORE else _PLUGINS.named(name)
            self.loaded[name] = found
        return self.loaded[name]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return (*_CORE, *_PLUGINS.names())

    def __contains__(self, name: object) -> bool:
        return name in self._names or name in self.loaded

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._names, *self.loaded)))

    def __len__(self) -> int:
        return len(list(iter(self)))


BACKENDS: Final = _Backends()


def plugin_of(backend: str) -> Plugin | None:
    """The listed plugin of a backend; None for one of the core, and for one that no plugin lists."""
    return _PLUGINS.listed().get(backend)


def why_absent(backend: str) -> str | None:
    """Why the backend of a listed plugin is not here, as one line; None if it is, or is not a plugin's."""
    plugin = plugin_of(backend)
    return None if plugin is None else plugin.why_absent()


def why_off(backend: str, settings: Settings) -> str | None:
    """Why requests for a backend are not for this workspace, because its plugin is off; None if it is on."""
    plugin = plugin_of(backend)
    if plugin is None or plugin.name not in settings.plugins.off:
        return None
    return f"the backend {backend} is of the plugin {plugin.name}, which {OFF}"
