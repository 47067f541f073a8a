"""The parts of the HTTP surface that a clock decides, in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from threegate.aana import DecisionLog
from threegate.core import limits
from threegate.plugins.serve.event_examples import EXAMPLES
from threegate.plugins.serve.http_app import HttpOptions, create_app
from threegate.plugins.serve.rate_limit import RateLimit, client_of


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_again() -> None:
    clock = Clock()
    limit = RateLimit(60, clock=clock)
    assert [limit.wait_for("10.0.0.1") for _ in range(61)] == [0] * 60 + [1]
    assert limit.wait_for("10.0.0.2") == 0
    clock.now += 0.5
    assert limit.wait_for("10.0.0.1") == 1
    clock.now += 0.5
    assert limit.wait_for("10.0.0.1") == 0
    clock.now += 3600
    assert [limit.wait_for("10.0.0.1") for _ in range(61)] == [0] * 60 + [1]


def test_a_slow_rate_says_how_long_to_wait() -> None:
    clock = Clock()
    limit = RateLimit(1, clock=clock)
    assert (limit.wait_for("a"), limit.wait_for("a")) == (0, 60)
    clock.now += 59
    assert limit.wait_for("a") == 1


def test_the_table_is_bounded_and_forgets_the_quiet() -> None:
    clock = Clock()
    limit = RateLimit(2, clock=clock, clients=3)
    for _ in range(2):
        limit.wait_for("busy")
    for number in range(50):
        limit.wait_for(f"client {number}")
        assert limit.wait_for("busy") > 0
    assert len(limit._buckets) == 3


def test_an_ipv6_client_has_one_bucket_for_its_network() -> None:
    assert client_of("2001:db8::1") == client_of("2001:db8:0:0:ffff::2%eth0") == "2001:db8::/64"
    assert client_of("2001:db8:0:1::1") != client_of("2001:db8::1")
    assert client_of("::ffff:10.0.0.1") == client_of("10.0.0.1") == "10.0.0.1"
    assert client_of("testclient") == "testclient"


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    app = create_app(HttpOptions(token=None, log=DecisionLog(tmp_path / "d.jsonl"), body_seconds=0.05))

    async def slow() -> Any:
        yield b"{"
        await asyncio.Event().wait()
        yield b"}"

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.post("/pre-tool-check", content=slow(), headers={"Content-Type": "application/json"})

    answer = asyncio.run(go())
    assert answer.status_code == 408 and answer.json()["error"]["code"] == "body_too_slow"
    assert answer.headers["connection"] == "close"


def test_a_connection_without_an_address_is_a_client_too(tmp_path: Path) -> None:
    app = create_app(HttpOptions(token=None, log=DecisionLog(tmp_path / "d.jsonl"), per_minute=1))

    async def go() -> list[int]:
        transport = httpx.ASGITransport(app=app, client=None)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            event = EXAMPLES["public_read_accept"]["value"]
            return [(await client.post("/pre-tool-check", json=event)).status_code for _ in range(2)]

    assert asyncio.run(go()) == [200, 429]


def test_callers_without_the_token_use_up_nothing_of_those_who_have_it(tmp_path: Path) -> None:
    """Of the same address, as all accounts of a machine are. Guesses of a short token stay as slow as anything."""

    async def ask(token: str, given: list[str]) -> list[int]:
        clock = Clock()
        options = HttpOptions(token, DecisionLog(tmp_path / "log"), per_minute=5, clock=clock)
        transport = httpx.ASGITransport(app=create_app(options), client=("127.0.0.1", 40000))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return [
                (
                    await client.post(
                        "/pre-tool-check",
                        json=EXAMPLES["public_read_accept"]["value"],
                        headers={"Authorization": f"Bearer {word}"},
                    )
                ).status_code
                for word in given
            ]

    long, short = "x" * limits.SERVE_TOKEN_CHARS, "x" * (limits.SERVE_TOKEN_CHARS - 1)
    guesses = ["y"] * 7
    assert asyncio.run(ask(long, [*guesses, *[long] * 6])) == [401] * 5 + [429] * 2 + [200] * 5 + [429]
    assert asyncio.run(ask(short, [*guesses, short])) == [401] * 5 + [429] * 3
    assert asyncio.run(ask(long, [*[long] * 6, "y"])) == [200] * 5 + [429] * 2, "and those who have it slow guesses"
