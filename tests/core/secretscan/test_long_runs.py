"""A text with long runs of base64 is scanned another way than prose: with the same answer, and in a similar time."""

from __future__ import annotations

import base64
import random
import time

import pytest

from tests.core.secretscan.test_forms import EXAMPLES
from threegate.core.secretscan.certain import find_certain
from threegate.core.secretscan.patterns import ASSIGNED_NAME, FORMS
from threegate.core.secretscan.scan import PatternSet, compiled, find_secrets, has_secret, one_byte_each

PATTERNS = [*(form.pattern for form in FORMS), ASSIGNED_NAME]
SET = PatternSet(PATTERNS)
MIB = 1 << 20


def base64_text(size: int, seed: int = 37) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()[:size]


PICTURE = f'"image/png": "{base64_text(400)}",\n'


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(EXAMPLES)])
def test_the_same_forms_occur_beside_a_picture(kind: str, example: str) -> None:
    alone, beside = (one_byte_each(text) for text in (f"{example}\n", f"{example}\n{PICTURE}"))
    assert set(SET.which(alone)) <= set(SET.which(beside))
    assert SET.which(beside) == [n for n, pattern in enumerate(PATTERNS) if compiled(pattern).search(beside)]
    assert kind in {found.kind for found in find_secrets(f"{PICTURE}{example}\n")}


def test_both_ways_give_the_same_answer_for_any_pieces_of_forms() -> None:
    """Pieces of examples in any order, in which some forms occur and others nearly do."""
    draw = random.Random(1)
    for _ in range(300):
        pieces = []
        for _, example in draw.sample(EXAMPLES, 4):
            start = draw.choice([0, 0, 1, 3])
            pieces.append(example[start : draw.choice([len(example), len(example), len(example) - 1])])
        data = one_byte_each(draw.choice([" ", "\n", "", '"']).join([*pieces, PICTURE]))
        assert SET.which(data) == [n for n, pattern in enumerate(PATTERNS) if compiled(pattern).search(data)]


@pytest.mark.parametrize(
    "patterns",
    [[r"[0-9]{3}"], [r"abc[0-9]"], [r"(?i)abc", r"[0-9]{3}", r"\babc[d]"], [r"a|b", r".", r""]],
    ids=["no literal", "only begun", "mixed", "short"],
)
def test_any_patterns_can_be_asked_both_ways(patterns: list[str]) -> None:
    asked = PatternSet(patterns)
    for text in ("", "abcd", "ABC 123", "xabc1 b"):
        for beside in ("", "\n" + "x-Y7" * 30):
            data = one_byte_each(text + beside)
            assert asked.which(data) == [n for n, pattern in enumerate(patterns) if compiled(pattern).search(data)]


def test_a_notebook_is_scanned_about_as_fast_as_code() -> None:
    """500 ns a byte were 100 times what code takes: a project with 80 MB of notebooks took 16 s to start."""
    notebook = base64_text(MIB)
    code = "def area(self, width: int) -> int:\n    return self.height * width\n" * (MIB // 68)
    for scan in (has_secret, find_certain):
        assert not scan(notebook) and not scan(code)  # compiles what is compiled once
        spent = []
        for text in (code, base64_text(MIB, 38)):
            begun = time.thread_time()
            assert not scan(text)
            spent.append(time.thread_time() - begun)
        assert spent[1] < 0.2, f"{scan.__name__}: {spent[1]:.2f} s for 1 MiB of base64, {spent[0]:.3f} s of code"
