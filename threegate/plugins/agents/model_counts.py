"""What the launcher and the model relay exchange: settings at the start, then counts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Final

from threegate.plugins.agents.profile import Protocol

_COUNTS_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """The settings for the relay. `key` is empty for a loopback endpoint that needs none, and with a login."""

    protocol: Protocol
    url: str
    models: tuple[str, ...]
    key: str = field(repr=False)
    requests: int
    bytes: int
    tokens: int
    login: str = ""
    """The folder of a ChatGPT login, which `url` takes instead of a key."""
    identity_url: str = ""
    """Where the account of an access token is asked for."""


@dataclass(slots=True)
class ModelCounts:
    """What a run has used so far; bytes are those of bodies."""

    requests: int = 0
    refused: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    tokens: int = 0

    def write(self, descriptor: int) -> None:
        """Write the counts to the file, for the launcher."""
        # One write of a fixed length: the launcher reads whole counts even if the relay was killed.
        os.pwrite(descriptor, json.dumps(asdict(self)).encode().ljust(_COUNTS_BYTES), 0)

    @classmethod
    def read(cls, descriptor: int) -> ModelCounts:
        """The counts as last written."""
        data = os.pread(descriptor, _COUNTS_BYTES, 0)
        return cls(**json.loads(data)) if data.strip() else cls()
