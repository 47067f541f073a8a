"""Short ways to write whole requests that are good but for one thing."""

from __future__ import annotations

from tests.request.examples import ERA, KEYS, MONTY, RISK, era, monty, request

Text = str | bytes
A, B = "a" * 64, "b" * 64

__all__ = [
    "ERA",
    "KEYS",
    "MONTY",
    "RISK",
    "A",
    "B",
    "Text",
    "code",
    "command",
    "era",
    "front",
    "listed",
    "monty",
    "outputs",
    "prose",
    "request",
    "risk",
    "variables",
]


def command(line: str) -> str:
    """An ERA request with this command."""
    return request(KEYS, {**ERA, "Command": f"\n{line}\n"})


def code(text: str) -> str:
    """A monty request with this code."""
    return request({**KEYS, "backend": "monty"}, {**MONTY, "Code": f"\n````python\n{text}\n````\n"})


def variables(text: str) -> str:
    """A monty request with these inputs."""
    return request({**KEYS, "backend": "monty"}, {**MONTY, "Inputs (JSON)": f"\n````json\n{text}\n````\n"})


def front(lines: str) -> str:
    """An ERA request with raw lines at the end of its front matter."""
    return era().replace("\n---\n", f"\n{lines}\n---\n", 1)


def prose(text: str) -> str:
    """An ERA request with this justification."""
    return request(KEYS, {**ERA, "Risk Assessment": RISK.replace("reads one file", text)})


def risk(text: str) -> str:
    """An ERA request with this risk assessment."""
    return request(KEYS, {**ERA, "Risk Assessment": f"\n{text}\n"})


def outputs(text: str, **keys: str) -> str:
    """An ERA request with these output expectations."""
    return request({**KEYS, **keys}, {**ERA, "Output Expectations": f"\n{text}\n"})


def listed(text: str, inputs: str = f"[{{name: data.csv, sha256: {A}}}]") -> str:
    """An ERA request with this list of input files."""
    return request({**KEYS, "inputs": inputs}, {**ERA, "Input Files": f"\n{text}\n"})
