"""What an agent might try to get out of its jail, each by a program that works outside of it and not within.

Every attempt prints OUT when it got out. Each is first made by the same account without a jail, where it must say OUT:
so an attempt that could not tell would be found.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plugins.agents.people import ACCOUNT, Person, as_account, python

HEAD = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    value = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return value, errno.errorcode.get(ctypes.get_errno(), "")
def out(got):
    print("OUT" if got else "KEPT")
"""


@dataclass(frozen=True)
class Attempt:
    """A way out. `{name}` in the code is what the test put outside; `bare` says that it works without a jail."""

    code: str
    bare: bool = True


ATTEMPTS = {
    "environment of pid 1": Attempt(
        "data = b''\nfor pid in ('1', str(os.getppid())):\n    try: data += open('/proc/' + pid + '/environ', "
        "'rb').read()\n"
        "    except OSError: pass\nout(b'CANARY' in data or 'CANARY' in str(os.environ))"
    ),
    "inherited descriptors": Attempt(
        "found = []\nfor pid in ('self', '1', str(os.getppid())):\n    try: names = os.listdir('/proc/' + pid + "
        "'/fd')\n"
        "    except OSError: continue\n    for name in names:\n"
        "        try: found.append(os.readlink('/proc/' + pid + '/fd/' + name))\n        except OSError: pass\n"
        "out(any('{file}' in place or 'socket:' in place for place in found))"
    ),
    "writing into the terminal": Attempt(
        "import fcntl\ndef tries(number):\n    return call(16, os.open('/dev/null', os.O_RDWR), number, b'x')[1]\n"
        "out('EPERM' not in (tries(0x5412), tries(0x541c)) or 'EPERM' not in (tries(0x5412 | 1 << 32),))"
    ),
    "an abstract socket": Attempt(
        "s = socket.socket(socket.AF_UNIX)\ntry: s.connect('\\0{abstract}'); out(True)\nexcept OSError: out(False)"
    ),
    "a socket in a folder": Attempt(
        "s = socket.socket(socket.AF_UNIX)\ntry: s.connect('{path}'); out(True)\nexcept OSError: out(False)"
    ),
    "a port of this host": Attempt(
        "s = socket.socket()\ns.settimeout(3)\ntry: s.connect(('127.0.0.1', {port})); out(True)\nexcept OSError: "
        "out(False)"
    ),
    "a datagram to this host": Attempt(
        "s = socket.socket(type=socket.SOCK_DGRAM)\ntry:\n    s.connect(('127.0.0.1', {udp})); s.send(b'x'); "
        "s.settimeout(2)\n"
        "    out(s.recv(1) == b'y')\nexcept OSError: out(False)"
    ),
    "a foreign process": Attempt(
        "try: os.kill({pid}, 0); out(True)\nexcept OSError: out(False)"
    ),
    "processes of this host": Attempt(
        "names = [n for n in os.listdir('/proc') if n.isdigit()]\nsaid = []\nfor n in names:\n"
        "    try: said.append(open('/proc/' + n + '/cmdline').read())\n    except OSError: pass\n"
        "out('sleep' + chr(0) + '300' + chr(0) in said)"
    ),
    "a user namespace": Attempt("out(call(272, 0x10000000)[0] == 0)"),
    "a user namespace by clone": Attempt(
        "value, why = call(56, 0x10000000 | 17, 0, 0, 0, 0)\nif value == 0: os._exit(0)\nout(value > 0)"
    ),
    "a mount": Attempt("out(call(165, b'none', b'/tmp', b'tmpfs', 0, 0)[0] == 0)", bare=False),
    "a device": Attempt(
        "try: os.mknod('/tmp/dev-{pid}', 0o20600, os.makedev(1, 5)); out(True)\nexcept OSError: out(False)", bare=False
    ),
    "tracing a process": Attempt("out(call(101, 0, 0, 0, 0)[1] != 'EPERM')"),
    "memory of a process": Attempt("out(call(310, os.getpid(), 0, 0, 0, 0, 0)[1] != 'EPERM')"),
    "the keyring": Attempt("out(call(248, b'user', b'x', b'y', 1, -2)[1] != 'EPERM')"),
    "BPF": Attempt("out(call(321, 0, 0, 0)[1] not in ('EPERM',))", bare=False),
    "io_uring": Attempt("out(call(425, 1, 0)[1] not in ('EPERM', 'ENOSYS'))", bare=False),
    "AF_ALG": Attempt("try: socket.socket(38, socket.SOCK_SEQPACKET); out(True)\nexcept OSError as e: out(e.errno != "
        "errno.EPERM)"),
    "AF_VSOCK": Attempt("try: socket.socket(40, socket.SOCK_STREAM); out(True)\nexcept OSError as e: out(e.errno != "
        "errno.EPERM)"),
    "AF_PACKET": Attempt("try: socket.socket(17, socket.SOCK_RAW); out(True)\nexcept OSError: out(False)", bare=False),
    "a hard link to a system file": Attempt(
        "try: os.link('/usr/bin/env', '/usr/bin/env-{pid}'); out(True)\nexcept OSError: out(False)", bare=False
    ),
    "a hard link into the work copy": Attempt(
        "try: os.link('/usr/bin/env', 'env-{pid}'); out(True)\nexcept OSError: out(False)", bare=False
    ),
    "the home of the person": Attempt(
        "try: out('CANARY' in open('{home}/diary.txt').read())\nexcept OSError: out(False)"
    ),
    "names in the home": Attempt("out(os.path.exists('{home}/.ssh') or os.path.exists('{workspace}'))"),
    "accounts of this host": Attempt("out(len(open('/etc/passwd').read().splitlines()) > 2)"),
    "settings of this host": Attempt("out(os.path.exists('/etc/hostname') or os.path.exists('/etc/shadow'))"),
    "block devices": Attempt("out(os.path.exists('/sys/block') or any(n.startswith(('vd', 'sd', 'nvme')) for n in "
        "os.listdir('/dev')))"),
    "D-Bus and engines": Attempt(
        "out(any(os.path.exists(p) for p in ('/run/dbus', '/var/run/docker.sock', '/run/docker.sock', '/run/user', "
        "'/run/lock')))"
    ),
    "capabilities": Attempt(
        "lines = open('/proc/self/status').read() + open('/proc/1/status').read()\n"
        "caps = [l.split()[1] for l in lines.splitlines() if l.startswith('Cap')]\n"
        "out(any(int(c, 16) for c in caps))"
    ),
    "new privileges": Attempt(
        "out('NoNewPrivs:\\t1' not in open('/proc/self/status').read() or 'Seccomp:\\t2' not in "
        "open('/proc/1/status').read())"
    ),
    "another machine": Attempt(
        "names = [line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]]\nout(names != ['lo'])"
    ),
}  # fmt: skip


