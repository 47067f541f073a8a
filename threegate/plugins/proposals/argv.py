"""Commands in proposals: what may never run, and what may run only as critical.

Invariant: an argv that gate 1 would refuse is blocked here for gate 1's own reasons (`request.command`); in
addition: destructive commands, encoders, inline code that deletes, shell syntax, and arguments that are
themselves such commands, because the program might run them. False alarms are accepted
(docs/spec/5-proposals.md). A list can never be complete; the protection is that nothing runs without a human
and a sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from threegate.core.secretscan.scan import has_secret
from threegate.plugins.proposals.tools import ProposalRisk
from threegate.request.characters import has_hidden
from threegate.request.command.read_command import WARNINGS, ReadCommand, read_argv, read_command, starts_refused

_DESTROYERS: Final = frozenset({"rm", "unlink", "rmdir", "shred", "wipefs", "srm", "wipe"})
_MKFS: Final = re.compile(r"mkfs(\..*)?|mke2fs|mkswap")
_RECURSIVE_FORCE: Final = re.compile(r"-[A-Za-z]*(?:[rR][A-Za-z]*f|f[A-Za-z]*[rR])[A-Za-z]*")
_ENCODERS: Final = re.compile(r"\b(?:base64|xxd|eval)\b|_(?:base64|xxd|eval)\b|\b(?:base64|xxd|eval)_")
_OPENSSL: Final = re.compile(r"\bopenssl\b[\s\S]{0,1000}?\benc\b")
_METACHARACTERS: Final = re.compile(r"[;|&<>`]|\$\(")
"""Characters at which a shell would split a command line. No shell runs here, but the program may start one."""
_INNER: Final = re.compile(r"[^\s\"'()\[\]{}=,]+")
_OPEN_MODE: Final = re.compile(r"0*[0-7]?777|(?:a|ugo|)[+=]rwx")
_INLINE_DELETION: Final = re.compile(
    r"\b(?:rmtree|rmsync|rmdirsync|unlinksync|rmdir|unlink|removedirs|os\s*\.\s*remove|remove_tree|rm_rf|rm_r|rm_f|"
    r"fileutils\s*\.\s*rm\w*|file\s*\.\s*delete|dir\s*\.\s*delete|os\s*\.\s*truncate|truncatesync|send2trash|"
    r"fs\s*\.\s*rm\w*|promises\s*\.\s*rm\w*)\b|\.(?:rm|rmdir|unlink|delete|remove)\s*\(|\bsystem\s*\(\s*['\"]\s*rm\b"
)
_SQL: Final = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|index|view|user|role|column|\w+)|truncate\b|delete\s+from)"
)
_SUSPECT: Final = re.compile(r"base64|xxd|eval|openssl|r(?:m|emove)|unlink|d(?:elete|rop)|tr(?:ash|uncate)")
"""Part of every text in which `_ENCODERS`, `_OPENSSL`, `_INLINE_DELETION` or `_SQL` finds something (a property test
says so). They are searched for only where this is found: it takes a tenth of their time.
"""
_REMOTE: Final = frozenset({"aws", "gsutil", "rclone"})
"""Programs whose own subcommands have destructive names; what those delete is elsewhere, which is critical."""
_CRITICAL: Final = {
    program: re.compile(rf"(?:^|\s)(?:{verbs})(?:\s|$)")
    for program, verbs in (
        ("kubectl", "delete"),
        ("aws", "s3 rm|s3 rb|s3api delete-object|s3api delete-bucket"),
        ("gsutil", "rm|rb"),
        ("rclone", "delete|purge|rmdirs|rmdir|deletefile"),
        ("git", "clean|reset --hard|push --force|push -f|branch -d|filter-branch"),
    )
}


class ArgvFinding(NamedTuple):
    """What was found: `never` blocks, otherwise the risk becomes at least `risk`. `message` repeats no secret."""

    never: bool
    code: str
    message: str
    risk: ProposalRisk = "critical"


_DESTROYS: Final = ArgvFinding(
    True, "argv_destroys", "it destroys (rm, unlink, rmdir, mkfs, -rf, chmod 777, find -delete, dd of=)"
)
_ENCODES: Final = ArgvFinding(True, "argv_encodes", "it names an encoder or eval (base64, xxd, eval, openssl enc)")
_DELETES_INLINE: Final = ArgvFinding(True, "argv_inline_deletion", "an argument is code that deletes")
_HAS_METACHARACTERS: Final = ArgvFinding(
    True,
    "argv_metacharacters",
    "an argument has a character that a shell would act on (; | & < > ` $(); pass the text in a file",
)
_HAS_COMMAND_INSIDE: Final = ArgvFinding(
    True, "argv_command_inside", "an argument is itself a command that may not run"
)
_HIDES: Final = ArgvFinding(True, "argv_hidden", "an argument has a line break or a character that cannot be seen")
_HAS_SECRET: Final = ArgvFinding(True, "argv_secret", "an argument is a secret; requests never carry one")
_DELETES_ELSEWHERE: Final = ArgvFinding(
    False, "argv_critical", "it deletes data elsewhere or for good; the risk is critical"
)


def judge_argv(argv: Sequence[str], *, programs: Collection[str]) -> list[ArgvFinding]:
    """Everything wrong with an argv. `programs` is the setting `request.programs`."""
    if not argv:
        return []
    # Gate 1's own reader, so that nothing is allowed here that it would refuse later.
    found = _told(read_argv(argv, programs=programs))
    written = " ".join(argv)
    words, whole = [*map(str.lower, argv)], written.lower()
    names = [word.rpartition("/")[2] for word in words] if "/" in whole else words
    suspect = _SUSPECT.search(whole)
    if _destroys(argv, words, names, whole):
        found.append(_DESTROYS)
    if suspect and (_ENCODERS.search(whole) or _OPENSSL.search(whole)):
        found.append(_ENCODES)
    if suspect and _INLINE_DELETION.search(whole):
        found.append(_DELETES_INLINE)
    # Not in the program's own name, which gate 1 has read.
    if _METACHARACTERS.search(written, len(argv[0]) + 1):
        found.append(_HAS_METACHARACTERS)
    if any(map(_is_refused_command, argv[1:])):
        found.append(_HAS_COMMAND_INSIDE)
    if "\n" in whole or has_hidden(written):
        found.append(_HIDES)
    if has_secret(written):
        found.append(_HAS_SECRET)
    if (suspect and _SQL.search(whole)) or _deletes_remotely(names):
        found.append(_DELETES_ELSEWHERE)
    return found


def judge_command(text: str, *, programs: Collection[str]) -> list[ArgvFinding]:
    """Like `judge_argv`, for a command line that is not split yet."""
    command = read_command(text, programs=programs)
    if command.argv is not None:
        return judge_argv(command.argv, programs=programs)
    return _told(command)


def _told(command: ReadCommand) -> list[ArgvFinding]:
    """Gate 1's findings in a command line: its errors block, its warnings raise the risk."""
    return [
        ArgvFinding(True, "argv_refused", f"gate 1 refuses it: {problem.rule}: {problem.message}")
        if problem.rule not in WARNINGS
        else ArgvFinding(False, "argv_unusual", problem.message, "high")
        for problem in command.problems
    ]


