"""A server in a container has the walls that were asked for, and leaves no container, however it or its daemon ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import slow
from tests.engine_fixtures import ENGINE, IMAGE
from tests.ordinary_user import UID
from tests.plugins.agents.people import python
from tests.plugins.tools.container_bench import (
    NOWHERE,
    containers,
    described,
    engine_settings,
    new_workspace_id,
    opened,
)
from tests.plugins.tools.little_servers import open_folder, text_of
from tests.support import children, make_place, processes, wait_until
from threegate.plugins.tools.manifest import Manifest, ServerFolder, parse_manifest
from threegate.plugins.tools.mcp import server_container
from threegate.plugins.tools.process_states import count_processes
from threegate.plugins.tools.server_process import Server, ServerError
from threegate.runners.era import container_engine
from threegate.runners.era.backend import remove_orphans
from threegate.setup.settings_file import set_values

MIB = 1 << 20
LOOK = """
def call(id, name, arguments):
    import socket
    def tried(action):
        try:
            return action()
        except OSError as error:
            return type(error).__name__
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    say({"id": id, "result": text(json.dumps({
        "uid": os.getuid(), "environment": dict(os.environ), "capabilities": status["CapBnd"], "new": status["NoNewPrivs"],
        "filter": status["Seccomp"], "network": tried(lambda: socket.create_connection(("1.1.1.1", 443), 1) and True),
        "interfaces": sorted(os.listdir("/sys/class/net")), "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],
        "written": {path: tried(lambda: open(path, "w").close()) for path in arguments["write"]},
        "hostname": socket.gethostname(), "socket": os.path.exists("/var/run/docker.sock"),
    }))})
"""  # noqa: E501


def look(write: list[str], workspace: str = "", **fields: Any) -> Any:
    """What a server sees of its container."""
    with opened(LOOK, workspace, **fields) as server:
        server.check_pinned()
        return text_of(server.call("echo", {"write": write}, 20, MIB).content)


def walled(seen: dict[str, Any]) -> None:
    assert seen["uid"] == 65534 and seen["capabilities"] == "0" * 16
    assert (seen["new"], seen["filter"]) == ("1", "2")
    assert seen["network"] == "OSError" and seen["interfaces"] == ["lo"]
    assert seen["descriptors"] == ["0", "1", "2"] and not seen["socket"] and seen["hostname"] == "server"


@pytest.mark.engine
def test_it_has_what_was_signed_and_nothing_else() -> None:
    workspace = new_workspace_id()
    with open_folder() as folder:
        for name in ("data", "kept"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        binds = (ServerFolder(str(folder / "data"), True), ServerFolder(str(folder / "kept")))
        paths = ["/new", "/tmp/new", f"{folder}/data/new", f"{folder}/kept/new", f"{folder}/new"]
        seen = look(paths, workspace, binds=binds, env={"MODE": "quiet"})
        assert (folder / "data" / "new").exists() and not (folder / "kept" / "new").exists()
    walled(seen)
    assert seen["written"] == {
        "/new": "OSError", "/tmp/new": None, f"{folder}/data/new": None, f"{folder}/kept/new": "OSError", f"{folder}/new": "PermissionError",  # noqa: E501
    }  # fmt: skip
    assert seen["environment"].pop("MODE") == "quiet"
    assert seen["environment"].keys() - {"LC_CTYPE"} == {
        "HOME", "HOSTNAME", "LANG", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE",
    }  # fmt: skip
    assert containers(workspace) == []


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.root
def test_it_is_the_same_for_a_user_of_the_engines_group() -> None:
    workspace = new_workspace_id()
    program, path = python()
    code = (
        "import json, sys; from tests.plugins.tools.test_container_servers import look; "
        "print(json.dumps(look(['/new'], sys.argv[1])))"
    )
    done = subprocess.run(
        [program, "-c", code, workspace],
        env={
            "PYTHONPATH": path,
            "HOME": "/nonexistent",
            "THREEGATE_TEST_ENGINE": ENGINE,
            "THREEGATE_TEST_IMAGE": IMAGE,
        },
        user=UID,
        group=UID,
        extra_groups=[os.stat(ENGINE.removeprefix("unix://")).st_gid],
        cwd="/",
        capture_output=True,
        timeout=120,
        check=True,
    )
    walled(json.loads(done.stdout))
    assert containers(workspace) == []


@pytest.mark.engine
def test_a_wall_that_is_not_there_is_noticed() -> None:
    """Before the server's own program begins: what runs is a shell that waits."""
    manifest, settings = described(), engine_settings(new_workspace_id())
    wanted: dict[str, Any] = {
        "engine": ENGINE, "runtime": "", "workspace": settings.workspace.id, "server": "little", "image": IMAGE,
        "argv": list(manifest.argv), "env": {}, "binds": [],
    }  # fmt: skip
    with container_engine.client(ENGINE) as api:
        runtime = container_engine.check_runtime(api, "")
        name = f"threegate-test-{os.getpid()}"
        container = server_container.create_container(api, wanted, name, runtime)
        try:
            with server_container.attach(api, container):
                api.start(container)
                state = api.inspect_container(container)
                assert list(server_container.missing_walls(wanted, state, runtime)) == []
                for host in (
                    {"NetworkMode": "bridge"}, {"ReadonlyRootfs": False}, {"Privileged": True}, {"CapAdd": ["SYS_ADMIN"]},  # noqa: E501
                    {"Binds": ["/:/host"]}, {"Runtime": "other"}, {"LogConfig": {"Type": "json-file"}},
                ):  # fmt: skip
                    other = {**state, "HostConfig": {**state["HostConfig"], **host}}
                    assert len(list(server_container.missing_walls(wanted, other, runtime))) == 1, host
                for config in ({"User": "0"}, {"Cmd": ["/bin/sh"]}, {"Entrypoint": ["/x"]}):
                    other = {**state, "Config": {**state["Config"], **config}}
                    assert len(list(server_container.missing_walls(wanted, other, runtime))) == 1, config
                mounted = {**state, "Mounts": [{"Source": "/", "Destination": "/x", "RW": True}]}
                assert len(list(server_container.missing_walls(wanted, mounted, runtime))) == 1
                own = {**state, "State": {**state["State"], "Pid": os.getpid()}}
                wrong = " ".join(server_container.missing_walls(wanted, own, runtime))
                assert "memory is" in wrong and "processes are" in wrong and "system calls are not filtered" in wrong
        finally:
            assert container_engine.remove_container(api, name)
    assert containers(settings.workspace.id) == []


