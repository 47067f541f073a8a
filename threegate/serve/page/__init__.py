"""The operator's page: what waits, runs and has ended, to look at on this machine and nowhere else.

Invariant: GET and HEAD only; nothing here approves, rejects, cancels or writes a request, its folders or the trail.
"""

from __future__ import annotations

from threegate.serve.page.app import create_server

__all__ = ["create_server"]
