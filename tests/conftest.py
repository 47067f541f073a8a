"""What every test has: a state folder of its own, seeded property tests, and markers that skip or fail.

With THREEGATE_REQUIRE_ENGINE=1 a test that would be skipped for want of an engine, root or a browser fails.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet
from _pytest.pathlib import rm_rf

from tests import support
from tests.commands import forked

support.start = forked

# Python's search for cycles goes through everything that exists: a third of the time that collecting tests takes, and
# again whenever a test makes many objects. What was collected stays to the end.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave out of the search for cycles what is there before the first test."""
    gc.freeze()
    gc.enable()


Test = TypeVar("Test", bound=Callable[..., None])
REQUIRED = os.environ.get("THREEGATE_REQUIRE_ENGINE") == "1"


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Before a file with property tests is imported: most have none, and the import costs a second."""
    if b"hypothesis" in module_path.read_bytes():
        _seed_property_tests()


@functools.cache
def _seed_property_tests() -> None:
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "seeded",
        derandomize=True,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("seeded")


WANTING = "not on this machine: "
NO_JAIL = "not installed, so there is no jail"
_NO_PROGRAM = re.compile(r"/usr/bin/(\w+): cannot be read, so the program|needs (\w+), which is not installed")


def missing(reason: str) -> None:
    """Skip for want of a part of the machine, or fail where every part is required. The end of the run counts them."""
    if REQUIRED:
        pytest.fail(f"required here: {reason}")
    pytest.skip(WANTING + reason, allow_module_level=True)


def lacks_jail() -> str:
    """The program that a jail needs and this machine lacks; empty if it lacks none."""
    for program, package in (("bwrap", "bubblewrap"), ("socat", "socat")):
        if not shutil.which(program):
            return f"{program} (apt-get install {package})"
    return ""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which families could not run for want of what, so that nobody takes a small machine's run for a whole one."""
    families: dict[str, Counter[str]] = {}
    for report in terminalreporter.stats.get("skipped", ()):
        _, found, reason = str(report.longrepr[-1]).partition(WANTING)
        if found:
            families.setdefault(reason, Counter())[report.nodeid.split("::")[0].rpartition("/")[0]] += 1
    for reason, rooms in sorted(families.items()):
        told = ", ".join(f"{room} ({count})" for room, count in sorted(rooms.items()))
        terminalreporter.write_line(f"not run for want of {reason}: {told}")


