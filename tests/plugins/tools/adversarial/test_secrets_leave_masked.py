"""A server tells its secret: in every field, key, number, error and request of its own, in each encoding that
`docs/tools.md` names, and split over blocks. Nothing of it gets past the server's stream.
"""

from __future__ import annotations

import base64
import json
import random
import string
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest

from tests.plugins.tools.little_servers import nowhere, open_folder, pinned_server, write_server
from threegate.core.errors import Unavailable
from threegate.core.limits import LOGIN_TOKEN_CHARS
from threegate.core.secret_value import read_secret
from threegate.core.settings import SecretReference, Settings
from threegate.judgement.judge import Clearance
from threegate.plugins.tools.action import JobServer, ToolCall
from threegate.plugins.tools.known_values import KnownValues
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.mcp.answer_files import answer_files
from threegate.plugins.tools.mcp.runner import CallRunner
from threegate.plugins.tools.program_tree import program_digests
from threegate.plugins.tools.server_process import Answer, Server, ServerError
from threegate.request.job import Job
from threegate.runners.interface import Control

SECRET = "pa/ss+w0rd~of.Notes=7"
NUMBER = "730215984"
MIB = 1 << 20
TOLD = """
def call(id, name, arguments):
    for message in arguments["say"]:
        if message.get("method") == "notifications/progress":
            message["params"]["progressToken"] = id
        say({**({} if "method" in message and "id" not in message else {"id": id}), **message})
"""
ENCODED: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON escapes": lambda value: "".join(f"\\u{ord(char):04X}" for char in value),
    "some JSON escapes": lambda value: json.dumps({"a": value}).replace("/", "\\/").replace("s", "\\u0073"),
    "JSON in JSON": lambda value: json.dumps(json.dumps(value).replace("p", "\\u0070")),
    "percent": lambda value: quote(value, safe=""),
    "percent, every character": lambda value: "".join(f"%{ord(char):02x}" for char in value),
    "percent twice": lambda value: quote(quote(value, safe=""), safe=""),
    "hex": lambda value: value.encode().hex(),
    "capital hex with colons": lambda value: value.encode().hex(":").upper(),
    "hex lines": lambda value: "\n".join(value.encode().hex(" ", 4).split()),
    "C bytes": lambda value: ", ".join(f"0x{byte:02x}" for byte in value.encode()),
    "string escapes": lambda value: "".join(f"\\x{byte:02x}" for byte in value.encode()),
    **{f"base64 behind {n}": lambda value, n=n: base64.b64encode(b"\xfe" * n + value.encode() + b"?>").decode() for n in range(3)},  # noqa: E501
    **{f"url-safe base64 behind {n}": lambda value, n=n: base64.urlsafe_b64encode(b"\xfe" * n + value.encode()).decode().rstrip("=") for n in range(3)},  # noqa: E501
    "base64 within text": lambda value: f"Basic {base64.b64encode(f'me:{value}'.encode()).decode()} is it",
    "wrapped base64": lambda value: base64.encodebytes(b"x" * 50 + value.encode() + b"y" * 50).decode(),
    "base64 in narrow lines": lambda value: "\r\n  ".join(base64.b64encode(value.encode()).decode()[n : n + 4] for n in range(0, 28, 4)),  # noqa: E501
    "wrapped base64 in JSON": lambda value: json.dumps(base64.encodebytes(b"x" * 50 + value.encode()).decode()),
    "base64 in a URL": lambda value: quote(base64.b64encode(value.encode()).decode(), safe=""),
    "base64 of hex": lambda value: base64.b64encode(value.encode().hex().encode()).decode(),
    "base64 twice": lambda value: base64.b64encode(base64.b64encode(value.encode() + b"!")).decode(),
}  # fmt: skip
"""The forms that are named, and texts that have them inside."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as made:
        (made / "token").write_text(f"{SECRET}\n")
        (made / "number").write_text(NUMBER)
        yield made


@pytest.fixture(scope="module")
def settings(folder: Path) -> Settings:
    return Settings(
        secrets={
            "TOKEN": SecretReference(file=str(folder / "token")),
            "NUMBER": SecretReference(file=str(folder / "number")),
        }
    )


@pytest.fixture(scope="module")
def manifest(folder: Path) -> Manifest:
    return replace(pinned_server(write_server(folder, TOLD), place="host"), secrets=("NUMBER", "TOKEN"))


@pytest.fixture(scope="module")
def server(folder: Path, settings: Settings, manifest: Manifest) -> Iterator[Server]:
    with Server(nowhere(folder / "program" / "server.py"), settings, manifest) as server:
        server.check_pinned()
        yield server


def told(server: Server, *messages: dict[str, Any], progress: Callable[[Any], None] | None = None) -> Answer:
    """What the caller gets if the server says this. (It is told its words: what goes in is not masked.)"""
    return server.call("echo", {"say": list(messages)}, 20, MIB, progress)


def result(**fields: Any) -> dict[str, Any]:
    return {"result": {"content": [], **fields}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@pytest.mark.parametrize("encoding", ENCODED)
def test_each_named_encoding_is_masked(server: Server, encoding: str) -> None:
    encoded = ENCODED[encoding](SECRET)
    [block] = told(
        server,
        result(
            content=[
                text(f"<{encoded}>"),
            ]
        ),
    ).content
    assert "[secret]" in block["text"] and encoded not in block["text"]
    rest = block["text"].replace("[secret]", "").lower()
    assert len(rest) < 150 and "w0rd" not in rest and b"w0rd".hex() not in rest, "no part of it is left"


@pytest.mark.parametrize("encoding", ["plain", "hex", "url-safe base64 behind 1"])
@pytest.mark.parametrize(
    "where",
    [
        lambda value: result(content=[text(value)]),
        lambda value: result(content=[{"type": "resource_link", "uri": f"x://{value}", "name": value}]),
        lambda value: result(content=[{**text("x"), "annotations": {value: [{"deep": [value]}]}}]),
        lambda value: result(content=[{"type": value}]),
        lambda value: result(structuredContent={"a": {value: 1}, "b": [[value]]}),
        lambda value: result(_meta={value: value}),
        lambda value: {"error": {"code": 1, "message": value}},
        lambda value: {"error": {"code": 1, "message": "x", "data": {value: [value]}}},
    ],
)
def test_no_field_of_an_answer_has_it(server: Server, where: Callable[[str], dict[str, Any]], encoding: str) -> None:
    value = ENCODED[encoding](SECRET)
    answer = told(server, where(value))
    whole = repr(answer) + "".join(data.decode() for _, data in answer_files(answer))
    assert value not in whole and "[secret]" in whole


@pytest.mark.parametrize("number", [730215984, -730215984, 730215984.5, 730215984.0, 7302159840, 1730215984])
def test_a_secret_that_is_a_number_is_masked_as_one(server: Server, number: float) -> None:
    answer = told(server, result(structuredContent={"pin": number, "of": [number, 7]}))
    assert answer.structured == {"pin": "[secret]", "of": ["[secret]", 7]}


def test_a_value_that_equals_a_secret_in_another_notation_is_masked() -> None:
    known = KnownValues(["0073021598", "1.5e9", "0.000123"])
    assert known.json([73021598, 1500000000, 0.000123, 1.0, 73], scanned=False) == ["[secret]"] * 3 + [1.0, 73]


@pytest.mark.parametrize("cuts", [(5,), (1, 2, 3), (20,), (7, 14)])
def test_a_secret_split_over_blocks_is_masked_in_each(server: Server, cuts: tuple[int, ...]) -> None:
    parts = [SECRET[low:high] for low, high in zip((0, *cuts), (*cuts, None), strict=True)]
    answer = told(
        server, result(content=[text(part) for part in ("see ", *parts, " there")], structuredContent={"l": parts})
    )  # noqa: E501
    assert [block["text"] for block in answer.content] == ["see ", *["[secret]"] * len(parts), " there"]
    assert answer.structured == {"l": ["[secret]"] * len(parts)}


def test_a_secret_that_goes_on_in_a_resource_is_masked(server: Server) -> None:
    resource = {"type": "resource", "resource": {"uri": "x://1", "text": SECRET[9:] + "!"}}
    first, second = told(server, result(content=[text(SECRET[:9]), resource])).content
    assert (first["text"], second["resource"]["text"]) == ("[secret]", "[secret]!")


@pytest.mark.parametrize("data", [SECRET, f"GIF89a{SECRET}x", ENCODED["hex"](SECRET), ENCODED["percent"](SECRET)])
def test_bytes_with_a_secret_are_left_out(server: Server, data: str) -> None:
    image = {"type": "image", "mimeType": "image/gif", "data": base64.b64encode(data.encode()).decode()}
    files = answer_files(told(server, result(content=[image])))
    assert [name for name, _ in files] == ["result.json"] and b"so they are not here" in files[0][1]


def test_an_image_without_one_keeps_its_bytes(server: Server) -> None:
    data = bytes(range(256)) * 300
    image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(data).decode()}
    assert dict(answer_files(told(server, result(content=[image]))))["content-0.png"] == data


@pytest.mark.parametrize("key", ["data", "blob"])
def test_what_only_claims_to_be_binary_is_scanned(server: Server, key: str) -> None:
    """A token of a known form that is not a secret of this server."""
    token = "ghp_" + "a1B2" * 9
    answer = told(server, result(content=[{"type": "image", "mimeType": "image/png", key: f"see {token}"}]))
    assert token not in repr(answer) and "see [" in answer.content[0][key]


def test_progress_is_masked(server: Server) -> None:
    heard: list[Any] = []
    said = {"progress": 730215984, "message": f"with {SECRET}", SECRET: 1}
    told(server, {"method": "notifications/progress", "params": said}, result(), progress=heard.append)
    assert heard == [{"progress": "[secret]", "message": "with [secret]", "[secret]": 1}]


@pytest.mark.parametrize("encoding", ["plain", "percent", "wrapped base64", "base64 twice"])
def test_a_request_of_the_servers_own_is_masked(
    folder: Path, tmp_path: Path, settings: Settings, manifest: Manifest, encoding: str
) -> None:
    """All the way: an elicitation's text becomes a file that the agent reads."""
    value = ENCODED[encoding](SECRET)
    asked = {
        "id": 1,
        "method": "elicitation/create",
        "params": {"message": value, value: {"x": [730215984, "ghp_" + "a1B2" * 9]}},
    }
    workspace = nowhere(folder / "program" / "server.py")
    workspace.tools.mkdir(exist_ok=True)
    (workspace.tools / "little.json").write_bytes(manifest.to_bytes())
    control = cast(
        Control,
        SimpleNamespace(
            cancelled=threading.Event(), interrupted=threading.Event(), workspace=workspace, lasting=None,
            run_folder=tmp_path, ran=lambda: None,
        ),
    )  # fmt: skip
    host = JobServer("jail", (), (), (), ())
    call = ToolCall("little", "echo", manifest.digest, json.dumps({"say": [asked]})).bound(host)
    job = cast(Job, SimpleNamespace(limits=SimpleNamespace(time_sec=20), action=call))
    cleared = cast(Clearance, SimpleNamespace(must_cover=lambda job: None))
    outcome = CallRunner(settings).run(cleared, job, control)
    [item] = outcome.artifacts
    assert (outcome.status, item.path) == ("input_required", "input_required.json")
    data = (tmp_path / "out" / item.path).read_bytes()
    params = json.loads(data)["input_required"]["params"]
    assert value not in data.decode() and "[secret]" in params.pop("message")
    [(key, inner)] = params.items()
    assert "[secret]" in key and inner["x"][0] == "[secret]" and "ghp_" not in inner["x"][1]