HOLDS = """
import sys, time
sys.path[:0] = {path!r}
from tests.plugins.tools.container_bench import *
with Server(NOWHERE, engine_settings({workspace!r}), described("import signal; signal.signal(1, signal.SIG_IGN)")) as server:
    server.initialize()
    print("ready", flush=True)
    time.sleep(300)
"""  # noqa: E501
"""A daemon that has a server."""


def holder(workspace: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS.format(path=sys.path, workspace=workspace)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    process.stdout.close()
    return process


def helpers() -> set[int]:
    """Processes beside containers."""
    program = b"threegate.plugins.tools.mcp.server_container"
    return {pid for pid, line in processes() if program in line.split(b"\0")}


@pytest.mark.engine
@pytest.mark.parametrize("number", [signal.SIGKILL, slow(signal.SIGTERM)])
def test_a_daemon_that_is_killed_leaves_no_container(number: int) -> None:
    workspace = new_workspace_id()
    process = holder(workspace)
    assert len(containers(workspace)) == 1
    process.send_signal(number)
    process.wait()
    wait_until(lambda: containers(workspace) == [])


@pytest.mark.engine
@pytest.mark.slow
def test_what_nobody_could_remove_the_next_start_does() -> None:
    """As after a power cut: the process beside the container is killed with everything else."""
    workspace, before = new_workspace_id(), helpers()
    process = holder(workspace)
    (helper,) = (helpers() - before) & children(process.pid)
    os.kill(helper, signal.SIGTERM)  # of a service manager, to all: its input tells it when to end
    os.kill(helper, signal.SIGKILL)
    process.kill()
    process.wait()
    lines = remove_orphans(workspace, "boot", url=ENGINE)
    assert containers(workspace) == []
    assert all("of the server little" in line for line in lines)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("no image", {"image": f"sha256:{'0' * 64}"}),
        ("/nothing", {"argv": ("/nothing/here",)}),
        ("could not be started", {"binds": (ServerFolder("/nonexistent/folder"),)}),
    ],
)
def test_one_that_cannot_be_started_says_why(said: str, fields: dict[str, Any]) -> None:
    workspace = new_workspace_id()
    with (
        Server(NOWHERE, engine_settings(workspace), described(**fields)) as server,
        pytest.raises(ServerError) as ended,
    ):
        server.initialize()
    assert said in str(ended.value) and "\n" not in str(ended.value) and not ended.value.reached
    assert containers(workspace) == []


