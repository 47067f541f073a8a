"""The folders of a workspace, and the path of everything in it.

Invariant: a path of the workspace is defined here and nowhere else. The daemon writes below `inbox/` only to
remove what it read: a draft, or the question of a caller (`launch/caller_use.py`); CORE never writes below
`tool-exec/`. A folder that CORE may write to is reached through `hold`, never by its path: CORE can put a link
where a folder was.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from threegate.core import durable, limits, removal
from threegate.core.durable import disk_reserve, until_it_fits
from threegate.core.errors import InvalidInput, NoWorkspace, Unavailable
from threegate.core.file_names import SETTINGS_FILE, is_agent_run_id
from threegate.core.held_folder import HeldFolder, hold_below
from threegate.core.user_state import UserState

if TYPE_CHECKING:
    from threegate.core.settings import Settings

STATES = ("approved", "running", "finished", "refused")
"""The folders of tool-exec/ that are a request's state."""

LOCK_SECONDS = 1.0
"""How long a daemon waits for the lock of one that has just ended."""
_LOCK_PAUSE_SECONDS = 0.02
_CLAIMED_ID = re.compile(rb"""^[^#\n]*\bid *= *["'](ws-[0-9a-f]{32})["']""", re.MULTILINE).search

_FOLDERS = {
    "inbox": 0o700,
    "inbox/files": 0o700,
    "tool-exec": 0o711,
    "tool-exec/drafts": 0o700,
    "tool-exec/approved": 0o700,
    "tool-exec/running": 0o700,
    "tool-exec/finished": 0o700,
    "tool-exec/refused": 0o700,
    "tool-exec/inputs": 0o700,
    "tool-exec/runs": 0o700,
    "tool-exec/results": 0o700,
    "tool-exec/verdicts": 0o700,
    "tool-exec/contracts": 0o700,
    "tool-exec/memory": 0o700,
    "tool-exec/control": 0o700,
    "tool-exec/audit": 0o700,
}


class RequesterFolders(Protocol):
    """Where a requester puts its drafts and gets its answers: the workspace's own folders, or those of an
    agent's run.
    """

    @property
    def inbox(self) -> Path: ...

    @property
    def files(self) -> Path: ...

    @property
    def verdicts(self) -> Path: ...

    @property
    def results(self) -> Path: ...


