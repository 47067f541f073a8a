"""AMQP as both sides read it: a body is bytes, until its signature was checked.

Invariant: nothing that a sender writes into a message's properties makes a client decompress, decode or fail. Kombu
decompresses what a header asks for, py-amqp decodes what `content_encoding` asks for, and a property that py-amqp
cannot parse would end the connection each time that the broker delivers it again.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import pyamqp

from threegate.core.errors import Refused

_HEADER_FRAME = 2
_FIXED_HEADER_BYTES = 12
"""Class, weight and body size (AMQP 0-9-1, 4.2.6.1); the properties come behind."""
_NO_PROPERTIES = b"\0\0"


class _Message(pyamqp.Message):  # type: ignore[misc]
    """As Celery takes it: what is compressed is an error at once, and is never decompressed."""

    def __init__(self, msg: Any, channel: Any = None, **named: Any) -> None:
        if "compression" in (msg.properties.get("application_headers") or {}):
            refused = Refused("envelope_invalid", "a compressed message is not read")
            self.errors = [(Refused, refused, None)]  # kombu reads no body that has errors already
        super().__init__(msg, channel=channel, **named)


class _Channel(pyamqp.Channel):  # type: ignore[misc]
    Message = _Message

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.auto_decode = False


class _Connection(pyamqp.Connection):  # type: ignore[misc]
    Channel = _Channel

    def blocking_read(self, timeout: float | None = None) -> Any:
        """Read one frame; a message whose properties cannot be parsed comes without any."""
        with self.transport.having_timeout(timeout):
            kind, channel, payload = self.transport.read_frame()
        try:
            return self.on_inbound_frame((kind, channel, payload))
        except Exception:
            if kind != _HEADER_FRAME:
                raise
            bare = bytes(payload[:_FIXED_HEADER_BYTES]) + _NO_PROPERTIES
            return self.on_inbound_frame((kind, channel, bare))


class Transport(pyamqp.Transport):  # type: ignore[misc]
    """For `kombu.Connection` and for Celery's `broker_transport`."""

    Connection = _Connection


NAME = f"{__name__}:Transport"
"""As kombu and Celery name a transport."""
