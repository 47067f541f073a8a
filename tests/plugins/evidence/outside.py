"""Who checks a pack: an environment without ThreeGate that runs the block of HOW-TO-CHECK.md as it stands."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.support import Place, monty_draft
from threegate.acts.approve import promote, seal, sign
from threegate.core.workspace import Workspace
from threegate.launch.context import open_context
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.trail.workspace_key import load_key


@dataclass(frozen=True)
class Outside:
    """An environment that has the three libraries and no ThreeGate."""

    folder: Path

    def check(self, pack: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the block in the folder of a pack."""
        env = {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "HOME": str(self.folder), **variables}
        return subprocess.run(["sh", "-c", block(pack)], cwd=pack, env=env, capture_output=True, text=True, timeout=600)

    def confirmed(self, pack: Path) -> str:
        """What the block says of a pack that is right."""
        done = self.check(pack)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout


def block(pack: Path) -> str:
    """The one fenced block of the page."""
    (found,) = re.findall(r"^```sh\n(.*?)^```$", (pack / "HOW-TO-CHECK.md").read_text(), re.M | re.S)
    return str(found)


def make_outside(folder: Path) -> Outside:
    """An environment of its own; the libraries are those that are installed here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "threegate" not in path.name.lower() and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    python = str(folder / "bin" / "python3")
    done = subprocess.run([python, "-I", "-c", "import threegate"], capture_output=True, text=True)
    assert "ModuleNotFoundError" in done.stderr
    return Outside(folder)


def approve_runs(place: Place, count: int) -> list[str]:
    """Drafts that leave one output each, approved in this process as the command does it; returns their ids."""
    context = open_context(Workspace(place.root))
    names = [f"TR-run-{number:04d}" for number in range(count)]
    for name in names:
        draft = place.drop(
            monty_draft(name, f"open('/out/n.txt', 'w').write('{name}')\nprint('{name}')", outputs=["/out/n.txt"])
        )
        with open_reviewed_draft(context, read_draft(context.workspace, draft)) as reviewed:
            sealed = seal(context, reviewed, "operator")
            promote(context, reviewed, sealed, sign(sealed, place.key), actor="operator:operator")
    return names


def files_of(pack: Path) -> list[Path]:
    """Every file of a pack but the page."""
    return sorted(path for path in pack.rglob("*") if path.is_file() and path.name != "HOW-TO-CHECK.md")


def reseal(pack: Path, workspace_id: str) -> None:
    """What only the holder of the log's key can do: sign the files as they are now."""
    key = load_key(workspace_id)
    sealed = [path for path in files_of(pack) if not path.name.startswith("SHA256SUMS")]
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  ./{path.relative_to(pack)}\n" for path in sealed)
    (pack / "SHA256SUMS").write_text(sums)
    text = f"{key.name}\nevidence sha256:{hashlib.sha256(sums.encode()).hexdigest()}\n"
    signature = base64.b64encode(key.public.key_id + key.sign(text.encode())).decode()
    (pack / "SHA256SUMS.note").write_text(f"{text}\n\u2014 {key.name} {signature}\n")


def flip(path: Path, at: int, bit: int = 0) -> bytes:
    """Change one byte of a file; returns what the file was."""
    data = path.read_bytes()
    changed = bytearray(data)
    changed[at] ^= bit or 1 << (at % 7)
    path.write_bytes(changed)
    return data