@pytest.mark.parametrize("encoding", ["plain", "hex"])
@pytest.mark.parametrize(
    "source",
    [
        "sys.stderr.write('no: ' + V + '\\n'); sys.stderr.flush(); os._exit(1)",
        "sys.stderr.write(V * 300); sys.stderr.flush(); os._exit(1)",
        "import time\ndef pages(cursor): sys.stderr.write('no: ' + V); sys.stderr.flush(); os._exit(1)",
    ],
)
def test_its_last_words_are_masked(
    folder: Path, settings: Settings, manifest: Manifest, source: str, encoding: str
) -> None:
    value = ENCODED[encoding](SECRET)
    path = write_server(folder, f"V = {value!r}\n{source}", "last.py")
    pinned = replace(
        pinned_server(folder / "program" / "server.py", place="host"), argv=("/usr/bin/python3", str(path))
    )
    with pytest.raises(ServerError) as ended:
        found = replace(pinned, program=program_digests(pinned), secrets=("TOKEN",))
        with Server(nowhere(path), settings, found) as server:
            server.check_pinned()
    words = str(ended.value)
    assert all(value[at : at + 8] not in words for at in range(len(value) - 8)), words


def test_an_error_before_a_call_is_masked(folder: Path, settings: Settings, manifest: Manifest) -> None:
    source = "def pages(cursor): raise KeyError\ndef begun(): say({'id': 2, 'error': {'code': 1, 'message': %r}})"
    path = write_server(folder, source % f"no {SECRET} {NUMBER}", "error.py")
    found = replace(manifest, argv=("/usr/bin/python3", str(path)))
    found = replace(found, program=program_digests(found))
    with (
        pytest.raises(ServerError, match=r"no \[secret\] \[secret\]"),
        Server(nowhere(path), settings, found) as server,
    ):  # noqa: E501
        server.initialize()
        server.list_tools()


