"""What a grant leaves open: each part by its constraint, and everything else byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.approval import material
from tests.approval.material import APPROVED, NOW, POLICY, WORKSPACE
from tests.plugins.changes.example_change import PROJECT
from threegate.approval.launch import check_launch
from threegate.approval.ssh_wire import MalformedError
from threegate.approval.statement import Act
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.core.screen_parts import Note
from threegate.core.settings import parse_settings
from threegate.plugins.grants import near_misses
from threegate.plugins.grants.constraint import Constraint, is_plain_word, kind_of
from threegate.plugins.grants.giving import what_may_differ
from threegate.plugins.grants.grant import GRANT_TYPE, Grant, covers, terms
from threegate.plugins.grants.near_misses import examples, newly_covered
from threegate.plugins.grants.widened import Widened, open_job, open_values, read_widened, with_value
from threegate.request.action import Command
from threegate.request.job import Job, JobInput
from threegate.request.model import InputFile, OutputFile

VARS = """{
  "month": "2026-11", "side": "buy", "limit": 20, "rate": 0.5,
  "deep": {"rows": [1, {"name": "ann"}], "no": null}, "on": true
}
"""
OWNER = 1000


def monty(**changes: Any) -> Job:
    return material.make_job(material.make_request(vars_json=VARS), **changes)


def era(*argv: str, inputs: tuple[str, ...] = ("data.csv",), **changes: Any) -> Job:
    request = material.make_request(
        backend="ERA",
        action=Command(argv),
        inputs=tuple(InputFile(name, material.DATA_SHA) for name in inputs),
        outputs=(OutputFile("/out/a.txt"),),
    )
    return material.make_job(request, **{"effective_risk": "low", **changes})


def about(job: Job, *texts: str) -> dict[str, Any]:
    return terms(
        job,
        from_request="req-0",
        widened=read_widened(job, texts),
        owner=OWNER,
        policy_sha256=POLICY,
        max_uses=3,
        expires_utc=NOW + timedelta(days=1),
    )


def signed(key: Path, job: Job, *texts: str, **changes: Any) -> bytes:
    made = Act(GRANT_TYPE, WORKSPACE, 1, "operator", APPROVED, "0" * 32, {**about(job, *texts), **changes})
    return material.signed(made.to_bytes(), key, "threegate-act")


@pytest.fixture(scope="module")
def give(key: Path) -> Any:
    def made(job: Job, *texts: str) -> Grant:
        return Grant.parse(signed(key, job, *texts))

    return made


def changed(job: Job, part: str, raw: str) -> Job:
    """The job with other raw text where a variable's value is."""
    return with_vars(job, with_value(job, part, "@@").action.variables.replace('"@@"', raw))


def with_vars(job: Job, text: str | None) -> Job:
    """The job with other Inputs (JSON)."""
    return replace(job, action=job.action.changed(vars_json=text))


