"""The HTTP server as a real process, driven by httpx and by bare sockets."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.servers import TOKEN, TOKEN_VARIABLES, Running
from threegate.plugins.serve.event_examples import EXAMPLES

AUTH = {"Authorization": f"Bearer {TOKEN}"}
ACCEPTED: dict[str, Any] = EXAMPLES["public_read_accept"]["value"]
ASKED: dict[str, Any] = EXAMPLES["write_missing_confirmation_ask"]["value"]


def post(server: Running, body: Any, **options: Any) -> httpx.Response:
    options.setdefault("headers", AUTH)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **options.pop("headers")}
    return httpx.post(f"{server.url}/pre-tool-check", content=content, headers=headers, timeout=60, **options)


def raw(server: Running, data: bytes, *, hang_up: bool = False) -> bytes:
    """Send bytes as they are and read the answer; `hang_up` sends the end of the stream after them."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(data)
        if hang_up:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


def head(length: str = "", *, token: str = TOKEN, extra: str = "") -> bytes:
    lines = [
        "POST /pre-tool-check HTTP/1.1",
        "Host: x",
        "Connection: close",
        "Content-Type: application/json",
        f"Authorization: Bearer {token}",
    ]
    return ("\r\n".join(lines + [line for line in (length, extra) if line]) + "\r\n\r\n").encode()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_seeds_examples(server: Running, name: str) -> None:
    answer = post(server, EXAMPLES[name]["value"])
    assert answer.status_code == 200
    assert name.endswith(answer.json()["architecture_decision"]["route"])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN.upper()}"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": b"Bearer \xff\xfe"},
        {"X-Authorization": f"Bearer {TOKEN}"},
        {"Cookie": f"token={TOKEN}"},
    ],
)
def test_without_exactly_the_token_nothing_is_decided(server: Running, headers: dict[str, Any]) -> None:
    answer = post(server, ACCEPTED, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthorized"
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert TOKEN not in answer.text and "wrong" not in answer.text


def test_two_authorization_headers_are_none(server: Running) -> None:
    answer = raw(server, head("Content-Length: 2", extra=f"Authorization: Bearer {TOKEN}") + b"{}")
    assert b" 401 " in answer.splitlines()[0]
    assert post(server, ACCEPTED, params={"token": TOKEN}, headers={}).status_code == 401


def test_the_scheme_may_be_written_small(server: Running) -> None:
    assert post(server, ACCEPTED, headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    "query",
    ["shadow_mode=true", "shadow=1", "evidence_mode=quickstart", "now=1970-01-01", "recommended_route=accept",
     "route=accept", "no_auth=1", "dry_run=true", "mode=observe", "a=%00&b=%ff", "x=" + "y" * 3000],
)  # fmt: skip
def test_no_parameter_relaxes(server: Running, query: str) -> None:
    plain = post(server, ASKED).json()
    answer = httpx.post(
        f"{server.url}/pre-tool-check?{query}",
        json=ASKED,
        headers={**AUTH, "X-Shadow-Mode": "true", "X-Recommended-Route": "accept"},
        timeout=60,
    )
    assert answer.status_code == 200 and answer.json() == plain
    assert answer.json()["recommended_action"] == "ask"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b"[" * 60_000, b'{"a":' * 10_000, b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff\xfe{}",
     "\ufeff{}".encode(), b'"\\ud800"', b"{}{}", b"1e999", b"9" * 5000],
)  # fmt: skip
def test_what_is_no_json_is_refused_with_a_whole_envelope(server: Running, body: bytes) -> None:
    answer = post(server, body)
    assert answer.status_code == 400
    assert answer.json()["recommended_action"] == "refuse" and not answer.json()["execution_allowed"]
    assert answer.json()["validation_errors"][0]["message"].startswith("cannot be read as JSON: ")


@pytest.mark.parametrize("body", [None, [], "x", 1, {}, {"tool_name": "x"}, {**ACCEPTED, "shadow_mode": True}])
def test_a_malformed_event_is_a_decision_too(server: Running, body: Any) -> None:
    answer = post(server, body)
    assert answer.status_code == 200 and answer.json()["recommended_action"] == "refuse"


LIMIT = 65_536


def test_the_body_limit_is_counted_on_the_stream(server: Running) -> None:
    """One byte too many, after which nothing is sent: a server that closes earlier than it is sent all may answer or
    not.
    """
    big = post(server, b'"' + b"x" * LIMIT)
    assert big.status_code == 413 and big.json()["error"]["code"] == "body_too_large"
    endless = raw(server, head("Transfer-Encoding: chunked") + b"%x\r\n" % (LIMIT + 1) + b"x" * (LIMIT + 1))
    assert b" 413 " in endless.splitlines()[0]
    assert post(server, b'"' + b"x" * (LIMIT - 2) + b'"').status_code == 200
    fits = json.dumps({**ACCEPTED, "proposed_arguments": {"a": "x" * 60_000}}).encode()

    def chunks() -> Any:
        for start in range(0, len(fits), 7_000):
            yield fits[start : start + 7_000]

    headers = {**AUTH, "Content-Type": "application/json"}
    answer = httpx.post(f"{server.url}/pre-tool-check", content=chunks(), headers=headers, timeout=60)
    assert answer.status_code == 200


