"""What is said of a mistake in threegate.toml: where it stands and what was probably meant. Pure; decides nothing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence


def toml_mistake(said: str) -> str:
    """What the TOML reader says as `:line: what; mend`."""
    match = re.fullmatch(r"(.*) \(at line ([0-9]+), column [0-9]+\)", said)
    what, line = (match[1], f":{match[2]}") if match else (said, "")
    twice = re.fullmatch(r"Cannot declare \((.*?),?\) twice", what)
    if twice is not None:
        table = ".".join(re.findall(r"'([^']*)'", twice[1]))
        return f"{line}: the table [{table}] stands twice; put all of its keys below the first one"
    return f"{line}: no TOML: {what}; mend this line"


def nearest_setting(key: str, known: Sequence[str]) -> str:
    """The setting that was probably meant: a table nearly of this name, nearly the same path, or the same word."""
    tables = difflib.get_close_matches(key, {name.partition(".")[0] for name in known}, 1, 0.75)
    close = difflib.get_close_matches(key, known, 1, 0.75)
    word = key.rpartition(".")[2]
    elsewhere = [
        name for name in known if difflib.get_close_matches(word, [name.rpartition(".")[2]], 1, 0.75)
    ]
    found = (*tables, *close, *elsewhere)
    return f"; did you mean {found[0]}?" if found else ""


def line_of(text: str, location: tuple[int | str, ...]) -> int:
    """Line of a key, by its last name (a search, good enough for a message)."""
    for name in reversed([str(part) for part in location]):
        pattern = re.compile(rf"^\s*(\[.*\b{re.escape(name)}\b.*\]|[\"']?{re.escape(name)}[\"']?\s*=)")
        for number, line in enumerate(text.splitlines(), start=1):
            if pattern.match(line):
                return number
    return 1
