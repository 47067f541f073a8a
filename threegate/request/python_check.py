"""Read the Python that an ERA command runs, before anybody signs: does it parse where it will run, and are the modules
there that it imports?

Invariant: any bytes get an answer, and nothing of them runs. An error is only what must fail when the file is loaded;
what may be caught, skipped or changed by the code itself is a warning at most. What is not known of the sandbox, or of
an input's bytes, refuses nothing.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from threegate.core import limits
from threegate.core.secretscan.scan import mask_secrets
from threegate.request.characters import visible
from threegate.request.code import catches_import, parse_python, plain_words
from threegate.request.command.python_line import PythonLine
from threegate.request.in_folder import InFolder
from threegate.request.newer_syntax import newer_f_string
from threegate.request.report import Severity
from threegate.request.sandbox_contents import Contents, near
from threegate.request.shown_whole import ZIP_END, names_other_encoding

_OLDEST: Final = 7
"""`ast.parse` knows the grammars from Python 3.7 on."""
_PEP_701: Final = 12
"""From Python 3.12 on a field of an f-string may have any quotes."""
_OURS: Final = sys.version_info[1]
_ALWAYS: Final = frozenset(sys.builtin_module_names) | {"__future__", "__main__"}
_SEARCH: Final = frozenset(("path", "meta_path", "path_hooks", "modules", "addsitedir"))
"""What of `sys` and `site` decides where modules come from: code that names one may make its own."""
_ENDS: Final = frozenset(("exit", "quit", "_exit", "abort"))
_SUFFIXES: Final = (".py", ".so", ".pyc", ".abi3.so")


class ScriptProblem(NamedTuple):
    """What is wrong with a script: `where` is the file and line, in our words."""

    kind: Literal["syntax", "module"]
    severity: Severity
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class _Script:
    """A piece of Python: as a message names it, its path below /in (None for code on the command line)."""

    shown: str
    path: str | None
    data: bytes
    main: bool


class _Import(NamedTuple):
    node: ast.Import | ast.ImportFrom
    certain: bool
    """Whether it runs, unguarded, whenever the file is loaded."""


def check_python(line: PythonLine, workdir: str, inside: InFolder, contents: Contents) -> Iterator[ScriptProblem]:
    """What is wrong with the Python that a command line runs. Never raises."""
    if line.kind == "input":
        message = "Python reads its program from standard input, which is empty in a run; name a script or use -c"
        yield ScriptProblem("syntax", "warning", "the command", message)
        return
    check = _Check(inside, contents, line, _below_in(workdir))
    yield from check.run()


def _below_in(folder: str) -> str | None:
    """A folder of the sandbox relative to /in; None if it is elsewhere."""
    return folder[4:] if folder.startswith("/in/") else "" if folder == "/in" else None


@dataclass
class _Check:
    inside: InFolder
    contents: Contents
    line: PythonLine
    workdir: str | None
    search: list[str] = field(default_factory=list)
    """The folders below /in that are searched for modules."""
    left: int = field(default_factory=lambda: limits.SCRIPT_CHECKED_BYTES)
    seen: set[str] = field(default_factory=set)
    waiting: deque[_Script] = field(default_factory=deque)

    def run(self) -> Iterator[ScriptProblem]:
        yield from self._begin()
        while self.waiting:
            yield from self._script(self.waiting.popleft())

    # ---- what is read

    def _begin(self) -> Iterator[ScriptProblem]:
        line = self.line
        if line.kind == "code":
            self._searched(self.workdir)
            self.waiting.append(_Script("the code of -c", None, line.text.encode(), main=True))
        elif line.kind == "module":
            self._searched(self.workdir)
            yield from self._module_run(line.text)
        else:
            path = _below_in(_joined(self.workdir, line.text))
            if path is None:
                return
            if self.inside.is_folder(path):
                self._searched(path)
                yield from self._main_of(path, path)
            else:
                self._searched(path.rpartition("/")[0])
                self._read(path, main=True)

    def _searched(self, folder: str | None) -> None:
        if folder is not None and not self.line.isolated:
            self.search.append(folder)

    def _module_run(self, name: str) -> Iterator[ScriptProblem]:
        """`python -m NAME`."""
        top = name.partition(".")[0]
        folder = self._local(top)
        if folder is None:
            yield from self._absent(top, "the command", certain=True)
            return
        path = _under(folder, name.replace(".", "/"))
        if self.inside.is_file(f"{path}.py"):
            self._read(f"{path}.py", main=True)
        else:
            yield from self._main_of(path, name)

    def _main_of(self, folder: str, shown: str) -> Iterator[ScriptProblem]:
        main = _under(folder, "__main__.py")
        if self.inside.is_file(main) is False:
            message = f"{_said(shown)} has no __main__.py, so Python cannot run it"
            yield ScriptProblem("module", "error", "the command", message)
        else:
            self._read(main, main=True)

    def _read(self, path: str, *, main: bool = False) -> None:
        """Queue a file of /in, once."""
        if path in self.seen or len(self.seen) >= limits.SCRIPTS_CHECKED:
            return
        self.seen.add(path)
        data = self.inside.read(path, limits.SCRIPT_CHECKED_BYTES + 1)
        if data is not None and ZIP_END not in data and not path.endswith((".pyc", ".so")):
            self.waiting.append(_Script(f"/in/{path}", path, data, main))

    # ---- one file

    def _script(self, script: _Script) -> Iterator[ScriptProblem]:
        self.left -= len(script.data)
        if self.left < 0:
            most = limits.SCRIPT_CHECKED_BYTES
            yield self._syntax(script, 0, f"not checked: of all scripts together {most} bytes are", "warning")
            return
        read = self._parse(script)
        if isinstance(read, ScriptProblem):
            yield read
            return
        changes = _changes_search(read)
        for node, certain in _imports(read, main=script.main):
            yield from self._import(script, node, certain and not changes)

    def _parse(self, script: _Script) -> ast.Module | ScriptProblem:
        data = script.data.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in data:
            return self._syntax(script, data.count(b"\n", 0, data.index(b"\0")) + 1, "a NUL byte; take it out")
        if names_other_encoding(data.decode("ascii", "replace")):
            message = "not checked: it says that it is in another encoding than UTF-8"
            return self._syntax(script, 1, message, "warning")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            return self._syntax(script, data.count(b"\n", 0, error.start) + 1, "not UTF-8, and no line says what else")
        minor = self._minor()
        if minor is not None and minor < _PEP_701 and (at := newer_f_string(text)) is not None:
            return self._syntax(
                script,
                at,
                "an f-string with its own quotes, a backslash or a comment in a field needs Python 3.12, and this "
                f"is read by Python 3.{minor}; use other quotes inside, or a name for the value",
            )
        try:
            return parse_python(text, minor if minor is not None and _OLDEST <= minor < _OURS else None)
        except SyntaxError as error:
            message, at = plain_words(error.msg), error.lineno or 1
            if "too many nested" in error.msg or "too complex" in error.msg:
                return self._syntax(script, at, "nested too deeply to be read; make it flatter", "warning")
        except (ValueError, RecursionError, MemoryError):
            return self._syntax(script, 0, "nested too deeply to be read; make it flatter", "warning")
        if minor is None or minor > _OURS:
            where = self.contents.where
            known = f"{where} has Python 3.{minor}" if minor is not None else f"the Python of {where} is not known"
            return self._syntax(script, at, f"not Python 3.{_OURS}: {message}; {known}", "warning")
        return self._syntax(script, at, f"not Python 3.{minor}: {message}; fix the code")

    def _minor(self) -> int | None:
        """The version that reads the script, as far as it is known."""
        return self.contents.minor if self.line.minor is None else self.line.minor

    def _syntax(self, script: _Script, line: int, message: str, severity: Severity = "error") -> ScriptProblem:
        return ScriptProblem("syntax", severity, _place(script, line), message)

    # ---- its imports

    def _import(self, script: _Script, node: ast.Import | ast.ImportFrom, certain: bool) -> Iterator[ScriptProblem]:
        where = _place(script, node.lineno)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._named(alias.name, where, certain)
        elif not node.level:
            yield from self._named(node.module or "", where, certain, [alias.name for alias in node.names])
        elif script.main and certain and self.line.kind != "module":
            message = "a relative import in a file that is run by its path; import the module by its name"
            yield ScriptProblem("module", "error", where, message)

    def _named(self, name: str, where: str, certain: bool, parts: Sequence[str] = ()) -> Iterator[ScriptProblem]:
        """An import of a module by its whole name, or of `parts` from it."""
        names = name.split(".")
        folder = self._local(names[0])
        if folder is None:
            yield from self._absent(names[0], where, certain)
            return
        if not certain:
            return
        path = folder
        for part in names:
            path = _under(path, part)
            self._follow(path)
        for part in parts:
            self._follow(_under(path, part))

    def _follow(self, path: str) -> None:
        """Read the file of a module that is among the inputs."""
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if self.inside.is_file(file):
                self._read(file)

    def _local(self, name: str) -> str | None:
        """The searched folder in which a module is, or may be; None if it is in none."""
        for folder in self.search:
            path = _under(folder, name)
            if self.inside.is_folder(path) is not False:
                return folder
            if any(self.inside.is_file(path + suffix) is not False for suffix in _SUFFIXES):
                return folder
            if any(found.startswith(f"{name}.") and found.endswith(".so") for found in self.inside.names(folder)):
                return folder
        return None

    def _absent(self, name: str, where: str, certain: bool) -> Iterator[ScriptProblem]:
        """The problem with a module that is not among the inputs, if the sandbox lacks it too."""
        contents = self.contents
        known = contents.modules
        other = self.line.minor is not None and self.line.minor != contents.minor
        if known is None or other or name in known or name in _ALWAYS:
            return
        message = f"{contents.where} has no Python module {_said(name)}{_what_it_has(name, known, contents)}"
        yield ScriptProblem("module", "error" if certain else "warning", where, message)


def _what_it_has(name: str, known: frozenset[str], contents: Contents) -> str:
    """The modules that are most like the missing one, and those that are not Python's own."""
    like = near(name, known)
    own = sorted(item for item in known - sys.stdlib_module_names if not item.startswith("_"))
    more = own[: limits.MODULES_SHOWN]
    version = f"Python {contents.python}" if contents.python else "Python"
    has = f"it has the standard library of {version}"
    if more:
        has += f" and {', '.join(more)}{' …' if len(own) > len(more) else ''}"
    return f"{f' (did you mean {like[0]}?)' if like else ''}; {has}; or send the module as an input"


