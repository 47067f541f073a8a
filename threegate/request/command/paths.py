"""Host paths and devices, in arguments, in inline code and in prose.

An argument may name what the sandbox has: /in, /out, /tmp and /dev/null. Code and patterns hold many slashes
that are no paths, so there only the known places of a host are looked for.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

HostRule = Literal["host-path", "device", "parent-segment"]


class HostPath(NamedTuple):
    """A path that is not the sandbox's: what it breaks, where (from 0), and how it is named in a message."""

    rule: HostRule
    place: int
    shown: str


_SOCKET: Final = re.compile(
    r"(?i)(?:docker|containerd|podman|crio|buildkitd|dockershim|libvirt|cri-dockerd)[-.\w]{0,20}\.sock\b"
    r"|\bDOCKER_HOST\b"
)
_FILE_URL: Final = re.compile(r"(?i)\bfile:(?://|\\/\\/|%2f%2f)")
_URL: Final = re.compile(
    r"(?i)\b(?!file\b|unix\b|npipe\b|fd\b)[a-z][a-z0-9+.-]{1,20}://(?=[\w.\[-])[^\s\"'<>]*"
)
_DEVICE: Final = re.compile(
    r"(?<![\w.:/~*)\]-])/+(?:\./+)*dev(?![\w.-])(?!/+null(?![\w./-]))(?:/[\w./-]{0,40})?"
)
_HOST: Final = re.compile(
    r"(?<![\w.:/~*)\]-])/+(?:\./+)*(?:etc|proc|sys|root|home|boot|run|var/+(?:run|lib|log|spool|cache|mail|www)|mnt|media|srv"
    r"|lib(?:32|64|x32)?|s?bin|Users|Volumes|host(?:fs)?)(?![\w.*+\\-])(?:/[\w./-]{0,40})?"
)
_OUTSIDE_BY_PARENT: Final = re.compile(
    r"(?<![\w.])/+(?:in|out|tmp)(?:/[^\s\"'/]*)*?/\.\.(?=[/\s\"',;)]|\Z)|[\"']\.\./"
)
_HOME: Final = re.compile(r"~[A-Za-z0-9_-]*(?:/|\Z)|(?:-{1,2}[A-Za-z][\w-]*|of|if)=~[A-Za-z0-9_-]*(?:/|\Z)")
_BEFORE_PATH: Final = re.compile(
    r"(?:^|(?<=[=:,@\"'\s(\[{<>|;])|(?<=\A-[A-Za-z])|(?<=\A-[A-Za-z]{2}))/[^\s\"',;:@()<>|]*"
)
_PARENT: Final = re.compile(r"(?:^|[/=:,@\"'\s])\.\.(?=[/\"':,\s]|\Z)|(?:^-[A-Za-z])\.\.(?=/)")
_ALLOWED: Final = re.compile(r"/(?:in|out|tmp)(?:/.*)?|/dev/null")
_SLASHES: Final = re.compile(r"/(?:\.?/)+")
_PATH_LIKE: Final = re.compile(r"[/~]|\.\.|(?i:sock|docker_host|file:)")
_DELIMITER: Final = re.compile(r"-[A-Za-z]?/|--[a-z-]*(?:delim|separator|sep|ifs|split)[a-z-]*=/|/")


def places_in_argument(value: str, *, slash_is_text: bool = False) -> HostPath | None:
    """The first host path of an argument that programs may open. `slash_is_text`: a lone / is a delimiter."""
    if not _PATH_LIKE.search(value):
        return None
    if (known := _named_place(value)) is not None:
        return known
    plain = _URL.sub(lambda match: " " * len(match[0]), value)
    if match := _HOME.match(plain):
        return HostPath("host-path", match.start(), "a home folder")
    if match := _PARENT.search(plain):
        return HostPath("parent-segment", match.start(), "..")
    for match in _BEFORE_PATH.finditer(plain):
        path = _SLASHES.sub("/", match[0])
        if _ALLOWED.fullmatch(path) or (path == "/" and slash_is_text and _DELIMITER.fullmatch(value)):
            continue
        return HostPath("host-path", match.start(), _shown(path))
    return None


def places_in_code(text: str) -> HostPath | None:
    """The first known place of a host in code, a pattern or prose."""
    if not _PATH_LIKE.search(text):
        return None
    if (known := _named_place(text)) is not None:
        return known
    if match := _OUTSIDE_BY_PARENT.search(text):
        return HostPath("parent-segment", match.start(), "..")
    return None


def _named_place(text: str) -> HostPath | None:
    """Sockets, file URLs, devices and the known folders of a host."""
    if match := _SOCKET.search(text):
        return HostPath("device", match.start(), "a container engine's socket")
    if match := _FILE_URL.search(text):
        return HostPath("host-path", match.start(), "file://")
    if match := _DEVICE.search(text):
        return HostPath("device", match.start(), _shown(match[0]))
    if match := _HOST.search(text):
        return HostPath("host-path", match.start(), _shown(match[0]))
    return None


def _shown(path: str) -> str:
    """A path as a message names it: short, and never more than its first two names."""
    return "/".join(_SLASHES.sub("/", path).split("/")[:3])[:40] or "/"
