"""Makes the workspace that tests/upgrade keeps of a released version: run it once, with that version, and commit the
file.

Usage: python scripts/make_upgrade_fixture.py; writes tests/data/upgrade/<version>.tar.gz (refuses to replace one). In
it: the workspace, the state that is kept outside of it, and the operator's key, which was made for this and signs
nothing else.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import Place, make_place, monty_draft  # noqa: E402
from threegate import __version__  # noqa: E402

HOME = Path("/var/tmp/threegate-upgrade")
"""The kept head names the workspace's path: who wants to go on in place unpacks it there."""
DRAFTS = {
    "TR-20261122-100000Z-succeeds": (
        "import json\nnumbers = json.loads(open('/in/numbers.json').read())\nprint(len(numbers))\nsum(numbers)"
    ),
    "TR-20261122-100001Z-fails": "1 / 0",
    "TR-20261122-100002Z-rejected": "2",
    "TR-20261122-100003Z-cancelled": "3",
    "TR-20261122-100004Z-approved": "40 + 2",
    "TR-20261122-100005Z-waits": "6 * 9",
}


def main() -> int:
    """Make it and say how large it is."""
    target = ROOT / "tests" / "data" / "upgrade" / f"{__version__}.tar.gz"
    if target.exists():
        print(f"{target}: is there already; a released version's workspace is never made again", file=sys.stderr)
        return 2
    HOME.mkdir(mode=0o700)
    try:
        os.environ["XDG_STATE_HOME"] = str(HOME / "state")
        play(make_place(HOME, settings={"approval.ttl": 30 * 86400, "audit.checkpoint_every": 10}))
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target, "w:gz") as archive:
            for name in ("ws", "state", "operator_key", "operator_key.pub"):
                archive.add(HOME / name, name, filter=_nobody)
    finally:
        shutil.rmtree(HOME)
    print(f"{target}: {target.stat().st_size} bytes")
    return 0


def play(place: Place) -> None:
    """One request for each way that a request can go, a checkpoint, and a second file of the trail."""
    digest = place.input("numbers.json", b"[3, 1, 4, 1, 5]")
    drafts = {
        name: place.drop(monty_draft(name, code, inputs={"numbers.json": digest} if "open" in code else None))
        for name, code in DRAFTS.items()
    }
    place.drop("---\nrequest_type: tool_request\n---\n", "TR-20261122-100006Z-broken.md")
    place.once()
    succeeds, fails, rejected, cancelled, approved, _ = drafts.values()
    place.approve(succeeds)
    place.approve(fails)
    place.run("reject", str(rejected), "--reason", "not today", expect=0)
    place.approve(cancelled)
    place.run("cancel", cancelled.stem, expect=0)
    place.once()
    place.run("audit", "checkpoint", expect=0)
    place.run("audit", "rotate", expect=0)
    place.approve(approved)
    place.run("audit", "verify", expect=0)


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    sys.exit(main())
