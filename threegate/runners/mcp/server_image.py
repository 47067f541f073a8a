"""The image that a server of tools runs in, as an operator named it.

Invariant: what comes out is a digest that the engine has, of an image that brings no volume, health check or hook of its own.
"""

from __future__ import annotations

from threegate.core.errors import Unavailable


def image_digest(url: str, name: str) -> str:
    """The digest of an image of the engine. Raises Unavailable: there is no engine, or no such image."""
    from docker.errors import ImageNotFound

    from threegate.runners.era import container_engine as engine

    with engine.client(url) as api:
        try:
            found = str(api.inspect_image(name)["Id"])  # type: ignore[no-untyped-call]
        except ImageNotFound:
            raise Unavailable(f"{name}: is no image of the engine; pull or build it there first") from None
        except engine.FAULTS as error:
            raise Unavailable(f"no container engine: it does not answer ({engine.reason(error)})") from None
        engine.check_image(api, found)
    return found
