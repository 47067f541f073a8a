"""An environment of AgentDojo as a server of tools (MCP over stdio); started by ThreeGate, one process for each call.

    python server.py SUITE FOLDER [RECORDED]

FOLDER/task names the task whose world it is. FOLDER/calls has a line for each call that reached the server; a fresh
process makes them again in a fresh world, so the state is what was done. With RECORDED (tests/data/agentdojo.json) the
package is not needed: the tools are the recorded ones, a call is noted and answered by one word.

This file runs in the environment of bench/dojo/package.py, which has neither ThreeGate nor the MCP SDK.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

VERSION = "v1.2.2"
"""Of the benchmark's tasks: the newest that agentdojo 0.1.35 has."""


def load_suites() -> dict[str, Any]:
    """The suites by name. The package imports clients of models on its way to them; empty modules take their place."""
    found = find_spec("agentdojo")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("agentdojo is not installed here; see: python -m bench.dojo.package")
    pipeline = ModuleType("agentdojo.agent_pipeline")
    pipeline.__path__ = [f"{found.submodule_search_locations[0]}/agent_pipeline"]
    clients = ModuleType("agentdojo.agent_pipeline.llms")
    clients.__path__ = []
    google = ModuleType("agentdojo.agent_pipeline.llms.google_llm")
    google.EMPTY_FUNCTION_NAME = "<empty-function-name>"  # type: ignore[attr-defined]
    sys.modules.update({module.__name__: module for module in (pipeline, clients, google)})
    from agentdojo.task_suite.load_suites import get_suites  # type: ignore[import-not-found]

    return dict(get_suites(VERSION))


class World:
    """The environment of a task, and what was done in it."""

    def __init__(self, suite: Any, task: str) -> None:
        """A fresh one. `task` is a user task, or anything else for the environment as it is."""
        from agentdojo.agent_pipeline.tool_execution import tool_result_to_str  # type: ignore[import-not-found]
        from agentdojo.functions_runtime import FunctionsRuntime  # type: ignore[import-not-found]

        self.environment = suite.load_and_inject_default_environment({})
        if task in suite.user_tasks:
            self.environment = suite.user_tasks[task].init_environment(self.environment)
        self._runtime = FunctionsRuntime(suite.tools)
        self._text = tool_result_to_str

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool, bool]:
        """(answer, whether it is an error, whether the environment is another one now)."""
        before = self.environment.model_dump()
        value, error = self._runtime.run_function(self.environment, tool, arguments)
        return error or self._text(value), error is not None, self.environment.model_dump() != before


def tools_of(suite: Any) -> list[dict[str, Any]]:
    """The tools as MCP lists them."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": tool.parameters.model_json_schema(),
        }
        for tool in suite.tools
    ]


def record() -> dict[str, Any]:
    """Tools, and each task's ground truth: rows of [tool, arguments, whether the call changed anything]."""
    found: dict[str, Any] = {}
    for name, suite in load_suites().items():
        found[name] = {
            "tools": tools_of(suite),
            "user_tasks": {task: list(_ground_truth(suite, task, suite.user_tasks)) for task in suite.user_tasks},
            "injection_tasks": {
                task: list(_ground_truth(suite, task, suite.injection_tasks)) for task in suite.injection_tasks
            },
        }
    return found


def _ground_truth(suite: Any, task: str, tasks: Any) -> Iterator[list[Any]]:
    world = World(suite, task)
    for call in tasks[task].ground_truth(world.environment):
        arguments = json.loads(json.dumps(call.args))
        yield [call.function, arguments, world.call(call.function, arguments)[2]]


def main() -> None:
    """Answer until the input ends."""
    if sys.argv[1:] == ["--record"]:
        print(json.dumps(record()))
        return
    name, folder, *recorded = sys.argv[1:]
    done = Path(folder, "calls")
    made = [json.loads(line) for line in done.read_text().splitlines()] if done.exists() else []
    suite = world = None
    if recorded:
        tools = json.loads(Path(recorded[0]).read_text())["suites"][name]["tools"]
    else:
        suite = load_suites()[name]
        tools = tools_of(suite)
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            answer: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": f"agentdojo {name}", "version": VERSION},
            }
        elif method == "tools/list":
            answer = {"tools": tools}
        elif method == "tools/call":
            call = [message["params"]["name"], message["params"]["arguments"]]
            with done.open("a") as stream:
                stream.write(json.dumps(call) + "\n")
            text, failed = "noted", False
            if suite is not None:
                if world is None:
                    world = World(suite, Path(folder, "task").read_text())
                    for before in made:
                        world.call(*before)
                text, failed, _ = world.call(*call)
            answer = {"content": [{"type": "text", "text": text}], "isError": failed}
        else:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": number, "result": answer}), flush=True)


if __name__ == "__main__":
    main()
