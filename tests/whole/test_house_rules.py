"""What holds in the tests themselves: they wait for what happens instead of sleeping, use what is public, and accept
one outcome.

All lists are exact, so that an exception that is no longer needed is taken out of them.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

SLEEPS = {
    "plugins/serve/adversarial/test_held_connections.py": "nothing shows that a client does not read",
    "plugins/tools/adversarial/test_hostile_stateful_servers.py": (
        "what nobody asked for must be in the pipe before the next call"
    ),
    "plugins/agents/npm_agents.py": "between two questions to a registry: nothing says when it is back",
    "plugins/agents/terminal.py": "keys as a person presses them: a page that is passed over in a hurry was not seen",
    "plugins/cluster/test_soak.py": "looks for a file that is there for some milliseconds only",
    "runners/test_slow_engine.py": "a moment within a run that neither the engine nor the run shows",
    "setup/test_systemd.py": "nothing may happen for longer than the watchdog waits",
    "support.py": "the one function that waits for a condition",
    "plugins/tools/conformance_server.py": "a program under test: a tool that takes its time",
    "plugins/tools/test_real_servers.py": "a server from npm that writes a message every five seconds",
    "trail/test_shared_sync.py": "a slow disk",
}
"""Files that sleep once, and why nothing could be waited for there."""

FOREIGN = {"os", "sys", "threading", "atexit", "_pytest", "super()"}
"""Whose private names are not ours: a child that must not flush its parent's buffers has `os._exit` only."""

PRIVATE = {
    "adversarial/approval/test_batches.py": (2, "a kind of member that no screen makes today"),
    "plugins/drills/test_drills_never_run.py": (2, "an attacker who has taken a wall away"),
    "plugins/agents/adversarial/test_the_jails_own_edges.py": (5, "a jail that lacks one of its walls"),
    "runners/test_jailed_run.py": (4, "a jail that lacks one of its walls, and a gate that is never opened"),
    "plugins/page/adversarial/test_passkey_attacks.py": (1, "what is kept must stay small"),
    "plugins/serve/adversarial/test_held_connections.py": (8, "which connection has to go, without 256 of them"),
    "plugins/agents/adversarial/work_copy/test_hidden_files_in_the_history.py": (
        4,
        "bounds that no small history reaches",
    ),
    "plugins/agents/adversarial/work_copy/test_processes_that_resume_themselves.py": (
        4,
        "a jail without a launcher; version 1 and 2",
    ),
    "plugins/agents/adversarial/work_copy/test_secrets_in_other_forms.py": (1, "rules of an older version"),
    "review/test_line_diff.py": (2, "the shortest comparison itself, before the shorter one is chosen"),
    "plugins/cluster/adversarial/test_notes.py": (2, "queues and keys between threads, without a broker"),
    "plugins/cluster/adversarial/test_remote_run.py": (11, "a run, its mailbox and who leads, without a broker"),
    "adversarial/test_output_limits.py": (1, "the rule for endings, without an engine"),
    "plugins/tools/adversarial/test_hostile_servers.py": (
        3,
        "a write that a server does not read; a call without a daemon",
    ),
    "cli/test_validate.py": (1, "characters that no file name of a test can have"),
    "plugins/changes/test_watched_child.py": (1, "a moment between two looks at a process"),
    "plugins/cluster/envelopes.py": (1, "raw bytes on the daemon's own channel"),
    "plugins/cluster/test_fence.py": (9, "the threads and the outbox of a worker, without a broker"),
    "plugins/cluster/test_parts.py": (1, "an internal row: waiting must not have spent anything"),
    "contracts/test_store.py": (1, "an index that is wrong must not be believed"),
    "daemon/test_supervisor.py": (1, "each single ping, by a clock of the test"),
    "plugins/proposals/end_to_end/test_proposal_secret.py": (
        2,
        "what the containers of a run were given, before they are removed",
    ),
    "engine_fixtures.py": (1, "leave to run that the judge did not give: tests of runners have no trail"),
    "plugins/evidence/test_pack.py": (1, "a disk that is full at the last file"),
    "launch/test_waits.py": (1, "threads that do what the test says"),
    "plugins/evidence/test_metrics.py": (1, "what is kept must stay small"),
    "request/test_backend.py": (1, "a backend of a plugin that is off, without such a plugin"),
    "request/test_code.py": (2, "lines and worker of the checker that cannot be caused"),
    "review/test_status_rows.py": (1, "what is kept must stay small"),
    "runners/test_egress.py": (1, "a kernel that takes no route"),
    "plugins/serve/test_http_app.py": (1, "what is kept must stay small"),
    "plugins/page/test_page.py": (1, "serving would not return"),
    "plugins/page/test_passkey_in_a_browser.py": (2, "what the page hands to a passkey, before it signs"),
    "plugins/tools/test_stateful_servers.py": (
        2,
        "how often a process is looked at: at once, or not before the next call",
    ),
    "plugins/tui/terminal.py": (1, "Textual's own: it has no public way to read the screen"),
    "plugins/tui/test_review.py": (1, "the line that is open, whatever its text"),
}
"""How often a file uses private names of the package, and what it reaches by them that no public name shows."""

TWO_OUTCOMES = {
    "plugins/cluster/test_soak.py": (
        "a worker that is killed while its result is on its way: no one sees which was first"
    ),
    "contracts/test_rows.py": "no outcome: the names that a row of the data may have",
    "request/test_rules.py": "no outcome: every rule's name begins with one of the families",
}
"""Files that accept one of several outcomes once, and why it is not known which."""

