"""The policy: whole, frozen, read once; its digest changes with everything that can change a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tests.contracts.material import folder
from threegate.contracts.compiled import read_folder
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.settings import parse_settings
from threegate.core.workspace import Workspace
from threegate.judgement.policy import Policy, changed_parts, flat, load_policy, make_policy

CONTRACTS = folder({"threegate.monty": {}})
BY_STAGE = folder(
    {
        "threegate.monty": {
            "assertions": {
                "input_invariants": [{"path": "$.vars.stage", "equals_env": "STAGE"}],
                "output_invariants": [],
            }
        }
    }
)
HERE = {"STAGE": "a secret stage", "OTHER": "1"}


def policy(
    text: str = "",
    files: Mapping[str, bytes] = CONTRACTS,
    *,
    seccomp: str = "0" * 64,
    environment: Mapping[str, str] = HERE,
) -> Policy:
    settings = parse_settings(f'[workspace]\nid = "ws-{"0" * 32}"\n{text}'.encode())
    return make_policy(settings, files, facts={"seccomp": seccomp}, environment=environment)


def workspace(root: Path) -> Workspace:
    made = Workspace(root)
    made.contracts.mkdir(parents=True)
    made.settings_file.write_text("")
    return made


def test_the_same_bytes_give_the_same_policy() -> None:
    assert policy().digest == policy().digest and len(policy().digest) == 64
    with pytest.raises(FrozenInstanceError):
        policy().digest = "0" * 64  # type: ignore[misc]


@pytest.mark.parametrize(
    "other",
    [
        policy("[approval]\nsignature = 'optional'"),
        policy("[results]\nrelease = 'never'"),
        policy("[aana]\nrisk_domain = 'finance'"),
        policy("[principals.core]\ntier = 'L2'"),
        policy(files={}),
        policy(files={**CONTRACTS, "notes.yaml": b"# a comment\n"}),
        policy(seccomp="1" * 64),
        policy("[contracts]\nmode = 'shadow'"),
    ],
    ids=["signature", "release", "domain", "principals", "no contracts", "one more file", "seccomp", "mode"],
)
def test_what_can_change_a_decision_changes_both_digests(other: Policy) -> None:
    assert other.digest != policy().digest and other.standing != policy().standing


@pytest.mark.parametrize(
    "text",
    [
        "[approval]\nttl = '2h'",
        "[approval.quorum]\nhigh = 2",
        "[approval]\npasskey_origin = 'https://approve.example.org:8443'",
        "[request]\nmax_memory_mb = 64",
        "[request]\nprograms = ['jq']",
        "[requesters]\n1000 = 'core'",
        "[secrets.github]\nenv = 'TOKEN'",
        "[runners.era]\nrequire_readback = true",
        "[runners.era]\nengine = 'unix:///run/other.sock'",
    ],
)
def test_what_an_approval_signs_otherwise_is_only_in_that_of_grants(text: str) -> None:
    """Job, signed text and the checks with today's settings have it (test_void_approvals.py); a grant signs none."""
    other = policy(text)
    assert other.digest == policy().digest and other.standing != policy().standing


def test_a_setting_is_in_the_digest_of_approvals_unless_it_is_bound_otherwise() -> None:
    """A new one is in it until it gets a row here and in docs/spec/2-approval.md, with what binds it."""
    settings = policy("[secrets.github]\nenv = 'TOKEN'\n[requesters]\n1000 = 'core'").settings
    bound = flat(settings.deciding()).keys() - flat(settings.unbound()).keys()
    page = (Path(__file__).resolve().parents[2] / "docs/spec/2-approval.md").read_text("utf-8")
    rows = {
        "request.max_*": {"request.max_cpu", "request.max_memory_mb", "request.max_time_sec"},
        "request.programs": {"request.programs"},
        "requesters": {"requesters.1000"},
        "approval.ttl": {"approval.ttl"},
        "approval.quorum": {f"approval.quorum.{risk}" for risk in ("low", "medium", "high")},
        "passkey_origin": {"approval.passkey_origin"},
        "runners.era.engine": {"runners.era.engine"},
        "require_readback": {"runners.era.require_readback"},
        "secrets": {f"secrets.github.{name}" for name in ("env", "file", "method", "host", "path")},
    }
    assert bound == set().union(*rows.values())
    assert all(f"`{name}`" in page for name in rows)