RUNS_AND_WAITS: list[tuple[Job, str, str, list[Any], list[Any]]] = [
    (monty(), "vars.month regex 2026-(0[1-9]|1[0-2])", "vars.month", ["2026-12", "2026-01"],
     ["2026-13", "2026-1", "2027-11", "2026-11x", "x2026-11", "2026-11\n", "", 202611, None, ["2026-11"]]),
    (monty(), 'vars.side one_of ["buy", "sell"]', "vars.side", ["sell"], ["buyy", "Buy", "bu", "hold", True]),
    (monty(), "vars.limit gte 1 lte 100", "vars.limit", [1, 100], [0, 101, -1, 20.0, "20", True, 10**15]),
    (monty(), "vars.limit one_of [20, 30]", "vars.limit", [30], [25, 30.0, "30"]),
    (monty(), "vars.rate gte 0 lte 0.75", "vars.rate", [0.75, 0.25], [0.76, -0.01, 0, 1, "0.5"]),
    (monty(), "vars.rate one_of [0.5, 2]", "vars.rate", [0.5, 2.0], [2, 1.5]),
    (monty(), "vars.deep.rows.1.name glob a*n", "vars.deep.rows.1.name", ["alan"], ["an", "a/n", "bob", "a n"]),
    (monty(), "vars.deep.rows.0 gte 0 lte 1024", "vars.deep.rows.0", [1024], [1025]),
    (monty(), "inputs.data.csv gte 0 lte 1048576", "inputs.data.csv", [0, 2**20], [2**20 + 1]),
    (monty(), "outputs.0 glob /out/*.json", "outputs.0", ["/out/b.json"],
     ["/out/a/b.json", "/out/../b.json", "/out/b.jsonl", "/out/.json", "/out//b.json", "out/b.json"]),
    (monty(), "limits.time_sec gte 1 lte 60", "limits.time_sec", [60], [61, 0]),
    (monty(), "limits.memory_mb gte 8 lte 64", "limits.memory_mb", [8], [65]),
    (era("grep", "-n", "ann", "/in/data.csv"), "argv.2 glob a*", "argv.2", ["alice"], ["-alice", "a/b", "bob", "a b"]),
    (era("python3", "-u", "/in/a.py", "nov", inputs=("a.py",)), "argv.3 one_of [\"nov\", \"dec\"]", "argv.3", ["dec"],
     ["-c", "de", "feb"]),
    (era("true", image=f"root:sha256:{'a' * 64}", runtime="bubblewrap"), "image glob root:sha256:*", "image",
     [f"root:sha256:{'b' * 64}"], [f"sha256:{'b' * 64}", "", "root:sha256:", None]),
]  # fmt: skip


@pytest.mark.parametrize(("job", "text", "part", "run", "wait"), RUNS_AND_WAITS, ids=lambda value: str(value)[:30])
def test_a_widened_part_takes_what_it_says(
    give: Any, job: Job, text: str, part: str, run: list[Any], wait: list[Any]
) -> None:
    grant = give(job, text)
    assert covers(grant, job)
    for value in run:
        assert covers(grant, with_value(job, part, value)), value
    for value in wait:
        assert not covers(grant, with_value(job, part, value)), value
    (example,) = examples(job, grant.widened)
    assert covers(grant, with_value(job, part, example.runs)) and example.runs != open_job(job, [part]).values[part]
    assert not covers(grant, with_value(job, part, example.waits))
    assert [Widened.parse(item.to_json()) for item in grant.widened] == list(grant.widened)


HOSTILE = (
    "a b", "a\tb", "a%2fb", "a\\b", "a..b", "a//b", "a\x1bb", "a\x00b", "a\u202eb", "a\u200bb", "ae\u0301b", "-ab", "ab\n",  # noqa: E501
    "a" + "x" * limits.GRANT_WORD_CHARS + "b", "", "a\u00a0b", "a\ue000b", "a\u2028b",
)  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE)
def test_no_constraint_takes_free_or_hidden_text(value: str) -> None:
    assert not is_plain_word(value)
    for text in ("glob a*b", "regex (?s)a.*b", "regex (?s)a.*", "regex (?s).*b", "regex |a|-ab"):
        assert not Constraint.read(text, ["string"]).takes(value), text


@given(st.text(max_size=12))
def test_a_star_never_stands_for_a_slash(text: str) -> None:
    taken = Constraint.read("glob a/*/z", ["string"]).takes(f"a/{text}/z")
    assert not taken or ("/" not in text and text and is_plain_word(text))


@pytest.mark.parametrize(
    "raw", ['"2026\\u002d12"', '"2026-12" ', ' "2026-12"', '"2026-12","x":"y"', '"2026-12", "month": "2026-11"', "2026", '"']  # noqa: E501
)  # fmt: skip
def test_only_the_value_may_differ_in_the_text_of_the_inputs(give: Any, raw: str) -> None:
    grant = give(monty(), "vars.month regex 2026-(0[1-9]|1[0-2])")
    assert covers(grant, changed(monty(), "vars.month", '"2026-12"'))
    assert not covers(grant, changed(monty(), "vars.month", raw))


