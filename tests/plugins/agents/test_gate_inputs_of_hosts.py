"""What a request for a host says to the gates, to the Job and to a person."""

from __future__ import annotations

from dataclasses import fields, replace

import jsonschema
import pytest

from tests.request.examples import REACH, REACH_KEYS, ids, reach, read, request
from tests.request.test_action import ASKED, told
from threegate.core.errors import InvalidInput
from threegate.plugins.agents.reach.host_action import HasRead, HostAccess
from threegate.request.backend import BACKENDS
from threegate.request.job import Platform, build_job, effective_risk
from threegate.request.model import Request, exposure_of
from threegate.request.render_draft import render_request
from threegate.request.schema import request_schema_2

ACCESS = HostAccess("api.example.com", "To fetch the rates.")
READ = HasRead("/srv/app", shown=("secret.env",), reading=("/opt/sdk",), home="ar-1", parent="ar-2", results=3)
SCHEMA = jsonschema.Draft202012Validator(request_schema_2())


def made() -> Request:
    found = read(reach()).request
    assert found is not None
    return found


def test_what_a_request_says() -> None:
    found = made()
    assert found.action == ACCESS and (found.backend, found.language, found.network) == ("reach", "", "none")
    assert found.signature_needed and exposure_of(found).reach == ("network api.example.com:443",)
    assert effective_risk(found, exposure_of(found)) == "high"
    SCHEMA.validate({**_plain(REACH_KEYS), "schema_version": "1"} | {"schema_version": "2"})


def _plain(keys: dict[str, str]) -> dict[str, object]:
    return {name: int(value) if name == "time_limit_sec" else value.strip('"') for name, value in keys.items()}


def test_it_is_read_as_it_was_written() -> None:
    found = made()
    again = read(render_request(found)).request
    assert again is not None
    for item in fields(Request):
        if item.name not in ("data", "sha256", "file_name"):
            assert getattr(again, item.name) == getattr(found, item.name), item.name


def words(text: str) -> str:
    return request(REACH_KEYS, {**REACH, "Arguments (JSON)": f"\n```json\n{text}\n```\n"})


def test_the_agents_words_may_mention_what_it_wants_to_install() -> None:
    why = "To pip install requests, which the tests in /srv/app need; see https://pypi.org/project/requests."
    found = read(words(f'{{"why":"{why}"}}'))
    assert found.valid and found.request is not None and found.request.action == replace(ACCESS, why=why)
    assert told(ACCESS.names())[0] == ("opens", "api.example.com") and len(told(ACCESS.names())) == 3


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (request({key: value for key, value in REACH_KEYS.items() if key != "host"}, REACH), "TG121"),
        (reach(host="42"), "TG122"),
        (reach(host="93.184.216.34"), "TG179"),
        (reach(server="notes"), "TG170"),
        (reach(project="web"), "TG170"),
        (words('{"why":"a\\nb"}'), "TG225"),
        (words('{"why":""}'), "TG225"),
        (words('{"why":1}'), "TG225"),
        (words('{"reason":"a","why":"b"}'), "TG225"),
        (words("[]"), "TG225"),
        (words('{"why": "b"}'), "TG225"),
        (words('{"why":"ghp_' + "a1B2" * 9 + '"}'), "TG501"),
        (request(REACH_KEYS, {**REACH, "Arguments (JSON)": "\nnone\n"}), "TG224"),
        (reach(network="allowlist", network_allowlist="[a.example.com]"), "TG138"),
    ],
)
def test_what_it_may_not_have(text: str, rule: str) -> None:
    assert rule in ids(read(text))


def test_what_a_gate_asks_of_it() -> None:
    assert all(hasattr(HostAccess, name) for name in ASKED) and not HostAccess.__abstractmethods__
    answers = (ACCESS.may_change("web"), ACCESS.may_change(None), ACCESS.stateful, ACCESS.sends_out)
    assert answers == (True, True, False, True)
    assert ACCESS.does == "lets its run send anything to api.example.com"
    assert ACCESS.never_granted and ACCESS.never_replayed and not ACCESS.grouped
    assert ACCESS.gate_arguments("/in", {}) == {"host": "api.example.com", "port": 443}
    assert ACCESS.without_open() is ACCESS and [item.text for item in ACCESS.texts()] == ["To fetch the rates."]
    with pytest.raises(InvalidInput):
        BACKENDS["reach"].drafted("ls", "", None)


def test_the_job_names_the_run_and_what_it_has_read_and_no_count() -> None:
    def job(run: str, has_read: HasRead) -> str:
        asked = replace(made(), action=ACCESS.bound(run, has_read))
        return build_job(asked, input_sizes={}, platform=Platform()).digest

    one = job("ar-1", READ)
    others = [
        job("ar-2", READ),
        *(job("ar-1", replace(READ, **{name: ("x",)})) for name in ("shown", "reading")),  # type: ignore[arg-type]
        *(job("ar-1", replace(READ, **{name: "x"})) for name in ("root", "home", "parent")),  # type: ignore[arg-type]
    ]
    assert len({one, *others}) == 7
    # Both grow while a person reads.
    assert one == job("ar-1", replace(READ, results=9, hosts=("b.example.com",)))


def test_what_a_person_sees_of_it() -> None:
    bound = ACCESS.bound("ar-3", replace(READ, hosts=("b.example.com",)))
    assert told(bound.names())[0] == ("opens", "api.example.com")
    card = told(bound.card())
    assert card[0] == ("may send", "everything that this run has read, and will read, until it ends:")
    assert card[1:5] == [
        ("the project", "/srv/app, without what is hidden there"), ("hidden", "secret.env"), ("folders", "/opt/sdk"),
        ("answers of", "b.example.com"),
    ]  # fmt: skip
    assert [label for label, _ in card[5:8]] == ["the home of", "the copy of", "results of"]
    assert card[-1] == ("close with", "threegate agent close ar-3 api.example.com")
    bare = told(ACCESS.bound("ar-3", HasRead("/srv/app")).card())
    assert [label for label, _ in bare] == ["may send", "the project", "results of", "", "close with"]
