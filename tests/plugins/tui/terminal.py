"""The applications driven by Textual's pilot, and what is on their screens as text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot

from threegate.plugins.tui.lines import Lines
from threegate.plugins.tui.operator_app import OperatorApp

Script = Callable[[Pilot[None]], Awaitable[None]]
SCREENS = Path(__file__).parent / "screens"


def drive(app: OperatorApp, script: Script, size: tuple[int, int] = (80, 24)) -> None:
    """Run the application without a terminal and do what the script says."""

    async def go() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(pilot)

    asyncio.run(go())


def rows(app: OperatorApp) -> list[str]:
    """What stands on the screen, row by row."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


async def until(pilot: Pilot[None], condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "\n".join(rows(pilot.app))  # type: ignore[arg-type]
        await pilot.pause(0.02)


async def open_first(pilot: Pilot[None]) -> Lines:
    """Enter, and wait until the lines are there."""
    lines = pilot.app.screen.query_one(Lines)
    await pilot.press("enter")
    await until(pilot, lambda: bool(lines.lines))
    await pilot.pause()
    return lines


async def read_all(pilot: Pilot[None], lines: Lines) -> list[str]:
    """Page down to the end; every row that was shown in the lines' region on the way, in order. A line that was on the
    screen before is passed over.
    """
    shown: dict[int, str] = {}
    while True:
        top, height = lines.scroll_offset.y, lines.size.height
        region = lines.region
        page = [row[region.x : region.right] for row in rows(pilot.app)[region.y : region.y + height]]  # type: ignore[arg-type]
        shown.update(enumerate(page[: len(lines.lines) - top], top))
        if top + height >= len(lines.lines):
            return [shown[line] for line in sorted(shown)]
        await pilot.press("space")
        await pilot.pause()
