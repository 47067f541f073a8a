"""The statements of the published tool request schema that did not hold, and those that differ on purpose."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.request.examples import ERA, KEYS, NAME, NOW, RISK, SETTINGS, era, request
from tests.seeds.differences import differs
from tests.support import make_place, monty_draft, now_text, request_id
from threegate.request.reader import read_request
from threegate.request.report import Report

LISTED = {**KEYS, "network": "allowlist", "network_allowlist": "[api.example.com]"}


def read(text: str, path: str = NAME) -> Report:
    return read_request(text.encode(), path=path, settings=SETTINGS, now=NOW, stage="draft")


def said(text: str, path: str = NAME) -> dict[str, str]:
    """The errors by rule."""
    return {
        found.rule: f"{found.message} {found.help}" for found in read(text, path).findings if found.severity == "error"
    }


def command(line: str) -> str:
    return request(sections={**ERA, "Command": f"\n{line}\n"})


@differs("The name `TR-YYYYMMDD-HHMMSSZ-<slug>.md` is recommended, so `request.md` is a request")
def test_another_name_than_the_recommended_one_is_refused_with_the_form() -> None:
    assert "TR-YYYYMMDD-HHMMSSZ-<slug>.md" in said(era(), "request.md")["TG101"]
    assert not said(era(), "TR-anything.md")


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-22T05:00Z",
        "20261122T050000Z",
        "20261122T0500Z",
        "2026-11-22T05:00+00:00",
        "20261122T050000.0+00:00",
    ],
)
def test_created_utc_is_iso_8601(text: str) -> None:
    report = read(era(created_utc=text))
    assert report.request is not None and report.request.created_utc == datetime(2026, 11, 22, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["2026-W47-7T05:00:00Z", "2026-326T05:00:00Z", "2026-11-21T24:00:00Z", "2026-11-22T04:59:60Z", "20261121T2400Z",
     "2026-11-22T05:00:00-00:00", "20261122T05:00Z", "2026-11-22T0500Z", "2026-11-22T05:00:00.1234567Z",
     "2026-11-22T05:00.5Z", "2026-11-22T05Z", "2026-11-22T05:00"],
)  # fmt: skip
def test_created_utc_has_no_second_meaning(text: str) -> None:
    assert list(said(era(created_utc=f'"{text}"'))) == ["TG133"]


@differs("`network: allowlist` needs no further key")
def test_an_allowlist_without_hosts_is_refused_with_the_form_of_the_list() -> None:
    text = request({**KEYS, "network": "allowlist"}, {**ERA, "Risk Assessment": RISK.replace("none", "gets the rates")})
    assert "'  - api.example.com:443'" in said(text)["TG158"]


@pytest.mark.parametrize(
    "text",
    ["", "none needed", "Nothing", ".", "n/a", "N/A.", "not applicable", "-", "…", "Not required.", "no network needed",
     "network is needed", "TBD", "**none**", "unknown"],
)  # fmt: skip
def test_a_network_allowlist_without_a_rationale_is_refused(text: str) -> None:
    risk = RISK.replace("Network rationale: none", f"Network rationale: {text}")
    assert "TG253" in said(request(LISTED, {**ERA, "Risk Assessment": risk}))


@pytest.mark.parametrize("text", ["fetches the rates", "needed for the rates", "no other source has the rates", "売上"])
def test_a_rationale_that_says_why_is_one(text: str) -> None:
    risk = RISK.replace("Network rationale: none", f"Network rationale: {text}")
    assert not said(request(LISTED, {**ERA, "Risk Assessment": risk}))


@differs("`cpu_limit` is a string, so `500m` is one")
def test_a_cpu_limit_in_thousandths_is_refused_with_the_decimal_form() -> None:
    assert '500m is "0.5"' in said(era(cpu_limit='"500m"'))["TG139"]


@differs("The order of the sections is not stated, so any order will do")
def test_sections_out_of_order_are_refused_with_the_order() -> None:
    told = said(request(sections=dict(reversed(ERA.items()))))["TG204"]
    assert "## Command, ## Input Files, ## Output Expectations, ## Risk Assessment" in told


@pytest.mark.parametrize(
    "line",
    [r"python script.py C:\Windows", r"python script.py 'C:\Windows'", r'python script.py --in="c:\a"',
     r"python script.py \\host\share", r"python script.py '\\host\share'", r'python script.py "\\host\share"',
     "python script.py $HOME/x", 'python script.py "$HOME/x"', "python script.py --in=$TMPDIR/x"],
)  # fmt: skip
def test_attempts_to_access_host_paths_are_rejected(line: str) -> None:
    assert "TG317" in said(command(line))


@pytest.mark.parametrize(
    "line",
    [r"grep 'a:\d+' /in/a", r"grep \\bword\\b /in/a", r"grep '\\a\b' /in/a", r"sed 's/C:\\x/y/' /in/a",
     "awk '{print $1/2}' /in/a", r"python script.py a\ b 'x:y' '\n'", "python script.py '$5/day'"],
)  # fmt: skip
def test_a_pattern_or_a_text_is_no_host_path(line: str) -> None:
    assert not said(command(line))


def test_an_embedded_secret_is_rejected_also_as_a_bare_bearer_token() -> None:
    for token in ("abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrst", "a1B2.c3D4-e5F6_g7H8~i9"):
        assert "TG501" in said(era(purpose=f"Sends Bearer {token} along")), token
    for words in (
        "Bearer tokens are refused",
        "the bearer authentication-middleware-package",
        "Bearer <token-of-the-caller>",
    ):
        assert not said(era(purpose=f"Explains {words}")), words


@differs("The operator promotes a request by filling in `approved_by` and `approved_utc` and moving it into TOOL-EXEC")
def test_a_request_that_the_operator_promotes_by_hand_is_refused_and_names_the_missing_approval(tmp_path: Path) -> None:
    """Also where its inputs are not pinned: an approval would have pinned them."""
    place = make_place(tmp_path)
    filled = f"approved_by: operator\napproved_utc: {now_text(-1)}\n"
    digest = hashlib.sha256(b"[1]").hexdigest()
    for inputs in ({}, {"numbers.json": digest}):
        name = request_id(f"by-hand-{len(inputs)}")
        text = monty_draft(name, "1 + 1", inputs=inputs, extra=filled)
        (place.root / "tool-exec" / "approved" / f"{name}.md").write_text(text)
        place.once()
        result = place.result(name)
        assert 'reason: "signature_missing"' in result and "nobody approved it" in result, inputs