def test_the_text_around_stays_byte_for_byte(give: Any) -> None:
    job = monty()
    grant = give(job, "vars.month regex 2026-[0-9]{2}", "vars.limit gte 1 lte 100")
    written = job.action.variables
    assert written
    for at in range(len(written)):
        assert not covers(grant, with_vars(job, f"{written[:at]} {written[at:]}")), at
    for raw in ("2e1", "20.0", "0020", "+20", '"20"', "-0"):
        assert not covers(grant, changed(job, "vars.limit", raw)), raw
    for text in (None, "", "[]", "{}", '{"month": 1}', "{" * 30, '{"month": "2026-11"'):
        assert not covers(grant, with_vars(job, text)), text


def test_two_values_do_not_change_places(give: Any) -> None:
    job = with_vars(monty(), '{"a": 1, "b": 50}')
    grant = give(job, "vars.a gte 0 lte 10", "vars.b gte 40 lte 60")
    assert covers(grant, with_vars(job, '{"a": 2, "b": 51}'))
    assert not covers(grant, with_vars(job, '{"a": 50, "b": 1}'))
    assert not covers(grant, with_vars(job, '{"b": 50, "a": 1}'))


def test_every_other_field_of_the_job_counts(give: Any) -> None:
    job = monty()
    grant = give(job, "vars.month regex 2026-[0-9]{2}", "limits.time_sec gte 1 lte 60", "inputs.data.csv gte 0 lte 99")
    inside = with_value(with_value(job, "vars.month", "2026-12"), "inputs.data.csv", 7)
    assert covers(grant, inside)
    changes: list[dict[str, Any]] = [
        {"action": job.action.changed(code="print(2)\n")}, {"action": PROJECT},
        {"workdir": "/out"}, {"outputs": ()}, {"network": ("example.com:443",)},
        {"tool": "t"}, {"session_id": "s"}, {"requested_by": "else"}, {"effective_risk": "medium"},
        {"effective_risk": "high"}, {"data_sensitivity": "internal"}, {"unread": ("data.csv",)},
        {"inputs": ()}, {"inputs": (replace(job.inputs[0], unpack=True),)},
        {"inputs": (JobInput("other.csv", material.DATA_SHA, 1, False),)},
        {"inputs": (*job.inputs, JobInput("more.csv", material.DATA_SHA, 1, False))},
        {"limits": replace(job.limits, cpu="2")}, {"limits": replace(job.limits, memory_mb=65)},
        {"backend": "ERA"},
    ]  # fmt: skip
    for change in changes:
        assert not covers(grant, replace(inside, **change)), change


def test_an_argument_never_makes_a_command_that_hides_code(give: Any) -> None:
    job = era("sort", "-k", "2", "/in/data.csv", effective_risk="medium")
    grant = give(job, "argv.3 regex (/in/)?[a-z.=-]+")
    assert covers(grant, with_value(job, "argv.3", "/in/x.csv"))
    assert not covers(grant, with_value(job, "argv.3", "--compress-program equals x"))
    assert not covers(grant, replace(job, action=Command(("sort", "-k", "2", "/in/data.csv", "more"))))
    assert not covers(grant, replace(job, action=Command(("uniq", "-k", "2", "/in/data.csv"))))
    script = era("python3", "/in/a.py", "x", inputs=("a.py",))
    hidden = give(script, 'argv.2 one_of ["x", "y"]')
    assert not covers(hidden, replace(script, unread=("a.py",)))


