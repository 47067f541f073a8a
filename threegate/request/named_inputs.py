"""Which files of /in a command line names, and which of those will not be there.

Invariant: only what is surely a path counts: a word that is one, the value of an option or of ``name=``, or the script
of an interpreter. Words that are code, patterns or plain text are left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from threegate.request.command.data_tools import TOOLS, tool_of
from threegate.request.command.inline_code import INTERPRETERS, code_words
from threegate.request.command.pinned_script import script_word
from threegate.request.command.programs import spellings
from threegate.request.command.python_line import PythonLine
from threegate.request.in_folder import InFolder
from threegate.request.sandbox_contents import near

_PATH: Final = re.compile(r"(?:-{0,2}[A-Za-z][A-Za-z0-9_-]*=)?@?(/in(?:/[^\s\"'`,;:*?\[\]{}()<>|=@]*)?)")
# Of a path behind one of these, nothing is opened.
_PATTERNS: Final = frozenset(("-path", "-ipath", "-wholename", "--exclude", "--exclude-dir", "--include"))


class Missing(NamedTuple):
    """A path that will not be there: the word that names it, and why, in our words."""

    at: int
    path: str
    why: str


def missing_inputs(argv: Sequence[str], workdir: str, python: PythonLine | None, inside: InFolder) -> Iterator[Missing]:
    """What the command names and a run would not find, each path once."""
    told: set[str] = set()
    for index, path in _named(argv, workdir, python):
        if path not in told and (why := _why_missing(path, inside)) is not None:
            told.add(path)
            yield Missing(index, path, why)


def _named(argv: Sequence[str], workdir: str, python: PythonLine | None) -> Iterator[tuple[int, str]]:
    script = script_word(argv)
    index = python.at if python is not None and python.kind == "file" else script and argv.index(script, 1)
    if index:
        yield index, posixpath.normpath(posixpath.join(workdir, argv[index]))
    tool = TOOLS.get(tool_of(argv[0]) or "")
    if tool is not None and tool.any_words:
        return
    at = next((place for place, word in enumerate(argv) if not INTERPRETERS.isdisjoint(spellings(word))), 0)
    code = code_words(argv, at)
    for place, word in enumerate(argv):
        match = _PATH.fullmatch(word)
        if match is None or place in code or argv[place - 1] in _PATTERNS or word.startswith("--exclude"):
            continue
        yield place, posixpath.normpath(match[1])


def _why_missing(path: str, inside: InFolder) -> str | None:
    """Why a path is not there; None if it is, or if that is not known."""
    if path != "/in" and not path.startswith("/in/"):
        return "nothing is there when the run begins" if path.startswith(("/out/", "/tmp/")) else None
    name = path.removeprefix("/in").lstrip("/")
    if inside.has(name) is not False:
        return None
    first, _, rest = name.partition("/")
    packed = next((item for item in inside.inputs if item.unpack and item.name == name), None)
    if packed is not None:
        return f"it is unpacked: its files are in /in/{name.removesuffix('.tar')}/"
    if not rest or not inside.has(first):
        return f"it is not a declared input{_like(first, list(inside.names('')))}"
    folder = name.rpartition("/")[0]
    return f"the declared input has nothing of this name{_like(name.rpartition('/')[2], list(inside.names(folder)))}"


def _like(name: str, names: Sequence[str]) -> str:
    found = near(name, names)
    return f" (did you mean {' or '.join(found)}?)" if found else ""
