"""Rules for the whole file: what no part of a request may contain, prose or code.

Prose is judged sentence by sentence: what a sentence denies ("does not read /etc") is not an attempt. Command,
Code and Inputs (JSON) have their own readers that distinguish patterns from paths; here those sections are
searched only for secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from threegate.core import limits
from threegate.core.secretscan.scan import Found, PatternSet, find_secrets
from threegate.request.command.paths import find_installs, find_places
from threegate.request.problem import Problem, placed

_READ_ELSEWHERE: Final = ("## Command", "## Code", "## Inputs (JSON)")
_DENIAL: Final = re.compile(
    r"(?i)\b(?:no|not|never|none|nothing|neither|nor|without|cannot|can't|won't|doesn't|don't|isn't|aren't|mustn't|avoids?|avoiding"
    r"|instead of|rather "
    r"than|refus\w{1,4}|forbid\w{0,5}|forbidden|excluded?|excluding|outside|prevents?|unable|unlike|free of)\b"
)
_FALSE_DENIAL: Final = re.compile(
    r"(?i)\b(?:do not|don't|never|not) (?:forget|hesitate|fail|only|just|omit|skip|worry)\b|\bno "
    r"(?:problem|worries|need to ask)\b|\bwhy not\b"
)
_SENTENCE_END: Final = re.compile(
    r"[.!?;](?:\s|$)|\n\s*\n|\n\s{0,8}[-*+] |\n\s{0,8}[A-Za-z_ ]{1,40}:\s|\b(?:but|then|however|afterwards|except)\b",
    re.IGNORECASE,
)
_ORDER: Final = (
    r"(?i)(?:^|[.!?;:,*>()\n\"'-]\s{0,4}|\b(?:please|first|first of all|then|must|should|shall|needs? to|has to|have "
    r"to|got to"
    r"|to|and|kindly|you can|will|may|be sure to|run|do)\s{1,3})(?:also |first |just )?((?:(?:re|pre)?-?install|set "
    r"up)\s{1,3}"
    r"(?:(?:the|a|an|these|this|those|that|any|all|some|its|missing|required|needed|following|latest|new|python|system|debian|node"
    r"|npm|pip|extra|additional|third-party)\s{1,2}){0,4}"
    r"(?:[`\"']?[A-Za-z0-9@/_.+-]{2,40}[`\"']?\s{1,2}){0,2}[`\"']?"
    r"(?:packages?|librar(?:y|ies)|dependenc(?:y|ies)|modules?|requirements?|wheels?|plugins?|extensions?|toolchains?|tools?|software"
    r"|drivers?|numpy|pandas|scipy|requests|matplotlib|torch|tensorflow|scikit-learn|sklearn|flask|django|beautifulsoup4?|lxml|pillow"
    r"|opencv|jq|curl|git|nodejs|node|gcc|docker|ffmpeg|imagemagick|poppler|tesseract|r-base|openjdk|java|perl|ruby|golang|rust))\b"
)
_HOW: Final = (
    r"(?i)(?:\b(?:must|should|shall|needs? to|has to|have to|ought to) (?:first )?be (?:re)?installed\b"
    r"|\b(?:requires?|needs?) (?:the )?installation of\b"
    r"|\binstall(?:ed)?(?: \w+){0,2} (?:via|with|using|from) [`\"']?(?:pip|conda|apt|npm|yum|dnf|brew|pypi)\b)"
)
_ORDERS: Final = PatternSet((_ORDER, _HOW))
_NO_ORDER: Final = re.compile(
    r"(?i)\S*(?:install|set "
    r"up)\s+(?:bases?|counts?|rates?|dates?|events?|numbers?|figures|logs?|history|statistics|times?|size|is|are|was"
    r"|were|records?|script|of|in|on|per|and|or)\b"
)


def check_content(text: str, *, secrets: Sequence[Found] | None = None) -> tuple[Problem, ...]:
    """Problems of a whole file's text, by place. `secrets`: what `find_secrets` gave for it, when already asked.

    Never raises; linear time.
    """
    found = [
        (item.start, "TG501", f"this looks like a secret ({item.kind}); take it out and revoke it")
        for item in (find_secrets(text) if secrets is None else secrets)
    ]
    prose = _prose(text)
    found += _installs(prose)
    found += _places(prose)
    return tuple(placed(rule, text, offset, message) for offset, rule, message in sorted(set(found)))


def _prose(text: str) -> str:
    """The text with the sections that are read elsewhere blanked out, every place kept."""
    if not any(heading in text for heading in _READ_ELSEWHERE):
        return text
    lines = text.split("\n")
    elsewhere = False
    for number, line in enumerate(lines):
        if line.startswith("## "):
            elsewhere = line.rstrip() in _READ_ELSEWHERE
        elif elsewhere:
            lines[number] = " " * len(line)
    return "\n".join(lines)


def _installs(prose: str) -> Iterator[tuple[int, str, str]]:
    """Commands and orders that install."""
    count = 0
    for _, start, end in _ORDERS.places(prose, most=limits.CONTENT_PLACES):
        count += 1
        if not _NO_ORDER.match(prose, start) and not _denied(prose, start, end, count):
            yield start, "TG502", "an instruction to install software; use what the sandbox has"
    for start, end in find_installs(prose, most=limits.CONTENT_PLACES):
        count += 1
        if not _denied(prose, start, end, count):
            yield start, "TG502", "a command that installs software; use what the sandbox has"


def _places(prose: str) -> Iterator[tuple[int, str, str]]:
    """Host paths, devices and sockets."""
    for count, place in enumerate(find_places(prose)):
        if _denied(prose, place.place, place.place + 1, count):
            continue
        if place.rule == "device":
            yield place.place, "TG504", f"{place.shown} is a device of the host; a run reaches none"
        else:
            yield place.place, "TG503", f"{place.shown} is a path of the host; a run sees /in, /out and /tmp"


def _denied(prose: str, start: int, end: int, count: int) -> bool:
    """Whether the sentence around a place denies it: a denial before it, or ``is not``/``is refused`` after.

    Places beyond `limits.CONTENT_DENIALS`, more than any honest text has, count as not denied, which keeps
    the time bounded.
    """
    if count >= limits.CONTENT_DENIALS:
        return False
    before = prose[max(0, start - 160) : start]
    ends = [match.end() for match in _SENTENCE_END.finditer(before)]
    before = before[ends[-1] :] if ends else before
    if _DENIAL.search(before):
        return not _FALSE_DENIAL.search(before)
    after = prose[end : end + 100]
    stop = _SENTENCE_END.search(after)
    return _DENIED_AFTER.search(after[: stop.start()] if stop else after) is not None


_DENIED_AFTER: Final = re.compile(
    r"(?i)\b(?:is|are|was|were|be|been) "
    r"(?:not|never|refused|forbidden|unavailable|untouched|neither)\b|\b(?:isn't|aren't) \w|\b(?:stays?|remains?|left) "
    r"(?:untouched|alone|unread)\b|\bnot needed\b"
)
