"""The operator's page: what is waiting, running and finished, viewable only on this machine.

Invariant: GET and HEAD only; nothing here approves, rejects, cancels or writes a request, its folders or the
trail.
"""

from __future__ import annotations

from threegate.serve.page.app import create_server

__all__ = ["create_server"]
