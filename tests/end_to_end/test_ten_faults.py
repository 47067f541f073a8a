"""Ten faults that people cause: each is caused for real, and what is printed leads to the fix.

docs/faq.md shows the same lines; `test_the_faq_shows_what_is_printed` compares them. Paths and numbers that differ from
run to run stand there as words in angle brackets.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import THREEGATE, Done, Place, era_draft, make_key, monty_draft, request_id
from tests.support import threegate as in_a_process
from threegate import cli
from threegate.cli import invocation
from threegate.setup.settings_file import set_values

FAQ = Path(__file__).resolve().parents[2] / "docs" / "faq.md"


def told(text: str, line: str) -> None:
    """`line` is printed, with <words> standing for whatever differs; and the FAQ shows the very same line."""
    pattern = re.sub(r"<[a-z ]+>", lambda _: r"\S.*?", re.escape(line).replace(r"\ ", " "))
    assert re.search(rf"^{pattern}$", text, re.M), f"wanted: {line}\ngot: {text}"
    assert line in FAQ.read_text(), f"docs/faq.md does not show: {line}"


class Near(Place):
    """A place whose commands run in this process, but for the daemon's: the same code, without a start each."""

    def run(self, *arguments: str, expect: int | None = None, env: dict[str, str] | None = None, **more: Any) -> Done:
        if arguments[0] == "run" or env:
            return super().run(*arguments, expect=expect, env=env, **more)
        done = near(*arguments, cwd=self.root)
        assert expect in (None, done.code), f"{arguments}: exit {done.code}\n{done.out}\n{done.err}"
        return done


def near(*arguments: str, cwd: Path) -> Done:
    """A command in this process."""
    invocation.ROOT.workspace, invocation.ROOT.json = "", False
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.execute(list(arguments))
    return Done(code, out.getvalue(), err.getvalue())


def make_place(folder: Path, settings: dict[str, Any] | None = None) -> Near:
    """A fresh workspace below `folder`."""
    key, root = make_key(folder / "operator_key"), folder / "ws"
    done = near("init", str(root), "--operator", "operator", "--key", f"{key}.pub", cwd=folder)
    assert done.code == 0, done.err
    if settings:
        set_values(root / "threegate.toml", settings)
    return Near(root, key)


def approved(place: Place, slug: str = "fault", text: str | None = None) -> Path:
    draft = place.drop(text or monty_draft(request_id(slug), "1 + 1"))
    place.approve(draft)
    return draft


@pytest.fixture(name="place")
def a_place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that another account can reach. Those of pytest are closed again by every run that begins."""
    with tempfile.TemporaryDirectory(prefix="threegate-home-") as name:
        Path(name).chmod(0o711)
        for folder in ("home", "state"):
            Path(name, folder).mkdir()
        monkeypatch.setenv("XDG_STATE_HOME", f"{name}/state")
        yield Path(name, "home")


@pytest.mark.root
@pytest.mark.slow
def test_1_wrong_permissions(home: Path) -> None:
    """Somebody used root once; now the daemon's own user can read neither the trail nor the inbox."""
    place = make_place(home)
    state = Path(os.environ["XDG_STATE_HOME"])
    for top in (home, state):
        for folder, _, files in os.walk(top):
            for path in (Path(folder), *(Path(folder) / name for name in files)):
                os.chown(path, 65534, 65534)
    trail = place.root / "tool-exec" / "audit" / "trail.jsonl"
    os.chown(trail, 0, 0)

    def daemon() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *THREEGATE, "run", "--once"],
            cwd=place.root,
            capture_output=True,
            text=True,
            timeout=120,
        )

    done = daemon()
    assert done.returncode == 3
    told(
        done.stderr,
        (
            "threegate: <workspace>/tool-exec/audit/trail.jsonl: cannot be opened (Permission denied; it belongs to "
            "uid 0, you are uid 65534); nothing is started"
        ),
    )
    os.chown(trail, 65534, 65534)
    os.chown(place.root / "inbox", 0, 0)
    done = daemon()
    told(
        done.stderr,
        (
            "unreadable   file=inbox/ what=Permission denied; the daemon's user must be able to read it (chown, chmod "
            "g+rx)"
        ),
    )
    (place.root / "tool-exec" / "approved").chmod(0o777)
    told(
        place.run("doctor", expect=2).out,
        "failure  folders: others may write: <folders>  → chmod go-w; chown to the daemon's user",
    )


