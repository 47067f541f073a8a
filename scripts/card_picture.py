"""Writes docs/review-card.svg: what `threegate review` shows of the draft in docs/first-request.md.

The picture is Textual's own export of the screen, without its web fonts. It is written only when the text on the screen
has changed; tests/whole/docs/test_card_picture.py compares the two.

Usage: python scripts/card_picture.py [--check]; needs the extra `tui`; exit 1 with --check when the picture is not
current.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from html import unescape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.type_tour import ROOT, tour

PICTURE = ROOT / "docs" / "review-card.svg"
SIZE = (80, 42)
"""Columns and rows of the terminal: the whole card fits."""
_SECONDS = 30.0
_DIFFERS = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}Z|\d{8}-\d{6}Z|\d{14}-[0-9a-f]{8}|(?<=   )[a-z]+: .*(?=   trail:)")


def screen() -> str:
    """The SVG of the card of a fresh draft, in a workspace that is gone afterwards."""
    from threegate.core.workspace import Workspace
    from threegate.plugins.tui.lines import Lines
    from threegate.plugins.tui.operator_app import OperatorApp

    async def card(app: OperatorApp) -> str:
        async with app.run_test(size=SIZE) as pilot:
            await pilot.press("enter")
            end = time.monotonic() + _SECONDS
            lines = app.screen.query_one(Lines)
            while not lines.lines or lines.unseen:
                if time.monotonic() > end:
                    raise RuntimeError("the card did not fit on the screen in time")
                await pilot.pause(0.05)
            await pilot.pause()
            return app.export_screenshot(title="threegate review")

    with tempfile.TemporaryDirectory(prefix="threegate-card-") as folder:
        home = Path(folder)
        key = home / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f", key], check=True)
        drafting = tour().partition("threegate validate")[0].replace("/tmp/", f"{home}/")
        drafting = drafting.replace("init ws", f"init ws --operator alice --key {key}.pub")
        environment = {
            **os.environ,
            "HOME": folder,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": f"{folder}/state",
        }
        subprocess.run(["bash", "-e", "-c", drafting], cwd=home, env=environment, check=True, capture_output=True)
        before = os.environ.copy()
        os.environ.update(HOME=folder, XDG_STATE_HOME=f"{folder}/state")
        try:
            app = OperatorApp(Workspace(home / "ws"), undecided=True, key=key)
            try:
                return asyncio.run(card(app))
            finally:
                app.held.close()
        finally:
            os.environ.clear()
            os.environ.update(before)


def offline(svg: str) -> str:
    """Without the fonts that the export would have a browser fetch."""
    svg = re.sub(r"@font-face \{.*?\}\n*", "", svg, flags=re.S)
    return re.sub(r"font-family: ?[^;]*;", "font-family: monospace;", svg)


def text_of(svg: str) -> list[str]:
    """The rows of the terminal in the picture. `~` is what differs at each run or machine: times, ids, what runs it."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for attributes, text in re.findall(r"<text ([^>]*)>([^<]*)</text>", svg.partition('-matrix">')[2]):
        x, y = (float(value) for value in re.findall(r'\b[xy]="([\d.]+)"', attributes))
        rows.setdefault(y, []).append((x, unescape(text).replace("\xa0", " ")))
    lines = ("".join(text for _, text in sorted(row)).rstrip() for _, row in sorted(rows.items()))
    return [_DIFFERS.sub("~", line) for line in lines]


def main() -> int:
    """Write the picture when its text is not what the program shows today."""
    made = offline(screen())
    if PICTURE.is_file() and text_of(PICTURE.read_text("utf-8")) == text_of(made):
        return 0
    print(f"{PICTURE.relative_to(ROOT)}: {'not current' if '--check' in sys.argv else 'written'}")
    if "--check" in sys.argv:
        return 1
    PICTURE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
