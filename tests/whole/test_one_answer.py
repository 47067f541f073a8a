"""Whether a draft can run is one answer: the same lines in `validate`, the daemon's verdict, `show`, the card, `draft`,
`submit_request` and the door.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.cluster.test_parts import RULES
from tests.plugins.cluster.test_parts import told as worker_note
from tests.plugins.tools.tool_bench import ToolBench
from tests.request.examples import apply
from tests.runners.test_other_engines import DOCKER, answering
from tests.support import era_draft, request_id, wait_until
from threegate.acts.operator import revoke_operator
from threegate.cli import execute
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Refused
from threegate.daemon.drafts import Inbox
from threegate.daemon.log import Log
from threegate.plugins.agents.door import Door
from threegate.plugins.cluster.capacity import workers_file
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.serve.requests import RequesterAccess
from threegate.request.sandbox_contents import Contents
from threegate.review.fitness import DRAFT_RULES
from threegate.review.readiness import Readiness
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft, refuse_judged
from threegate.review.screen import render_reviewed_draft
from threegate.runners.era import blocked_runs, contents
from threegate.setup.settings_file import set_values
from threegate.trail.payloads import Validated

LABELS = {
    "threegate.programs": "curl python3 sort",
    "threegate.modules": "csv json os sys yaml",
    "threegate.python": "3.11",
}
ENGINE_LIMITS = {"MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": True}
SCRIPT = b"import csv\nimport numpy\n"
BROKEN = b"import csv\nprint 'a'\n"


class Case(NamedTuple):
    """A command with its inputs, and what is expected: the rule, words of its message, the code at `approve`."""

    command: str
    rule: str
    words: str
    code: str = ""
    inputs: dict[str, bytes] = {}  # noqa: RUF012 - never changed


REFUSED = {
    "missing program": Case("jq .", "TG904", "has no program 'jq'", "program_missing"),
    "near program": Case("curll x", "TG904", "(did you mean curl?)", "program_missing"),
    "missing module": Case(
        "python3 /in/a.py", "TG912", "/in/a.py:2: the sandbox image has no Python module numpy", "script_unfit",
        {"a.py": SCRIPT},
    ),
    "missing module of -m": Case("python3 -m pytest", "TG912", "no Python module pytest", "script_unfit"),
    "syntax": Case("python3 /in/a.py", "TG911", "/in/a.py:2: not Python 3.11", "script_unfit", {"a.py": BROKEN}),
    "undeclared input": Case("sort /in/data.csv", "TG913", "not a declared input", "input_undeclared"),
}  # fmt: skip


@contextmanager
def with_engine(bench: Bench, *, missing: bool = False) -> Iterator[None]:
    """An engine that has an image with labels; `missing`: the settings name another image."""
    image = "sha256:" + uuid.uuid4().hex * 2
    with answering(DOCKER, image=image, labels=LABELS, limits=ENGINE_LIMITS) as url:
        named = "sha256:" + uuid.uuid4().hex * 2 if missing else image
        bench.settings(runners__era__runtime="engine", runners__era__engine=url, runners__era__image=named)
        yield


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def drop(bench: Bench, case: Case, **more: Any) -> Path:
    for name, data in case.inputs.items():
        (bench.workspace.files / name).write_bytes(data)
    digests = {name: sha256_hex(data) for name, data in case.inputs.items()}
    name = request_id("answer")
    path = bench.workspace.inbox / f"{name}.md"
    path.write_text(era_draft(name, case.command, inputs=digests, **more))
    return path


def command(bench: Bench, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capfd.readouterr()
    code = execute(["--workspace", str(bench.workspace.root), *words])
    return code, capfd.readouterr().out


Told = set[tuple[str, str, int, int, str]]


def ours(findings: list[dict[str, Any]]) -> Told:
    """What is told of whether it can run, with its place in the file."""
    return {
        (item["rule"], item["severity"], item["line"], item["column"], item["message"])
        for item in findings
        if item["rule"] in DRAFT_RULES
    }


def validated(bench: Bench, path: Path, capfd: pytest.CaptureFixture[str]) -> Told:
    code, out = command(bench, capfd, "--json", "validate", str(path))
    found = ours(json.loads(out)["files"][0]["findings"])
    assert code == (2 if any(severity == "error" for _, severity, *_ in found) else 0)
    return found


def verdict(bench: Bench, path: Path) -> dict[str, Any]:
    context = bench.context
    inbox = Inbox(bench.workspace, context.trail, Log(quiet=True))
    try:
        return checked(bench, inbox, path)
    finally:
        inbox.close()


def checked(bench: Bench, inbox: Inbox, path: Path) -> dict[str, Any]:
    """The verdict that a daemon has written after all that it had to do."""
    policy = bench.context.policy

    def done() -> bool:
        return not inbox.scan(policy) and not inbox.unfinished

    wait_until(done, "the verdict")
    value = json.loads((bench.workspace.verdicts / f"{path.name}.json").read_text())
    assert isinstance(value, dict)
    return value


def told_by_show(bench: Bench, path: Path, message: str, capfd: pytest.CaptureFixture[str]) -> bool:
    """Whether `show` says it; a long word may go on in the next row."""
    return "".join(message.split()) in "".join(command(bench, capfd, "show", path.stem)[1].split())


def card(bench: Bench, path: Path) -> list[str]:
    with open_reviewed_draft(bench.context, read_draft(bench.workspace, path)) as reviewed:
        return list(render_reviewed_draft(reviewed, bench.context.policy.settings, operator="alice", width=400))


def submitted(bench: Bench, path: Path) -> dict[str, Any]:
    text = path.read_text().replace(path.stem, path.stem + "-mcp")
    name = "TR-20260102-030405Z-" + uuid.uuid4().hex[:8] + ".md"
    return RequesterAccess(bench.workspace).submit_request({"file_name": name, "content": text})


def by_the_door(bench: Bench, case: Case) -> dict[str, Any]:
    files = list(case.inputs)  # as the door sees them: from inbox/files/

    async def tell(*said: object) -> None: ...

    async def ask() -> Any:
        arguments = {"argv": shlex.split(case.command), "purpose": "x", "files": files, "wait_sec": 0}
        return await Door(bench.workspace, None, 1).call("run_program", arguments, tell)

    return dict(asyncio.run(ask()).value)


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_only_fail_is_refused_everywhere(bench: Bench, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    case = REFUSED[name]
    with with_engine(bench):
        path = drop(bench, case)
        found = validated(bench, path, capfd)
        ((rule, severity, line, _, message),) = found
        assert (rule, severity) == (case.rule, "error") and case.words in message
        assert path.read_text().splitlines()[line - 1] == case.command
        told = verdict(bench, path)
        assert (told["valid"], told["reason"], ours(told["findings"])) == (False, case.rule, found)
        assert told_by_show(bench, path, message, capfd)
        shown = card(bench, path)
        assert any(row.split() == ["can", "run", "no:", case.code] for row in shown)
        assert any(message in row for row in shown)
        with pytest.raises(Refused) as refused:
            bench.approve(path)
        assert (refused.value.code, str(refused.value)) == (case.code, message)
        answer = submitted(bench, path)
        assert not answer["submitted"] and ours(answer["findings"]) == found
        answer = by_the_door(bench, case)
        assert answer["status"] == "refused" and message in answer["why"]
        words = [word for name in case.inputs for word in ("--input", str(bench.workspace.files / name))]
        code, _ = command(bench, capfd, "draft", "--purpose", "x", "--command", case.command, *words)
        assert code == 2 and len(list(bench.workspace.inbox.glob("*.md"))) == 1


WAITING = {
    "engine away": "would wait: no container engine: {engine} does not exist; start one, or set runners.era.engine",
    "no image set": "would wait: no image: runners.era.image is not set; build it: threegate settings images",
    "image missing": "would wait: image {image}… is not named by its digest",
    "extra missing": "would wait: the extra era is not installed: nothing runs in a container: pip install",
    "no worker": "would wait: none of 2 accepts work, so nothing starts: threegate status",
    "no fit worker": "would wait: no live worker has 1 cores and ",
}
WORKERS = ("w1+0+a", "w2+0+b")


@contextmanager
def waiting(bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A machine on which an ERA run could not start now; gives the line that says why."""
    if name == "engine away":
        away = bench.workspace.root / "no.sock"
        engine, image = f"unix://{away}", "sha256:" + "1" * 64
        bench.settings(runners__era__runtime="engine", runners__era__engine=engine, runners__era__image=image)
        yield WAITING[name].format(engine=away)
        return
    if "worker" in name:
        image = "sha256:" + "1" * 64
        set_values(bench.workspace.settings_file, {"runners.era.image": image, "cluster.broker": "amqps://127.0.0.1:1",
                   "cluster.identity": "/none", "cluster.workers": WORKERS})  # fmt: skip
        ledger = Ledger(("w1",), RULES)
        if name == "no fit worker":  # it accepts work, but has no place for a container
            ledger.hear("w1", worker_note(era=0))
        workers_file(bench.workspace).write_text(json.dumps([seat.to_json() for seat in ledger.seats()]))
        with bench.workspace.daemon_lock():
            yield WAITING[name]
        return
    with with_engine(bench, missing=name == "image missing"):
        if name == "no image set":
            bench.settings(runners__era__image="")
        if name == "extra missing":
            monkeypatch.setitem(sys.modules, "docker", None)
        yield WAITING[name].format(image=bench.context.policy.settings.runners.era.image[:19])