@pytest.mark.root
@pytest.mark.slow
def test_2_no_ssh_keygen(place: Place) -> None:
    """openssh-client was removed: in a mount namespace of its own, the program is not there.

    A launch needs it where the revocation file is a KRL.
    """
    gone = make_key(place.root.parent / "gone")
    revoked = place.root / "tool-exec" / "operators.revoked"
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(revoked), f"{gone}.pub"], check=True)
    place.run("operator", "record", "--yes")
    approved(place)
    other = place.drop(monty_draft(request_id("second"), "1 + 1"))
    folder = place.root.parent / "overlay"
    folder.mkdir()
    words = f"{THREEGATE[0]} -m threegate"
    script = f"""
        mount -t tmpfs none {folder} && mkdir {folder}/upper {folder}/work
        mount -t overlay none -o lowerdir=/usr/bin,upperdir={folder}/upper,workdir={folder}/work /usr/bin
        rm /usr/bin/ssh-keygen
        {words} approve {other} --as operator --key {place.key} --yes; echo "exit $?"
        {words} run --once; echo "exit $?"
        {words} doctor; echo "exit $?"
    """
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], cwd=place.root, capture_output=True, text=True, timeout=120
    )
    assert re.findall(r"exit (\d)", done.stdout) == ["3", "3", "2"], done.stdout + done.stderr
    missing = "it is not there; install it: apt-get install openssh-client"
    told(done.stderr, f"threegate: /usr/bin/ssh-keygen: could not sign ({missing}); nothing was approved")
    told(done.stderr, f"stopped      what=no new launches: /usr/bin/ssh-keygen: could not verify ({missing})")
    told(done.stdout, "failure  ssh-keygen: /usr/bin/ssh-keygen is missing  → apt-get install openssh-client")
    place.once()
    assert len(place.events("finished")) == 1, "nothing was lost"


@pytest.mark.root
def test_3_the_engine_is_stopped(tmp_path: Path) -> None:
    socket = tmp_path / "docker.sock"
    place = make_place(
        tmp_path,
        settings={
            "runners.era.engine": f"unix://{socket}",
            "runners.era.image": f"sha256:{'a' * 64}",
            "runners.era.runtime": "engine",
        },
    )
    draft = approved(place, text=era_draft(request_id("sort"), "sort -n"))
    done = place.once()
    told(
        done.err,
        (
            "waiting      request=<id> what=no container engine: <socket> does not exist; start one, or set "
            "runners.era.engine"
        ),
    )
    assert (place.root / "tool-exec" / "approved" / draft.name).exists()
    told(place.run("status", expect=0).out, "          no_backend  -> operator: threegate doctor")


@pytest.mark.root
def test_4_the_disk_is_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], check=True)
    try:
        place = make_place(disk)
        approved(place)
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as out:
            for size in (1 << 20, 4096, 1):
                while True:
                    try:
                        out.write(b"x" * size)
                    except OSError:
                        break
        done = place.once(expect=3)
        told(
            done.err,
            "full         what=<file and reason>; make room: threegate agent remove RUN, threegate audit prune",
        )
        assert place.events("claimed") == []
        told(
            place.run("doctor", expect=2).out,
            "failure  disk: 0 MiB free  → make room: threegate audit prune --older-than 30d",
        )
        filler.unlink()
        place.once()
        assert len(place.events("finished")) == 1
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


