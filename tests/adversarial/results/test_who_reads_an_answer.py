"""Other accounts of the machine read nothing of what goes back to a requester: no result, verdict, output or draft.

Only the account that `init --agent` names does, and it reads nothing that is for somebody else.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import Place, make_key, monty_draft, request_id, threegate

AGENT, STRANGER = "daemon", "nobody"
"""Accounts of every Debian machine."""
CANARY = "CANARY-IN-THE-OUTPUT"
CODE = f"open('/out/kept.txt', 'w').write('{CANARY}')\nprint('{CANARY}')"
READ_ALL = """
import os, sys
for base, folders, files in os.walk(sys.argv[1]):
    for name in files:
        try: sys.stdout.write(os.path.join(base, name) + chr(10) + open(os.path.join(base, name)).read() + chr(10))
        except (OSError, UnicodeDecodeError): pass
"""


@contextmanager
def workspace_of(*options: str) -> Iterator[Place]:
    """A workspace with a finished confidential request; other accounts can get to its folder."""
    with tempfile.TemporaryDirectory(prefix="threegate-readers-") as name:
        os.chmod(name, 0o755)
        base = Path(name)
        key = make_key(base / "key")
        made = threegate("init", "ws", "--operator", "operator", "--key", f"{key}.pub", *options, cwd=base)
        assert made.code == 0, made.err
        place = Place(base / "ws", key)
        finish(place, place.drop(confidential("secret")))
        yield place


def finish(place: Place, draft: Path) -> None:
    place.once()
    place.approve(draft)
    place.once()
    assert CANARY in place.result(draft.stem)


@pytest.fixture(scope="module")
def with_agent() -> Iterator[Place]:
    with workspace_of("--agent", AGENT) as place:
        yield place


@pytest.fixture(scope="module")
def plain() -> Iterator[Place]:
    with workspace_of() as place:
        yield place


def confidential(slug: str) -> str:
    return monty_draft(request_id(slug), CODE, sensitivity="confidential", outputs=["/out/kept.txt"])


def read_by(account: str, place: Place) -> str:
    """All that an account can read in the workspace, and also where it may not list but knows the name."""
    words = ["setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups"]
    if account == STRANGER:
        words[2] = "--regid=nogroup"
    folders = [str(path) for path in (place.root, *(place.root / "tool-exec").iterdir()) if path.is_dir()]
    return "".join(
        subprocess.run(
            [*words, "/usr/bin/python3", "-c", READ_ALL, folder], capture_output=True, text=True, check=True, cwd="/"
        ).stdout
        for folder in folders
    )


def answers(place: Place) -> list[Path]:
    folders = [place.root / "tool-exec" / name for name in ("results", "verdicts", "drafts")]
    return [path for folder in folders for path in (folder, *folder.rglob("*"))]


def test_after_a_plain_init_answers_are_their_owners(plain: Place) -> None:
    found = answers(plain)
    assert len([path for path in found if path.is_file()]) >= 4, found
    modes = {path.is_dir(): oct(path.stat().st_mode & 0o7777) for path in found}
    assert modes == {True: "0o700", False: "0o600"}


@pytest.mark.root
def test_a_stranger_reads_nothing_after_a_plain_init(plain: Place) -> None:
    said = read_by(STRANGER, plain)
    assert "threegate.toml" in said  # what is not a secret of a request
    assert not [word for word in (CANARY, "TR-", "TS-", "verdict") if word in said]


@pytest.mark.root
def test_the_named_agent_reads_its_answers_and_a_stranger_none(with_agent: Place) -> None:
    said = read_by(AGENT, with_agent)
    assert said.count(CANARY) >= 2 and "/results/TS-" in said and "/verdicts/TR-" in said and "outputs.json" in said
    assert not [word for word in (CANARY, "TR-", "TS-", "verdict") if word in read_by(STRANGER, with_agent)]
    as_agent = ["setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", "--clear-groups", "sh", "-c"]
    attacks = [
        f"rm -rf {at}/* {at}; echo x >{at}/x; echo x >{at}; chmod 777 {at}; mv {at} {at}.2"
        for at in answers(with_agent)
    ]
    subprocess.run([*as_agent, "; ".join(attacks)], capture_output=True, cwd="/", check=False)
    assert read_by(AGENT, with_agent) == said
    shared = [path for path in answers(with_agent) if path.parent.name in ("results", "verdicts")]
    assert not [path for path in shared if path.stat().st_mode & 0o007]


def test_doctor_names_folders_that_everybody_may_read(plain: Place) -> None:
    (plain.root / "tool-exec" / "results").chmod(0o755)
    said = plain.run("doctor", expect=None).out
    assert "every account of this machine may read results in tool-exec/" in said
    (plain.root / "tool-exec" / "results").chmod(0o700)
    assert "every account" not in plain.run("doctor", expect=None).out