NEVER: list[tuple[Job, str, str]] = [
    (era("grep", "x", "y"), "argv.0 glob g*", "never left open"),
    (era("grep", "-n", "y"), "argv.1 equals -n", "never left open"),
    (era("grep", "a|b", "y"), "argv.1 glob a*", "never left open"),
    (era("jq", ".a", "y"), "argv.1 glob .a*", "never left open"),
    (era("tar", "xf", "y"), "argv.1 glob x*", "never left open"),
    (era("python3", "/in/a.py", "x", inputs=("a.py",)), "argv.1 glob /in/*.py", "never left open"),
    (era("python3", "-c", "x"), 'argv.2 one_of ["x"]', "not all code"),
    (era("make", "all"), "argv.1 glob a*", "not all code"),
    (era("grep", "x", "y"), "argv.3 glob g*", "no such word"),
    (era("grep", "x", "y"), "argv.01 glob g*", "no such word"),
    (era("grep", "x", "y"), "argv.x glob g*", "no such word"),
    (era("grep", "x", "y"), "inputs.data.csv gte 0 lte 9", "code in an ERA input is code"),
    (monty(), "argv.1 glob g*", "no such word"),
    (monty(), "outputs.1 glob /out/*", "no such word"),
    (monty(), "inputs.other.csv gte 0 lte 9", "no such input"),
    (monty(), "limits.cpu gte 0 lte 9", "no such part"),
    (monty(), "code regex .*x", "no such part"),
    (monty(), "network glob a*", "no such part"),
    (monty(), "vars.nothing glob a*", "no such value"),
    (monty(), "vars glob a*", "no such part"),
    (with_vars(monty(), None), "vars.month glob a*", "cannot be read"),
    (monty(), "vars.deep glob a*", "not a plain text or number"),
    (monty(), "vars.deep.no glob a*", "not a plain text or number"),
    (monty(), "vars.on one_of [true]", "not a plain text or number"),
    (with_vars(monty(), '{"a": "\\u0061"}'), "vars.a glob a*", "usual spelling"),
    (monty(), "vars.month", "has no operator"),
    (monty(), "vars.month glob *", "takes any text"),
    (monty(), "vars.month regex .*", "takes any text"),
    (monty(), "vars.month regex \\S+", "takes any text"),
    (monty(), "vars.month equals 2026-12", "does not match it itself"),
    (monty(), "vars.limit gte 30 lte 40", "does not match it itself"),
    (monty(), "vars.limit equals many", "for the type string"),
    (monty(), "vars.limit gte 1", "no two bounds"),
    (monty(), "vars.limit gte a lte b", "for the type string"),
    (monty(), "vars.limit gte 0.5 lte 40", "for the type number"),
    (monty(), "vars.limit gte 0 lte 9007199254740993", "a bound"),
    (monty(), "vars.limit regex [0-9]+", "for the type string"),
    (monty(), "vars.month one_of [1]", "for the type integer"),
    (monty(), 'vars.month one_of ["a b"]', "a choice that no value"),
    (monty(), "vars.month one_of [[]]", "values of several types"),
    (monty(), "vars.month one_of []", "is empty"),
    (monty(), "vars.month one_of [", "not JSON"),
    (monty(), "vars.month regex a)|(b", "no linear-time pattern"),
    (monty(), "vars.month regex (a", "no linear-time pattern"),
    (monty(), "vars.month regex " + "a" * 201, "not a string of at most"),
]


@pytest.mark.parametrize(("job", "text", "why"), NEVER, ids=lambda value: str(value)[:40])
def test_what_is_never_left_open(job: Job, text: str, why: str) -> None:
    with pytest.raises(Refused) as caught:
        about(job, text)
    assert caught.value.code == "grant_mismatch" and why in str(caught.value)


def test_a_grant_says_whether_it_binds_the_exact_root_or_its_kind(give: Any) -> None:
    """On its card, and at the check: by what it runs stays the same."""
    root = f"root:sha256:{'a' * 64}"
    jail, engine = era("true", image=root, runtime="bubblewrap"), era("true", image=f"sha256:{'a' * 64}")
    upgraded = replace(jail, image=f"root:sha256:{'b' * 64}")
    exact, kind = give(jail), give(jail, "image glob root:sha256:*")
    assert covers(exact, jail) and not covers(exact, upgraded)
    assert covers(kind, upgraded) and not covers(kind, engine) and not covers(kind, replace(upgraded, runtime="runsc"))

    def card(job: Job, *texts: str) -> list[str]:
        return [item.text for item in what_may_differ(job, read_widened(job, texts)).items if isinstance(item, Note)]

    assert card(jail)[0].startswith("on exactly this root (this machine's packages, or the unpacked folder): after")
    assert card(engine)[0] == "on exactly this image: after an upgrade the next request waits for you"
    assert card(jail, "image glob root:sha256:*")[0].startswith("by bubblewrap, on any root")
    assert not [line for line in card(monty()) if "image" in line or "root" in line]


