"""The examples in the agent's prompt: requests, rendered so that the reader can parse them back.

Invariant: an example is rendered from a `Request` within the workspace's own limits, so it passes gate 1
there; a test checks this, and runs those that need no engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from threegate.core.canonical import sha256_hex
from threegate.core.settings import RequestSettings
from threegate.request.action import Command, Script
from threegate.request.model import InputFile, NetworkTarget, OutputFile
from threegate.request.render_draft import blank_draft, file_name, render_request

SALES = b"region,amount\nnorth,120\nsouth,310\nnorth,205\n"
"""The bytes of the examples' input file ``sales.csv``."""

_SUM_CODE = """\
total = 0
for line in open('/in/sales.csv').read().splitlines()[1:]:
    total += int(line.split(',')[1])
print('total', total)
{'total': total}
"""
_SORT = ("sort", "-t", ",", "-k", "2", "-n", "-o", "/out/sorted.csv", "/in/sales.csv")
_FETCH = ("curl", "-sS", "--fail", "-o", "/out/rates.json", "https://api.example.com/v1/rates")


@dataclass(frozen=True, slots=True)
class AgentExample:
    """One example: its title, the file's name in inbox/, its text."""

    title: str
    name: str
    text: str


def request_examples(settings: RequestSettings, now: datetime) -> tuple[AgentExample, ...]:
    """A minimal monty request, an ERA request with an input, an ERA request with network. Pure."""
    moment = now.astimezone(UTC).replace(microsecond=0)
    sales = (InputFile("sales.csv", sha256_hex(SALES)),)
    parts: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (
            "The smallest: a few lines of Python in the embedded sandbox",
            "add-up",
            {"backend": "monty", "action": Script("print(3 + 4)\n"), "purpose": "Add two numbers."},
        ),
        (
            "Python over an input file; `print` what you want to read back",
            "sum-sales",
            {"backend": "monty", "action": Script(_SUM_CODE), "inputs": sales, "purpose": "Add up the sales."},
        ),
        (
            "One program in a container, with an input and an output file",
            "sort-sales",
            {
                "action": Command(_SORT),
                "inputs": sales,
                "language": "text tools",
                "outputs": (OutputFile("/out/sorted.csv"),),
                "purpose": "Sort the sales by amount.",
            },
        ),
        (
            "One program that may reach one host",
            "fetch-rates",
            {
                "action": Command(_FETCH),
                "language": "curl",
                "network": "allowlist",
                "network_allowlist": (NetworkTarget("api.example.com", 443),),
                "network_rationale": "The rates are published at this address only.",
                "outputs": (OutputFile("/out/rates.json"),),
                "purpose": "Fetch today's exchange rates.",
                "data_sensitivity": "public",
                "risk_level": "medium",
            },
        ),
    )
    return tuple(_example(title, slug, fields, settings, moment) for title, slug, fields in parts)


def _example(
    title: str, slug: str, fields: dict[str, Any], settings: RequestSettings, moment: datetime
) -> AgentExample:
    name = file_name(moment, slug)
    request = replace(
        blank_draft(name, moment, "ERA", fields["action"]),
        language="python",
        cpu_limit=min(Decimal(1), Decimal(str(settings.max_cpu))),
        memory_limit_mb=min(128, settings.max_memory_mb),
        time_limit_sec=min(30, settings.max_time_sec),
        risk_level="low",
        justification="It reads only what is declared.",
    )
    return AgentExample(title, name, render_request(replace(request, **fields)).decode())