@dataclass(eq=False)
class Workspace:
    """A workspace by its root folder, with the paths of what is in it; nothing is read until it is asked for."""

    root: Path

    def __post_init__(self) -> None:
        self.settings_file = self.root / SETTINGS_FILE
        """threegate.toml"""
        self.inbox = self.root / "inbox"
        """Where CORE writes."""
        self.files = self.inbox / "files"
        """Input files that drafts declare."""
        self.tool_exec = self.root / "tool-exec"
        """The operator's side."""
        self.drafts = self.tool_exec / "drafts"
        """Drafts that the daemon makes."""
        self.draft_files = self.drafts / "files"
        """Their input files by sha256; 0700, not readable by CORE."""
        self.approved = self.tool_exec / "approved"
        """The queue."""
        self.running = self.tool_exec / "running"
        """Claimed by the daemon."""
        self.finished = self.tool_exec / "finished"
        """Ran, whatever the exit code."""
        self.refused = self.tool_exec / "refused"
        """Stopped by a later gate, expired, cancelled or interrupted."""
        self.inputs = self.tool_exec / "inputs"
        """Bytes pinned at approval, by sha256."""
        self.runs = self.tool_exec / "runs"
        """One folder a run: stdout, stderr, out/, record.json."""
        self.results = self.tool_exec / "results"
        """TS-*.md."""
        self.verdicts = self.tool_exec / "verdicts"
        """What validation found, one JSON file a request file."""
        self.contracts = self.tool_exec / "contracts"
        """The contracts folder."""
        self.operators_file = self.tool_exec / "operators"
        """Who may approve."""
        self.revoked_file = self.tool_exec / "operators.revoked"
        """Revoked keys; may be missing."""
        self.passkeys_file = self.tool_exec / "operators.passkeys"
        """What is pinned of each passkey; may be missing."""
        self.memory = self.tool_exec / "memory"
        """Notes that proposals may search."""
        self.grants = self.tool_exec / "grants"
        """Standing grants, one signed file each; made with the first."""
        self.tools = self.tool_exec / "tools"
        """What is pinned of each server of tools, 0700; made with the first."""
        self.agents = self.tool_exec / "agents"
        """One folder a run of an agent; made with the first."""
        self.control = self.tool_exec / "control"
        """What the operator asks of a running daemon."""
        self.reserve = self.control / "reserve"
        """Spare files for what must be possible on a full disk (core/durable.py)."""
        self.audit = self.tool_exec / "audit"
        """The trail, its lock and its checkpoints."""
        self.trail_file = self.audit / "trail.jsonl"
        """The current segment of the trail."""
        self.decisions_file = self.audit / "decisions.jsonl"
        """The audit-safe events of gate 3a, one JSON line a decision (docs/spec/3-aana.md)."""
        self.output_file = self.control / "output.json"
        """The last line of output of each running request, while a daemon runs; derived, for who watches."""
        self.launchers_file = self.control / "launchers.lock"
        """Locked by each command that needs a daemon, and by the daemon that they share once none does."""
        self.daemon_log = self.control / "daemon.log"
        """What that daemon logs."""
        self.servers_file = self.control / "servers.json"
        """What the processes of stateful servers have done, while a daemon runs; derived, for who signs the next
        call.
        """
        self.projects_file = self.tool_exec / "projects.json"
        """The projects that may be changed."""
        self.findings_file = self.tool_exec / "findings.json"
        """What was decided about secrets in projects of agents."""

    def agent_run(self, run_id: str) -> AgentRun:
        """The folder of one run of an agent, whether or not it is there. Raises InvalidInput if `run_id` is none."""
        if not is_agent_run_id(run_id):
            raise InvalidInput(f"{run_id!r} is not a run of an agent; see: threegate agent list")
        return AgentRun(run_id, self.agents / run_id)

    def draft_folders(self) -> list[Path]:
        """Every folder that drafts are in: the inbox, those made from proposals, and the inboxes of agents' runs."""
        try:
            runs = sorted(name for name in os.listdir(self.agents) if is_agent_run_id(name))
        except FileNotFoundError:
            runs = []
        inboxes = [self.agent_run(name).inbox for name in runs[-limits.AGENT_RUNS :]]
        return [self.inbox, self.drafts, *(folder for folder in inboxes if folder.is_dir())]

    def draft_paths(self) -> list[Path]:
        """The drafts in all of them, sorted by name, oldest first. Raises OSError."""
        found: list[Path] = []
        for folder in self.draft_folders():
            with self.hold(folder) as held, held.entries() as entries:
                found += [
                    folder / entry.name
                    for entry in entries
                    if fnmatch(entry.name, "TR-*.md") and entry.is_file(follow_symlinks=False)
                ]
        return sorted(found, key=lambda path: path.name)

    def input_place(self, draft_folder: Path, name: str, sha256: str) -> Path:
        """The path of a draft's input file: by digest for drafts that the daemon makes; in an inbox by digest or by
        name.
        """
        if draft_folder == self.drafts:
            return self.draft_files / sha256
        if os.path.lexists(draft_folder / "files" / sha256):
            return draft_folder / "files" / sha256
        return draft_folder / "files" / name

    def run_of(self, folder: Path) -> str | None:
        """Id of the agent's run whose inbox this folder is; None for any other folder."""
        return folder.parent.name if folder.parent.parent == self.agents else None

    def requester_folders(self, owner: int | str | None) -> RequesterFolders:
        """The folders of a requester: those of a run for its id, otherwise the workspace's."""
        return self.agent_run(owner) if isinstance(owner, str) else self

    def run_folder(self, request_id: str) -> Path:
        """The folder of one run."""
        return self.runs / request_id

    def state_folder(self, state: str) -> Path:
        """The folder that is this state, one of STATES."""
        return self.tool_exec / state

    def hold(self, folder: Path) -> HeldFolder:
        """Hold a folder of this workspace open; each part below the root must be a folder, and none a link.

        Raises OSError.
        """
        return hold_below(self.root, folder)

    def replaced_folder(self) -> str | None:
        """Which folder is not there or is not a folder any more (a link, a file), in one line; None when all are
        folders.
        """
        for name in _FOLDERS:  # a folder comes before what is in it
            try:
                found = os.lstat(f"{self.root}/{name}").st_mode
            except OSError as error:
                why = error.strerror
            else:
                if stat.S_ISDIR(found):
                    continue
                why = "a link" if stat.S_ISLNK(found) else "a file"
            return f"{name}/ is not a folder ({why}); put the folder back, and no link in its place"
        return None

    def load_settings(self) -> Settings:
        """Read threegate.toml once. Raises InvalidInput with the location of the error."""
        from threegate.core.settings import parse_settings  # not every command reads them

        return parse_settings(self.settings_bytes(), self.settings_file)

    def settings_bytes(self) -> bytes:
        """The settings file's bytes. Raises InvalidInput."""
        return durable.read_named(self.settings_file, max_bytes=limits.SETTINGS_BYTES)

    def make_folders(self) -> None:
        """Make what is missing, with the modes of docs/spec/7-trail-and-results.md. Raises OSError."""
        for name, mode in _FOLDERS.items():
            path = self.root / name
            if not path.is_dir():
                durable.make_folder(path, mode)
            path.chmod(mode)

    @contextmanager
    def daemon_lock(self) -> Iterator[None]:
        """Hold the one-daemon lock for as long as the block lasts. Raises Unavailable when another holds it for a
        second.

        A child that a killed daemon was about to start has its lock too, until it is started: that is waited for.
        """
        path = self.tool_exec / ".daemon.lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with disk_reserve(self.reserve):  # a daemon starts on a full disk too
            descriptor = until_it_fits(lambda: os.open(path, flags, 0o600))
        try:
            until = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                        raise Unavailable(
                            f"{self.root}: another daemon is running here (process {holder}); stop it, or leave the "
                            "work to it"
                        ) from None
                    time.sleep(_LOCK_PAUSE_SECONDS)
            holder_now = str(os.getpid()).encode()
            with disk_reserve(self.reserve):
                until_it_fits(lambda: os.pwrite(descriptor, holder_now, 0))
            os.ftruncate(descriptor, len(holder_now))
            yield
        finally:
            os.close(descriptor)

    def daemon_lock_held(self) -> bool:
        """Whether a daemon is running here now, according to /proc/locks; the query takes no lock that could
        block the daemon.
        """
        path = self.tool_exec / ".daemon.lock"
        try:
            inode, holder = str(path.lstat().st_ino), path.read_text("ascii").strip()
            lines = Path("/proc/locks").read_text("ascii").splitlines()
        except (OSError, ValueError):
            return False
        fields = (line.split() for line in lines)
        return any(
            words[1] == "FLOCK" and words[4] == holder and words[5].rpartition(":")[2] == inode
            for words in fields
            if len(words) > 5
        )


