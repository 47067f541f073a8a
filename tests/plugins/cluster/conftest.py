"""What the pure tests of the cluster share: a real workspace, a request signed by a real key, and a worker's trust."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.plugins.cluster.envelopes import envelope_of, sealed_of
from tests.support import Place, make_place, monty_draft, request_id
from threegate.core.workspace import Workspace
from threegate.judgement.policy import load_policy
from threegate.plugins.cluster.job_envelope import JobEnvelope
from threegate.plugins.cluster.worker.journal import NonceJournal
from threegate.plugins.cluster.worker.operators_file import read_operators_file
from threegate.plugins.cluster.worker.verify_job import Trust, VerifiedJob, verify
from threegate.runners.backend import policy_facts
from threegate.trail.workspace_key import load_key


@dataclass
class Bench:
    """A signed request and everything that a worker judges it by."""

    place: Place
    request_id: str
    trust: Trust
    journal: NonceJournal
    folder: Path

    def envelope(self, **more: object) -> JobEnvelope:
        """A good envelope for w1."""
        return envelope_of(self.place.root, self.request_id, "w1", **more)  # type: ignore[arg-type]

    def sealed(self, **changes: object) -> bytes:
        """A good envelope with some fields changed, signed by the real workspace key: what a taken-over daemon
        sends.
        """
        return sealed_of(self.place.root, self.envelope().model_copy(update=changes))

    def verify(self, data: bytes, now: datetime | None = None) -> VerifiedJob:
        """What the worker says to it."""
        return verify(data, self.trust, self.journal, now=now or datetime.now(UTC))


@pytest.fixture(scope="module")
def signed_place(tmp_path_factory: pytest.TempPathFactory):
    """A workspace with one approved request, made once for a module; with its state folder."""
    folder = tmp_path_factory.mktemp("signed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        place = make_place(folder, settings={"runners.era.runtime": "engine"})
        name = request_id("verified")
        place.approve(place.drop(monty_draft(name, "1 + 1")))
    return place, name, folder / "state"


@pytest.fixture
def bench(tmp_path: Path, signed_place: tuple[Place, str, Path], monkeypatch: pytest.MonkeyPatch):
    """A worker's view of one approved request."""
    place, name, state = signed_place
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    workspace = Workspace(place.root)
    settings = load_policy(workspace, facts=policy_facts()).settings
    trust = Trust(
        "w1",
        settings.workspace.id,
        load_key(settings.workspace.id).public,
        read_operators_file(workspace.operators_file),
        settings,
    )
    journal = NonceJournal(tmp_path / "nonces.jsonl", now=datetime.now(UTC))
    yield Bench(place, name, trust, journal, tmp_path)
    journal.close()
