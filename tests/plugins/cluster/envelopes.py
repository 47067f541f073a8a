"""Envelopes for tests, made from a file in approved/ exactly as a daemon makes them; and a hand that sends them.

Run as a program inside the daemon's namespace it plays the daemon (real certificate, real keys):
``python -m tests.plugins.cluster.envelopes ROOT FILES`` reads JSON acts from stdin, one a line, and prints what came
back.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support import wait_until
from threegate.core.workspace import Workspace
from threegate.judgement.policy import load_policy
from threegate.plugins.cluster.job_envelope import JobEnvelope, make_envelope, seal_envelope
from threegate.request.job import build_job
from threegate.request.reader import read_request
from threegate.runners.backend import policy_facts, running
from threegate.runners.interface import Evidence
from threegate.trail.workspace_key import load_key


def evidence_of(root: Path, request_id: str, folder: str = "approved") -> Evidence:
    """What a launch would show of a request that is in a state folder."""
    workspace = Workspace(root)
    policy = load_policy(workspace, facts=policy_facts())
    path = workspace.state_folder(folder) / f"{request_id}.md"
    signature = path.with_name(path.name + ".sig")
    more = {
        item.name.removeprefix(signature.name + "."): item.read_bytes()
        for item in path.parent.glob(signature.name + ".*")
    }
    return Evidence(
        file_name=path.name,
        request=path.read_bytes(),
        signature=signature.read_bytes() if signature.exists() else None,
        countersignatures=more,
        epoch=1,
        owner=0,
        requester=None,
        policy_sha256=policy.digest,
        write_class=False,
        time_cap_sec=None,
        platform=running("ERA").platforms(policy.settings, here=False).now[0],
    )


def envelope_of(
    root: Path,
    request_id: str,
    worker: str,
    *,
    nonce: str = "a" * 32,
    age: float = 0,
    folder: str = "approved",
    boot: str = "b" * 16,
    away_sec: int = 7,
) -> JobEnvelope:
    """The envelope of a request for a worker, issued `age` seconds ago."""
    workspace = Workspace(root)
    policy = load_policy(workspace, facts=policy_facts())
    evidence = evidence_of(root, request_id, folder)
    report = read_request(
        evidence.request,
        path=evidence.file_name,
        settings=policy.settings.request,
        now=datetime.now(UTC),
        stage="approved",
    )
    assert report.request is not None
    sizes = {item.sha256: (workspace.inputs / item.sha256).stat().st_size for item in report.request.inputs}
    job = build_job(
        report.request, input_sizes=sizes, platform=running("ERA").platforms(policy.settings, here=False).now[0]
    )
    return make_envelope(
        evidence,
        job,
        workspace_id=policy.settings.workspace.id,
        boot=boot,
        worker=worker,
        nonce=nonce,
        away_sec=away_sec,
        now=datetime.now(UTC) - timedelta(seconds=age),
    )


def sealed_of(root: Path, envelope: JobEnvelope) -> bytes:
    """The envelope, signed by the workspace's real key, whatever it says."""
    return seal_envelope(envelope, load_key(Workspace(root).load_settings().workspace.id))


class Hand:
    """Plays the daemon: sends what it is told, hears what comes, gives the start token only when asked to."""

    def __init__(self, root: Path, files: Path, boot: str) -> None:
        from threegate.plugins.cluster.broker import Broker
        from threegate.plugins.cluster.ledger import Ledger
        from threegate.plugins.cluster.link import Link

        workspace = Workspace(root)
        settings = workspace.load_settings()
        from threegate.plugins.cluster.runner import enrolled
        from threegate.plugins.cluster.section import ClusterSettings

        workers = enrolled(settings.section(ClusterSettings))
        self.root = root
        self.ledger = Ledger(tuple(workers), None)
        self.key = load_key(settings.workspace.id)
        self.link = Link(
            Broker(settings.section(ClusterSettings).broker, files / "daemon"),
            workspace,
            self.key,
            workers,
            self.ledger,
            boot=boot,
            told_file=None,
            say=lambda line: print(f"# {line}", file=sys.stderr, flush=True),
        )
        self.link.start()
        wait_until(lambda: all(seat.live() for seat in self.ledger.seats()), "a sign of life of each worker")

    def act(self, act: dict[str, Any]) -> dict[str, Any]:
        """One act: send `sealed` (or `raw` bytes of `content_type`) to `worker`, and hear for `seconds`."""
        worker, nonce = act["worker"], act["nonce"]
        box = self.link.open(nonce, worker)
        if "raw" in act:
            self._raw(act)
        else:
            self.link.send_job(worker, nonce, act["sealed"].encode(), int(act.get("expires", 60)))
        heard: list[dict[str, Any]] = []
        until = time.monotonic() + act.get("seconds", 10)
        while time.monotonic() < until:
            try:
                mail = box.messages.get(timeout=0.2)
            except Exception:
                continue
            heard.append({"kind": mail.kind, **{k: mail.value.get(k) for k in ("code", "message", "why")}})
            if mail.kind == "may-start":
                kind = "go" if act.get("start") else "no"
                answers = {} if kind == "no" else {name: mail.value[name] for name in ("envelope_sha256", "ask")}
                self.link.tell(worker, kind, nonce=nonce, **answers)
            if mail.kind == "result":
                heard[-1]["status"] = mail.value["outcome"]["status"]
                self.link.tell(worker, "done", nonce=nonce)
            if mail.kind in ("result", "refused", "lost"):
                break
        self.link.shut(box)
        return {
            "name": act["name"],
            "heard": heard,
            "live": [seat.name for seat in self.ledger.seats() if seat.live()],
        }

    def _raw(self, act: dict[str, Any]) -> None:
        import base64

        import amqp

        with self.link.wire._publishing:
            channel = self.link.wire.open_channel()
            message = amqp.Message(
                base64.b64decode(act["raw"]),
                channel=channel,
                content_type=act["content_type"],
                content_encoding=act.get("content_encoding", "binary"),
                delivery_mode=2,
                application_headers=act.get("headers", {}),
            )
            channel.basic_publish_confirm(message, exchange="job", routing_key=act["worker"])


def main() -> None:
    """Acts from stdin, answers to stdout."""
    hand = Hand(Path(sys.argv[1]), Path(sys.argv[2]), "b" * 16)
    try:
        for line in sys.stdin:
            print(json.dumps(hand.act(json.loads(line))), flush=True)
    finally:
        hand.link.close()


if __name__ == "__main__":
    main()
