"""The system calls that a container may make: our allowlist, narrower than Docker's default.

Invariant: calls that are not listed are refused with EPERM; clone3 with ENOSYS so that the C library falls back to
clone, whose flags can be checked. In addition to Docker's exclusions, these are not allowed: io_uring, ptrace and the
memory of other processes, keyrings, user faults, performance events, BPF, file handles, namespaces, foreign
architectures, and every socket family but unix, IPv4, IPv6 and route netlink (so no AF_VSOCK, no AF_ALG, no AF_PACKET).
"""

from __future__ import annotations

import json
from typing import Any

from threegate.core.canonical import sha256_hex

_FILES = """
access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64
fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock
fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr inotify_add_watch
inotify_init inotify_init1 inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr llistxattr lremovexattr
lseek lsetxattr lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 pread64 preadv preadv2 pwrite64
pwritev pwritev2 read readahead readlink readlinkat readv removexattr rename renameat renameat2 rmdir sendfile
setxattr splice stat statfs statx symlink symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat
utime utimensat utimes write writev cachestat
"""
_PROCESSES = """
alarm arch_prctl capget capset clock_getres clock_gettime clock_nanosleep execve execveat exit exit_group fork
get_robust_list get_thread_area getcpu getegid geteuid getgid getgroups getitimer getpgid getpgrp getpid getppid
getpriority getresgid getresuid getrlimit getrusage getsid gettid gettimeofday getuid ioprio_get ioprio_set kill
landlock_add_rule landlock_create_ruleset landlock_restrict_self nanosleep pause pidfd_open pidfd_send_signal prctl
prlimit64 restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
sched_setscheduler sched_yield seccomp set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid
setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid sigaltstack
sysinfo tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
timerfd_gettime timerfd_settime times tkill uname vfork wait4 waitid
"""
_MEMORY = """
brk get_mempolicy madvise membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect mremap msync munlock
munlockall munmap pkey_alloc pkey_free pkey_mprotect set_mempolicy
"""
_WAITING = """
epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 futex futex_waitv
pipe pipe2 poll ppoll pselect6 select signalfd signalfd4
"""
_SOCKETS = """
accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg sendmsg
sendto setsockopt shutdown
"""
_IPC = """
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop
semtimedop shmat shmctl shmdt shmget
"""
_RANDOM = "getrandom"

_ALLOWED = sorted(
    {name for group in (_FILES, _PROCESSES, _MEMORY, _WAITING, _SOCKETS, _IPC, _RANDOM) for name in group.split()}
)
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
# Those of Docker's profile: Linux, 32-bit uname, 2.6 uname, both, and asking for the current one.
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_ENOSYS = 38


def _equal(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "valueTwo": 0, "op": "SCMP_CMP_EQ"}


def _allow(names: list[str], *args: dict[str, Any]) -> dict[str, Any]:
    return {"names": names, "action": "SCMP_ACT_ALLOW", "args": list(args)}


_REFUSED_WITHOUT_ENGINE = frozenset({"memfd_create", "msgget", "sched_setaffinity", "semget", "shmget"})
"""What a run without an engine may not do: take cores that it was not given, and memory that no watcher sees."""


def profile(*, engine: bool = True) -> dict[str, Any]:
    """The profile in the engine's format (`security_opt seccomp=`), or that of a run by bubblewrap."""
    allowed = _ALLOWED if engine else [name for name in _ALLOWED if name not in _REFUSED_WITHOUT_ENGINE]
    no_namespace = {"index": 0, "value": _NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 1,
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": [
            _allow(allowed),
            _allow(["clone"], no_namespace),
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS, "args": []},
            *(_allow(["personality"], _equal(0, value)) for value in _PERSONALITIES),
            *(_allow(["socket", "socketpair"], _equal(0, family)) for family in (_UNIX, _INET, _INET6)),
            _allow(["socket"], _equal(0, _NETLINK), _equal(2, 0)),  # NETLINK_ROUTE: the C library lists interfaces
        ],
    }


SECCOMP_JSON = json.dumps(profile(), sort_keys=True, separators=(",", ":"))
"""The profile's text for the engine."""
SECCOMP_SHA256 = sha256_hex(SECCOMP_JSON.encode())
"""Its digest, part of the policy and of every Job."""

BUBBLEWRAP_SECCOMP_SHA256 = sha256_hex(
    json.dumps(profile(engine=False), sort_keys=True, separators=(",", ":")).encode()
)
"""The digest of the profile of a run without an engine, part of every Job that runs so."""
