"""What Python code would start or install, read from its syntax tree and never run.

Used for ``python -c`` and for Monty's Code section. Names are followed through imports and through the usual
detours (`__import__`, `getattr`, `import_module`, `exec` of a literal); what is computed at run time is not, and
need not be: the walls of spec 6 carry that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from threegate import limits
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
                aliases[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
            yield from _module(node.module or "", node)
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from _call(node, aliases, depth)


def _module(name: str, node: ast.stmt | ast.expr) -> Iterator[Act]:
    if name.split(".")[0] in INSTALLER_MODULES:
        yield Act("install", node.lineno, node.col_offset + 1, name.split(".")[0])


def _call(node: ast.Call, aliases: dict[str, str], depth: int) -> Iterator[Act]:
    """One call."""
    called = _dotted(node.func, aliases)
    first = node.args[0] if node.args else None
    place = (node.lineno, node.col_offset + 1)
    if called in _SHELL_CALLS or any(
        word.arg == "shell" and not (isinstance(word.value, ast.Constant) and not word.value.value)
        for word in node.keywords
    ):
        yield Act("shell", *place, called or "shell=True")
    elif called in _START_CALLS:
        listed = first if isinstance(first, ast.List | ast.Tuple) else None
        elements = listed.elts if listed is not None else node.args
        if called.startswith(("os.spawn", "os.exec")):
            skipped = 1 if called.startswith("os.spawn") else 0
            rest = node.args[skipped:]
            tail = rest[1:] if len(rest) > 1 else []
            in_list = tail[0].elts[1:] if tail and isinstance(tail[0], ast.List | ast.Tuple) else tail[1:]
            elements = [*rest[:1], *in_list]
        yield Act("start", *place, called, tuple(_literal(element, aliases) for element in elements))
    elif called in _MODULE_CALLS and isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield from _module(first.value, node)
    elif (
        called in _CODE_CALLS
        and depth < _DEPTH
        and isinstance(first, ast.Constant)
        and isinstance(first.value, str)
    ):
        with suppress(NotPython, TooMuch):
            for act in acts(parse(first.value), depth + 1):
                yield Act(act.deed, *place, act.what, act.words)


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
            parts.append(aliases.get(node.id, node.id))
            return ".".join(reversed(parts))
        elif isinstance(node, ast.Call) and node.args:
            name = (
                node.func.id
                if isinstance(node.func, ast.Name)
                else node.func.attr
                if isinstance(node.func, ast.Attribute)
                else ""
            )
            value = node.args[-1] if name == "getattr" and len(node.args) == 2 else node.args[0]
            if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
                return ""
            parts.append(value.value)
            if name in ("__import__", "import_module"):
                return ".".join(reversed(parts))
            if name != "getattr":
                return ""
            node = node.args[0]
        else:
            return ""
    return ""
