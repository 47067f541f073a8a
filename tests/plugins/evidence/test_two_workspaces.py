"""Two workspaces whose machines witness each other: real daemons, real witnesses, and what a restored backup leaves."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.plugins.evidence.test_cosignature import check_by_the_spec
from tests.plugins.evidence.witnesses import witness
from tests.support import Place, make_place, monty_draft, request_id, wait_until

WAIT_SECONDS = 60


def pub(place: Place) -> str:
    return (place.root / "tool-exec" / "audit" / "workspace.pub").read_text().strip()


def name_witness(place: Place, url: str, key: str) -> None:
    with open(place.root / "threegate.toml", "a") as settings:
        settings.write(f'\n[witnesses.other]\nurl = "{url}"\nkey = "{key}"\n')


def newest(place: Place) -> int:
    return max(event["data"]["size"] for event in place.events("checkpoint"))


def cosigned(place: Place) -> Path:
    """The first file of a cosignature, as soon as there is one: only the newest checkpoint is asked for."""
    folder = place.root / "tool-exec" / "audit" / "checkpoints"
    return wait_until(lambda: sorted(folder.glob("*.other")), place.events, WAIT_SECONDS)[0]


@pytest.fixture(name="two")
def two_places(tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    places = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        places.append(make_place(tmp_path / name, settings={"audit.checkpoint_every": 5}))
    yield places[0], places[1]


@pytest.mark.slow
def test_two_machines_witness_each_other(two: tuple[Place, Place], tmp_path: Path) -> None:
    one, other = two
    with witness(tmp_path / "w1", [pub(other)]) as first, witness(tmp_path / "w2", [pub(one)]) as second:
        name_witness(one, second.url, second.vkey)
        name_witness(other, first.url, first.vkey)
        daemons = [place.daemon() for place in two]
        try:
            for place, theirs in ((one, second), (other, first)):
                place.approve(place.drop(monty_draft(request_id("sum"), "print(1 + 2)")))
                note = cosigned(place).read_bytes()
                assert check_by_the_spec(note, theirs.vkey) <= time.time()
        finally:
            for daemon in daemons:
                daemon.send_signal(signal.SIGTERM)
            logs = [daemon.communicate(timeout=60)[1].decode() for daemon in daemons]
        assert [daemon.returncode for daemon in daemons] == [0, 0] and "Traceback" not in "".join(logs)
        one.once()  # what was signed last, while the daemon stopped, is asked for now
        said = one.run("audit", "verify", "--witness", second.vkey, expect=0).out
        assert f"cosigned by {second.key.name}: {newest(one)} events at " in said
        for place in two:
            answers = place.events("witnessed")
            assert answers and {event["data"]["witness"] for event in answers} == {"other"}
            # Its own answers are not a reason for the next checkpoint.
            assert len(place.events()) - newest(place) - len(answers) <= 5
        wrong = one.run("audit", "verify", "--witness", second.vkey, "--witness", first.vkey, "--json", expect=2).json()
        assert wrong["cosigned"][second.key.name]["size"] == newest(one) and not wrong["ok"]
        [problem] = wrong["problems"]
        assert f"has no cosignature by {first.key.name}" in problem["message"]
        assert problem["place"].endswith(f"/{newest(one):012d}")


@pytest.mark.slow
def test_a_restored_backup_is_told_by_the_witness(tmp_path: Path) -> None:
    """Workspace, key and outside head are put back together: nothing on this machine tells, the witness does."""
    place = make_place(tmp_path)
    state = Path(os.environ["XDG_STATE_HOME"])
    with witness(tmp_path / "w", [pub(place)]) as running:
        name_witness(place, running.url, running.vkey)
        place.run("audit", "checkpoint", expect=0)
        place.once()
        place.run("audit", "verify", "--witness", running.vkey, expect=0)
        shutil.copytree(place.root, tmp_path / "kept-ws", symlinks=True)
        shutil.copytree(state, tmp_path / "kept-state")
        place.run("audit", "checkpoint", expect=0)
        place.run("audit", "rotate", expect=0)
        place.once()
        (tmp_path / "vkey").write_text(running.vkey + "\n")
        place.run("audit", "verify", "--witness", str(tmp_path / "vkey"), expect=0)

        for now, kept in ((place.root, "kept-ws"), (state, "kept-state")):
            shutil.rmtree(now)
            shutil.copytree(tmp_path / kept, now, symlinks=True)
        place.run("audit", "checkpoint", expect=0)
        place.once()
        place.run("audit", "verify", expect=0)
        answer = place.run("audit", "verify", "--witness", running.vkey, expect=2)
        assert f"has no cosignature by {running.key.name}" in answer.out
        [refused] = [event for event in place.events("witnessed") if "reason" in event["data"]]
        assert refused["data"]["reason"].startswith("it cosigned")
        assert (
            "refused to cosign the trail checkpoint" in place.run("audit", "show", "--type", "witnessed", expect=0).out
        )

        name = hashlib.sha256(pub(place).partition("+")[0].encode()).hexdigest()
        (tmp_path / "seen").write_bytes(httpx.get(f"{running.url}/{name}/checkpoint").content)
        known = place.run("audit", "verify", "--checkpoint", str(tmp_path / "seen"), expect=2)
        assert "signs another tree" in known.out


@pytest.mark.slow
def test_a_witness_that_hangs_delays_nothing(tmp_path: Path) -> None:
    place = make_place(tmp_path, settings={"audit.checkpoint_every": 3})
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts by its backlog, and never answers
        key = "threegate.local/witness-0123456789abcdef+591bc8f7+BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
        name_witness(place, f"http://127.0.0.1:{listener.getsockname()[1]}", key)
        daemon = place.daemon()
        try:
            for number in range(2):
                asked = request_id(f"sum-{number}")
                place.approve(place.drop(monty_draft(asked, "print(1 + 2)")))
                wait_until(lambda: place.events("finished")[number:], "the end of a run", WAIT_SECONDS)
            finished = place.events("finished")
            assert [event["data"]["status"] for event in finished] == ["succeeded", "succeeded"]
        finally:
            began = time.monotonic()
            daemon.send_signal(signal.SIGTERM)
            errors = daemon.communicate(timeout=60)[1].decode()
        assert daemon.returncode == 0 and time.monotonic() - began < 5, errors
    assert place.events("checkpoint") and not place.events("witnessed")
    assert json.loads(place.run("audit", "verify", "--json", expect=0).out)["ok"]