def _joined(workdir: str | None, path: str) -> str:
    """The absolute path of a script, without `.` and empty segments; gate 1 refuses `..`."""
    whole = path if path.startswith("/") else f"/in/{workdir}/{path}" if workdir is not None else f"/elsewhere/{path}"
    return "/" + "/".join(part for part in whole.split("/") if part not in ("", "."))


def _under(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _said(name: str) -> str:
    """A name out of foreign text, as a message repeats it."""
    return mask_secrets(visible(name))[: limits.SANDBOX_NAME_CHARS]


def _place(script: _Script, line: int) -> str:
    if script.path is None:
        return f"{script.shown}, line {line}" if line else script.shown
    return f"{_said(script.shown)}:{line}" if line else _said(script.shown)


def _changes_search(tree: ast.Module) -> bool:
    """Whether the code names what decides where modules come from."""
    named = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return any(node.attr in _SEARCH and getattr(node.value, "id", "") in ("sys", "site") for node in named)


def _imports(tree: ast.Module, *, main: bool) -> Iterator[_Import]:
    """The imports of a file, except those whose failure is caught or that never run."""
    waiting: list[tuple[Sequence[ast.stmt], bool]] = [(tree.body, True)]
    while waiting:
        body, certain = waiting.pop()
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield _Import(node, certain)
            elif isinstance(node, ast.If):
                taken = _branch(node.test, main)
                if taken is not False:
                    waiting.append((node.body, certain and taken is True))
                waiting.append((node.orelse, certain and taken is False))
            elif isinstance(node, ast.Try | ast.TryStar):
                caught = any(catches_import(handler) and not _gives_up(handler) for handler in node.handlers)
                if not caught:
                    waiting.append((node.body, certain))
                waiting += [(handler.body, False) for handler in node.handlers]
                waiting += [(node.orelse, certain and not caught), (node.finalbody, certain)]
            elif isinstance(node, ast.With | ast.ClassDef):
                suppresses = isinstance(node, ast.With)  # contextlib.suppress(ImportError) is one
                waiting.append((node.body, certain and not suppresses))
            else:
                inner = [getattr(node, name, ()) for name in ("body", "orelse")]
                inner += [case.body for case in getattr(node, "cases", ())]
                waiting += [(part, False) for part in inner if part]


def _branch(test: ast.expr, main: bool) -> bool | None:
    """Whether an `if` is taken when the file is loaded; None: it depends."""
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    if name == "TYPE_CHECKING":
        return False
    if isinstance(test, ast.Compare) and getattr(test.left, "id", "") == "__name__":
        return main
    return None


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler always ends the program: it raises, or calls exit, as its last step."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise):
        return True
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        return False
    called = last.value.func
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in _ENDS