@pytest.mark.parametrize("name", WAITING)
def test_what_would_only_wait_is_said_everywhere_and_refuses_nothing(
    bench: Bench, name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("sort --version", "TG910", "")
    with waiting(bench, name, monkeypatch) as line:
        path = drop(bench, case, memory_mb=256)  # as much as `draft` asks for
        found = validated(bench, path, capfd)
        ((rule, severity, _, _, message),) = found
        assert (rule, severity) == ("TG910", "warning") and message.startswith(line)
        told = verdict(bench, path)
        assert (told["valid"], told["state"], ours(told["findings"])) == (True, "draft", found)
        assert told_by_show(bench, path, message, capfd)
        shown = card(bench, path)
        assert any(row.split("can run")[-1].strip() == message for row in shown)
        answer = submitted(bench, path)
        assert answer["submitted"] and ours(answer["findings"]) == found
        answer = by_the_door(bench, case)
        assert answer["status"] == "pending"
        code, out = command(bench, capfd, "--json", "draft", "--purpose", "x", "--command", case.command)
        assert code == 0 and ours(json.loads(out)["findings"]) == found
        assert bench.approve(path)


def nobody(bench: Bench) -> None:
    revoke_operator(bench.workspace, "alice", actor="test")


def only_the_requester(bench: Bench) -> None:
    bench.settings(**{f"requesters__{os.geteuid()}": "alice"})


def too_few(bench: Bench) -> None:
    bench.settings(approval__quorum__medium=2)


SIGNERS = {
    "nobody can sign": (
        nobody,
        "nobody can sign: no key of tool-exec/operators is valid now: threegate operator add NAME --key KEY.pub",
    ),
    "only the requester can": (
        only_the_requester,
        "whoever asks cannot approve, and no other operator can sign: threegate operator add NAME --key KEY.pub",
    ),
    "too few can": (
        too_few,
        "2 operators must sign for risk medium (approval.quorum.medium), and 1 can: "
        "threegate operator add NAME --key KEY.pub",
    ),
}


@pytest.mark.parametrize("name", SIGNERS)
def test_who_is_missing_to_sign_is_said_everywhere(bench: Bench, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    case = Case("sort --version", "TG910", "")
    lack, line = SIGNERS[name]
    with with_engine(bench):
        path = drop(bench, case)
        assert validated(bench, path, capfd) == set()
        lack(bench)
        found = validated(bench, path, capfd)
        ((rule, severity, _, _, message),) = found
        assert (rule, severity, message) == ("TG910", "warning", f"would wait: {line}")
        told = verdict(bench, path)
        assert (told["valid"], ours(told["findings"])) == (True, found)
        assert told_by_show(bench, path, message, capfd)
        assert any(row.split("can run")[-1].strip() == message for row in card(bench, path))
        assert ours(submitted(bench, path)["findings"]) == found
        _, out = command(bench, capfd, "--json", "draft", "--purpose", "x", "--command", case.command)
        assert ours(json.loads(out)["findings"]) == found
        seen = [item for item in Readiness(bench.workspace).look() if item.name == "operators"]
        # A requester is one of a request; the others hold for all of them.
        assert [f"{item.seen}: {item.fix}" for item in seen] == ([] if name == "only the requester can" else [line])


def test_the_verdict_follows_operators_that_come(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that the verdict names fixes it, and nobody has to touch the draft."""
    monkeypatch.setattr(limits, "SANDBOX_KNOWN_SECONDS", 0.0)
    with with_engine(bench):
        path = drop(bench, Case("sort --version", "", ""))
        nobody(bench)
        inbox = Inbox(bench.workspace, bench.context.trail, Log(quiet=True))
        try:
            assert {rule for rule, *_ in ours(checked(bench, inbox, path)["findings"])} == {"TG910"}
            bench.operator("bob")
            assert ours(checked(bench, inbox, path)["findings"]) == set()
        finally:
            inbox.close()
        assert bench.approve(path, "bob")


def test_a_changed_operators_file_is_said_before_the_signature(bench: Bench) -> None:
    with with_engine(bench):
        path = drop(bench, Case("sort --version", "", ""))
        with bench.workspace.operators_file.open("a") as file:
            file.write("# by hand\n")
        rows = card(bench, path)
        assert any(row.split() == ["can", "run", "no:", "operators_changed"] for row in rows)
        assert any("check it, then: threegate operator record" in row for row in rows)
        with (
            open_reviewed_draft(bench.context, read_draft(bench.workspace, path)) as reviewed,
            pytest.raises(Refused, match="threegate operator record") as refused,
        ):
            refuse_judged(reviewed)  # what approve asks first, before any key
        assert refused.value.code == "operators_changed"


def test_no_daemon_is_a_line_everywhere_and_refuses_nothing(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    line = "not running, so nothing is started: threegate run"
    made: list[dict[str, Any]] = []
    with with_engine(bench):
        path = drop(bench, Case("sort --version", "", ""))

        def told() -> list[bool]:
            made.append(submitted(bench, path))
            assert made[-1]["submitted"]
            asked = by_the_door(bench, Case(f"sort --version {len(made)}", "", ""))["waits_for"]
            capfd.readouterr()
            assert execute(["--workspace", str(bench.workspace.root), "validate", str(path)]) == 0
            checked_by = f"daemon {line}" in capfd.readouterr().err
            shown = any(row.split("daemon")[-1].strip() == line for row in card(bench, path))
            answers = [made[-1].get("waits_for") == f"daemon {line}", asked.startswith(f"daemon {line}; ")]
            return [checked_by, shown, *answers, f"daemon    {line}" in command(bench, capfd, "status")[1]]

        assert told() == [True] * 5
        with bench.workspace.daemon_lock():
            assert told() == [False] * 5
            assert "waits_for" not in made[-1]
        approved = bench.approve(path).path
        assert approved.exists()


MISSING_INPUT = {"gone": ("TG902", "input_missing"), "changed": ("TG903", "input_changed")}


@pytest.mark.parametrize("name", MISSING_INPUT)
def test_an_input_that_is_gone_or_changed(bench: Bench, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    rule, code = MISSING_INPUT[name]
    with with_engine(bench):
        path = drop(bench, Case("sort /in/data.csv", "", "", inputs={"data.csv": b"1\n"}))
        file = bench.workspace.files / "data.csv"
        file.unlink() if name == "gone" else file.write_bytes(b"2\n")
        found = validated(bench, path, capfd)
        assert {item[0] for item in found} == {rule}
        told = verdict(bench, path)
        assert (told["valid"], ours(told["findings"])) == (False, found)
        assert told_by_show(bench, path, next(iter(found))[4], capfd)
        with pytest.raises(Refused) as refused:
            bench.approve(path)
        assert refused.value.code == code


PROJECTS = {
    "unknown": "web: not a registered project; see: threegate project list",
    "gone": "cannot be read (No such file or directory)",
    "another folder": "is another folder than the one that was registered",
}


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_that_cannot_be_changed(
    bench: Bench, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "web"
    if name != "unknown":
        folder.mkdir()
        os.chown(folder, 65534, 65534) if os.geteuid() == 0 else None
        assert command(bench, capfd, "project", "add", "web", str(folder))[0] == 0
        folder.rename(tmp_path / "away")
    if name == "another folder":
        folder.mkdir()
    data = b"archive"
    (bench.workspace.files / "changes.tar").write_bytes(data)
    path = bench.workspace.inbox / f"{request_id('change')}.md"
    keys = {"request_id": path.stem, "inputs": f"[{{name: changes.tar, sha256: {sha256_hex(data)}}}]"}
    path.write_text(apply(**keys))
    found = validated(bench, path, capfd)
    ((rule, severity, _, _, message),) = found
    assert (rule, severity) == ("TG914", "error") and PROJECTS[name] in message
    told = verdict(bench, path)
    assert (told["valid"], told["reason"], ours(told["findings"])) == (False, "TG914", found)
    assert told_by_show(bench, path, message, capfd)


SERVERS = {
    "secret": ({"secrets": ("HUB",)}, "no secret: put secrets.HUB with env or file into threegate.toml"),
    "account": ({"account": "no-such-account"}, "account 'no-such-account': does not exist"),
    "program": ({}, "/usr/bin/hub"),
}


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_that_does_not_start_is_said_before_a_call_is_signed(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    more, words = SERVERS[name]
    tools = ToolBench(tmp_path, **more)
    path = tools.draft()
    found = validated(tools.bench, path, capfd)
    ((rule, severity, _, _, message),) = found
    assert (rule, severity) == ("TG910", "warning")
    assert message.startswith("would wait: hub cannot be started: ") and words in message
    assert ours(verdict(tools.bench, path)["findings"]) == found
    assert any(row.split("can run")[-1].strip() == message for row in card(tools.bench, path))


@pytest.mark.parametrize(
    ("key", "more"), [("memory_limit_mb", {"memory_mb": 900}), ("cpu_limit", {"cpu": "3"})], ids=["memory", "cores"]
)
def test_limits_above_the_budget_are_refused_everywhere(
    bench: Bench, key: str, more: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    bench.settings(runners__memory_budget_mb=600, runners__cpu_budget=2)
    with with_engine(bench):
        path = drop(bench, Case("sort --version", "TG905", ""), **more)
        found = validated(bench, path, capfd)
        ((rule, severity, line, _, message),) = found
        assert (rule, severity) == ("TG905", "error") and "it could never run here" in message
        assert path.read_text().splitlines()[line - 1].startswith(f"{key}:")
        told = verdict(bench, path)
        assert (told["reason"], ours(told["findings"])) == ("TG905", found)
        assert told_by_show(bench, path, message, capfd)
        assert any(message in row for row in card(bench, path))
        with pytest.raises(Refused, match="it could never run here"):
            bench.approve(path)
        answer = submitted(bench, path)
        assert not answer["submitted"] and ours(answer["findings"]) == found


def test_the_verdict_follows_an_engine_that_comes_and_goes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SANDBOX_KNOWN_SECONDS", 0.0)
    monkeypatch.setattr(blocked_runs, "KNOWN_SECONDS", 0.0)
    with with_engine(bench):
        path = drop(bench, Case("sort --version", "", ""))
        engine = bench.context.policy.settings.runners.era.engine.removeprefix("unix://")
        told: list[object] = []
        inbox = Inbox(bench.workspace, bench.context.trail, Log(quiet=True), on_draft=lambda *draft: told.append(draft))
        try:
            assert ours(checked(bench, inbox, path)["findings"]) == set()
            os.rename(engine, f"{engine}.away")
            ((rule, *_),) = ours(checked(bench, inbox, path)["findings"])
            assert rule == "TG910" and path in inbox.valid
            os.rename(f"{engine}.away", engine)
            assert ours(checked(bench, inbox, path)["findings"]) == set()
            assert len(told) == 1, "nobody is notified again"
        finally:
            inbox.close()


def test_a_draft_that_becomes_valid_is_told_like_a_new_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator installed what it lacked: people are notified, plugins see it, and the trail says it."""
    monkeypatch.setattr(limits, "SANDBOX_KNOWN_SECONDS", 0.0)
    found = [Contents(frozenset({"cat"})), Contents(frozenset({"cat", "sort"}))]
    monkeypatch.setattr(contents, "contents", lambda *named: found[0])
    path = drop(bench, Case("sort --version", "", ""))
    told: list[object] = []
    seen: list[Path] = []
    inbox = Inbox(
        bench.workspace,
        bench.context.trail,
        Log(quiet=True),
        on_draft=lambda *draft: told.append(draft),
        on_valid=seen.append,
    )
    try:
        assert {rule for rule, *_ in ours(checked(bench, inbox, path)["findings"])} == {"TG904"}
        assert (told, seen) == ([], [])
        found.reverse()
        assert checked(bench, inbox, path)["valid"]
        assert (len(told), seen) == (1, [path])
        found.reverse()
        assert not checked(bench, inbox, path)["valid"]
    finally:
        inbox.close()
    said = [event.payload.valid for event in bench.context.trail.events() if isinstance(event.payload, Validated)]
    assert said == [False, True, False]


def test_good_drafts_have_no_finding(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    with with_engine(bench):
        for line, inputs in {
            "python3 /in/a.py": {"a.py": b"import csv, b\n", "b.py": b"import yaml\n"},
            "sort /in/data.csv": {"data.csv": b"1\n"},
            "python3 -c 'import json'": {},
        }.items():
            path = drop(bench, Case(line, "", "", inputs=inputs))
            assert validated(bench, path, capfd) == set()
            told = verdict(bench, path)
            assert told["valid"] and ours(told["findings"]) == set()
            path.unlink()


def test_a_file_that_nobody_declared_is_an_error_without_a_workspace_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = request_id("answer")
    path = tmp_path / f"{name}.md"
    path.write_text(era_draft(name, "sort /in/data.csv"))
    capfd.readouterr()
    assert execute(["--json", "validate", "--stage", "draft", str(path)]) == 2
    ((rule, severity, _, column, _),) = ours(json.loads(capfd.readouterr().out)["files"][0]["findings"])
    assert (rule, severity, column) == ("TG913", "error", 6)


def test_hostile_scripts_stop_no_other_file(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    """A script of a megabyte, deep nesting, NUL bytes and other encodings, in one inbox with a good draft."""
    hostile = {
        "large": b"#" * 1_000_000,
        "deep": b"(" * 200_000,
        "chain": b"a" + b".a" * 100_000,
        "nul": b"\0" * 1000,
        "coded": b"# coding: idna\n" + b"xn--" * 1000,
        "binary": bytes(range(256)) * 100,
    }
    with with_engine(bench):
        for name, data in hostile.items():
            drop(bench, Case(f"python3 /in/{name}.py", "", "", inputs={f"{name}.py": data}))
        good = drop(bench, Case("sort --version", "", ""))
        assert verdict(bench, good)["valid"]
        for path in bench.workspace.inbox.glob("*.md"):
            told = json.loads((bench.workspace.verdicts / f"{path.name}.json").read_text())
            assert ours(told["findings"]) == validated(bench, path, capfd)
            assert all(item["rule"] != "TG199" for item in told["findings"])
            assert {item["rule"] for item in told["findings"]} <= {"TG332", "TG911"}