@dataclass(unsafe_hash=True)
class AgentRun:
    """One run of an agent: a folder of its own, which no other run sees. Its attributes are paths; nothing is opened
    here.

    The folder is 0700. Of what is in it the jail has `inbox`, `verdicts`, `results`, `state`, the work copy and both
    sockets, and nothing else. What the agent may write (`inbox`, `state`, `work`) is reached through `Workspace.hold`.
    """

    run_id: str
    folder: Path

    def __post_init__(self) -> None:
        self.inbox = self.folder / "inbox"
        """Drafts of this run: the door's, and the agent's own."""
        self.files = self.inbox / "files"
        """Input files that drafts of this run declare."""
        self.verdicts = self.folder / "verdicts"
        """What validation found; the jail reads it."""
        self.results = self.folder / "results"
        """Results of this run's requests and outputs that policy releases; the jail reads it."""
        self.state = self.folder / "state"
        """The agent's HOME."""
        self.work = self.folder / "work"
        """The work copy: `tree/` (a plain copy), or `names/`, `upper/` and `scratch/` (an overlay over the project)."""
        self.read = self.folder / "read"
        """The names, or copies, of the folders that the agent may read besides its project, by number."""
        self.git = self.folder / "git"
        """The objects of the agent's repository that come from the project; the jail reads them."""
        self.base = self.folder / "base"
        """Files of the project that the agent changed, as they were at the start, by the sha256 of their path; not
        in the jail.
        """
        self.proposed = self.folder / "proposed"
        """The table of each change set that was drafted for this run, by its digest; not in the jail."""
        self.manifest = self.folder / "manifest.jsonl"
        """What the project had at the start, in lines of JSON with many entries each; not in the jail."""
        self.ignores = self.folder / "ignores.json"
        """What git knew of the project at the start: tracked paths and rules; not in the jail."""
        self.headroom = self.folder / "headroom"
        """Files that a live run holds, so that its end gives the disk space back; not in the jail."""
        self.facts = self.folder / "run.json"
        """JSON: what the launcher knows of this run (profile, project, kind of work copy, process); not in the jail."""
        self.calls = self.folder / "calls"
        """What the door remembers of its calls (`plugins/agents/call_ledger.py`); not in the jail."""
        self.door = self.folder / "door.sock"
        """The socket on which the door (`threegate serve mcp --run`) answers; in the jail /run/door.sock.

        The launcher makes it and listens; the door gets it, listening, as its stdin, and accepts each connection of the
        agent.
        """
        self.model = self.folder / "model.sock"
        """The socket on which the model relay answers; in the jail /run/model.sock."""
        self.hosts = self.folder / "hosts.sock"
        """The socket on which the proxy to allowed hosts answers; in the jail /run/hosts.sock."""
        self.open_hosts = self.folder / "hosts.json"
        """JSON: which hosts that proxy lets through now, as the launcher gave them to it; not in the jail."""

    def make(self) -> AgentRun:
        """Make the folders, durable. Raises FileExistsError when this run is there, OSError; then none is left."""
        if not self.folder.parent.is_dir():
            durable.make_folder(self.folder.parent, 0o700)
        durable.make_folder(self.folder, 0o700)
        try:
            for folder in (self.inbox, self.files, self.verdicts, self.results, self.state, self.work, self.base):
                durable.make_folder(folder, 0o700)
        except OSError:
            removal.remove_tree(self.folder)
            raise
        return self


