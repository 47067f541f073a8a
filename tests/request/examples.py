"""Whole requests for the tests, and the embedding of rule examples into them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from threegate.core.settings import RequestSettings
from threegate.request.gate_rules import Rule
from threegate.request.reader import read_request
from threegate.request.report import Report

NOW = datetime(2026, 11, 22, 5, 30, tzinfo=UTC)
SETTINGS = RequestSettings()
NAME = "TR-20261122-050000Z-rank.md"

KEYS = {
    "request_type": "tool_request",
    "schema_version": '"1"',
    "request_id": "rank-1",
    "created_utc": "2026-11-22T05:00:00Z",
    "requested_by": "core-agent",
    "purpose": "Rank the sales by region",
    "backend": "ERA",
    "language": "python",
    "network": "none",
    "cpu_limit": '"0.5"',
    "memory_limit_mb": "256",
    "time_limit_sec": "60",
}
APPLY_KEYS = {
    **{key: value for key, value in KEYS.items() if key not in ("language", "cpu_limit", "memory_limit_mb")},
    "schema_version": '"2"',
    "backend": "apply",
    "project": "web",
    "inputs": f"[{{name: changes.tar, sha256: {'a' * 64}}}]",
}
MCP_KEYS = {
    **{key: value for key, value in APPLY_KEYS.items() if key not in ("project", "inputs")},
    "backend": "mcp",
    "server": "notes",
    "tool": "add",
    "manifest_sha256": "a" * 64,
}
REACH_KEYS = {
    **{key: value for key, value in APPLY_KEYS.items() if key not in ("project", "inputs")},
    "backend": "reach",
    "host": "api.example.com",
}
APPROVED = {"approved_by": "ada", "approved_utc": "2026-11-22T05:10:00Z"}
RISK = "\nRisk level: low\nJustification: reads one file\nData sensitivity: public\nNetwork rationale: none\n"
ERA = {
    "Command": "\npython3 -u script.py --out /out/ranked.json\n",
    "Input Files": "\nnone\n",
    "Output Expectations": "\nnone\n",
    "Risk Assessment": RISK,
}
APPLY = {
    "Changes": f"\n- digest: sha256:{'a' * 64}\n- add: 1\n- modify: 2\n- delete: 0\n- mode: 0\n- type: 0\n",
    "Output Expectations": "\nnone\n",
    "Risk Assessment": RISK,
}
MCP = {
    "Arguments (JSON)": '\n```json\n{"text":"hello"}\n```\n',
    "Output Expectations": "\nnone\n",
    "Risk Assessment": RISK,
}
REACH = {
    "Arguments (JSON)": '\n```json\n{"why":"To fetch the rates."}\n```\n',
    "Output Expectations": "\nnone\n",
    "Risk Assessment": RISK,
}
MONTY = {
    "Code": "\n```python\nprint(1)\n```\n",
    "Inputs (JSON)": '\n```json\n{"limit": 3}\n```\n',
    "Output Expectations": "\nnone\n",
    "Risk Assessment": RISK,
}


def request(keys: dict[str, str] | None = None, sections: dict[str, str] | None = None, *, intro: str = "") -> str:
    """The text of a request: `keys` are YAML texts by key, `sections` the text below each heading."""
    front = "".join(
        f"{name}:{' ' * (value[:1] not in ('', chr(10)))}{value}\n" for name, value in (keys or KEYS).items()
    )
    body = "\n".join(f"## {name}\n{text}" for name, text in (sections or ERA).items())
    return f"---\n{front}---\n{intro}\n{body}"


def era(**changes: str) -> str:
    """A good ERA request with some keys changed."""
    return request({**KEYS, **changes})


def monty(**changes: str) -> str:
    """A good monty request with some keys changed."""
    return request({**KEYS, "backend": "monty", **changes}, MONTY)


def apply(**changes: str) -> str:
    """A good apply request with some keys changed."""
    return request({**APPLY_KEYS, **changes}, APPLY)


def mcp(**changes: str) -> str:
    """A good mcp request with some keys changed."""
    return request({**MCP_KEYS, **changes}, MCP)


def reach(**changes: str) -> str:
    """A good request for a host with some keys changed."""
    return request({**REACH_KEYS, **changes}, REACH)


def read(text: str | bytes, *, stage: str | None = "draft", name: str = NAME) -> Report:
    """Read a request as the tests do: fixed settings and moment."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return read_request(data, path=name, settings=SETTINGS, now=NOW, stage=stage)  # type: ignore[arg-type]


def ids(report: Report) -> set[str]:
    """The rules that found something."""
    return {finding.rule for finding in report.findings}


def plugin_of(example: str) -> str | None:
    """The plugin without whose backend an example of a rule is something else; None if it is of the core's own."""
    plugins = (("{apply}", "changes"), ("{mcp}", "tools"), ("{reach}", "agents"))
    return next((plugin for word, plugin in plugins if word in example), None)


