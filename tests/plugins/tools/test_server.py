"""A server runs where its manifest says, sees what that says and nothing else, and answers as it is."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.tools.little_servers import (
    NODE,
    described,
    nowhere,
    pinned_server,
    text_of,
    write_server,
)
from tests.support import cgroups, processes, wait_until
from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.settings import SecretReference, Settings
from threegate.plugins.tools.manifest import Manifest, Place, ServerFolder
from threegate.plugins.tools.program_tree import program_digests
from threegate.plugins.tools.server_command import pinned_command
from threegate.plugins.tools.server_process import Server, ServerError
from threegate.plugins.tools.server_start import server_account
from threegate.runners.jail.jail_cgroup import JailCgroup

OURS = str(Path(__file__).parents[3].resolve())
"""The environment of the tests leads to this folder, which other tests write to."""
LOOK = """
def call(id, name, arguments):
    def tried(action):
        try:
            return action()
        except OSError as error:
            return type(error).__name__
    import socket
    seen = {
        "uid": os.getuid(),
        "environment": dict(os.environ),
        "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],
        "network": tried(lambda: socket.create_connection(("1.1.1.1", 443), 1) and True),
        "opened": {path: tried(lambda: open(path, arguments.get("mode", "r")).close()) for path in arguments.get("open", [])},
        "listed": {path: tried(lambda: sorted(os.listdir(path))) for path in arguments.get("list", [])},
        "capabilities": [line for line in open("/proc/self/status") if line.startswith("CapEff")][0].split()[1],
    }
    say({"id": id, "result": text(json.dumps(seen))})
