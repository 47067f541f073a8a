"""A secret behind more findings than a person is asked about one by one is not shown for that."""

from __future__ import annotations

import base64
from pathlib import Path

from threegate.core import limits
from threegate.plugins.agents.file_findings import find_in_file
from threegate.plugins.agents.project_survey import survey

KEY = b"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n" % base64.b64encode(b"\x30\x26" + bytes(range(38)))
TOKEN = b"token = 'ghp_n4Kd9Zq2Lw8Xr5Tb7Vm3Yc6Hj1Gf0SpQaRuE'\n"
PUBLIC = "tests/fixtures/keys.txt"


def test_tracked_keys_of_tests_do_not_carry_a_token_along() -> None:
    """Each of the keys is shown; what is behind the last that is looked at one by one must not be."""
    few, many = KEY * 3, KEY * (limits.AGENT_FINDINGS_LISTED + 1) + TOKEN
    assert not any(item.hides for item in find_in_file(PUBLIC, few, b"", lambda _: True))
    assert any(item.hides for item in find_in_file(PUBLIC, few + TOKEN, b"", lambda _: True))
    [found] = find_in_file(PUBLIC, many, b"", lambda _: True)
    assert found.hides and found.certain and found.line == 0


def test_answers_about_the_first_ones_open_nothing(tmp_path: Path) -> None:
    """Somebody decided to show each of the tokens that were there; another one makes the file another question."""
    tokens = [TOKEN.replace(b"n4Kd", b"%04x" % number) for number in range(limits.AGENT_FINDINGS_LISTED + 5)]
    (tmp_path / "a.txt").write_bytes(b"".join(tokens[: limits.AGENT_FINDINGS_LISTED]))
    asked = survey(tmp_path, key=b"k")
    shown = {item.digest: False for item in asked.findings}
    assert "a.txt" in asked.hidden and "a.txt" in survey(tmp_path, key=b"k", answers=shown).entries
    (tmp_path / "a.txt").write_bytes(b"".join(tokens))
    assert survey(tmp_path, key=b"k", answers=shown).hidden["a.txt"] == "secret"