def default_workspace() -> Path:
    """Where a user's workspace is that belongs to no folder: below XDG_DATA_HOME (default ~/.local/share)."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(f"{base}/threegate/workspace")


def is_own_workspace(root: Path) -> bool:
    """Whether this user made or adopted the workspace at this place: a repository can bring one along, with operators
    and settings of its own. Raises nothing.
    """
    try:
        # Only what the file claims: whether it is true, the user's own state says.
        claimed = _CLAIMED_ID(durable.read_regular(root / SETTINGS_FILE, max_bytes=limits.SETTINGS_BYTES))
        kept = UserState.of(claimed[1].decode()).read_head() if claimed else None
        return kept is not None and Path(str(kept.get("path", ""))).samefile(root)
    except (OSError, ValueError, RuntimeError, Unavailable):
        return False


def find_workspace(
    start: Path | None = None,
    explicit: str | None = None,
    *,
    only_own: bool = False,
    pass_over: Callable[[Path], None] = lambda root: None,
) -> Workspace:
    """The workspace of `explicit`, of THREEGATE_WORKSPACE, or the nearest one at `start` or above that this user made
    or adopted; then the one at the default place; then, unless `only_own`, the nearest one whoever made it.

    `pass_over` is called with a nearer one that is not used because this user did not make it. Raises NoWorkspace.
    """
    named = explicit or os.environ.get("THREEGATE_WORKSPACE")
    if named:
        root = Path(os.path.normpath(Path(named).absolute()))
        if not (root / SETTINGS_FILE).is_file():
            raise NoWorkspace(f"{root}: no workspace here (no {SETTINGS_FILE}); make one with: threegate init {named}")
        return Workspace(root)
    here = (start or Path.cwd()).absolute()
    there = [folder for folder in (here, *here.parents) if (folder / SETTINGS_FILE).is_file()]
    found = next(filter(is_own_workspace, there), None)
    if found is None:
        with suppress(RuntimeError):  # an account without a home
            found = default_workspace() if (default_workspace() / SETTINGS_FILE).is_file() else None
    if found is None and not only_own:
        found = next(iter(there), None)
    if there and there[0] != found:
        pass_over(there[0])
    if found is not None:
        return Workspace(found)
    raise NoWorkspace(
        f"{here}: no workspace here or above; make one with: threegate init DIR, or name it with --workspace"
    )