def peer(module: str, extra: str = "bench") -> Any:
    """A module that ThreeGate is compared with or documented by, and never needs; `missing` where it is not
    installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        missing(f"{module} (pip install '.[{extra}]')")


def slow(*values: Any, **more: Any) -> Any:
    """For `parametrize`: a case that repeats a family at a high cost, and runs with the slow tests."""
    return pytest.param(*values, marks=pytest.mark.slow, **more)


def soak(*values: Any, **more: Any) -> Any:
    """For `parametrize`: a case that adds little to those that run always or with the slow tests: the long form."""
    return pytest.param(*values, marks=pytest.mark.soak, **more)


def long_form(values: Iterable[str], *but: str) -> list[Any]:
    """For `parametrize` of slow tests: `but` run with them, and all other values only in the long form."""
    cases = list(values)
    assert set(but) <= set(cases)
    return [case if case in but else soak(case) for case in cases]


_LONG_REST = 2


def few(values: Iterable[Any], count: int) -> list[Any]:
    """For `parametrize`: a mere enumeration, of which the first `count` run always and the rest with the slow tests; of
    a long rest two of three only in the long form, so that CI is done in its time on a slow machine.

    A case is a value, or a tuple of one value for each name, as `parametrize` takes it.
    """
    cases = list(values)
    assert not any(isinstance(case, ParameterSet) for case in cases), "a case has marks of its own: use slow"
    rest = [case if isinstance(case, tuple) else (case,) for case in cases[count:]]
    long = len(rest) > _LONG_REST
    marked = [
        pytest.param(*case, marks=pytest.mark.soak if long and number % 3 else pytest.mark.slow)
        for number, case in enumerate(rest)
    ]
    return cases[:count] + marked


SLOW = os.environ.get("THREEGATE_SLOW") == "1"
"""Whether these are the slow tests, as `make test-slow` says it."""


def examples(count: int, **more: Any) -> Callable[[Test], Test]:
    """For a property test: a third of the examples always, and all of them with the slow tests. `more` are further
    settings of hypothesis.
    """
    from hypothesis import settings

    def with_examples(test: Test) -> Test:
        test = settings(max_examples=count if SLOW else count // 3, **more)(test)
        return pytest.mark.slow(test) if SLOW else test

    return with_examples


LONG = (
    "crash",
    "human",
    "plugins/agents",
    "plugins/cluster",
    "plugins/test_crash",
    "plugins/tools/service",
    "plugins/tools/test_foreign",
    "plugins/tools/test_real",
    "plugins/tui/test_review",
    "setup",
)
"""Where single tests take half a minute, most of it waiting for other processes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Measure coverage by chosen examples only, and let the long tests begin first.

    A generated example reaches a branch by chance, and the measurement doubles the time of what it watches. A long test
    that begins last would keep one worker while the others have nothing left to do.
    """
    here = Path(__file__).parent
    items.sort(key=lambda item: not str(item.path.relative_to(here)).startswith(LONG))
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.no_cover)


IN_MEMORY = {
    "acts",
    "approval",
    "audit",
    "cli",
    "contracts",
    "core",
    "daemon",
    "judgement",
    "launch",
    "plugins/changes/test_generated_changes.py",
    "plugins/cluster/test_journal.py",
    "plugins/evidence",
    "plugins/page",
    "plugins/proposals",
    "plugins/serve",
    "plugins/tui",
    "review",
    "trail",
    "upgrade",
}
"""Rooms and files where a test's folder is in memory: every change of state is synced to the disk several times, and
half of the time of these tests was waiting for it. What a disk loses is simulated by tests/crash; whole ways over a
real disk are those of tests/end_to_end, adversarial, plugins, runners, whole/docs and agents.
"""


@pytest.fixture(scope="session")
def memory_of_tests() -> Iterator[Path | None]:
    """A folder in memory, if there is such a file system with room and nobody wants to look at what is left on a
    disk.
    """
    base = Path("/dev/shm")
    if os.environ.get("THREEGATE_TEST_DISK") or not os.access(base, os.W_OK) or free(base) < 4 << 30:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="threegate-tests-", dir=base))
    yield folder
    rm_rf(folder)


def free(folder: Path) -> int:
    """Bytes that a file system has left."""
    return shutil.disk_usage(folder).free


@pytest.fixture
def folder_in_memory(request: pytest.FixtureRequest, memory_of_tests: Path | None) -> Iterator[Path | None]:
    """This test's part of the memory, gone after it; None where a test's folder lies on the disk."""
    place = request.path.relative_to(Path(__file__).parent)
    in_memory = {part.as_posix() for part in (place, *place.parents)} & IN_MEMORY
    if memory_of_tests is None or not in_memory or {"adversarial", "end_to_end"} & set(place.parts):
        yield None
        return
    folder = Path(tempfile.mkdtemp(dir=memory_of_tests))
    yield folder
    rm_rf(folder)


@pytest.fixture
def tmp_path(tmp_path: Path, folder_in_memory: Path | None) -> Path:
    """A folder for one test, as pytest has it."""
    if folder_in_memory is None:
        return tmp_path
    folder = folder_in_memory / tmp_path.name
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def own_state(
    tmp_path_factory: pytest.TempPathFactory, folder_in_memory: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test touches the user's own state folder, and none inherits a workspace."""
    state = folder_in_memory / "state" if folder_in_memory else tmp_path_factory.mktemp("state")
    state.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("XDG_DATA_HOME", str(state / "data"))
    monkeypatch.delenv("THREEGATE_WORKSPACE", raising=False)
    if (command := sys.modules.get("threegate.cli.invocation")) is not None:  # what a command of another test was told
        monkeypatch.setattr(command.ROOT, "workspace", "")
        monkeypatch.setattr(command.ROOT, "json", False)
        monkeypatch.setattr(command.ROOT, "passed_over", None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that failed because the program said that this machine has no jail, or no such interpreter, and it has
    none, could not run here. Where every part is required it fails.
    """
    outcome: Any = yield
    report = outcome.get_result()
    if not report.failed or REQUIRED:
        return
    said = str(report.longrepr)
    wanting = ""
    if NO_JAIL in said:
        wanting = lacks_jail()
    elif (found := _NO_PROGRAM.search(said)) and not shutil.which(found[1] or found[2]):
        wanting = found[1] or found[2]
    if wanting:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {WANTING}{wanting}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Apply the markers `engine`, `browser`, `certutil`, `jail`, `root` and `soak`, before any fixture is made."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        missing("root")
    if item.get_closest_marker("jail") and (wanting := lacks_jail()):
        missing(wanting)
    if item.get_closest_marker("browser") and not shutil.which("chromium"):
        missing("chromium (apt-get install chromium)")
    if item.get_closest_marker("certutil") and not shutil.which("certutil"):
        missing("certutil (apt-get install libnss3-tools)")
    if item.get_closest_marker("engine") and not engine_host():
        missing("a container engine with the ERA image (scripts/engine up)")
    if item.get_closest_marker("soak") and os.environ.get("THREEGATE_SOAK") != "1":
        pytest.skip("the long form: make soak")


def engine_host() -> str | None:
    """The engine's URL that `make test` provides in THREEGATE_TEST_ENGINE, if its socket is there."""
    url = os.environ.get("THREEGATE_TEST_ENGINE", "")
    path = url.removeprefix("unix://")
    return url if url and Path(path).exists() else None


@pytest.fixture
def place(tmp_path: Path) -> support.Place:
    """A fresh workspace with a real key."""
    return support.make_place(tmp_path)


@pytest.fixture
def era_place(tmp_path: Path) -> support.Place:
    """A fresh workspace that uses the test engine and its ERA image (the test is marked `engine`)."""
    settings = {
        "runners.era.engine": engine_host() or "",
        "runners.era.image": os.environ["THREEGATE_TEST_IMAGE"],
    }
    return support.make_place(tmp_path, settings=settings)
