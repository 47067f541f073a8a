"""Limits hold for whoever asks: writing another `requested_by` into a draft opens no fresh session."""

from __future__ import annotations

from pathlib import Path

from tests.contracts.material import folder
from tests.support import make_place, monty_draft, request_id


def test_another_name_in_the_text_is_no_other_requester(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    spec = {"threegate.monty": {}, "session": {"session_limits": {"max_tool_calls": 1}}}
    for name, data in folder(spec).items():
        (place.root / "tool-exec" / "contracts" / name).write_bytes(data)
    ids = [request_id(f"hop-{number}") for number in (1, 2)]
    for rid, name in zip(ids, ("core-agent", "somebody-else"), strict=True):
        draft = monty_draft(rid, "1 + 1").replace("requested_by: core-agent", f"requested_by: {name}")
        place.approve(place.drop(draft))
    place.once()
    texts = [place.result(rid) for rid in ids]
    assert sum("status: succeeded" in text for text in texts) == 1
    assert sum("session_limit_exceeded" in text for text in texts) == 1
