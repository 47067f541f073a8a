"""What a code means, in one sentence: for people who see it on a screen and not in a manual.

Invariant: the sentences are ours; a code that nobody gave one has none, and is then shown alone.
"""

from __future__ import annotations

from typing import Final

from threegate.contracts.reasons import REASONS

APPROVAL: Final[dict[str, str]] = {
    "signature_missing": "There is no signature beside the request: approve it.",
    "signature_file_malformed": "The signature file is not spelled as ssh-keygen spells it: approve anew.",
    "signature_invalid": "The signature does not verify: approve anew.",
    "signer_unknown": "The key is not one that the operators file gives to this name.",
    "signer_revoked": "The key that signed is revoked.",
    "signer_expired": "The key that signed is outside of its time.",
    "statement_mismatch": "The signature is genuine and about something else: another request, or a copy of it.",
    "request_changed": "The bytes are not those that were signed.",
    "job_changed": "The same bytes mean something else today than when they were signed.",
    "input_changed": "An input's bytes are not those that are declared or were signed.",
    "input_missing": "An input that is declared is not there.",
    "policy_changed": "Settings, contracts, images or versions changed since it was signed: approve anew.",
    "operators_changed": "The operators' files are not the recorded ones: look, then threegate operator record.",
    "workspace_mismatch": "It was approved in another workspace, or before this one was adopted.",
    "expired": "The approval's time is over: threegate retry.",
    "not_yet_valid": "It was made at a time that lies ahead.",
    "clock_went_back": "The clock is behind the trail: set it right; until then nothing starts.",
    "replayed": "This id, approval or nonce was used before: threegate retry.",
    "self_approval": "Whoever asks cannot approve: another operator must.",
    "quorum_missing": "Further operators have to sign: threegate countersign.",
    "grants_off": "Standing grants are switched off.",
    "grant_missing": "There is no such standing grant any more.",
    "grant_used_up": "The standing grant was used as often as it may be.",
    "grant_mismatch": "The standing grant is about another job.",
    "proposal_changed": "The draft is not what its proposal makes: reject it.",
    "rejected": "An operator said no.",
    "no_backend": "What it needs to run is not there: threegate doctor.",
    "interrupted": "The daemon stopped while it ran; how far it came is not known, and it is never run again.",
    "cancelled": "An operator ended it.",
}
"""Codes of the approval gate and of the ends."""

AANA: Final[dict[str, str]] = {
    "accept": "The tool call may run.",
    "ask": "Somebody has to be asked before the call may run.",
    "defer": "The call needs stronger evidence, or somebody else, before it may run.",
    "refuse": "The call may not run.",
    "write_missing_explicit_confirmation": "A write needs an explicit confirmation, and there is none.",
    "write_missing_validation_or_confirmation": "A write needs a validated or confirmed authorization.",
    "runtime_refusal": "The runtime that asked had refused already.",
}
"""Routes of the Agent Action Contract, and its blockers."""


def meaning(code: str) -> str:
    """The sentence for a code or a route, or an empty text."""
    return APPROVAL.get(code) or REASONS.get(code) or AANA.get(code) or ""
