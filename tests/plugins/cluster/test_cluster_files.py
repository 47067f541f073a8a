"""The files of a cluster without a broker: made, completed, refreshed, renewed, reduced."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.plugins.cluster.conftest import Bench
from threegate.cli import execute
from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace
from threegate.plugins.cluster import cluster_files
from threegate.plugins.cluster.cluster_files import Site, definitions
from threegate.plugins.cluster.section import ClusterSettings
from threegate.plugins.cluster.worker.identity import read_identity

Make = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cluster"


@pytest.fixture
def make(bench: Bench, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Make:
    """`threegate settings cluster`, as JSON; with `code`, only that it ends so."""
    monkeypatch.chdir(bench.place.root)

    def made(*words: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert execute(["settings", "cluster", str(folder), *words, "--json"]) == code
        value: dict[str, Any] = json.loads(capsys.readouterr().out or "{}")
        return value

    return made


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nobody_may_more_than_it_needs() -> None:
    """The rights of docs/cluster.md, for every user; no user has a password, each has limits."""
    made = definitions(["w1", "w2"])
    rights = {item["user"]: (item["configure"], item["write"], item["read"]) for item in made["permissions"]}
    assert rights["w1"] == ("^$", r"^(res|out)\.w1$", r"^(job|beat|note|chunk)\.w1$")
    assert rights["daemon"] == ("^$", "^(job|beat|note|chunk|lead)$", r"^((res|out)\.[a-z0-9-]+|lost|lead)$")
    assert {user["password_hash"] for user in made["users"]} == {""}
    assert all(user["limits"] == {"max-connections": 16, "max-channels": 32} for user in made["users"])
    jobs = next(queue for queue in made["queues"] if queue["name"] == "job.w1")
    assert jobs["arguments"] == {
        "x-queue-type": "quorum",
        "x-delivery-limit": 0,
        "x-dead-letter-exchange": "lost",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }


def test_another_virtual_host_has_users_of_its_own() -> None:
    """Users belong to the whole broker: no name occurs in the definitions of two daemons."""
    ours, theirs = definitions(["w1"]), definitions(["w1"], Site(vhost="b"))
    assert [user["name"] for user in theirs["users"]] == ["daemon@b", "w1@b"]
    assert {item["vhost"] for part in ("permissions", "queues", "exchanges", "bindings") for item in theirs[part]} == {
        "b"
    }
    assert not {user["name"] for user in ours["users"]} & {user["name"] for user in theirs["users"]}


def test_made_and_completed(make: Make, bench: Bench, folder: Path) -> None:
    """A second call adds a worker: no key or certificate changes, host and port are kept, names are checked."""
    first = make("--worker", "w1", "--host", "broker.example", "--port", "5679")
    before = everything(folder)
    assert first["settings"]["cluster.broker"] == "amqps://broker.example:5679/threegate"
    assert "systemctl restart rabbitmq-server" in first["steps"]
    second = make("--worker", "w2")
    changed = ["broker/definitions/threegate.json"]
    assert [name for name in second["changed"] if not name.startswith("workers/w2/")] == changed
    assert {name: data for name, data in everything(folder).items() if name in before} == {
        **before,
        changed[0]: (folder / changed[0]).read_bytes(),
    }
    assert second["settings"]["cluster.broker"] == first["settings"]["cluster.broker"]
    assert second["steps"] == [
        "On this machine:",
        f"scp -r {folder}/broker/. root@broker.example:/etc/rabbitmq/",
        f"scp -r {folder}/workers/w2/. root@w2:/etc/threegate-worker/",
        "On broker.example, as root:",
        "chown -R rabbitmq: /etc/rabbitmq",
        "rabbitmqctl import_definitions /etc/rabbitmq/definitions/threegate.json",
        "On w2, as root:",
        "chown -R --reference=/etc/threegate-worker /etc/threegate-worker",
    ]
    assert make()["steps"] == [] and make()["changed"] == []
    for path in folder.rglob("*.key"):
        assert path.stat().st_mode & 0o077 == 0, path
    names = certificate(folder / "broker/tls.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["broker.example"]
    text = (folder / "broker/rabbitmq.conf").read_text()
    assert "listeners.tcp = none" in text and "load_definitions = /etc/rabbitmq/definitions\n" in text
    identity = read_identity(folder / "workers/w1")
    assert (identity.name, identity.workspace_id) == ("w1", bench.trust.workspace_id)
    for words in (["--worker", "Bad_Name"], ["--worker", "daemon"], ["--host", "a b"], ["--broker-dir", "x"]):
        make(*words, code=2)
    make("--vhost", "other", code=2)
    (folder / "workers/w1/sign.key").chmod(0o644)
    with pytest.raises(Unavailable, match="chmod 600"):
        read_identity(folder / "workers/w1")
    (folder / "workers/w2/sign.key").unlink()
    made = read_identity(folder / "workers/w2").key.public
    assert read_identity(folder / "workers/w2").key.public == made


def test_nothing_is_made_of_nothing(make: Make, folder: Path) -> None:
    """No worker; a folder of an earlier version without the host; a broken file of ours; a CA without its key."""
    make(code=2)
    make("--worker", "w1")
    (folder / "cluster.json").write_text("{")
    make(code=3)
    (folder / "cluster.json").unlink()
    make(code=2)
    assert make("--host", "localhost")["changed"] == ["cluster.json"]
    (folder / "ca/ca.key").unlink()
    make("--worker", "w2", code=3)


def test_another_host_gets_another_certificate(make: Make, folder: Path) -> None:
    """The broker's name is in its certificate; the others are kept."""
    make("--worker", "w1", "--host", "a.example")
    made = make("--host", "10.0.0.7")
    assert made["changed"] == ["broker/tls.key", "broker/tls.pem", "cluster.json"]
    names = certificate(folder / "broker/tls.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert [str(name) for name in names.value.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    assert "rabbitmqctl eval 'ssl:clear_pem_cache().'" in made["steps"]


def test_copies_of_the_workspace_are_refreshed(make: Make, bench: Bench, folder: Path) -> None:
    """Operators, what was revoked and the passkeys' pins: as they are now, absent if they are gone."""
    make("--worker", "w1")
    home, operators = folder / "workers/w1", Workspace(bench.place.root).operators_file
    before = operators.read_bytes()
    pins = operators.with_name("operators.passkeys")
    try:
        operators.write_bytes(before + b"# more\n")
        pins.write_bytes(b"# pins\n")
        made = make()
        assert made["changed"] == ["workers/w1/operators", "workers/w1/operators.passkeys"]
        assert (home / "operators").read_bytes() == before + b"# more\n"
        assert made["steps"][1] == f"scp -r {home}/. root@w1:/etc/threegate-worker/"
        pins.unlink()
        make()
        assert not (home / "operators.passkeys").exists()
    finally:
        operators.write_bytes(before)
        pins.unlink(missing_ok=True)


def test_renewed_before_the_end_and_after_it(make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what ends within 30 days or has ended, with a new key; one of another CA stays, and both are named."""
    with monkeypatch.context() as patch:
        patch.setattr(cluster_files, "_LEAF_DAYS", 10)
        make("--worker", "w1")
    make("--worker", "w2")
    before = everything(folder)
    day = (datetime.now(UTC) + timedelta(days=10)).strftime("%Y-%m-%d")
    assert make()["ends"].keys() == {"broker", "daemon", "workers/w1"}
    assert make()["ends"]["daemon"] <= day
    made = make("--renew")
    pairs = {f"{home}/tls.{kind}" for home in ("broker", "daemon", "workers/w1") for kind in ("key", "pem")}
    assert set(made["changed"]) == pairs and made["ends"] == {}
    for name in (name for name in pairs if name.endswith(".pem")):
        assert load_pem_private_key((folder / name).with_suffix(".key").read_bytes(), None).public_key() == (
            certificate(folder / name).public_key()
        )
    (folder / "workers/w2/tls.pem").write_bytes(before["workers/w1/tls.pem"])
    with monkeypatch.context() as patch:  # a CA that is not the one of the certificates
        for name in ("ca/ca.key", "ca/ca.pem"):
            (folder / name).unlink()
        assert make("--renew")["ends"].keys() == {"workers/w2"}
    assert (folder / "workers/w2/tls.pem").read_bytes() == before["workers/w1/tls.pem"]


def test_removed_stays_removed(make: Make, bench: Bench, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of definitions, settings and folder, with an event; its name comes back only after its certificate's end."""
    make("--worker", "w1", "--worker", "w2", "--enter")
    made = make("--remove", "w1")
    assert made["removed"] == ["w1"] and made["workers"] == ["w2"]
    assert "w1" not in (folder / "broker/definitions/threegate.json").read_text()
    section = Workspace(bench.place.root).load_settings().section(ClusterSettings)
    assert [key.partition("+")[0] for key in section.workers] == ["w2"]
    assert bench.place.events("settings_changed")[-1]["data"]["workers"] == ["w2"]
    assert made["steps"][-7:] == [
        "rabbitmqctl delete_user w1",
        *(
            f"rabbitmqctl delete_queue --vhost threegate {kind}.w1"
            for kind in ("job", "beat", "note", "chunk", "res", "out")
        ),
    ]
    count = len(bench.place.events("settings_changed"))
    assert make("--remove", "w1")["steps"][-7:] == made["steps"][-7:], "typed again if the first time was missed"
    assert len(bench.place.events("settings_changed")) == count
    assert [str(path.relative_to(folder)) for path in folder.rglob("*w1*")] == ["removed/w1.pem"]
    assert make()["workers"] == ["w2"]
    make("--worker", "w1", code=2)
    make("--remove", "w9", code=2)
    make("--remove", "../w2", code=2)
    with monkeypatch.context() as patch:
        patch.setattr(cluster_files, "_LEAF_DAYS", 0)
        make("--worker", "w3")
    make("--remove", "w3")
    ended = certificate(folder / "removed/w3.pem").not_valid_after_utc
    assert ended <= datetime.now(UTC) and "w3" in make("--worker", "w3")["workers"]
    assert make("--remove", "w2", "--remove", "w3")["workers"] == []


def test_enrolled_elsewhere_stays_enrolled(make: Make, bench: Bench, folder: Path) -> None:
    """A worker with a certificate and key of its own is kept by --enter, and taken out by --remove."""
    make("--worker", "w1", "--enter")
    other = folder.parent / "own"
    assert execute(["settings", "cluster", str(other), "--worker", "own", "--enter"]) == 0
    workspace = Workspace(bench.place.root)

    def names() -> set[str]:
        return {key.partition("+")[0] for key in workspace.load_settings().section(ClusterSettings).workers}

    assert names() == {"w1", "own"}
    make("--remove", "own")
    assert names() == {"w1"}


def test_several_daemons_on_one_broker(make: Make, folder: Path) -> None:
    """What the owner of the broker and the owner of another virtual host put into ca/ is in every ca.pem."""
    make("--worker", "w1", "--host", "broker.example")
    theirs = folder.parent / "theirs"
    (theirs / "ca").mkdir(parents=True)
    (theirs / "ca/broker.pem").write_bytes((folder / "ca/ca.pem").read_bytes())
    words = ["settings", "cluster", str(theirs), "--worker", "w1", "--host", "broker.example", "--vhost", "b"]
    assert execute(words) == 0
    assert everything(theirs / "broker").keys() == {"definitions/b.json"}
    assert read_identity(theirs / "workers/w1").name == "w1"
    assert len(x509.load_pem_x509_certificates((theirs / "daemon/ca.pem").read_bytes())) == 2
    (folder / "ca/b.pem").write_bytes((theirs / "ca/ca.pem").read_bytes())
    assert "broker/ca.pem" in make()["changed"]
    assert len(x509.load_pem_x509_certificates((folder / "broker/ca.pem").read_bytes())) == 2
    (folder / "ca/b.pem").write_bytes(b"none")
    make(code=3)
