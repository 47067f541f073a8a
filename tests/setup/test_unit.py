"""The unit's text: systemd accepts it, its exposure is what docs/service.md says, and odd paths stay one word."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.support import Place, make_place
from threegate.core import limits
from threegate.setup.service_unit import UnitFacts, render_unit

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        return make_place(tmp_path_factory.mktemp("unit"))


def facts(workspace: str = "/srv/gate/ws", *, era: bool = False, network: bool = False) -> UnitFacts:
    return UnitFacts(
        version="0",
        workspace=Path(workspace),
        program=(sys.executable, "-P", "-m", "threegate"),
        account="root" if era else "threegate",
        state=Path("/var/lib/threegate/.local/state/threegate"),
        era=era,
        network=network,
    )


def analyze(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze (apt-get install systemd)")
    return subprocess.run(["systemd-analyze", *words], cwd=cwd, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("options", [(), ("--era",)])
def test_systemd_accepts_the_unit(place: Place, tmp_path: Path, options: tuple[str, ...]) -> None:
    unit = place.run("settings", "service", "install", "--print", *options, expect=0).out
    (tmp_path / "threegate.service").write_text(unit)
    said = analyze("verify", "./threegate.service", cwd=tmp_path)
    assert said.returncode == 0 and "threegate.service" not in said.stderr, said.stderr


@pytest.mark.parametrize(
    ("era", "row"),
    [(False, "Monty alone"), (True, "with ERA"), (True, "of a user"), (False, "Monty with servers of tools")],
)
def test_the_exposure_is_the_one_of_the_documentation(tmp_path: Path, era: bool, row: str) -> None:
    asked = replace(facts(era=era), jails="servers" in row)
    asked = replace(asked, account="") if row == "of a user" else asked
    unit = render_unit(asked).replace("ProtectHome=read-only", "ProtectHome=yes")
    (tmp_path / "threegate.service").write_text(unit)
    said = analyze("security", "--offline=true", "--no-pager", "./threegate.service", cwd=tmp_path)
    found = re.search(r"Overall exposure level for threegate.service: ([0-9.]+)", said.stdout)
    assert found is not None, said.stdout + said.stderr
    page = (ROOT / "docs" / "service.md").read_text()
    told = re.search(rf"^\| {row} \|.*\| ([0-9.]+) \|$", page, re.M)
    assert told is not None
    assert float(found[1]) <= float(told[1]), "another version of systemd may count less, never more"


def test_odd_paths_stay_one_word(tmp_path: Path) -> None:
    for odd in ("/srv/a gate/ws", "/srv/50%/ws", "/srv/$HOME/ws", '/srv/"quoted"/ws', "/srv/it's/ws"):
        unit = render_unit(facts(odd))
        (tmp_path / "odd.service").write_text(unit)
        said = analyze("verify", "./odd.service", cwd=tmp_path)
        assert "odd.service:" not in said.stderr, (odd, said.stderr)
    assert '"/srv/a gate/ws"' in render_unit(facts("/srv/a gate/ws"))
    assert "/srv/50%%/ws" in render_unit(facts("/srv/50%/ws"))


def test_a_project_in_a_home_is_seen_and_one_that_is_gone_stops_nothing() -> None:
    unit = render_unit(replace(facts(), projects=(Path("/home/a/web"),)))
    assert "ReadWritePaths=/srv/gate/ws /var/lib/threegate/.local/state/threegate -/home/a/web\n" in unit
    assert "ProtectHome=read-only" in unit


def test_only_a_daemon_that_sends_notices_has_a_network() -> None:
    assert "PrivateNetwork=yes" in render_unit(facts())
    assert "RestrictAddressFamilies=AF_UNIX\n" in render_unit(facts())
    assert "PrivateNetwork=no" in render_unit(facts(network=True))


def test_a_home_is_hidden_unless_something_of_ours_lies_there() -> None:
    assert "ProtectHome=read-only" in render_unit(facts("/home/alice/ws"))


def test_a_program_that_is_installed_in_a_home_can_be_started(tmp_path: Path) -> None:
    """A virtual environment in a home, whose python is a link to /usr; a package or a Python that lies there."""
    for home in ("/home/alice", "/root"):
        venv = Path(home) / "venv" / "bin" / "python"
        assert "ProtectHome=read-only" in render_unit(replace(facts(), program=(str(venv), "-m", "threegate")))
        for place in ("venv", ".local/lib/python3.11/site-packages/threegate", ".pyenv/versions/3.11"):
            installed = (Path("/usr"), Path(home) / place)
            assert "ProtectHome=read-only" in render_unit(replace(facts(), installed=installed))
    hidden = replace(facts(), program=("/usr/bin/python3", "-m", "threegate"), installed=(Path("/opt/threegate"),))
    assert "ProtectHome=yes" in render_unit(hidden)


def test_the_daemon_has_stopped_before_systemd_kills_it() -> None:
    minutes = re.search(r"^TimeoutStopSec=(\d+)min$", render_unit(facts()), re.M)
    assert minutes is not None
    assert 60 * int(minutes[1]) > limits.STOP_GRACE_SECONDS + limits.STOP_RECORD_SECONDS + 15


def test_what_cannot_be_is_said_in_one_line(place: Place) -> None:
    for words, code, part in [
        (("settings", "service", "install", "--era", "--user", "nobody", "--print"), 2, "--era needs root"),
        (("settings", "service", "install", "--user", "Not An Account", "--print"), 2, "not a valid account name"),
        (("settings", "service", "install", "--name", "../x", "--print"), 2, "not a valid service name"),
    ]:
        done = place.run(*words, expect=code)
        assert part in done.err and done.err.count("\n") == 1
    if not Path("/run/systemd/system").is_dir():
        for command in ("install", "uninstall", "status"):
            done = place.run("settings", "service", command, expect=3)
            assert "systemd is not running here" in done.err and "threegate -w DIR run" in done.err
