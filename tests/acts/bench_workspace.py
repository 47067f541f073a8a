"""A real workspace with a real operator key, and drafts for it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.approval.material import make_key
from threegate.acts.approve import Promoted, promote, seal, sign
from threegate.acts.operator import add_operator
from threegate.core.workspace import Workspace
from threegate.launch.context import Context, open_context
from threegate.launch.results.verdict import Verdict, put_verdict
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.setup.init import init_workspace
from threegate.setup.settings_file import set_values

CODE = "print(sum(int(x) for x in open('/in/data.csv').read().split()))"
DATA = b"1\n2\n"


@dataclass
class Bench:
    """A workspace, the keys of its operators by name."""

    workspace: Workspace
    keys: dict[str, Path]

    @property
    def context(self) -> Context:
        """Fresh eyes: everything is read again."""
        return open_context(self.workspace)

    def settings(self, **values: object) -> None:
        """Set settings, with `__` for the dot."""
        set_values(self.workspace.settings_file, {k.replace("__", "."): v for k, v in values.items()})

    def operator(self, name: str, kind: str = "ed25519") -> Path:
        """A further operator with a key of their own."""
        key = make_key(next(iter(self.keys.values())).parent, f"key-{name}", kind)
        add_operator(self.workspace, name, key.with_suffix(".pub").read_text(), actor="test")
        self.keys[name] = key
        return key

    def draft(
        self,
        request_id: str = "req-1",
        *,
        slug: str = "sum",
        code: str = CODE,
        data: bytes | None = DATA,
        risk: str = "low",
        extra: str = "",
        requested_by: str = "core",
        created: datetime | None = None,
        purpose: str = "Sum a column.",
    ) -> Path:
        """A Monty draft in the inbox, with its input."""
        moment = (created or datetime.now(UTC) - timedelta(seconds=5)).astimezone(UTC)
        inputs = ""
        if data is not None:
            (self.workspace.files / "data.csv").write_bytes(data)
            inputs = f"inputs:\n  - name: data.csv\n    sha256: {hashlib.sha256(data).hexdigest()}\n"
        text = f"""---
request_type: tool_request
schema_version: "1"
request_id: {request_id}
created_utc: "{moment:%Y-%m-%dT%H:%M:%SZ}"
requested_by: {requested_by}
purpose: {purpose}
backend: monty
language: python
network: none
cpu_limit: "1"
memory_limit_mb: 64
time_limit_sec: 10
{inputs}{extra}---
## Code

```python
{code}
```

## Output Expectations

none

## Risk Assessment

- Risk level: {risk}
- Justification: small
- Data sensitivity: public
"""
        path = self.workspace.inbox / f"TR-{moment:%Y%m%d-%H%M%S}Z-{slug}.md"
        path.write_text(text)
        return path

    def approve(self, path: Path, name: str = "alice", **changes: object) -> Promoted:
        """Approve as the command does."""
        context = self.context
        with open_reviewed_draft(context, read_draft(self.workspace, path)) as reviewed:
            sealed = seal(context, reviewed, name)
            return promote(context, reviewed, sealed, sign(sealed, self.keys[name]), actor=f"operator:{name}")

    def as_if_it_ran(self, path: Path, request_id: str, *output: str) -> None:
        """An approved request where a daemon has one that runs, and the stream and text of the last line that it
        wrote.
        """
        os.rename(path, self.workspace.running / path.name)
        verdict = Verdict(path.name, "0" * 64, request_id, "approved", valid=True, state="running")
        put_verdict(self.workspace, verdict)
        self.workspace.output_file.write_text(json.dumps({request_id: output}))


def make_bench(folder: Path) -> Bench:
    """A new workspace with the operator alice."""
    key = make_key(folder, "alice")
    made = init_workspace(folder / "ws", key.with_suffix(".pub").read_text(), operator="alice")
    return Bench(made.workspace, {"alice": key})


def once(bench: Bench) -> None:
    """Let the daemon do what there is to do."""
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "run", "--once"]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
