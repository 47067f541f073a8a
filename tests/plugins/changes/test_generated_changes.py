"""Generated change sets: applied they are the work copy, undone they are the project again, byte for byte."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from _pytest.pathlib import rm_rf

from tests.plugins.changes.applying import Change, own, picture
from tests.plugins.changes.trees_on_disk import build, made
from threegate.plugins.changes.apply.apply_journal import STAGE

NAMES = [
    "a",
    "b",
    "README",
    "x.py",
    "ünïcode",
    "日本",
    "with blank",
    "s p",
    "deep",
    "n" * 100,
    "-dash",
    "#hash",
    "q'uote",
    '"',
    "%41",
    "é",
]


def tree(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """A random tree as `build` takes it."""
    spec: dict[str, Any] = {}
    for name in chance.sample(NAMES, chance.randint(0, 6 if depth else 9)):
        kind = chance.random()
        if kind < 0.3 and depth < 5:
            inner = tree(chance, depth + 1)
            spec[name] = None
            spec.update({f"{name}/{path}": what for path, what in inner.items()})
        elif kind < 0.38:
            spec[name] = ("link", chance.choice([*NAMES, "missing", "./a"]))
        elif kind < 0.5:
            spec[name] = ("x", chance.randbytes(chance.choice((0, 1, 700))))
        else:
            spec[name] = chance.choice((b"", b"text\n", chance.randbytes(chance.choice((1, 512, 5000)))))
    return spec


def changed(chance: random.Random, spec: dict[str, Any]) -> dict[str, Any]:
    """Another tree with much of the first one: removed, renamed, rewritten, other modes, other kinds."""
    new = dict(spec)
    for path in list(spec):
        if path not in new:
            continue
        draw = chance.random()
        below = [item for item in new if item.startswith(f"{path}/")]
        if draw < 0.15:
            for item in (path, *below):
                del new[item]
        elif draw < 0.3 and not below and isinstance(new[path], bytes):
            new[path] = chance.choice((new[path] + b"more", ("x", new[path]), ("link", "a"), None))
        elif draw < 0.4:
            for item in (path, *below):
                new[f"moved-{path.replace('/', '-')}{item[len(path) :]}"] = new.pop(item)
    extra = {f"added-{name}": what for name, what in tree(chance).items()}
    return {**new, **extra}


def no_link_over_a_link(spec: dict[str, Any]) -> dict[str, Any]:
    """What a change set cannot carry is not what is tested here."""
    links = {path for path, what in spec.items() if isinstance(what, tuple) and what[0] == "link"}
    kept = {}
    for path, what in spec.items():
        if path in links:
            above = path.rpartition("/")[0]
            target = str(what[1]).removeprefix("./")
            if (f"{above}/{target}" if above else target) in links:
                continue
        kept[path] = what
    return kept


def run(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    before = no_link_over_a_link(tree(chance))
    after = no_link_over_a_link(changed(chance, before))
    folder = tmp_path / str(seed)
    project, work = own(build(folder / "project", before)), build(folder / "work", after)
    found = made(project, work)
    assert not found.left_out, (seed, found.left_out)
    if not found.rows:
        return
    change = Change(project, found.data, folder)
    start = picture(project)
    done = change.apply()
    assert done.status == "succeeded", (seed, done)
    change.forget()
    assert not made(project, work).rows, seed
    done = change.undo()
    assert done.status == "succeeded", (seed, done)
    change.forget()
    assert picture(project) == start, seed
    assert not (project / STAGE).exists()
    rm_rf(folder)


@pytest.mark.slow
def test_generated_change_sets(tmp_path: Path) -> None:
    for seed in range(60):
        run(tmp_path, seed)


@pytest.mark.soak
def test_a_thousand_generated_change_sets(tmp_path: Path) -> None:
    for seed in range(1_000):
        run(tmp_path, 1_000_000 + seed)


def many(tmp_path: Path, count: int) -> None:
    before = {f"d{number % 50}/s{number % 7}/f{number}": f"{number}" for number in range(count // 2)}
    after = {
        **{path: f"{text} new" for path, text in before.items()},
        **{f"n/{number}": "" for number in range(count // 2)},
    }
    change = Change.of(tmp_path, before, after)
    start = picture(change.project)
    assert change.apply().status == "succeeded"
    change.forget()
    assert change.undo().status == "succeeded"
    change.forget()
    assert picture(change.project) == start


def test_a_thousand_files(tmp_path: Path) -> None:
    many(tmp_path, 1_000)


@pytest.mark.soak
def test_ten_thousand_files(tmp_path: Path) -> None:
    many(tmp_path, 10_000)