@pytest.mark.parametrize("value", ["j", "12345", "xy.z"])
def test_a_secret_too_short_to_be_masked_is_refused_when_it_is_set(tmp_path: Path, value: str) -> None:
    (tmp_path / "short").write_text(f"{value}\n")
    with pytest.raises(
        Unavailable, match=r"secrets\.TOKEN names has fewer than 6 characters.*use a longer one"
    ) as short:
        read_secret("TOKEN", SecretReference(file=str(tmp_path / "short")))
    assert value not in str(short.value)


@pytest.mark.parametrize(
    "made",
    [
        lambda: "\\" * (4 * MIB),
        lambda: "%25" * MIB,
        lambda: SECRET[:-1] * (MIB // 20),
        lambda: (SECRET[:1] + " " * 50) * 80_000,
        lambda: base64.b64encode(SECRET[:-1].encode() * 150_000).decode(),
    ],
)
def test_masking_takes_time_that_is_linear_in_the_text(made: Callable[[], str]) -> None:
    known, hostile = KnownValues([SECRET]), made()
    began = time.monotonic()
    assert known.text(hostile) == hostile
    assert time.monotonic() - began < 5, "quadratic time would take hours"


@pytest.mark.parametrize("length", [2_049, LOGIN_TOKEN_CHARS])
def test_a_long_token_is_masked_from_end_to_end(length: int) -> None:
    """One of 12,000 characters was too large for a pattern, and no call could be made with it."""
    token = "".join(random.Random(length).choices(string.ascii_letters + string.digits + "-_./+=", k=length))
    known = KnownValues([token])
    for before in ("", "a", "ab"):
        for said in (
            before + token,
            before + json.dumps(token),
            base64.b64encode(f"{before}{token}!!".encode()).decode(),
            token.encode().hex(),
        ):
            left = known.text(said)
            assert len(left.replace("[secret]", "")) < 12, left
    assert known.met
