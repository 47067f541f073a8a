"""The one frozen value on which decisions depend, and its digest (docs/spec/2-approval.md, "Policy").

Invariant: everything besides the Job that can change a decision is in a Policy and in its digest; it is loaded
completely from bytes, and no decision reads a file. Image, OCI runtime and root are in the Job of each request that
they matter to, so that a new one voids the approvals of those only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from threegate import __version__
from threegate.contracts.compiled import NO_CONTRACTS, Compiled, read_folder
from threegate.core import canonical
from threegate.core.settings import Settings, parse_settings
from threegate.core.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings and compiled contracts, with the digests that approvals name."""

    settings: Settings
    contracts: Compiled
    digest: str
    """What an approval of one request names: that of what the Job, the text that is signed, and the checks of a launch
    with today's settings do not have.
    """
    standing: str = ""
    """What a standing grant names, which signs no text of a request: that of all settings that decide. While it is the
    same, what was judged need not be judged again.
    """
    contract_digests: Mapping[str, str] = field(default_factory=dict)
    """sha256 of each file that the contracts were compiled from, by its path below contracts/."""
    document: bytes = b""
    """The data whose SHA-256 is `digest`: RFC 8785 JSON."""
    contract_files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The files that `contract_digests` names."""
    standing_document: bytes = field(default=b"", repr=False)
    """The data whose SHA-256 is `standing`, kept with each grant."""

    def kept(self) -> bytes:
        """The document, and the contracts that it names, in base64 by digest: canonical JSON, stored with
        each approval.
        """
        contracts = {
            self.contract_digests[name]: base64.b64encode(data).decode() for name, data in self.contract_files.items()
        }
        return canonical.canonical_bytes({"policy": self.document.decode(), "contracts": contracts})


def load_policy(
    workspace: Workspace,
    *,
    facts: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> Policy:
    """Read settings and contracts once and make the policy. Raises InvalidInput.

    Contracts that do not compile still make a policy: one that refuses every request.
    """
    settings = parse_settings(workspace.settings_bytes(), workspace.settings_file)
    folder = workspace.contracts
    files = read_folder(folder) if os.path.lexists(folder) else {}
    return make_policy(
        settings,
        files,
        facts=facts,
        environment=os.environ if environment is None else environment,
    )


def make_policy(
    settings: Settings,
    contract_files: Mapping[str, bytes],
    *,
    facts: Mapping[str, str],
    environment: Mapping[str, str],
) -> Policy:
    """The policy of settings and contract bytes; pure. `facts`: the backends' own facts, by name."""
    compiled = NO_CONTRACTS
    if contract_files:
        from threegate.contracts.compiler import compile_folder  # most workspaces have none

        compiled = compile_folder(
            contract_files,
            environment=environment,
            permit_timeout_allow=settings.contracts.permit_timeout_allow,
        )
    key = settings.workspace.id.encode()
    # Keyed with the workspace's id: a digest of a short secret could be guessed by trying values.
    named = {
        name: None if (value := environment.get(name)) is None else _keyed_hash(key, name, value)
        for name in sorted(compiled.variables)
    }
    digests = {name: canonical.sha256_hex(data) for name, data in sorted(contract_files.items())}
    document, standing = (
        canonical.canonical_bytes(
            # A duplicate fact name raises TypeError: no fact may hide another from the digest.
            dict(
                type="threegate-policy/2",
                settings=part,
                contracts=digests,
                environment=named,
                # Another version may decide otherwise about the same bytes.
                threegate=__version__,
                **facts,
            )
        )
        for part in (settings.unbound(), settings.deciding())
    )
    return Policy(
        settings,
        compiled,
        canonical.sha256_hex(document),
        canonical.sha256_hex(standing),
        digests,
        document,
        contract_files,
        standing,
    )


def changed_parts(before: bytes, now: bytes) -> tuple[str, ...]:
    """The names of what differs between the documents of two policies; never a value."""
    old, new = json.loads(before), json.loads(now)
    if old["type"] != new["type"]:
        return ("the version of ThreeGate",)
    parts = [differing(flat(old["settings"]), flat(new["settings"]))]
    parts.append([f"contracts/{name}" for name in differing(old["contracts"], new["contracts"])])
    parts.append([f"the variable {name}" for name in differing(old["environment"], new["environment"])])
    for name in differing(old, new):
        if name not in ("settings", "contracts", "environment"):
            parts.append([f"the version of {name}"])
    return tuple(name for part in parts for name in part)


def flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The values of nested tables by their path with dots."""
    rows: dict[str, Any] = {}
    left: list[tuple[str, Any]] = list(tables.items())
    while left:
        name, value = left.pop()
        if isinstance(value, Mapping):  # an empty one has no value
            left += [(f"{name}.{key}", item) for key, item in value.items()]
        else:
            rows[name] = value
    return rows


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The names under which two tables have other values."""
    missing = object()
    return sorted(name for name in old.keys() | new.keys() if old.get(name, missing) != new.get(name, missing))


def _keyed_hash(key: bytes, name: str, value: str) -> str:
    return hmac.new(key, f"{name}={value}".encode(), hashlib.sha256).hexdigest()
