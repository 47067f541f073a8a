"""Programs that start other programs, and where the started program stands in their words.

A launcher's words are read with its own options (see options.py). Launchers that hand a text to a shell
(``script -c``, ``watch``, ``parallel``) are refused as shells in programs.py and do not appear here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from threegate.request.command.options import Options, Parsed, parse_options
from threegate.request.command.programs import names, spellings

LAUNCHERS: Final[dict[str, Options]] = {
    "env": Options(
        "i0v",
        "uCSP",
        "",
        names("ignore-environment null debug list-signal-handling block-signal default-signal ignore-signal"),
        names("unset chdir split-string argv0"),
    ),
    "nice": Options("", "n", "", frozenset(), names("adjustment"), digits=True),
    "ionice": Options("t", "cnpPu", "", names("ignore"), names("class classdata pid pgid uid")),
    "nohup": Options(),
    "setsid": Options("cfw", "", "", names("ctty fork wait")),
    "stdbuf": Options("", "ioe", "", frozenset(), names("input output error")),
    "timeout": Options(
        "fpv", "ks", "", names("foreground preserve-status verbose"), names("kill-after signal"), operands=1
    ),
    "time": Options("apvqlh", "fo", "", names("append portability verbose quiet"), names("format output")),
    "taskset": Options("acp", "", "", names("all-tasks cpu-list pid"), operands=1),
    "chrt": Options(
        "abdefimoprRvG",
        "TPD",
        "",
        names("all-tasks batch deadline fifo idle max other pid rr reset-on-fork verbose"),
        names("sched-runtime sched-period sched-deadline"),
        operands=1,
    ),
    "choom": Options("", "np", "", frozenset(), names("adjust pid")),
    "prlimit": Options(
        "v",
        "po",
        "cdefilmnqrstuxy",
        names(
            "core data nice fsize sigpending memlock rss nofile msgqueue rtprio stack cpu nproc as locks rttime noheadings raw verbose"
        ),
        names("pid output"),
    ),
    "flock": Options(
        "sxneuoFv",
        "wEc",
        "",
        names("shared exclusive unlock nonblock nb close no-fork verbose"),
        names("timeout wait conflict-exit-code command"),
        operands=1,
    ),
    "strace": Options(
        "cCdDfFhikmnNqrtTvVwxyYzZ",
        "aAbeEIoOpPsSuUX",
        "",
        names(
            """follow-forks output-separately output-append-mode instruction-pointer stack-traces syscall-times summary-only
            summary summary-wall-clock decode-fds decode-pids debug quiet silence relative-timestamps absolute-timestamps
            successful-only failed-only no-abbrev strings-in-hex seccomp-bpf daemonize tips"""
        ),
        names(
            """columns env output trace abbrev verbose raw read write fault inject status signal signals string-limit summary-sort-by
            summary-columns user trace-path const-print-style detach-on attach interruptible"""
        ),
    ),
    "ltrace": Options(
        "bcCfiLrStT",
        "aADeFlnopsuwxX",
        "",
        names("no-signals demangle"),
        names("align output library config indent where"),
    ),
    "busybox": Options(),
    "toybox": Options(),
    "coreutils": Options("", "", "", frozenset(), names("coreutils-prog coreutils-prog-shebang")),
    "dumb-init": Options("cv", "r", "", names("single-child verbose"), names("rewrite")),
    "tini": Options("svwgh", "pe", "", names("version"), frozenset()),
    "catchsegv": Options(),
    "eatmydata": Options(),
    "ssh-agent": Options("cDdkst", "aEOPt", ""),
    "dbus-run-session": Options("", "", "", frozenset(), names("config-file dbus-daemon")),
    "xvfb-run": Options(
        "al",
        "efnspw",
        "",
        names("auto-servernum listen-tcp"),
        names("auth-file error-file server-num server-args xauth-protocol wait"),
    ),
    "faketime": Options("m", "f", "", frozenset(), frozenset(), operands=1),
    "cgexec": Options("", "g", "", names("sticky"), frozenset()),
    "numactl": Options(
        "asHl",
        "iNmCp",
        "",
        names("all show hardware localalloc"),
        names("interleave cpunodebind membind physcpubind preferred preferred-many weighted-interleave"),
    ),
    "cpulimit": Options(
        "ziqvfbm",
        "lpePs",
        "",
        names("lazy include-children background foreground monitor-forks quiet verbose"),
        names("limit pid exe path"),
    ),
    "valgrind": Options("hqv", "", "", frozenset(), frozenset()),
    "rlwrap": Options("aAcDeiImMnNoOrRuUvwWXz", "bBCdfFgGHlpPqsSt"),
    "softlimit": Options("", "acdflmnoprst", ""),
    "setarch": Options(
        "vVRFZL3BIST",
        "",
        "p",
        names(
            """32bit 4gb 3gb uname-2.6 fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize whole-seconds
            sticky-timeouts read-implies-exec mmap-page-zero verbose show list"""
        ),
    ),
    "xargs": Options(
        "0rtpxo",
        "adEILnPs",
        "eil",
        names("null no-run-if-empty verbose interactive exit open-tty show-limits eof replace max-lines"),
        names("arg-file delimiter max-args max-procs max-chars process-slot-var"),
    ),
}
_ALIASES: Final = {
    **dict.fromkeys(
        ("linux32", "linux64", "i386", "i486", "i586", "i686", "x86_64", "uname26", "aarch64"), "setarch"
    ),
    "gtime": "time",
    "gtimeout": "timeout",
    "genv": "env",
    "gxargs": "xargs",
}
_ARCHITECTURES: Final = names(
    "linux32 linux64 i386 i486 i586 i686 x86_64 aarch64 armv7l arm uname26 athlon x86"
)


@dataclass(frozen=True, slots=True)
class Started:
    """A program that a command starts: number of its first word, and of the word after its last."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Launch:
    """What reading a launcher gave. `unread`: a reason why what it starts cannot be said."""

    started: tuple[Started, ...] = ()
    line: str = ""
    """A command line in one word (``env -S``), which is read as a command of its own before the rest."""
    line_word: int = 0
    shell_word: int | None = None
    """A word that is handed to a shell (``flock -c``)."""
    unread: str = ""
    unread_word: int = 0