def test_without_an_engine_it_says_so_in_one_line(tmp_path: Path) -> None:
    manifest, settings = (
        described(image=f"sha256:{'0' * 64}"),
        engine_settings(engine=f"unix://{tmp_path}/none"),
    )
    with (
        Server(NOWHERE, settings, manifest) as server,
        pytest.raises(ServerError, match="no container engine"),
    ):
        server.initialize()


def test_the_manifest_names_the_image_by_its_digest() -> None:
    said = {"protocolVersion": "", "capabilities": {}, "serverInfo": {}, "instructions": None}
    made = described(image=f"sha256:{'0' * 64}", initialize=said)
    assert parse_manifest(made.to_bytes()) == made
    for wrong in ({"image": "debian:12"}, {"image": ""}, {"place": "jail"}, {"image": "sha256:x"}):
        with pytest.raises(ValueError, match="image"):
            Manifest.parse({**made.to_data(), **wrong})
    jailed = described(place="jail", image="", initialize=said)
    assert "image" not in jailed.to_data() and Manifest.parse(jailed.to_data()) == jailed


def test_without_an_engine_none_is_added(tmp_path: Path) -> None:
    place = make_place(tmp_path, settings={"runners.era.engine": f"unix://{tmp_path}/none"})
    words = ["--image", "x", "--as", "operator", "--key", str(place.key), "--yes", "--", "/usr/bin/mind"]
    done = place.run("tools", "add", "mind", "--in", "era", *words, expect=3)
    assert "no container engine" in done.err and len(done.err.splitlines()) == 1


@pytest.mark.engine
@pytest.mark.slow
def test_the_whole_way_of_a_stateful_one(tmp_path: Path) -> None:
    from tests.door_client import daemon
    from tests.plugins.tools.end_to_end.test_stateful_calls import ended
    from tests.plugins.tools.notes_server import Notes
    from tests.plugins.tools.stateful_bench import COUNTS
    from threegate.core.workspace import Workspace

    place = make_place(tmp_path)
    set_values(place.root / "threegate.toml", {"runners.era.engine": ENGINE, "runners.era.image": IMAGE})
    notes = Notes.__new__(Notes)
    notes.place, notes.workspace = place, Workspace(place.root)
    workspace = notes.workspace.load_settings().workspace.id
    words = ["--in", "era", "--stateful", "--as", "operator", "--key", str(place.key), "--yes", "--"]
    added = place.run("tools", "add", "mind", *words, *described(COUNTS).argv, expect=0)
    assert f"image        {IMAGE[:60]}" in added.out and "a container of its own" in added.out
    digest = place.run("tools", "show", "mind", "--json", expect=0).json()["manifest_sha256"]
    place.run("tools", "refresh", "mind", expect=0)
    with daemon(place) as process:
        for number in (1, 2):
            draft = notes.draft("echo", {"a": number}, digest, server="mind")
            card = place.approve(draft, "--full").out
            assert (
                "server in    era" in card and IMAGE[:40] in card and "server as   | nobody, in its container" in card
            )
            result = ended(notes, draft)
            assert "status: succeeded" in result
        assert json.dumps([{"a": 1}, {"a": 2}]) in result
        assert count_processes(notes.workspace, digest) == len(containers(workspace)) == 1
        process.terminate()
        process.wait()
    wait_until(lambda: containers(workspace) == [])
