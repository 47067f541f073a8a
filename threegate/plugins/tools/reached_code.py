"""What a server's command line and variables reach by name: files and folders that may be code.

Invariant: a word is read as the program reads it in the working folder `/`, and in more ways rather than fewer:
whole, behind a `=` or an option's letter, and in every part of a list or of inline code. Each path that is there is
named; whether it is code is decided by where it is named, and otherwise it counts as code. Nothing is started to find
out. Source: docs/spec/9-tools.md, "Code that is reached".
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote

from threegate.core import limits
from threegate.runners.jail.program_folder import first_line

Role = Literal["runs", "loaded", "file", "folder", "absent"]
"""`runs`: the program or its script, which is never data. `loaded`: what an interpreter's option or variable names.
`file`, `folder`: any other one that a word or a variable names. `absent`: a path where nothing is.
"""

WORKING_FOLDER: Final = Path("/")
"""Of every server in a jail or on this machine."""
CODE_VARIABLE: Final = re.compile(
    r"PYTHONPATH|PYTHONHOME|NODE_PATH|NODE_OPTIONS|CLASSPATH|PERL5?LIB|RUBYLIB|GEM_(?:HOME|PATH)|LUA_C?PATH.*|"
    r"R_LIBS.*|TCLLIBPATH|JULIA_(?:LOAD|DEPOT)_PATH|PHP_INI_SCAN_DIR|PHPRC",
    re.I,
)
"""Variables whose paths are searched for code, or loaded."""
UNPINNABLE_VARIABLE: Final = re.compile(
    r"LD_.*|DYLD_.*|GLIBC_.*|MALLOC_.*|GCONV_PATH|LOCPATH|NLSPATH|BASH_.*|ENV|IFS|SHELLOPTS|SHELL|PATH|HOME|CDPATH|"
    r"SSH_.*|.*_PROXY|PYTHON(?:STARTUP|USERBASE|WARNINGS|BREAKPOINT|EXECUTABLE|PLATLIBDIR|INSPECT|PYCACHEPREFIX|"
    r"DONTWRITEBYTECODE|CASEOK|_.*)|NODE_(?:COMPILE_CACHE|REPL_.*|V8_COVERAGE|PENDING_.*)|NODE_TEST_CONTEXT|"
    r"PERL5(?:OPT|DB|DB_.*|SHELL)|RUBYOPT|RUBYSHELL|BUNDLE_.*|BUNDLER_.*|_?JAVA_(?:TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|"
    r"DOTNET_.*|CORECLR_.*|COR_.*|COMPLUS_.*|LUA_INIT.*|R_PROFILE.*|R_ENVIRON.*|BUN_.*|DENO_.*|OPENSSL_.*|"
    r"GIT_.*|EDITOR|VISUAL|PAGER|BROWSER|LESSOPEN|LESSCLOSE|MANPAGER|XDG_.*|NPM_CONFIG_.*|PIP_.*|UV_.*|"
    r"GTK_.*|GIO_.*|GDK_.*|QT_.*|GST_.*|TERMINFO.*|ERL_.*|ELIXIR_.*|GUILE_.*|OCAMLRUNPARAM|CAML_.*|PROMPT_COMMAND|PS4",
    re.I,
)
"""Variables that choose or change what is run in ways that cannot be seen in their value: a server gets none."""

_INTERPRETER: Final = re.compile(
    r"(python|pypy|ipython|node|nodejs|bun|deno|tsx|ts-node|ruby|jruby|perl|php|lua|luajit|java|Rscript|R|tclsh|wish|"
    r"expect|pwsh|dotnet|mono|guile|julia|escript|erl|elixir|scala|groovy|kotlin|racket|sbcl|ocaml|raku|octave|gjs|qjs|"
    r"electron|nwjs|love|"
    r"wasmtime|wasmer|awk|gawk|mawk|sed)[-0-9.]*[a-z]?(?:\.exe)?"
)
_ENDINGS: Final = (".js", ".cjs", ".mjs", ".json", ".node", ".ts", ".py", ".rb", ".pl", ".php", ".lua", ".jar")
"""What an interpreter adds to a name that has none."""
_BETWEEN: Final = re.compile(r"""[\s"'`:;,=|&<>(){}\[\]@\\]+""")
"""What may be around a path in a list, a URL or inline code."""
_ROOTS: Final = re.compile(r"^/{2,}")
_INLINE: Final = frozenset(("-e", "-p", "-E", "-r", "--eval", "--print", "--execute", "--eval-string"))
_SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"))
_DEEPEST: Final = 4
"""Programs that start each other: by their first lines the kernel follows no more."""


