"""`threegate operator distribute`: sign the operators files for the workers of a cluster."""

from __future__ import annotations

from threegate.acts.signed_acts import checked_act, sign_act
from threegate.acts.signing_key import Acting
from threegate.cli.invocation import JsonFlag, context_here, emit_json, say, wants_json
from threegate.cli.signing_options import KeyOption, NameOption, acting_here
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.launch.context import Context
from threegate.launch.launch_problem import read_operators
from threegate.plugins.cluster.kinds import OperatorsDistributed
from threegate.plugins.cluster.operators_act import OPERATORS_ACT, about_operators, signed_operators_file
from threegate.trail import moves


def distribute(name: NameOption = "", key: KeyOption = None, json_: JsonFlag = False) -> None:
    """Sign the operators files for the workers of a cluster.

    The daemon sends them to each worker that runs with --take-operators and has other ones.

    Example: threegate operator distribute --as alice
    """
    context = context_here()
    number = distribute_operators(context, acting_here(context, name, key))
    if wants_json(json_):
        emit_json({"number": number})
        return
    say(f"signed as number {number}: the daemon sends the operators files to workers that run with --take-operators")


def distribute_operators(context: Context, acting: Acting) -> int:
    """Sign, record, and leave it for the daemon; returns the number. Raises InvalidInput, Refused, Unavailable,
    TrailError, OSError.
    """
    operators = read_operators(context.workspace)
    if sum(len(data or b"") for data in (operators.data, operators.revoked, operators.passkeys)) > _MOST:
        raise InvalidInput(
            f"tool-exec/operators: more than {_MOST} bytes with its companions; copy them to the workers"
        )
    with context.trail.locked() as held:
        about = about_operators(operators, held.index.head.seq)
    signed = sign_act(context, acting, OPERATORS_ACT, about)
    with context.trail.locked() as held:
        actor, act = checked_act(context, held, signed, OPERATORS_ACT, about)
        moves.announce(held, OperatorsDistributed(**{**about, **act}), actor=actor)
        durable.overwrite(signed_operators_file(context.workspace), signed)
    return int(about["number"])


_MOST = limits.CLUSTER_OPERATORS_BYTES
