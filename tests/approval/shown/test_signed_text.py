"""The text that an approval signs: made of what is signed alone, all of it on the screen, kept, and made again at
launch.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, daemons, launched
from threegate.approval.shown import request_sections
from threegate.approval.shown.escaped_lines import fitted, render_sections
from threegate.approval.shown.request_sections import (
    ShownRequest,
    changed_settings,
    exposure_items,
    shown_request,
    shown_sha256,
    signed_text,
    size_text,
)
from threegate.audit.audit_verify import verify_workspace
from threegate.cli import execute as run
from threegate.core.screen_parts import Section
from threegate.core.settings import parse_settings
from threegate.launch.approved_file import Approved, Ended, read_approved
from threegate.request.action import ActionText, Command, Script
from threegate.request.exposure import Exposure
from threegate.request.model import InputFile, OutputFile
from threegate.review.countersign import verify_approval
from threegate.review.review_sections import review_sections
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.trail import payloads


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def view(bench: Bench, path: Path) -> ShownRequest:
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        return shown_request(
            reviewed.request,
            reviewed.job,
            context.policy.settings,
            operator="alice",
            owner=reviewed.owner,
        )


def approved_event(bench: Bench, request_id: str = "req-1") -> payloads.Approved:
    with bench.context.trail.locked() as held:
        history = held.index.history(request_id)
    found = payloads.Approved.of(history.approved) if history else None
    assert found is not None
    return found


def test_it_says_by_what_a_command_runs(bench: Bench) -> None:
    """Without an engine also how its memory is kept, which the daemon's own place decides."""
    shown = view(bench, bench.draft())
    image = "a" * 64

    def text(**platform: str) -> str:
        return signed_text(replace(shown, job=replace(shown.job, **platform))).decode()  # type: ignore[arg-type]

    jailed = text(image=f"root:sha256:{image}", runtime="bubblewrap")
    assert "sandbox      bubblewrap, without a container engine" in jailed and "  root " in jailed
    words = " ".join(jailed.split())
    assert "watched, not enforced by the kernel, where the daemon has no cgroup of its own" in words
    contained = text(image=f"sha256:{image}", runtime="runsc")
    assert "OCI runtime  runsc" in contained and "  image " in contained and "watched" not in contained


ENGINE = "[runners.era]\nengine = 'unix:///e.sock'\nrequire_readback = true\n"
GITHUB = {"tool": "github.issue_create_approved", "proposal_sha256": "b" * 64}
RELIED: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "Monty": (ENGINE, {}, ()),
    "a container": (
        ENGINE,
        {"backend": "ERA", "image": "sha256:1"},
        ("engine      | unix:///e.sock", "readback     refused if one of its walls cannot be read back"),
    ),
    "bubblewrap": (ENGINE, {"backend": "ERA", "runtime": "bubblewrap"}, ("readback     refused",)),
    "defaults": ("", {"backend": "ERA"}, ()),
    "a variable": (
        "[secrets.github]\nenv = 'TOKEN'\npath = '/repos/a/b/issues'\n",
        GITHUB,
        ("secret      | github: the variable TOKEN; for POST api.github.com/repos/a/b/issues",),
    ),
    "a file": (
        "[secrets.github]\nfile = '/etc/token'\nmethod = 'PUT'\n",
        GITHUB,
        ("secret      | github: the file /etc/token; for PUT api.github.com",),
    ),
    "no secret": ("[secrets.other]\nenv = 'TOKEN'\n", GITHUB, ("secret      | github: secrets.github is not set",)),
    "another's secret": ("[secrets.github]\nenv = 'TOKEN'\n", {}, ()),
}


@pytest.mark.parametrize("name", RELIED)
def test_it_has_the_settings_that_this_request_depends_on(bench: Bench, name: str) -> None:
    """They are not in the policy digest: a change of them is a change of this text, for these requests only."""
    text, changes, lines = RELIED[name]
    settings = parse_settings(text.encode())
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, bench.draft())) as reviewed:
        job = replace(reviewed.job, **changes)
        shown = shown_request(reviewed.request, job, settings, operator="alice", owner=reviewed.owner)
    found = [
        line.strip()
        for line in signed_text(shown).decode().splitlines()
        if line[2:14].strip() in ("engine", "readback", "secret")
    ]
    assert len(found) == len(lines) and all(map(str.startswith, found, lines))


