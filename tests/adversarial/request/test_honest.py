"""Honest requests pass, and come back the same when they are rendered and read again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.adversarial.request.honest import ALL, Honest
from tests.request.examples import APPROVED, era, read
from threegate.request.render_draft import render_request


@pytest.mark.parametrize("honest", ALL, ids=lambda honest: ascii(honest[0])[1:60])
def test_an_honest_request_passes_and_means_the_same_when_rendered(honest: Honest) -> None:
    report = read(honest[1])
    assert report.valid, report.findings
    assert report.request is not None
    again = read(render_request(report.request))
    assert again.request is not None, again.findings
    assert replace(again.request, data=b"", sha256="") == replace(report.request, data=b"", sha256="")


def test_an_approved_request_means_the_same_when_rendered() -> None:
    request = read(era(**APPROVED), stage="approved").request
    assert request is not None
    again = read(render_request(request), stage="approved").request
    assert again is not None
    assert replace(again, data=b"", sha256="") == replace(request, data=b"", sha256="")


def test_the_corpus_is_large() -> None:
    assert len({name for name, _ in ALL}) == len(ALL) >= 60
