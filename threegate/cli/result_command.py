"""`threegate result validate`: check whether a file is a well-formed tool result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json
from threegate.core.errors import EXIT_REFUSED

app = typer.Typer(no_args_is_help=True)


@app.callback()
def result() -> None:
    """Check result files."""


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="TS-*.md files.")],
    json_: JsonFlag = False,
) -> None:
    """Check whether files are well-formed tool results.

    Exit 2 if one is not, with the reason.

    Example: threegate result validate tool-exec/results/TS-20261122-101530Z-sum.md
    """
    from threegate.core import durable, limits
    from threegate.launch.results.validate import validate_result

    found = {}
    for path in files:
        data = durable.read_named(path, max_bytes=limits.RESULT_BYTES)
        found[str(path)] = validate_result(data)
    if wants_json(json_):
        emit_json(
            {
                "results": [
                    {"path": path, "valid": not problems, "problems": [item.to_json() for item in problems]}
                    for path, problems in found.items()
                ]
            }
        )
    else:
        for name, problems in found.items():
            for item in problems:
                say(f"{name}:{item.line}: {item.message}")
            if not problems:
                say(f"{name}: valid")
    if any(found.values()):
        raise typer.Exit(EXIT_REFUSED)
