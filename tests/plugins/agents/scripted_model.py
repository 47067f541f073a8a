"""A model that follows a script: the server side of four protocols on loopback, for real agents without a real model.

It speaks OpenAI Responses, OpenAI chat completions, Anthropic messages and Gemini generateContent, each streamed and
whole. One script is one conversation: every request that offers tools takes the next step. A request that offers none
(a title, a summary) gets a fixed text and takes no step, and a request that was sent twice gets the same answer twice.
Every request is kept, so that a test can assert what the agent offered and what its tools answered.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

ASIDE = "A scripted session"
"""What a request without tools is answered."""
OVER = "The script is over."
"""What a request is answered that comes after the last step; `Model.extra` counts them."""


@dataclass(frozen=True)
class Offered:
    """A tool of a request. `free` takes text instead of an object; `namespace` is its group in the Responses API."""

    name: str
    free: bool = False
    namespace: str = ""

    @property
    def full_name(self) -> str:
        """The name with its group."""
        return f"{self.namespace}__{self.name}" if self.namespace else self.name


@dataclass(frozen=True)
class Turn:
    """What one request says: the tools it offers, the answers of the tools so far, and what was written by the user."""

    protocol: str
    path: str
    key: str
    body: Mapping[str, Any]
    tools: tuple[Offered, ...]
    results: tuple[str, ...]
    user: str

    @property
    def result(self) -> str:
        """The last answer of a tool, as the agent passed it on."""
        return self.results[-1] if self.results else ""

    def find(self, name: str) -> Offered:
        """The one offered tool of that name, or the one whose full name ends in it after an underscore."""
        found = [tool for tool in self.tools if tool.name == name]
        found = found or [tool for tool in self.tools if tool.full_name.endswith(f"_{name}")]
        if len(found) != 1:
            raise LookupError(f"{len(found)} tools match {name!r}: {[tool.full_name for tool in self.tools]}")
        return found[0]


@dataclass(frozen=True)
class Say:
    """The model ends its turn with a text."""

    text: str | Callable[[Turn], str]


Arguments = Mapping[str, Any] | str


@dataclass(frozen=True)
class Call:
    """The model calls one tool; arguments may be made of the request that has the last tool's answer."""

    tool: str
    arguments: Arguments | Callable[[Turn], Arguments]


Step = Say | Call
NextStep = Step | Callable[[Turn], Step]
"""A step may be chosen by what came back, as a model would."""


@dataclass(frozen=True)
class Act:
    """A step as it is sent: a text, or a tool of this request with its arguments."""

    text: str = ""
    tool: Offered | None = None
    arguments: Arguments = field(default_factory=dict)
    number: int = 0

    @property
    def json(self) -> str:
        """The arguments as text."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


Event = tuple[str, Mapping[str, Any]]
"""The name and the data of one server-sent event."""


def _text(content: Any) -> str:
    """The text of a message, a tool's answer, or a list of parts of either."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        for name in ("text", "output", "content", "error"):
            if name in content:
                return _text(content[name])
        return json.dumps(content)
    return "\n".join(_text(part) for part in content or ())


def _responses_turn(body: Mapping[str, Any]) -> tuple[list[Offered], list[str], str]:
    tools = []
    for tool in body.get("tools") or ():
        if tool["type"] == "namespace":
            tools += [Offered(part["name"], part["type"] == "custom", tool["name"]) for part in tool["tools"]]
        elif tool["type"] in ("function", "custom"):
            tools.append(Offered(tool["name"], tool["type"] == "custom"))
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    results = [_text(item["output"]) for item in items if str(item.get("type")).endswith("_call_output")]
    return tools, results, _last(_text(item["content"]) for item in items if item.get("role") == "user")


def _chat_turn(body: Mapping[str, Any]) -> tuple[list[Offered], list[str], str]:
    messages = body["messages"]
    tools = [Offered(tool["function"]["name"]) for tool in body.get("tools") or ()]
    results = [_text(item["content"]) for item in messages if item["role"] == "tool"]
    return tools, results, _last(_text(item["content"]) for item in messages if item["role"] == "user")


def _messages_turn(body: Mapping[str, Any]) -> tuple[list[Offered], list[str], str]:
    tools = [Offered(tool["name"]) for tool in body.get("tools") or () if "input_schema" in tool]
    parts = [
        part if isinstance(part, Mapping) else {"type": "text", "text": part}
        for item in body["messages"]
        if item["role"] == "user"
        for part in (item["content"] if isinstance(item["content"], list) else [item["content"]])
    ]
    results = [_text(part.get("content")) for part in parts if part["type"] == "tool_result"]
    return tools, results, _last(part["text"] for part in parts if part["type"] == "text")


