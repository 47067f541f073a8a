"""A machine of the cluster: takes job envelopes from the broker, judges each again, runs it, and signs its
result.

Invariant: whatever broker or daemon send, nothing runs here unless an operator in this worker's own file
signed exactly this job, and nothing runs twice.
"""

from __future__ import annotations

__all__: list[str] = []
