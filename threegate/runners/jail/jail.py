"""The jail around an agent, a tool server or a command of ERA: bubblewrap with every namespace, two seccomp programs,
no capability and nothing of the caller's.

Invariant: the program in the jail inherits no variable, no descriptor but its three streams, and no path that
`Jail` does not name. What it can write outside of the bound paths is bounded in bytes and in names, and it can
have so many processes and no more. Paths reach bubblewrap through a separate mount namespace, in which they were bound
before the account changed; so no folder above them must be accessible to the agent's account. Whether a
restriction works here is determined by a trial run of the same command line (`jail_trial`), or read back from
outside before the program starts (ERA: `era/jailed_run.py`), never assumed.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.runners.jail import seccomp_programs

HOME: Final = "/home/agent"
INBOX: Final = "/run/inbox"
VERDICTS: Final = "/run/verdicts"
RESULTS: Final = "/run/results"
DOOR: Final = "/run/door.sock"
MODEL: Final = "/run/model.sock"
HOSTS: Final = "/run/hosts.sock"
MODEL_PORT: Final = 8300
HOSTS_PORT: Final = 8301
NOT_STARTED: Final = 3
"""Exit code of a run whose jail could not be created."""
_STAGE: Final = "/dev/shm"
"""A folder that every account may enter on every Linux; the jail's mount namespace has an empty one there."""

_RELAY: Final = "/usr/bin/socat"
PACKAGES: Final = {
    "/usr/bin/bwrap": "bubblewrap",
    _RELAY: "socat",
    "/usr/bin/unshare": "util-linux",
    "/usr/bin/setpriv": "util-linux",
    "/usr/bin/prlimit": "util-linux",
    "/usr/bin/mount": "mount",
}
"""The programs of a jail and the Debian package of each."""
_ETC_OF_THE_HOST: Final = ("ld.so.cache", "ssl/certs", "alternatives", "ca-certificates", "localtime")
"""What programs need from /etc, without information about this machine's users."""

_SYSTEM: Final = frozenset("bin dev etc lib lib32 lib64 libx32 proc run sbin usr".split())
"""Folders of the jail's root that it has itself."""

_ENTERING: Final = 'while [ "$1" != : ]; do echo $$ >"$1" || exit 3; shift; done; shift; exec "$@"'
_MASKED_FILES: Final = ("keys", "key-users", "kcore", "latency_stats", "sched_debug", "timer_list", "timer_stats")
_MASKED_FOLDERS: Final = ("acpi", "asound", "scsi")
_READ_ONLY: Final = ("bus", "fs", "irq", "pressure", "sys", "sysrq-trigger")
"""Names in /proc that are not about the jail's own processes: what container engines hide or make read-only, and the
keys and pressure triggers of the account. The kernel lets an account write the limits of its own IPC and process
namespaces, and a namespace is the agent's account's.
"""

_STAGING: Final = """
set -e
[ -z "$1" ] || read -r go <"$1"
shift
/usr/bin/mount -a -T "$1"
cd "$2"
: >empty
files=$3
shift 3
while [ "$1" != : ]; do : >"$1"; shift; done
shift
[ -z "$files" ] || /usr/bin/mount -a -T "$files"
while [ "$1" != : ]; do
  mkdir "$1"
  /usr/bin/mount -t overlay -o "userxattr,$2" overlay "$1"
  shift 2
done
shift
cd /
unset PWD OLDPWD SHLVL
exec "$@"
"""
"""Wait for a line from the first file, if there is one. Then mount what the first table lists, then the files of the
second, if there is one, on the names up to `:`; then, up to the next `:`, mount an overlay of such numbers on each
name. A table, because each mount program takes 2 ms.
"""
_TABLE_SOURCE: Final = "threegate-jail"
"""mount(8) leaves out what has this source and place already, so it is a name that nothing else has."""
_EMPTY: Final = ("/etc/fstab", "/etc/mtab")
_ESCAPED: Final = str.maketrans({char: f"\\{ord(char):03o}" for char in " \t\n\\#"})