"""  # noqa: E501


def ask(manifest: Manifest, path: Path, arguments: dict[str, Any], settings: Settings | None = None) -> Any:
    with Server(nowhere(path), settings or Settings(), manifest) as server:
        server.check_pinned()
        return text_of(server.call("echo", arguments, 20, 1 << 20).content)


def test_in_the_jail_it_has_what_was_signed_and_nothing_else(folder: Path) -> None:
    path = write_server(folder, LOOK)
    data, kept = folder / "data", folder / "kept"
    for made in (data, kept):
        made.mkdir()
        made.chmod(0o777)
        (made / "a.txt").write_text("a")
    token = folder / "token"
    token.write_text("SECRET-VALUE\n")
    settings = Settings(secrets={"TOKEN": SecretReference(file=str(token))})
    manifest = described(
        path,
        binds=(ServerFolder(str(data), True), ServerFolder(str(kept))),
        env={"MODE": "quiet"},
        secrets=("TOKEN",),
    )
    with Server(nowhere(path), settings, manifest) as server:
        manifest = replace(manifest, initialize=server.initialize(), tools=server.list_tools())
        assert not any(b"SECRET-VALUE" in line for _, line in processes())
    wanted = {
        "open": [f"{data}/new", f"{kept}/new", str(path), "/etc/shadow"],
        "list": [str(kept), str(folder), "/home", "/root"],
        "mode": "a",
    }
    seen = ask(manifest, path, wanted, settings)
    assert seen["environment"] == {
        "HOME": "/tmp", "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "PWD": "/",
        "PYTHONDONTWRITEBYTECODE": "1", "MODE": "quiet", "TOKEN": "[secret]",
    }  # fmt: skip
    assert seen["opened"].pop(f"{data}/new") is None and (data / "new").exists()
    assert all(seen["opened"].values()) and not (kept / "new").exists()
    assert seen["listed"][str(kept)] == ["a.txt"]
    assert seen["listed"][str(folder)] == ["data", "kept", "program"]  # what is bound, and not the token
    assert seen["listed"]["/home"] == seen["listed"]["/root"] == "FileNotFoundError"
    assert seen["network"] == "OSError" and seen["descriptors"] == ["0", "1", "2"]
    assert seen["capabilities"] == "0" * 16 and seen["uid"] == 1000


def test_on_the_host_it_is_another_account_and_sees_nothing_of_ours(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_server(folder, LOOK)
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    monkeypatch.setenv("OURS", "1")
    manifest = pinned_server(path, place="host")
    tool_exec = nowhere(path).tool_exec
    (tool_exec / "results").mkdir(mode=0o755)
    seen = ask(manifest, path, {"list": [str(tool_exec)]})
    assert not {"SSH_AUTH_SOCK", "OURS"} & seen["environment"].keys()
    assert seen["descriptors"] == ["0", "1", "2"]
    as_root = os.geteuid() == 0
    assert seen["uid"] == (65534 if as_root else os.geteuid())
    assert (seen["listed"][str(tool_exec)] == "PermissionError") == as_root


@pytest.mark.parametrize("place", ["jail", "host"])
def test_nothing_of_it_is_left(folder: Path, place: Place) -> None:
    mark = f"mark-{os.getpid()}-{place}"
    path = write_server(
        folder, f"def begun():\n    if not os.fork():\n        os.execv('/bin/sleep', ['{mark}', '300'])"
    )
    manifest = pinned_server(path, place=place)

    def left() -> list[int]:
        return [pid for pid, line in processes() if mark.encode() in line]

    with Server(nowhere(path), Settings(), manifest) as server:
        server.check_pinned()
        wait_until(left, "a process of the server", 10)
    wait_until(lambda: not left(), left, 10)


GREEDY = """
def call(id, name, arguments):
    import signal
    def forked(work):
        child = os.fork()
        if not child:
            try:
                work()
            finally:
                os._exit(9)
        return child
    seen, held = {"memory": "held", "processes": 0, "together": 0}, []
    try:
        bytearray(1 << 30)
        seen["memory"] = "none"
    except MemoryError:
        pass
    try:
        while len(held) < 200:
            held.append(forked(signal.pause))
    except BlockingIOError:
        pass
    seen["processes"] = len(held)
    for child in held:
        os.kill(child, 9)
        os.waitpid(child, 0)
    def eat():
        eaten = b"x" * (100 << 20)
        signal.pause()
    for _ in range(arguments["eaters"]):
        forked(eat)
    import time
    until = time.monotonic() + arguments["wait"]
    while not seen["together"] and time.monotonic() < until:
        seen["together"] = len([1 for pid, status in [os.waitpid(-1, os.WNOHANG)] if pid and status == 9])
        time.sleep(0.05)
    say({"id": id, "result": text(json.dumps(seen))})
"""


def test_memory_and_processes_of_a_server_are_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each process and of the jail for every account; of all together where root has cgroups, which are gone
    afterwards.
    """
    monkeypatch.setattr(limits, "TOOLS_MEMORY_MB", 256)
    monkeypatch.setattr(limits, "TOOLS_PROCESSES", 40)
    path = write_server(folder, GREEDY)
    trial = JailCgroup.make(f"trial-{os.getpid()}", memory_mb=64)
    trial.close()
    eaters = 5 if "memory" in trial.held else 0
    left = Path("/sys/fs/cgroup/memory" if Path("/sys/fs/cgroup/memory").is_dir() else "/sys/fs/cgroup")
    if eaters:
        (left / "threegate-tools-999999999-left").mkdir()
    seen = ask(pinned_server(path), path, {"eaters": eaters, "wait": 10 if eaters else 0})
    assert seen.pop("processes") in range(20, 40)
    assert seen == {"memory": "held", "together": 1 if eaters else 0}
    for maker in (os.getpid(), 999999999):  # other tests have servers of their own
        assert not cgroups(f"threegate-tools-{maker}-*")