def test_what_the_header_says_of_the_length_is_not_believed(server: Running) -> None:
    body = json.dumps(ACCEPTED).encode()
    short = raw(server, head("Content-Length: 10") + body)
    assert b" 400 " in short.splitlines()[0]
    assert raw(server, head("Content-Length: 99999999999") + body, hang_up=True) == b""
    both = raw(server, head("Content-Length: 3\r\nTransfer-Encoding: chunked") + b"0\r\n\r\n")
    assert b" 400 " in both.splitlines()[0]
    assert post(server, ACCEPTED).status_code == 200


def test_only_json_is_taken(server: Running) -> None:
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
    ):
        answer = post(server, ACCEPTED, headers={**AUTH, "Content-Type": kind})
        assert answer.status_code == 415 and answer.json()["error"]["code"] == "unsupported_media_type"
    assert (
        post(server, ACCEPTED, headers={**AUTH, "Content-Type": "application/json; charset=utf-8"}).status_code == 200
    )


def test_health_ready_and_wrong_places(server: Running) -> None:
    assert httpx.get(f"{server.url}/health").json() == {"status": "ok"}
    assert httpx.get(f"{server.url}/ready").json() == {"status": "ready"}
    missing = httpx.get(f"{server.url}/approve")
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "not_found"
    wrong = httpx.get(f"{server.url}/pre-tool-check")
    assert wrong.status_code == 405 and wrong.headers["Allow"] == "POST"
    assert "server" not in missing.headers and missing.headers["cache-control"] == "no-store"


def test_the_docs_need_no_script_and_no_other_server(server: Running) -> None:
    answer = httpx.get(f"{server.url}/docs")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"<script|https?://|//cdn|@import|src=", answer.text.replace("https://aana.dev", ""))
    assert "POST /pre-tool-check" in answer.text and "draft_id:123" in answer.text
    for status in ("200", "400", "401", "408", "413", "415", "429", "503"):
        assert f"<td>{status}</td>" in answer.text


def test_the_openapi_document_shows_the_seeds_examples_and_every_status(server: Running) -> None:
    document = httpx.get(f"{server.url}/openapi.json").json()
    operation = document["paths"]["/pre-tool-check"]["post"]
    examples = operation["requestBody"]["content"]["application/json"]["examples"]
    assert [example["value"] for example in examples.values()] == [example["value"] for example in EXAMPLES.values()]
    assert set(operation["responses"]) == {"200", "400", "401", "408", "413", "415", "429", "503"}
    answered = {
        status: operation["responses"][status]["content"]["application/json"]["schema"] for status in ("200", "400")
    }
    assert answered["200"] == answered["400"]
    schema = {**document, **answered["200"]}
    for example in EXAMPLES.values():
        Draft202012Validator(schema).validate(post(server, example["value"]).json())
    for status, body in ((200, {}), (400, b"{")):
        answer = post(server, body)
        assert answer.status_code == status
        Draft202012Validator(schema).validate(answer.json())


@pytest.mark.slow
def test_schemathesis_finds_no_answer_outside_the_document(server: Running) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried = 0
    for operation in schema.get_all_operations():
        strategy = operation.ok().as_strategy()
        for case in examples_of(strategy, 25):
            response = case.call(base_url=server.url, headers=AUTH, timeout=60)
            case.validate_response(
                response,
                checks=(
                    not_a_server_error,
                    status_code_conformance,
                    content_type_conformance,
                    response_schema_conformance,
                ),
            )
            tried += 1
    assert tried >= 25


def examples_of(strategy: Any, count: int) -> list[Any]:
    """Some examples of a strategy, always the same."""
    from hypothesis import HealthCheck, Phase, given, settings

    found: list[Any] = []

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def collect(case: Any) -> None:
        found.append(case)

    collect()
    return found


@pytest.mark.slow
def test_the_rate_limit_is_by_address_however_headers_rotate(started: Callable[..., Running]) -> None:
    server = started("--rate", "6", "--evidence", "production")
    asked = post(server, ASKED, params={"evidence_mode": "quickstart"})
    assert asked.json()["deviations"] == ["D12"], "what evidence may be is the server's choice"
    statuses = []
    for number in range(8):
        headers = {
            **AUTH,
            "X-Forwarded-For": f"10.0.0.{number}",
            "X-Real-IP": f"10.0.1.{number}",
            "Forwarded": f"for=10.0.2.{number}",
            "User-Agent": f"agent {number}",
        }
        statuses.append(post(server, ACCEPTED, headers=headers))
    assert [answer.status_code for answer in statuses[:5]] == [200] * 5
    limited = statuses[-1]
    assert limited.status_code == 429 and limited.json()["error"]["code"] == "rate_limited"
    assert 1 <= int(limited.headers["Retry-After"]) <= 12
    assert httpx.get(f"{server.url}/health").status_code == 200
    guess = post(server, ACCEPTED, headers={"Authorization": "Bearer guess"})
    assert guess.status_code == 429, "guessing the token is limited as well"


