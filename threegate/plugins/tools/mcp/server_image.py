"""The image for a tool server, as an operator named it.

Invariant: the result is a digest that the engine has, of an image without its own volumes, health checks or
hooks; no folder that is bound hides a part of the image or is searched for its code, so the digest names all of that.
"""

from __future__ import annotations

import io
import secrets
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.plugins.tools.reached_code import CODE_VARIABLE, UNPINNABLE_VARIABLE, parts_of

if TYPE_CHECKING:
    import docker


def image_digest(url: str, name: str) -> str:
    """The digest of an image in the engine. Raises Unavailable: there is no engine, or no such image."""
    from docker.errors import ImageNotFound

    from threegate.runners.era import container_engine as engine

    with engine.client(url) as api:
        try:
            found = str(api.inspect_image(name)["Id"])  # type: ignore[no-untyped-call]
        except ImageNotFound:
            raise Unavailable(f"{name}: no such image in the engine; pull or build it first") from None
        except engine.FAULTS as error:
            raise Unavailable(f"no container engine: it does not answer ({engine.reason(error)})") from None
        engine.check_image(api, found)
    return found


def refuse_hiding(url: str, digest: str, folders: Sequence[str], workspace: str) -> None:
    """Refuse folders of this machine that would take the place of code of the image. `workspace` is our id.
    Raises InvalidInput, Unavailable.
    """
    from threegate.runners.era import container_engine as engine

    name = f"threegate-tools-{secrets.token_hex(8)}"
    with engine.client(url) as api:
        try:
            config = api.inspect_image(digest)["Config"]  # type: ignore[no-untyped-call]
            for folder in folders:
                _refuse_searched(folder, config)
            labels = {engine.LABEL: workspace, engine.BOOT_LABEL: "tools", engine.REQUEST_LABEL: "an image to examine"}
            api.create_container(image=digest, command=["/bin/sh"], name=name, labels=labels)  # it is never started
            for folder in folders:
                if _is_filled(api, name, folder):
                    raise InvalidInput(f"--bind {folder}: the image has files there, which this would hide")
        except engine.FAULTS as error:
            raise Unavailable(f"the image cannot be examined ({engine.reason(error)})") from None
        finally:
            engine.remove_container(api, name)


def _refuse_searched(folder: str, config: Mapping[str, Any]) -> None:
    """Refuse a folder that the image works in, or that its variables name for code. Raises InvalidInput."""
    bound, working = PurePosixPath(folder), PurePosixPath(config.get("WorkingDir") or "/")
    if bound == working or bound in working.parents:
        raise InvalidInput(f"--bind {folder}: contains the image's working folder, where programs look for code")
    for variable in config.get("Env") or ():
        name, _, value = variable.partition("=")
        if not (CODE_VARIABLE.fullmatch(name) or UNPINNABLE_VARIABLE.fullmatch(name)):
            continue
        if any(bound == path or bound in path.parents for path in map(PurePosixPath, parts_of(value))):
            raise InvalidInput(f"--bind {folder}: the image looks for code there ({name})")


def _is_filled(api: docker.APIClient, container: str, folder: str) -> bool:
    """Whether a container has anything at a path but an empty folder. Raises the engine's errors."""
    from docker.errors import NotFound

    try:
        chunks, _ = api.get_archive(container, folder)
    except NotFound:
        return False
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= limits.TOOLS_IMAGE_HEAD_BYTES:
            break
    with tarfile.open(fileobj=io.BytesIO(head), mode="r:") as archive:
        first = archive.next()
        return first is None or not first.isdir() or archive.next() is not None
