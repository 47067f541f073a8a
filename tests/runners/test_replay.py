"""Replay, the whole way: signed, within the walls, compared byte for byte; refused where it would mean something
else.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import engine_host
from tests.engine_fixtures import era_job, monty_job
from tests.support import Place, era_draft, make_place, monty_draft, request_id
from threegate.core.errors import Refused
from threegate.judgement.judge import replay_clearance

CODE = """
import datetime, random
open('/out/numbers.txt', 'w').write(str([random.random() for _ in range(5)]))
print(datetime.datetime.now())
open('/in/data.csv').read()
"""


def finished(place: Place, text: str) -> None:
    place.approve(place.drop(text))
    place.once()


def test_monty_is_identical_byte_for_byte(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    rid = request_id("again")
    finished(place, monty_draft(rid, CODE, inputs={"data.csv": place.input("data.csv", b"1,2")}))
    results = place.results()
    done = place.run("audit", "replay", rid, "--key", str(place.key), "--yes", "--json", expect=0).json()
    assert done["identical"] and done["status"] == "succeeded"
    first = place.root / "tool-exec" / "runs" / rid
    for name in ("stdout", "out/numbers.txt", "out/result.json"):
        assert (first / name).read_bytes() == (first / "replay-1" / name).read_bytes()
    event = place.events("replayed")[-1]
    assert event["data"]["outcome"] == "identical" and event["actor"] == "operator:operator"
    assert place.results() == results
    place.run("audit", "replay", rid, "--key", str(place.key), "--yes", expect=0)
    assert (first / "replay-2").is_dir()
    place.run("audit", "verify", expect=0)


def test_a_changed_first_output_or_input_is_told(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    rid = request_id("changed")
    digest = place.input("data.csv", b"1,2")
    finished(place, monty_draft(rid, CODE, inputs={"data.csv": digest}))
    pinned = place.root / "tool-exec" / "inputs" / digest
    pinned.chmod(0o600)
    pinned.write_bytes(b"9,9")
    done = place.run("audit", "replay", rid, "--key", str(place.key), "--yes")
    assert done.code == 3 and "changed since the approval" in done.err
    record = place.root / "tool-exec" / "runs" / rid / "record.json"
    record.write_bytes(record.read_bytes().replace(b"succeeded", b"succeedee"))
    done = place.run("audit", "replay", rid, "--key", str(place.key), "--yes")
    assert done.code == 2 and "changed" in done.err
    assert place.events("replayed") == []


def test_refusals(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    assert place.run("audit", "replay", "TR-none", "--key", str(place.key), "--yes").code == 2
    rid = request_id("refused")
    finished(place, monty_draft(rid, "1 + 1"))
    assert place.run("audit", "replay", rid, "--key", str(place.key)).code == 2, "off a terminal it needs --yes"
    file = next((place.root / "tool-exec" / "finished").glob("*.md"))
    file.chmod(0o600)
    file.write_bytes(file.read_bytes().replace(b"1 + 1", b"1 + 2"))
    done = place.run("audit", "replay", rid, "--key", str(place.key), "--yes")
    assert done.code == 2 and "differs from what ran" in done.err
    assert place.events("replayed") == []


@pytest.mark.engine
@pytest.mark.root
def test_era_is_compared_by_hash(tmp_path: Path) -> None:
    settings = {
        "runners.era.engine": engine_host() or "",
        "runners.era.image": os.environ["THREEGATE_TEST_IMAGE"],
    }
    place = make_place(tmp_path, settings=settings)
    rid = request_id("era")
    script = b"import os\nopen('/out/same', 'w').write('1')\nopen('/out/other', 'wb').write(os.urandom(8))\n"
    finished(place, era_draft(rid, "python3 /in/s.py", inputs={"s.py": place.input("s.py", script)}))
    done = place.run("audit", "replay", rid, "--key", str(place.key), "--yes", "--json", expect=2).json()
    assert len(done["differences"]) == 1 and done["differences"][0].startswith("other: ")


def request_of(job_about: dict[str, str]):
    from threegate.request.model import Request

    names = Request.__dataclass_fields__
    values = dict.fromkeys(names)
    values |= {
        "request_id": job_about["request_id"],
        "sha256": job_about["request_sha256"],
        "approved_by": "operator",
        "approved_utc": datetime(2026, 1, 2, tzinfo=UTC),
    }
    return Request(**values)


def test_only_the_named_job_gets_a_clearance() -> None:
    job = monty_job("1 + 1")
    about = {"request_id": "TR-a", "request_sha256": "ab" * 32, "job_sha256": job.digest}
    request = request_of(about)
    assert replay_clearance(about, request, job).job_sha256 == job.digest
    for name in about:
        with pytest.raises(Refused) as refusal:
            replay_clearance({**about, name: "x"}, request, job)
        assert refusal.value.code == "job_changed"
    with pytest.raises(Refused):
        replay_clearance(about, replace(request, approved_utc=None), job)
    with pytest.raises(Refused) as refusal:
        replay_clearance(about, request, era_job("true", network=("a.example:443",)))
    assert refusal.value.code == "replay_has_network"
