"""What a command in a container tries: name -> (Python code, a pattern of what must be seen instead).

Each attempt runs in a forked child of one driver inside the container. An OSError is seen as its errno's name, any
other exception as its class; code that ends normally is seen as the value that it gave to `seen`.
`call(number, …)` is a raw system call. `CANARY` is the path of a host file, `HOSTPID` a process of the host.
"""

from __future__ import annotations

_NO = "EPERM|EACCES|EROFS|ENOENT|ENOSYS|ENODEV|ENXIO|EOPNOTSUPP|EINVAL|ENOTDIR|EBADF|EFAULT|ENOTSUP"

_FILES = {
    "read the host's canary": ("open(CANARY).read()", "ENOENT|EACCES"),
    "through /proc/1/root": ("open('/proc/1/root' + CANARY).read()", "ENOENT|EACCES"),
    "through /proc/self/root": ("open('/proc/self/root/../../..' + CANARY).read()", "ENOENT|EACCES"),
    "through /proc/1/cwd": ("os.listdir('/proc/1/cwd')", "EACCES"),
    "through a leaked descriptor": (
        "seen = [n for n in os.listdir('/proc/self/fd') if int(n) > 2 and os.path.exists(f'/proc/self/fd/{n}') "
        "and not os.readlink(f'/proc/self/fd/{n}').startswith(('/proc', 'pipe:', '/dev/null'))]",
        r"\[\]",
    ),
    "leaked descriptors of the keeper": ("os.listdir('/proc/1/fd')", "EACCES"),
    "shadow": ("open('/etc/shadow').read()", "EACCES|ENOENT"),
    "write the root": ("open('/x', 'w')", "EROFS|EACCES"),
    "write /etc/passwd": ("open('/etc/passwd', 'a')", "EROFS|EACCES"),
    "write /usr": ("open('/usr/bin/x', 'w')", "EROFS|EACCES"),
    "write /in": ("open('/in/x', 'w')", "EROFS|EACCES"),
    "change an input": ("open('/in/input', 'a')", "EROFS|EACCES"),
    "remove an input": ("os.unlink('/in/input')", "EROFS|EACCES"),
    "chmod an input": ("os.chmod('/in/input', 0o777)", "EROFS|EPERM"),
    "link an input out": ("os.link('/in/input', '/out/input')", "EXDEV|EPERM|EROFS"),
    "rename /out away": ("os.rename('/out', '/tmp/out')", "EBUSY|EROFS|EACCES|EXDEV"),
    "write /proc/sys": ("open('/proc/sys/kernel/hostname', 'w')", _NO),
    "core_pattern": ("open('/proc/sys/kernel/core_pattern', 'w')", _NO),
    "modprobe path": ("open('/proc/sys/kernel/modprobe', 'w')", _NO),
    "sysrq": ("open('/proc/sysrq-trigger', 'w')", _NO),
    "uevent helper": ("open('/sys/kernel/uevent_helper', 'w')", _NO),
    "release agent": (
        (
            "import glob\npaths = glob.glob('/sys/fs/cgroup/*/release_agent')\nopen(paths[0] if paths else '/sys/none', "  # noqa: E501
            "'w')"
        ),
        _NO,
    ),
    "own cgroup's memory": (
        "import glob\npaths = glob.glob('/sys/fs/cgroup/memory/memory.limit_in_bytes') + "
        "glob.glob('/sys/fs/cgroup/memory.max')\n"
        "open(paths[0] if paths else '/sys/none', 'w')",
        _NO,
    ),
    "own cgroup's processes": (
        "import glob\npaths = glob.glob('/sys/fs/cgroup/pids/pids.max') + glob.glob('/sys/fs/cgroup/pids.max')\n"
        "open(paths[0] if paths else '/sys/none', 'w')",
        _NO,
    ),
    "a new cgroup": ("os.mkdir('/sys/fs/cgroup/memory/x')", _NO),
    "firmware": ("seen = os.listdir('/sys/firmware')", r"\[\]|ENOENT"),
    "kcore": ("seen = len(open('/proc/kcore', 'rb').read(10))", "0|EPERM|EACCES|ENOENT"),
    "kernel keys": ("seen = open('/proc/keys').read()", "|ENOENT|EACCES"),
    "timer list": ("seen = open('/proc/timer_list').read()", "|ENOENT|EACCES"),
    "kernel log": ("open('/dev/kmsg')", _NO),
    "raise own oom score": (
        "os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000')",
        "EACCES|EPERM",
    ),
    "keeper's oom score": ("open('/proc/1/oom_score_adj', 'w').write('1000')", "EACCES|EPERM"),
}
_LINKS = {
    "link to a host file in /out": ("os.symlink(CANARY, '/out/link')\nseen = 'made'", "made"),
    "link to /out/.. in /out": ("os.symlink('..', '/out/up')\nseen = 'made'", "made"),
    "fifo in /out": ("os.mkfifo('/out/fifo')\nseen = 'made'", "made"),
    "socket in /out": ("socket.socket(socket.AF_UNIX).bind('/out/socket')\nseen = 'made'", "made"),
    "hard link in /out": (
        "open('/out/one', 'w').close()\nos.link('/out/one', '/out/two')\nseen = 'made'",
        "made",
    ),
    "set-user-id file in /out": (
        "open('/out/suid', 'w').close()\nos.chmod('/out/suid', 0o4755)\nseen = 'made'",
        "made",
    ),
    "device in /out": ("os.mknod('/out/device', 0o600 | stat.S_IFBLK, os.makedev(8, 0))", "EPERM"),
    "whiteout in /out": (
        "os.mknod('/out/null', 0o600 | stat.S_IFCHR, os.makedev(0, 0))\nseen = 'made'",
        "made|EPERM",
    ),
    "odd name in /out": ("open('/out/a\\x1b[2Jb', 'w').close()\nseen = 'made'", "made"),
    "name that is no UTF-8 in /out": ("open(b'/out/\\xff\\xfe', 'w').close()\nseen = 'made'", "made"),
    "folder that cannot be read in /out": (
        "os.mkdir('/out/locked')\nopen('/out/locked/x', 'w').close()\nos.chmod('/out/locked', 0)\nseen = 'made'",
        "made",
    ),
    "sparse file beyond /out": (
        "import resource\nwith open('/out/sparse', 'wb') as file:\n    file.truncate(1 << 27)\nseen = 'made'",
        "made|EFBIG|OSError",
    ),
    "program in /out": (
        "open('/out/run', 'w').write('#!/bin/sh\\n')\nos.chmod('/out/run', 0o755)\nos.execv('/out/run', ['run'])",
        "EACCES",
    ),
    "program in /tmp": (
        "open('/tmp/run', 'w').write('#!/bin/sh\\n')\nos.chmod('/tmp/run', 0o755)\nos.execv('/tmp/run', ['run'])",
        "EACCES",
    ),
    "library in /tmp": (
        "import shutil\nshutil.copy('/lib/x86_64-linux-gnu/libm.so.6', '/tmp/l.so')\nctypes.CDLL('/tmp/l.so')",
        "EACCES|EPERM|OSError",
    ),
}
_PRIVILEGES = {
    "become root": ("os.setuid(0)", "EPERM"),
    "become another group": ("os.setgid(0)", "EPERM"),
    "other groups": ("os.setgroups([0])", "EPERM"),
    "set-user-id programs": (
        "seen = [p for d in ('/bin', '/usr/bin', '/usr/sbin', '/usr/lib') for r, _, fs in os.walk(d) for f in fs "
        "if not os.path.islink(p := os.path.join(r, f)) and os.stat(p).st_mode & 0o6000]",
        r"\[\]",
    ),
    "capabilities": ("seen = re.search(r'CapBnd:\\s*(\\S+)', open('/proc/self/status').read())[1]", "0+"),
    "regain by a user namespace": ("call(272, 0x10000000)", _NO),
    "mount namespace": ("call(272, 0x00020000)", _NO),
    "clone with a user namespace": ("call(56, 0x10000000 | 17, 0, 0, 0, 0)", _NO),
    "clone3": ("call(435, 0, 0)", "ENOSYS|EPERM"),
    "join a namespace": ("call(308, os.open('/proc/self/ns/net', 0), 0)", _NO),
    "mount": ("call(165, b'tmpfs', b'/tmp', b'tmpfs', 0, 0)", _NO),
    "remount the root": ("call(165, 0, b'/', 0, 32 | 4096, 0)", _NO),
    "remount /in": ("call(165, 0, b'/in', 0, 32 | 4096, 0)", _NO),
    "unmount /in": ("call(166, b'/in', 2)", _NO),
    "new mount interface": ("call(430, b'tmpfs', 0)", _NO),
    "open a tree": ("call(428, -100, b'/', 0)", _NO),
    "pivot root": ("call(155, b'/', b'/tmp')", _NO),
    "chroot": ("os.chroot('/tmp')", _NO),
    "mknod": ("os.mknod('/tmp/sda', 0o600 | stat.S_IFBLK, os.makedev(8, 0))", _NO),
    "devices": (
        (
            "seen = sorted(n for n in os.listdir('/dev') if n.startswith(('sd', 'vd', 'nvme', 'mem', 'kvm', 'fuse', "
            "'loop')))"
        ),
        r"\[\]",
    ),
    "raw memory": ("open('/dev/mem')", _NO),
    "load a module": ("call(175, 0, 0, b'')", _NO),
    "kexec": ("call(246, 0, 0, 0, 0)", _NO),
    "reboot": ("call(169, 0xFEE1DEAD, 672274793, 0x1234567, 0)", _NO),
    "set the clock": ("time.clock_settime(time.CLOCK_REALTIME, 0)", _NO),
    "set the host name": ("socket.sethostname('x')", _NO),
    "swap": ("call(167, b'/tmp/x', 0)", _NO),
    "quota": ("call(179, 0, 0, 0, 0)", _NO),
    "accounting": ("call(163, 0)", _NO),
    "kernel log by call": ("call(103, 3, 0, 0)", _NO),
    "io ports": ("call(173, 0, 1, 1)", _NO),
    "bpf": ("call(321, 0, 0, 0)", _NO),
    "performance events": ("call(298, 0, 0, -1, -1, 0)", _NO),
    "user faults": ("call(323, 0)", _NO),
    "io_uring": ("call(425, 8, 0)", _NO),
    "keyrings": ("call(248, b'user', b'x', b'y', 1, -3)", _NO),
    "keyctl": ("call(250, 0, -3, 1)", _NO),
    "file handles": ("call(304, -100, 0, 0)", _NO),
    "personality": ("call(135, 0x0040000)", _NO),
    "fanotify": ("call(300, 0, 0)", _NO),
    "lookup_dcookie": ("call(212, 0, 0, 0)", _NO),
    "memory of another process": ("call(310, os.getppid(), 0, 0, 0, 0, 0)", _NO),
    "ptrace the driver": ("call(101, 16, os.getppid(), 0, 0)", _NO),
    "ptrace the keeper": ("call(101, 16, 1, 0, 0)", _NO),
    "descriptor of another process": ("call(438, os.pidfd_open(os.getppid()), 0, 0)", _NO),
    "a beat for the keeper": ("os.write(os.open('/proc/1/fd/0', os.O_WRONLY | os.O_NONBLOCK), b'b')", "EACCES|EBADF"),
    "the keeper's beats": ("os.read(os.open('/proc/1/fd/0', os.O_RDONLY | os.O_NONBLOCK), 1)", "EACCES"),
    "descriptor of the keeper": ("call(438, os.pidfd_open(1), 0, 0)", _NO),
    "input of its own": ("seen = os.readlink('/proc/self/fd/0')", "/dev/null"),
    "memory of the keeper": ("open('/proc/1/mem', 'r+b')", "EACCES|EPERM"),
    "environment of the keeper": ("open('/proc/1/environ').read()", "EACCES|EPERM"),
    "memory that nobody else can see": ("call(447, 0)", _NO),
}
_PROCESSES = {
    "kill the keeper": ("os.kill(1, 9)\ntime.sleep(0.2)\nos.kill(1, 0)\nseen = 'still there'", "still there"),
    "stop the keeper": (
        "os.kill(1, 19)\ntime.sleep(0.2)\nseen = open('/proc/1/status').read().split('State:')[1].split()[0]",
        "S|R",
    ),
    "kill a process of the host": ("os.kill(HOSTPID, 9)", "ESRCH|EPERM"),
    "see the host's processes": (
        "seen = max(int(n) for n in os.listdir('/proc') if n.isdigit()) < 5000 and "
        "b'dockerd' not in b''.join(open(f'/proc/{n}/cmdline', 'rb').read() for n in os.listdir('/proc') if "
        "n.isdigit() and os.path.exists(f'/proc/{n}/cmdline'))",
        "True|FileNotFoundError|ENOENT",
    ),
    "TIOCSTI": ("import fcntl\nfcntl.ioctl(0, 0x5412, b'x')", "ENOTTY|EPERM|EIO|EINVAL"),
    "a terminal": ("os.open('/dev/tty', os.O_RDWR)", "ENXIO|ENOENT|EIO"),
    "console": ("open('/dev/console')", _NO),
    "raise the priority": ("os.setpriority(os.PRIO_PROCESS, 0, -10)", "EACCES|EPERM"),
    "real-time scheduling": (
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
        "EPERM|EACCES|EINVAL|ENOSYS",
    ),
    "raise the file limit": (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (100000, 100000))",
        "ValueError|EPERM",
    ),
    "raise the file size": (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
        "ValueError|EPERM",
    ),
    "lock memory": ("call(149, 0, 4096)\nseen = 'locked'", "EPERM|ENOMEM|EAGAIN|ENOSYS|locked"),
    "core dump": ("import resource\nseen = resource.getrlimit(resource.RLIMIT_CORE)", r"\(0, 0\)"),
    "all descriptors": (
        "kept = []\ntry:\n    while len(kept) < 5000: kept.append(os.open('/dev/null', 0))\nexcept OSError as error:\n"
        "    seen = f'{errno.errorcode[error.errno]} {len(kept) <= 256}'\nfor one in kept: os.close(one)",
        "EMFILE True",
    ),
    "message queues": ("call(240, b'/x', 0o102, 0o600, 0)", "EMFILE|EACCES|ENOSYS|EPERM|EFAULT|ENOENT"),
}
_NETWORK = {
    "interfaces": (
        "seen = [n for _, n in socket.if_nameindex() if n.startswith(('eth', 'en', 'wl', 'docker', 'br'))]",
        r"\[\]",
    ),
    "raw socket": ("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", _NO),
    "raw IPv6 socket": (
        "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)",
        _NO + "|EAFNOSUPPORT|EPROTONOSUPPORT",
    ),
    "packet socket": ("socket.socket(17, socket.SOCK_RAW, 0)", _NO + "|EAFNOSUPPORT"),
    "vsock": ("socket.socket(40, socket.SOCK_STREAM)", _NO + "|EAFNOSUPPORT"),
    "crypto socket": ("socket.socket(38, socket.SOCK_SEQPACKET)", _NO + "|EAFNOSUPPORT"),
    "bluetooth": ("socket.socket(31, socket.SOCK_RAW, 1)", _NO + "|EAFNOSUPPORT"),
    "netlink firewall": ("socket.socket(16, socket.SOCK_RAW, 12)", _NO + "|EPROTONOSUPPORT"),
    "netlink audit": ("socket.socket(16, socket.SOCK_RAW, 9)", _NO + "|EPROTONOSUPPORT"),
    "connect outside": (
        "socket.create_connection(('198.51.100.7', 80), 2)",
        "ENETUNREACH|EHOSTUNREACH|ENETDOWN",
    ),
    "connect to the bridge": (
        "socket.create_connection(('172.17.0.1', 80), 2)",
        "ENETUNREACH|EHOSTUNREACH|ENETDOWN",
    ),
    "connect to the metadata address": (
        "socket.create_connection(('169.254.169.254', 80), 2)",
        "ENETUNREACH|EHOSTUNREACH|ENETDOWN",
    ),
    "connect by IPv6": (
        "socket.create_connection(('2001:db8::1', 80), 2)",
        "ENETUNREACH|EADDRNOTAVAIL|EHOSTUNREACH|EAFNOSUPPORT|ENETDOWN",
    ),
    "send a datagram": (
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('198.51.100.7', 53))",
        "ENETUNREACH|EHOSTUNREACH|ENETDOWN",
    ),
    "broadcast": (
        (
            "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\none.setsockopt(1, 6, 1)\none.sendto(b'x', "
            "('255.255.255.255', 9))"
        ),
        "ENETUNREACH|EHOSTUNREACH|ENETDOWN",
    ),
    "resolve a name": ("socket.getaddrinfo('example.com', 80)", "gaierror|EAI.*"),
    "host's loopback": ("socket.create_connection(('127.0.0.1', HOSTPORT), 2)", "ECONNREFUSED"),
    "host's abstract sockets": (
        "one = socket.socket(socket.AF_UNIX)\none.connect('\\0' + HOSTSOCKET)",
        "ECONNREFUSED|ENOENT",
    ),
    "docker socket": ("socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')", "ENOENT|ECONNREFUSED"),
    "a new interface": (
        "import fcntl\nfcntl.ioctl(os.open('/dev/net/tun', os.O_RDWR), 0x400454CA, bytes(40))",
        _NO,
    ),
    "bring an interface up": (
        "import fcntl, struct\nfcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 0))",
        "EPERM|EACCES|ENOTTY",
    ),
    "a low port": ("socket.socket().bind(('127.0.0.1', 80))\nseen = 'lo of its own'", "EACCES|lo of its own"),
}
_LEAKS = {
    "environment": ("seen = sorted(set(os.environ) - KNOWN)", r"\[\]"),
    "proxy credentials": (
        "seen = [v for k, v in os.environ.items() if 'proxy' in k.lower() or '@' in v]",
        r"\[\]",
    ),
    "host name": ("seen = socket.gethostname()", "sandbox"),
    "host's mounts": (
        "seen = HOSTFOLDER in open('/proc/self/mountinfo').read() and open(HOSTFOLDER + '/canary').read()",
        "False|ENOENT|EACCES",
    ),
    "cgroup path": ("seen = [line for line in open('/proc/self/cgroup') if 'docker' in line]", r"\[\]"),
    "machine id": ("seen = open('/etc/machine-id').read()", "|ENOENT"),
    "shared memory of the host": ("seen = os.listdir('/dev/shm')", r"\[\]"),
    "message queues of the host": ("seen = os.listdir('/dev/mqueue')", r"\[\]|ENOENT"),
    "System V memory of the host": ("call(29, 0x7467, 0, 0)", "ENOENT|EINVAL|ENOSYS"),
    "input's owner": ("seen = open('/in/input').read()", "approved"),
    "other runs": ("seen = [n for n in os.listdir('/in') if n not in ('input', 'driver')]", r"\[\]"),
    "standard input": ("seen = os.read(0, 10)", "b''"),
}

