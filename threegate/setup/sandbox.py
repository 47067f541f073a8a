"""Building the sandbox images (docs/spec/6-runners.md, ERA).

Invariant: an image is entered into the settings only by its digest, after the engine confirms that it has it;
`build` does nothing if this version's images exist.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from threegate.core.errors import Unavailable
from threegate.core.extras import require_extra
from threegate.core.version import shipped
from threegate.core.workspace import Workspace
from threegate.setup.run_tool import run_tool
from threegate.setup.settings_file import set_values
from threegate.trail.payloads import SettingsChanged
from threegate.trail.trail import Trail

BUILD_SECONDS = 1800
"""How long building images, or unpacking a root, may take."""
_WAY = "bootstrap: threegate/"
"""Prefixes of the lines in which sandbox/bootstrap reports how it got an image."""


@dataclass(frozen=True, slots=True)
class Images:
    """The digests of this version's images; empty for one that the engine does not have."""

    era: str
    egress: str
    ways: tuple[str, ...] = ()
    """How each was obtained, one line each."""


def sandbox_folder() -> Path:
    """Where the build files of the images are: next to the package in a checkout, inside it when
    installed.
    """
    folder = shipped("sandbox")
    if (folder / "bootstrap").is_file():
        return folder
    raise Unavailable("the folder sandbox/ is missing from this installation; install threegate again")


def known_images(url: str) -> Images:
    """This version's images, as far as the engine has them. Raises Unavailable if it does not answer."""
    require_extra("ERA", "era")
    from threegate.runners.era import container_engine

    with container_engine.client(container_engine.engine_url(url)) as api:
        found = []
        for tag in _run(["--print-tags"], container_engine.engine_url(url))[0].split():
            try:
                found.append(str(api.inspect_image(tag)["Id"]))  # type: ignore[no-untyped-call]
            except container_engine.FAULTS:
                found.append("")
    return Images(found[0], found[1])


def build_images(url: str) -> Images:
    """Build the missing images of this version (minutes, the first time). Raises Unavailable."""
    require_extra("ERA", "era")
    from threegate.runners.era import container_engine

    where = container_engine.engine_url(url)
    with container_engine.client(where):
        pass
    out, said = _run([], where)
    ways = tuple(line.removeprefix("bootstrap: ") for line in said.splitlines() if _WAY in line)
    try:
        answer = json.loads(out.strip().splitlines()[-1])
        return Images(answer["era"], answer["egress"], ways)
    except (ValueError, KeyError, TypeError, IndexError):
        raise Unavailable("the images were not built; try again: threegate settings images") from None


def enter_images(workspace: Workspace, images: Images, *, actor: str) -> bool:
    """Write the digests into threegate.toml, with an event; False if they are already there."""
    era = workspace.load_settings().runners.era
    if (era.image, era.egress_image) == (images.era, images.egress):
        return False
    changed = SettingsChanged(reason="sandbox images", image=images.era, egress_image=images.egress)
    values = {"runners.era.image": images.era, "runners.era.egress_image": images.egress}
    change_settings(workspace, changed, values, actor=actor)
    return True


def change_settings(workspace: Workspace, changed: SettingsChanged, values: Mapping[str, str], *, actor: str) -> None:
    """Set dotted names in threegate.toml, after the event that says so. Raises InvalidInput, TrailError, OSError."""
    trail = Trail(workspace)
    try:
        with trail.locked() as held:
            held.append(changed, actor=actor)
            held.sync()
            set_values(workspace.settings_file, values)
    finally:
        trail.close()


def _run(words: list[str], url: str) -> tuple[str, str]:
    """Run sandbox/bootstrap against an engine; return its output and its messages. Raises Unavailable with
    its last line.
    """
    program, environment = str(sandbox_folder() / "bootstrap"), {**os.environ, "DOCKER_HOST": url}
    answer = run_tool([program, *words], "sandbox/bootstrap", seconds=BUILD_SECONDS, environment=environment)
    return answer.stdout, answer.stderr
