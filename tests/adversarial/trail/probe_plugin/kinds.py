"""The kinds of events of a plugin that is there for a test only: what its event says is the test's choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from threegate.trail.payloads.payload import Payload, frozen_fields


@frozen_fields
class Did(Payload):
    """The plugin did something."""

    kind = "probe.did"

    def sentence(self) -> str:
        return "did something"

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = vars(self)["data"]
        return data


def did(data: Mapping[str, Any]) -> Did:
    """An event with this data, whatever it is."""
    payload = Did()
    vars(payload)["data"] = dict(data)
    return payload


KINDS = (Did,)