ATTEMPTS: dict[str, tuple[str, str]] = {
    f"{group}: {name}": attempt
    for group, attempts in (
        ("file", _FILES),
        ("out", _LINKS),
        ("privilege", _PRIVILEGES),
        ("process", _PROCESSES),
        ("network", _NETWORK),
        ("leak", _LEAKS),
    )
    for name, attempt in attempts.items()
}

BUBBLEWRAP_DIFFERS: dict[str, str] = {
    # No other account has a number in the run's user namespace.
    "privilege: become root": "EINVAL",
    "privilege: become another group": "EINVAL",
    # Refused by the filter of system calls: without a cgroup nothing counts this memory.
    "leak: System V memory of the host": "EPERM",
}
"""What is seen in bubblewrap instead, and why that is no way out."""

NOT_IN_BUBBLEWRAP = frozenset(
    {
        # There is no keeper: PID 1 is bubblewrap's, with the run's own account and walls, and nothing else. What it has
        # is looked at instead.
        *(name for name in ATTEMPTS if "keeper" in name),
        "file: through /proc/1/cwd",
        # The host's programs are there with their bits, which no mount of the jail grants. That is looked at instead.
        "privilege: set-user-id programs",
    }
)
"""Attempts that are not made in bubblewrap; tests of their own are in test_bubblewrap_escapes.py."""