def test_an_answer_is_what_the_server_gave(folder: Path) -> None:
    result = {
        "content": [
            {"type": "image", "data": "aGk=", "mimeType": "image/png", "annotations": {"priority": 0.5}},
            {"type": "text", "text": "tïtle\u0000"},
        ],
        "structuredContent": {"n": 1.5, "list": [None, True]},
        "isError": True,
        "_meta": {"a/b": 1},
    }
    path = write_server(folder, f"def call(id, name, arguments): say({{'id': id, 'result': {result!r}}})")
    manifest = pinned_server(path, place="host")
    with Server(nowhere(path), Settings(), manifest) as server:
        server.check_pinned()
        answer = server.call("echo", {}, 20, 1 << 20)
    assert list(answer.content) == result["content"] and answer.structured == result["structuredContent"]
    assert answer.is_error and answer.meta == {"a/b": 1} and answer.error is None


def test_an_error_of_the_protocol_is_an_answer_too(folder: Path) -> None:
    path = write_server(
        folder, "def call(id, name, arguments): say({'id': id, 'error': {'code': -32602, 'message': 'no'}})"
    )
    with Server(nowhere(path), Settings(), pinned_server(path, place="host")) as server:
        server.check_pinned()
        answer = server.call("echo", {}, 20, 1 << 20)
        assert answer.is_error and answer.error == {"code": -32602, "message": "no"} and server.alive
        with pytest.raises(Refused) as unknown:
            server.call("other", {}, 20, 1 << 20)
    assert unknown.value.code == "tools_unknown" and not server.alive


def test_all_pages_are_pinned_and_progress_is_passed_on(folder: Path) -> None:
    path = write_server(
        folder,
        """
def pages(cursor):
    tool = {**TOOLS[0], "name": f"echo{cursor or ''}"}
    return {"tools": [tool], **({"nextCursor": {None: "1", "1": "2"}[cursor]} if cursor != "2" else {})}
def call(id, name, arguments):
    say({"method": "notifications/message", "params": {"level": "info", "data": "x"}})
    say({"method": "ping", "id": "p"})
    assert json.loads(sys.stdin.readline()) == {"jsonrpc": "2.0", "id": "p", "result": {}}
    say({"method": "notifications/progress", "params": {"progressToken": id, "progress": 1, "total": 2}})
    say({"method": "notifications/progress", "params": {"progressToken": 99, "progress": 7}})
    say({"id": id, "result": text("done")})
""",
    )
    manifest = pinned_server(path, place="host")
    assert [tool.name for tool in manifest.tools] == ["echo", "echo1", "echo2"]
    heard: list[Any] = []
    with Server(nowhere(path), Settings(), manifest) as server:
        server.check_pinned()
        assert server.call("echo1", {}, 20, 1 << 20, progress=heard.append).content[0]["text"] == "done"
        server.call("echo", {}, 20, 1 << 20)
    assert heard == [{"progress": 1, "total": 2}] and server.calls == 2


def test_a_server_of_the_sdk_is_understood(folder: Path) -> None:
    path = folder / "program" / "sdk.py"
    path.parent.mkdir()
    path.write_text("""
from mcp.server.mcpserver import MCPServer
server = MCPServer("adder", instructions="Adds.")
@server.tool(title="Add")
def add(a: int, b: int) -> int:
    "The sum."
    return a + b
server.run("stdio")
""")
    manifest = pinned_server(path, place="host", env={"PYTHONPATH": sysconfig.get_path("purelib")}, data=(OURS,))
    (tool,) = manifest.tools
    assert (tool.name, tool.title, tool.description) == ("add", "Add", "The sum.")
    assert manifest.initialize["instructions"] == "Adds."
    with Server(nowhere(path), Settings(), manifest) as server:
        server.check_pinned()
        answer = server.call("add", {"a": 2, "b": 3}, 30, 1 << 20)
    assert answer.structured == {"result": 5} and not answer.is_error


def test_a_call_can_be_cancelled_from_another_thread(folder: Path) -> None:
    path = write_server(folder, "def call(id, name, arguments): pass")
    with Server(nowhere(path), Settings(), pinned_server(path, place="host")) as server:
        server.check_pinned()
        threading.Timer(0.2, server.cancel).start()
        with pytest.raises(ServerError) as stopped:
            server.call("echo", {}, 60, 1 << 20)
    assert (stopped.value.code, stopped.value.reached) == ("cancelled", True)