def _gemini_turn(body: Mapping[str, Any]) -> tuple[list[Offered], list[str], str]:
    tools = [
        Offered(tool["name"]) for group in body.get("tools") or () for tool in group.get("functionDeclarations") or ()
    ]
    parts = [part for item in body["contents"] if item.get("role") != "model" for part in item["parts"]]
    results = [_text(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]
    return tools, results, _last(part["text"] for part in parts if "text" in part)


def _last(texts: Iterator[str]) -> str:
    return next(iter(reversed(list(texts))), "")


def _responses_answer(body: Mapping[str, Any], act: Act) -> tuple[Mapping[str, Any], list[Event]]:
    item: dict[str, Any]
    part = {"type": "output_text", "text": act.text, "annotations": []}
    if act.tool is None:
        item = {"type": "message", "id": f"msg_{act.number}", "role": "assistant", "content": [part]}
    elif act.tool.free:
        item = {"type": "custom_tool_call", "id": f"ctc_{act.number}", "input": act.json}
    else:
        item = {"type": "function_call", "id": f"fc_{act.number}", "arguments": act.json}
    if act.tool is not None:
        item |= {"call_id": f"call_{act.number}", "name": act.tool.name}
        item |= {"namespace": act.tool.namespace} if act.tool.namespace else {}
    item["status"] = "completed"
    usage = {
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15,
    }  # fmt: skip
    whole = {
        "id": f"resp_{act.number}", "object": "response", "created_at": 0, "model": body.get("model", ""),
        "status": "completed", "output": [item], "usage": usage, "error": None, "incomplete_details": None,
        "instructions": None, "metadata": {}, "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    begun: dict[str, Any] = {**whole, "status": "in_progress", "output": [], "usage": None}
    where = {"output_index": 0, "item_id": item["id"]}
    if act.tool is None:
        place = {**where, "content_index": 0}
        start = {**item, "content": []}
        deltas = [
            ("response.content_part.added", {**place, "part": {**part, "text": ""}}),
            ("response.output_text.delta", {**place, "delta": act.text, "logprobs": []}),
        ]
    elif act.tool.free:
        start, deltas = (
            {**item, "input": ""},
            [("response.custom_tool_call_input.delta", {**where, "delta": act.json})],
        )
    else:
        start = {**item, "arguments": ""}
        deltas = [("response.function_call_arguments.delta", {**where, "delta": act.json})]
    events: list[Event] = [
        ("response.created", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": {**start, "status": "in_progress"}}),
        *deltas,
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": whole}),
    ]
    return whole, [
        (name, {"type": name, "sequence_number": number, **data}) for number, (name, data) in enumerate(events)
    ]


def _chat_answer(body: Mapping[str, Any], act: Act) -> tuple[Mapping[str, Any], list[Event]]:
    message: dict[str, Any] = {"role": "assistant", "content": act.text or None}
    if act.tool is not None:
        function = {"name": act.tool.name, "arguments": act.json}
        message["tool_calls"] = [{"index": 0, "id": f"call_{act.number}", "type": "function", "function": function}]
    end = "stop" if act.tool is None else "tool_calls"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {"id": f"chatcmpl-{act.number}", "created": 0, "model": body.get("model", "")}
    whole = {
        **head, "object": "chat.completion", "usage": usage,
        "choices": [{"index": 0, "message": message, "finish_reason": end, "logprobs": None}],
    }  # fmt: skip
    chunk = {**head, "object": "chat.completion.chunk"}
    return whole, [
        ("", {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
        ("", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]}),
        ("", {**chunk, "choices": [], "usage": usage}),
        ("", {}),
    ]


def _messages_answer(body: Mapping[str, Any], act: Act) -> tuple[Mapping[str, Any], list[Event]]:
    block: dict[str, Any]
    if act.tool is None:
        block, start = {"type": "text", "text": act.text}, {"type": "text", "text": ""}
        delta, end = {"type": "text_delta", "text": act.text}, "end_turn"
    else:
        block = {
            "type": "tool_use",
            "id": f"toolu_{act.number}",
            "name": act.tool.name,
            "input": act.arguments,
        }
        start = {**block, "input": {}}
        delta, end = {"type": "input_json_delta", "partial_json": act.json}, "tool_use"
    whole = {
        "id": f"msg_{act.number}", "type": "message", "role": "assistant", "model": body.get("model", ""),
        "content": [block], "stop_reason": end, "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }  # fmt: skip
    events: list[Event] = [
        ("message_start", {"message": {**whole, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": start}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        (
            "message_delta",
            {"delta": {"stop_reason": end, "stop_sequence": None}, "usage": {"output_tokens": 5}},
        ),
        ("message_stop", {}),
    ]
    return whole, [(name, {"type": name, **data}) for name, data in events]


def _gemini_answer(body: Mapping[str, Any], act: Act) -> tuple[Mapping[str, Any], list[Event]]:
    part: dict[str, Any] = {"text": act.text}
    if act.tool is not None:
        part = {"functionCall": {"id": f"call_{act.number}", "name": act.tool.name, "args": act.arguments}}
    whole = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "scripted", "responseId": f"resp_{act.number}",
    }  # fmt: skip
    return whole, [("", whole)]


_Reader = Callable[[Mapping[str, Any]], tuple[list[Offered], list[str], str]]
_Writer = Callable[[Mapping[str, Any], Act], tuple[Mapping[str, Any], list[Event]]]

_PROTOCOLS: dict[str, tuple[str, _Reader, _Writer]] = {
    "/responses": ("responses", _responses_turn, _responses_answer),
    "/chat/completions": ("chat", _chat_turn, _chat_answer),
    "/messages": ("messages", _messages_turn, _messages_answer),
    ":generateContent": ("gemini", _gemini_turn, _gemini_answer),
    ":streamGenerateContent": ("gemini", _gemini_turn, _gemini_answer),
}
"""The protocol by the end of the path."""

_COUNTS = {"/messages/count_tokens": {"input_tokens": 10}, ":countTokens": {"totalTokens": 10}}


class Model:
    """The server. `url` has no path; the agents add `/v1` or `/v1beta` as their protocol says."""

    def __init__(self, script: Sequence[NextStep]) -> None:
        """Listen on a free port of loopback. `script` is what the model does, one step a request."""
        self.turns: list[Turn] = []
        """The requests that took a step."""
        self.asides: list[Turn] = []
        """The requests without tools."""
        self.other: list[str] = []
        """Method and path of whatever else was asked."""
        self.faults: list[str] = []
        """What a test must see empty: steps that named no tool of the request, and errors in a step's function."""
        self.extra = 0
        self._script = list(script)
        self._answers: dict[str, Future[Act]] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Bound", (_Handler,), {"model": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def left(self) -> int:
        """Steps that no request has taken."""
        return len(self._script)

    @property
    def results(self) -> tuple[str, ...]:
        """Every answer of a tool that the last request passed on."""
        return self.turns[-1].results if self.turns else ()

    def check(self) -> None:
        """Assert that the script was followed to its end and no further."""
        assert not self.faults, self.faults
        assert (self.left, self.extra) == (0, 0), (self.left, self.extra, self.results)

    @contextmanager
    def serving(self) -> Iterator[Model]:
        """Answer requests until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def act(self, turn: Turn, digest: str) -> Act:
        """What to answer. A function of a step may block: only the same request, sent again, waits for it too."""
        with self._lock:
            if not turn.tools:
                self.asides.append(turn)
                return Act(ASIDE, number=next(self._numbers))
            known = self._answers.get(digest)
            if known is None:
                future = self._answers[digest] = Future()
                number = next(self._numbers)
                self.turns.append(turn)
                position = len(self.turns)
                step = self._script.pop(0) if self._script else None
                self.extra += step is None
        if known is not None:
            return known.result()
        try:
            act = Act(OVER, number=number) if step is None else _made(step, turn, number)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
            self.faults.append(f"step {position}: {fault}")
            act = Act(fault, number=number)
        future.set_result(act)
        return act


def _made(step: NextStep, turn: Turn, number: int) -> Act:
    if not isinstance(step, Say | Call):
        step = step(turn)
    if isinstance(step, Say):
        return Act(step.text if isinstance(step.text, str) else step.text(turn), number=number)
    arguments = step.arguments(turn) if callable(step.arguments) else step.arguments
    return Act(tool=turn.find(step.tool), arguments=arguments, number=number)


class _Handler(BaseHTTPRequestHandler):
    """One connection a request: the end of an answer is the end of the connection."""

    model: Model

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Models are listed; there is nothing else to get."""
        self.model.other.append(f"GET {self.path}")
        listed = [{"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}]
        if self.path.partition("?")[0].endswith("/models"):
            self._whole({"object": "list", "data": listed})
        else:
            self._whole({"error": {"message": "there is no such page"}}, 404)

    def do_POST(self) -> None:
        """Answer one request of a protocol."""
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        for end, counted in _COUNTS.items():
            if path.endswith(end):
                return self._whole(counted)
        found = next((protocol for end, protocol in _PROTOCOLS.items() if path.endswith(end)), None)
        if found is None:
            self.model.other.append(f"POST {self.path}")
            return self._whole({"error": {"message": "there is no such page"}}, 404)
        name, read, write = found
        body = json.loads(data)
        tools, results, user = read(body)
        turn = Turn(name, self.path, self._key(), body, tuple(tools), tuple(results), user)
        act = self.model.act(turn, hashlib.sha256(self.path.encode() + data).hexdigest())
        whole, events = write(body, act)
        if body.get("stream") or path.endswith(":streamGenerateContent"):
            return self._stream(events)
        return self._whole(whole)

    def _key(self) -> str:
        for name in ("Authorization", "x-api-key", "x-goog-api-key"):
            if value := self.headers.get(name):
                return str(value).removeprefix("Bearer ")
        return ""

    def _whole(self, value: Mapping[str, Any], status: int = 200) -> None:
        data = json.dumps(value).encode()
        self._head(status, "application/json", str(len(data)))
        self.wfile.write(data)

    def _stream(self, events: Sequence[Event]) -> None:
        self._head(200, "text/event-stream")
        for name, data in events:
            line = f"data: {json.dumps(data) if data else '[DONE]'}\n\n"
            self.wfile.write((f"event: {name}\n{line}" if name else line).encode())
            self.wfile.flush()

    def _head(self, status: int, kind: str, length: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        if length:
            self.send_header("Content-Length", length)
        self.end_headers()
