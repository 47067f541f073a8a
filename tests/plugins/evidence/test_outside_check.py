"""An environment without ThreeGate runs the block of the page: it confirms what is right and finds what is not.

The runs are real: approved with a real key, run in the real sandbox.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.conftest import few
from tests.plugins.evidence.outside import Outside, approve_runs, files_of, flip, reseal
from tests.support import Place, make_place, wait_until
from tests.whole.trail.everything import make_everything
from threegate.core.workspace import Workspace
from threegate.plugins.evidence.pack import write_pack

RUNS = 40


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One state folder for what this module makes."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(autouse=True)
def same_state(state: Path, own_state: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state))


def ran(folder: Path, state: Path, count: int) -> Place:
    """A workspace in which so many requests ran."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        place = make_place(folder, settings={"runners.monty.workers": 2})
        approve_runs(place, count)
        place.once(timeout=1800)
    return place


@pytest.fixture(scope="module", name="place")
def a_workspace_with_runs(tmp_path_factory: pytest.TempPathFactory, state: Path) -> Place:
    return ran(tmp_path_factory.mktemp("place"), state, RUNS)


@pytest.fixture(scope="module", name="whole")
def a_pack_of_all(place: Place, state: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        packed = write_pack(Workspace(place.root), tmp_path_factory.mktemp("packs") / "whole")
    assert packed.missing == () and packed.requests == RUNS
    return packed.path


@pytest.fixture(scope="module", name="one")
def a_pack_of_one(place: Place, state: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        folder = tmp_path_factory.mktemp("packs")
        write_pack(Workspace(place.root), folder / "one.zip", ids=["TR-run-0007"])
    zipfile.ZipFile(folder / "one.zip").extractall(folder / "one")
    return folder / "one"


def test_a_pack_of_everything_that_ran_is_confirmed(whole: Path, outside: Outside, place: Place) -> None:
    events = len((whole / "trail.jsonl").read_bytes().splitlines())
    assert (whole / "trail.jsonl").read_bytes() == (place.root / "tool-exec/audit/trail.jsonl").read_bytes().rstrip(
        b"\0"
    )
    assert outside.confirmed(whole) == (
        f"checked: {RUNS} requests ({RUNS} signed by operators, 0 under grants, 0 by nobody), {RUNS} runs (0 without a "
        "signature), "
        f"{RUNS} results, {events} events in a trail of {events}\n"
    )


def test_a_pack_of_one_request_is_confirmed_and_discloses_no_other(one: Path, outside: Outside) -> None:
    assert outside.confirmed(one).startswith("checked: 1 requests (1 signed by operators")
    told = b"".join(path.read_bytes() for path in files_of(one))
    assert b"TR-run-0007" in told and not any(b"TR-run-%04d" % number in told for number in range(RUNS) if number != 7)
    kinds = {
        json.loads(line)["type"]
        for line in (one / "trail.jsonl").read_bytes().splitlines()
        if b'"request_id":null' in line
    }
    assert kinds == {"workspace_created", "operator_added"}
    assert len((one / "proofs.jsonl").read_bytes().splitlines()) == len((one / "trail.jsonl").read_bytes().splitlines())


@pytest.mark.slow
def test_everything_that_happens_to_requests_is_confirmed(tmp_path: Path, outside: Outside) -> None:
    workspace = make_everything(tmp_path)
    packed = write_pack(workspace, tmp_path / "pack")
    assert packed.missing == () and len(packed.operator_keys) == 2
    assert outside.confirmed(packed.path).startswith(
        "checked: 11 requests (8 signed by operators, 1 under grants, 2 by nobody), 4 runs (0 without a signature), 9 "
        "results"
    )
    # A kept checkpoint that covers the chosen requests is what their proofs stand on.
    assert write_pack(workspace, tmp_path / "kept", ids=["ran", "granted"]).size < packed.size
    assert outside.confirmed(tmp_path / "kept").startswith("checked: 2 requests (1 signed by operators, 1 under grants")


@pytest.mark.slow
def test_one_flipped_byte_in_any_file_is_found(whole: Path, outside: Outside) -> None:
    draw = random.Random(22)
    for path in files_of(whole):
        kept = flip(path, draw.randrange(path.stat().st_size))
        assert outside.check(whole).returncode != 0, path
        path.write_bytes(kept)
    outside.confirmed(whole)


@pytest.mark.parametrize("name", ["SHA256SUMS", "SHA256SUMS.note"])
def test_no_byte_of_what_seals_the_pack_is_free(one: Path, outside: Outside, name: str) -> None:
    path = one / name
    for at in {0, 64, 65, path.stat().st_size // 2, path.stat().st_size - 2, path.stat().st_size - 1}:
        kept = flip(path, at)
        assert outside.check(one).returncode != 0, at
        path.write_bytes(kept)


def test_a_file_left_out_added_or_replaced_by_a_link_is_found(one: Path, outside: Outside, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(one, tmp_path / "copy"))
    (copy / "requests" / "more").write_text("x")
    assert "a file too many" in outside.check(copy).stderr
    (copy / "requests" / "more").unlink()
    shown = copy / "requests/TR-run-0007/shown.txt"
    shown.rename(tmp_path / "shown.txt")
    assert outside.check(copy).returncode == 1
    shown.symlink_to(tmp_path / "shown.txt")
    assert "WRONG: a link" in outside.check(copy).stderr


@pytest.mark.parametrize(
    ("file", "part", "message"),
    few(
        [
            ("trail.jsonl", b'"type":"claimed"', "State does not match"),
            ("proofs.jsonl", b'"index": 0', "State does not match"),
            ("checkpoints/*", b"threegate.local", "InvalidSignature"),
            ("log-keys", b"threegate.local", "is none of LOG_KEYS"),
            ("operators/*", b"operator", "not what the trail recorded"),
            ("policies/*", b"settings", "not the digest in its name"),
            ("requests/*/request.md", b"purpose", "not what the trail names"),
            ("requests/*/request.md.sig", b'"nonce":"', "not what the trail names"),
            ("requests/*/request.md.sig", b"U1NIU0lH", "not what the trail names"),
            ("requests/*/shown.txt", b"TR-run", "not what was signed"),
            ("requests/*/result.md", b"status", "not what the trail names"),
            ("requests/*/record.json", b"succeeded", "not what the trail names"),
            ("requests/*/run.intoto.json", b'"payload": "ewog', "VerificationError"),
            ("index.json", b'"request_id": "TR-run-00', "KeyError"),
            ("index.json", b'"missing": [', "JSONDecodeError"),
        ],
        6,
    ),
)
def test_who_holds_the_logs_key_cannot_change_what_the_trail_and_the_operators_say(
    one: Path, outside: Outside, tmp_path: Path, file: str, part: bytes, message: str
) -> None:
    copy = Path(shutil.copytree(one, tmp_path / "copy"))
    (found,) = copy.glob(file)
    flip(found, found.read_bytes().index(part) + len(part) - 1, bit=1)
    reseal(copy, json.loads((one / "index.json").read_text())["workspace"])
    done = outside.check(copy)
    assert done.returncode == 1 and message in done.stderr, done.stderr


def test_a_signature_of_another_request_is_found(place: Place, outside: Outside, one: Path, tmp_path: Path) -> None:
    """The whole of another approval, digests in the trail included, is of another statement than the claim names."""
    copy = Path(shutil.copytree(one, tmp_path / "copy"))
    (one_id,) = [json.loads((one / "index.json").read_text())["workspace"]]
    other = place.root / "tool-exec/finished/TR-run-0008.md.sig"
    shutil.copy(other, copy / "requests/TR-run-0007/request.md.sig")
    reseal(copy, one_id)
    assert "request.md.sig: not what the trail names" in outside.check(copy).stderr


@pytest.mark.parametrize("variable", ["LOG_KEYS", "OPERATOR_KEYS"])
def test_keys_come_from_outside(one: Path, outside: Outside, variable: str) -> None:
    for value in ("", "SHA256:AAAA " + "0" * 64):
        done = outside.check(one, **{variable: value})
        assert done.returncode == 1 and f"is none of {variable}" in done.stderr


def test_requests_since_a_moment(place: Place, outside: Outside, tmp_path: Path) -> None:
    moments = [event["time"] for event in place.events("finished")]
    seen = {event["request_id"] for event in place.events() if event["time"] >= moments[-3]} - {None}
    done = place.run("--json", "audit", "pack", "--since", moments[-3], "--out", str(tmp_path / "since"), expect=0)
    assert done.json()["requests"] == len(seen), "those that finished then, and what had begun"
    assert outside.confirmed(tmp_path / "since").startswith(f"checked: {done.json()['requests']} requests")


# ---- what is missing


@pytest.fixture(name="broken")
def a_copy_to_break(place: Place, tmp_path: Path) -> Place:
    return Place(Path(shutil.copytree(place.root, tmp_path / "ws", symlinks=True)), place.key)


def packed(place: Place, out: Path, *more: str) -> list[dict[str, str]]:
    """What the command says is missing; the index says the same."""
    done = place.run("--json", "audit", "pack", *more, "--out", str(out), expect=2)
    missing = done.json()["missing"]
    assert json.loads((out / "index.json").read_text())["missing"] == missing
    assert isinstance(missing, list)
    return missing


def test_a_missing_and_a_changed_artifact_are_said(broken: Place, outside: Outside, tmp_path: Path) -> None:
    (broken.root / "tool-exec/runs/TR-run-0001/out/n.txt").unlink()
    changed = broken.root / "tool-exec/runs/TR-run-0002/out/n.txt"
    changed.chmod(0o600)
    changed.write_text("another")
    (broken.root / "tool-exec/finished/TR-run-0003.md").write_text("another")
    missing = packed(broken, tmp_path / "pack")
    assert sorted((item["file"], item["why"]) for item in missing) == [
        (
            "requests/TR-run-0003/request.md",
            "it was changed: it has not the digest that the trail names",
        ),
        ("runs/TR-run-0001/out/n.txt", "it is not there"),
        (
            "runs/TR-run-0002/out/n.txt",
            "it was changed: it has not the digest that the record names",
        ),
    ]
    done = outside.check(tmp_path / "pack")
    assert done.returncode == 2 and done.stdout.startswith("checked: ") and done.stderr.count("MISSING: ") == 3


def test_a_pruned_run_is_said(broken: Place, outside: Outside, tmp_path: Path) -> None:
    prune = ("--json", "audit", "prune", "--older-than", "1s")
    wait_until(lambda: "TR-run-0004" in broken.run(*prune, expect=0).json()["runs"], "a run that is a second old")
    missing = packed(broken, tmp_path / "pack", "TR-run-0004")
    assert [item["file"] for item in missing] == [
        "requests/TR-run-0004/shown.txt",
        "requests/TR-run-0004/record.json",
    ]
    assert all(item["why"].startswith("it was pruned (event ") for item in missing)
    done = outside.check(tmp_path / "pack")
    assert done.returncode == 2 and done.stderr.count("it was pruned") == 2


def test_a_trail_that_does_not_verify_is_said_and_nothing_is_signed_over_it(
    broken: Place, outside: Outside, tmp_path: Path
) -> None:
    trail = broken.root / "tool-exec/audit/trail.jsonl"
    flip(trail, trail.read_bytes().index(b'"finished"') + 3)
    missing = packed(broken, tmp_path / "pack")
    assert missing[0]["file"] == "trail.jsonl" and "the trail does not verify: trail.jsonl:" in missing[0]["why"]
    assert {item["file"] for item in missing} == {"trail.jsonl", "checkpoints/"}
    assert not list(tmp_path.rglob("*.intoto.json")) and not (tmp_path / "pack/checkpoints").exists()
    done = outside.check(tmp_path / "pack")
    assert done.returncode == 1 and "the trail does not verify" in done.stderr


# ---- the long form


@pytest.fixture(scope="module", name="thousand")
def a_pack_of_a_thousand(tmp_path_factory: pytest.TempPathFactory, state: Path) -> Path:
    place = ran(tmp_path_factory.mktemp("thousand"), state, 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        return write_pack(Workspace(place.root), tmp_path_factory.mktemp("packs") / "thousand").path


@pytest.mark.soak
def test_a_thousand_runs_are_confirmed(thousand: Path, outside: Outside) -> None:
    said = outside.confirmed(thousand)
    assert said.startswith(
        "checked: 1000 requests (1000 signed by operators, 0 under grants, 0 by nobody), 1000 runs (0 without a "
        "signature), 1000 results"
    )


@pytest.mark.soak
def test_one_flipped_byte_in_any_file_of_a_thousand_runs_is_found(thousand: Path, outside: Outside) -> None:
    draw = random.Random(1000)
    files = files_of(thousand)
    assert len(files) > 6000
    for path in files:
        kept = flip(path, draw.randrange(path.stat().st_size))
        assert outside.check(thousand).returncode != 0, path
        path.write_bytes(kept)


@pytest.mark.soak
def test_no_byte_of_a_pack_is_free(one: Path, outside: Outside) -> None:
    for path in files_of(one):
        for at in range(path.stat().st_size):
            kept = flip(path, at)
            assert outside.check(one).returncode != 0, (path, at)
            path.write_bytes(kept)


def test_the_tests_see_every_file(whole: Path) -> None:
    names = {path.relative_to(whole).parts[0] for path in files_of(whole)}
    assert names == {
        "SHA256SUMS", "SHA256SUMS.note", "checkpoints", "index.json", "log-keys", "operators", "policies", "requests", "trail.jsonl",  # noqa: E501
    }  # fmt: skip
    assert not [path for path in whole.rglob("*") if os.path.islink(path)]