@dataclass(frozen=True, slots=True)
class Named:
    """A path that a command line names."""

    path: Path
    """Absolute, not resolved."""
    role: Role
    node: bool = False
    """Node.js loads it, in whatever way it is named."""


def named_paths(argv: Sequence[str], env: Mapping[str, str]) -> tuple[Named, ...]:
    """Everything that a command line and its variables name, each once. Raises Unavailable."""
    found = [*_command(list(argv), 0), *(named for item in env.items() for named in _variable(*item))]
    return tuple(dict.fromkeys(found))


def modules_of(argv: Sequence[str]) -> list[list[str]]:
    """The modules that an interpreter's `-m` starts, each with the words behind it."""
    return [
        [module, *rest]
        for place, word in enumerate(argv)
        if _interpreter(word) in ("python", "pypy")
        for kind, module, rest in [_python(list(argv[place + 1 :]))]
        if kind == "module"
    ]


def _command(words: list[str], depth: int) -> Iterator[Named]:
    """A program with its arguments. `depth`: through how many first lines and commands in commands it was found."""
    program = Path(words[0])
    role: Role = "runs" if depth == 0 else "loaded"
    yield Named(program, role)
    kind = _interpreter(words[0])
    line = first_line(program) if depth < _DEEPEST and _is_file(program) else None
    if line is not None:
        for word in line.variables:
            yield from _variable(*word.split("=", 1))
        yield from _command([str(line.program), *line.words, *words], depth + 1)
        if line.program.name in _SHELLS:
            yield from _script_of_a_shell(program)
    if kind in ("python", "pypy"):
        how, code, rest = _python(words[1:])
        yield from _python_options(words[1 : len(words) - len(rest)])
        if how == "module":
            yield from (Named(path, role) for path in _module(code) if _is_file(path))
        elif how == "script":
            yield from _script(code, role, node=False)
        yield from _arguments(rest, depth)
    elif kind is not None:
        yield from _by_any_interpreter(words[1:], depth, node=kind in ("node", "nodejs", "bun", "tsx", "ts-node"))
    elif line is None:
        yield from _arguments(words[1:], depth)


def _python(words: list[str]) -> tuple[str, str, list[str]]:
    """What python starts (`module`, `code`, `script` or nothing), its text, and the words behind it."""
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":
            place += 1
            break
        if not word.startswith("-") or word == "-":
            break
        if word.startswith("--"):
            place += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for number, letter in enumerate(word[1:], 2):
            if letter in "cmWX":
                value, after = (word[number:], place + 1) if word[number:] else (_at(words, place + 1), place + 2)
                if letter in "cm":
                    return ("code" if letter == "c" else "module"), value, words[after:]
                place = after - 1
                break
        place += 1
    return ("script", words[place], words[place + 1 :]) if place < len(words) else ("", "", [])


def _module(name: str) -> Iterator[Path]:
    """Where python looks for a module first: in its working folder."""
    inside = WORKING_FOLDER.joinpath(*name.split("."))
    if inside.name:
        yield from (inside.with_name(f"{inside.name}.py"), inside / "__main__.py")
    yield WORKING_FOLDER / name.partition(".")[0] / "__init__.py"


def _python_options(words: list[str]) -> Iterator[Named]:
    """Options of python up to its script, with the text of `-c`."""
    for word in words:
        yield from _files(word, "file")
        yield from _folders(word, "folder")


def _by_any_interpreter(words: list[str], depth: int, *, node: bool) -> Iterator[Named]:
    """An interpreter's options up to its script. Which of its options take a value is not known: a word behind one is
    both its value and perhaps the script, so the script ends the options only where it follows none, or a folder
    follows it.
    """
    seen = option = False
    for place, word in enumerate(words):
        if place and words[place - 1] in _INLINE and not _exists(WORKING_FOLDER / word):
            yield from _arguments([word], depth)  # a program of its own
            seen, option = True, False
        elif word == "--":
            option = False
        elif word.startswith("-") and word != "-":
            yield from _loaded(word, node=node)
            option = "=" not in word
        elif option:
            yield from _loaded(word, node=node)
            yield from _script(word, "loaded", node=node)
            seen, option = seen or _is_file(WORKING_FOLDER / word), False
        elif seen and _is_folder(WORKING_FOLDER / word):
            yield from _arguments(words[place:], depth)
            return
        else:
            yield from _script(word, "loaded" if seen or depth else "runs", node=node)
            yield from _arguments(words[place + 1 :], depth)
            return


