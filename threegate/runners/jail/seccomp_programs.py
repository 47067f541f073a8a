"""The two seccomp programs of the jail, compiled by libseccomp: the system calls of the ERA profile, and no input
injection into a terminal.

Invariant: the first program is an allowlist (defined in `runners/seccomp.py`). The second refuses the two ioctls that
inject input into a terminal; the kernel uses only the lower 32 bits of the number, and so does the program.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from typing import Any, Final

from threegate.core.errors import Unavailable
from threegate.runners.seccomp import profile

LIBRARY: Final = "libseccomp.so.2"
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_EPERM: Final = 1
_EQUAL, _MASKED_EQUAL = 4, 7
_COMPARED: Final = {"SCMP_CMP_EQ": _EQUAL, "SCMP_CMP_MASKED_EQ": _MASKED_EQUAL}
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_LOWER: Final = 0xFFFFFFFF


class _Argument(ctypes.Structure):
    """struct scmp_arg_cmp of seccomp.h; with a masked comparison `a` is the mask and `b` the value."""

    _fields_ = [("index", ctypes.c_uint), ("how", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


@functools.cache
def system_calls(*, engine: bool = True) -> bytes:
    """The program that allows the calls of the ERA profile, or those of a run without an engine; compiled once.

    Raises Unavailable.
    """
    return _compiled(profile(engine=engine))


@functools.cache
def terminal_input() -> bytes:
    """The same for the program that refuses TIOCSTI and TIOCLINUX, and allows everything else. Raises Unavailable."""
    refused = [
        {
            "names": ["ioctl"],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": _EPERM,
            "args": [{"index": 1, "value": _LOWER, "valueTwo": number, "op": "SCMP_CMP_MASKED_EQ"}],
        }
        for number in (_TIOCSTI, _TIOCLINUX)
    ]
    return _compiled({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": refused})


def _compiled(rules: Mapping[str, Any]) -> bytes:
    library = _library()
    context = library.seccomp_init(ctypes.c_uint32(_action(rules["defaultAction"], rules)))
    if not context:
        raise Unavailable(f"{LIBRARY}: no filter could be made")
    try:
        for rule in rules["syscalls"]:
            _add(library, context, rule)
        with open(os.memfd_create("seccomp", os.MFD_CLOEXEC), "rb") as file:
            if library.seccomp_export_bpf(ctypes.c_void_p(context), file.fileno()) != 0:
                raise Unavailable(f"{LIBRARY}: the filter could not be written")
            file.seek(0)
            return file.read()
    finally:
        library.seccomp_release(ctypes.c_void_p(context))


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise Unavailable(
            f"{LIBRARY} is missing, so the jail would have no seccomp filter; on Debian: apt-get install libseccomp2"
        ) from None
    library.seccomp_init.restype = ctypes.c_void_p
    return library


def _add(library: ctypes.CDLL, context: int, rule: Mapping[str, Any]) -> None:
    action = _action(rule["action"], rule)
    arguments = [
        _Argument(item["index"], _COMPARED[item["op"]], item["value"], item["valueTwo"]) for item in rule["args"]
    ]
    array = (_Argument * len(arguments))(*arguments)
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number == -1:  # a call that this library does not know yet stays refused
            continue
        code = library.seccomp_rule_add_array(
            ctypes.c_void_p(context), ctypes.c_uint32(action), number, len(arguments), array
        )
        if code != 0:
            raise Unavailable(f"{LIBRARY}: no rule for {name} ({os.strerror(-code)})")


def _action(name: str, rule: Mapping[str, Any]) -> int:
    if name == "SCMP_ACT_ALLOW":
        return _ALLOW
    return _ERRNO | int(rule.get("errnoRet", rule.get("defaultErrnoRet", _EPERM)))
