"""Fixes of lists: the files that go in and come out, and the hosts, where it is clear which are meant.

Invariant: a path that a fix writes is in the file already: with its folder, in another part of the file, or as the
whole of an entry that is a file name. No word of a sentence becomes a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from threegate.core import limits
from threegate.request.fields import FILE_NAME
from threegate.request.fixes.edit import Draft
from threegate.request.fixes.front_matter_fixes import NOTHING, continued, key_and_value, valued
from threegate.request.hosts import HostError, read_target
from threegate.request.report import Finding, Fix

_ENTRY = re.compile(r"[ \t]*(?P<bullet>[-*+][ \t]+|[0-9]{1,2}[.)][ \t]+)?(?P<path>[^ \t]+)(?P<rest>.*)")
_DRESS = "`*_\"'"
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.[A-Za-z][A-Za-z0-9]{0,7}")
_LISTED = re.compile(r"'- /in/(" + FILE_NAME.pattern + r")'")
_NO_FILES = re.compile(
    r"(?:- )?[`*(]*(?:none|n/?a|nil|nothing|no (?:output |input )?files?|none (?:expected|needed|required)"
    r"|not applicable|stdout(?: only)?|none[ ,;:(\u2013\u2014-]+(?:only )?stdout(?: only)?)[`*.)]*",
    re.IGNORECASE,
)
_HOST = re.compile(r"(https?://)?([^/\"' ,\]]+?)(?:/[^\"' ,\]]*)?", re.IGNORECASE)
_HOST_ENTRY = re.compile(r"([ ]*-[ ]+)[\"']?([^\"' ]+)[\"']?[ ]*")
_TEXT_LISTS = ("network_allowlist", "constraints", "labels")


def listed(prefix: str) -> Callable[[Draft, Finding], Iterator[Fix]]:
    """The entries of a list of files with their whole paths, as bullets; a list without files says none."""
    name, key = ("Input Files", "inputs") if prefix == "/in/" else ("Output Expectations", "outputs_expected")

    def make(draft: Draft, finding: Finding) -> Iterator[Fix]:
        filled = draft.filled(name)
        declared = draft.declared(key)
        if not filled:
            if draft.line(finding.line).startswith("#") and declared is not None:
                entries = "\n".join(f"- {prefix}{file}" for file in declared) or "none"
                yield Fix(finding.rule, "insert", finding.line + 1, f"\n{entries}\n")
            return
        if len(filled) == 1 and _NO_FILES.fullmatch(draft.line(filled[0]).strip()) and not declared:
            yield Fix(finding.rule, "replace", filled[0], "none")
            return
        # One entry of a list, or a text that is no list: then each line of it must be one.
        wanted = [finding.line] if draft.line(finding.line).lstrip()[:1] in ("-", "*", "+") else filled
        entries_of = {number: _entry(draft, number, prefix) for number in wanted[: limits.OUTPUT_ENTRIES]}
        if len(wanted) == len(list(filter(None, entries_of.values()))):
            for number, entry in entries_of.items():
                yield Fix(finding.rule, "replace", number, entry or "")

    return make


def _entry(draft: Draft, number: int, prefix: str) -> str | None:
    """An entry as it must be; None where its path is not clear."""
    line = draft.line(number)
    match = _ENTRY.fullmatch(line)
    if match is None:
        return None
    written = match["path"].strip(_DRESS).rstrip(":,").strip(_DRESS)
    bare = written.removeprefix("./")
    path = bare.removeprefix(prefix).removeprefix(prefix.lstrip("/"))
    rest = match["rest"].strip()
    elsewhere = "\n".join(text for at, text in enumerate(draft.lines, start=1) if at != number)
    whole = not rest and _FILE.fullmatch(path) is not None
    if "//" in path or path.startswith(("/", ".")) or path.endswith("/") or not path:
        return None
    if path == bare and not whole and f"{prefix}{path}" not in elsewhere and f"name: {path}" not in elsewhere:
        return None
    if not match["bullet"] and rest:
        return None
    return f"- {prefix}{path}" + (f" {rest}" if rest else "")


def input_listed(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The line of an input that the front matter has and the list has not."""
    match = _LISTED.search(finding.message)
    filled = draft.filled("Input Files")
    if not match or not filled:
        return
    nothing = re.fullmatch(r"(?:- )?none\.?", draft.line(filled[0]).strip(), re.IGNORECASE)
    if nothing:
        yield Fix(finding.rule, "delete", filled[0])
    yield Fix(finding.rule, "insert", filled[0], f"- /in/{match[1]}")


