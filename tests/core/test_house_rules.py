"""What holds in the tests themselves: they wait for what happens instead of sleeping, and they use what is public.

Both lists are exact, so that an exception that is no longer needed is taken out of them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

SLEEPS = {
    "adversarial/cluster/test_taken_over.py": "from a claim to the broker: nothing shows it while the worker is stopped",
    "agents/npm_agents.py": "between two questions to a registry: nothing says when it is back",
    "agents/terminal.py": "keys as a person presses them: a page that is passed over in a hurry was not seen",
    "agents/test_model_relay.py": "an endpoint whose pieces come one by one",
    "cluster/test_soak.py": "looks for a file that is there for some milliseconds only",
    "runners/test_monty_watch.py": "a look that takes longer than removing would, if it did not wait",
    "runners/test_slow_engine.py": "a moment within a run that neither the engine nor the run shows",
    "setup/test_systemd.py": "nothing may happen for longer than the watchdog waits",
    "support.py": "the one function that waits for a condition",
    "tools/conformance_server.py": "a program under test: a tool that takes its time",
    "trail/test_shared_sync.py": "a slow disk",
}
"""Files that sleep once, and why nothing could be waited for there."""

FOREIGN = {"os", "sys", "threading", "atexit", "_pytest", "super()"}
"""Whose private names are not ours: a child that must not flush its parent's buffers has `os._exit` only."""

PRIVATE: dict[str, int] = {
    "acts/test_drills.py": 5,
    "acts/test_memory_store.py": 1,
    "adversarial/approval/test_batches.py": 2,
    "adversarial/approval/test_drills_never_run.py": 2,
    "adversarial/cluster/test_notes.py": 12,
    "adversarial/cluster/test_remote_run.py": 1,
    "adversarial/cluster/test_taken_over.py": 3,
    "adversarial/escapes/test_era_escapes.py": 2,
    "adversarial/test_output_limits.py": 3,
    "adversarial/tools/test_hostile_servers.py": 3,
    "agents/test_jail_doctor.py": 2,
    "cli/test_validate.py": 1,
    "cluster/envelopes.py": 4,
    "cluster/test_parts.py": 1,
    "contracts/test_rows.py": 1,
    "contracts/test_store.py": 1,
    "core/test_daemon_lock.py": 1,
    "core/test_held_folder.py": 1,
    "daemon/test_queue.py": 1,
    "daemon/test_supervisor.py": 1,
    "end_to_end/test_proposal_secret.py": 2,
    "engine_fixtures.py": 1,
    "evidence/test_pack.py": 1,
    "launch/test_status_file.py": 2,
    "launch/test_waits.py": 1,
    "packaging/test_wheel.py": 3,
    "proposals/test_urls.py": 3,
    "records/test_adopt_and_prune.py": 1,
    "records/test_metrics.py": 2,
    "records/test_trail_report.py": 2,
    "request/test_code.py": 6,
    "request/test_fixes.py": 4,
    "review/test_status_rows.py": 1,
    "runners/test_egress.py": 2,
    "runners/test_engine_answer.py": 1,
    "runners/test_other_engines.py": 1,
    "runners/test_prepared_containers.py": 7,
    "runners/test_registry.py": 1,
    "runners/test_slow_engine.py": 1,
    "serve/test_http_app.py": 1,
    "serve/test_page.py": 3,
    "serve/test_passkey_in_a_browser.py": 2,
    "setup/test_agent_prompt.py": 1,
    "setup/test_doctor.py": 8,
    "tools/behind_the_gate.py": 1,
    "trail/test_blocks.py": 3,
    "trail/test_moves.py": 1,
    "tui/terminal.py": 1,
    "tui/test_review.py": 2,
    "worker/test_journal.py": 1,
}
"""How often a file uses a private name of the package, where no public one shows the same."""

_PATCHES = {"setattr", "delattr", "object", "patch"}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(TESTS.rglob("*.py")):
        yield path.relative_to(TESTS).as_posix(), ast.parse(path.read_text())


def called(node: ast.Call) -> str:
    """The last part of the name of what is called."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def private_names(tree: ast.Module) -> Iterator[str]:
    """Private attributes of others, imported private names, and those that are replaced by name."""
    for node in ast.walk(tree):
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


def test_nobody_sleeps_where_something_can_be_waited_for() -> None:
    """A sleep is too short on a busy machine and too long on every other: tests.support.wait_until waits for the thing itself."""
    found = Counter(
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and called(node) == "sleep"
    )
    assert found == Counter(dict.fromkeys(SLEEPS, 1))


def test_private_names_are_used_only_where_there_is_no_other_way() -> None:
    found = {name: sorted(names) for name, tree in trees() if (names := list(private_names(tree)))}
    assert {name: len(names) for name, names in found.items()} == PRIVATE, found
