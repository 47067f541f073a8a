"""Ask a witness for its cosignature (the log's side of C2SP tlog-witness).

Invariant: the result is a cosignature that verified under the witness's key over this very checkpoint, or an
exception. One exchange takes at most WITNESS_SECONDS and reads at most WITNESS_ANSWER_BYTES; no redirect or
proxy is followed.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.evidence.witness import SIZE_TYPE
from threegate.trail.checkpoint import TrailCheckpoint
from threegate.trail.cosignature import AddCheckpoint, WitnessKey, with_cosignature

_SIZE = re.compile(rb"(0|[1-9][0-9]{0,15})\n")


class WitnessClient:
    """One witness. Remembers the size that it cosigned last, so that usually one exchange is enough."""

    def __init__(self, url: str, key: WitnessKey) -> None:
        self._url = urlsplit(url)
        self._key = key
        self._old = 0

    def cosigned(self, note: TrailCheckpoint, prove: Callable[[int, int], Sequence[bytes]]) -> TrailCheckpoint:
        """The checkpoint with this witness's cosignature behind its own signatures. `prove` makes consistency proofs.

        Raises Refused (the witness will not cosign this; `code` is the HTTP status), Unavailable (ask again later),
        InvalidInput (its answer is not a cosignature), TrailError.
        """
        # The second time with the size that the witness named: it may have cosigned more than this process knows.
        for _ in range(2):
            status, kind, body = self._post(note, prove)
            if status != 409:
                break
            self._old = self._conflict(note, kind, body)
        if status == 200:
            cosigned = with_cosignature(note, self._key, body)
            self._old = note.size
            return cosigned
        # It goes to a terminal and a log.
        said = re.sub(r"[^ -~]+", " ", body.decode("utf-8", "replace")).strip()[: limits.WITNESS_SAID_CHARS]
        if status in (400, 403, 404, 409, 422):
            raise Refused(str(status), f"{status} {said}")
        raise Unavailable(f"it answers {status} {said}")

    def _post(self, note: TrailCheckpoint, prove: Callable[[int, int], Sequence[bytes]]) -> tuple[int, str, bytes]:
        proof = prove(self._old, note.size) if self._old else ()
        body = AddCheckpoint(self._old, tuple(proof), note).render()
        return _exchange(self._url.scheme, self._url.netloc, f"{self._url.path.rstrip('/')}/add-checkpoint", body)

    def _conflict(self, note: TrailCheckpoint, kind: str, body: bytes) -> int:
        """The size that the witness cosigned last. Raises Refused if it is more than there is here."""
        match = _SIZE.fullmatch(body)
        if match is None or kind.partition(";")[0].strip() != SIZE_TYPE:
            raise Unavailable("it answers 409 without a size")
        size = int(match[1])
        if size > note.size:
            raise Refused("409", f"it cosigned {size} events before, here are {note.size}: cut, restored or copied")
        return size


def _exchange(scheme: str, netloc: str, path: str, body: bytes) -> tuple[int, str, bytes]:
    """One POST on a new connection: status, content type, body. Raises Unavailable."""
    seconds = limits.WITNESS_SECONDS
    connection: http.client.HTTPConnection
    if scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(netloc, timeout=seconds, context=context)
    else:
        connection = http.client.HTTPConnection(netloc, timeout=seconds)
    late = threading.Event()
    timer = None
    try:
        connection.connect()
        opened = connection.sock

        # A socket's timeout is for each read: a server that sends a byte at a time would hold the thread.
        def cut() -> None:
            late.set()
            with suppress(OSError):
                socket.socket.shutdown(opened, socket.SHUT_RDWR)

        timer = threading.Timer(seconds, cut)
        timer.daemon = True
        timer.start()
        connection.request("POST", path, body, {"Content-Type": "text/plain; charset=utf-8", "Connection": "close"})
        response = connection.getresponse()
        data = response.read(limits.WITNESS_ANSWER_BYTES + 1)
        if late.is_set():
            raise TimeoutError
        if len(data) > limits.WITNESS_ANSWER_BYTES:
            raise Unavailable(f"it answers more than {limits.WITNESS_ANSWER_BYTES} bytes")
        return response.status, response.headers.get("Content-Type", ""), data
    except TimeoutError:
        raise Unavailable(f"it does not answer within {seconds:g} s") from None
    except (OSError, http.client.HTTPException, ValueError, OverflowError) as error:
        if late.is_set():
            raise Unavailable(f"it does not answer within {seconds:g} s") from None
        said = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise Unavailable(f"it cannot be reached ({said})") from None
    finally:
        if timer is not None:
            timer.cancel()
        connection.close()
