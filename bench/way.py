"""What a reader must follow from an approved request to its result: how much of the package one `run --once` enters.

    python -m bench.way [--files]

A workspace with one approved Monty request is made first. Then the daemon's pass runs in this process, and every call
of a function of the package is counted: functions are different code objects (a comprehension counts as its function),
files and rooms those that have them, moves the calls from a function in one file to one in another. What runs while
modules are imported is left out, bodies of classes too.

Aim: at most 500 functions, 90 files, 12 rooms, 900 moves. With --files, the functions and moves of each file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import threegate
from tests.support import make_place, monty_draft
from threegate.core.workspace import Workspace
from threegate.daemon import run_daemon
from threegate.daemon.log import Log

AIM: Final = {"functions": 500, "files": 90, "rooms": 12, "moves": 900}
PACKAGE: Final = str(Path(threegate.__file__).parent) + "/"
_INNER: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"})


class Way:
    """The functions that were entered, and the moves between them."""

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.moves: Counter[tuple[CodeType, CodeType]] = Counter()

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        """For `sys.setprofile`."""
        code = frame.f_code
        if event != "call" or not _ours(code) or code.co_name in _INNER or _is_imported(frame):
            return
        self.functions.add(code)
        caller = frame.f_back
        while caller is not None and (not _ours(caller.f_code) or caller.f_code.co_name in _INNER):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            self.moves[caller.f_code, code] += 1


def _ours(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


def _is_imported(frame: FrameType | None) -> bool:
    """Whether a module is being imported around this call."""
    while frame is not None:
        if not frame.f_code.co_flags & CO_OPTIMIZED and _ours(frame.f_code):  # a module's or a class's body
            return True
        frame = frame.f_back
    return False


def _name(code: CodeType) -> str:
    return code.co_filename.removeprefix(PACKAGE)


def main() -> None:
    """Print the four figures beside their aims."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", action="store_true")
    wanted = parser.parse_args()
    way = Way()
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as folder:
        place = make_place(Path(folder))
        place.approve(place.drop(monty_draft("TR-way-1", "1 + 1")))
        threading.setprofile(way.watch)
        sys.setprofile(way.watch)
        code = run_daemon(Workspace(place.root), once=True, log=Log.of("none", {}))
        sys.setprofile(None)
        threading.setprofile(None)
        if code != 0 or "finished" not in {event["type"] for event in place.events()}:
            sys.exit("bench: the request did not run")
    files = {_name(function) for function in way.functions}
    found = {
        "functions": len(way.functions),
        "files": len(files),
        "rooms": len({name.partition("/")[0] for name in files if "/" in name}),
        "moves": way.moves.total(),
    }
    for name, aim in AIM.items():
        print(f"{name:<10} {found[name]:>6}   aim {aim}")
    if wanted.files:
        entered = Counter(map(_name, way.functions))
        from_others: Counter[str] = Counter()
        for (_, called), times in way.moves.items():
            from_others[_name(called)] += times
        for name, count in entered.most_common():
            print(f"{count:>5} functions {from_others[name]:>5} moves into  {name}")


if __name__ == "__main__":
    main()