@contextmanager
def reach_for(person: Person) -> Iterator[dict[str, str]]:
    """What attempts reach for: sockets, a process, a file, all of the person's account."""
    with (
        tempfile.TemporaryDirectory(prefix="outside-") as folder,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket() as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
    ):
        os.chmod(folder, 0o755)
        abstract.bind("\0threegate-test-" + os.path.basename(folder))
        named.bind(f"{folder}/socket")
        os.chmod(f"{folder}/socket", 0o777)
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        for listener in (abstract, named, tcp):
            listener.listen(8)
        answering = subprocess.Popen(
            [sys.executable, "-c", ("import socket,sys\ns=socket.socket(fileno=int(sys.argv[1]))\nwhile True: s.sendto(b'y', "  # noqa: E501
        "s.recvfrom(1)[1])"), str(udp.fileno())],
            pass_fds=[udp.fileno()],
        )  # fmt: skip
        canary = subprocess.Popen(["sleep", "300"], **as_account(ACCOUNT if os.geteuid() == 0 else ""))
        Path(folder, "file").write_text("x")
        Path(folder, "file").chmod(0o666)
        try:
            yield {
                "abstract": "threegate-test-" + os.path.basename(folder),
                "path": f"{folder}/socket",
                "port": str(tcp.getsockname()[1]),
                "udp": str(udp.getsockname()[1]),
                "pid": str(canary.pid),
                "file": f"{folder}/file",
                "home": str(person.home),
                "workspace": str(person.workspace),
            }
        finally:
            for process in (answering, canary):
                process.kill()
                process.wait()


@pytest.fixture
def outside(somebody: Person) -> Iterator[dict[str, str]]:
    with reach_for(somebody) as found:
        yield found


@pytest.fixture
def outside_of_user(user: Person) -> Iterator[dict[str, str]]:
    with reach_for(user) as found:
        yield found


def filled(code: str, outside: dict[str, str]) -> str:
    for name, value in outside.items():
        code = code.replace("{" + name + "}", value)
    return HEAD + textwrap.dedent(code)


def test_nothing_gets_out(somebody: Person, outside: dict[str, str]) -> None:
    """All of them, inside: none says OUT. The launcher has a secret in its environment and files open, which nothing
    of it gets.
    """
    somebody.environment["CANARY_OF_THE_LAUNCHER"] = "CANARY-IN-THE-ENVIRONMENT"
    script = "\n".join(
        f"print({name!r}, end=': ', flush=True)\nif (child := __import__('os').fork()) == 0:\n"
        f"    exec({filled(attempt.code, outside)!r})\n    __import__('sys').stdout.flush(); "
        "__import__('os')._exit(0)\n"
        f"__import__('os').waitpid(child, 0)"
        for name, attempt in ATTEMPTS.items()
    )
    with open(outside["file"], "r+") as file:
        os.set_inheritable(file.fileno(), True)
        done = somebody.run("/usr/bin/python3", "-c", script, pass_fds=[file.fileno()])
    assert done.returncode == 0, done.stderr
    said = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines())
    assert said == dict.fromkeys(ATTEMPTS, "KEPT")


@pytest.mark.parametrize("name", [name for name, attempt in ATTEMPTS.items() if attempt.bare])
@pytest.mark.slow
def test_each_attempt_works_without_a_jail(user: Person, name: str, outside_of_user: dict[str, str]) -> None:
    with open(outside_of_user["file"], "r+") as file:
        os.set_inheritable(file.fileno(), True)
        done = subprocess.run(
            [python()[0], "-c", filled(ATTEMPTS[name].code, outside_of_user), "threegate"],
            env={"CANARY": "CANARY"}, cwd="/", capture_output=True, text=True, pass_fds=[file.fileno()], timeout=60,
            **as_account(user.account),
        )  # fmt: skip
    assert done.stdout.strip() == "OUT", done.stderr
