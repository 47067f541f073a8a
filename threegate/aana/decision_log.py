"""The audit-safe event of a decision, and the file with one JSON line for each.

Invariant: it never contains a value of the call, only argument keys, masked identifiers, codes and salted
fingerprints; a decision that could not be recorded raises, so that nothing runs unrecorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args

from threegate.aana.decision import EVENT_TYPE
from threegate.aana.leaks import masked_names
from threegate.core import durable, limits

Surface = Literal["api", "guard", "cli", "http", "mcp", "daemon"]
VerdictType = Literal["proposal_verdict/1", "contract_decision/1"]
VERDICT_TYPES: Final[frozenset[str]] = frozenset(get_args(VerdictType))
"""Lines about what another gate said, in the same file."""

_SALT_BYTES: Final = 32
_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


def audit_event(
    event: Any,
    result: dict[str, Any],
    *,
    salt: bytes,
    surface: Surface,
    now: datetime,
    latency_us: int = 0,
) -> dict[str, Any]:
    """The audit-safe event of a decision (docs/spec/3-aana.md): ids, names, codes, argument keys, fingerprints. Never
    values.

    `salt` keys the fingerprints (HMAC-SHA256), so that equal arguments are recognised and none can be guessed.
    """
    formed = not result["validation_errors"]
    return {
        **result["audit_safe_log_event"],
        "time": now.astimezone(UTC).strftime(_TIME),
        "surface": surface,
        "arguments_fingerprint": _fingerprint(event["proposed_arguments"], salt) if formed else None,
        "event_fingerprint": _fingerprint(event, salt) if formed else None,
        "latency_us": latency_us,
    }


def _fingerprint(value: Any, salt: bytes) -> str | None:
    """HMAC-SHA256 of the value's sorted JSON; None for a number too long to be written."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except ValueError:
        return None
    return "hmac-sha256:" + hmac.new(salt, text.encode(), hashlib.sha256).hexdigest()


@dataclass
class DecisionLog:
    """A file of audit-safe events, one JSON line each, appended with one write a line (mode 0600).

    The salt is stored next to it in ``<name>.salt``, made once, mode 0600. Nothing is opened before the first line.
    """

    path: Path
    _salt: bytes | None = field(default=None, init=False, repr=False)

    def record(
        self, event: Any, result: dict[str, Any], *, surface: Surface, now: datetime, latency_us: int = 0
    ) -> dict[str, Any]:
        """Append the audit-safe event of a decision and return it. Raises OSError when it cannot be written."""
        line = audit_event(event, result, salt=self._own_salt(), surface=surface, now=now, latency_us=latency_us)
        return self._append(line)

    def record_verdict(
        self,
        kind: VerdictType,
        value: Any,
        *,
        names: Mapping[str, Any],
        verdict: str,
        codes: Sequence[str],
        surface: Surface,
        now: datetime,
        latency_us: int = 0,
    ) -> dict[str, Any]:
        """Append another gate's decision on `value`: masked `names`, codes, a fingerprint. Raises OSError."""
        line = {
            "type": kind,
            **dict(zip(names, masked_names(list(names.values())), strict=True)),
            "verdict": verdict,
            "codes": list(codes)[: limits.AANA_LOG_KEYS],
            "time": now.astimezone(UTC).strftime(_TIME),
            "surface": surface,
            "fingerprint": _fingerprint(value, self._own_salt()),
            "latency_us": latency_us,
        }
        return self._append(line)

    def _append(self, line: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            # Otherwise a full disk takes a part of the line, and the next decision is appended to that.
            durable.reserve_fd(descriptor, os.fstat(descriptor).st_size, len(data), self.path)
            durable.write_fd(descriptor, data, self.path)
        finally:
            os.close(descriptor)
        return line

    def _own_salt(self) -> bytes:
        if self._salt is None:
            path = self.path.with_name(f"{self.path.name}.salt")
            with contextlib.suppress(FileExistsError):
                durable.deliver(path, secrets.token_bytes(_SALT_BYTES))
            self._salt = durable.read_regular(path, max_bytes=_SALT_BYTES)
            if len(self._salt) != _SALT_BYTES:
                raise OSError(f"{path}: not a salt of {_SALT_BYTES} bytes; move it and its log away")
        return self._salt


@dataclass
class Summary:
    """Counts over a period of a decision log."""

    decisions: int = 0
    unreadable_lines: int = 0
    routes: Counter[str] = field(default_factory=Counter)
    blockers: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    surfaces: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    """What other gates said, as ``proposal_verdict/1 block``; not among `decisions`."""

    def as_json(self) -> dict[str, Any]:
        """As a JSON value, most frequent first."""
        return {
            "decisions": self.decisions,
            "unreadable_lines": self.unreadable_lines,
            **{
                name: dict(getattr(self, name).most_common())
                for name in ("routes", "blockers", "tools", "surfaces", "verdicts")
            },
        }


def summarise(lines: Iterable[bytes], *, since: datetime | None = None, until: datetime | None = None) -> Summary:
    """Count routes, blockers, tools and surfaces of the lines from `since` up to and without `until`."""
    total = Summary()
    for line in lines:
        try:
            value = json.loads(line)
            moment = datetime.fromisoformat(value["time"])
            other = value["type"] in VERDICT_TYPES
            route = value["verdict" if other else "route"]
            counted = (route, value["tool_name"] or "(none)", value["surface"])
            blockers = [] if other else list(value["hard_blockers"])
            if not all(isinstance(word, str) for word in (*counted, *blockers)):
                raise ValueError
            if not other and value["type"] != EVENT_TYPE:
                raise ValueError
            outside = (since is not None and moment < since) or (until is not None and moment >= until)
        except (ValueError, KeyError, TypeError, RecursionError):
            total.unreadable_lines += 1
            continue
        if outside:
            continue
        if other:
            total.verdicts[f"{value['type']} {route}"] += 1
            continue
        total.decisions += 1
        total.routes[counted[0]] += 1
        total.tools[counted[1]] += 1
        total.surfaces[counted[2]] += 1
        total.blockers.update(blockers)
    return total