def test_every_decision_is_recorded_and_holds_no_value(started: Callable[..., Running]) -> None:
    server = started()
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    event = {**ASKED, "proposed_arguments": {"to": "customer@example.com", "note": secret}}
    assert post(server, event).json()["hard_blockers"][-1] == "argument_secret_leak"
    post(server, b"{")
    assert stat.S_IMODE(server.log.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert [line["route"] for line in lines] == ["refuse", "refuse"]
    assert lines[0]["surface"] == "http" and lines[0]["argument_keys"] == ["note", "to"]
    assert secret not in server.log.read_text() and "customer@" not in server.log.read_text()
    without_a_place_to_write_nothing_is_decided(server)


def without_a_place_to_write_nothing_is_decided(server: Running) -> None:
    server.log.unlink()
    server.log.mkdir()
    answer = post(server, ACCEPTED)
    assert answer.status_code == 503 and answer.json()["error"]["code"] == "decision_not_recorded"
    server.log.rmdir()
    server.log.symlink_to("/dev/null")
    assert post(server, ACCEPTED).status_code == 503
    assert httpx.get(f"{server.url}/ready").status_code == 503
    server.log.unlink()
    assert post(server, ACCEPTED).status_code == 200


def test_no_auth_is_for_loopback_and_it_ends_when_it_is_told_to(started: Callable[..., Running]) -> None:
    server = started("--no-auth", token=None)
    assert post(server, ACCEPTED, headers={}).status_code == 200
    for name in ("localhost", f"LOCALHOST:{server.port}", "127.0.0.2", f"[::1]:{server.port}", "[::1]"):
        assert post(server, ACCEPTED, headers={"Host": name}).status_code == 200, name
    for name in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "localhost.", "10.0.0.1", ""):
        refused = post(server, ACCEPTED, headers={"Host": name})  # a page whose name leads to 127.0.0.1
        assert refused.status_code == 421 and refused.json()["error"]["code"] == "wrong_host", name
        assert httpx.get(f"{server.url}/metrics", headers={"Host": name}).status_code == 421
    operation = httpx.get(f"{server.url}/openapi.json").json()["paths"]["/pre-tool-check"]["post"]
    assert "401" not in operation["responses"] and operation["security"] == []
    slow = socket.create_connection(("127.0.0.1", server.port))
    slow.sendall(head("Content-Length: 100") + b"{")
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(20)
    slow.close()


def test_two_tokens_that_differ_start_nothing(tmp_path: Path) -> None:
    tokens = {"THREEGATE_TOKEN": "one-of-two-tokens", "AANA_BRIDGE_TOKEN": "another-of-two-tokens"}
    for extra in ([], ["--no-auth"]):
        done = subprocess.run(
            [sys.executable, "-m", "threegate", "serve", "http", "--port", "0", *extra],
            capture_output=True, text=True, cwd=tmp_path, timeout=90, env={**os.environ, **tokens},
        )  # fmt: skip
        assert done.returncode == 64 and not done.stdout
        assert "THREEGATE_TOKEN and AANA_BRIDGE_TOKEN differ; set one of them" in done.stderr
        assert "two-tokens" not in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 64, "set THREEGATE_TOKEN"),
        (["--no-auth", "--host", "0.0.0.0"], 2, "--no-auth works only on loopback"),
        (["--no-auth", "--host", "::"], 2, "--no-auth works only on loopback"),
        (["--no-auth", "--host", "no.such.host.invalid"], 3, "no such address"),
        (["--no-auth", "--host", "192.0.2.1"], 2, "--no-auth works only on loopback"),
        (["--no-auth", "--log", "/no/such/folder/x"], 3, "decisions cannot be recorded here"),
    ],
)
def test_what_is_not_started(options: list[str], code: int, message: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in TOKEN_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-m", "threegate", "serve", "http", "--port", "0", *options],
        capture_output=True, text=True, cwd=tmp_path, timeout=90, env={**environment, "XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == code and message in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr


def test_a_taken_port_is_said(server: Running, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "threegate", "serve", "http", "--no-auth", "--port", str(server.port)],
        capture_output=True, text=True, cwd=tmp_path, timeout=90, env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 3 and f"127.0.0.1:{server.port}: cannot listen here" in done.stderr