SETTINGS = [
    ("[results]\n", "[results]\nmax_memory = 12\n",
     ("threegate: <workspace>/threegate.toml:<line>: results.max_memory: unknown key; remove it or fix its "
        "spelling; did "
     "you mean request.max_memory_mb?")),
    ("[approval]\n", "[aproval]\n",
     ("threegate: <workspace>/threegate.toml:<line>: aproval: unknown key; remove it or fix its spelling; did you mean "
     "approval?")),
    ("[results]\n", '[results]\n[approval]\nttl = "1h"\n',
     ("threegate: <workspace>/threegate.toml:<line>: the table [approval] occurs twice; put all of its keys below the "
     "first one")),
    ("[approval]\n", '[approval]\nttl = "5 minutes"\n',
     ("threegate: <workspace>/threegate.toml:<line>: approval.ttl: a duration is a number and a unit: 90s, 15m, 24h or "
     "7d")),
    ("[approval]\n", "[approval]\nttl = 15m\n",
     ("threegate: <workspace>/threegate.toml:<line>: no TOML: Expected newline or end of document after a statement; "
     "fix this line")),
]  # fmt: skip


def test_5_a_bad_settings_key(place: Place) -> None:
    path = place.root / "threegate.toml"
    good = path.read_text()
    for old, new, line in SETTINGS:
        assert old in good
        path.write_text(good.replace(old, new))
        told(place.run("settings", "check", expect=2).err, line)
    told(place.once(expect=2).err, line)
    path.write_text(good)
    place.once()


def test_5_a_setting_that_an_approval_depends_on(place: Place) -> None:
    """Beside the ten: the line names the setting, and what it says to type works."""
    for slug, values, line in (
        ("released", {"results.release": "never"}, "policy_changed: results.release changed"),
        ("quorum", {"approval.quorum.low": 2}, "shown_changed: approval.quorum changed"),
    ):
        approved(place, slug)  # another id, also within one second
        set_values(place.root / "threegate.toml", values)
        done = place.once()
        again = "draft it again: threegate draft --again <id>"
        told(done.err, f"refused      request=<id> what={line} since it was approved; {again}")
        found = re.search(r"threegate (draft --again \S+)", done.err)
        assert found is not None
        place.run(*found[1].split(), expect=0)


def test_5_nobody_can_sign(place: Place) -> None:
    place.run("operator", "revoke", "operator", expect=0)
    seen = " ".join(place.run("status", expect=0).out.split())
    why = "no key of tool-exec/operators is valid now"
    line = f"operators nobody can sign: {why}: threegate operator add NAME --key KEY.pub"
    told(seen.replace(" operators ", "\noperators ").replace("KEY.pub", "KEY.pub\n"), line)


def test_6_a_contract_with_a_typo(place: Place) -> None:
    contracts = Path(__file__).resolve().parents[2] / "docs" / "examples" / "contracts" / "threegate"
    for path in contracts.iterdir():
        shutil.copy(path, place.root / "tool-exec" / "contracts")
    typo = place.root / "tool-exec" / "contracts" / "threegate.monty.yaml"
    typo.write_text(typo.read_text().replace("side_effect:", "side_efect:"))
    draft = place.drop(monty_draft(request_id("typo"), "1 + 1"))
    told(
        place.once().err,
        (
            "contracts    code=contracts_do_not_compile what=threegate.monty.yaml:2:1: no field 'side_efect' here; did "
            "you mean 'side_effect'?; every request is refused until this is fixed, see: threegate contracts check"
        ),
    )
    told(
        place.approve(draft, expect=2).err,
        "threegate: the contract gate blocks this call: contracts_do_not_compile; see: threegate contracts check",
    )
    told(
        place.run("contracts", "check", expect=2).out,
        (
            "threegate.monty.yaml:2:1: error: UNKNOWN_FIELD (side_efect): no field 'side_efect' here; did you mean "
            "'side_effect'?"
        ),
    )


