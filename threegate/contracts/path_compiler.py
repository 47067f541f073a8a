"""JSONPath (RFC 9535), compiled once and evaluated within a bound.

Invariant: an evaluation visits at most CONTRACT_JSONPATH_NODES values and never runs a backtracking regular
expression. The library parses; singular paths become key look-ups, others are walked here so that every visited
value is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathQuery
from jsonpath_rfc9535.exceptions import JSONPathError
from jsonpath_rfc9535.filter_expressions import Expression, FilterContext, FilterQuery
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment
from jsonpath_rfc9535.selectors import FilterSelector, IndexSelector, NameSelector, SliceSelector

from threegate.contracts.json_paths import MISSING, BadPath, PathTooWide
from threegate.core import limits

Absence = Literal["empty list", "no such key", "other"]
"""Why a path selects nothing: it goes through lists that are empty, objects on its way lack a key, or anything else."""


class _Environment(JSONPathEnvironment):
    """The library without `match` and `search`: they run another regex engine."""

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        del self.function_extensions["match"], self.function_extensions["search"]


_ENVIRONMENT = _Environment()


class Path:
    """A compiled path. `get` exists for singular paths; `select` always works and raises PathTooWide."""

    __slots__ = ("get", "normal", "query", "text")

    def __init__(self, text: str, query: JSONPathQuery) -> None:
        self.text = text
        self.query = query
        self.get: Callable[[Any], Any] | None = None
        self.normal: Any = str(query)
        """Equal for two spellings of one path."""
        if query.singular_query():
            selectors: list[Any] = [segment.selectors[0] for segment in query.segments]
            self.normal = tuple(item.name if isinstance(item, NameSelector) else item.index for item in selectors)
            self.get = _getter(self.normal)

    def select(self, root: Any) -> list[Any]:
        """All values at the path, in document order."""
        if self.get is None:
            return _walk(self.query, root)
        value = self.get(root)
        return [] if value is MISSING else [value]

    def selected(self, root: Any) -> list[Any] | None:
        """As `select`; None if it selects more than the limit."""
        try:
            return self.select(root)
        except PathTooWide:
            return None

    def absence(self, root: Any) -> Absence:
        """Why the path selects nothing, judged where its walk ends. Only for a path that selects nothing."""
        return _absence(self.query, root)


@lru_cache(maxsize=4096)
def compile_path(text: str) -> Path:
    """Compile a path. Raises BadPath with one line that says why."""
    # Contracts name the same few arguments again and again, so one compiled path serves all that are spelled alike.
    if len(text) > limits.CONTRACT_JSONPATH_CHARS:
        raise BadPath(f"a path has at most {limits.CONTRACT_JSONPATH_CHARS} characters")
    try:
        query = _ENVIRONMENT.compile(text)
    except (JSONPathError, RecursionError) as error:
        raise BadPath(f"not a JSONPath: {str(error).partition(chr(10))[0]}") from None
    try:
        # A query inside a filter is evaluated by the library, where `_walk` cannot count the values that it visits.
        simple = all(
            _simple(selector.expression)
            for segment in query.segments
            for selector in segment.selectors
            if isinstance(selector, FilterSelector)
        )
    except RecursionError:
        raise BadPath("not a JSONPath: nested too deeply") from None
    if not simple:
        raise BadPath("a query inside a filter selects one value (no *, .., slices or filters)")
    return Path(text, query)


def _simple(expression: Expression) -> bool:
    """Whether all queries inside a filter expression are singular."""
    if isinstance(expression, FilterQuery):
        return bool(expression.query.singular_query())
    parts = [getattr(expression, name, None) for name in ("expression", "left", "right")]
    parts.extend(getattr(expression, "args", ()))
    return all(_simple(part) for part in parts if isinstance(part, Expression))


def _getter(keys: tuple[str | int, ...]) -> Callable[[Any], Any]:
    """A function that follows `keys`, or gives MISSING."""
    if len(keys) == 1 and isinstance(keys[0], str):
        key = keys[0]
        return lambda root: root.get(key, MISSING) if isinstance(root, dict) else MISSING

    def follow(root: Any) -> Any:
        for key in keys:
            if isinstance(key, str):
                if not isinstance(root, dict):
                    return MISSING
                root = root.get(key, MISSING)
            elif isinstance(root, list) and -len(root) <= key < len(root):
                root = root[key]
            else:
                return MISSING
        return root

    return follow


def _absence(query: Any, root: Any) -> Absence:
    segments = iter(query.segments)
    below = [root]
    while below:
        values, segment = below, next(segments)
        searched: tuple[type, ...] = (dict,)
        if isinstance(segment, JSONPathRecursiveDescentSegment):
            values, searched = [item for value in values for item in _descend(value)], (dict, list)
        below = [
            item
            for value in values
            for selector in segment.selectors
            for item, keep in _children(selector, value, root)
            if keep
        ]
    named = [isinstance(selector, NameSelector) for selector in segment.selectors]
    if all(named) and all(isinstance(value, searched) for value in values):
        return "no such key"
    picked = any(named) or any(isinstance(selector, IndexSelector) for selector in segment.selectors)
    return "other" if picked or any(value != [] for value in values) else "empty list"


def _walk(query: Any, root: Any) -> list[Any]:
    """All values that a query selects. Raises PathTooWide."""
    left = limits.CONTRACT_JSONPATH_NODES
    values = [root]
    for segment in query.segments:
        selected: list[Any] = []
        if isinstance(segment, JSONPathRecursiveDescentSegment):
            around: list[Any] = []
            for value in values:
                for item in _descend(value):
                    left -= 1
                    if left < 0:
                        raise PathTooWide
                    around.append(item)
            values = around
        for value in values:
            for selector in segment.selectors:
                for item, keep in _children(selector, value, root):
                    left -= 1
                    if left < 0:
                        raise PathTooWide
                    if keep:
                        selected.append(item)
        values = selected
    return values


def _descend(value: Any) -> Iterator[Any]:
    """`value` and every list and object below it, in document order, without recursion."""
    stack = [value]
    while stack:
        item = stack.pop()
        yield item
        members = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        stack.extend(reversed([member for member in members if isinstance(member, dict | list)]))


def _children(selector: Any, value: Any, root: Any) -> Iterator[tuple[Any, bool]]:
    """The values that one selector looks at, and whether it selects them."""
    if isinstance(selector, NameSelector):
        if isinstance(value, dict) and selector.name in value:
            yield value[selector.name], True
    elif isinstance(selector, IndexSelector):
        if isinstance(value, list) and -len(value) <= selector.index < len(value):
            yield value[selector.index], True
    elif isinstance(selector, SliceSelector):
        if isinstance(value, list) and selector.slice.step != 0:
            for index in range(*selector.slice.indices(len(value))):
                yield value[index], True
    else:
        test = selector.expression.evaluate if isinstance(selector, FilterSelector) else None
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for item in members:
            yield (item, test is None or bool(test(FilterContext(env=_ENVIRONMENT, current=item, root=root))))
