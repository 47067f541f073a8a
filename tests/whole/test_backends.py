"""The table of backends with those that plugins bring."""

from __future__ import annotations

import subprocess
import sys

from tests.runners.test_registry import HEAVY
from threegate.request.backend import BACKENDS, DEFAULT_BACKEND


def test_each_backend_is_what_its_name_in_the_table_says() -> None:
    assert list(BACKENDS) == ["ERA", "monty", "reach", "apply", "mcp"] and DEFAULT_BACKEND in BACKENDS
    assert len(BACKENDS) == 5 and "toy" not in BACKENDS
    for name, backend in BACKENDS.items():
        assert (backend.name, backend.sections[-1]) == (name, "Risk Assessment")


def test_the_table_and_every_description_load_nothing_heavy() -> None:
    program = (
        "import sys, threegate.runners.backend as r; before = set(sys.modules);"
        "assert not [n for n in before if n.startswith(('threegate.runners.monty', 'threegate.runners.era'))];"
        f"heavy = lambda: {{n.split('.')[0] for n in sys.modules}} & {{*{HEAVY!r}}};"
        "r.backends(); print(heavy()); r.policy_facts(); print(heavy())"  # Monty's version is asked of itself
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("set()\n{'pydantic_monty'}\n", "")