_BEGIN: Final = """
port() { # SOCKET PORT: listen on loopback before the agent lives
  [ -S "$1" ] || return 0
  socat "TCP4-LISTEN:$2,bind=127.0.0.1,fork,reuseaddr,backlog=64" "UNIX-CONNECT:$1" </dev/null >/dev/null 2>&1 &
  n=0
  while ! grep -q "$(printf ':%04X 00000000:0000 0A' "$2")" /proc/net/tcp && [ "$n" -lt 400 ]; do
    n=$((n + 1))
    sleep 0.005
  done
}
port /run/model.sock 8300
port /run/hosts.sock 8301
umask 077
exec "$@"
"""
"""Starts the relays between loopback and the two sockets, then becomes the agent: the first process in the jail."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the agent's processes."""

    name: str
    uid: int
    gid: int

    @classmethod
    def own(cls) -> Account:
        """The account of this process."""
        uid = os.geteuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return cls(name, uid, os.getegid())

    @property
    def is_own(self) -> bool:
        """Whether no change of account is needed."""
        return self.uid == os.geteuid()

    @property
    def change(self) -> list[str]:
        """The options of setpriv(1) that change to it."""
        return [] if self.is_own else ["--reuid", str(self.uid), "--regid", str(self.gid), "--clear-groups"]


