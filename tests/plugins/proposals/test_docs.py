"""docs/proposals.md says what the rules say today. To write it again: python -m tests.plugins.proposals.test_docs"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

from tests.plugins.proposals.test_conformance import CASES, ORDER, verdict_of
from tests.support import make_place
from threegate.plugins.changes.project_paths import PROTECTED_FOLDERS, PROTECTED_PATTERNS
from threegate.plugins.proposals.tools import TOOLS

DOCUMENT = Path(__file__).parents[3] / "docs" / "proposals.md"
REASONS = {
    "unknown_key": "the schema knows no such key",
    "missing": "the schema requires it",
    "type": "the schema asks for another type",
    "range": "the schema's bounds",
    "length": "the schema's bounds",
    "risk": "the schema knows four risks, spelled exactly",
    "tool": "the schema knows 25 tools, spelled exactly",
    "uri": "the schema's format `uri` is asserted",
    "path_outside": "a path that leaves the project is blocked at once, not when it is run",
    "path_guard": "the guards' own settings are never written",
    "argv_refused": "gate 1 refuses the command",
    "argv_destroys": "destruction is found behind launchers too",
    "argv_hidden": "no argument may hide a line break",
    "installs": "installing is forbidden by the request schema",
    "url_private": (
        "more hosts count as local or private (benchmark, multicast, embedded IPv4, names that bear addresses)"
    ),
    "sensitive": "secrets are found under other names and spellings",
}
BASE = {
    "web.fetch": "what goes to the network is looked at by a human",
    "web.search": "what goes to the network is looked at by a human",
    "github.repo_read": "what goes to the network is looked at by a human",
    "browser.open": "what goes to the network is looked at by a human",
    "browser.extract": "what goes to the network is looked at by a human",
    "subagent.delegate": "other agents are only recorded, after a human's look",
}


def table_of_tools() -> str:
    """One line a tool, from the table in threegate.plugins.proposals.tools."""
    lines = [
        "| tool | verdict | risk | declared at least | becomes | arguments (required in bold) |",
        "|---|---|---|---|---|---|",
    ]
    for tool in TOOLS.values():
        names = ", ".join(f"**{name}**" if name in tool.required else name for name in tool.fields)
        lines.append(f"| {tool.name} | {tool.verdict} | {tool.risk} | {tool.least or 'any'} | {tool.lane} | {names} |")
    return "\n".join(lines)


def table_of_differences() -> str:
    """One line for each case of the conformance file in which ours is not the peer's verdict."""
    lines = ["| case | tool | peer | ours | why |", "|---|---|---|---|---|"]
    for case in CASES:
        verdict, final = verdict_of(case["proposal"]), case["peer"]["final"]
        if verdict.verdict == final:
            continue
        proposal = case["proposal"]
        tool = proposal.get("tool") if isinstance(proposal, dict) else None
        codes = sorted({problem.code for problem in verdict.errors})
        if ORDER[verdict.verdict] == ORDER[final]:
            why = "the form is valid and the rule says never: block, where the peer says reject"
        elif codes:
            why = "; ".join(REASONS[code] for code in codes)
        else:
            why = BASE[str(tool)]
        name = case["case"].replace("|", "\\|")
        lines.append(
            f"| {name} | {json.dumps(tool) if not isinstance(tool, str) else tool} | {final} | {verdict.verdict} | "
            f"{why} |"
        )
    return "\n".join(lines)


def protected() -> str:
    """The protected names."""
    folders = " ".join(f"`{name}/`" for name in sorted(PROTECTED_FOLDERS))
    return f"{folders} {' '.join(f'`{pattern}`' for pattern in PROTECTED_PATTERNS)}"


EXAMPLES = {
    "AP-rates.json": {"tool": "web.fetch", "args": {"url": "https://example.com/rates"}},
    "AP-outside.json": {"tool": "file.read", "args": {"path": "../x"}},
}


def verdict_files() -> str:
    """What a daemon writes about two proposals; only the clock is not its own."""
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        place = make_place(Path(folder))
        for name, proposal in EXAMPLES.items():
            (place.root / "inbox" / name).write_text(json.dumps(proposal))
        place.once()
        for name, proposal in EXAMPLES.items():
            text = (place.root / "tool-exec" / "verdicts" / f"{name}.json").read_text()
            text = re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-01-01T00:00:00Z", text)
            text = re.sub(r"\bTR-\d{8}-\d{6}Z-", "TR-20260101-000000Z-", text)
            parts.append(f"`{json.dumps(proposal)}` as `inbox/{name}`:\n\n```json\n{text}```")
    return "\n\n".join(parts)


PARTS = {
    "verdict": verdict_files,
    "tools": table_of_tools,
    "differences": table_of_differences,
    "protected": protected,
}


def generated(text: str) -> str:
    """The document with every generated part made again."""
    for name, make in PARTS.items():
        start, end = f"<!-- generated: {name} -->\n", f"\n<!-- end: {name} -->"
        head, _, rest = text.partition(start)
        assert rest, f"docs/proposals.md has no part {name}"
        text = head + start + make() + end + rest.partition(end)[2]
    return text


def test_the_document_is_current() -> None:
    text = DOCUMENT.read_text()
    assert generated(text) == text, "run: python -m tests.plugins.proposals.test_docs"


if __name__ == "__main__":
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
    DOCUMENT.write_text(generated(DOCUMENT.read_text()))
