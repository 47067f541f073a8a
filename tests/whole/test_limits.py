"""Every bound on what somebody else sends is in `core/limits.py`: "A bound that is not here does not exist"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "threegate"
BOUND = re.compile(r"_?([A-Z0-9]+_)*(BYTES|CHARS|ENTRIES|NESTING|DEPTH|DIGITS|NODES|ROWS|KEYS|USES|SLOTS|MEMORY)")
"""What a bound on foreign data is called, by its unit."""

OWN = {
    "aana/decision_log.py": {"_SALT_BYTES"},
    "client/asked_decision.py": {"_MARK_CHARS"},
    "plugins/agents/model_counts.py": {"_COUNTS_BYTES"},
    "plugins/agents/project_survey.py": {"_HASHED_BYTES", "_ROWS"},
    "plugins/cluster/notes.py": {"_TAIL_BYTES"},
    "plugins/cluster/raw_transport.py": {"_FIXED_HEADER_BYTES"},
    "plugins/cluster/remote_run.py": {"_SAID_CHARS"},
    "cli/output.py": {"_LINE_CHARS"},
    "daemon/input_hashes.py": {"_READ_BYTES"},
    "daemon/log.py": {"_READ_CHARS", "_TEXT_CHARS"},
    "daemon/supervisor.py": {"_STATUS_CHARS"},
    "request/command/programs.py": {"_NAME_CHARS"},
    "request/rules_page.py": {"_CHARS"},
    "runners/egress/secret_forwarder.py": {"ANSWER_BYTES", "REQUEST_BYTES"},
    "plugins/agents/git_index.py": {"_FACTS_BYTES", "_HEAD_BYTES"},
    "plugins/agents/secret_answers.py": {"_KEY_BYTES"},
    "plugins/agents/secret_files.py": {"_GUESSED_BYTES", "_KEY_BYTES"},
    "plugins/changes/commit_message.py": {"_SUBJECT_CHARS"},
    "plugins/changes/stored_form.py": {"_POINTER_BYTES"},
    "plugins/agents/findings_question.py": {"_KIND_CHARS", "_PATH_CHARS"},
    "core/secretscan/certain.py": {
        "_AWS_PREFIX_BYTES",
        "_COUNTED_BYTES",
        "_DER_KEY_BYTES",
        "_HOST_CHARS",
        "_PASSWORD_CHARS",
        "_SLACK_SECRET_CHARS",
    },
    "core/secretscan/possible.py": {"_HEADER_CHARS", "_LEAST_CHARS"},
    "core/secretscan/scan.py": {"_CLIENT_BYTES", "_MEMORY"},
    "plugins/page/views.py": {"_FIRST_BYTES"},
    "plugins/tui/screens.py": {"_REASON_CHARS"},
}
"""Sizes of our own: of a format, a chunk, a shown line; and of the forwarder, which runs without this package."""


def numbers(path: Path) -> set[str]:
    """Names of the numeric constants at the top of a module."""
    found = set()
    for statement in ast.parse(path.read_text()).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        leaves = [] if value is None else [node for node in ast.walk(value) if isinstance(node, ast.Constant)]
        if leaves and all(type(leaf.value) in (int, float) for leaf in leaves):
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_bounds_are_in_limits() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        bounds = {bound for bound in numbers(path) if BOUND.fullmatch(bound)} - OWN.get(name, set())
        if bounds and name != "core/limits.py":
            found[name] = bounds
    assert found == {}


def test_what_is_read_from_a_file_has_a_named_bound() -> None:
    literal = re.compile(r"max_bytes=[0-9](?! \* limits\.)")
    assert [str(path) for path in PACKAGE.rglob("*.py") if literal.search(path.read_text())] == []
