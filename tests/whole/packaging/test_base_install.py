"""A base install: Monty, the validator and the trail need no extra, and what needs one says which in one line.

Every command here is a process in which nothing can be imported but the standard library and what `pip install
threegate` brings.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.end_to_end.test_ten_faults import told
from tests.support import Place, era_draft, make_key, monty_draft, request_id, threegate
from threegate.core.workspace import Workspace
from threegate.setup.settings_file import set_values
from threegate.setup.systemd_service import plan_install


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def base() -> set[str]:
    """The distributions that are there without any extra."""
    found: set[str] = set()
    todo = [Requirement("threegate")]
    while todo:
        wanted = todo.pop()
        key = f"{normal(wanted.name)}{sorted(wanted.extras)}"
        if key in found:
            continue
        found |= {key, normal(wanted.name)}
        for line in distribution(wanted.name).requires or ():
            needed = Requirement(line)
            for extra in wanted.extras or {""}:
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    todo.append(needed)
    return found


@pytest.fixture(scope="module")
def only_base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that can import no more."""
    there = base()
    blocked = {
        module
        for module, distributions in packages_distributions().items()
        if not {normal(name) for name in distributions} & there
    }
    assert {
        "docker",
        "requests",
        "securesystemslib",
        "in_toto_attestation",
        "pytest",
    } < blocked
    folder = tmp_path_factory.mktemp("blocked")
    (folder / "sitecustomize.py").write_text(
        f"import sys\nfor name in {sorted(blocked)!r}:\n    sys.modules.setdefault(name, None)\n"
    )
    return {"PYTHONPATH": str(folder)}


@pytest.fixture
def place(only_base: dict[str, str], tmp_path: Path) -> Place:
    key = make_key(tmp_path / "operator_key")
    words = ("init", str(tmp_path / "ws"), "--operator", "operator", "--key", f"{key}.pub")
    done = threegate(*words, cwd=tmp_path, env=only_base)
    assert done.code == 0, done.err
    assert "\ncommands  " in done.out
    return Place(tmp_path / "ws", key)


@pytest.mark.slow
@pytest.mark.jail
def test_a_command_runs_without_any_extra(place: Place, only_base: dict[str, str]) -> None:
    """In bubblewrap, on this machine's packages."""
    name = request_id("jailed")
    draft = place.drop(era_draft(name, "python3 -V"))
    words = ("approve", str(draft), "--as", "operator", "--key", str(place.key), "--yes")
    card = place.run(*words, "--full", expect=0, env={**only_base, "COLUMNS": "200"})
    assert "bubblewrap on this machine's packages (root:sha256:" in card.out + card.err
    assert "sandbox      bubblewrap, without a container engine" in card.out + card.err
    place.run("run", "--once", expect=0, env=only_base)
    result = place.result(name)
    assert "status: succeeded" in result and 'runtime: "bubblewrap"' in result and "- Root: root:sha256:" in result
    doctor = place.run("doctor", "--no-probes", expect=0, env=only_base).out
    assert "ok       bubblewrap: runs commands on this machine's packages" in doctor
    assert "works for you now: ERA, monty" in doctor
    place.run("audit", "verify", expect=0, env=only_base)


@pytest.mark.slow
def test_a_request_goes_its_whole_way_and_era_waits(place: Place, only_base: dict[str, str]) -> None:
    mine, waits = request_id("base"), request_id("era")
    set_values(place.root / "threegate.toml", {"runners.era.runtime": "engine"})
    for draft in (place.drop(monty_draft(mine, "print(6 * 7)")), place.drop(era_draft(waits, "python3 -V"))):
        words = ("approve", str(draft), "--as", "operator", "--key", str(place.key), "--yes")
        place.run("validate", str(draft), expect=0, env=only_base)
        place.run(*words, expect=0, env=only_base)
    told(
        place.run("run", "--once", expect=0, env=only_base).err,
        "waiting      request=<id> what=ERA needs the extra era: pip install 'threegate[era]'",
    )
    assert "status: succeeded" in place.result(mine)
    assert [path.stem for path in place.root.glob("tool-exec/approved/*.md")] == [waits]
    doctor = place.run("doctor", "--no-probes", expect=0, env=only_base).out
    told(
        doctor,
        (
            "warning  engine: the extra era is not installed: nothing runs in a container  → pip install "
            "'threegate[era]', then restart the daemon"
        ),
    )
    assert "works for you now: monty" in doctor and "not ERA (the extra era is not installed" in doctor
    assert "verifies" in place.run("audit", "verify", expect=0, env=only_base).out
    told(
        place.run("settings", "images", expect=3, env=only_base).err,
        "threegate: ERA needs the extra era: pip install 'threegate[era]'",
    )


REFUSED = {
    "doctor --sandbox": "ERA needs the extra era",
    "audit export --format in-toto": "a signed statement needs the extra export",
    "audit pack --out all.zip": "an evidence pack needs the extra export",
    "serve http --no-auth": "this server needs the extra http",
    "serve mcp": "this server needs the extra mcp",
    "serve page": "the page needs the extra http",
    "serve witness --log x.pub": "a witness needs the extra http",
    "settings cluster x": "the plugin cluster needs the extra cluster",
    "serve worker --broker amqps://b --operators o --identity i": "the plugin cluster needs the extra cluster",
    "settings notify": "a notice needs the extra notify",
    "agent run generic --project ../project -- sh": "an agent needs the extras agents and mcp",
}
"""Commands that need an extra, and how their one line begins."""


@pytest.mark.slow
def test_what_needs_an_extra_names_it_in_one_line(place: Place, only_base: dict[str, str]) -> None:
    set_values(place.root / "threegate.toml", {"notify.urls": ["json://localhost"], "runners.era.runtime": "engine"})
    code = "import json, sys\nfrom threegate.cli import execute\n"
    code += "for line in json.load(sys.stdin):\n"
    code += "    print(f'== {line}', file=sys.stderr)\n"
    code += "    print(execute(line.split()), file=sys.stderr)\n"
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(list(REFUSED)), cwd=place.root, capture_output=True, text=True,
        env={**os.environ, **only_base, "NO_COLOR": "1", "COLUMNS": "200"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = dict(part.split("\n", 1) for part in done.stderr.split("== ")[1:])
    for line, begins in REFUSED.items():
        extras = re.sub(".* extras? ", "", begins).replace(" and ", ",")
        assert said[line] == f"threegate: {begins}: pip install 'threegate[{extras}]'\n3\n", line


def test_a_service_for_era_says_it_before_it_is_installed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    plan = plan_install(Workspace(place.root), name="threegate", user="", era=True)
    assert plan.obstacles[0] == "a service with --era needs the extra era: pip install 'threegate[era]'"
    assert "extra" not in "".join(plan_install(Workspace(place.root), name="threegate", user="", era=False).obstacles)