def test_7_a_wrong_clock(tmp_path: Path) -> None:
    """The clock was two hours ahead when the workspace was made; then it was set right."""
    shift = tmp_path / "ahead"
    shift.mkdir()
    (shift / "sitecustomize.py").write_text(
        "import datetime, time\nreal, now = time.time, datetime.datetime\n"
        "time.time = lambda: real() + 7200\n"
        "class Ahead(now):\n"
        "    @classmethod\n"
        "    def now(cls, tz=None):\n"
        "        return now.fromtimestamp(real() + 7200, tz)\n"
        "datetime.datetime = Ahead\n"
    )
    key = make_key(tmp_path / "operator_key")
    root = tmp_path / "later"
    done = in_a_process(
        "init", str(root), "--operator", "operator", "--key", f"{key}.pub", cwd=tmp_path,
        env={"PYTHONPATH": f"{shift}:{Path(__file__).resolve().parents[2]}"},
    )  # fmt: skip
    assert done.code == 0, done.err
    place = Near(root, key)
    draft = place.drop(monty_draft(request_id("clock"), "1 + 1"))
    told(
        place.once(expect=3).err,
        (
            "stopped      code=clock_went_back what=the system clock is <seconds> s behind the trail; set the clock "
            "(timedatectl); nothing is started until then"
        ),
    )
    told(
        place.approve(draft, expect=2).err,
        "threegate: the clock is <seconds> s behind the trail; set it (timedatectl); nothing is approved until then",
    )


def test_8_a_moved_workspace(place: Place) -> None:
    draft = approved(place)
    moved = Near(place.root.rename(place.root.with_name("moved")), place.key)
    told(
        moved.once(expect=3).err,
        (
            "stopped      code=workspace_mismatch what=the workspace is in another place than before: it was copied or "
            "moved; if this is intended: threegate settings adopt"
        ),
    )
    assert moved.events("started") == []
    told(
        moved.run("settings", "adopt", "--as", "operator", "--key", str(moved.key), expect=2).err,
        "threegate: not on a terminal: read the screen above, then give --yes",
    )
    moved.run("settings", "adopt", "--as", "operator", "--key", str(moved.key), "--yes", expect=0)
    moved.once()
    assert "reason: " in moved.result(draft.name.removesuffix(".md")), "an approval of before the move is void"


@pytest.mark.slow
def test_9_two_daemons(place: Place) -> None:
    daemon = place.daemon()
    try:
        assert daemon.stderr is not None
        while b"ready" not in (line := daemon.stderr.readline()):
            assert line
        told(
            place.once(expect=3).err,
            "threegate: <workspace>: another daemon is running here (process <number>); stop it, or leave the "
            "work to it",
        )
    finally:
        daemon.terminate()
        daemon.wait(20)


def test_10_a_lost_key(place: Place) -> None:
    """The operator's key is gone, then the workspace's own key."""
    draft = place.drop(monty_draft(request_id("key"), "1 + 1"))
    home = {"HOME": str(place.root.parent), "XDG_CONFIG_HOME": str(place.root.parent / "config")}
    place.key.rename(place.key.with_name("gone"))
    place.key.with_name("operator_key.pub").rename(place.key.with_name("gone.pub"))
    told(
        place.approve(draft, expect=2).err,
        "threegate: <key>: the key file does not exist; name yours with --key",
    )
    done = place.run("approve", str(draft), "--as", "operator", "--yes", env=home, expect=2)
    told(
        done.err,
        (
            "threegate: none of your keys in ssh-agent and ~/.ssh is one of operator's; name it with --key. If it is "
            "lost: threegate operator add NAME --key NEW.pub, and revoke the old one"
        ),
    )
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place.key)], check=True)
    assert "not one that operators gives to operator" in place.approve(draft, expect=2).err
    place.run("operator", "add", "operator", "--key", f"{place.key}.pub", expect=0)
    old = subprocess.run(["ssh-keygen", "-lf", str(place.key.with_name("gone.pub"))], capture_output=True, text=True)
    place.run("operator", "revoke", old.stdout.split()[1], expect=0)
    place.approve(draft)
    (state,) = (Path(os.environ["XDG_STATE_HOME"]) / "threegate").iterdir()
    shutil.rmtree(state)
    told(
        place.once(expect=3).err,
        (
            "stopped      code=workspace_mismatch what=no head of this workspace is kept on this side; it was copied here "  # noqa: E501
            "or another user runs it; if this is intended: threegate settings adopt"
        ),
    )
    place.run("settings", "adopt", "--as", "operator", "--key", str(place.key), "--yes", expect=0)
    place.once()
    place.run("audit", "verify", expect=0)
