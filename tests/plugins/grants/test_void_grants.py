"""A change of the policy voids a grant, and the refusal names what changed, with the line to type."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, once
from tests.plugins.grants.test_grant import give, results
from threegate.audit.audit_verify import verify_workspace
from threegate.audit.prune import prune
from threegate.cli import execute
from threegate.core.canonical import sha256_hex
from threegate.plugins.grants.grant import Grant
from threegate.plugins.grants.promotion import use_grants
from threegate.review.countersign import verify_approval
from threegate.trail.trail import Trail


@pytest.fixture
def ran(bench: Bench) -> Bench:
    """A workspace with grants on, in which req-1 ran."""
    bench.settings(grants__allow=True)
    bench.approve(bench.draft())
    once(bench)
    return bench


def promoted(bench: Bench, name: str = "req-2") -> Path:
    """A draft that a grant covers, promoted."""
    bench.draft(name, slug=name)
    (made,) = use_grants(bench.context)
    return made.path


def why(bench: Bench, path: Path) -> str:
    """Why it would not run now."""
    (failed,) = [check for check in verify_approval(bench.context, path) if check.ok is False]
    assert failed.code == "policy_changed"
    return failed.detail


def kept(bench: Bench, grant: Grant) -> Path:
    return bench.workspace.inputs / grant.policy_sha256


def put(**values: object) -> Callable[[Bench], None]:
    return lambda bench: bench.settings(**values)


def write_contract(bench: Bench) -> None:
    (bench.workspace.contracts / "threegate.monty.yaml").write_bytes(b"tool: threegate.monty\nside_effect: read\n")


CHANGES: dict[str, tuple[Callable[[Bench], None], str]] = {
    "a setting": (put(results__release="never"), "results.release"),
    "two settings": (put(results__release="never", aana__risk_domain="finance"), "aana.risk_domain, results.release"),
    "a setting that a signed text has": (put(request__programs=["python3"]), "request.programs"),
    "a secret's variable": (
        put(secrets__openai__env="OPENAI_API_KEY", secrets__openai__host="api.example.com"),
        ", ".join(f"secrets.openai.{key}" for key in ("env", "file", "host", "method", "path")),
    ),
    "a plugin's setting": (put(grants__allow_write=True), "grants.allow_write"),
    "a contract": (write_contract, "contracts/threegate.monty.yaml"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_refusal_names_what_changed(ran: Bench, change: str, capfd: pytest.CaptureFixture[str]) -> None:
    make, named = CHANGES[change]
    grant = give(ran)
    path = promoted(ran)
    make(ran)
    since = f"the grant {grant.id[:16]} was given; draft it again: threegate draft --again req-2"
    assert why(ran, path) == f"{named} changed since {since}"
    root = ["--workspace", str(ran.workspace.root)]
    assert execute([*root, "--json", "grant", "show", grant.id]) == 0
    assert json.loads(capfd.readouterr().out)["changed"] == named


def test_the_line_of_a_refused_request_works(ran: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    give(ran)
    promoted(ran)
    ran.settings(results__release="never")
    once(ran)
    assert 'reason: "policy_changed"' in results(ran) and "results.release changed since" in results(ran)
    root = ["--workspace", str(ran.workspace.root)]
    assert execute([*root, "show", "req-2"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert (line := re.search(r"threegate (draft --again req-2)", shown)) is not None
    assert execute([*root, *shlex.split(line[1])]) == 0
    assert "threegate approve " in capfd.readouterr().out


def test_a_grant_that_nothing_voids_says_so(ran: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    grant = give(ran)
    ran.settings(approval__draft_ttl="1d")  # decides about no approved request
    root = ["--workspace", str(ran.workspace.root)]
    assert execute([*root, "grant", "show", grant.id]) == 0
    assert re.search(r"changed +\| none", capfd.readouterr().out)
    ran.settings(results__release="never")
    assert execute([*root, "grant", "show", grant.id]) == 0
    assert re.search(r"changed +\| results\.release", capfd.readouterr().out)
    ran.settings(results__release="always")
    path = promoted(ran)
    assert all(check.ok for check in verify_approval(ran.context, path))


def test_the_trail_has_a_digest_and_no_value(ran: Bench) -> None:
    """What is kept is the data of the digest that the grant signs: its name in inputs/ and in the event."""
    grant = give(ran)
    assert sha256_hex(kept(ran, grant).read_bytes()) == grant.policy_sha256 == ran.context.policy.standing
    (event,) = [event for event in Trail(ran.workspace).events() if event.type == "granted"]
    assert event.data["files"][f"inputs/{grant.policy_sha256}"] == grant.policy_sha256
    assert "release" not in json.dumps(event.data)
    again = give(ran)  # one policy of two grants is kept once
    assert again.policy_sha256 == grant.policy_sha256
    assert not verify_workspace(ran.workspace).problems
    kept(ran, grant).unlink()
    assert [problem.place for problem in verify_workspace(ran.workspace).problems] == [str(kept(ran, grant))]


OTHERS: dict[str, Callable[[Path], object]] = {
    "nothing, as of an earlier version": lambda path: None,
    "another's bytes": lambda path: path.write_bytes(b'{"type":"threegate-policy/2"}'),
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_policy_that_was_not_kept_names_nothing_and_the_refusal_stays(ran: Bench, other: str) -> None:
    grant = give(ran)
    path = promoted(ran)
    kept(ran, grant).unlink()
    OTHERS[other](kept(ran, grant))
    ran.settings(results__release="never")
    assert why(ran, path).startswith("settings, contracts or versions changed since the grant ")


def test_pruning_keeps_what_a_grant_needs(ran: Bench) -> None:
    grant = give(ran)
    done = prune(ran.workspace, before=datetime.now(UTC) + timedelta(days=1), actor="test")
    assert done.inputs and grant.policy_sha256 not in done.inputs and kept(ran, grant).exists()
