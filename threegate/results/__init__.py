"""What goes back: tool results (`TS-*.md`), the record of a run, and verdict files.

Public: `ResultFacts`, `render_result`, `deliver_result`, `write_record`, `read_record`, `validate_result`;
`Verdict`, `write_verdict`, `read_verdict`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.core.on_demand import on_demand

if TYPE_CHECKING:
    from threegate.results.render import deliver_result, render_result, show_streams
    from threegate.results.result_facts import (
        STATUSES,
        ResultFacts,
        check_record,
        read_record,
        render_record,
        result_name,
        write_record,
    )
    from threegate.results.space import reserve_result
    from threegate.results.validate import ResultProblem, validate_result
    from threegate.results.verdict import State, Verdict, put_verdict, read_verdict, verdict_path, write_verdict
else:
    __getattr__ = on_demand(
        __name__,
        {
            "render": "deliver_result render_result show_streams",
            "result_facts": "STATUSES ResultFacts check_record read_record render_record result_name write_record",
            "space": "reserve_result",
            "validate": "ResultProblem validate_result",
            "verdict": "State Verdict put_verdict read_verdict verdict_path write_verdict",
        },
    )

__all__ = [
    "STATUSES",
    "ResultFacts",
    "ResultProblem",
    "State",
    "Verdict",
    "check_record",
    "deliver_result",
    "put_verdict",
    "read_record",
    "read_verdict",
    "render_record",
    "render_result",
    "reserve_result",
    "result_name",
    "show_streams",
    "validate_result",
    "verdict_path",
    "write_record",
    "write_verdict",
]
