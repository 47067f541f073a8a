"""The image for a tool server, as an operator named it.

Invariant: the result is a digest that the engine has, of an image without its own volumes, health checks or
hooks.
"""

from __future__ import annotations

from threegate.core.errors import Unavailable


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
