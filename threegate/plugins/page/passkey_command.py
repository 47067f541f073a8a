"""`threegate operator passkey`: an operator enrols a passkey of their own."""

from __future__ import annotations

import time

from threegate.acts.signed_acts import sign_act
from threegate.cli.invocation import JsonFlag, context_here, emit_json, on_terminal, say, wants_json, warn
from threegate.cli.signing_options import KeyOption, NameOption, acting_here, ask
from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.plugins.page.page_login import new_enrolment, passkey_made
from threegate.plugins.page.passkeys import PASSKEY_ACT, enrol_passkey, read_made_passkey
from threegate.plugins.page.serve_approve_command import passkey_origin


def passkey(name: NameOption = "", key: KeyOption = None, json_: JsonFlag = False) -> None:
    """Enrol a passkey of yours, signed with your SSH key.

    The command prints a link to the page of `threegate serve passkeys` and waits. It always asks: only
    comparing the fingerprints keeps out the passkey of someone else who got the link.

    Example: threegate operator passkey --as alice
    """

    if not on_terminal():
        raise InvalidInput(
            "not on a terminal: a person must compare the passkey's fingerprint with the one on the page"
        )
    context = context_here()
    origin = passkey_origin(context.policy.settings)
    acting = acting_here(context, name, key)
    code = new_enrolment(context.workspace, acting.name)
    warn("open this link on the device you will approve from, within ten minutes:")
    say(f"{origin}/page/enrol/{code}", err=True, copied=True)
    until = time.monotonic() + limits.PAGE_LOGIN_SECONDS
    while (data := passkey_made(context.workspace, code)) is None:
        if time.monotonic() > until:
            raise Unavailable("no passkey was made within ten minutes; is `threegate serve passkeys` running?")
        time.sleep(0.2)
    made = read_made_passkey(data, origin)
    warn(f"passkey {made.key.fingerprint}")
    warn(f"for     {acting.name}, who can approve with it on {origin}")
    ask("Does the page show the same fingerprint? Sign its enrolment?", False)
    entry = enrol_passkey(context, acting.name, made, sign_act(context, acting, PASSKEY_ACT, made.about(acting.name)))
    if wants_json(json_):
        emit_json({"operator": entry.name, "key": entry.key.fingerprint, "origin": origin})
        return
    say(f"enrolled {entry.name} {entry.key.fingerprint} for {origin}")
