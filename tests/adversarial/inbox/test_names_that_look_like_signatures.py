"""A request file is never taken for another request's signature, nor a signature for a request."""

from __future__ import annotations

import pytest

from tests.support import Place, make_place, monty_draft, request_id
from threegate.core.file_names import is_request_name, request_of_companion


@pytest.mark.parametrize(
    ("name", "request_file", "signer"),
    [
        ("TR-a.md.sig", "TR-a.md", ""),
        ("TR-a.md.sig.bob", "TR-a.md", "bob"),
        ("TR-a.2.md.sig.bob@host", "TR-a.2.md", "bob@host"),
        ("TR-a.md.sig.x.md", "TR-a.md", "x.md"),
    ],
)
def test_a_signature_belongs_to_exactly_one_request(name: str, request_file: str, signer: str) -> None:
    assert request_of_companion(name) == (request_file, signer)
    assert not is_request_name(name)


@pytest.mark.parametrize("name", ["TR-a.md", "TR-a.2.md", "TR-20261122-050000Z-a.md", "TR-a.sigma.md", "TR-.md"])
def test_a_request_is_no_signature(name: str) -> None:
    assert is_request_name(name) and request_of_companion(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "TR-a.md.md",
        "TR-a.sig.md",
        "a.md",
        "TR-a.md.",
        "TR-a.MD",
        "TR-a/b.md",
        "TR-a.md\n",
        "TR-a.md.sig.",
        "TR-a.md.sigx",
    ],
)
def test_what_is_neither(name: str) -> None:
    assert not is_request_name(name) and request_of_companion(name) is None


def test_a_request_with_such_a_name_moves_nobody_elses_and_does_not_stop_the_daemon(tmp_path) -> None:  # type: ignore[no-untyped-def]
    place: Place = make_place(tmp_path)
    rid = request_id("mine")
    mine = place.drop(monty_draft(rid, "1"))
    place.approve(mine)
    stranger = monty_draft(request_id("strange"), "2")
    draft = place.drop(stranger, f"{rid}.md.sig.x.md")
    place.approve(draft, expect=2)
    place.once()
    assert [event["request_id"] for event in place.events("finished")] == [rid]
    assert len(place.results()) == 1
    assert place.verdict(draft.name)["reason"] == "unreadable"
    place.run("audit", "verify", expect=0)