def test_what_changed_is_named_by_our_labels_and_never_by_foreign_text() -> None:
    signed = "  you sign as  alice; 1 signature is needed\n  purpose     | one\n  secret      | a: the variable B\n"
    today = signed.replace("1 signature is", "2 signatures are")
    assert changed_settings(signed.encode(), today.encode()) == ("approval.quorum",)
    assert changed_settings(signed.encode(), signed.replace("| one", "| engine").encode()) == ()
    foreign = signed.replace("| one", "| one\n              |   engine       x")
    assert changed_settings(signed.encode(), foreign.encode()) == ()
    assert changed_settings(signed.encode(), signed.encode()) == ()
    assert changed_settings(signed.encode(), b"") == ("approval.quorum", "secrets")


def test_everything_that_is_signed_is_on_the_screen(bench: Bench) -> None:
    """Also where warnings of the text stand between those of this moment."""
    path = bench.draft(
        purpose="FOREIGN " * 40, risk="medium", code="x = 'é'\nprint(nowhere)", extra="approved_by: mallory\n"
    )
    context = bench.context
    with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
        sections = review_sections(reviewed, context.policy.settings, operator="alice")
    screen = render_sections(sections, width=1 << 30, full=True)
    text = signed_text(view(bench, path)).decode().splitlines()
    at = 0
    for line in text:
        assert line in screen[at:], line
        at += screen[at:].index(line)
    assert any("FOREIGN" in line for line in text) and len(screen) > len(text)
    warned = [line for line in screen if "characters outside ASCII" in line or "TG145 line" in line]
    assert len(warned) == 2 and warned[0] in text and warned[1] not in text


@pytest.mark.parametrize(
    "change",
    [
        lambda view: replace(view, operator="bob"),
        lambda view: replace(view, requester="somebody"),
        lambda view: replace(view, named_by_text=not view.named_by_text),
        lambda view: replace(view, signatures=2),
        lambda view: replace(view, request=replace(view.request, purpose="another")),
        lambda view: replace(view, job=replace(view.job, action=view.job.action.changed(code="print(2)\n"))),
        lambda view: replace(view, job=replace(view.job, inputs=(replace(view.job.inputs[0], sha256="0" * 64),))),
        lambda view: replace(view, job=replace(view.job, limits=replace(view.job.limits, out_files=7))),
        lambda view: replace(view, job=replace(view.job, environment={"A": "b"})),
    ],
)  # fmt: skip
def test_what_changes_the_meaning_changes_the_text(bench: Bench, change: Any) -> None:
    before = view(bench, bench.draft())
    assert shown_sha256(change(before)) != shown_sha256(before)


def test_the_text_is_the_same_however_often_and_whenever_it_is_made(bench: Bench) -> None:
    path = bench.draft()
    first = signed_text(view(bench, path))
    assert first == signed_text(view(bench, path)) and b"yes, the gates" not in first


