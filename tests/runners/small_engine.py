"""A socket that answers the two questions which are asked of a container engine before a request runs."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DOCKER = {"Version": "27.5.1", "Components": [{"Name": "Engine"}]}


@contextmanager
def small_engine(path: Path, image: str, version: object = DOCKER) -> Iterator[str]:
    """An engine that has one image, until the block ends. Yields its URL."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(8)
    answers = {"/version": version, f"/images/{image}/json": {"Id": image}}

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                asked = connection.recv(4096).split()
                if not asked:
                    return
                found = answers.get(asked[1].decode())
                head = b"HTTP/1.0 404 No\r\n\r\n" if found is None else b"HTTP/1.0 200 OK\r\n\r\n"
                connection.sendall(head + json.dumps(found).encode())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"unix://{path}"
    finally:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(path))
        thread.join(30)
        listener.close()
        path.unlink()