GVISOR_DIFFERS = frozenset(
    {
        # gVisor answers these inside a kernel of its own: what it grants there (a user namespace, its own fuse, a
        # node of a device that it does not have, its own log, priorities, scores) reaches nothing of the host.
        "file: leaked descriptors of the keeper",
        "file: raise own oom score",
        "file: keeper's oom score",
        "privilege: regain by a user namespace",
        "privilege: mount namespace",
        "privilege: clone with a user namespace",
        "privilege: clone3",
        "privilege: mknod",
        "privilege: devices",
        "privilege: kernel log by call",
        "privilege: environment of the keeper",
        "process: raise the priority",
        # It does not carry `noexec` over from the host's mounts.
        "out: program in /out",
        "out: library in /tmp",
        # Its init can be ended from inside: the run ends itself, and nothing else.
        "process: kill the keeper",
        "process: stop the keeper",
        # The run can read the keeper's input as well: it takes its own beats away.
        "privilege: the keeper's beats",
    }
)
"""Attempts that end otherwise on gVisor, and why that is no way out; they are not made there."""

DRIVER = r"""
import ctypes, errno, json, os, re, signal, socket, stat, sys, time
KNOWN = set(KNOWN)
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    ctypes.set_errno(0)
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "worked"
def one(code):
    names = dict(globals(), seen="nothing refused it")
    try:
        exec(code, names)
        return str(names["seen"])
    except socket.gaierror:
        return "gaierror"
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except BaseException as error:
        return type(error).__name__
answers = {}
for name, (code, _) in ATTEMPTS.items():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os.write(writer, one(code).encode("utf-8", "backslashreplace")[:4000])
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    answer = os.read(reader, 4096).decode() if os.WIFEXITED(status) else f"killed by {os.WTERMSIG(status)}"
    os.close(reader)
    answers[name] = answer
print(json.dumps(answers))
"""
