"""The front matter as a whole: only known keys, all required ones, and the rules between them.

Invariant: a value is in the returned mapping only if its reader accepted it; every other key is an error.
Source: docs/spec/1-tool-request.md, "Front matter".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from threegate.core.strict_yaml import YamlNode
from threegate.request.backend import BACKENDS
from threegate.request.fields import FieldError
from threegate.request.findings import Findings
from threegate.request.front_matter_keys import KEYS, TOOL_TO_CALL, Bounds
from threegate.request.model import Stage

APPROVAL_KEYS = ("approved_by", "approved_utc")
_RULES = {"approved_by": "TG143", "approved_utc": "TG144"}
_CHOICE = "deliver"
"""The key that only an approval writes, where the person chose."""


def read_keys(root: YamlNode, stage: Stage, bounds: Bounds) -> dict[str, Any]:
    """Read every key of the mapping. Problems go to `bounds.findings`; a key with one is not in the result."""
    values: dict[str, Any] = {}
    findings = bounds.findings
    version = _version(root)
    for name, (key_node, node) in root.value.items():
        key = KEYS.get(name)
        if key is None:
            findings.at("TG120", key_node, f"unknown key{_nearest(name)}; see schemas/tool-request.schema.md")
            continue
        if version not in key.versions:
            findings.at("TG170", key_node, f"{name} is no key of a request of version {version}; leave it out")
            continue
        if name in (*APPROVAL_KEYS, _CHOICE) and not _is_filled(root, name):
            continue
        if name == _CHOICE and stage == "draft":
            findings.at("TG177", key_node, f"{name} is chosen by the person who approves; leave it out of a draft")
            continue
        if name in APPROVAL_KEYS and stage == "draft":
            # Read only for its position: threegate approve replaces this line with its own.
            if isinstance(node.value, list | dict) or node.lines > 1:
                findings.at(_RULES[name], node, f"{name} must be on one line; leave it out of a draft")
            findings.at("TG145", key_node, f"{name} means nothing in a draft; leave it out")
            continue
        try:
            values[name] = key.read(node, bounds)
        except FieldError as error:
            findings.at(error.rule, node, f"{name} {error}")
    for key in KEYS.values():
        if key.required and version in key.versions and key.name not in root.value:
            findings.add("TG121", 1, 1, f"the key {key.name} is missing; {key.description}")
    if stage == "approved":
        missing = [name for name in APPROVAL_KEYS if not _is_filled(root, name)]
        if missing:
            message = f"an approved request names {' and '.join(missing)}; promote it with: threegate approve"
            place = next((root.value[name][0] for name in missing if name in root.value), None)
            findings.add("TG142", place.line if place else 1, 1, message)
    return values


def check_together(root: YamlNode, values: Mapping[str, Any], backend: str, findings: Findings) -> None:
    """Rules between keys, for the values that were read."""

    def place(name: str) -> YamlNode:
        return root.value[name][1] if name in root.value else YamlNode("", "", 1, 1)

    rules = BACKENDS[backend]
    _check_version(root, values, backend, findings)
    if rules.language and values.get("language", rules.language).casefold() != rules.language:
        findings.at("TG137", place("language"), f"language must be {rules.language} for backend {backend}")
    if not rules.network and values.get("network") == "allowlist":
        message = f"network must be none for backend {backend}, which has no network"
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


def _version(root: YamlNode) -> str:
    """The version whose keys are meant; 1 where the value is none."""
    value = root.value["schema_version"][1].value if "schema_version" in root.value else "1"
    return "2" if value in ("2", 2) and not isinstance(value, float) else "1"


def _check_version(root: YamlNode, values: Mapping[str, Any], backend: str, findings: Findings) -> None:
    """Rules between the version, the backend and what the backend needs."""

    def place(name: str) -> YamlNode:
        return root.value[name][1] if name in root.value else YamlNode("", "", 1, 1)

    rules = BACKENDS[backend]
    if values.get("schema_version", rules.version) != rules.version:
        newer = " or ".join(name for name, item in BACKENDS.items() if item.version == "2")
        message = f'schema_version must be "{rules.version}" for backend {backend}; version 2 is for backend {newer}'
        findings.at("TG131", place("schema_version"), message)
        return
    for name in rules.keys:
        if name not in root.value:
            what = TOOL_TO_CALL if name == "tool" else KEYS[name].description
            findings.add("TG121", 1, 1, f"the key {name} is missing; {what}")
    rules.check(values, root.value, lambda rule, name, message: findings.at(rule, place(name), message))
    for name, key in KEYS.items():
        if key.versions == rules.version == "2" and name in root.value and name not in (*rules.keys, *rules.optional):
            findings.at("TG170", root.value[name][0], f"{name} is no key of backend {backend}; leave it out")


def _is_filled(root: YamlNode, name: str) -> bool:
    return name in root.value and root.value[name][1].value not in ("", None)


def nearest_key(name: str) -> str | None:
    """The known key that differs from `name` only in case, dashes or blanks."""
    plain = re.sub(r"[^a-z0-9]", "", name.casefold())
    return next((known for known in KEYS if known.replace("_", "") == plain), None)


def _nearest(name: str) -> str:
    known = nearest_key(name)
    return f"; did you mean {known}?" if known else ""
