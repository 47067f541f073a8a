"""What the crash harness stops: a tool server that is added, refreshed and removed."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.place import Place, forked, last_words
from tests.crash.scenarios import Scenario, recovered
from threegate.acts.signing_key import Acting
from threegate.audit.audit_verify import verify_workspace
from threegate.core.canonical import sha256_hex
from threegate.launch.context import Context, open_context
from threegate.plugins.tools.manifest import Manifest, PinnedTool, announced_manifests
from threegate.plugins.tools.tool_servers import LookedAt, remove_server, sign_server
from threegate.trail.trail import Trail


def context_to_sign(place: Place) -> tuple[Context, Acting]:
    return open_context(place.workspace), Acting("operator", place.key)


def servers_there(place: Place) -> tuple[dict[str, str], dict[str, str]]:
    """The manifests by their digest: those that the trail announced, and those that are there."""
    trail = Trail(place.workspace)
    with trail.locked() as held:
        announced = announced_manifests(held.index)
    trail.close()
    return announced, {path.stem: sha256_hex(path.read_bytes()) for path in place.workspace.tools.glob("*.json")}


def server_of(*tools: str) -> Manifest:
    said = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}, "instructions": None}
    pinned = tuple(PinnedTool(name, None, None, {"type": "object"}, None, None) for name in tools)
    return Manifest("notes", ("/usr/bin/true",), "jail", "", (), (), {}, (), said, pinned, {})


def add_notes(place: Place) -> int:
    sign_server(*context_to_sign(place), LookedAt(server_of("one")))
    return 0


def change_notes(place: Place) -> int:
    """It is refreshed and then removed, each as far as it is not yet."""
    announced, _ = servers_there(place)
    one, two = server_of("one"), server_of("one", "two")
    if announced.get("notes") == one.digest:
        sign_server(*context_to_sign(place), LookedAt(two, one))
    if announced:
        remove_server(open_context(place.workspace), "notes", actor="account:test")
    return 0


def prepare_notes(place: Place) -> None:
    add_notes(place)
    place.save()


def after_servers(again: Callable[[Place], int], left: int) -> Callable[[Place], list[str]]:
    """The manifest is there as the trail says, or neither; then the rest of it can be done."""

    def after(place: Place) -> list[str]:
        wrong = recovered(place)
        for turn in ("", " again"):
            announced, files = servers_there(place)
            if announced != files or (turn and len(files) != left):
                wrong.append(f"after the stop{turn}: {files} are there, and the trail says {announced}")
            wrong += [f"verify: {item}" for item in verify_workspace(place.workspace).problems]
            more = [path.name for path in place.workspace.tools.glob("*") if path.suffix != ".json"]
            wrong += [f"left: {name}" for name in more]
            if not turn and len(files) != left and forked(lambda: again(place)) != 0:
                wrong.append(f"it cannot be done again: {last_words()}")
        return wrong

    return after


SCENARIOS = {
    "server": Scenario(lambda place: None, add_notes, after_servers(add_notes, 1), floor=(20, 32)),
    "server_changed": Scenario(prepare_notes, change_notes, after_servers(change_notes, 0), floor=(30, 45)),
}
