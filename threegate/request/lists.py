"""The keys of the front matter that are lists: inputs, outputs, allowlist, texts, evidence.

Invariant: every entry is checked, and each problem is reported at its own entry. Source:
docs/spec/1-tool-request.md, "Front matter".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from threegate.core import limits
from threegate.core.strict_yaml import YamlNode
from threegate.request.fields import SHA256, FieldError, check_file_name, check_output_path, read_text
from threegate.request.findings import Findings
from threegate.request.hosts import HostError, read_host, read_target
from threegate.request.model import InputFile, NetworkTarget, OutputFile
from threegate.request.source import plain_value


def read_inputs(node: YamlNode, findings: Findings) -> tuple[InputFile, ...]:
    """``inputs``: a list of {name, sha256, unpack?}; names and unpacked stems are unique."""
    read: list[InputFile] = []
    taken: dict[str, int] = {}
    for entry in _entries(node, "TG150", findings, most=limits.INPUT_ENTRIES):
        fields = _mapping(entry, "TG150", ("name", "sha256", "unpack"), findings)
        if fields is None:
            continue
        problems = list(_input_problems(entry, fields))
        for problem in problems:
            findings.at(*problem)
        if problems:
            continue
        name, unpack = fields["name"].value, "unpack" in fields and fields["unpack"].value
        for seen in {name, name.removesuffix(".tar") if unpack else name}:
            if seen in taken:
                message = f"this name is taken by the input on line {taken[seen]}; each appears once below /in"
                findings.at("TG154", fields["name"], message)
            taken.setdefault(seen, fields["name"].line)
        read.append(InputFile(name, fields["sha256"].value, unpack))
    return tuple(read)


def _input_problems(entry: YamlNode, fields: dict[str, YamlNode]) -> Iterator[tuple[str, YamlNode, str]]:
    """What is wrong with an entry: the rule, where, and what."""
    name, sha256, unpack = (fields.get(key) for key in ("name", "sha256", "unpack"))
    known: str | None = None
    if name is None:
        yield "TG150", entry, "an input needs a name"
    elif not isinstance(name.value, str):
        yield "TG151", name, "an input's name is text; put it in quotes"
    elif (wrong := check_file_name(name.value)) is not None:
        yield "TG151", name, f"an input's name {wrong}"
    else:
        known = name.value
    if sha256 is None:
        yield "TG152", entry, "an input needs its sha256; take it from: sha256sum FILE"
    elif not SHA256.fullmatch(sha256.text):
        yield "TG152", sha256, "sha256 must be 64 lower-case hex digits, from: sha256sum FILE"
    elif not isinstance(sha256.value, str):
        yield "TG152", sha256, "this sha256 reads as a number; put it in quotes"
    if unpack is None:
        return
    if not isinstance(unpack.value, bool):
        yield "TG153", unpack, "unpack is true or false"
    elif unpack.value and known is not None and (not known.endswith(".tar") or known in (".tar", "..tar", "...tar")):
        yield "TG153", unpack, "only a <stem>.tar can be unpacked"


def read_outputs(node: YamlNode, findings: Findings) -> tuple[OutputFile, ...]:
    """``outputs_expected``: a list of {path, description}; a bare path means /out/<path>."""
    read: dict[str, OutputFile] = {}
    for entry in _entries(node, "TG156", findings, most=limits.OUTPUT_ENTRIES):
        fields = _mapping(entry, "TG156", ("path", "description"), findings)
        if fields is None:
            continue
        if "path" not in fields or not isinstance(fields["path"].value, str):
            findings.at("TG156", fields.get("path", entry), "an output needs a path, as text")
            continue
        path, wrong = check_output_path(fields["path"].value)
        if wrong is None and path in read:
            wrong = "occurs twice"
        if wrong is not None:
            findings.at("TG157", fields["path"], f"the output path {wrong}")
            continue
        description = ""
        if "description" in fields:
            try:
                description = read_text(fields["description"], "TG156", most=limits.LIST_TEXT_CHARS)
            except FieldError as error:
                findings.at(error.rule, fields["description"], f"the description {error}")
        read[path] = OutputFile(path, description)
    return tuple(read.values())


def read_allowlist(node: YamlNode, findings: Findings) -> tuple[NetworkTarget, ...]:
    """``network_allowlist``: 1 to ALLOWLIST_ENTRIES of host or host:port, each once."""
    read: dict[NetworkTarget, None] = {}
    entries = list(_entries(node, "TG158", findings, most=limits.ALLOWLIST_ENTRIES))
    if isinstance(node.value, list) and not node.value:
        findings.at("TG158", node, "network_allowlist names no host; name one or set network: none")
    for entry in entries:
        if not isinstance(entry.value, str):
            findings.at("TG159", entry, "must be text such as api.example.com or api.example.com:8443")
            continue
        try:
            target = read_target(entry.value)
        except HostError as error:
            findings.at("TG159", entry, f"no host of the allowlist: {error}")
            continue
        if target in read:
            findings.at("TG159", entry, "this host and port occur twice")
        read[target] = None
    return tuple(read)


def read_one_host(node: YamlNode, _bounds: object) -> str:
    """The ``host`` of a request for one. Raises FieldError."""
    if not isinstance(node.value, str):
        raise FieldError("TG122", "must be text; put it in quotes")
    try:
        return read_host(node.value)
    except HostError as error:
        raise FieldError("TG179", f"is {error}") from None


def read_texts(node: YamlNode, findings: Findings, *, most: int) -> tuple[str, ...]:
    """A list of one-line texts of at most `most` characters (constraints, labels)."""
    read: list[str] = []
    for entry in _entries(node, "TG161", findings, most=limits.LIST_ENTRIES):
        try:
            read.append(read_text(entry, "TG161", most=most))
        except FieldError as error:
            findings.at(error.rule, entry, f"each entry is one line of text: it {error}")
    return tuple(read)


def read_evidence(node: YamlNode, findings: Findings) -> tuple[Any, ...]:
    """``evidence``: a list of structured references (mappings), read by the AANA gate."""
    read: list[Any] = []
    for entry in _entries(node, "TG163", findings, most=limits.LIST_ENTRIES):
        if not isinstance(entry.value, dict):
            findings.at("TG163", entry, "each reference is a mapping such as {source_id: …, kind: …}")
            continue
        read.append(plain_value(entry))
    return tuple(read)


def _entries(node: YamlNode, rule: str, findings: Findings, *, most: int) -> Iterator[YamlNode]:
    if not isinstance(node.value, list):
        findings.at("TG122", node, "must be a list; write each entry on a line with '- '")
        return
    if len(node.value) > most:
        findings.at(rule, node, f"{len(node.value)} entries; at most {most}")
        return
    yield from node.value


def _mapping(entry: YamlNode, rule: str, known: tuple[str, ...], findings: Findings) -> dict[str, YamlNode] | None:
    if not isinstance(entry.value, dict):
        findings.at(rule, entry, f"each entry is a mapping with {' and '.join(known[:2])}")
        return None
    fields: dict[str, YamlNode] = {}
    for name, (key, value) in entry.value.items():
        if name in known:
            fields[name] = value
        else:
            findings.at("TG120", key, f"unknown key; an entry has {', '.join(known)}")
    return fields