def read_example(rule: Rule, example: str) -> Report:
    """Read a good request with one example of a rule in it (see `threegate.request.gate_rules.Where`)."""
    if rule.where == "name":
        return read(era(), name=example)
    if rule.where == "file":
        text = example.replace("{request}", era()).replace("{64k}", "x" * 65536).replace("{byte-ff}", "\udcff")
        return read(text.replace("{2000-newlines}", "\n" * 2000))
    if rule.where == "front matter":
        return _read_front_matter(example)
    if rule.where == "body":
        return _read_body(example)
    sections, backend = dict(MONTY), {"backend": "monty"}
    if rule.where == "command":
        sections, backend = {**ERA, "Command": f"\n{example}\n"}, {}
    elif rule.where == "code":
        sections["Code"] = f"\n````python\n{example}\n````\n"
    elif rule.where == "vars":
        sections["Inputs (JSON)"] = f"\n````json\n{example}\n````\n"
    else:
        sections, backend = {**ERA, "Risk Assessment": RISK.replace("reads one file", example)}, {}
    return read(request({**KEYS, **backend}, sections))


_NEWER = {"{apply}": APPLY_KEYS, "{mcp}": MCP_KEYS, "{reach}": REACH_KEYS}


def _keys_of(lines: str) -> tuple[dict[str, str], list[str], dict[str, str]]:
    """Lines of an example as keys (a line that is no 'key: value' continues), raw lines, and the base to change."""
    keys = dict(KEYS)
    raw: list[str] = []
    last = ""
    seen: set[str] = set()
    for line in lines.split("\n"):
        match = re.fullmatch(r"([a-z_0-9]+):[ ]?(.*)", line)
        if line in _NEWER:
            keys.clear()
            keys.update(_NEWER[line])
        elif line.startswith("-") and line[1:] in {*KEYS, *APPROVED, *APPLY_KEYS, *MCP_KEYS}:
            keys.pop(line[1:], None)
        elif line == "{approved}":
            keys.update(APPROVED)
        elif match and match[1] not in seen:
            last = match[1]
            seen.add(last)
            keys[last] = match[2]
        elif last and line.startswith("  "):
            keys[last] += f"\n{line}"
        else:
            raw.append(line)
    return keys, raw, keys


def _sections_for(keys: dict[str, str]) -> dict[str, str]:
    sections = dict({"monty": MONTY, "apply": APPLY, "mcp": MCP, "reach": REACH}.get(keys.get("backend", ""), ERA))
    names = re.findall(r"name: ([^,}]+),", keys.get("inputs", ""))
    if "Input Files" in sections and names and keys["inputs"].startswith("["):
        sections["Input Files"] = "\n" + "".join(f"- /in/{name}\n" for name in names)
    paths = re.findall(r"path: ([^,}\]]+)", keys.get("outputs_expected", ""))
    if paths:
        sections["Output Expectations"] = "\n" + "".join(f"- /out/{path.removeprefix('/out/')}\n" for path in paths)
    if "network_allowlist" in keys:
        sections["Risk Assessment"] = RISK.replace("rationale: none", "rationale: fetches the rates")
    return sections


def _read_front_matter(example: str) -> Report:
    keys, raw, _ = _keys_of(example)
    text = request(keys, _sections_for(keys))
    stage = "approved" if "{approved}" in example else "draft"
    extra = "".join(f"{line}\n" for line in raw).replace("{16k}", "x" * 16384)
    return read(text.replace("\n---\n", f"\n{extra}---\n", 1), stage=stage)


def _read_body(example: str) -> Report:
    front, _, body = (
        example.rpartition("\n\n## ") if "\n\n## " in example and not example.startswith("##") else ("", "", example)
    )
    if front:
        head, _, tail = example.partition("\n\n")
        front, body = head, tail
    elif example.endswith("\n\n") and ":" in example.split("\n")[0]:
        front, body = example.strip(), ""
    keys, _, _ = _keys_of(front)
    sections = _sections_for(keys)
    intro = ""
    if body.startswith("^"):
        intro, body = "\n" + body[1:], ""
    if body.startswith("-## "):
        del sections[body.removeprefix("-## ")]
        body = ""
    if body.endswith("=order"):
        sections["Output Expectations"], sections["Risk Assessment"] = (
            sections.pop("Risk Assessment"),
            sections["Output Expectations"],
        )
        text = (
            request(keys, sections)
            .replace("## Output Expectations", "## X")
            .replace("## Risk Assessment", "## Output Expectations")
            .replace("## X", "## Risk Assessment")
        )
        return read(text)
    if body:
        name, _, text = body.removeprefix("## ").partition("\n")
        if name in sections:
            sections[name] = text
        else:
            return read(request(keys, sections) + "\n" + body)
    return read(request(keys, sections, intro=intro))
