"""Near misses: drafts that differ in one letter of what may never differ are of no group, and what may differ is
shown whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.support import era_draft, monty_draft
from threegate.core.settings import RequestSettings
from threegate.request.model import Request
from threegate.request.reader import read_request
from threegate.review.group_shape import VaryingValue, differing, outliers_first, shape_of, values_of

A, B = (hashlib.sha256(data).hexdigest() for data in (b"a", b"b"))
NETWORK = "network_allowlist:\n  - api.example.org:443\n"
Change = Callable[[str], str]


def read(text: str) -> Request:
    report = read_request(
        text.encode(),
        path="TR-20261123-000000Z-x.md",
        settings=RequestSettings(),
        now=datetime.now(UTC),
        stage="draft",
    )
    assert report.request is not None, [(item.rule, item.line, item.message) for item in report.findings]
    return report.request


def shape(text: str, owner: int | str = 1000) -> str | None:
    return shape_of(read(text), owner)


def swap(old: str, new: str) -> Change:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


def monty(variables: str = '{"n": 1, "who": "anna"}', extra: str = "", **more: object) -> str:
    values: dict[str, object] = {"inputs": {"data.csv": A}, "outputs": ["/out/a.json"], **more}
    return monty_draft("req-1", "print(n, who)", variables=variables, extra=extra, **values)  # type: ignore[arg-type]


def era(command: str = "sort -n /in/data.csv", **more: object) -> str:
    values: dict[str, object] = {"inputs": {"data.csv": A}, **more}
    return era_draft("req-1", command, **values)  # type: ignore[arg-type]


def online(command: str = "curl -s https://api.example.org/a") -> str:
    text = era_draft("req-1", command).replace("network: none\n", f"network: allowlist\n{NETWORK}")
    return text.replace("- Data sens", "- Network rationale: it is fetched there\n- Data sens")


def numbered(command: str) -> str:
    """Inputs with the names 1 and 2."""
    text = era(command, inputs={"q1": A, "q2": B})
    for number in "12":
        text = text.replace(f"name: q{number}", f'name: "{number}"').replace(f"/in/q{number}", f"/in/{number}")
    return text


SAME_SHAPE: list[tuple[str, str, str]] = [
    ("a purpose", monty(), swap("A test of", "Another test of")(monty())),
    ("an id", monty(), swap("req-1", "req-2")(monty())),
    ("a number", monty(), monty('{"n": 22.5, "who": "anna"}')),
    ("a text", monty(), monty('{"n": 1, "who": "Bert B., 3.5 %"}')),
    ("a truth", monty('{"n": true, "who": "a"}'), monty('{"n": false, "who": "a"}')),
    ("an output", monty(), monty(outputs=["/out/b.json"])),
    ("an output that is named", monty('{"n": 1, "who": "/out/a.json"}'),
     monty('{"n": 1, "who": "/out/b.json"}', outputs=["/out/b.json"])),
    ("bytes of Monty's inputs", monty(), monty(inputs={"data.csv": B})),
    ("a count", era("seq 1 5", inputs=None), era("seq 1 7", inputs=None)),
    ("a day", era("printf %s 2026-01-01", inputs=None), era("printf %s 2026-01-02", inputs=None)),
    ("an output of a command", era("sort -o /out/a.csv /in/data.csv", outputs=["/out/a.csv"]),
     era("sort -o /out/b.csv /in/data.csv", outputs=["/out/b.csv"])),
    ("a word for a script", era("python3 /in/s.py north", inputs={"s.py": A}), era("python3 /in/s.py south", inputs={"s.py": A})),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("what", "one", "other"), SAME_SHAPE, ids=[item[0] for item in SAME_SHAPE])
def test_what_may_differ_is_in_the_table(what: str, one: str, other: str) -> None:
    assert shape(one) == shape(other) is not None
    rows = [values_of(read(text)) for text in (one, other)]
    assert len(rows[0]) == len(rows[1])
    if what not in ("an id", "bytes of Monty's inputs"):
        assert differing(rows)


NEAR_MISSES: list[tuple[str, str, str]] = [
    ("one letter of a host", online(), swap("api.example.org:443", "apj.example.org:443")(online())),
    ("one letter of a host in a command", online(), online("curl -s https://apj.example.org/a")),
    ("a port", online(), swap("org:443", "org:8443")(online())),
    ("a number where there is a network", online("curl -s https://api.example.org/a 1"), online("curl -s https://api.example.org/a "  # noqa: E501
        "2")),
    ("one path", era(), era("sort -n /in/data2.csv", inputs={"data.csv": A, "data2.csv": B})),
    ("one path of two", era("sort -n /in/a.csv", inputs={"a.csv": A, "b.csv": B}),
     era("sort -n /in/b.csv", inputs={"a.csv": A, "b.csv": B})),
    ("an input named by a number", numbered("cat 1"), numbered("cat 2")),
    ("a path that is no declared output", era("sort -o /out/x /in/data.csv"), era("sort -o /out/y /in/data.csv")),
    ("a starting folder", era(), swap("network: none", "workdir: /out\nnetwork: none")(era())),
    ("one limit", era(), era(time_sec=21)),
    ("memory", monty(), monty(memory_mb=129)),
    ("cores", monty(), monty(cpu="2")),
    ("one letter of the code", monty(), swap("print(n, who)", "print(n, n)")(monty())),
    ("an option", era("sort -n /in/data.csv"), era("sort -r /in/data.csv")),
    ("the value of an option", era("head -n 5 /in/data.csv"), era("head -n 6 /in/data.csv")),
    ("an option with its value", era("head --lines=5 /in/data.csv"), era("head --lines=6 /in/data.csv")),
    ("the program", era("cat /in/data.csv"), era("tac /in/data.csv")),
    ("an argument of an opaque program", era("ffmpeg 1", inputs=None), era("ffmpeg 2", inputs=None)),
    ("an output of an opaque program", era("ffmpeg /out/a.bin", outputs=["/out/a.bin"]),
     era("ffmpeg /out/b.bin", outputs=["/out/b.bin"])),
    ("the letters of tar", era("tar xf /in/data.csv"), era("tar tf /in/data.csv")),
    ("a filter of jq", era("jq length /in/data.csv"), era("jq keys /in/data.csv")),
    ("what grep looks for", era("grep error /in/data.csv"), era("grep secret /in/data.csv")),
    ("bytes of ERA's inputs", era(), era(inputs={"data.csv": B})),
    ("bytes of a script", era("python3 /in/s.py 1", inputs={"s.py": A}), era("python3 /in/s.py 1", inputs={"s.py": B})),
    ("a path for a script", era("python3 /in/s.py /in/d.csv", inputs={"s.py": A, "d.csv": B, "e.csv": B}),
     era("python3 /in/s.py /in/e.csv", inputs={"s.py": A, "d.csv": B, "e.csv": B})),
    ("a host for a script", era("python3 /in/s.py a.example", inputs={"s.py": A}), era("python3 /in/s.py b.example", inputs={"s.py": A})),  # noqa: E501
    ("a number beside an archive", era("wc 1", inputs=None, extra=(f"inputs:\n  - name: a.tar\n    sha256: {A}\n    unpack: "  # noqa: E501
        "true\n")).replace("## Input Files\n\nnone", "## Input Files\n\n- /in/a.tar"),
     era("wc 2", inputs=None, extra=f"inputs:\n  - name: a.tar\n    sha256: {A}\n    unpack: true\n").replace(("## Input "  # noqa: E501
        "Files\n\nnone"), "## Input Files\n\n- /in/a.tar")),
    ("one more input", monty(), monty(inputs={"data.csv": A, "more.csv": B})),
    ("the name of an input", monty(), monty(inputs={"date.csv": A})),
    ("one more output", monty(), monty(outputs=["/out/a.json", "/out/b.json"])),
    ("another kind of value", monty(), monty('{"n": "1", "who": "anna"}')),
    ("another variable", monty(), monty('{"n": 1, "whom": "anna"}')),
    ("a value that is a path", monty('{"n": 1, "who": "/in/data.csv"}'), monty('{"n": 1, "who": "/in/date.csv"}')),
    ("a value that is a host", monty('{"n": 1, "who": "api.example.org"}'), monty('{"n": 1, "who": "apj.example.org"}')),  # noqa: E501
    ("a value that is an address", monty('{"n": 1, "who": "10.0.0.1"}'), monty('{"n": 1, "who": "10.0.0.2"}')),
    ("a value that is a URL", monty('{"n": 1, "who": "x:a"}'), monty('{"n": 1, "who": "x:b"}')),
    ("a value with a look-alike", monty('{"n": 1, "who": "anna"}'), monty('{"n": 1, "who": "ann\\u0430"}')),
    ("a value that is long", monty(), monty(f'{{"n": 1, "who": "{"a" * 201}"}}')),
    ("a value that is a list", monty('{"n": [1], "who": "a"}'), monty('{"n": [2], "who": "a"}')),
    ("a value that names an input", monty('{"n": 1, "who": "data"}', inputs={"data": A, "date": B}),
     monty('{"n": 1, "who": "date"}', inputs={"data": A, "date": B})),
    ("the risk", monty(), swap("Risk level: low", "Risk level: medium")(monty())),
    ("the sensitivity", monty(), monty(sensitivity="internal")),
    ("who asks, in the file", monty(), swap("core-agent", "core-agent2")(monty())),
    ("a label", monty(), monty(extra="labels:\n  - x\n")),
    ("a session", monty(), monty(extra="session_id: s-1\n")),
    ("the tool", monty(extra="tool: read\n"), monty(extra="tool: send\n")),
]  # fmt: skip


def test_there_are_forty_near_misses() -> None:
    assert len(NEAR_MISSES) >= 40


@pytest.mark.parametrize(("what", "one", "other"), NEAR_MISSES, ids=[item[0] for item in NEAR_MISSES])
def test_a_near_miss_is_of_no_group(what: str, one: str, other: str) -> None:
    assert shape(one) is not None and shape(one) != shape(other), what


def test_an_owner_is_part_of_the_shape() -> None:
    assert len({shape(monty(), owner) for owner in (1000, 1001, "run-1")}) == 3


def test_outliers_come_first() -> None:
    def row(count: int, name: str) -> list[VaryingValue]:
        return [VaryingValue("count", str(count), float(count)), VaryingValue("name", name)]

    rows = [row(3, "anna"), row(4, "anna"), row(4000, "anna"), row(5, "anna"), row(4, "mallory")]
    order = outliers_first(rows)
    assert {at for at, far in order[:2] if far} == {2, 4}
    assert dict(order)[2] == ("count",) and dict(order)[4] == ("name",)
    assert [at for at, _ in order[2:]] == [0, 3, 1]
    assert outliers_first([row(1, "a"), row(1, "a")]) == [(0, ()), (1, ())]