_PATCHES = {"setattr", "delattr", "object", "patch"}


@functools.cache
def trees() -> list[tuple[str, list[ast.AST]]]:
    """Every file of tests and all of its nodes."""
    return [
        (path.relative_to(TESTS).as_posix(), list(ast.walk(ast.parse(path.read_text()))))
        for path in sorted(TESTS.rglob("*.py"))
    ]


def called(node: ast.Call) -> str:
    """The last part of the name of what is called."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def private_names(tree: list[ast.AST]) -> Iterator[str]:
    """Private attributes of others, imported private names, and those that are replaced by name."""
    for node in tree:
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in {"self", "cls"} and owner.partition(".")[0] not in FOREIGN:
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("threegate"):
            yield from (item.name for item in node.names if is_private(item.name))
        elif isinstance(node, ast.Call) and called(node) in _PATCHES:
            for argument in node.args[:2]:
                name = argument.value if isinstance(argument, ast.Constant) else ""
                if isinstance(name, str) and is_private(name.rpartition(".")[2]):
                    yield name


def parts(condition: ast.expr) -> Iterator[ast.expr]:
    """What an assertion says, taken apart at each `and`."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        for value in condition.values:
            yield from parts(value)
    else:
        yield condition


def is_one_of_several(condition: ast.expr) -> bool:
    """`x in ("a", "b")`, `set(x) <= {"a", "b"}`, `x == "a" or x == "b"`, `"a" in x or "b" in x`: two literals for
    one value.
    """
    compared = condition.values if isinstance(condition, ast.BoolOp) else [condition]
    if not all(isinstance(item, ast.Compare) and len(item.ops) == 1 for item in compared):
        return False
    sides = [(item.left, item.ops[0], item.comparators[0]) for item in compared if isinstance(item, ast.Compare)]
    if len(sides) == 1:
        left, how, right = sides[0]
        listed = right.elts if isinstance(right, ast.Tuple | ast.Set | ast.List) else []
        each = isinstance(how, ast.LtE) and isinstance(left, ast.Call) and called(left) == "set"
        return (
            (isinstance(how, ast.In) or each)
            and len(listed) > 1
            and all(isinstance(item, ast.Constant) for item in listed)
        )
    values = {
        ast.unparse(left if isinstance(how, ast.Eq) else right)
        for left, how, right in sides
        if isinstance(how, ast.Eq) or (isinstance(how, ast.In) and isinstance(left, ast.Constant))
    }
    return len(values) == 1 and len({type(how) for _, how, _ in sides}) == 1


def two_outcomes(tree: list[ast.AST]) -> Iterator[str]:
    """Assertions that hold for one of several literals, and `pytest.raises` for one of several errors or messages."""
    for node in tree:
        if isinstance(node, ast.Assert):
            yield from (ast.unparse(item) for item in parts(node.test) if is_one_of_several(item))
        elif isinstance(node, ast.Call) and called(node) == "raises":
            errors = any(isinstance(item, ast.Tuple) for item in node.args[:1])
            words = [item.value for item in node.keywords if item.arg == "match"]
            if errors or any(isinstance(item, ast.Constant) and "|" in str(item.value) for item in words):
                yield ast.unparse(node)


def test_nobody_sleeps_where_something_can_be_waited_for() -> None:
    """A sleep is too short on a busy machine and too long on every other: tests.support.wait_until waits for the
    thing itself.
    """
    found = Counter(
        name for name, tree in trees() for node in tree if isinstance(node, ast.Call) and called(node) == "sleep"
    )
    assert found == Counter(dict.fromkeys(SLEEPS, 1))


def test_private_names_are_used_only_where_there_is_no_other_way() -> None:
    found = {name: sorted(names) for name, tree in trees() if (names := list(private_names(tree)))}
    assert {name: len(names) for name, names in found.items()} == {
        name: count for name, (count, _) in PRIVATE.items()
    }, found


def test_one_outcome_is_accepted() -> None:
    """A test that takes either of two outcomes says nothing when the right one becomes the wrong one."""
    found = {name: told for name, tree in trees() if (told := list(two_outcomes(tree)))}
    assert {name: len(told) for name, told in found.items()} == dict.fromkeys(TWO_OUTCOMES, 1), found


@pytest.mark.parametrize(
    ("line", "several"),
    [
        ("assert code in (2, 3)", True),
        ("assert out == '' and code in {2, 3}", True),
        ("assert code == 2 or code == 3", True),
        ("assert set(codes) <= {2, 3}", True),
        ("assert 'a' in out or 'b' in out, out", True),
        ("with pytest.raises((OSError, ValueError)): pass", True),
        ("with pytest.raises(OSError, match='a|b'): pass", True),
        ("assert code in codes and code in (one, other)", False),
        ("assert code == (2 if name else 3)", False),
        ("assert all(item in ('a', 'b') for item in found)", False),
        ("assert not name or code == 2", False),
    ],
)
def test_what_counts_as_two_outcomes(line: str, several: bool) -> None:
    assert bool(list(two_outcomes(list(ast.walk(ast.parse(line)))))) == several


def test_the_start_of_one_file_is_cheap() -> None:
    """What every run of a single test file imports first: nothing of the package, and no library that takes a
    second.
    """
    code = "import sys, tests.conftest; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=TESTS.parent, capture_output=True, text=True, check=True, timeout=60
    )
    assert not set(done.stdout.split()) & {
        "threegate",
        "hypothesis",
        "docker",
        "httpx",
        "pydantic",
        "textual",
    }