def one_hash(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The front matter's hash counts; the list need not repeat it."""
    before = re.split(r"\bsha256\b", draft.line(finding.line), maxsplit=1, flags=re.IGNORECASE)[0]
    yield Fix(finding.rule, "replace", finding.line, before.rstrip(" \t"))


def input_name(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """The name of an input without the folder that all inputs are in."""
    match = re.fullmatch(
        r"(.*\bname:[ ]*[\"']?)(?:\./)?(?:/?in/|inbox/files/)([A-Za-z0-9._-]+)([\"']?.*)", draft.line(finding.line)
    )
    if match:
        yield Fix(finding.rule, "replace", finding.line, f"{match[1]}{match[2]}{match[3]}")


def output_mapping(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """An output that is only its path, as the mapping that each entry is."""
    line = draft.line(finding.line)
    entry = re.fullmatch(r"([ ]*-[ ]+)([\"']?)(/out/[^\"':#]+)\2[ ]*", line)
    if entry:
        yield Fix(finding.rule, "replace", finding.line, f"{entry[1]}path: {entry[2]}{entry[3]}{entry[2]}")
        return
    key, value = key_and_value(draft, finding.line)
    if key == "outputs_expected" and re.fullmatch(r"\[[ ]*[^\[\]{}:#]+\]", value):
        paths = [path.strip(" \"'") for path in value[1:-1].split(",")]
        if all(path.startswith("/out/") for path in paths):
            yield Fix(
                finding.rule, "replace", finding.line, "\n".join([f"{key}:", *(f"  - path: {path}" for path in paths)])
            )


def no_hosts(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """An allowlist without hosts goes where there is no network."""
    key, value = key_and_value(draft, finding.line)
    empty = re.fullmatch(r"|\[[ ]*\]|null|none|~", value, re.IGNORECASE) and not continued(draft, finding.line)
    alone = any(re.fullmatch(r"network:[ ]+[\"']?none[\"']?[ ]*", line) for line in draft.lines[: draft.end])
    if key == "network_allowlist" and empty and alone:
        yield Fix(finding.rule, "delete", finding.line)


def host(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """A URL's host, in lower case."""
    line = draft.line(finding.line)
    if (entry := _HOST_ENTRY.fullmatch(line)) is not None:
        if (name := _host_of(entry[2])) is not None:
            yield Fix(finding.rule, "replace", finding.line, f"{entry[1]}{name}")
        return
    key, value = key_and_value(draft, finding.line)
    if key == "network_allowlist" and value[:1] == "[" and value[-1:] == "]":
        yield from _as_entries(finding, key, [_host_of(item.strip(" \"'")) for item in value[1:-1].split(",")])


def as_list(draft: Draft, finding: Finding) -> Iterator[Fix]:
    """One text where a list of texts is, as its only entry; otherwise as any value of another type."""
    key, value = key_and_value(draft, finding.line)
    if (
        key not in _TEXT_LISTS
        or NOTHING.fullmatch(value)
        or not re.fullmatch(r"[A-Za-z0-9\"'][^\[\]{}#&*!|>%@`]*", value)
    ):
        yield from valued(draft, finding)
        return
    items = [item.strip(" \"'") for item in value.split(",")]
    if key == "network_allowlist":
        yield from _as_entries(finding, key, list(map(_host_of, items)))
    elif len(items) == 1:
        yield Fix(finding.rule, "replace", finding.line, f"{key}:\n  - {value}")


def _as_entries(finding: Finding, key: str, items: list[str | None]) -> Iterator[Fix]:
    if all(items):
        yield Fix(finding.rule, "replace", finding.line, "\n".join([f"{key}:", *(f"  - {item}" for item in items)]))


def _host_of(text: str) -> str | None:
    """The entry of an allowlist that a host or URL means; None for what is not one."""
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    # Without a port an entry is 443.
    name = match[2].lower() + (":80" if (match[1] or "").lower() == "http://" and ":" not in match[2] else "")
    try:
        read_target(name)
    except HostError:
        return None
    return name


MAKERS: dict[str, Callable[[Draft, Finding], Iterator[Fix]]] = {
    "TG122": as_list,
    "TG151": input_name,
    "TG156": output_mapping,
    "TG158": no_hosts,
    "TG159": host,
    "TG230": listed("/in/"),
    "TG231": input_listed,
    "TG232": one_hash,
    "TG240": listed("/out/"),
    "TG241": listed("/out/"),
}
"""Who answers a finding of which rule."""
