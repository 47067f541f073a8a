"""Every attack is refused, by the rule that should refuse it."""

from __future__ import annotations

import pytest

from tests.adversarial.request.builders import variables
from tests.adversarial.request.hostile import APPROVAL, DRAFTS, EITHER, KEY, NAMES, TOKEN, Attack
from tests.request.examples import era, ids, read


@pytest.mark.parametrize("attack", DRAFTS, ids=lambda attack: ascii(attack[0])[1:60])
def test_a_hostile_draft_is_refused_by_its_rule(attack: Attack) -> None:
    _name, text, rule = attack
    report = read(text)
    assert not report.valid and report.request is None
    assert ids(report) & {rule, *EITHER.get(rule, ())}, report.findings


@pytest.mark.parametrize("attack", APPROVAL, ids=lambda attack: attack[0])
def test_a_hostile_approved_file_is_refused_by_its_rule(attack: Attack) -> None:
    _name, text, rule = attack
    report = read(text, stage="approved")
    assert not report.valid and rule in ids(report), report.findings


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_hostile_name_is_refused(name: str) -> None:
    report = read(era(), name=name)
    assert not report.valid and NAMES[name] in ids(report)


def test_the_corpus_is_large_and_every_attack_has_a_name_of_its_own() -> None:
    names = [name for name, _, _ in (*DRAFTS, *APPROVAL)]
    assert len(names) == len(set(names))
    assert len(names) + len(NAMES) >= 250


@pytest.mark.parametrize("attack", [a for a in DRAFTS if a[2] == "TG501"], ids=lambda attack: attack[0])
def test_no_report_repeats_a_secret(attack: Attack) -> None:
    report = read(attack[1])
    told = f"{report.findings!r} {report.masked_lines!r} {report.to_json()!r}"
    for secret in (KEY, TOKEN, "hunter2secret", "s3cretpass", "MIIE"):
        assert secret not in told


def test_a_secret_behind_escapes_is_withheld_with_its_lines() -> None:
    escaped = "".join(f"\\u{ord(char):04x}" for char in KEY)
    for text in (
        era(purpose=f'"{escaped}"'),
        era(request_id=f'"{escaped}"'),
        variables(f'{{"a": "{escaped}"}}'),
    ):
        report = read(text)
        assert "TG501" in ids(report)
        assert escaped[:24] not in "".join(report.masked_lines) and len(report.masked_lines) == text.count("\n") + 1
        assert report.request_id == (
            None if "request_id" in text.partition(escaped)[0].rpartition("\n")[2] else "rank-1"
        )