def test_a_program_that_changed_is_not_started(folder: Path) -> None:
    path = write_server(folder)
    manifest = pinned_server(path, place="host")
    path.write_text(path.read_text() + "# more\n")
    with pytest.raises(Refused) as changed, Server(nowhere(path), Settings(), manifest):
        pass
    assert changed.value.code == "tools_changed" and "program" in str(changed.value)


def test_a_secret_that_is_not_there_starts_nothing(folder: Path) -> None:
    path = write_server(folder)
    with (
        pytest.raises(Unavailable, match=r"secrets\.TOKEN"),
        Server(nowhere(path), Settings(), described(path, secrets=("TOKEN",))),
    ):
        pass


def test_no_server_is_root() -> None:
    if os.geteuid() == 0:
        for name in ("", "root", "nobody-of-this-name"):
            with pytest.raises(Unavailable, match="root"):
                server_account(name)
    else:
        assert server_account("").is_own


# ---- programs


@pytest.mark.parametrize(
    "words",
    [
        ["npx", "-y", "x"], ["uvx", "x"], ["pipx", "run", "x"], ["npm", "exec", "x"], ["bunx", "x"], ["/usr/bin/npx", "x"],  # noqa: E501
        ["npm", "--yes", "exec", "x"], ["uv", "run", "x"], ["pnpm", "dlx", "x"], ["yarn", "dlx", "x"], ["docker", "run", "x"],  # noqa: E501
    ],
)  # fmt: skip
def test_what_fetches_code_when_it_starts_is_refused(words: list[str]) -> None:
    with pytest.raises(Refused, match="install the server first") as refused:
        pinned_command(words)
    assert refused.value.code == "tools_fetched"


def test_a_command_line_that_hides_its_program_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_server(folder).parent)
    for words in (["sh", "-c", "x"], ["env", "x"], ["python3", "server.py"], [], ["python3", "x" * 5000]):
        with pytest.raises(InvalidInput):
            pinned_command(words)
    with pytest.raises(Unavailable):
        pinned_command(["no-such-program-here"])
    script = str(write_server(folder))
    assert pinned_command(["python3", script])[1:] == (script,)


def test_a_whole_installed_tree_is_pinned_and_data_is_not(folder: Path) -> None:
    script = folder / "node_modules" / "files" / "dist" / "index.js"
    script.parent.mkdir(parents=True)
    script.write_text("x")
    data = folder / "data"
    data.mkdir()
    (data / "notes.db").write_text("x")
    argv = (NODE, str(script), str(data / "notes.db"), str(data))
    manifest = described(script, argv=argv, data=(str(data),), binds=(ServerFolder(str(data), True),))
    assert set(manifest.program) == {str(folder / "node_modules"), str(Path(NODE).resolve())}
    before = program_digests(manifest)
    assert program_digests(manifest) == before == manifest.program
    assert str(folder / "node_modules") in before
    digests = {before[str(folder / "node_modules")]}
    for change in (
        lambda: script.write_text("y"),
        lambda: script.chmod(0o755),
        lambda: (script.parent / "new").symlink_to("index.js"),
        lambda: (script.parent / "empty").mkdir(),
        lambda: (script.parent / "new").rename(script.parent / "other"),
    ):
        change()
        digests.add(program_digests(manifest)[str(folder / "node_modules")])
    assert len(digests) == 6


def test_an_environment_of_python_is_pinned_with_its_interpreter(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "lib").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    program = described(folder, argv=(str(folder / "bin" / "python"), "-m", "server")).program
    real = Path(sys.executable).resolve()
    assert {str(folder), str(real if real.is_relative_to("/usr") else real.parents[1])} <= program.keys()


def test_a_server_that_was_ended_answers_nothing(folder: Path) -> None:
    server = Server(nowhere(folder), Settings(), described(write_server(folder)))
    with pytest.raises(ServerError, match="start it again"):
        server.initialize()
    server.cancel()
    server.close()