def test_the_names_of_what_changed() -> None:
    asked = policy(files=BY_STAGE)
    assert changed_parts(asked.document, asked.document) == ()
    other = policy("[results]\nrelease = 'never'", {**CONTRACTS, "more.yaml": b"#\n"}, seccomp="1" * 64, environment={})
    assert changed_parts(asked.document, other.document) == (
        "results.release",
        "contracts/more.yaml",
        "contracts/threegate.monty.yaml",
        "the variable STAGE",
        "the version of seccomp",
    )
    older = asked.document.replace(b"threegate-policy/2", b"threegate-policy/1")
    assert changed_parts(older, other.document) == ("the version of ThreeGate",)


@pytest.mark.parametrize("name", ["image", "egress_image", "runtime", "root"])
def test_what_a_job_names_itself_leaves_the_digest(name: str) -> None:
    """A new image voids the approvals of requests that it would run, and no other one."""
    value = {"runtime": "runsc", "root": "/srv/root"}.get(name, f"sha256:{'1' * 64}")
    assert policy(f"[runners.era]\n{name} = '{value}'").digest == policy().digest


def test_what_cannot_does_not() -> None:
    assert policy("[audit]\ncheckpoint_every = 7").digest == policy().digest
    assert policy(environment={}).digest == policy().digest, "no contract asks for the environment"


def test_the_environment_counts_as_far_as_contracts_name_it_and_only_by_a_keyed_hash() -> None:
    asked = policy(files=BY_STAGE)
    assert policy(files=BY_STAGE, environment={**HERE, "OTHER": "2"}).digest == asked.digest
    other = policy(files=BY_STAGE, environment={**HERE, "STAGE": "another"})
    gone = policy(files=BY_STAGE, environment={})
    assert len({asked.digest, other.digest, gone.digest}) == 3
    assert HERE["STAGE"] not in repr((asked.digest, asked.contract_digests, asked.settings))


def test_contracts_that_do_not_compile_make_a_policy_that_refuses(tmp_path: Path) -> None:
    place = workspace(tmp_path)
    (place.contracts / "broken.yaml").write_bytes(b"tool: [")
    found = load_policy(place, facts={"seccomp": "0" * 64}, environment={})
    assert not found.contracts.ok and set(found.contract_digests) == {"broken.yaml"}


def test_it_is_read_once(tmp_path: Path) -> None:
    place = workspace(tmp_path)
    for name, data in CONTRACTS.items():
        (place.contracts / name).write_bytes(data)
    found = load_policy(place, facts={"seccomp": "0" * 64}, environment={})
    assert found.contracts.ok and "threegate.monty" in found.contracts.contracts
    for path in place.contracts.iterdir():
        path.unlink()
    assert found.contracts.ok and "threegate.monty" in found.contracts.contracts
    assert load_policy(place, facts={"seccomp": "0" * 64}, environment={}).digest != found.digest


def test_which_files_are_contracts(tmp_path: Path) -> None:
    for name in (
        "a.yaml",
        "b.yml",
        "sub/c.json",
        "notes",
        "README.md",
        ".d.yaml",
        ".state/e.yaml",
        "sub/.f/g.yaml",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    assert read_folder(tmp_path) == {
        "a.yaml": b"a.yaml",
        "b.yml": b"b.yml",
        "notes": b"notes",
        "sub/c.json": b"sub/c.json",
    }


def test_a_link_a_second_name_and_too_many_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_bytes(b"tool: t\n")
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    link = contracts / "a.yaml"
    link.symlink_to(outside)
    with pytest.raises(InvalidInput, match=r"a\.yaml: cannot be read"):
        read_folder(contracts)
    link.unlink()
    link.hardlink_to(outside)
    with pytest.raises(InvalidInput, match=r"a\.yaml: cannot be read"):
        read_folder(contracts)
    link.unlink()
    monkeypatch.setattr(limits, "CONTRACT_FILES", 2)
    for number in range(3):
        (contracts / f"{number}.yaml").touch()
    with pytest.raises(InvalidInput, match="more than 2 files"):
        read_folder(contracts)
