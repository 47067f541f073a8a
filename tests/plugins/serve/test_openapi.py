"""The OpenAPI document of a real server process: what linters ask of it by default, and that the server does what it
says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openapi_spec_validator
import pytest
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError

from tests.conftest import slow
from tests.servers import TOKEN, Running, start, stop
from tests.support import make_place

AUTH = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(params=["token", slow("no token")])
def document(request: pytest.FixtureRequest, server: Running, started: Callable[..., Running]) -> Any:
    """The document of a server that wants a token, and of one that wants none."""
    running = server if request.param == "token" else started("--no-auth", token=None)
    return httpx.get(f"{running.url}/openapi.json").json()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path, method, operation) of each."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def parts(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in the document by its place; what examples hold is data."""
    if isinstance(value, dict):
        yield path, value
        for name, below in value.items():
            if name != "examples":
                yield from parts(below, f"{path}/{name}")
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from parts(below, f"{path}/{number}")


def test_it_is_valid_openapi(document: dict[str, Any]) -> None:
    openapi_spec_validator.validate(document)
    document["paths"]["/health"]["get"]["responses"]["200"]["content"] = 5
    with pytest.raises(OpenAPIValidationError):
        openapi_spec_validator.validate(document)


def test_what_the_recommended_rules_of_redocly_and_spectral_ask(document: dict[str, Any]) -> None:
    info, names = document["info"], [tag["name"] for tag in document["tags"]]
    assert info["title"] and info["description"] and info["contact"]["url"] and info["license"]["identifier"]
    assert document["servers"] and all(server["url"] == "/" for server in document["servers"])
    assert all(tag["description"] for tag in document["tags"]) and names == sorted(set(names))
    every = list(operations(document))
    assert len({operation["operationId"] for _, _, operation in every}) == len(every) == 6
    schemes = document["components"].get("securitySchemes", {})
    for path, _, operation in every:
        assert operation["operationId"].isalnum() and operation["summary"] and operation["description"], path
        assert operation["tags"] and set(operation["tags"]) <= set(names), path
        assert {status[0] for status in operation["responses"]} >= {"2", "4"}, path
        assert all(answer["description"] for answer in operation["responses"].values())
        assert all(name in schemes for wanted in operation["security"] for name in wanted), path
    used = {part["$ref"] for _, part in parts(document) if "$ref" in part}
    assert used == {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}


def test_every_integer_has_its_bounds(document: dict[str, Any]) -> None:
    integers = [(path, part) for path, part in parts(document) if "integer" in str(part.get("type", ""))]
    assert len(integers) > 2
    for path, part in integers:
        assert part["format"] == "int32", path
        assert {type(part[name]) for name in ("minimum", "maximum")} <= {int, float}, path
        assert part["minimum"] % 1 == part["maximum"] % 1 == 0, f"{path}: 60.0 is the integer 60 in JSON Schema"
        assert 0 <= part["minimum"] < part["maximum"] < 2**31, path


def test_the_token_is_wanted_exactly_where_the_document_says_so(server: Running) -> None:
    document = httpx.get(f"{server.url}/openapi.json").json()
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    wanted = set()
    for path, method, operation in operations(document):
        status = httpx.request(method, server.url + path).status_code
        assert (status == 401) == bool(operation["security"]) == ("401" in operation["responses"]), path
        assert httpx.request(method, server.url + path, headers=AUTH).status_code != 401
        if operation["security"]:
            wanted.add(path)
            assert operation["security"] == [{"bearer": []}]
    assert wanted == {"/pre-tool-check", "/proposals/validate", "/contracts/decide", "/metrics"}


@pytest.mark.slow
def test_a_server_without_a_token_promises_none(started: Callable[..., Running]) -> None:
    server = started("--no-auth", token=None)
    document = httpx.get(f"{server.url}/openapi.json").json()
    assert "securitySchemes" not in document["components"]
    for path, method, operation in operations(document):
        assert operation["security"] == [] and "401" not in operation["responses"], path
        assert httpx.request(method, server.url + path).status_code in map(int, operation["responses"])


@pytest.mark.slow
def test_the_numbers_are_text_and_behind_the_token(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    running = start(place.root)
    try:
        operation = httpx.get(f"{running.url}/openapi.json").json()["paths"]["/metrics"]["get"]
        assert set(operation["responses"]["200"]["content"]) == {"text/plain"}
        assert httpx.get(f"{running.url}/metrics").status_code == 401
        answer = httpx.get(f"{running.url}/metrics", headers=AUTH, timeout=60)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain;")
        assert "threegate_build_info" in answer.text
    finally:
        stop(running)
