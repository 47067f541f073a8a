"""The front matter: one table of its keys, their meaning and how each is read, and the rules between them.

Invariant: a reader returns a typed value or raises FieldError; nothing is half read. A value is in the mapping that
`read_keys` returns only if its reader accepted it; every other key is an error. The published JSON Schema is made from
the same table. Source: docs/spec/1-tool-request.md, "Front matter".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from threegate.core import limits
from threegate.core.risk_domains import RISK_DOMAINS
from threegate.core.strict_yaml import YamlNode
from threegate.request import fields, lists
from threegate.request.backend import BACKENDS, DEFAULT_BACKEND, Backend, why_absent
from threegate.request.fields import FieldError
from threegate.request.findings import Findings
from threegate.request.model import CHOICES, Stage

if TYPE_CHECKING:
    from threegate.core.settings import RequestSettings

APPROVAL_KEYS: Final = ("approved_by", "approved_utc")
TOOL_TO_CALL: Final = "for mcp the tool to call, by its name at the server"
"""What the key `tool` is besides, in version 2."""
SHELLS: Final = frozenset("shell sh bash zsh dash ksh fish csh tcsh powershell pwsh cmd batch rbash ash mksh".split())
_APPROVAL_RULES: Final = {"approved_by": "TG143", "approved_utc": "TG144"}
# The key that only an approval writes, where the person chose.
_CHOICE: Final = "deliver"
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .+#_/-]{0,63}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a reader may compare with: the settings of gate 1, the moment, and what collects problems."""

    settings: RequestSettings
    now: datetime
    findings: Findings


Read = Callable[[YamlNode, Bounds], Any]
"""Returns the typed value of a key, or raises FieldError."""
Schema = Mapping[str, Any]
Form = tuple[Read, Schema]
"""How a key is read, and what the published schema says of it."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the front matter."""

    name: str
    read: Read
    schema: Schema
    description: str
    required: bool = False
    versions: str = "12"
    """The versions of the schema that have it."""


def _version(node: YamlNode, _bounds: Bounds) -> str:
    # In Python 1, 1.0 and True are equal, and only the first is a version.
    if node.value not in ("1", 1, "2", 2) or isinstance(node.value, bool | float):
        raise FieldError("TG131", "must be 1, or 2 for a request that changes a project, calls a tool or opens a host")
    return str(node.value)


def _backend(node: YamlNode, _bounds: Bounds) -> str:
    if (absent := why_absent(node.text)) is not None:
        raise FieldError("TG136", f"is {node.text}, and {absent}")
    return fields.read_word(node, "TG136", BACKENDS)


def _matching(rule: str, grammar: str, what: str) -> Form:
    pattern = re.compile(grammar)

    def read(node: YamlNode, _bounds: Bounds) -> str:
        if not isinstance(node.value, str):
            raise FieldError("TG122", "must be text; put it in quotes")
        if not pattern.fullmatch(node.value):
            raise FieldError(rule, what)
        return node.value

    return read, {"type": "string", "pattern": f"^{grammar}$"}


def _text(rule: str, most: int) -> Form:
    return lambda node, _bounds: fields.read_text(node, rule, most=most), _short(most)


def _short(most: int) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": most}


def _word(rule: str, *allowed: str) -> Form:
    schema: Schema = {"enum": list(allowed)} if len(allowed) > 1 else {"const": allowed[0]}
    return lambda node, _bounds: fields.read_word(node, rule, allowed), schema


def _integer(rule: str, least: int, setting: str, unit: str) -> Form:
    def read(node: YamlNode, bounds: Bounds) -> int:
        return fields.read_integer(node, rule, least=least, most=getattr(bounds.settings, setting), unit=unit)

    return read, {"type": "integer", "minimum": least}


def _objects(properties: Mapping[str, Schema], *required: str) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def _array(most: int, items: Schema) -> Schema:
    return {"type": "array", "maxItems": most, "items": items}


def _texts(most: int) -> Form:
    schema = _array(limits.LIST_ENTRIES, _short(most))
    return lambda node, bounds: lists.read_texts(node, bounds.findings, most=most), schema


def _created(node: YamlNode, bounds: Bounds) -> datetime:
    created = fields.read_time(node, "TG133")
    if created > bounds.now + timedelta(seconds=limits.CREATED_AHEAD_SECONDS):
        raise FieldError("TG133", "is in the future; set it to the moment of writing, in UTC")
    return created