def _script(word: str, role: Role, *, node: bool) -> Iterator[Named]:
    path = WORKING_FOLDER / word
    found = [item for item in (path, *_with_endings(path)) if _exists(item)]
    yield from (Named(item, role, node) for item in found)
    if not found and Path(word).is_absolute():
        yield Named(path, "absent")


def _loaded(text: str, *, node: bool) -> Iterator[Named]:
    """What an option of an interpreter, or a variable of its own, names: files, folders, names without an ending."""
    yield from _files(text, "loaded", node=node)
    yield from _folders(text, "loaded")
    for part in parts_of(text):
        if "/" in part:
            yield from (Named(item, "loaded", node) for item in _with_endings(WORKING_FOLDER / part) if _is_file(item))


def _variable(name: str, value: str) -> Iterator[Named]:
    if not CODE_VARIABLE.fullmatch(name):
        yield from _files(value, "file")
        yield from _folders(value, "folder")
        return
    try:
        words = shlex.split(value)
    except ValueError:
        words = value.split()
    node = name.upper().startswith("NODE")
    for text in dict.fromkeys((value, *words)):
        yield from _loaded(text, node=node)
        for part in text.split(":"):
            folder = WORKING_FOLDER / part
            if part and _is_folder(folder):
                yield Named(folder, "loaded", node)


def _arguments(words: list[str], depth: int) -> Iterator[Named]:
    """The words of a program that is not an interpreter, or after a script. A folder that is a word of its own is what
    the program works on; one that an option names may be a folder of code.
    """
    option = False
    for place, word in enumerate(words):
        own = not word.startswith("-")
        program = shutil.which(word) if own and depth < _DEEPEST and _interpreter(word) else None
        if program is not None and place + 1 < len(words):
            yield from _command([program, *words[place + 1 :]], depth + 1)
        yield from _files(word, "file")
        if not own or option or not _is_folder(WORKING_FOLDER / word):
            yield from _folders(word, "folder")
        option = not own and "=" not in word


def _files(text: str, role: Role, *, node: bool = False) -> Iterator[Named]:
    """The files that a text names, and absolute paths in it where nothing is."""
    for part in parts_of(text):
        path = WORKING_FOLDER / part
        if _is_file(path):
            yield Named(path, role, node)
        elif part.startswith("/") and len(path.parts) > 2 and not _exists(path):
            found = [item for item in _with_endings(path) if _is_file(item)]
            yield from (Named(item, role, node) for item in found)
            if not found:
                yield Named(path, "absent")


def _folders(text: str, role: Role) -> Iterator[Named]:
    """The folders that a text names by a path of more than a word."""
    for part in parts_of(text):
        path = WORKING_FOLDER / part
        if "/" in part.rstrip("/") and path != WORKING_FOLDER and _is_folder(path):
            yield Named(path, role)


def _script_of_a_shell(path: Path) -> Iterator[Named]:
    """What a shell script names by its full path."""
    try:
        with path.open("rb") as file:
            text = file.read(limits.TOOLS_SHELL_SCRIPT_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return  # whoever hashes it says so
    yield from (named for named in _files(text.replace("$", " "), "file") if named.role != "absent")


def parts_of(text: str) -> list[str]:
    """The texts in a word that may be a path: whole, behind `=` or an option's letter, in a list, a URL or code."""
    plain = [text, text.partition("=")[2], text[2:] if text.startswith("-") else ""]
    parts = [*plain, *_BETWEEN.split(text), *(_BETWEEN.split(unquote(text)) if "%" in text else ())]
    short = (_ROOTS.sub("/", part) for part in parts if part and len(part) <= limits.TOOLS_ARGUMENT_CHARS)
    return list(dict.fromkeys(short))


def _with_endings(path: Path) -> Iterator[Path]:
    return (path.with_name(f"{path.name}{ending}") for ending in _ENDINGS if path.name)


def _interpreter(word: str) -> str | None:
    """The interpreter that a program's name, or the name of what it links to, says."""
    for name in (os.path.basename(word), os.path.basename(os.path.realpath(shutil.which(word) or word))):
        found = _INTERPRETER.fullmatch(name)
        if found:
            return found[1]
    return None


def _is_file(path: Path) -> bool:
    """Also for a text that is too long to be a path."""
    return os.path.isfile(path)  # noqa: PTH113


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def _exists(path: Path) -> bool:
    return os.path.exists(path)


def _at(words: list[str], place: int) -> str:
    return words[place] if place < len(words) else ""
