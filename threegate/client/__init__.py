"""For programs that ask before they call a function of their own: docs/decisions.md."""

from threegate.client.asked_decision import Decision, ask
from threegate.core.errors import InvalidInput, NoWorkspace, Refused, ThreeGateError, Unavailable

__all__ = ["Decision", "InvalidInput", "NoWorkspace", "Refused", "ThreeGateError", "Unavailable", "ask"]
