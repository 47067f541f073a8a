"""A machine of the cluster: takes job envelopes from the broker, judges each again, runs it, and signs its result.

Invariant: whatever broker or daemon say, nothing runs here that an operator of this worker's own file did not sign for
exactly this job, and nothing twice.
"""

from __future__ import annotations

__all__: list[str] = []