_TOOLS: Final = frozenset({"tools", "utilities"})
"""What is called by the shell that it is usually called from: "shell tools"."""


def _language(node: YamlNode, _bounds: Bounds) -> str:
    text = fields.read_text(node, "TG137", most=64)
    words = set(re.split(r"[^a-z]+", text.casefold()))
    if words & SHELLS and not words & _TOOLS:
        raise FieldError("TG137", "is a shell; requests run one program without a shell")
    if not _LANGUAGE.fullmatch(text):
        raise FieldError("TG137", "must be a plain name such as python")
    return text


def _workdir(node: YamlNode, bounds: Bounds) -> str:
    path: str = _FOLDER[0](node, bounds)
    if any(segment in (".", "..") for segment in path.split("/")):
        raise FieldError("TG155", "must not have '.' or '..' segments")
    return path


_OF_AN_ID: Final = (
    "[A-Za-z0-9][A-Za-z0-9._-]{2,127}",
    "must be 3 to 128 of A-Z a-z 0-9 . _ - and start with a letter or digit",
)
_ID: Final = _matching("TG132", *_OF_AN_ID)
_DERIVED: Final = _matching("TG178", *_OF_AN_ID)
_PROJECT: Final = _matching(
    "TG171",
    "[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "must be the name of a registered project: 1 to 64 of A-Z a-z 0-9 . _ -",
)
_SERVER: Final = _matching(
    "TG173", "[A-Za-z][A-Za-z0-9_-]{0,63}", "must be an added server: 1 to 64 of A-Z a-z 0-9 _ -"
)
_DIGEST: Final = _matching("TG175", fields.SHA256.pattern, "must be 64 lower-case hex digits")
_FOLDER: Final = _matching(
    "TG155", "(/out|/in(?:/[A-Za-z0-9._-]{1,128}){0,8})", "must be /in, a folder below it, or /out"
)
_MOMENT: Final[Schema] = {"type": "string", "pattern": f"^(?:{'|'.join(fields.TIME)})$"}
_CORES: Final[Schema] = {
    "anyOf": [
        {"type": "string", "pattern": r"^(0|[1-9][0-9]*)(\.[0-9]+)?$"},
        {"type": "number", "minimum": 0.05},
    ]
}
_INPUT: Final = _objects(
    {
        "name": {"type": "string", "pattern": f"^{fields.FILE_NAME.pattern}$"},
        "sha256": _DIGEST[1],
        "unpack": {"type": "boolean", "default": False},
    },
    "name",
    "sha256",
)
_OUTPUT: Final = _objects({"path": _short(1024), "description": _short(limits.LIST_TEXT_CHARS)}, "path")
_HOSTS: Final[Schema] = {
    "type": "array",
    "minItems": 1,
    "maxItems": limits.ALLOWLIST_ENTRIES,
    "items": {"type": "string"},
}
_EVIDENCE: Final = _array(limits.LIST_ENTRIES, {"type": "object"})
_NAME: Final = _text("TG162", limits.NAME_CHARS)
_NULL: Final[Schema] = {"type": "null"}

