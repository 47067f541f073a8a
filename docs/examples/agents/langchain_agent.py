"""A LangChain agent whose only tool is ThreeGate: what it wants to run waits for a person."""

from pathlib import Path

from folder import Folder, Refused, stdout_of
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool


def threegate_tool(workspace: Path, poll_seconds: float = 1.0) -> StructuredTool:
    """A tool that drafts a request, waits for its result, and gives the model what was printed."""
    folder = Folder(workspace, "langchain-agent", poll_seconds)

    def run_python(code: str, purpose: str) -> str:
        """Run a little Python, once, after a person approved it. Print what you want to read."""
        try:
            return stdout_of(folder.run_python(code, purpose))
        except Refused as error:
            return f"refused, do not try the same again: {error}"

    return StructuredTool.from_function(run_python)


def answer(model: BaseChatModel, question: str, workspace: Path, prompt: str, poll_seconds: float = 1.0) -> str:
    """Let the model work on a question until it asks for no more runs. `prompt` is `threegate agent prompt`."""
    tool = threegate_tool(workspace, poll_seconds)
    bound = model.bind_tools([tool])
    messages: list[AnyMessage] = [SystemMessage(prompt), HumanMessage(question)]
    while True:
        reply = bound.invoke(messages)
        messages.append(reply)
        if not reply.tool_calls:
            return str(reply.content)
        for call in reply.tool_calls:
            messages.append(ToolMessage(tool.invoke(call["args"]), tool_call_id=call["id"]))