def test_the_text_is_kept_and_printed_byte_for_byte(bench: Bench, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = bench.draft()
    text = signed_text(view(bench, path))
    bench.approve(path)
    event = approved_event(bench)
    assert event.shown_sha256 == hashlib.sha256(text).hexdigest() and event.asked is False
    capfdbinary.readouterr()
    assert run(["--workspace", str(bench.workspace.root), "show", "--as-approved", "req-1"]) == 0
    assert capfdbinary.readouterr().out == text
    assert verify_workspace(bench.workspace).ok


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"another\n"), Path.unlink])
def test_a_kept_text_that_was_changed_or_removed_is_found(bench: Bench, damage: Any, capsys: Any) -> None:
    bench.approve(bench.draft())
    kept = bench.workspace.inputs / str(approved_event(bench).shown_sha256)
    kept.chmod(0o600)
    damage(kept)
    assert not verify_workspace(bench.workspace).ok
    assert run(["--workspace", str(bench.workspace.root), "show", "--as-approved", "req-1"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_request_without_an_approval_has_no_text(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    path = bench.draft()
    assert run(["--workspace", str(bench.workspace.root), "show", "--as-approved", str(path)]) == 2
    assert "no approval that records what was shown" in capsys.readouterr().err


def test_a_launch_makes_it_again_and_refuses_another(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the screens of another version of ThreeGate said something else of the same request."""
    done = bench.approve(bench.draft())
    runner = CountingRunner()
    [context] = daemons(bench, runner, 1)
    approved = read_approved(context, done.path)
    assert isinstance(approved, Approved)
    monkeypatch.setattr(request_sections, "size_text", lambda size: "little")
    failed = [check for check in verify_approval(context, done.path) if check.ok is False]
    assert [check.code for check in failed] == ["shown_changed"]
    ended = launched(context, approved)
    assert isinstance(ended, Ended) and ended.code == "shown_changed" and not runner.runs


def test_the_trail_says_when_nobody_was_asked(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    key = str(bench.keys["alice"])
    path = bench.draft()
    assert run(["--workspace", str(bench.workspace.root), "approve", str(path), "--key", key, "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    event = approved_event(bench)
    assert told["shown_sha256"] == event.shown_sha256 and event.asked is False
    assert "alice, who was not asked (--yes)" in event.sentence()
    assert event.read_seconds is None and event.read_whole is None
    assert "not asked" not in replace(event, asked=True).sentence()


def test_a_line_is_cut_for_a_narrow_terminal_behind_its_gutter() -> None:
    assert fitted("  purpose     | " + "a" * 60, width=40) == [
        "  purpose     | " + "a" * 24,
        "              | " + "a" * 24,
        "              | " + "a" * 12,
    ]
    assert fitted("  risk         low, as declared", width=24) == ["  risk         low, as", "  declared"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (4, "4 bytes"), (20480, "20.0 KiB (20480 bytes)"), (1 << 20, "1 MiB"), (1572865, ("1.5 MiB (1572865 "  # noqa: E501
        "bytes)"))],
)  # fmt: skip
def test_sizes_are_read_at_a_glance(size: int, text: str) -> None:
    assert size_text(size) == text


class Told(Script):
    """An action that runs no code and is laid out in another way."""

    runs_code = False

    def texts(self) -> tuple[ActionText, ...]:
        return ActionText("call", "notes.add"), ActionText("arguments", "{}", "the arguments:", listing=False)


def lines_of(view: ShownRequest) -> str:
    return signed_text(view).decode()


def test_the_card_says_what_is_unusual(bench: Bench) -> None:
    whole = view(bench, bench.draft())
    request, job = whole.request, whole.job
    assert "opacity      transparent (the code is in the request)" in lines_of(whole)

    code = replace(whole, job=replace(job, action=Command(("awk", "{print}")), effective_risk="high"))
    told = lines_of(replace(code, request=replace(request, unusual_program=True)))
    assert "opaque: code may run that is not on the screen" in told and "nobody here vouches for the program" in told
    assert "the program is not among request.programs" in told

    read = replace(request, inputs=(InputFile("a.py", "0" * 64),), deliver="branch")
    script = replace(job, action=Command(("python3", "a.py")))
    told = lines_of(replace(whole, request=read, job=script))
    assert "transparent, once you have read whole:" in told and "/in/a.py" in told
    assert "one commit on a new branch (deliver: branch)" in told

    told = lines_of(replace(whole, operator=whole.requester, signatures=2))
    assert "you asked for this yourself" in told and "2 signatures are needed" in told


def test_the_request_says_everything_about_itself(bench: Bench) -> None:
    whole = view(bench, bench.draft())
    said = replace(
        whole.request,
        network_rationale="to ask",
        constraints=("only once",),
        outputs=(OutputFile("/out/a.csv", "the table"), OutputFile("/out/b.csv")),
        evidence=({"source_id": "s-1"},),
        risk_domain="finance",
    )
    told = lines_of(replace(whole, request=said))
    for line in (
        "network why | to ask",
        "constraint  | only once",
        "output      | /out/a.csv: the table",
        "evidence 1  | {'source_id': 's-1'}",
        "risk domain | finance",
    ):
        assert f"  {line}\n" in told


def test_what_runs_no_code_has_one_limit_and_no_walls_around_it(bench: Bench) -> None:
    whole = view(bench, bench.draft())
    action = Told("print(1)\n")
    told = lines_of(
        replace(whole, request=replace(whole.request, action=action), job=replace(whole.job, action=action))
    )
    assert f"limits       {whole.job.limits.time_sec} s\n" in told and "processes" not in told
    assert "notes.add" not in told and "the arguments:" in told


def test_what_is_reached_is_named() -> None:
    def said(exposure: Exposure) -> str:
        return " ".join(" ".join(render_sections([Section("CARD", tuple(exposure_items(exposure)))])).split())

    assert "reach nothing" in said(Exposure())
    assert "host example.com" in said(Exposure(reach=("host example.com",)))