def _is_refused_command(argument: str) -> bool:
    """Whether one argument, taken as a command line, is destructive or starts a forbidden program."""
    argv = argument.split()
    if len(argv) < 2:
        return False
    # As in dd of=, and without characters around a command (--exec='rm x', f(rm x)).
    inner = _INNER.findall(argument)
    if inner != argv:
        argv += inner
    words = [word.lower() for word in argv]
    names = [word.rpartition("/")[2] for word in words]
    return _destroys(argv, words, names, argument.lower()) or starts_refused(argument)


def _destroys(argv: Sequence[str], words: Sequence[str], names: Sequence[str], whole: str) -> bool:
    """Whether one of the words destroys. A pattern is tried on each word only where the whole line has it somewhere."""
    verbs = names[:1] if names[0] in _REMOTE else names
    return (
        not _DESTROYERS.isdisjoint(verbs)
        or ("mk" in whole and any(map(_MKFS.fullmatch, verbs)))
        or "--no-preserve-root" in words
        or (_RECURSIVE_FORCE.search(whole) and any(map(_RECURSIVE_FORCE.fullmatch, argv)))
        or ("find" in names and "-delete" in words)
        or ("dd" in names and any(word.startswith("of=") for word in words))
        or ("chmod" in names and any(_OPEN_MODE.fullmatch(word) for word in words))
    )


def _deletes_remotely(names: Sequence[str]) -> bool:
    if _CRITICAL.keys().isdisjoint(names):
        return False
    for place, name in enumerate(names, 1):
        if name in _CRITICAL and _CRITICAL[name].search(" ".join(names[place:])):
            return True
    return False
