"""The program itself holds no secret."""

from __future__ import annotations

from pathlib import Path

import threegate
from threegate.core.secretscan.scan import find_secrets


def test_our_own_code_holds_none_but_the_examples_of_the_rule() -> None:
    package = Path(threegate.__file__).parent
    told = {
        path.relative_to(package).as_posix()
        for ending in ("py", "toml")
        for path in package.rglob(f"*.{ending}")
        if find_secrets(path.read_text("utf-8"))
    }
    assert told <= {"request/rule_tables/content.toml", "proposals/rules.py"}
