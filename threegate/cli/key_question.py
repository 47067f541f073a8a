"""The key that ThreeGate makes for a person who has none: one question, on a terminal only.

Invariant: the two sentences here are those of docs/operators-day.md; a test compares them.
"""

from __future__ import annotations

from typing import Final

from threegate.acts.operator_keys import OperatorKey, make_key, own_key_file
from threegate.cli.invocation import confirmed, say

WITH: Final = "With a passphrase, decisions after an agent's run need ssh-agent or a second terminal."
WITHOUT: Final = "Without one, whoever reads the file can sign."


def key_made_here(*, ask: bool) -> tuple[OperatorKey, bool]:
    """ThreeGate's own key, and whether it was made now; if it has to be, and `ask`, the person says whether with a
    passphrase. Raises Unavailable, InvalidInput.
    """
    path = own_key_file()
    passphrase = False
    if ask and not path.is_file():
        say(f"No key is in ssh-agent, and none in ~/.ssh has a usual name. This makes one: {path}")
        say(WITH)
        say(WITHOUT)
        passphrase = confirmed("Set a passphrase?")
    return make_key(passphrase)


def new_key_line(key: OperatorKey) -> str:
    """What a person has to know of a key that was made now."""
    if key.asks == "passphrase":
        return f"new key   {key.private}. {WITH}"
    return f"new key   {key.private}, without a passphrase. {WITHOUT} To set one: ssh-keygen -p -f {key.private}"