@dataclass(frozen=True, slots=True)
class Person:
    """Who the program is inside: the account's name, its number for user and group, its home; and the host's name."""

    name: str
    uid: int
    home: str
    host: str

    @property
    def files(self) -> dict[str, str]:
        """What is in /etc about it, by path."""
        own = f"{self.name}:x:{self.uid}:{self.uid}::{self.home}:/bin/sh\n"
        return {
            "/etc/passwd": f"root:x:0:0::/:/usr/sbin/nologin\n{own}",
            "/etc/group": f"root:x:0:\n{self.name}:x:{self.uid}:\n",
            "/etc/hosts": f"127.0.0.1 localhost {self.host}\n",
            "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        }


AGENT: Final = Person("agent", 1000, HOME, "agent")


@dataclass(frozen=True, slots=True)
class Scratch:
    """A writable file system in memory: how many bytes and names it can have, and the options of its mount."""

    target: str
    size: int
    names: int
    options: str = "mode=1777,nosuid,nodev"


@dataclass(frozen=True, slots=True)
class Bound:
    """A path of this machine that is visible in the jail, and its name there."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Layered:
    """An overlay that is visible in the jail: the names of `names`, with the bytes that its files redirect to in
    `data`. Without a `work` folder, which has `upper` and `scratch`, it is read-only.
    """

    names: Path
    data: tuple[Path, ...]
    target: str
    work: Path | None = None

    @property
    def sources(self) -> tuple[Path, ...]:
        """Everything that has to be bound before it is mounted."""
        return (self.names, *self.data, *(() if self.work is None else (self.work,)))

    def options(self, first: int) -> str:
        """The options of mount(8), if `sources` are bound as `first` and the following numbers."""
        lower = f"lowerdir={first}" + "".join(f"::{first + number}" for number in range(1, len(self.data) + 1))
        work = first + len(self.data) + 1
        return lower if self.work is None else f"{lower},upperdir={work}/upper,workdir={work}/scratch"


class JailProcess(subprocess.Popen[bytes]):
    """The bubblewrap process outside a jail, as `Jail.start` creates it."""

    first: int = -1
    """A descriptor of the first process inside, which the kernel ends last; -1 if there is none."""
    first_pid: int = 0
    """Its number outside."""

    def wait_empty(self) -> None:
        """Kill everything left in the jail, and wait for that. Raises Unavailable if a process does not go away."""
        if self.poll() is None:
            self.kill()
            self.wait()
        if self.first < 0:
            return
        # bubblewrap may exit before the agent's background processes. If it was killed before it released the first
        # process, that one would wait for ever: the kernel kills it with bubblewrap only after the release.
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.first, signal.SIGKILL)
        ended = select.poll()
        ended.register(self.first, select.POLLIN)
        if not ended.poll(limits.AGENT_END_SECONDS * 1000):
            raise Unavailable("processes in the jail do not end")
        os.close(self.first)
        self.first = -1


@dataclass(frozen=True, slots=True)
class Jail:
    """Everything that determines what a program in the jail has. `bound` is visible above what is `layered`."""

    account: Account
    bound: tuple[Bound, ...] = ()
    layered: tuple[Layered, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    """Links by their paths, and what each leads to; those that are in a folder that is bound are left out."""
    environment: Mapping[str, str] | None = None
    cwd: str = "/"
    tmp_bytes: int = limits.AGENT_TMP_BYTES
    """Of /tmp and of /dev/shm; they have a name for each `TMP_BYTES_PER_NAME`."""
    processes: int = limits.JAIL_PROCESSES
    """Processes and threads, counted in the jail's own user namespace: those of the account outside do not count."""
    cgroups: tuple[Path, ...] = ()
    """Files that the first process writes its process id into (`jail_cgroup`)."""
    person: Person = AGENT
    root: Path = Path("/")
    """Where /usr and what programs need of /etc are: this machine's, or an unpacked root file system."""
    masked: tuple[str, ...] = ()
    """Folders in /usr that are empty inside; those that the root does not have are left out."""
    scratch: tuple[Scratch, ...] | None = None
    """What can be written, /tmp and /dev/shm included; None: these two, with `tmp_bytes`."""
    gated: bool = False
    """Whoever starts it sets the limits (`processes`, too) from outside; its first program waits until they were read
    back.
    """
    rlimits: Mapping[str, int] = field(default_factory=dict)
    """With `gated`: limits of each process, by their names in prlimit(1). `start` sets them while the line still has
    the caller's account and waits: once it has another one, that takes two programs.
    """
    calls: bytes | None = None
    """The seccomp program of the system calls; None: that of the ERA profile."""

    @contextmanager
    def command(
        self, argv: Sequence[str], *, begin: bool = True, info: int | None = None, until: int | None = None
    ) -> Iterator[tuple[list[str], list[int]]]:
        """The whole command line for `argv` in the jail, and the descriptors that it reads; they are closed
        with the block.

        `begin` False leaves out the relays; bubblewrap writes information about the jail into `info`, and starts
        nothing in it before a byte can be read from `until`; of a `gated` jail a line is read from there first. Raises
        Unavailable, with the Debian package, if a program is missing.
        """
        refuse_missing(relays=begin)
        with ExitStack() as held:

            def file(content: str | bytes) -> int:
                descriptor = memory_file(content)
                held.callback(os.close, descriptor)
                return descriptor

            calls = seccomp_programs.system_calls() if self.calls is None else self.calls
            filters = [file(calls), file(seccomp_programs.terminal_input())]
            etc = {path: file(text) for path, text in self.person.files.items()}
            tables = [file(table) for table in self._tables()]
            # Bubblewrap closes what it makes a file of; read from the end, that is an empty one.
            for descriptor, path in zip(tables, _EMPTY, strict=True):
                os.lseek(descriptor, 0, os.SEEK_END)
                etc[path] = descriptor
            # Not on the line: the jail's first process keeps that, and it would show this machine's paths.
            options = file("".join(f"{word}\0" for word in self._bubblewrap(filters, etc, info, until)))
            # Set inside: a limit set outside would count all processes of the account.
            inside = [] if self.gated else ["/usr/bin/prlimit", f"--nproc={self.processes}", "--"]
            inside += ["/bin/sh", "-c", _BEGIN, "begin", *argv] if begin else argv
            line = [*self._staged(tables, until), "/usr/bin/bwrap", "--args", str(options), "--", *inside]
            yield line, [*filters, *etc.values(), options, *(each for each in (info, until) if each is not None)]

    @property
    def writable(self) -> tuple[Scratch, ...]:
        """The file systems in memory."""
        if self.scratch is not None:
            return self.scratch
        names = self.tmp_bytes // limits.TMP_BYTES_PER_NAME
        return tuple(Scratch(place, self.tmp_bytes, names) for place in ("/tmp", "/dev/shm"))

    @property
    def _sources(self) -> list[Path]:
        """What is bound as 0, 1, … in the stage."""
        layers = [source for layered in self.layered for source in layered.sources]
        roots = [] if self.root == Path("/") else [self.root]
        return [*layers, *(bound.source for bound in self.bound), *roots]

    def _tables(self) -> tuple[str, str]:
        """The stage and its folders, and then its files, in the form of fstab(5)."""
        stage = f"{_TABLE_SOURCE} {_STAGE} tmpfs mode=0755,nosuid,nodev,size=1m 0 0\n"
        stage += f"{_TABLE_SOURCE} {_STAGE}/hidden tmpfs X-mount.mkdir,ro,mode=0555,size=4k,nr_inodes=2 0 0\n"
        for number, scratch in enumerate(self.writable):
            bounds = f"size={scratch.size},nr_inodes={scratch.names},{scratch.options}"
            stage += f"{_TABLE_SOURCE} {_STAGE}/scratch{number} tmpfs X-mount.mkdir,{bounds} 0 0\n"
        files = ""
        for number, source in enumerate(self._sources):
            line = f"{str(source).translate(_ESCAPED)} {_STAGE}/{number} none rbind"
            if source.is_dir():
                stage += f"{line},X-mount.mkdir 0 0\n"
            else:
                files += f"{line} 0 0\n"
        return stage, files

    def _staged(self, tables: Sequence[int], until: int | None) -> list[str]:
        """Namespaces, mounts, then the account: what comes before bubblewrap."""
        mounts: list[str] = []
        first = 0
        for number, layered in enumerate(self.layered):
            mounts += [f"merged{number}", layered.options(first)]
            first += len(layered.sources)
        files = [str(number) for number, source in enumerate(self._sources) if not source.is_dir()]
        # Without a change of account only a user namespace allows mounts.
        user = ["--user", "--map-root-user"] if self.account.is_own else []
        line: list[str] = []
        if self.cgroups:
            line = ["/bin/sh", "-c", _ENTERING, "enter", *map(str, self.cgroups), ":"]
        line += ["/usr/bin/unshare", *user, "--mount", "--propagation=private", "--"]
        folders, others = (f"/proc/self/fd/{table}" for table in tables)
        limited = f"/proc/self/fd/{until}" if self.gated else ""
        line += ["/bin/sh", "-c", _STAGING, "stage", limited, folders, _STAGE, others if files else "", *files]
        line += [":", *mounts, ":"]
        if self.gated and self.account.is_own:
            return line  # bubblewrap sets no_new_privs itself
        line += ["/usr/bin/setpriv", *self.account.change, "--no-new-privs", "--"]
        if self.gated:
            return line
        return [*line, "/usr/bin/prlimit", "--core=0", f"--nofile={limits.AGENT_OPEN_FILES}", "--"]

    def _bubblewrap(
        self, filters: Sequence[int], etc: Mapping[str, int], info: int | None, until: int | None
    ) -> list[str]:
        """The options of bubblewrap, environment included."""
        uid = str(self.person.uid)
        line = ["--info-fd", str(info)] if info is not None else []
        line += ["--block-fd", str(until)] if until is not None else []
        line += "--unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try".split()
        line += f"--disable-userns --die-with-parent --cap-drop ALL --hostname {self.person.host} --clearenv".split()
        if self.gated:  # else its signals to its process group would reach bubblewrap outside
            line += ["--new-session"]
        line += ["--uid", uid, "--gid", uid, *self._system()]
        for path_in_jail, descriptor in etc.items():
            line += ["--perms", "0644", "--file", str(descriptor), path_in_jail]
        # The jail's user namespace owns /proc, so the kernel lets it write what is not covered here.
        line += ["--proc", "/proc", *_covered(_READ_ONLY, "/proc/{}")]
        line += [*_covered(_MASKED_FILES, f"{_STAGE}/empty"), *_covered(_MASKED_FOLDERS, f"{_STAGE}/hidden")]
        line += ["--dev", "/dev"]
        for number, scratch in enumerate(self.writable):
            line += ["--bind", f"{_STAGE}/scratch{number}", scratch.target]
        line += ["--remount-ro", "/dev", "--dir", "/run", "--dir", "/var"]
        visible = [
            (layered.target, f"merged{number}", layered.work is not None) for number, layered in enumerate(self.layered)
        ]
        first = sum(len(layered.sources) for layered in self.layered)
        visible += [(bound.target, str(number), bound.writable) for number, bound in enumerate(self.bound, first)]
        # Bubblewrap makes no place below a link, so what is visible in /var/tmp needs a mount there.
        shared = [f"{_STAGE}/scratch{number}" for number, each in enumerate(self.writable) if each.target == "/tmp"]
        inside = any(target.startswith("/var/tmp/") for target, *_ in visible)
        line += ["--bind", *shared, "/var/tmp"] if inside else ["--symlink", "/tmp", "/var/tmp"]
        # A folder before what is inside it, which it would hide.
        for target, source, writable in sorted(visible, key=lambda each: each[0].count("/")):
            line += ["--bind" if writable else "--ro-bind", f"{_STAGE}/{source}", target]
        line += self._linked()
        line += ["--remount-ro", "/"]  # last: until here bubblewrap makes the places of all mounts in it
        for descriptor in filters:
            line += ["--add-seccomp-fd", str(descriptor)]
        for name, value in {"PATH": "/usr/local/bin:/usr/bin:/bin", **(self.environment or {})}.items():
            line += ["--setenv", name, value]
        return [*line, "--chdir", self.cwd]

    def _system(self) -> list[str]:
        """The options for /usr, what leads into it, and what programs need of /etc."""
        place = "" if self.root == Path("/") else f"{_STAGE}/{len(self._sources) - 1}"
        line = ["--ro-bind", f"{place}/usr", "/usr"]
        for name in ("bin", "lib", "lib32", "lib64", "libx32", "sbin"):  # with a merged /usr these are links
            path = self.root / name
            if path.is_symlink():
                line += ["--symlink", str(path.readlink()), f"/{name}"]
            elif path.is_dir():
                line += ["--ro-bind", f"{place}/{name}", f"/{name}"]
        for folder in self.masked:
            if (self.root / folder.lstrip("/")).is_dir():
                line += ["--ro-bind", f"{_STAGE}/hidden", folder]
        for name in _ETC_OF_THE_HOST:
            line += ["--ro-bind-try", f"{place}/etc/{name}", f"/etc/{name}"]
        return line

    def _linked(self) -> list[str]:
        """The options for links; not for one where something is, or would have to be, already."""
        there = [bound.target for bound in self.bound] + [layered.target for layered in self.layered]
        line: list[str] = []
        for path, target in dict(self.links).items():
            if path.split("/")[1] in _SYSTEM or any(
                f"{one}/".startswith(f"{other}/") for name in there for one, other in ((name, path), (path, name))
            ):
                continue
            line += ["--symlink", target, path]
        return line

    def _limit_processes(self, first: int) -> None:
        set_rlimits(self.account, first, {"nproc": self.processes})

    def start(
        self,
        argv: Sequence[str],
        *,
        stdin: int | IO[bytes] | None,
        stdout: int | IO[bytes] | None,
        stderr: int | IO[bytes] | None,
        begin: bool = True,
        terminal: bool = False,
        limited: Callable[[int], None] | None = None,
    ) -> JailProcess:
        """Start `argv` in the jail; it dies with this process. With `terminal`, its stdin becomes the agent's
        controlling terminal. `limited` gets the number of the jail's first process before that starts anything, so
        that whatever it sets there holds for all; None sets `processes`.

        Call it from the main thread: the kernel kills the jail with the thread that started it. Raises Unavailable.
        """
        # A session of its own inside: signals from Ctrl-C reach the agent's processes but not bubblewrap.
        words = ["/usr/bin/setsid", "--ctty", *argv] if terminal else argv
        (told, tells), (waits, goes) = os.pipe(), os.pipe()
        with (
            open(told, "rb") as read,
            open(tells, "wb") as written,
            open(waits, "rb"),
            open(goes, "wb", buffering=0) as go,
            self.command(words, begin=begin, info=tells, until=waits) as (line, descriptors),
        ):
            try:
                process = JailProcess(
                    line,
                    env={},
                    cwd="/",
                    pass_fds=descriptors,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                )
            except OSError as error:
                raise Unavailable(f"the jail cannot be started ({error.strerror or error})") from None
            written.close()  # else the read below would not end if bubblewrap fails
            try:
                with suppress(ProcessLookupError):  # it ended by itself, and wrote why
                    if self.gated:
                        set_rlimits(self.account, process.pid, self.rlimits)
                        go.write(b"\n")
                    if told_of := read.read():
                        process.first_pid = json.loads(told_of)["child-pid"]
                        process.first = os.pidfd_open(process.first_pid)
                        # It is bubblewrap's own, but of the same account: the program may change its memory.
                        (limited or self._limit_processes)(process.first_pid)
                        go.write(b"g")  # the program is not started before its first process has its limits
            except BaseException as error:  # Ctrl-C, too: no one else knows about this process
                process.wait_empty()  # while `go` is open: bubblewrap goes on when it is closed, too
                if isinstance(error, Exception):
                    raise Unavailable(f"the jail's first process cannot be limited ({error})") from None
                raise
            return process


def set_rlimits(account: Account, pid: int, wanted: Mapping[str, int]) -> None:
    """Set these limits of a process of the account, by their names in prlimit(1). Raises OSError.

    Root needs a capability for it that containers lack; the account itself needs none.
    """
    try:
        for name, limit in wanted.items():
            resource.prlimit(pid, getattr(resource, f"RLIMIT_{name.upper()}"), (limit, limit))
    except PermissionError:
        options = [f"--{name}={limit}" for name, limit in wanted.items()]
        run_as_account(account, ["/usr/bin/prlimit", f"--pid={pid}", *options])


def run_as_account(account: Account, words: list[str]) -> None:
    """Run a program of PACKAGES, or one of util-linux, as the account. Raises OSError."""
    done = subprocess.run(
        ["/usr/bin/setpriv", *account.change, "--", *words],
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=limits.AGENT_TRIAL_SECONDS,
    )
    if done.returncode != 0:
        raise PermissionError(f"{words[0]}: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")


def missing_packages(*, relays: bool = True) -> list[str]:
    """The Debian packages of the jail's programs that are missing; of a jail without `relays` socat is not one."""
    absent = [
        package
        for program, package in PACKAGES.items()
        if (relays or program != _RELAY) and not os.access(program, os.X_OK)
    ]
    return list(dict.fromkeys(absent))


def refuse_missing(*, relays: bool) -> None:
    """Raises Unavailable with the Debian packages of what is missing."""
    if missing := missing_packages(relays=relays):
        raise Unavailable(
            f"{', '.join(missing)}: not installed, so there is no jail; on Debian: apt-get install {' '.join(missing)}"
        )


def _covered(names: Sequence[str], source: str) -> list[str]:
    """The options that bind `source`, with the name filled in, read-only over each name that /proc has here."""
    found = (name for name in names if os.path.lexists(f"/proc/{name}"))
    return [word for name in found for word in ("--ro-bind", source.format(name), f"/proc/{name}")]


def why_not(said: str) -> str:
    """What a person can do about an error of unshare, mount or bubblewrap."""
    if any(word in said for word in ("Operation not permitted", "Permission denied", "No permissions", "No space")):
        return (
            f"no jail is possible here, because user namespaces are forbidden ({said[:160]}); allow them, on Debian: "
            "sysctl kernel.unprivileged_userns_clone=1 and user.max_user_namespaces above 0, on Ubuntu also "
            "kernel.apparmor_restrict_unprivileged_userns=0"
        )
    return f"no jail is possible here: {said[:200]}"


def memory_file(content: str | bytes) -> int:
    """A new descriptor of a file in memory, read from its start: for what must be in no argument and on no disk."""
    descriptor = os.memfd_create("jail", os.MFD_CLOEXEC)
    os.write(descriptor, os.fsencode(content))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