def launcher_name(program: str) -> str | None:
    """The launcher that a program is, or None."""
    for name in spellings(program):
        name = _ALIASES.get(name, name)
        if name in LAUNCHERS or name == "find":
            return name
    return None


def read_launch(name: str, words: Sequence[str], start: int, end: int) -> Launch:
    """What the launcher `name` at ``words[start]`` starts; its words end before `end`."""
    if name == "find":
        return _find(words, start, end)
    known = LAUNCHERS[name]
    words = words[:end]
    parsed = parse_options(words, start + 1, known)
    if parsed is None:
        return Launch(
            unread=f"an option of {name} is not known here, so what it starts is not either",
            unread_word=start,
        )
    rest = parsed.rest
    if name == "env":
        return _env(words, parsed, end)
    if (
        name == "setarch"
        and rest < end
        and words[rest] in _ARCHITECTURES
        and words[start].endswith("setarch")
    ):
        again = parse_options(words, rest + 1, known)
        if again is None:
            return Launch(unread="an option of setarch is not known here", unread_word=start)
        rest = again.rest
    if name == "taskset" and parsed.value("p", "pid") is not None:
        return Launch()
    if name == "flock":
        return _flock(words, parsed, end)
    if name == "coreutils" and parsed.options:
        return Launch(unread="coreutils is told its program by an option", unread_word=start)
    if name == "xargs":
        return _xargs(words, parsed, start, end)
    if name == "strace" and (target := parsed.value("o", "output")) and target[0] in "!|":
        return Launch(shell_word=start)
    return Launch((Started(rest, end),) if rest < end else ())


def _env(words: Sequence[str], parsed: Parsed, end: int) -> Launch:
    """env: assignments stand before the program, and -S holds a command line."""
    rest = parsed.rest
    if (line := parsed.value("S", "split-string")) is not None:
        word = next(word for name, _, word in parsed.options if name in ("S", "split-string"))
        return Launch(line=line, line_word=word, started=(Started(rest, end),) if rest < end else ())
    if rest < end and words[rest] == "-":
        rest += 1
    while rest < end and "=" in words[rest]:
        rest += 1
    return Launch((Started(rest, end),) if rest < end else ())


def _flock(words: Sequence[str], parsed: Parsed, end: int) -> Launch:
    """flock: options may also follow the lock file, and -c hands its word to a shell."""
    rest = parsed.rest
    for name, _, word in parsed.options:
        if name in ("c", "command"):
            return Launch(shell_word=word)
    if rest < end and words[rest].startswith("-"):
        return Launch(shell_word=rest)
    return Launch((Started(rest, end),) if rest < end else ())


def _xargs(words: Sequence[str], parsed: Parsed, start: int, end: int) -> Launch:
    """xargs: what it reads becomes words, so neither the program nor a launcher's program may come from there."""
    rest = parsed.rest
    if rest >= end:
        return Launch()
    marker = parsed.value("I", "i", "replace")
    if marker is not None and (marker or "{}") in words[rest]:
        return Launch(unread="xargs takes the program's name from its input", unread_word=rest)
    return Launch((Started(rest, end),))


def _find(words: Sequence[str], start: int, end: int) -> Launch:
    """find: each -exec and its kin up to ``;`` or ``{} +``."""
    started: list[Started] = []
    index = start + 1
    while index < end:
        if words[index] in ("-exec", "-execdir", "-ok", "-okdir"):
            first = index = index + 1
            while (
                index < end and words[index] != ";" and not (words[index] == "+" and words[index - 1] == "{}")
            ):
                index += 1
            if first >= index:
                return Launch(unread="find is to start a program that is not named", unread_word=start)
            if "{}" in words[first]:
                return Launch(unread="find takes the program's name from what it finds", unread_word=first)
            started.append(Started(first, index))
        index += 1
    return Launch(tuple(started))
