"""Gate 2: did a human allow exactly these bytes, recently, once?

Public: `LaunchFacts` with `check_launch` and `launch_checks`, `load_operators`, the statements and
`sign_statement`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.core.on_demand import on_demand

if TYPE_CHECKING:
    from threegate.approval.act import check_act
    from threegate.approval.batch import BATCH_TYPE, Batch, BatchPlace, SignedApproval
    from threegate.approval.facts import (
        NO_SIGNATURE,
        VOID,
        VOID_TEXT,
        Check,
        LaunchFacts,
        PinnedFile,
        Under,
        VerifiedApproval,
        requester_of,
        statement_inputs,
    )
    from threegate.approval.keys import PublicKey, parse_key, parse_key_text
    from threegate.approval.launch import check_launch, launch_checks
    from threegate.approval.operators import NAME, Operator, Operators, load_operators, render_operator
    from threegate.approval.passkey import Passkey, challenge_of, passkey_of, passkey_signature
    from threegate.approval.quorum import Signer, check_countersignature
    from threegate.approval.signature import sign_statement
    from threegate.approval.signer import verify_signer
    from threegate.approval.ssh_wire import MalformedError
    from threegate.approval.sshsig import (
        NAMESPACE_ACT,
        NAMESPACE_APPROVAL,
        NAMESPACE_LOGIN,
        SshSignature,
        parse_armor,
    )
    from threegate.approval.statement import (
        Act,
        Countersignature,
        SignedBytes,
        Statement,
        StatementInput,
        format_utc,
        parse_utc,
        render_signed,
    )
else:
    __getattr__ = on_demand(
        __name__,
        {
            "act": "check_act",
            "batch": "BATCH_TYPE Batch BatchPlace SignedApproval",
            "facts": "NO_SIGNATURE VOID VOID_TEXT Check LaunchFacts PinnedFile Under VerifiedApproval requester_of "
            "statement_inputs",
            "keys": "PublicKey parse_key parse_key_text",
            "launch": "check_launch launch_checks",
            "operators": "NAME Operator Operators load_operators render_operator",
            "passkey": "Passkey challenge_of passkey_of passkey_signature",
            "quorum": "Signer check_countersignature",
            "signature": "sign_statement",
            "signer": "verify_signer",
            "ssh_wire": "MalformedError",
            "sshsig": "NAMESPACE_ACT NAMESPACE_APPROVAL NAMESPACE_LOGIN SshSignature parse_armor",
            "statement": "Act Countersignature SignedBytes Statement StatementInput format_utc parse_utc render_signed",
        },
    )

__all__ = [
    "BATCH_TYPE",
    "NAME",
    "NAMESPACE_ACT",
    "NAMESPACE_APPROVAL",
    "NAMESPACE_LOGIN",
    "NO_SIGNATURE",
    "VOID",
    "VOID_TEXT",
    "Act",
    "Batch",
    "BatchPlace",
    "Check",
    "Countersignature",
    "LaunchFacts",
    "MalformedError",
    "Operator",
    "Operators",
    "Passkey",
    "PinnedFile",
    "PublicKey",
    "SignedApproval",
    "SignedBytes",
    "Signer",
    "SshSignature",
    "Statement",
    "StatementInput",
    "Under",
    "VerifiedApproval",
    "challenge_of",
    "check_act",
    "check_countersignature",
    "check_launch",
    "format_utc",
    "launch_checks",
    "load_operators",
    "parse_armor",
    "parse_key",
    "parse_key_text",
    "parse_utc",
    "passkey_of",
    "passkey_signature",
    "render_operator",
    "render_signed",
    "requester_of",
    "sign_statement",
    "statement_inputs",
    "verify_signer",
]
