"""The whole reader: places, stages, masks, and that it never raises."""

from __future__ import annotations

import pytest

from tests.request.examples import APPROVED, ERA, KEYS, NAME, RISK, era, ids, monty, read, request
from threegate.request import reader as reader_module
from threegate.request.action import Command, Script
from threegate.request.exposure import exposure_lines
from threegate.request.reader import refuse_unread, stage_of


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("ws/inbox/TR-a.md", "draft"),
        ("inbox/TR-a.md", "draft"),
        ("ws/tool-exec/drafts/TR-a.md", "draft"),
        ("ws/drafts/TR-a.md", "approved"),
        ("ws/tool-exec/approved/TR-a.md", "approved"),
        ("TR-a.md", "approved"),
        ("-", "approved"),
    ],
)
def test_the_folder_decides_the_stage(path: str, stage: str) -> None:
    assert stage_of(path) == stage


def test_without_a_stage_the_path_decides() -> None:
    assert read(era(), stage=None, name=f"inbox/{NAME}").valid
    assert ids(read(era(), stage=None, name=NAME)) == {"TG142"}


def test_an_approved_request_is_read_with_who_and_when() -> None:
    report = read(era(**APPROVED), stage="approved")
    assert report.request is not None
    assert report.request.approved_by == "ada" and report.request.approved_utc is not None
    assert report.request.sha256 == report.sha256 and len(report.sha256) == 64


def test_every_value_of_a_whole_request_is_read() -> None:
    digest = "a" * 64
    report = read(
        request(
            {
                **KEYS,
                "inputs": f"[{{name: tree.tar, sha256: {digest}, unpack: true}}]",
                "workdir": "/in/tree",
                "network": "allowlist",
                "network_allowlist": "[b.example.com, 'a.example.com:8443']",
                "constraints": "[one]",
                "session_id": "s",
                "tool": "t",
                "labels": "[l]",
                "workflow": "w",
                "role": "r",
                "risk_domain": "finance",
                "evidence": "[{a: [1, 2.5, true, null, x]}]",
                "outputs_expected": "[{path: a b.txt, description: words}]",
            },
            {
                **ERA,
                "Command": "\nfrobnicate 'a b' c\n",
                "Input Files": "\n- /in/tree.tar\n",
                "Output Expectations": "\n- `/out/a b.txt` other words\n",
                "Risk Assessment": RISK.replace("rationale: none", "rationale: rates"),
            },
        )
    )
    found = report.request
    assert found is not None, report.findings
    assert found.action == Command(("frobnicate", "a b", "c")) and found.unusual_program
    assert (found.inputs[0].name, found.inputs[0].unpack, found.workdir) == ("tree.tar", True, "/in/tree")
    assert [(item.host, item.port) for item in found.network_allowlist] == [
        ("b.example.com", 443),
        ("a.example.com", 8443),
    ]
    assert [(item.path, item.description) for item in found.outputs] == [("/out/a b.txt", "words")]
    assert found.evidence == ({"a": [1, 2.5, True, None, "x"]},)
    assert (found.session_id, found.tool, found.labels, found.workflow, found.role) == (
        "s",
        "t",
        ("l",),
        "w",
        "r",
    )
    assert (found.risk_level, found.data_sensitivity, found.network_rationale) == ("low", "public", "rates")


def test_monty_code_and_variables_are_the_raw_text() -> None:
    found = read(monty()).request
    assert found is not None
    assert found.action == Script("print(1)\n", '{"limit": 3}\n')


@pytest.mark.parametrize(
    ("text", "rule", "line", "column"),
    [
        (era(network="full"), "TG138", 10, 10),
        (era(purpose='"a\\u202eb"'), "TG107", 7, 10),
        (era().replace("reads one", "re\u200bads"), "TG107", 31, 18),
        (era().replace("python3 -u", "python3 -u ;"), "TG304", 18, 12),
        (monty().replace("print(1)", "x = 1\nimport socket"), "TG403", 20, 8),
        (era(role="&a b"), "TG112", 14, 7),
        (era().replace("## Input", "## Inputs"), "TG201", 20, 4),
    ],
)
def test_findings_stand_where_the_mistake_is(text: str, rule: str, line: int, column: int) -> None:
    found = {(item.rule, item.line, item.column) for item in read(text).findings}
    assert (rule, line, column) in found, found


def test_a_reader_that_fails_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_data: bytes) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(reader_module, "read_source", broken)
    report = read(era())
    assert not report.valid and report.request is None and ids(report) == {"TG199"}
    assert "secret detail" not in repr(report)


def test_a_file_that_is_not_read_is_refused() -> None:
    report = refuse_unread("inbox/TR-a.md", "a\x1bb")
    assert not report.valid and report.stage == "draft" and ids(report) == {"TG100"}
    assert "\x1b" not in report.findings[0].message


def test_a_flood_of_one_kind_hides_no_other_kind() -> None:
    report = read(era(purpose="\u200b" * 400, network="full"))
    assert {"TG107", "TG138"} <= ids(report)
    assert len(report.findings) < 50


def test_everything_that_is_missing_is_told_at_once() -> None:
    text = request({"request_type": "tool_request"}, {**ERA, "Risk Assessment": "\nwords\n"})
    messages = [finding.message for finding in read(text).findings]
    assert sum("the key" in message for message in messages) == 10
    assert sum("the line" in message for message in messages) == 3


def test_the_id_is_told_of_an_invalid_file_too() -> None:
    assert read(era(network="full")).request_id == "rank-1"
    assert read(b"\xff").request_id is None
    assert read(era(request_id="AKIA" + "IOSFODNN7" + "QRSTUVW")).request_id is None


def test_masked_lines_keep_their_number_and_lose_the_secret() -> None:
    pem = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----"
    text = era().replace("reads one file", f"x\n\n```\n{pem}\n```\n\u200b")
    report = read(text)
    assert len(report.masked_lines) == text.count("\n") + 1
    assert not any("MIIE" in line for line in report.masked_lines)
    assert any("<U+200B>" in line for line in report.masked_lines)


def test_a_message_that_would_repeat_a_secret_is_replaced() -> None:
    key = "AKIA" + "IOSFODNN7" + "QRSTUVW"
    report = read(era().replace("python3", f"frob{key}"))
    assert not any(key[:5] in finding.message for finding in report.findings)


def test_a_secret_in_a_files_name_is_found_and_not_repeated() -> None:
    report = read(era(), name="TR-20261122-050000Z-" + "AKIAIOSFODNN7" + "EXAMPLQ.md")
    assert "TG501" in ids(report) and not any("EXAMPLQ" in finding.message for finding in report.findings)


def test_both_facts_of_a_request_have_a_line_each() -> None:
    hosts = "[b.example.com, 'a.example.com:8443']"
    text = era(network="allowlist", network_allowlist=hosts)
    open_to_two = read(text.replace("rationale: none", "rationale: asks both")).exposure
    alone = read(monty()).exposure
    assert open_to_two is not None and alone is not None
    assert exposure_lines(open_to_two)[1] == "network a.example.com:8443; network b.example.com:443"
    assert exposure_lines(alone)[0].startswith("transparent (") and exposure_lines(alone)[1] == "nothing"
