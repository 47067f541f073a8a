"""The words of the commits that ThreeGate makes for a change set, and the agent's commits as a request's constraints.

Invariant: pure. All of it is the agent's words: bounded, without a character that hides, and whatever forges or tools
would act on is named for the card. The last paragraph is ours, so nothing that the agent wrote is a trailer to git.
Source: docs/spec/8-agents.md, "A branch".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from threegate.core import limits
from threegate.core.printable import escape_of
from threegate.request.characters import is_hidden

_COMMIT: Final = "commit: "
"""Before the message of a commit of the agent's, in a request's constraints; a line break is written as ``\\n``."""
_SUBJECT_CHARS: Final = 72
_NOT_COMMITTED: Final = "What the agent changed and did not commit"
_SKIPS: Final = re.compile(
    r"\[(?:(?:skip|no)[ -](?:ci|actions|azp|appveyor|travis|netlify|vercel)|(?:ci|actions|azp|travis)[ -]skip)[^\]]*\]"
    r"|\*\*\*NO_CI\*\*\*|^\s*skip-checks:",
    re.IGNORECASE | re.MULTILINE,
)
_TRAILER: Final = re.compile(r"^[ \t>*-]*([A-Za-z]+(?:-[A-Za-z]+)+|cc|fixes|closes|bug|issue|link|refs?):", re.I | re.M)
_CLOSES: Final = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+(?:[\w.-]+/[\w.-]+)?#\d+", re.I)


def commit_lines(messages: Sequence[str]) -> Iterator[str]:
    """The agent's commits as lines of a request's constraints: the newest are named, the others counted."""
    named = messages[: limits.COMMITS_NAMED]
    for message in named:
        text = _shown(message).strip().replace("\\", "\\\\").replace("\n", "\\n")
        yield _cut(f"{_COMMIT}{text or '(no message)'}", limits.LIST_TEXT_CHARS)
    if len(messages) > len(named):
        yield f"{_COMMIT}and {len(messages) - len(named)} earlier ones"


def commit_message(purpose: str, constraints: Iterable[str], *, run: str, request_id: str) -> str:
    """The message of the one commit: purpose, the agent's commits, and our last paragraph. Ends with a line end."""
    purpose = " ".join(_shown(purpose).split()) or "Changes of an agent"
    paragraphs = [purpose]
    if len(purpose) > _SUBJECT_CHARS:
        paragraphs = [_cut(purpose, _SUBJECT_CHARS), purpose]
    for line in constraints:
        if line.startswith(_COMMIT):
            first, *more = _unescaped(line.removeprefix(_COMMIT)).split("\n")
            paragraphs.append("\n".join([f"* {first}", *(f"  {one}".rstrip() for one in more)]))
    text = _cut("\n\n".join(paragraphs), limits.COMMIT_MESSAGE_CHARS)
    return f"{text}\n\n{_ours(run, request_id)}"


def one_message(text: str, *, run: str, request_id: str) -> str:
    """The message of one of the agent's commits: its words, and our last paragraph. Ends with a line end."""
    said = _cut(_shown(text).strip() or _NOT_COMMITTED, limits.COMMIT_MESSAGE_CHARS)
    return f"{said}\n\n{_ours(run, request_id)}"


def message_warnings(message: str) -> Iterator[str]:
    """What in a message a forge, a CI or git could act on, one line each; our own paragraph is not checked."""
    text = message.rpartition("\n\n")[0]
    if found := _SKIPS.search(text):
        yield f"the message makes CI skip the commit: {found[0].strip()}"
    names = dict.fromkeys(match[1] for match in _TRAILER.finditer(text))
    if names:
        yield f"the message has lines that look like trailers: {', '.join(list(names)[:8])}"
    if found := _CLOSES.search(text):
        yield f"the message closes an issue on a forge: {found[0]}"


def _ours(run: str, request_id: str) -> str:
    return "".join([*([f"ThreeGate-Run: {run}\n"] if run else ()), f"ThreeGate-Request: {request_id}\n"])


def _shown(text: str) -> str:
    """Text in which each character that hides is written as an escape; line breaks and tabs stay."""
    text = text.replace("\r\n", "\n")
    return "".join(escape_of(char) if char not in "\n\t" and is_hidden(char) else char for char in text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
