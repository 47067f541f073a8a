"""Drafts made to cost the offer of fixes dear: it takes about what reading takes, however long a line is."""

from __future__ import annotations

import time

import pytest

from tests.request.examples import NAME, NOW, SETTINGS, era
from threegate.request.fixes import propose_fixes
from threegate.request.reader import read_request

N = 48_000
LIST = "## Input Files\n\nnone"
SECONDS = 10
"""Far above what it takes (below 0.3 s); the quadratic ways that were here first took more than a minute."""

BOMBS = {
    "a heading of marks": era() + "\n## " + "#" * N + "x\n",
    "a heading of colons": era().replace("## Command", "## " + "#:" * (N // 2) + "x"),
    "a key of blanks": era().replace("network:", "network" + " " * N + "x"),
    "a key of words": era().replace("network:", "a " * (N // 2) + "x"),
    "a risk of stars": era().replace("Risk level:", "Risk level" + ":*" * (N // 2) + "low"),
    "a list of blanks": era().replace(LIST, LIST[:-4] + "- /in/data.csv" + " " * N + "x"),
    "a hash behind blanks": era().replace(LIST, LIST[:-4] + "- /in/data.csv" + " " * N + "sha256: " + "b" * 64),
    "many hashes": era().replace(LIST, LIST[:-4] + "- /in/data.csv" + " sha256:" * (N // 8)),
    "many wrong outputs": era().replace("\nnone\n\n## Risk", "\n" + "- a table of it\n" * (N // 30) + "\n## Risk"),
    "a long text of outputs": era().replace(
        "\nnone\n\n## Risk", "\n" + "ranked-by-the-region.json\n" * 1900 + "\n## Risk"
    ),
    "many broken keys": era().replace("network:", "".join(f"k{number}: a: b\n" for number in range(1200)) + "network:"),
    "many keys without marks": "".join(f"purpose: {number}: b\n" for number in range(950)) + era(),
    "many fences": "```markdown\n" + era() + "```python\n" * 1900,
    "words before": "words that are said before it\n" * 1900 + era(),
    "a heading of stars": era().replace("## Input Files", "*" * N),
    "many marks": era() + "\n".join("## " + "#" * 190 + "x" for _ in range(N // 200)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_long_line_costs_no_more_than_its_length(name: str) -> None:
    data = BOMBS[name].encode()
    assert N // 4 < len(data) < 65_536, "the attack must be in the draft"
    report = read_request(data, path=NAME, settings=SETTINGS, now=NOW, stage="draft")
    assert any(finding.severity == "error" for finding in report.findings)
    begin = time.perf_counter()
    propose_fixes(data, report, settings=SETTINGS, now=NOW)
    assert time.perf_counter() - begin < SECONDS