_TABLE: Final = (
    Key("request_type", *_word("TG130", "tool_request"), "always tool_request", True),
    Key("schema_version", _version, {"enum": ["1", 1]}, "always 1", True),
    Key("request_id", *_ID, "a name that no other request of the workspace has or had", True),
    Key("created_utc", _created, _MOMENT, "when it was written: 2026-11-22T05:00:00Z", True),
    Key("requested_by", *_text("TG134", limits.REQUESTED_BY_CHARS), "who asks for the run", True),
    Key(
        "approved_by",
        _text("TG143", limits.NAME_CHARS)[0],
        {"anyOf": [_NULL, {"type": "string", "maxLength": limits.NAME_CHARS}]},
        "the operator who approved it; written by threegate approve",
    ),
    Key(
        "approved_utc",
        lambda node, _bounds: fields.read_time(node, "TG144"),
        {"anyOf": [_NULL, {"const": ""}, _MOMENT]},
        "when it was approved; written by threegate approve",
    ),
    Key("purpose", *_text("TG135", limits.PURPOSE_CHARS), "one sentence that says what the run is for", True),
    Key(
        "backend",
        _backend,
        {"enum": list(BACKENDS), "default": DEFAULT_BACKEND},
        " or ".join((", ".join([*BACKENDS][:-1]), [*BACKENDS][-1])),
    ),
    Key("project", *_PROJECT, "the registered name of the project to change", versions="2"),
    Key(
        "deliver",
        _word("TG177", *CHOICES)[0],
        {"anyOf": [_NULL, {"enum": ["", *CHOICES]}]},
        "what the change becomes, if whoever approves chose it; written by threegate approve",
        versions="2",
    ),
    Key(
        "derived_from",
        *_DERIVED,
        "the id of the request of whose change this is a part; written by threegate project take ID PATH",
        versions="2",
    ),
    Key("server", *_SERVER, "the name of the server whose tool is called", versions="2"),
    Key("manifest_sha256", *_DIGEST, "the digest of the server's pinned manifest", versions="2"),
    Key("host", lists.read_one_host, _short(limits.HOST_CHARS), "the host to open for a run", versions="2"),
    Key("language", _language, _short(64), "what the code is written in; no shell", True, "1"),
    Key("network", *_word("TG138", "none", "allowlist"), "none or allowlist", True),
    Key(
        "cpu_limit",
        lambda node, bounds: fields.read_cores(node, most=bounds.settings.max_cpu),
        _CORES,
        'cores as a decimal number, such as "1" or "0.5"',
        True,
        "1",
    ),
    Key("memory_limit_mb", *_integer("TG140", 8, "max_memory_mb", "MiB"), "memory in MiB", True, "1"),
    Key("time_limit_sec", *_integer("TG141", 1, "max_time_sec", "seconds"), "wall-clock time in seconds", True),
    Key(
        "inputs",
        lambda node, bounds: lists.read_inputs(node, bounds.findings),
        _array(limits.INPUT_ENTRIES, _INPUT),
        "the input files, by name and sha256",
    ),
    Key("workdir", _workdir, {**_FOLDER[1], "default": "/in"}, "where the command starts", versions="1"),
    Key(
        "outputs_expected",
        lambda node, bounds: lists.read_outputs(node, bounds.findings),
        _array(limits.OUTPUT_ENTRIES, _OUTPUT),
        "the files that the run leaves under /out/",
    ),
    Key(
        "network_allowlist",
        lambda node, bounds: lists.read_allowlist(node, bounds.findings),
        _HOSTS,
        "the hosts that may be reached, as host or host:port",
    ),
    Key("constraints", *_texts(limits.LIST_TEXT_CHARS), "what the operator should know; shown, not enforced"),
    Key("session_id", *_NAME, "the session in which the contract gate counts the call"),
    Key("tool", *_NAME, "the tool whose contract applies besides the backend's"),
    Key("labels", *_texts(limits.LABEL_CHARS), "labels of the call, for the contract gate"),
    Key("workflow", *_NAME, "the workflow that the session belongs to"),
    Key("role", *_NAME, "the role of the session in its workflow"),
    Key("risk_domain", *_word("TG164", *RISK_DOMAINS), "the domain for the AANA gate"),
    Key(
        "evidence",
        lambda node, bounds: lists.read_evidence(node, bounds.findings),
        _EVIDENCE,
        "evidence references for the AANA gate",
    ),
)
KEYS: Final[Mapping[str, Key]] = {key.name: key for key in _TABLE}
"""Every key that there is, in the order of docs/spec/1-tool-request.md."""


