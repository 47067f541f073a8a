"""The tools that `@modelcontextprotocol/conformance` asks for by name, as a server of its own."""

import json
import sys
import time

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
TEXT = {"type": "text", "text": "This is a simple text response for testing."}
ANSWERS = {
    "test_simple_text": [TEXT],
    "test_image_content": [{"type": "image", "data": IMAGE, "mimeType": "image/png"}],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        {"type": "resource", "resource": {"uri": "test://one", "mimeType": "text/plain", "text": "embedded"}}
    ],
    "test_multiple_content_types": [
        TEXT,
        {"type": "image", "data": IMAGE, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "test://two", "mimeType": "application/json", "text": "{}"}},
    ],
    "test_error_handling": [{"type": "text", "text": "This tool intentionally returns an error for testing"}],
    "test_tool_with_progress": [TEXT],
    "json_schema_2020_12_tool": [TEXT],
}
ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
SCHEMAS = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": ADDRESS},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    }
}


def send(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(number: int, params: dict[str, object]) -> None:
    name = str(params["name"])
    if name == "test_tool_with_progress":
        token = params["_meta"]["progressToken"]  # type: ignore[index]
        for step in (0, 50, 100):
            send(
                method="notifications/progress",
                params={"progressToken": token, "progress": step, "total": 100},
            )
            time.sleep(0.6)  # the door passes the newest on, at most every half second
    send(id=number, result={"content": ANSWERS[name], "isError": name == "test_error_handling"})


for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        about = {"name": "conformance", "version": "1"}
        send(
            id=message["id"],
            result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about},
        )
    elif message.get("method") == "tools/list":
        tools = [
            {
                "name": name,
                "description": "As the conformance suite wants it.",
                "inputSchema": SCHEMAS.get(name, {"type": "object"}),
            }
            for name in ANSWERS
        ]
        send(id=message["id"], result={"tools": tools})
    elif message.get("method") == "tools/call":
        call(message["id"], message["params"])
