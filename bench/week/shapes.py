"""Which drafts are decided on together: the rule of `threegate approve --group`, or a plain one where that is not there."""

from __future__ import annotations

import json

from threegate.core.settings import Settings
from threegate.request.job import build_job, platform_of
from threegate.request.model import Request

try:
    from threegate.review.group_shape import shape_of
except ImportError:

    def shape_of(request: Request, owner: int) -> str | None:
        """The same but for id, times, purpose, and plain numbers among Monty's variables."""
        if request.network != "none" or request.project is not None:
            return None
        job = build_job(
            request,
            input_sizes={item.sha256: 0 for item in request.inputs},
            platform=platform_of(Settings(), ""),
        )
        variables = json.loads(request.vars_json or "{}")
        kinds = {key: None if type(value) in (int, float) else value for key, value in variables.items()}
        return repr((owner, {**job.meaning(), "vars_sha256": ""}, kinds))
