"""What an image says that it has: asked once, believed for exactly this image, and nothing is refused without it."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.engine_fixtures import ENGINE, IMAGE, era_job, era_runner, run_job, with_inputs
from tests.runners.test_other_engines import DOCKER, answering
from tests.support import era_draft, make_place
from threegate.core.errors import Refused, Unavailable
from threegate.core.settings import EraSettings
from threegate.request.sandbox_contents import NOTHING_KNOWN
from threegate.review.reviewed_draft import ReviewedDraft, open_reviewed_draft, read_draft
from threegate.review.screen import render_reviewed_draft
from threegate.runners.era import container_engine
from threegate.runners.era import contents as era_contents
from threegate.runners.era.contents import contents
from threegate.runners.era.root_identity import Root

__all__ = ["era_runner"]


def image() -> str:
    """A digest that nobody asked for before."""
    return "sha256:" + uuid.uuid4().hex * 2


def test_a_program_of_the_list_is_there_and_every_other_one_is_not() -> None:
    name = image()
    with answering(DOCKER, image=name, labels={"threegate.programs": "curl python python3 ["}) as url:
        settings = EraSettings(runtime="engine", engine=url, image=name)
        assert contents(settings).has_program("python") and contents(settings).has_program("/usr/bin/python3")
        assert contents(settings).has_program("[") and contents(settings).has_program("/in/tool") is True
        assert contents(settings).has_program("jq") is contents(settings).has_program("/usr/bin/jq") is False
        assert contents(settings).has_program("/opt/tool/bin/x") is None
    # The engine is gone, and the answer about this image stays.
    assert contents(settings).has_program("jq") is False


@pytest.mark.parametrize("labels", [None, {}, {"threegate.programs": " "}, {"other": "jq"}])
def test_an_image_without_a_list_is_not_known(labels: dict[str, str] | None) -> None:
    name = image()
    with answering(DOCKER, image=name, labels=labels) as url:
        assert contents(EraSettings(runtime="engine", engine=url, image=name)).has_program("jq") is None


def test_no_engine_and_no_image_are_not_known_and_asked_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contents(EraSettings(runtime="engine", engine=f"unix://{tmp_path}/none", image="")).has_program("jq") is None
    settings = EraSettings(runtime="engine", engine=f"unix://{tmp_path}/none", image=image())
    assert contents(settings).has_program("jq") is None
    monkeypatch.setattr(container_engine, "client", lambda url: pytest.fail("asked again"))
    assert contents(settings).has_program("jq") is None


def test_labels_that_somebody_else_wrote_are_names_or_nothing() -> None:
    name = image()
    labels = {
        "threegate.programs": "sort \x1b[31m ../../bin/sh $(id) " + "x" * 5000,
        "threegate.modules": "os a.b é __import__('x')",
        "threegate.python": "3.11\nLABEL x=y",
    }
    with answering(DOCKER, image=name, labels=labels) as url:
        found = contents(EraSettings(runtime="engine", engine=url, image=name))
    assert (found.programs, found.modules, found.python) == ({"sort"}, {"os"}, "")


def test_a_root_without_an_engine_is_known_by_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = EraSettings(runtime="bubblewrap")
    root = Root(Path("/srv/root/tree"), "root:sha256:" + "1" * 64, frozenset({"sort"}), frozenset({"os"}), "3.11.2")
    monkeypatch.setattr(era_contents, "identify", lambda settings: root)
    found = contents(settings)
    assert (found.programs, found.modules, found.minor) == ({"sort"}, {"os"}, 11)
    assert found.where == "the unpacked root /srv/root"
    monkeypatch.setattr(era_contents, "identify", lambda settings: replace(root, path=None))
    assert contents(settings).where == "this machine's /usr"

    def unknown(settings: EraSettings) -> Root:
        raise Unavailable("no packages")

    monkeypatch.setattr(era_contents, "identify", unknown)
    assert contents(settings) == NOTHING_KNOWN


def bench_with(folder: Path, url: str, name: str) -> Bench:
    bench = make_bench(folder)
    bench.settings(
        runners__era__runtime="engine",
        runners__era__engine=url,
        runners__era__image=name,
        request__programs=["jq", "sort"],
    )
    return bench


def screen(reviewed: ReviewedDraft, bench: Bench) -> list[str]:
    return list(render_reviewed_draft(reviewed, bench.context.policy.settings, operator="alice", width=200))


def draft(bench: Bench, command: str) -> Path:
    request_id = f"TR-20260102-030405Z-{uuid.uuid4().hex[:8]}"
    path = bench.workspace.inbox / f"{request_id}.md"
    path.write_text(era_draft(request_id, command))
    return path


def test_a_program_that_the_image_lacks_is_refused_before_anybody_signs(tmp_path: Path) -> None:
    name = image()
    with answering(DOCKER, image=name, labels={"threegate.programs": "sort"}) as url:
        bench = bench_with(tmp_path, url, name)
        path = draft(bench, "jq .")
        with open_reviewed_draft(bench.context, read_draft(bench.workspace, path)) as reviewed:
            shown = "\n".join(screen(reviewed, bench))
        assert "IT COULD ONLY FAIL, TG904" in shown and "the sandbox image has no program 'jq'" in shown
        with pytest.raises(Refused) as refused:
            bench.approve(path)
        assert refused.value.code == "program_missing" and path.exists()
        bench.approve(draft(bench, "sort --version"))


def test_a_program_of_an_unknown_image_is_a_note_and_no_refusal(tmp_path: Path) -> None:
    name = image()
    with answering(DOCKER, image=name) as url:
        bench = bench_with(tmp_path, url, name)
        path = draft(bench, "jq .")
        with open_reviewed_draft(bench.context, read_draft(bench.workspace, path)) as reviewed:
            shown = "\n".join(screen(reviewed, bench))
        assert "is not known" in shown and "has no program" not in shown and "COULD ONLY FAIL" not in shown
        bench.approve(path)


def test_the_agent_reads_the_missing_program_in_the_verdict(tmp_path: Path) -> None:
    name = image()
    with answering(DOCKER, image=name, labels={"threegate.programs": "sort"}) as url:
        place = make_place(
            tmp_path,
            settings={
                "runners.era.runtime": "engine",
                "runners.era.engine": url,
                "runners.era.image": name,
                "request.programs": ["jq", "sort"],
            },
        )
        place.drop(era_draft("TR-20260102-030405Z-lacks", "jq ."))
        place.drop(era_draft("TR-20260102-030405Z-has", "sort --version"))
        place.once()
        lacks = place.verdict("TR-20260102-030405Z-lacks.md")
        assert (lacks["state"], lacks["reason"]) == ("invalid", "TG904")
        assert place.verdict("TR-20260102-030405Z-has.md")["valid"]


@pytest.mark.engine
@pytest.mark.root
def test_the_command_of_the_request_format_runs_in_our_image(era_runner, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """`python -u script.py --in /in/input.csv --out /out/output.json`, word for word."""
    script = b"import sys; open(sys.argv[4], 'w').write(open(sys.argv[2]).read())"
    job = era_job("python", "-u", "script.py", "--in", "/in/input.csv", "--out", "/out/output.json")
    job = with_inputs(job, tmp_path, {"script.py": script, "input.csv": b"1"})
    outcome = run_job(era_runner, job, tmp_path)
    assert (outcome.status, outcome.exit_code) == ("succeeded", 0), outcome
    assert (tmp_path / "run" / "out" / "output.json").read_bytes() == b"1"


@pytest.mark.engine
@pytest.mark.root
def test_our_image_lists_its_programs() -> None:
    settings = EraSettings(runtime="engine", engine=ENGINE, image=IMAGE)
    found = contents(settings)
    assert found.minor is not None and found.modules is not None
    assert found.modules >= {"os", "sys", "csv", "json", "sqlite3", "zipfile"} and "numpy" not in found.modules
    for program in ("python", "python3", "git", "curl", "sort", "/bin/sort", "["):
        assert contents(settings).has_program(program) is True, program
    assert contents(settings).has_program("ruby") is False
