"""Every line that a message, a card, a page, a help text or a fix suggests to type is one that the commands take.

Found in the strings of the program; tests/whole/docs/test_commands_of_pages.py does the same for the pages, and
tests/whole/end_to_end/test_suggestions_work.py types what real screens suggest.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import threegate
from tests.suggested_lines import lines_in, problem, texts_of_code

PACKAGE = Path(threegate.__file__).parent
NO_LINES = {"threegate core": "names that a server of tools cannot have (plugins/tools/tool_servers.py)"}


def test_the_commands_take_every_line_that_the_program_suggests() -> None:
    found = [
        (f"{path.relative_to(PACKAGE)}:{number}", line)
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, text in texts_of_code(path)
        for line in lines_in(text)
    ]
    assert len({line for _, line in found}) > 90, "the collector finds them"
    wrong = [f"{place}: {line}: {why}" for place, line in found if (why := problem(line)) and line not in NO_LINES]
    assert not wrong, "\n".join(wrong)
    assert NO_LINES.keys() <= {line for _, line in found}, "nothing says this any more"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("see: threegate audit verify; or ask", "threegate audit verify", None),
        ("use: threegate draft --again", "threegate draft --again", "--again needs a value"),
        ("`threegate retry ID` does it", "threegate retry", "threegate has no command retry"),
        ("threegate status lists them", "threegate status", None),
        ("now: threegate show {} --resut", "threegate show {} --resut", "threegate show has no option --resut"),
        ("threegate operator, then", "threegate operator", "threegate operator does nothing by itself"),
        ("threegate reject, please", "threegate reject", "threegate reject takes 1 arguments, not 0"),
        ("threegate run ID", "threegate run ID", "threegate run takes 0 arguments, not 1"),
        ("(threegate grant list --json).", "threegate grant list --json", None),
        ("threegate agent run generic -- PROGRAM", "threegate agent run generic -- PROGRAM", None),
        ("threegate -w DIR approve {}", "threegate -w DIR approve {}", None),
    ],
)
def test_the_collector(text: str, line: str, why: str | None) -> None:
    assert list(lines_in(text)) == [line]
    assert problem(line) == why