def test_a_part_is_widened_once_and_few_are() -> None:
    with pytest.raises(Refused, match="widened twice"):
        about(monty(), "vars.limit gte 1 lte 30", "vars.limit gte 1 lte 40")
    with pytest.raises(Refused, match="at most 16"):
        about(monty(), *(f"vars.v{number} = a*" for number in range(17)))


@pytest.mark.parametrize(
    "term",
    [
        "vars.limit", {}, {"part": 1, "type": "integer", "gte": 0, "lte": 1}, {"part": "x", "type": "integer"},
        {"part": "x", "type": "boolean", "one_of": [True]}, {"part": "x", "type": ["string"], "glob": "a"},
        {"part": "x", "type": "integer", "gte": 0}, {"part": "x", "type": "integer", "gte": 0, "lte": True},
        {"part": "x", "type": "integer", "gte": 0, "lte": 1.5}, {"part": "x", "type": "string", "gte": 0, "lte": 1},
        {"part": "x", "type": "string", "glob": 5}, {"part": "x", "type": "string", "one_of": "ab"},
        {"part": "x", "type": "string", "one_of": ["a"] * 51}, {"part": "x", "type": "string", "contains": "a"},
        {"part": "x", "type": "string", "glob": "a*", "regex": "a"}, {"part": "x", "type": "integer", "glob": "a*"},
        {"part": "x", "type": "string", "glob": "*"}, {"part": "x", "type": "string", "regex": "(?s).*"},
    ],
)  # fmt: skip
def test_terms_of_a_wrong_form(key: Path, term: Any) -> None:
    with pytest.raises(MalformedError):
        Grant.parse(signed(key, monty(), widened=[term]))


def test_a_number_counts_as_it_is_rendered(key: Path) -> None:
    grant = Grant.parse(signed(key, monty(), "vars.rate gte 0 lte 1"))
    assert covers(grant, with_value(monty(), "vars.rate", 1.0))
    assert json.loads(json.dumps(grant.widened[0].to_json()))["lte"] == 1


def test_it_launches_what_it_covers_and_nothing_else(key: Path) -> None:
    data = signed(key, monty(), "vars.limit gte 1 lte 100")
    request = material.make_request(vars_json=VARS.replace("20", "30", 1).replace("3026", "2026"))

    def launch(vars_json: str) -> str | None:
        request = material.make_request(vars_json=vars_json)
        facts = material.facts_of(
            request, material.make_job(request), data, material.line("operator", key).encode(),
            settings=parse_settings(b"[grants]\nallow = true\n"), grant_uses=lambda grant: 0, owner=OWNER,
        )  # fmt: skip
        under = check_launch(facts).under
        return under and under.grant

    assert request.action.variables and launch(VARS.replace('"limit": 20', '"limit": 30')) == Grant.parse(data).id
    with pytest.raises(Refused) as caught:
        launch(VARS.replace('"limit": 20', '"limit": 101'))
    assert caught.value.code == "grant_mismatch"


def test_kinds_and_words_of_parts() -> None:
    assert [kind_of(value) for value in ("a", 1, 1.0, True, None, [])] == [
        "string", "integer", "number", "boolean", None, None,
    ]  # fmt: skip
    (item,) = read_widened(monty(), ["vars.limit gte 1 lte 100"])
    assert str(item) == "vars.limit is from 1 to 100"


def test_every_value_that_could_be_open_is_found() -> None:
    command = open_values(era("sort", "-k", "2", "/in/data.csv"))
    assert command.values == {"argv.2": "2", "argv.3": "/in/data.csv", "outputs.0": "/out/a.txt"}
    code = open_values(with_vars(monty(), '{"n": 1, "a b": 2, "deep": [1, {"x": true}]}'))
    assert code.values == {"inputs.data.csv": 11, "outputs.0": "/out/sum.json", "vars.n": 1, "vars.deep.0": 1}


def test_a_job_that_is_not_covered_is_never_named_as_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    job = monty()
    widened = read_widened(job, ["vars.limit gte 1 lte 100"])
    assert newly_covered(job, widened, [job]) == "vars.limit is 100"
    monkeypatch.setattr(near_misses, "matches", lambda *given: False)
    assert newly_covered(job, widened, [job]) == ""
