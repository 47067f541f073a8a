"""The sections [witnesses] and [metrics] of threegate.toml, and what the daemon's unit needs for them.

Invariant: it imports nothing heavy, because every command may read it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from threegate.core import limits
from threegate.core.file_names import WITNESS_NAME
from threegate.core.settings import Section, Settings, parse_duration
from threegate.core.toml_table import Table, setting

if TYPE_CHECKING:
    from threegate.core.workspace import Workspace
    from threegate.setup.service_unit import UnitNeeds


def _key_of_a_witness(value: str) -> None:
    name, key_id, encoded = value.split("+", 2)
    data = base64.b64decode(encoded)
    known = hashlib.sha256(name.encode() + b"\n" + data).hexdigest()[:8]
    if data[:1] != b"\x04" or known != key_id:
        raise ValueError("not the verifier key of a witness, or a part of it is wrong; copy it again")


class WitnessReference(Table):
    """A witness that cosigns trail checkpoints: where it answers, and the key that its cosignatures must be of."""

    url: str = setting(
        pattern=r"https?://([A-Za-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]{0,500})?",
        description=(
            "what comes before `/add-checkpoint`; http is enough, for what is sent is public to the witness and "
            "what comes is signed"
        ),
    )
    key: str = setting(
        pattern=r"[!-*,-~]{1,128}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}",
        description="the verifier key that `threegate serve witness` printed",
        check=_key_of_a_witness,
    )


def _different_witnesses(value: dict[str, WitnessReference]) -> None:
    if len(value) > limits.WITNESSES:
        raise ValueError(f"at most {limits.WITNESSES} witnesses are asked")
    if not all(re.fullmatch(WITNESS_NAME, name) for name in value):
        raise ValueError("a name has lower-case letters, digits and hyphens, at most 32")
    if len({witness.key for witness in value.values()}) < len(value):
        raise ValueError("two witnesses have one key: they are one witness")


class WitnessSettings(Table):
    """Who else sees the trail (docs/witnesses.md)."""

    named: dict[str, WitnessReference] = setting(
        default={},
        description="witnesses that are asked to cosign each trail checkpoint, by name",
        check=_different_witnesses,
        rest=True,
        example='office = { url = "http://10.0.0.2:8767", key = "..." }',
    )


class MetricsSettings(Table):
    """Numbers for Prometheus ([metrics] extra); `serve http` has them at /metrics as well."""

    textfile: str = setting(
        default="",
        pattern=r"(/.*\.prom)?",
        description="absolute path of a .prom file for node_exporter's textfile collector; empty: none is written",
    )
    interval: int = setting(parse=parse_duration, default=15, le=3600, description="how often it is written")


WITNESSES = Section(WitnessSettings)
METRICS = Section(MetricsSettings)


def unit_needs(workspace: Workspace, settings: Settings, uid: int | None, era: bool) -> UnitNeeds:
    """The daemon itself asks witnesses, and writes the file of metrics."""
    from threegate.setup.service_unit import UnitNeeds

    textfile = settings.section(MetricsSettings).textfile
    return UnitNeeds(
        network=bool(settings.section(WitnessSettings).named),
        writable=(Path(textfile).parent,) if textfile else (),
    )
