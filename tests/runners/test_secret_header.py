"""Which job gets a secret, from where, and what the proxy is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine_fixtures import era_job
from threegate.core.errors import Unavailable
from threegate.core.settings import SecretReference
from threegate.runners.egress.egress import squid_conf
from threegate.runners.egress.secret_header import SecretHeader, forwarder, listening, secret_for, squid_lines

JOB = replace(
    era_job("python3", "/in/lane.py"),
    tool="github.issue_create_approved",
    proposal_sha256="0" * 64,
    network=("api.github.com:443",),
)
REFERENCE = SecretReference(env="GATE_TOKEN", path="/repos/a/b.c/issues")


def test_only_a_proposals_job_of_that_tool_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_TOKEN", "abc.DEF-1")
    references = {"github": REFERENCE}
    secret = secret_for(JOB, references)
    assert secret == SecretHeader("POST", "api.github.com", 443, "/repos/a/b.c/issues", "abc.DEF-1")
    assert "abc.DEF-1" not in repr(secret)
    assert secret_for(replace(JOB, proposal_sha256=None), references) is None
    assert secret_for(replace(JOB, tool="web.fetch"), references) is None
    assert secret_for(replace(JOB, tool=None), references) is None


@pytest.mark.parametrize(
    ("network", "value"),
    [
        (("other.example.com:443",), "abc"),
        (("api.github.com:443", "other.example.com:443"), "abc"),
        ((), "abc"),
        (("api.github.com:443",), ""),
        (("api.github.com:443",), 'a" all\nhttp_access allow all'),
        (("api.github.com:443",), "x" * 513),
    ],
)
def test_anything_else_starts_nothing(network: tuple[str, ...], value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_TOKEN", value)
    with pytest.raises(Unavailable) as caught:
        secret_for(replace(JOB, network=network), {"github": REFERENCE})
    assert value == "" or value not in str(caught.value)


def test_a_file_may_hold_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    reference = SecretReference(file=str(file), path="/x")
    with pytest.raises(Unavailable, match="cannot be read"):
        secret_for(JOB, {"github": reference})
    file.write_text("abcdef\n")
    secret = secret_for(JOB, {"github": reference})
    assert secret is not None
    assert secret.value == "abcdef"
    with pytest.raises(Unavailable, match=r"secrets\.github"):
        secret_for(JOB, {})


def test_the_proxy_is_told_one_method_host_and_path() -> None:
    secret = SecretHeader("POST", "api.github.com", 443, "/repos/a/b.c/issues", "TOKEN")
    lines = squid_lines(secret)
    assert r"acl secret_path urlpath_regex ^/repos/a/b\.c/issues$" in lines
    whole = squid_conf(["api.github.com:443"], [], secret)
    assert whole.index("http_access deny literal") < whole.index("http_access allow secret_host")
    assert whole.index("http_access deny secret_plain secret_host refused") < whole.index(
        "http_access allow secret_host"
    )
    assert whole.rstrip().endswith("http_access deny all")
    assert "TOKEN" not in whole
    assert "TOKEN" not in " ".join(forwarder(secret, "/f.py", "/ca.pem"))
    assert forwarder(secret, "/f.py", "/ca.pem")[-5:] == [
        "POST",
        "api.github.com",
        "443",
        "/repos/a/b.c/issues",
        "/ca.pem",
    ]


def test_the_forwarder_is_waited_for() -> None:
    head = "  sl  local_address rem_address   st tx_queue\n"
    assert not listening(head)
    assert not listening(head + "   0: 0100007F:0C3A 00000000:0000 01 00000000\n")
    assert not listening(head + "   0: 0100007F:0C39 00000000:0000 0A 00000000\n")
    assert listening(head + "   0: 0100007F:0C39 00000000:0000 0A 0\n   1: 0100007F:0C3A 00000000:0000 0A 00000000\n")
