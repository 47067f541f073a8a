"""A server at a URL is added, signed, compared and changed. What only a program has is refused, and so is a manifest
that means two things.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.tools.https_servers import NAME, SESSION, Authority, LittleRemote, little_remote, remote_manifest
from threegate.acts.signing_key import Acting
from threegate.approval.shown.escaped_lines import render_sections
from threegate.core import canonical
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.core.settings import Settings
from threegate.plugins.tools.action import BoundCall
from threegate.plugins.tools.call_draft import tool_call
from threegate.plugins.tools.manifest import Manifest, ServerFolder, parse_manifest
from threegate.plugins.tools.requested_call import call_lacks, requested_call
from threegate.plugins.tools.server_card import difference_section, server_sections
from threegate.plugins.tools.tool_servers import (
    WantedServer,
    look_again,
    look_at_new,
    pinned,
    program_changes,
    sign_server,
)
from threegate.plugins.tools.tools_doctor import tool_lines
from threegate.plugins.tools.unit import unit_needs
from threegate.request.exposure import NETWORK_REACHED

URL = f"https://{NAME}/mcp"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.fixture
def remote(authority: Authority) -> Iterator[LittleRemote]:
    with little_remote(authority) as made:
        yield made


def added(bench: Bench, remote: LittleRemote) -> Manifest:
    """One that is signed."""
    looked = look_at_new(bench.context, WantedServer("tracker", (), url=remote.url), reach=remote.authority.reach())
    sign_server(bench.context, Acting("alice", bench.keys["alice"]), looked)
    return looked.manifest


def test_added_seen_and_called(bench: Bench, remote: LittleRemote) -> None:
    manifest = added(bench, remote)
    assert pinned(bench.context, "tracker") == manifest and manifest.place == "remote"
    (event,) = [event for event in bench.context.trail.events() if event.type == "tools_added"]
    assert event.data["place"] == "remote" and event.data["hosts"] == [NAME]
    card = "\n".join(render_sections(server_sections(manifest), full=True, width=120))
    for text in (remote.url, "can change unseen", "Say it again.", "of this machine: nothing", "2026-07-28"):
        assert text in card, text
    (line,) = tool_lines(bench.workspace, Settings(), False)
    assert (line.state, line.seen) == ("ok", "tracker: 1 tools, elsewhere, behind a URL")
    needs = unit_needs(bench.workspace, Settings(), None, False)
    assert needs.network and not needs.jails and needs.reads == needs.projects == ()
    call = tool_call("tracker", "echo", manifest.digest, {"text": "x"})
    assert call_lacks(bench.workspace, Settings(), call) is None
    with bench.context.trail.locked() as held:
        action = requested_call(bench.workspace, held.index, call, None).action
    assert isinstance(action, BoundCall) and action.sends_out and not action.stateful and not action.in_container
    assert action.host.meaning()["url"] == remote.url and action.host.meaning()["argv"] == []
    reach = action.exposure("/", ()).reach
    assert (
        f"{NETWORK_REACHED}{NAME} (the server)" in reach and f"code at {remote.url}, which can change unseen" in reach
    )
    assert [heard.asked for heard in remote.heard] == ["server/discover", "tools/list"], "nothing was called"


def test_looked_at_again(bench: Bench, remote: LittleRemote) -> None:
    """Another order of its tools is no change; a word, and the protocol, is."""
    remote.tools.append({"name": "more", "inputSchema": {"type": "object"}})
    before = added(bench, remote)
    remote.tools.reverse()
    reach = remote.authority.reach()
    assert look_again(bench.context, "tracker", reach=reach).changed == ()
    assert program_changes(bench.context, "tracker") == ()
    remote.version = SESSION
    remote.tools[0]["description"] = "Send it all."
    looked = look_again(bench.context, "tracker", reach=reach)
    assert [item.what for item in looked.changed] == ["protocolVersion", "tool more: description"]
    assert "Send it all." in "\n".join(render_sections([difference_section(looked.changed)], full=True, width=120))
    sign_server(bench.context, Acting("alice", bench.keys["alice"]), looked)
    after = pinned(bench.context, "tracker")
    assert after.digest != before.digest and after.initialize["protocolVersion"] == SESSION
    assert after.url == before.url


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"stateful": True}, "--stateful: a server at a URL has a session for each call"),
        ({"words": ("/bin/true",)}, "a command: is for a server that runs here"),
        ({"place": "host"}, "--in: is for a server that runs here"),
        ({"account": "nobody"}, "--account: is for"),
        ({"allow": ("example.com",)}, "--allow: is for"),
        ({"binds": ("/srv",)}, "--bind: is for"),
        ({"env": ("A=b",)}, "--env: is for"),
        ({"secrets": ("TOKEN",)}, "--secret: is for"),
        ({"image": "x"}, "--image: is for"),
        ({"data": ("/srv",)}, "--data: is for"),
    ],
)
def test_what_a_program_has_is_refused(bench: Bench, more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        look_at_new(bench.context, WantedServer(**({"name": "tracker", "words": (), "url": URL} | more)))
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize("url", ["http://mcp.example.com/", "https://localhost/", "https://a:b@mcp.example.com/", "x"])
def test_a_url_that_cannot_be(bench: Bench, url: str) -> None:
    with pytest.raises(Refused) as caught:
        look_at_new(bench.context, WantedServer("tracker", (), url=url))
    assert caught.value.code == "url_refused" and str(caught.value).startswith("--url ")


def test_a_secret_in_a_url_is_not_signed(bench: Bench) -> None:
    url = f"{URL}?token=ghp_{'aB3dE5fG7hJ9' * 3}"
    with pytest.raises(InvalidInput, match="looks like a secret") as caught:
        look_at_new(bench.context, WantedServer("tracker", (), url=url))
    assert "ghp_" not in str(caught.value)


def test_without_its_extra(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "h11", None)
    with pytest.raises(Unavailable, match="a tool server at a URL needs the extra mcp"):
        look_at_new(bench.context, WantedServer("tracker", (), url=URL))


SAID = {"protocolVersion": SESSION, "capabilities": {}, "serverInfo": {}, "instructions": None}


@pytest.mark.parametrize(
    "more",
    [
        {"url": ""},
        {"url": "http://mcp.example.com/"},
        {"argv": ("/bin/true",)},
        {"account": "nobody"},
        {"allow": ("example.com",)},
        {"binds": (ServerFolder("/srv"),)},
        {"env": {"A": "b"}},
        {"secrets": ("TOKEN",)},
        {"program": {"/bin/true": "0" * 64}},
        {"stateful": True},
        {"data": ("/srv",)},
        {"image": "sha256:" + "0" * 64},
        {"place": "jail"},
        {"place": "jail", "argv": ("/bin/true",)},
        {"place": "host", "url": ""},
    ],
)
def test_a_manifest_that_means_two_things_is_none(more: dict[str, Any]) -> None:
    good = remote_manifest(URL, initialize=SAID)
    assert parse_manifest(good.to_bytes()) == good and good.hosts == (NAME,)
    assert json.loads(good.to_bytes())["url"] == URL
    with pytest.raises(InvalidInput, match="not a manifest of tools"):
        parse_manifest(canonical.canonical_bytes(replace(good, **more).to_data()))
