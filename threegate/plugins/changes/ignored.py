"""Which paths of a project are left out of its change sets by their kind: what git ignores there, or what builds make.

Invariant: the project and its owner decide, never the work copy. A path that the project's repository tracks is not
ignored, whatever a rule says. Without a repository, folders and files that builds make by themselves are left out by
their names; one with a name that other folders have too counts only if the project did not have it.
Source: gitignore(5); docs/spec/8-agents.md, "Made from two trees".
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import re2

from threegate.core import limits
from threegate.plugins.changes.trees import Tree

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

Kind = Literal["ignored", "output"]

_OUTPUT_FOLDERS: Final = frozenset(
    """node_modules bower_components __pycache__ .venv .tox .nox .eggs .mypy_cache .pytest_cache .ruff_cache
    .hypothesis .gradle .next .nuxt .svelte-kit .turbo .parcel-cache .angular .dart_tool .terraform .stack-work
    .ipynb_checkpoints .nyc_output .pnpm-store elm-stuff DerivedData""".split()
)
_OUTPUT_ENDINGS: Final = (".pyc", ".pyo", ".class", ".o", ".egg-info")
_OUTPUT_FILES: Final = frozenset({".DS_Store", ".coverage"})
_OUTPUT_BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "target": (),
    "build": (
        "build.gradle", "build.gradle.kts", "CMakeLists.txt", "meson.build", "package.json", "pubspec.yaml",
        "pyproject.toml", "setup.py",
    ),
    "dist": ("package.json", "pyproject.toml", "setup.py"),
    "out": ("package.json", "foundry.toml"),
    "coverage": ("package.json",),
    "htmlcov": ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini"),
    "_build": ("mix.exs", "dune-project"),
    "deps": ("mix.exs",),
    "vendor": ("composer.json", "Gemfile"),
    "Pods": ("Podfile",),
    "obj": ("Makefile", "makefile"),
}  # fmt: skip
"""Folders that are outputs if they are new, and one of these names is beside them; `target` without any."""
_OUTPUT_MARKS: Final = ("pyvenv.cfg", "CACHEDIR.TAG")
"""A new folder with one of these in it is an output whatever its name is."""


@dataclass(frozen=True, slots=True)
class Ignoring:
    """What is known of a project's repository besides the `.gitignore` files in the project."""

    tracked: frozenset[str] = frozenset()
    """The paths that the index had at the start."""
    patterns: tuple[tuple[str, str], ...] = ()
    """Texts of other files with rules, the strongest first: those of folders above the project, the repository's
    `info/exclude`, and the owner's `core.excludesFile`. Each with what comes before a path of the project in it: empty,
    or the path of the project with a slash.
    """
    repository: bool = True
    """Whether there is one; without, usual build outputs are left out."""


class IgnoreRules:
    """The rules of a project, each file of them read once. A rule in a deeper folder wins, as in git."""

    def __init__(self, project: Tree, work: Tree, known: Ignoring) -> None:
        self._project = project
        self._work = work
        self._known = known
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        self._above = [(prefix, _spec(text)) for prefix, text in known.patterns]
        self._holding: set[str] | None = None
        """Folders with something tracked in them, once it is asked."""
        self._entered: set[str] = set()
        """Ignored folders that are entered, because something in them is tracked."""

    def why(self, path: str, *, folder: bool) -> Kind | None:
        """Why a path, whose folders are not left out, is left out; None if it is not.

        Ask about a folder before what is in it: of an ignored folder with tracked files only these are not left out.
        """
        if not self._known.repository and self._is_output(path, folder):
            return "output"
        if path.rpartition("/")[0] not in self._entered and not self.ignores(path, folder=folder):
            return None
        if self._holds_tracked(path):
            self._entered.add(path)
            return None
        return None if path in self._known.tracked else "ignored"

    def leaves_out(self, path: str) -> Kind | None:
        """Why a file is left out, by itself or with a folder above it; None if it is not."""
        places = [place for place, char in enumerate(path) if char == "/"]
        above = (self.why(path[:place], folder=True) for place in places)
        return next(filter(None, above), None) or self.why(path, folder=False)

    def _holds_tracked(self, folder: str) -> bool:
        if self._holding is None:
            self._holding = set()
            for path in self._known.tracked:
                above = path.rpartition("/")[0]
                while above and above not in self._holding:
                    self._holding.add(above)
                    above = above.rpartition("/")[0]
        return folder in self._holding

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Whether a rule ignores a path whose folders are not ignored, tracked or not."""
        names = path.split("/")
        path = path if path.isascii() else _matchable(path)
        parts, end = path.split("/"), "/" if folder else ""
        for depth in range(len(parts) - 1, -1, -1):
            spec = self._rules_in("/".join(names[:depth]))
            if spec is not None and (found := spec.check_file("/".join(parts[depth:]) + end).include) is not None:
                return found
        for prefix, spec in self._above:
            if (found := spec.check_file(prefix + path + end).include) is not None:
                return found
        return False

    def _rules_in(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            name = f"{folder}/.gitignore" if folder else ".gitignore"
            entry = self._project.look(name)
            spec = None
            if entry is not None and entry.kind == "file" and entry.size <= limits.IGNORE_FILE_BYTES:
                with suppress(OSError):  # without its rules nothing is ignored: the person sees more, not less
                    spec = _spec(b"".join(self._project.chunks(name)).decode("utf-8", "replace"))
            self._specs[folder] = spec
        return self._specs[folder]

    def _is_output(self, path: str, folder: bool) -> bool:
        above, _, name = path.rpartition("/")
        if name.endswith(_OUTPUT_ENDINGS):
            return True
        if not folder:
            return name in _OUTPUT_FILES
        if name in _OUTPUT_FOLDERS:
            return True
        if self._project.look(path) is not None:
            return False
        if name in _OUTPUT_BESIDE:
            beside = _OUTPUT_BESIDE[name]
            if not beside or any(self._is_file(f"{above}/{mark}" if above else mark) for mark in beside):
                return True
        return any(self._is_file(f"{path}/{mark}") for mark in _OUTPUT_MARKS)

    def _is_file(self, path: str) -> bool:
        entry = self._work.look(path)
        return entry is not None and entry.kind == "file"


def _spec(text: str) -> GitIgnoreSpec:
    """The rules of a text. As in git, its lines end with a line feed and nothing else, and one that is not a pattern
    matches nothing.
    """
    from pathspec import GitIgnoreSpec

    lines = [_line(line) for line in text.removeprefix("\ufeff").split("\n")]
    with warnings.catch_warnings(action="ignore"):  # about patterns as Python's `re` would read them
        try:
            return GitIgnoreSpec.from_lines(lines)
        except _NO_PATTERN:
            return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _line(text: str) -> str:
    """One line without its carriage return. Another one is a part of the pattern, which would be stripped as a blank:
    macOS names a file `Icon` and a carriage return.
    """
    text = text.removesuffix("\r")
    return f"{text[:-1]}[\r]" if text.endswith("\r") else text


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except _NO_PATTERN:
        return False
    return True


_NO_PATTERN: Final = (ValueError, re.error, re2.error)
"""What is raised for a line that is not a pattern, such as `!`, a backslash at the end, or `[z-a]`."""


def _matchable(path: str) -> str:
    """A path as RE2 takes it: each byte that is not UTF-8 is one character, which only a wildcard matches."""
    return "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in path)
