"""The report page: self-contained, escaped, and read by a real browser, light, dark and printed."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.conftest import soak
from tests.trail.populated import populate
from tests.trail.workspaces import make_workspace
from tests.whole.trail.everything import make_everything
from threegate.core import limits
from threegate.plugins.evidence.report_page import GROUPS, render_page, round_step
from threegate.plugins.evidence.trail_report import day_bars, write_report
from threegate.trail import moves
from threegate.trail.payloads import Pruned, Refused, Waiting

CHROMIUM = (
    "chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --window-size=1100,1000"
).split()


def browser(*arguments: str, profile: Path) -> bytes:
    done = subprocess.run(
        [*CHROMIUM, f"--user-data-dir={profile}", *arguments], capture_output=True, timeout=120, check=True
    )
    return done.stdout


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


class Loads(HTMLParser):
    """Collects whatever a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs) -> None:
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "data", "action")]
        if tag in ("link", "iframe", "img", "object", "embed"):
            self.found.append(tag)


@pytest.mark.parametrize("count", [0, 50])
def test_the_page_stands_alone(tmp_path: Path, count: int) -> None:
    workspace, _ = populate(tmp_path / "ws", count)
    out = tmp_path / "report.html"
    assert write_report(workspace, out) == count
    page = out.read_text()
    loads = Loads()
    loads.feed(page)
    assert loads.found == []
    assert "The trail verifies" in page and "url(" not in page and "@import" not in page
    assert page.count("<rect") == page.count('<rect class="')


def test_a_trail_that_does_not_verify_is_said_on_top(tmp_path: Path) -> None:
    workspace, _ = populate(tmp_path / "ws", 5)
    data = workspace.trail_file.read_bytes()
    workspace.trail_file.write_bytes(data.replace(b'"valid":true', b'"valid":null', 1))
    out = tmp_path / "report.html"
    write_report(workspace, out)
    page = out.read_text()
    assert "THE TRAIL DOES NOT VERIFY" in page and "trail.jsonl:2:" in page
    assert page.index("DOES NOT VERIFY") < page.index("<svg")


@pytest.mark.browser
@pytest.mark.slow
def test_a_browser_shows_it_and_its_search_finds(tmp_path: Path) -> None:
    """50 requests: the list is there, the search box narrows it, and hostile words stay words."""
    workspace, trail = populate(tmp_path / "ws", 50)
    with trail.locked() as held:
        moves.announce(
            held, Refused.from_data({"reason": "<b>bold</b> \u202e"}), request_id="TR-<img src=x onerror=alert(1)>", actor="</script><script>alert(2)</script>",  # noqa: E501
        )  # fmt: skip
    out = tmp_path / "report.html"
    assert write_report(workspace, out) == 51
    shown = browser("--dump-dom", f"file://{out}", profile=tmp_path / "p").decode()
    listed = shown[shown.index('id="list"') :]
    assert listed.count("<details") == 51 and "51 of 51 requests" in shown
    assert "<img" not in listed and "TR-&lt;img src=x onerror=alert(1)&gt;" in listed
    found = browser("--dump-dom", f"file://{out}#q=refused%20bold", profile=tmp_path / "p").decode()
    assert "1 of 51 requests" in found and found[found.index('id="list"') :].count("<details") == 1
    opened = browser("--dump-dom", f"file://{out}#open", profile=tmp_path / "p").decode()
    assert (
        "What happened" in opened
        and "<script>alert(2)" not in opened[opened.index('id="list"') :].partition("</div><button")[0]
    )


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("count", [50, soak(5000)])
def test_screenshots_light_and_dark_and_print(tmp_path: Path, count: int) -> None:
    workspace, _ = populate(tmp_path / "ws", count)
    out = tmp_path / "report.html"
    write_report(workspace, out)
    pictures = {}
    for name, scheme in (("light", 1), ("dark", 0)):
        picture = tmp_path / f"{name}.png"
        browser(
            f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}", f"file://{out}", profile=tmp_path / "p",  # noqa: E501
        )  # fmt: skip
        assert png_size(picture) == (1100, 1000)
        pictures[name] = picture.read_bytes()
    assert pictures["light"] != pictures["dark"]
    if count == 50:
        printed = tmp_path / "print.pdf"
        browser(f"--print-to-pdf={printed}", f"file://{out}", profile=tmp_path / "p")
        assert (
            printed.read_bytes().startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) > 3
        )


@pytest.mark.parametrize(
    ("highest", "step"), [(1, 1), (5, 1), (6, 2), (12, 5), (26, 10), (51, 20), (101, 50), (999, 200)]
)
def test_the_scale_has_round_numbers(highest: int, step: int) -> None:
    assert round_step(highest) == step


def test_days_have_no_gaps_and_many_days_become_weeks() -> None:
    assert day_bars({}) == []
    bars = day_bars({("2026-01-01", "open"): 1, ("2026-01-04", "open"): 1, ("2026-01-04", "refused"): 1})
    assert [label for label, _ in bars] == ["01-01", "01-02", "01-03", "01-04"]
    assert bars[3][1] == {"open": 1, "refused": 1} and bars[1][1] == {}
    long = day_bars({("2020-01-01", "open"): 1, ("2026-01-01", "open"): 1})
    assert len(long) <= 62 and sum(counts.get("open", 0) for _, counts in long) == 2


def test_old_requests_are_counted_and_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of memory: the newest are listed, every number is the same; late events begin no new request."""
    workspace, trail = populate(tmp_path / "ws", 60)
    first = next(event.request_id for event in trail.events() if event.type == "validated")
    with trail.locked() as held:
        held.append(Pruned.from_data({"what": "run", "removed": 1}), request_id=first, actor="x")
        held.append(Waiting(), request_id=first, actor="x")
    whole, short = tmp_path / "whole.html", tmp_path / "short.html"
    assert write_report(workspace, whole) == 60
    monkeypatch.setattr(limits, "REPORT_REQUESTS", 7)
    assert write_report(workspace, short) == 60

    def told(path: Path) -> tuple[str, str, list[str]]:
        page = path.read_text()
        data = json.loads(page.partition('type="application/json">')[2].partition("</script>")[0])
        tiles = page.partition('<div class="tiles">')[2].partition('<div class="tools">')[0]
        return page, tiles, [item["id"] for item in data]

    assert told(whole)[1] == told(short)[1], "tiles and chart"
    assert told(short)[2] == told(whole)[2][:7]
    assert "The newest 7 of 60 requests are listed" in told(short)[0]
    assert "are listed" not in told(whole)[0]


def test_the_page_needs_no_requests(tmp_path: Path) -> None:
    page = render_page(
        title="<t>", made="m", verdict="v", problems=["<p>"], tiles=[("a", "1")], days=[],
        practice=[("<l>", "<v>")], requests=[],
    )  # fmt: skip
    assert "&lt;t&gt;" in page and "&lt;p&gt;" in page and "&lt;v&gt;" in page and len(GROUPS) == 4
    workspace, _ = make_workspace(tmp_path / "ws")
    assert workspace.root.is_dir()


@pytest.mark.slow
def test_the_page_says_how_people_decided(tmp_path: Path) -> None:
    write_report(make_everything(tmp_path), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "How people decided" in page and "decisions of alice" in page
