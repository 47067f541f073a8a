"""A server at a URL is discovered, compared and called: servers of the SDK over TLS, in both protocols."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared import inbound
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel, Field

from tests.plugins.tools.https_servers import (
    META,
    NAME,
    SESSION,
    STATELESS,
    STREAM,
    Authority,
    LittleRemote,
    json_answer,
    little_remote,
    pinned_remote,
    remote_manifest,
    result,
    said,
    sdk_server,
)
from tests.support import wait_until
from threegate.core import canonical
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.called_server import Answer
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.message_stream import ServerError
from threegate.plugins.tools.remote.mirrored_headers import header_problem, header_text, mirrored
from threegate.plugins.tools.remote.remote_server import RemoteServer
from threegate.plugins.tools.server_process import open_fresh

MIB = 1 << 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace")


class Much(BaseModel):
    """What the tool asks for."""

    euros: int


class Served:
    """A server of the SDK. What was called is in `calls`."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.requests: list[dict[str, str]] = []
        self.server = MCPServer("weather", version="1.2", instructions="Ask for a town.")

        @self.server.tool(title="The weather")
        async def weather(
            town: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Town"})],
            ctx: Context,
            days: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Days"})] = 1,
        ) -> dict[str, Any]:
            """Of a town."""
            self.calls.append((town, days))
            await ctx.report_progress(1, 2, "looking")
            return {"town": town, "days": days}

        @self.server.tool()
        def fails() -> str:
            """Never works."""
            self.calls.append("fails")
            raise ToolError("no rain today")

        @self.server.tool()
        async def pays(ctx: Context) -> str | InputRequiredResult:
            """Asks before it pays."""
            self.calls.append("pays")
            if ctx.request_context.protocol_version == STATELESS:
                asked = ElicitRequestFormParams(
                    message="How much?", requested_schema={"type": "object", "properties": {}}
                )
                return InputRequiredResult(input_requests={"much": ElicitRequest(params=asked)}, request_state="opaque")
            return str(await ctx.elicit("How much?", Much))

    def app(self, *, stateless: bool = True, as_json: bool = False, old: bool = False) -> Any:
        inner = self.server.streamable_http_app(
            stateless_http=stateless,
            json_response=as_json,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                self.requests.append({"method": scope["method"], **headers})
                if old and headers.get("mcp-protocol-version") == STATELESS:  # as an SDK of last year answers
                    await send({"type": "http.response.start", "status": 400, "headers": []})
                    await send({"type": "http.response.body", "body": b"Unsupported protocol version"})
                    return
            await inner(scope, receive, send)

        return app


def called(
    workspace: Workspace, manifest: Manifest, authority: Authority, tool: str, arguments: dict[str, Any], **more: Any
) -> Answer:
    with open_fresh(workspace, Settings(), manifest, reach=authority.reach()) as server:
        server.check_pinned()
        return server.call(tool, arguments, 20, MIB, **more)


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(("version", "stateless"), [(STATELESS, True), (SESSION, True), (SESSION, False)])
def test_a_server_of_the_sdk(
    authority: Authority, workspace: Workspace, version: str, stateless: bool, as_json: bool
) -> None:
    """The same in every way that it can be run: its words are pinned, and one call reaches it once."""
    served = Served()
    with sdk_server(authority, served.app(stateless=stateless, as_json=as_json, old=version == SESSION)) as url:
        manifest = pinned_remote(workspace, url, authority.reach())
        assert manifest.initialize["protocolVersion"] == version
        assert manifest.initialize["serverInfo"]["name"] == "weather"
        assert manifest.initialize["instructions"] == "Ask for a town."
        assert [tool.name for tool in manifest.tools] == ["weather", "fails", "pays"]
        assert manifest.tools[0].title == "The weather" and manifest.hosts == (NAME,)
        assert Manifest.parse(json.loads(manifest.to_bytes())) == manifest
        heard: list[Any] = []
        answer = called(workspace, manifest, authority, "weather", {"town": "Zürich", "days": 3}, progress=heard.append)
        assert answer.structured == {"town": "Zürich", "days": 3} and not answer.is_error
        assert heard == ([] if as_json else [{"progress": 1, "total": 2, "message": "looking"}])
        failed = called(workspace, manifest, authority, "fails", {})
        assert failed.is_error and "no rain today" in str(failed.content)
    assert served.calls == [("Zürich", 3), "fails"]
    posts = [line for line in served.requests if line["method"] == "POST"]
    assert all(line["accept-encoding"] == "identity" for line in posts)
    if version == STATELESS:
        (call, _) = [line for line in posts if line["mcp-method"] == "tools/call"]
        assert (call["mcp-name"], call["mcp-param-days"]) == ("weather", "3")
        assert call["mcp-param-town"] == "=?base64?WsO8cmljaA==?="
    assert {line["method"] for line in served.requests} == ({"POST"} if stateless else {"POST", "DELETE"})


def test_a_session_lives_for_one_call(authority: Authority, workspace: Workspace) -> None:
    with little_remote(authority, version=SESSION) as remote:
        manifest = pinned_remote(workspace, remote.url, authority.reach())
        for _ in range(2):
            called(workspace, manifest, authority, "echo", {})
        sessions = [heard.headers["mcp-session-id"] for heard in remote.came("tools/call")]
        assert len(set(sessions)) == 2
        for session in sessions:
            mine = [heard.asked for heard in remote.heard if heard.headers.get("mcp-session-id") == session]
            assert mine == ["notifications/initialized", "tools/list", "tools/call", "DELETE"]
        assert all(heard.headers["mcp-protocol-version"] == SESSION for heard in remote.came("tools/call"))
        assert all("mcp-session-id" not in heard.headers for heard in remote.came("initialize"))


@pytest.mark.parametrize("version", [STATELESS, SESSION])
def test_a_tool_of_the_sdk_that_asks_back(authority: Authority, workspace: Workspace, version: str) -> None:
    """It gets nothing, and is not called again with an answer."""
    served = Served()
    with sdk_server(authority, served.app(stateless=False, old=version == SESSION)) as url:
        manifest = pinned_remote(workspace, url, authority.reach())
        with pytest.raises(ServerError) as asked:
            called(workspace, manifest, authority, "pays", {})
    assert (asked.value.code, asked.value.reached) == ("input_required", True)
    assert "How much?" in json.dumps(asked.value.asked) and "opaque" not in json.dumps(asked.value.asked)
    assert served.calls == ["pays"]


@pytest.mark.parametrize("version", [STATELESS, SESSION, "2025-06-18", "2025-03-26"])
def test_what_is_sent_has_the_signed_bytes(authority: Authority, workspace: Workspace, version: str) -> None:
    arguments = {"é": 1e21, "text": 'a\u2028b"\\', "n": [1.5, -0.0, 10**15], "z": {"b": None, "a": True}}
    with little_remote(authority, version=version) as remote:
        manifest = pinned_remote(workspace, remote.url, authority.reach())
        assert manifest.initialize["protocolVersion"] == version
        called(workspace, manifest, authority, "echo", arguments)
        (call,) = remote.came("tools/call")
        assert canonical.canonical_bytes(arguments) in call.body and call.message["params"]["arguments"] == arguments
        meta = call.message["params"].get("_meta", {})
        if version == STATELESS:
            assert meta[f"{META}protocolVersion"] == STATELESS and meta[f"{META}clientCapabilities"] == {}
            assert (call.headers["mcp-method"], call.headers["mcp-name"]) == ("tools/call", "echo")
        else:
            assert meta == {} and not any(name.startswith("mcp-m") for name in call.headers)


def test_the_protocol_that_was_signed_is_the_one_that_is_spoken(authority: Authority, workspace: Workspace) -> None:
    """One that forgets the newer protocol is another server, and is not asked for the older one."""
    with little_remote(authority) as remote:
        manifest = pinned_remote(workspace, remote.url, authority.reach())
        remote.version = SESSION
        with pytest.raises(ServerError, match="answered 400"):
            called(workspace, manifest, authority, "echo", {})
        assert remote.came("initialize") == remote.came("tools/call") == []
        again = pinned_remote(workspace, remote.url, authority.reach())
        assert again.initialize["protocolVersion"] == SESSION


def test_one_that_speaks_neither(authority: Authority, workspace: Workspace) -> None:
    with little_remote(authority, version="2024-11-05") as remote:
        with pytest.raises(ServerError, match="supports none of MCP 2025-11-25"):
            pinned_remote(workspace, remote.url, authority.reach())
        remote.answers["initialize"] = lambda _: [b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"]
        with pytest.raises(ServerError, match="answered 405 without a message"):
            pinned_remote(workspace, remote.url, authority.reach())


def test_pages_of_tools_in_another_order_are_no_change(authority: Authority, workspace: Workspace) -> None:
    rows = [{"name": f"tool{number}", "inputSchema": {"type": "object"}} for number in range(6)]

    def page(heard: Any) -> list[bytes]:
        cursor = int(heard.message["params"].get("cursor", "0"))
        found = {"tools": rows[cursor : cursor + 2]} | ({"nextCursor": str(cursor + 2)} if cursor < 4 else {})
        return [json_answer(result(heard, found))]

    with little_remote(authority) as remote:
        remote.answers["tools/list"] = page
        manifest = pinned_remote(workspace, remote.url, authority.reach())
        random.Random(1).shuffle(rows)
        assert called(workspace, manifest, authority, "tool3", {}).content
        assert [tool.name for tool in manifest.tools] == [f"tool{number}" for number in range(6)]


def test_an_answer_as_a_stream_in_any_pieces(authority: Authority, workspace: Workspace) -> None:
    """Comments, events without data and of other kinds, ends of lines of all three kinds."""
    with little_remote(authority) as remote:
        manifest = pinned_remote(workspace, remote.url, authority.reach())

        def call(heard: Any) -> Iterator[bytes]:
            data = json.dumps(result(heard, said("ü")), ensure_ascii=False).encode()
            half = data.index(b",") + 1
            whole = (
                b"\xef\xbb\xbf: hello\r\n\r\nid: 1\nretry: 5\ndata:\n\nevent: endpoint\rdata: /old\r\r"
                b"event: message\r\ndata: " + data[:half] + b"\r\ndata:" + data[half:] + b"\r\n\r\n: bye"
            )
            yield STREAM
            for at in range(0, len(whole), 7):
                yield whole[at : at + 7]

        remote.answers["tools/call"] = call
        assert called(workspace, manifest, authority, "echo", {}).content[0]["text"] == "ü"


def test_stopped_from_another_thread(authority: Authority, workspace: Workspace) -> None:
    """The connection ends, which is how a call of this protocol is cancelled."""
    with little_remote(authority) as remote:
        manifest = pinned_remote(workspace, remote.url, authority.reach())
        remote.answers["tools/call"] = lambda _: (remote.over.wait(60) and b"" for _ in range(1))
        with open_fresh(workspace, Settings(), manifest, reach=authority.reach()) as server:
            server.check_pinned()
            stopper = threading.Thread(target=lambda: (wait_until(lambda: remote.came("tools/call")), server.cancel()))
            stopper.start()
            with pytest.raises(ServerError) as cancelled:
                server.call("echo", {}, 60, MIB)
            stopper.join()
            assert (cancelled.value.code, cancelled.value.reached) == ("cancelled", True)
            with pytest.raises(ServerError) as again:
                server.call("echo", {}, 60, MIB)
            assert (again.value.code, again.value.reached) == ("cancelled", False)
        assert len(remote.came("tools/call")) == 1


SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}},
    {"properties": {"a": {"properties": {"b": {"type": "integer", "x-mcp-header": "A-b"}}}}},
    {"properties": {"a": {"type": "boolean", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "B"}}},
    {"properties": {"a": {"type": "boolean", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}},
    {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
    {"properties": {"a": {"type": ["string"], "x-mcp-header": "A"}}},
    {"properties": {"a": {"x-mcp-header": "A"}}},
    {"properties": {"a": {"type": "string", "x-mcp-header": "A: b\r\nC"}}},
    {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
    {"properties": {"a": {"type": "string", "x-mcp-header": 7}}},
    {"properties": {"a": {"items": {"type": "string", "x-mcp-header": "A"}}}},
    {"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]},
    {"$defs": {"a": {"properties": {"b": {"type": "string", "x-mcp-header": "A"}}}}},
    {"x-mcp-header": "A", "type": "object"},
    {"default": {"x-mcp-header": "A"}, "properties": {"a": True, "x-mcp-header": {"type": "string"}}},
]
VALUES: list[Any] = [
    {}, {"a": None}, {"a": "x"}, {"a": " x"}, {"a": "é\r\nX: y"}, {"a": "=?base64?eA==?="}, {"a": True, "b": ""},
    {"a": 7}, {"a": {"b": 9}}, {"a": {"b": 10**15}}, {"a": {"b": 1e21}}, {"a": ["x"]}, {"a": {"b": [1]}},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS)
def test_mirrored_headers_are_those_of_the_sdk(schema: Any) -> None:
    """Of its own functions, which a server of the SDK checks a call with."""
    theirs = inbound.find_invalid_x_mcp_header(schema)
    assert (header_problem(schema) is None) == (theirs is None)
    for arguments in VALUES if theirs is None else ():
        wanted = inbound.mcp_param_headers(inbound.x_mcp_header_map(schema), arguments)
        assert dict(mirrored(schema, arguments)) == wanted
        assert inbound.validate_mcp_param_headers(schema, arguments, dict(mirrored(schema, arguments))) is None


@pytest.mark.parametrize("text", ["x", "", " ", "x ", "é", "a\nb", "=?base64??=", "\x7f"])
def test_the_text_of_a_header_is_that_of_the_sdk(text: str) -> None:
    assert header_text(text) == inbound.encode_header_value(text)
    assert inbound.decode_header_value(header_text(text)) == text


def test_a_tool_whose_headers_cannot_be_obeyed_is_not_pinned(authority: Authority, workspace: Workspace) -> None:
    """By a protocol that has such headers."""
    with little_remote(authority) as remote:
        remote.tools[0]["inputSchema"] = SCHEMAS[4]
        with pytest.raises(ServerError, match="the tool echo has x-mcp-header for a, which is not a string"):
            pinned_remote(workspace, remote.url, authority.reach())
        remote.version = SESSION
        assert pinned_remote(workspace, remote.url, authority.reach()).tools


@contextmanager
def with_headers(remote: LittleRemote, manifest: Manifest, *lines: tuple[str, str]) -> Iterator[RemoteServer]:
    with RemoteServer(manifest, lambda: lines, reach=remote.authority.reach()) as server:
        yield server


@pytest.mark.parametrize("version", [STATELESS, SESSION])
def test_what_it_was_given_is_masked_in_all_it_says(authority: Authority, version: str) -> None:
    """The token of its login, other kept headers, and the session."""
    with little_remote(authority, version=version) as remote:

        def tell(heard: Any) -> list[bytes]:
            return [json_answer(result(heard, said(json.dumps(dict(heard.headers)))))]

        remote.answers["tools/call"] = tell
        lines = (("authorization", "Bearer TOKEN-VALUE-1"), ("x-api-key", "KEY-VALUE-2"))
        with with_headers(remote, remote_manifest(remote.url), *lines) as server:
            initialize, tools = server.initialize(), server.list_tools()
            assert not server.told_secret
        manifest = remote_manifest(remote.url, initialize=initialize, tools=tools)
        with with_headers(remote, manifest, *lines) as server:
            server.check_pinned()
            text = server.call("echo", {}, 20, MIB).content[0]["text"]
            assert server.told_secret
        sessions = [heard.headers.get("mcp-session-id", "none") for heard in remote.came("tools/call")]
        assert "VALUE" not in text and sessions[0] not in text and text.count("[secret]") == (2 + (version == SESSION))
        assert all(heard.headers["authorization"] == "Bearer TOKEN-VALUE-1" for heard in remote.heard)
