"""The agent's HOME: its configuration, rewritten for each run, and what it kept of earlier runs on the same project.

Invariant: an agent may have left links, FIFOs and folders of any name in its HOME, so a file is written relative to
open directory descriptors, under a name that was removed before, and never through an existing entry.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

from threegate.core import durable
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.held_folder import HeldFolder, hold_path
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.profile import Filled
from threegate.plugins.agents.runs import RunFacts, all_runs, is_alive
from threegate.runners.jail.jail import Account


def take_over_state(workspace: Workspace, run: AgentRun, facts: RunFacts) -> AgentRun | None:
    """Take over the HOME of the last ended run with this profile, project and account that could read the same; return
    that run, or None.

    An agent may have kept what it read, so a HOME belongs to the `--with` and `--read` of its run.

    This is a single rename: one run or the other has it, never both. Raises OSError.
    """
    for before, known in reversed(all_runs(workspace)):
        if (
            before.run_id == run.run_id
            or _reach(known) != _reach(facts)
            or is_alive(before)
            or not before.state.is_dir()
        ):
            continue
        run.state.rmdir()
        try:
            os.rename(before.state, run.state)
        except FileNotFoundError:  # another run was faster
            durable.make_folder(run.state, 0o700)
            continue
        return before
    return None


def _reach(facts: RunFacts) -> tuple[object, ...]:
    """What of a run decides what may be in its HOME."""
    return facts.profile, facts.root, facts.uid, frozenset(facts.shown), frozenset(facts.reading)


def write_files(run: AgentRun, filled: Filled, account: Account) -> None:
    """Write the files of a profile below the run's HOME, owned by the agent's account. Raises InvalidInput,
    Unavailable.
    """
    try:
        with hold_path(run.state) as home:
            os.fchown(home.fileno(), account.uid, account.gid)
            for file in filled.profile.files:
                _write(home, file.path, filled.text(file.text).encode(), account, once=file.once)
    except OSError as error:
        raise Unavailable(
            f"{run.state}: cannot be written ({error.strerror or error}); make room, or check the folder"
        ) from None


def _write(home: HeldFolder, path: str, data: bytes, account: Account, *, once: bool) -> None:
    *folders, name = path.split("/")
    if not name or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidInput(f"profile: {path!r} is not a path below the agent's home")
    held = HeldFolder(os.dup(home.fileno()), home.path)
    for part in folders:
        with held:
            _make_folder(held, part, account)
            held = held.folder(part)
    with held:
        if once and _is_file(held, name):
            return
        _set_aside(held, name)
        descriptor = durable.create_at(held.fileno(), name, held.path / name)
        try:
            durable.write_fd(descriptor, data, held.path / name)
            os.fchown(descriptor, account.uid, account.gid)
        finally:
            os.close(descriptor)


def _is_file(held: HeldFolder, name: str) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(held.stat(name).st_mode)
    return False


def _make_folder(held: HeldFolder, name: str, account: Account) -> None:
    """A folder with this name; any other entry with the name is set aside."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(held.stat(name).st_mode):
            return
        _set_aside(held, name)
    os.mkdir(name, 0o700, dir_fd=held.fileno())
    os.chown(name, account.uid, account.gid, dir_fd=held.fileno(), follow_symlinks=False)


def _set_aside(held: HeldFolder, name: str) -> None:
    """Free a name: a file or link is removed, a folder is renamed because it may contain work."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(held.stat(name).st_mode):
            aside = f"{name[:200]}.aside-{secrets.token_hex(4)}"
            os.rename(name, aside, src_dir_fd=held.fileno(), dst_dir_fd=held.fileno())
        else:
            os.unlink(name, dir_fd=held.fileno())
