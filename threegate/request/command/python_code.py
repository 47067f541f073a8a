"""What Python code would start or install, read from its syntax tree and never run.

Used for ``python -c`` and for Monty's Code section. Names are followed through imports and through the usual
detours (`__import__`, `getattr`, `import_module`, `exec` of a literal); what is computed at run time is not, and
need not be: the walls of docs/spec/6-runners.md carry that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from threegate.core import limits
from threegate.request.command.programs import names

Deed = Literal["shell", "start", "install"]

INSTALLER_MODULES: Final = names(
    "pip ensurepip venv virtualenv pipx uv conda easy_install poetry pipenv pdm hatch pkg_resources.easy_install get-pip"
)
_SHELL_CALLS: Final = names("""os.system os.popen os.popen2 os.popen3 posix.system subprocess.getoutput subprocess.getstatusoutput commands.getoutput
    commands.getstatusoutput asyncio.create_subprocess_shell asyncio.subprocess.create_subprocess_shell popen2.popen2 platform.popen
    pty.spawn.shell""")
_START_CALLS: Final = names("""subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen os.execl os.execle os.execlp
    os.execlpe os.execv os.execve os.execvp os.execvpe os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp
    os.spawnvpe os.posix_spawn os.posix_spawnp asyncio.create_subprocess_exec pty.spawn""")
_MODULE_CALLS: Final = frozenset(
    {"__import__", "importlib.import_module", "runpy.run_module", "builtins.__import__"}
)
_CODE_CALLS: Final = frozenset({"exec", "eval", "compile", "builtins.exec", "builtins.eval"})
_SHELL_METHODS: Final = frozenset(("system", "popen"))
"""Methods of whatever object: with an argument nothing else is called so."""
_DEPTH: Final = 3
_PARTS: Final = re.compile(
    r"""\b(?:[rbu]|br|rb)?+(?:\"{3}(?:[^"\\]|\\.|"(?!""))*+\"{3}|'{3}(?:[^'\\]|\\.|'(?!''))*+'{3}|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
    r"""|\#[^\n]*+|\w++|[^\w\s]""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Act:
    """Something that code would do. `words` are the literal words of a program that is started, '' where unknown."""

    deed: Deed
    line: int
    column: int
    what: str
    words: tuple[str, ...] = ()


class NotPython(ValueError):
    """The text does not parse as this Python's grammar."""


class TooMuch(ValueError):
    """The text is too long or too deeply nested to be parsed in bounded time."""


def parts(text: str) -> int:
    """A cheap hint of how long a text takes to parse: its words and marks. What f-strings embed is dear."""
    return len(_PARTS.findall(text)) + 10 * text.count("{")


def parse(code: str) -> Sequence[ast.AST]:
    """The nodes of some code's tree. Raises NotPython or TooMuch."""
    if parts(code) > limits.CODE_PARTS:
        raise TooMuch
    try:
        return list(ast.walk(ast.parse(code)))
    except (RecursionError, MemoryError):
        raise TooMuch from None
    except (SyntaxError, ValueError) as error:
        raise (TooMuch if "too many nested" in str(error) else NotPython) from None


def acts(nodes: Sequence[ast.AST], depth: int = 0) -> Iterator[Act]:
    """What the code whose nodes these are would start or install."""
    aliases: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    aliases[alias.asname] = alias.name
                yield from _module(alias.name, node)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = aliases[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
                if name in _SHELL_CALLS:
                    yield Act("shell", node.lineno, node.col_offset + 1, name)
            yield from _module(node.module or "", node)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and (name := _dotted(node.value, aliases)) != ""
        ):
            aliases[node.targets[0].id] = name
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            if (name := _dotted(node, aliases)) in _SHELL_CALLS:
                yield Act("shell", node.lineno, node.col_offset + 1, name)
            if isinstance(node, ast.Call):
                yield from _call(node, aliases, depth)


def _module(name: str, node: ast.stmt | ast.expr) -> Iterator[Act]:
    if name.split(".")[0] in INSTALLER_MODULES:
        yield Act("install", node.lineno, node.col_offset + 1, name.split(".")[0])


def _call(node: ast.Call, aliases: dict[str, str], depth: int) -> Iterator[Act]:
    """One call."""
    called = _dotted(node.func, aliases)
    first = node.args[0] if node.args else _keyword(node, "args")
    text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    place = (node.lineno, node.col_offset + 1)
    shell = _keyword(node, "shell")
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if (shell is not None and not (isinstance(shell, ast.Constant) and not shell.value)) or (
        method in _SHELL_METHODS and node.args
    ):
        yield Act("shell", *place, called or method or "shell=True")
    elif called in _START_CALLS:
        yield Act(
            "start", *place, called, tuple(_literal(word, aliases) for word in _words(called, node, first))
        )
    elif called in _MODULE_CALLS and text is not None:
        yield from _module(text, node)
    elif called in _CODE_CALLS and text is not None and depth < _DEPTH:
        with suppress(NotPython, TooMuch):
            for act in acts(parse(text), depth + 1):
                yield Act(act.deed, *place, act.what, act.words)


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in node.keywords if word.arg == name), None)


def _words(called: str, node: ast.Call, first: ast.expr | None) -> Sequence[ast.expr]:
    """The words of the program that a call starts: a list, or os.exec's and os.spawn's program and its words."""
    if not called.startswith(("os.exec", "os.spawn", "os.posix_spawn")):
        if isinstance(first, ast.List | ast.Tuple):
            return first.elts
        return node.args if node.args or first is None else [first]
    rest = node.args[called.startswith("os.spawn") :]
    given = rest[1].elts if len(rest) > 1 and isinstance(rest[1], ast.List | ast.Tuple) else rest[1:]
    return [*rest[:1], *given[1:]]


def _literal(node: ast.expr, aliases: dict[str, str]) -> str:
    """A word of a started program as far as it stands in the code."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return "python" if _dotted(node, aliases) == "sys.executable" else ""


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """``os.system`` for an expression that is that, by whatever detour; '' for anything else."""
    parts: list[str] = []
    for _ in range(8):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            return ".".join([aliases.get(node.id, node.id), *reversed(parts)])
        elif isinstance(node, ast.Call | ast.Subscript):
            looked_up = _looked_up(node)
            if looked_up is None:
                return ""
            name, owner = looked_up
            parts.append(name)
            if owner is None:
                return ".".join(reversed(parts))
            node = owner
        else:
            return ""
    return ""


def _looked_up(node: ast.Call | ast.Subscript) -> tuple[str, ast.expr | None] | None:
    """``getattr(x, "n")``, ``vars(x)["n"]`` and ``x.__dict__["n"]`` give n of x; ``__import__("n")`` and
    ``sys.modules["n"]`` give the module n."""
    if isinstance(node, ast.Subscript):
        name, base = node.slice, node.value
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            return None
        if isinstance(base, ast.Attribute) and base.attr in ("__dict__", "modules"):
            return name.value, base.value if base.attr == "__dict__" else None
        if isinstance(base, ast.Call) and _last_name(base.func) == "vars" and base.args:
            return name.value, base.args[0]
        return None
    called = _last_name(node.func)
    given = node.args[1:2] if called == "getattr" else node.args[:1]
    if called not in ("getattr", "__import__", "import_module") or not given:
        return None
    name = given[0]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        return None
    return name.value, node.args[0] if called == "getattr" else None


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
