"""Python as agents write it: what gate 1 accepts without a word gives Python's answer in the real Monty.

`tests/data/python_idioms.jsonl` is a copy of the project's conformance data (its source: 257 everyday idioms that were
collected for issue 41, of which these are given). `hurried_idioms.jsonl` was written here, in the manner of an agent in
a hurry. `cpython` is what Python 3.11 prints (3.12 where 3.11 cannot read it); null: it fails there too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pydantic_monty
import pytest

from threegate.request.code import check_code
from threegate.request.gate_rules import RULES
from threegate.request.problem import Problem
from threegate.runners.monty.guarded_parse import parse_problem
from threegate.runners.monty.program import worker_binary

DATA = Path(__file__).resolve().parents[1] / "data"
NOT_THIS_TIME = {
    "quick_048": "sys.exit() is in a branch that this input does not take",
    "odd_243": "a class has __len__, and this code never asks for it",
    "quick_162": "one file in /in has nothing to be put in order with",
    "odd_215": "the same",
    "odd_201": "a strptime that fails in Python, too",
}
"""Refused although this very run is right: what is refused would fail in another run."""
OTHER_ANSWER = {
    "odd_195": "the repr of KeyError(1) is that of a text",
    "odd_334": "of keys that are equal (1 and True) the last one stays, not the first",
}
"""Answers that differ and that no rule sees."""


class Answer(NamedTuple):
    """What a run in Monty gave."""

    printed: str
    failed: bool


@pytest.fixture(scope="module")
def pool() -> Iterator[pydantic_monty.Monty]:
    with pydantic_monty.Monty(
        binary_path=worker_binary(), min_processes=1, max_processes=1, request_timeout=30
    ) as opened:
        yield opened


def idioms(name: str) -> list[dict[str, str | None]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def run(pool: pydantic_monty.Monty, code: str, mounts: list[pydantic_monty.MountDir]) -> Answer:
    printed: list[str] = []

    def take(stream: str, text: str) -> None:
        if stream == "stdout":
            printed.append(text)

    bounds = {"max_feed_duration_secs": 4.0, "max_memory": 24 << 20}
    with pool.checkout(os_policy={"sleep": "zero"}, limits=bounds) as session:
        try:
            session.feed_run(code, print_callback=take, mount=mounts)
        except pydantic_monty.MontyError:
            return Answer("".join(printed), True)
    return Answer("".join(printed), False)


def errors(found: tuple[Problem, ...]) -> list[Problem]:
    return [problem for problem in found if RULES[problem.rule].severity == "error"]


GIVEN = "python_idioms.jsonl"
OWN = "hurried_idioms.jsonl"
PARTS = [(GIVEN, 0, 90), (GIVEN, 90, 170), *((OWN, start, start + 80) for start in range(0, 400, 80))]


@pytest.mark.parametrize(("name", "first", "last"), PARTS)
def test_what_is_accepted_without_a_word_answers_as_python_does(
    name: str, first: int, last: int, pool: pydantic_monty.Monty, tmp_path: Path
) -> None:
    """In both directions: nothing that fails is accepted, and nothing that is right is refused."""
    given = idioms(name)[first:last]
    names = {str(idiom["name"]) for idiom in given}
    silent: dict[str, str] = {}
    false: dict[str, list[Problem]] = {}
    for number, idiom in enumerate(given):
        code, expected = str(idiom["code"]), idiom["cpython"]
        mounts = []
        if name == OWN:  # the others were asked where there is no /in
            inputs, out = tmp_path / f"{number}-in", tmp_path / f"{number}-out"
            inputs.mkdir()
            out.mkdir()
            (inputs / "a.csv").write_text("a,b\n1,2\n")
            mounts = [
                pydantic_monty.MountDir(host_path=inputs, virtual_path="/in", mode="read-only"),
                pydantic_monty.MountDir(host_path=out, virtual_path="/out", mode="read-write"),
            ]
        found = check_code(code, None, parse_problem)
        assert all(1 <= problem.line <= code.count("\n") + 1 for problem in found), idiom
        answer = run(pool, code, mounts)
        right = not answer.failed and answer.printed == expected
        if right and errors(found):
            false[str(idiom["name"])] = errors(found)
        if not right and expected is not None and not found:
            silent[str(idiom["name"])] = answer.printed
        if answer.failed and expected is not None:
            assert errors(found), (idiom, found)
    assert false.keys() == NOT_THIS_TIME.keys() & names, false
    assert silent.keys() == OTHER_ANSWER.keys() & names, silent


def test_the_parts_are_all_of_them() -> None:
    assert [len(idioms(GIVEN)), len(idioms(OWN))] == [170, 381]


def test_monty_reads_what_the_guarded_parse_says_it_reads(pool: pydantic_monty.Monty) -> None:
    """The program that is asked before and the worker that runs are one: neither refuses what the other reads."""
    refusals = ("SyntaxError", "NotImplementedError")
    for idiom in idioms("python_idioms.jsonl"):
        code = str(idiom["code"])
        with pool.checkout() as session, pytest.raises(pydantic_monty.MontyError) as caught:
            session.feed_run("1/0\n" + code)
        refused = type(caught.value.exception()).__name__ in refusals
        assert refused == (parse_problem(code) is not None), code
