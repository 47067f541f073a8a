"""The container's probe: our short script, which tests every restriction from inside.

Invariant: what is reported as held was tested inside, in a container created in exactly the same way as a request's.
"""

from __future__ import annotations

from typing import Literal

from threegate.core.settings import EraSettings
from threegate.request.action import Command
from threegate.request.job import ERA_ENVIRONMENT, PROXY_URL, Job, JobLimits
from threegate.runners.seccomp import SECCOMP_SHA256

PROBE_HOST = "threegate-probe.invalid"
"""A name that does not resolve anywhere (RFC 2606): the probe's allowlist needs one."""


_ERA_PROBE = r"""
import ctypes, errno, json, os, resource, socket, sys
found = []
def wall(name):
    def take(attempt):
        try:
            held, seen = attempt()
        except OSError as error:
            held, seen = True, errno.errorcode.get(error.errno, str(error))
        except Exception as error:
            held, seen = False, type(error).__name__
        found.append([name, held, str(seen)[:120]])
        return attempt
    return take
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    result = libc.syscall(number, *args)
    return result < 0, errno.errorcode.get(ctypes.get_errno(), "worked") if result < 0 else "worked"
def opens(path, flags):
    os.close(os.open(path, flags))
    return False, "worked"
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
wall("user")(lambda: (os.getuid() == 65534 and os.getgid() == 65534, os.getuid()))
wall("no capabilities")(lambda: (int(status["CapBnd"], 16) == 0 and int(status["CapEff"], 16) == 0, status["CapBnd"].strip()))
wall("no new privileges")(lambda: (status["NoNewPrivs"].strip() == "1", status["NoNewPrivs"].strip()))
wall("system call filter")(lambda: (status["Seccomp"].strip() == "2" or NAME == "runsc", status["Seccomp"].strip()))
wall("root is read-only")(lambda: opens("/etc/threegate", os.O_CREAT | os.O_WRONLY))
wall("inputs are read-only")(lambda: opens("/in/threegate", os.O_CREAT | os.O_WRONLY))
if not JAILED:
    wall("no access to /proc/1")(lambda: opens("/proc/1/mem", os.O_RDWR))
wall("no kernel settings")(lambda: opens("/proc/sys/kernel/core_pattern", os.O_WRONLY))
wall("no devices")(lambda: (not [n for n in os.listdir("/dev") if n.startswith(("sd", "vd", "nvme", "mem", "kmsg", "loop", "kvm", "fuse"))], "none"))
wall("no docker socket")(lambda: (not any(map(os.path.exists, ("/var/run/docker.sock", "/run/docker.sock"))), "none"))
wall("only lo")(lambda: ([n for _, n in socket.if_nameindex() if n in ("eth0",) or n.startswith(("en", "wl", "docker", "veth"))] == [], [n for _, n in socket.if_nameindex()]))
def direct():
    with socket.socket() as plain:
        plain.settimeout(2)
        plain.connect(("198.51.100.1", 80))
    return False, "connected"
wall("no direct connection")(direct)
wall("no raw sockets")(lambda: (socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(), (False, "worked"))[1])
wall("no AF_VSOCK")(lambda: (socket.socket(40, socket.SOCK_STREAM).close(), (False, "worked"))[1])
wall("no AF_ALG")(lambda: (socket.socket(38, socket.SOCK_SEQPACKET).close(), (False, "worked"))[1])
wall("no mounts")(lambda: call(165, b"x", b"/tmp", b"tmpfs", 0, 0))
wall("no new namespaces")(lambda: call(272, 0x10000000))
wall("no ptrace")(lambda: call(101, 16, os.getppid(), 0, 0))
wall("no io_uring")(lambda: call(425, 1, 0))
wall("no bpf")(lambda: call(321, 0, 0, 0))
wall("no keyrings")(lambda: call(250, 0, 0, 0))
def executes():
    with open("/tmp/x", "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod("/tmp/x", 0o755)
    return os.spawnv(os.P_WAIT, "/tmp/x", ["x"]) == 127, "not run"
wall("/tmp does not execute")(executes)
wall("environment is ours")(lambda: (not (set(os.environ) - set(KNOWN)), sorted(set(os.environ) - set(KNOWN))))
def forks():
    children = []
    try:
        for _ in range(400):
            child = os.fork()
            if child == 0:
                os.close(gate[1])
                os.read(gate[0], 1)
                os._exit(0)
            children.append(child)
    except OSError:
        pass
    os.close(gate[1])
    for child in children:
        os.waitpid(child, 0)
    return len(children) < PIDS, f"{len(children)} children"
gate = os.pipe()
wall("processes are limited")(forks)
def fills():
    size = 0
    try:
        with open("/out/fill", "wb", 0) as file:
            while size < 2 * OUT:
                size += file.write(bytes(65536))
    except OSError:
        pass
    os.unlink("/out/fill")
    return size <= OUT, f"{size} bytes"
wall("/out is limited in bytes")(fills)
def names():
    count = 0
    try:
        for count in range(4 * FILES):
            open(f"/out/{count}", "x").close()
    except OSError:
        pass
    for name in os.listdir("/out"):
        os.unlink("/out/" + name)
    return count <= FILES, f"{count} files"
wall("/out is limited in names")(names)
def eats():
    child = os.fork()
    if child == 0:
        kept = bytes(MEMORY * 2)
        kept = bytearray(b"x") * (MEMORY * 2)
        os._exit(0)
    _, code = os.waitpid(child, 0)
    return os.WIFSIGNALED(code), "killed" if os.WIFSIGNALED(code) else "worked"
if MEMORY:
    wall("memory is limited")(eats)
if PROXY:
    import urllib.error, urllib.request
    def refused():
        try:
            urllib.request.urlopen("http://not-listed.invalid/", timeout=10)
        except urllib.error.HTTPError as error:
            return error.code == 403, error.code
        return False, "worked"
    wall("the proxy refuses what is not listed")(refused)
print(json.dumps(found))
"""  # noqa: E501


def era_probe_job(settings: EraSettings, *, network: bool, jailed: Literal["", "cgroup", "watched"] = "") -> Job:
    """The probe's job: small limits, so that reaching them is quick.

    `jailed` says that it is for bubblewrap, and how the limits are kept there: the first process is bubblewrap's own,
    which a run may touch because nothing relies on its word; and watched memory is not tested, which would end the
    probe itself.
    """
    bounds = JobLimits("1", 128, 60, out_bytes=4 << 20, out_files=64)
    environment = dict(ERA_ENVIRONMENT)
    if network:
        environment |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), PROXY_URL)
    facts = {
        "NAME": settings.oci_runtime,
        "KNOWN": sorted([*environment, "LC_CTYPE"]),
        "PIDS": bounds.processes,
        "OUT": bounds.out_bytes,
        "FILES": bounds.out_files,
        "MEMORY": 0 if jailed == "watched" else bounds.memory_mb << 20,
        "JAILED": bool(jailed),
        "PROXY": network,
    }
    script = "".join(f"{name} = {value!r}\n" for name, value in facts.items()) + _ERA_PROBE
    return Job(
        backend="ERA",
        action=Command(("/usr/bin/python3", "-I", "-c", script)),
        workdir="/in",
        inputs=(),
        outputs=(),
        limits=bounds,
        network=(f"{PROBE_HOST}:80",) if network else (),
        environment=environment,
        image=settings.image,
        egress_image=settings.egress_image if network else "",
        runtime=settings.oci_runtime,
        seccomp_sha256=SECCOMP_SHA256,
    )
