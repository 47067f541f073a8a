"""An agent of the OpenAI Agents SDK whose only tool is ThreeGate: what it wants to run waits for a person."""

import asyncio
from pathlib import Path

from agents import Agent, Model, RunConfig, Runner, function_tool
from folder import Folder, Refused, stdout_of


def threegate_agent(model: Model | str, workspace: Path, prompt: str, poll_seconds: float = 1.0) -> Agent:
    """The agent. `prompt` is what `threegate agent prompt` prints."""
    folder = Folder(workspace, "openai-agent", poll_seconds)

    @function_tool
    async def run_python(code: str, purpose: str) -> str:
        """Run a little Python, once, after a person approved it. Print what you want to read."""
        try:
            return stdout_of(await asyncio.to_thread(folder.run_python, code, purpose))
        except Refused as error:
            return f"refused, do not try the same again: {error}"

    return Agent(name="asks ThreeGate", instructions=prompt, model=model, tools=[run_python])


async def answer(agent: Agent, question: str) -> str:
    """Let the agent work on a question. Tracing to OpenAI's servers is off."""
    result = await Runner.run(agent, question, run_config=RunConfig(tracing_disabled=True))
    return str(result.final_output)
