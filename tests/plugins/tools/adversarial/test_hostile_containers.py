"""Hostile servers in containers: each ends within its bounds, and leaves no container."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import slow
from tests.engine_fixtures import ENGINE, IMAGE, docker
from tests.plugins.tools.container_bench import (
    NOWHERE,
    containers,
    described,
    engine_settings,
    new_workspace_id,
    opened,
    pinned,
)
from tests.plugins.tools.little_servers import PYTHON, open_folder, write_server
from tests.support import make_place
from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused
from threegate.plugins.tools.manifest import ServerFolder
from threegate.plugins.tools.mcp.server_image import refuse_hiding
from threegate.plugins.tools.program_tree import program_digests
from threegate.plugins.tools.server_process import Server, ServerError

MIB = 1 << 20
CALL = "def call(id, name, arguments): "

pytestmark = pytest.mark.engine


def soak(code: str, source: str) -> Any:
    return pytest.param(code, source, marks=pytest.mark.soak)


@pytest.mark.parametrize(
    ("code", "source"),
    [
        ("server_ended", CALL + "[os.fork() for _ in iter(int, 1)]"),
        slow("server_silent", ("import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except "  # noqa: E501
        "(OSError, ValueError): pass\n") + CALL + "[__import__('time').sleep(9) for _ in iter(int, 1)]"),
        slow("server_ended", "KEPT = []\n" + CALL
        + "[KEPT.append(bytearray(b'x') * (64 << 20)) for _ in iter(int, 1)]"),
        soak("server_answer_too_large", CALL + "[sys.stdout.write('x' * 65536) for _ in iter(int, 1)]"),
        soak("server_silent", CALL + "[sys.stderr.write('x' * 65536) for _ in iter(int, 1)]"),
        soak("server_protocol", CALL + "say({'id': id + 1, 'result': text('x')})"),
        soak("server_ended", CALL + "os.fork() or __import__('time').sleep(300); os._exit(0)"),
    ],
    ids=["forks", "ignores", "memory", "floods", "floods-stderr", "other-id", "orphan"],
)  # fmt: skip
def test_each_has_its_end(code: str, source: str) -> None:
    seconds = 5 if code == "server_silent" else 30  # 2 GiB are not always full within 5 s
    workspace = new_workspace_id()
    began = time.monotonic()
    with opened(source, workspace) as server:
        server.check_pinned()
        with pytest.raises(ServerError) as wrong:
            server.call("echo", {}, seconds, MIB)
    assert (wrong.value.code, wrong.value.reached) == (code, True)
    assert time.monotonic() - began < seconds + 4 * limits.TOOLS_CONTAINER_END_SECONDS
    assert containers(workspace) == []


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


def test_code_in_a_bound_folder_is_pinned_for_a_container_too(folder: Path) -> None:
    path = write_server(folder, "import helper")
    helper = path.parent / "helper.py"
    helper.touch()
    workspace = new_workspace_id()
    binds = (ServerFolder(str(path.parent)),)
    manifest = described(argv=(PYTHON, str(path)), binds=binds)
    manifest = pinned(replace(manifest, program=program_digests(manifest)), engine_settings(workspace))
    assert list(manifest.program) == [str(path.parent)]
    with Server(NOWHERE, engine_settings(workspace), manifest) as server:
        server.check_pinned()
    helper.write_text("1\n")
    with pytest.raises(Refused) as changed, Server(NOWHERE, engine_settings(workspace), manifest):
        pass
    assert changed.value.code == "tools_changed" and containers(workspace) == []


@pytest.mark.parametrize(
    ("writable", "fields"),
    [
        (True, {"argv": (PYTHON, "{path}")}),
        (True, {"argv": (PYTHON, "-m", "server"), "env": {"PYTHONPATH": "{folder}"}}),
        (True, {"argv": (PYTHON, "-c", "exec(open('{path}').read())")}),
    ],
)
def test_a_container_writes_to_no_code_of_its_own(folder: Path, writable: bool, fields: dict[str, Any]) -> None:
    path = write_server(folder)

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: filled(item) for name, item in value.items()}
        if isinstance(value, tuple):
            return tuple(filled(item) for item in value)
        return value.format(path=path, folder=path.parent)

    manifest = described(binds=(ServerFolder(str(folder), writable),), **filled(fields))
    with pytest.raises(Refused, match="the server may write there"):
        program_digests(manifest)


def image_with(*changes: str) -> str:
    """The tests' image with other settings, by its digest."""
    name = f"threegate-test-{uuid.uuid4().hex}"
    docker("create", "--name", name, IMAGE, "/bin/true")
    try:
        words = [word for change in changes for word in ("--change", change)]
        return docker("commit", *words, name).strip()
    finally:
        docker("rm", "-f", name)


def test_no_folder_takes_the_place_of_a_part_of_the_image(folder: Path) -> None:
    workspace = new_workspace_id()
    digest = image_with(f"WORKDIR {folder}/work", f"ENV PYTHONPATH={folder}/modules")
    try:
        for bound, why in (
            (f"{folder}/work", "working folder"), (str(folder), "working folder"),
            (f"{folder}/modules", "looks for code"),
            ("/usr/lib", "has files there"), ("/var/lib", "has files there"), ("/bin/sh", "has files there"),
        ):  # fmt: skip
            with pytest.raises(InvalidInput, match=why):
                refuse_hiding(ENGINE, digest, [bound], workspace)
        refuse_hiding(ENGINE, digest, [f"{folder}/data", f"{folder}/work/data", "/srv", "/nonexistent"], workspace)
        assert containers(workspace) == []
    finally:
        docker("rmi", "-f", digest)


@pytest.mark.parametrize("bound", ["/usr/share", "/etc/ssl", "/lib"])
def test_the_images_system_is_never_covered(tmp_path: Path, bound: str) -> None:
    place = make_place(tmp_path, settings={"runners.era.engine": ENGINE, "runners.era.image": IMAGE})
    words = ("--bind", bound, "--as", "operator", "--key", str(place.key), "--yes", "--", PYTHON, "-c", "1")
    assert "contains the system's programs" in place.run("tools", "add", "mind", "--in", "era", *words, expect=2).err
