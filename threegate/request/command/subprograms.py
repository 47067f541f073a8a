"""Options that make an otherwise harmless program start another one.

Each reader gives what is started: a text for a shell, words of a program, or a setting that names one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from threegate.request.command.options import Options, parse_options
from threegate.request.command.programs import names, spellings


@dataclass(frozen=True, slots=True)
class Subprogram:
    """Something that an option starts: `word` is its place, `line` the command where it is one."""

    kind: Literal["shell", "command", "setting"]
    word: int
    name: str
    line: str = ""


def find_subprograms(words: Sequence[str], start: int, end: int) -> Iterator[Subprogram]:
    """What the options of the program at ``words[start]`` would start, in its words up to `end`."""
    for name in spellings(words[start]):
        reader = _READERS.get(name)
        if reader is not None:
            yield from reader(words, start, end)
            return
        simple = _SIMPLE.get(name)
        if simple is not None:
            yield from _by_name(words, start, end, simple, name in _CLUSTERS)
            return


_Kind = Literal["shell", "command", "setting"]

_SIMPLE: Final[dict[str, dict[str, _Kind]]] = {
    "sort": {"--compress-program": "command"},
    "split": {"--filter": "shell"},
    "zip": {"-TT": "shell", "--unzip-command": "shell"},
    "rsync": {"-e": "command", "--rsh": "command", "--rsync-path": "setting"},
    "wget": {"--use-askpass": "command", "-e": "setting", "--execute": "setting"},
    "nc": {
        "-e": "command",
        "-c": "shell",
        "--exec": "command",
        "--sh-exec": "shell",
        "--lua-exec": "setting",
    },
    "ncat": {
        "-e": "command",
        "-c": "shell",
        "--exec": "command",
        "--sh-exec": "shell",
        "--lua-exec": "setting",
    },
    "netcat": {"-e": "command", "-c": "shell"},
    "vim": {"-c": "setting", "--cmd": "setting", "-S": "setting", "-s": "setting"},
    "vi": {"-c": "setting", "--cmd": "setting", "-S": "setting"},
    "nvim": {"-c": "setting", "--cmd": "setting", "-S": "setting", "-l": "setting"},
    "ex": {"-c": "setting", "-s": "setting"},
    "emacs": {
        "--eval": "setting",
        "-f": "setting",
        "--load": "setting",
        "-l": "setting",
        "--script": "setting",
    },
    "gdb": {
        "-ex": "setting",
        "--eval-command": "setting",
        "-x": "setting",
        "-iex": "setting",
        "--args": "command",
    },
    "man": {"-P": "command", "--pager": "command", "-H": "setting", "--html": "setting"},
    "tcpdump": {"-z": "command"},
    "entr": {"-s": "shell"},
    "openssl": {"-engine": "setting", "-provider-path": "setting"},
    "rg": {"--pre": "command", "--hostname-bin": "command"},
    "fd": {"-x": "command", "--exec": "command", "-X": "command", "--exec-batch": "command"},
    "fzf": {"--preview": "shell", "--bind": "shell"},
    "pdftex": {"-shell-escape": "shell", "--shell-escape": "shell", "-enable-write18": "shell"},
    "pdflatex": {"-shell-escape": "shell", "--shell-escape": "shell", "-enable-write18": "shell"},
    "awk": {"-l": "setting", "--load": "setting"},
    "gawk": {"-l": "setting", "--load": "setting", "-D": "setting", "--debug": "setting"},
}


_CLUSTERS: Final = names("rsync nc ncat netcat")
"""Programs whose options are written together as often as not (``rsync -ae``)."""


def _by_name(
    words: Sequence[str], start: int, end: int, options: dict[str, _Kind], clusters: bool
) -> Iterator[Subprogram]:
    """Options found by their name: alone with the next word, with ``=``, attached, or by a unique beginning."""
    for index in range(start + 1, end):
        word = words[index]
        if word == "--":
            return
        name, equals, value = word.partition("=")
        for option, kind in options.items():
            long = option.startswith("--")
            if name == option or (long and len(name) > 3 and option.startswith(name)):
                line = value if equals else words[index + 1] if index + 1 < end else ""
                yield Subprogram(kind, index, option, line)
            elif not long and len(option) == 2 and word.startswith(option):
                yield Subprogram(kind, index, option, word[2:])
            elif clusters and len(option) == 2 and re.fullmatch(rf"-[A-Za-z]+{option[1]}", word):
                yield Subprogram(kind, index, option, words[index + 1] if index + 1 < end else "")


_TAR: Final = Options(
    "AcdrtuxzjJZaGhilmnOopPRsSUvwWBMk",
    "fCTXIFbgHKLNV",
    "",
    names("""catenate create diff compare append list update extract get delete gzip bzip2 xz lzma lzip lzop zstd compress
        auto-compress no-auto-compress absolute-names same-permissions preserve-permissions no-same-permissions same-owner no-same-owner
        numeric-owner overwrite keep-old-files keep-newer-files skip-old-files unlink-first recursive-unlink to-stdout verbose totals
        ignore-zeros dereference hard-dereference one-file-system sparse null no-null wildcards no-wildcards anchored no-anchored
        ignore-case no-ignore-case recursion no-recursion verify remove-files ignore-failed-read check-links force-local multi-volume
        full-time show-defaults show-transformed-names utc test-label touch delay-directory-restore no-delay-directory-restore
        exclude-vcs exclude-backups exclude-caches exclude-caches-all acls no-acls xattrs no-xattrs selinux no-selinux warning-all
        block-number seek no-seek overwrite-dir no-overwrite-dir keep-directory-symlink preserve-order same-order interactive confirmation
        check-device no-check-device clamp-mtime backup checkpoint occurrence listed help version usage verbatim-files-from unquote no-unquote
        wildcards-match-slash no-wildcards-match-slash atime-preserve no-ignore-command-error ignore-command-error old-archive portability posix"""),
    names("""file directory files-from exclude exclude-from exclude-tag strip-components transform xform use-compress-program to-command
        checkpoint-action rsh-command rmt-command info-script new-volume-script blocking-factor record-size format owner group mode mtime
        sort newer after-date newer-mtime label listed-incremental one-top-level pax-option volno-file quoting-style suffix starting-file
        add-file tape-length level owner-map group-map hole-detection sparse-version index-file warning no-quote-chars quote-chars"""),
)


_TAR_SHELL: Final = names("to-command rsh-command rmt-command info-script new-volume-script F")


def _tar(words: Sequence[str], start: int, end: int) -> Iterator[Subprogram]:
    """tar: options stand anywhere, also as a first word without a dash."""
    own = list(words[:end])
    if start + 1 < end and not own[start + 1].startswith("-"):
        yield from _tar_old(own, start, end)
    index = start + 1
    while index < end:
        if not own[index].startswith("-") or own[index] == "-":
            index += 1
            continue
        parsed = parse_options(own, index, _TAR)
        if parsed is None:
            if re.match(r"--(?:to-|use-c|checkpoint-|rsh|rmt|info-s|new-v)|-[A-Za-z]*[IF]", own[index]):
                yield Subprogram("setting", index, own[index][:24])
            index += 1
            continue
        for name, value, word in parsed.options:
            if name in _TAR_SHELL or (name == "checkpoint-action" and value.startswith("exec")):
                yield Subprogram("shell", word, name)
            elif name in ("I", "use-compress-program"):
                yield Subprogram("command", word, name, value)
        index = max(parsed.rest, index + 1)


def _tar_old(words: Sequence[str], start: int, end: int) -> Iterator[Subprogram]:
    """``tar xIf PROGRAM FILE``: the values stand behind the letters, in their order."""
    value = start + 2
    for letter in words[start + 1]:
        if letter in _TAR.values:
            if letter == "F":
                yield Subprogram("shell", start + 1, "F")
            elif letter == "I":
                yield Subprogram("command", start + 1, "I", words[value] if value < end else "")
            value += 1


_GIT_HARMLESS: Final = re.compile(
    r"(?i)(?:color|user|advice|log|column|blame|status|branch|tag|init|safe|i18n|pretty|push|pull|fetch|grep|merge|rebase|index"
    r"|feature|pack|gc|transfer|http|author|committer|rerere|stash)\.[a-z0-9.*/_-]+"
    r"|core\.(?:quotepath|autocrlf|eol|safecrlf|filemode|ignorecase|abbrev|compression|bigfilethreshold|symlinks|bare|worktree|longpaths|excludesfile)"
    r"|diff\.(?:algorithm|context|renames|renamelimit|mnemonicprefix|noprefix|colormoved|submodule|interhunkcontext|orderfile|statgraphwidth)"
)
"""Settings of ``git -c`` that start nothing."""
_GIT_STARTING: Final = re.compile(
    r"(?i)pager|editor|command|cmd|program|helper|askpass|hook|textconv|driver|external|proxy|uploadpack|receivepack|fsmonitor|alias|include"
)
_GIT_VALUES: Final = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env")
)
_GIT_SUBCOMMANDS: Final = names("""filter-branch instaweb web--browse daemon shell send-email difftool mergetool gui citool help credential p4 svn
    cvsimport cvsexportcommit for-each-repo hook upload-pack receive-pack http-backend remote-ext""")
_GIT_WORDS: Final = {
    "bisect": ("run",),
    "submodule": ("foreach",),
    "maintenance": ("start", "register"),
    "lfs": ("install",),
}
_GIT_LONG: Final = (
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--open-files-in-pager",
    "--extcmd",
    "--config",
    "--template",
    "--ext-diff",
    "--textconv",
)
_GIT_SHORT: Final = {"rebase": ("-x",), "clone": ("-u", "-c"), "grep": ("-O",), "difftool": ("-x",)}


def _git(words: Sequence[str], start: int, end: int) -> Iterator[Subprogram]:
    """git: settings given by -c, options that name programs, and subcommands that run some."""
    index = start + 1
    while index < end and words[index].startswith("-"):
        word = words[index]
        if word.startswith("-c"):
            setting = word[2:] or (words[index + 1] if index + 1 < end else "")
            name = setting.partition("=")[0]
            if not _GIT_HARMLESS.fullmatch(name) or _GIT_STARTING.search(name):
                yield Subprogram("setting", index, "-c")
        elif word.startswith(("--exec-path=", "--config-env")) or word in ("-p", "--paginate"):
            yield Subprogram("setting", index, word.partition("=")[0])
        index += 2 if word in _GIT_VALUES else 1
    if index >= end:
        return
    subcommand = words[index]
    if subcommand in _GIT_SUBCOMMANDS:
        yield Subprogram("setting", index, subcommand)
    for at in range(index + 1, end):
        word = words[at]
        if word == "--":
            return
        name = word.partition("=")[0]
        if (
            word in _GIT_WORDS.get(subcommand, ())
            or word.startswith(_GIT_SHORT.get(subcommand, "\0"))
            or (
                len(name) > 4
                and any(option.startswith(name) for option in _GIT_LONG)
                and name not in _GIT_OTHER
            )
            or (
                "::" in word.split("/", 1)[0]
                and subcommand in ("clone", "fetch", "pull", "ls-remote", "push", "remote")
            )
            or (subcommand == "config" and _GIT_STARTING.search(name))
        ):
            yield Subprogram("setting", at, f"{subcommand} {name}")


_GIT_OTHER: Final = frozenset(("--text", "--temp", "--ext"))


def _socat(words: Sequence[str], start: int, end: int) -> Iterator[Subprogram]:
    """socat: an address may be a program or a shell's text."""
    for index in range(start + 1, end):
        if re.match(r"(?i)(?:exec|system|shell)\b", words[index]):
            yield Subprogram("shell", index, words[index].partition(":")[0])


def _ssh_like(words: Sequence[str], start: int, end: int) -> Iterator[Subprogram]:
    """ssh and its kin: options that run something on this side."""
    for index in range(start + 1, end):
        if re.search(
            r"(?i)(?:proxycommand|localcommand|knownhostscommand|match\s+exec|pkcs11provider)", words[index]
        ):
            yield Subprogram("setting", index, "-o")


_READERS: Final = {
    "tar": _tar,
    "bsdtar": _tar,
    "gtar": _tar,
    "git": _git,
    "socat": _socat,
    "ssh": _ssh_like,
    "scp": _ssh_like,
    "sftp": _ssh_like,
}