def read_keys(root: YamlNode, stage: Stage, bounds: Bounds, unread: Container[str] = ()) -> dict[str, Any]:
    """Read every key of the mapping. Problems go to `bounds.findings`; a key with one is not in the result. The keys
    `unread` are in the file, but could not be read."""
    values: dict[str, Any] = {}
    findings = bounds.findings
    written = root.value["schema_version"][1].value if "schema_version" in root.value else "1"
    version = "2" if written in ("2", 2) and not isinstance(written, float) else "1"  # 1 where the value is none
    for name, (key_node, node) in root.value.items():
        key = KEYS.get(name)
        if key is None:
            near = f"; did you mean {known}?" if (known := nearest_key(name)) else ""
            findings.at("TG120", key_node, f"unknown key{near}; see schemas/tool-request.schema.md")
            continue
        if version not in key.versions:
            findings.at("TG170", key_node, f"{name} is not a key of a request of version {version}; leave it out")
            continue
        if name in (*APPROVAL_KEYS, _CHOICE) and not _is_filled(root, name):
            continue
        if name == _CHOICE and stage == "draft":
            findings.at("TG177", key_node, f"{name} is chosen by the person who approves; leave it out of a draft")
            continue
        if name in APPROVAL_KEYS and stage == "draft":
            # Read only for its position: threegate approve replaces this line with its own.
            if isinstance(node.value, list | dict) or node.lines > 1:
                findings.at(_APPROVAL_RULES[name], node, f"{name} must be on one line; leave it out of a draft")
            findings.at("TG145", key_node, f"{name} means nothing in a draft; leave it out")
            continue
        try:
            values[name] = key.read(node, bounds)
        except FieldError as error:
            findings.at(error.rule, node, f"{name} {error}")
    for key in KEYS.values():
        if key.required and version in key.versions and key.name not in root.value and key.name not in unread:
            findings.add("TG121", 1, 1, f"the key {key.name} is missing; {key.description}")
    if stage == "approved":
        missing = [name for name in APPROVAL_KEYS if not _is_filled(root, name)]
        if missing:
            message = f"an approved request names {' and '.join(missing)}; promote it with: threegate approve"
            place = next((root.value[name][0] for name in missing if name in root.value), None)
            findings.add("TG142", place.line if place else 1, 1, message)
    return values


def check_together(root: YamlNode, values: Mapping[str, Any], rules: Backend, findings: Findings) -> None:
    """Rules between keys, for the values that were read."""

    def place(name: str) -> YamlNode:
        return root.value[name][1] if name in root.value else YamlNode("", "", 1, 1)

    if values.get("schema_version", rules.version) != rules.version:
        newer = " or ".join(name for name, item in BACKENDS.items() if item.version == "2")
        message = f'schema_version must be "{rules.version}" for backend {rules.name}; version 2 is for backend {newer}'
        findings.at("TG131", place("schema_version"), message)
    else:
        for name in rules.keys:
            if name not in root.value:
                what = TOOL_TO_CALL if name == "tool" else KEYS[name].description
                findings.add("TG121", 1, 1, f"the key {name} is missing; {what}")
        rules.check(values, root.value, lambda rule, name, message: findings.at(rule, place(name), message))
        ours = (*rules.keys, *rules.optional)
        for name, key in KEYS.items():
            if key.versions == rules.version == "2" and name in root.value and name not in ours:
                findings.at("TG170", root.value[name][0], f"{name} is not a key of backend {rules.name}; leave it out")
    if rules.language and values.get("language", rules.language).casefold() != rules.language:
        findings.at("TG137", place("language"), f"language must be {rules.language} for backend {rules.name}")
    if not rules.network and values.get("network") == "allowlist":
        message = f"network must be none for backend {rules.name}, which has no network"
        findings.at("TG138", place("network"), message)
    if "network" in values and (values["network"] == "allowlist") != ("network_allowlist" in root.value):
        message = (
            "network_allowlist is there exactly when network is allowlist: write 'network_allowlist:' and below it a "
            "line '  - api.example.com:443' for each host, or network: none"
        )
        there = "network_allowlist" if "network_allowlist" in root.value else "network"
        findings.at("TG158", place(there), message)
    created, approved = values.get("created_utc"), values.get("approved_utc")
    if created is not None and approved is not None and approved < created:
        findings.at("TG144", place("approved_utc"), "approved_utc is before created_utc")
    below = values.get("workdir", "/in").removeprefix("/in").removeprefix("/").split("/")[0]
    stems = {item.name.removesuffix(".tar") for item in values.get("inputs", ()) if item.unpack}
    if below and values["workdir"] != "/out" and below not in stems:
        findings.at("TG155", place("workdir"), "workdir is in no unpacked input; only those make folders in /in")


def _is_filled(root: YamlNode, name: str) -> bool:
    return name in root.value and root.value[name][1].value not in ("", None)


def nearest_key(name: str) -> str | None:
    """The known key that differs from `name` only in case, dashes or blanks."""
    plain = re.sub(r"[^a-z0-9]", "", name.casefold())
    return next((known for known in KEYS if known.replace("_", "") == plain), None)
