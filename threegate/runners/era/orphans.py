"""Removes what a killed daemon left behind: its containers, networks and volumes (docs/spec/6-runners.md, ERA).

Invariant: only objects with this workspace's id and the nonce of another boot are touched; a second workspace on the
same engine is never affected.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from threegate.core.errors import Unavailable
from threegate.core.extras import has_extra
from threegate.core.removal import remove_folder
from threegate.runners.era.engine_answer import LABEL, engine_url, has_none_labelled


def remove_orphans(workspace_id: str, boot_nonce: str, *, url: str = "", runs_folder: Path | None = None) -> list[str]:
    """Kill and remove the containers, networks and volumes of older boots, and the work folders below `runs_folder`.

    Returns one line for each. Without the extra `era`, or if the engine does not answer, only the folders are removed
    (the containers ended with their standard input, or will at their own deadline). Raises Unavailable if the engine
    answers but cannot remove one.
    """
    removed = [] if runs_folder is None else _remove_folders(runs_folder)
    label = f"{LABEL}={workspace_id}"
    # Nearly always: then the client library, a fifth of what a start imports, is not loaded.
    if not has_extra("era") or has_none_labelled(engine_url(url), label):
        return removed
    import docker.errors

    from threegate.runners.era import container_engine

    try:
        api = container_engine.connect(engine_url(url))
    except Unavailable:
        return removed
    try:
        marks = {"label": label}
        for found in api.containers(all=True, filters=marks):
            if found["Labels"].get(container_engine.BOOT_LABEL) == boot_nonce:
                continue
            name = str(found["Names"][0]).lstrip("/") if found["Names"] else found["Id"][:12]
            if not container_engine.remove_container(api, found["Id"]):
                raise Unavailable(f"container {name} of an earlier run cannot be removed; remove it by hand")
            removed.append(f"removed container {name} of {found['Labels'].get(container_engine.REQUEST_LABEL, '?')}")
        # After the containers: a network or volume in use cannot be removed.
        for network in api.networks(filters=marks):
            if (network.get("Labels") or {}).get(container_engine.BOOT_LABEL) != boot_nonce:
                with suppress(docker.errors.NotFound):  # removed since it was listed
                    api.remove_network(network["Id"])
                removed.append(f"removed network {network['Name']}")
        for volume in api.volumes(filters=marks).get("Volumes") or ():
            if (volume.get("Labels") or {}).get(container_engine.BOOT_LABEL) != boot_nonce:
                with suppress(docker.errors.NotFound):
                    api.remove_volume(volume["Name"])
                removed.append(f"removed volume {volume['Name'][:12]}")
    except container_engine.FAULTS as error:
        raise Unavailable(f"the engine did not list what is left ({container_engine.reason(error)})") from None
    finally:
        api.close()
    return removed


def _remove_folders(runs_folder: Path) -> list[str]:
    removed = []
    for work in sorted(runs_folder.glob("*/work")):
        remove_folder(work)
        removed.append(f"removed {work}")
    return removed
