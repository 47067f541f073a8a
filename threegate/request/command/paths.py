"""What no text may name: words that install software, host paths and devices, in arguments, in code and in prose.

An argument may name what the sandbox has: /in, /out, /tmp and /dev/null. Code and patterns contain many
slashes that are not paths, so there only the known places of a host are searched for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from threegate.core.secretscan.scan import PatternSet, one_byte_each

_GAP: Final = r"\s{1,4}"
_OPTIONS: Final = r"(?:--?[a-z][-=a-z]{0,30}\s{1,4}){0,4}"

_COMMANDS: Final = (
    r"(?i)\b(?:pip|pipx|conda|mamba|micromamba|poetry|pipenv|pdm|gem|bundle|npm|yarn|pnpm|bun|brew|snap|flatpak|cargo|choco|winget|scoop"
    r"|dnf|yum|zypper|apk|apt|apt-get|aptitude|opam|luarocks|cpan|cpanm|composer|tlmgr|nix-env|helm|opkg|microdnf|tdnf)[0-9.]{0,5}"
    + _GAP
    + _OPTIONS
    + r"(?:(?:install|reinstall|groupinstall|localinstall|add|ci)\b|i[ \t]+[@a-z])",
    r"(?i)\b(?:apt|apt-get|dnf|yum|zypper|apk|snap|brew)" + _GAP + _OPTIONS + r"(?:update|upgrade|dist-upgrade)\b",
    (
        r"(?i)\b(?:uv[ \t]{1,4}(?:pip|add|sync|tool[ \t]{1,4}install)\b|uvx[ \t]{1,4}[a-z]|npx[ \t]{1,4}(?:--?[a-z]+[ "
        r"\t])?[@a-z])"
    ),
    r"\bgo[ \t]{1,4}(?:get|install)[ \t]{1,4}[a-z0-9.-]+/",
    r"(?i)\bpython[0-9.]{0,5}"
    + _GAP
    + (
        r"(?:-[A-Za-z]{1,6}[ \t]{1,4}){0,3}-[A-Za-z]{0,6}m[ "
        r"\t]{0,4}(?:pip|ensurepip|easy_install|pipx|virtualenv|venv)\b"
    ),
    r"(?i)\bpython[0-9.]{0,5}[ \t]{1,4}(?:[^ \t\n]{0,200}/)?setup\.py[ \t]{1,4}(?:install|develop)",
    (
        r"\b(?:dpkg[ \t]{1,4}(?:-i|--install)|rpm[ \t]{1,4}-[iU][a-z]{0,3}|pacman[ \t]{1,4}-S[a-z]{0,3}|easy_install[ "
        r"\t]{1,4}[a-z]|make[ \t]{1,4}install)\b"
    ),
    (
        r"(?i)\binstall\.packages[ "
        r"\t]{0,2}\(|\bBiocManager::install\b|\b(?:devtools|remotes|pak|renv)::(?:install|pkg_install)\w{0,20}|\bPkg\.add\b"
    ),
    r"(?i)\b(?:curl|wget)[ \t][^\n|]{1,300}\|[ \t]{0,3}(?:sudo[ \t]{1,3})?(?:ba|z|da|k|a)?sh\b",
)
_COMMAND_SET: Final = PatternSet(_COMMANDS)
_CODE: Final = (
    r"\b(?:import|from)\s{1,4}(?:pip|ensurepip|venv|virtualenv)\b",
    r"\b(?:__import__|import_module|run_module|m)\s{0,2}\(\s{0,2}[\"'](?:pip|ensurepip|venv)\b",
    r"(?:\b|-M)CPAN\b|\bApp::cpanminus\b|\bGem\.install\b|\bGem::(?:DependencyInstaller|Commands|Installer)\b|\bBundler\.(?:setup|require)\b",
    r"[\"'](?:pip3?|uv|conda|npm|yarn|pnpm|apt|apt-get|dnf|yum|apk|gem)[\"']\s{0,3},\s{0,3}[\"'](?:install|add|i)[\"']",
    r"[\"']-m[\"']\s{0,3},\s{0,3}[\"'](?:pip|ensurepip|venv)[\"']",
    r"\binstall_(?:github|version|local|url|git|cran|bioc|gitlab|bitbucket)\b|\bbiocLite\b|\b(?:update|download)\.packages\b",
)
_ANY: Final = PatternSet(_COMMANDS + _CODE)
_MODULE: Final = re.compile(
    r"(?:-[A-Za-z]*m)?(?:pip|ensurepip|venv|virtualenv|pipx|uv|conda|easy_install|poetry|pipenv|pdm|hatch|get-pip|ez_setup|get-poetry|(?:npm|npx)-cli|yarn|pnpm)(?:\.[a-z_.]+)?"
)


def find_installs(text: str, *, most: int, code: bool = False) -> Iterator[tuple[int, int]]:
    """Places of the commands in `text` that would install software, at most `most` of a kind, and with `code` those of
    the calls of a language's own installer. Linear time.
    """
    for _, start, end in (_ANY if code else _COMMAND_SET).places(text, most=most):
        yield start, end


def installs(text: str) -> bool:
    """Whether there is a command or a call in `text` that would install software."""
    return bool(_ANY.which(one_byte_each(text)))


def names_installer(word: str) -> bool:
    """Whether a word is an installer's module or script: ``-mpip``, ``pip._internal``, ``get-pip.py``."""
    return _MODULE.fullmatch(word.rpartition("/")[2]) is not None


HostRule = Literal["host-path", "device", "parent-segment"]


class HostPath(NamedTuple):
    """A path that is not the sandbox's: what it breaks, where (from 0), and how it is named in a message."""

    rule: HostRule
    place: int
    shown: str


_BEFORE: Final = r"(?:^|[^A-Za-z0-9_.:/~*)\]-]|:)"
_SLASH: Final = r"(?:/+(?:\./+)*)"
_SOCKET: Final = r"(?i)((?:docker|containerd|podman|crio|buildkitd|dockershim|libvirt|cri-dockerd)[-.\w]{0,20}\.sock\b|\bDOCKER_HOST\b)"  # noqa: E501
_FILE_URL: Final = r"(?i)\bfile:(?://|\\/\\/|%2f%2f)"
_DEVICE: Final = _BEFORE + "(" + _SLASH + r"dev)(?:[^A-Za-z0-9_.-]|$)"
_HOST: Final = (
    _BEFORE
    + "("
    + _SLASH
    + r"(?:etc|proc|sys|root|home|boot|run|var/+(?:run|lib|log|spool|cache|mail|www)|mnt|media|srv"
    r"|lib(?:32|64|x32)?|s?bin|Users|Volumes|host(?:fs)?))(?:[^A-Za-z0-9_.*+\\-]|$)"
)
_OUTSIDE_BY_PARENT: Final = (
    r"(?:^|[^A-Za-z0-9_.])(/+(?:in|out|tmp)(?:/[^\s\"'/]*)*?/\.\.)(?:[/\s\"',;)]|$)|(?:^|[\s\"'`(=:])\.\./"
)
_NULL: Final = re.compile(r"/+null(?![\w./-])")
_URL: Final = re.compile(r"(?i)\b(?!file\b|unix\b|npipe\b|fd\b)[a-z][a-z0-9+.-]{1,20}://(?=[\w.\[-])[^\s\"'<>]*")
_HOME: Final = re.compile(r"~[A-Za-z0-9_-]*(?:/|\Z)|(?:-{1,2}[A-Za-z][\w-]*|of|if)=~[A-Za-z0-9_-]*(?:/|\Z)")
_BEGINS: Final = r"(?:^|[=,;@\"'\s(\[{<>|])"
WINDOWS: Final = HostPath("host-path", 0, "a path of Windows")
# Places of a host that no slash begins, whether something reads them or not: no shell expands a variable here.
_ELSEWHERE: Final = (
    (re.compile(_BEGINS + r"(?:[A-Za-z]:\\|\\\\[\w.?$-]+\\)"), WINDOWS.shown),
    (re.compile(r"(?:^|[=:,;@\"'\s(\[{<>|])\$[A-Za-z_]\w*/"), "a folder that a variable names"),
)
_BEFORE_PATH: Final = re.compile(
    r"(?:^|(?<=[=:,@\"'\s(\[{<>|;])|(?<=\A-[A-Za-z])|(?<=\A-[A-Za-z]{2}))/[^\s\"',;:@()<>|]*"
)
_PARENT: Final = re.compile(r"(?:^|[/=:,@\"'\s])\.\.(?=[/\"':,\s]|\Z)|(?:^-[A-Za-z])\.\.(?=/)")
_ALLOWED: Final = re.compile(r"/(?:in|out|tmp)(?:/.*)?|/dev/null")
_SLASHES: Final = re.compile(r"/(?:\.?/)+")
# What most paths of honest requests look like.
_PLAIN: Final = re.compile(r"(?:--?[A-Za-z][A-Za-z-]*+=)?/(?:in|out|tmp)(?>(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*+)*)/?")
_DELIMITER: Final = re.compile(r"-[A-Za-z]?/|--[a-z-]*(?:delim|separator|sep|ifs|split)[a-z-]*=/|/")


def path_like(text: str) -> bool:
    """Whether a text, or words with blanks between, may name any path: where not, no function here finds one."""
    lower = text.lower()
    return (
        "/" in text
        or "\\" in text
        or "~" in text
        or ".." in text
        or "sock" in lower
        or "docker_host" in lower
        or "file:" in lower
    )


def place_in_argument(value: str, *, slash_is_text: bool = False) -> HostPath | None:
    """The first host path of an argument that programs may open. `slash_is_text`: a lone / is a delimiter."""
    if not path_like(value) or (_PLAIN.fullmatch(value) and ".sock" not in value.lower()):
        return None
    if (known := next(find_places(value), None)) is not None:
        return known
    plain = _URL.sub(lambda match: " " * len(match[0]), value)
    if match := _HOME.match(plain):
        return HostPath("host-path", match.start(), "a home folder")
    for pattern, words in _ELSEWHERE:
        if match := pattern.search(plain):
            return HostPath("host-path", match.start(), words)
    if match := _PARENT.search(plain):
        return HostPath("parent-segment", match.start(), "..")
    for match in _BEFORE_PATH.finditer(plain):
        path = _SLASHES.sub("/", match[0])
        if _ALLOWED.fullmatch(path) or (path == "/" and slash_is_text and _DELIMITER.fullmatch(value)):
            continue
        rule: HostRule = "device" if path == "/dev" or path.startswith("/dev/") else "host-path"
        return HostPath(rule, match.start(), _shown(path))
    return None


def place_in_code(text: str) -> HostPath | None:
    """The first known place of a host in code or a pattern."""
    return next(find_places(text), None) if path_like(text) else None


def place_in_pattern(text: str) -> HostPath | None:
    """As `place_in_code`, for languages in which ``/etc/`` may be a regular expression: only what is in quotes,
    behind ``<`` or ``>``, or is a file that sed reads or writes."""
    if not path_like(text):
        return None
    for found in find_places(text):
        before = text[: found.place].rstrip(" \t")
        quoted = text[: found.place].endswith(('"', "'"))
        if found.shown in _WORDS or quoted or before.endswith(("<", ">")) or _SED_FILE.search(before[-12:]):
            return found
    return None


def find_places(text: str) -> Iterator[HostPath]:
    """The known places of a host in prose, by kind; at most `_MOST` of a kind."""
    for number, start, end in _KNOWN_SET.places(text, most=_MOST):
        pattern, rule, words = _KNOWN[number]
        if pattern is _DEVICE and _NULL.match(text, end):
            continue
        if text.startswith("//", start) and text[:start].endswith(":"):
            continue  # the host of a URL
        yield HostPath(rule, start, words or _shown(text[start:end]))


_WORDS: Final = frozenset(("a container engine's socket", "file://"))
_SED_FILE: Final = re.compile(r"(?:^|[;{}\s/0-9$!])[rRwW]\Z")
_MOST: Final = 150
_KNOWN: Final[tuple[tuple[str, HostRule, str], ...]] = (
    (_SOCKET, "device", "a container engine's socket"),
    (_DEVICE, "device", ""),
    (_FILE_URL, "host-path", "file://"),
    (_HOST, "host-path", ""),
    (_OUTSIDE_BY_PARENT, "parent-segment", ".."),
)
_KNOWN_SET: Final = PatternSet([pattern for pattern, _, _ in _KNOWN])


def _shown(path: str) -> str:
    """A path as a message names it: its first name only, so that nothing that follows is repeated."""
    return "/".join(_SLASHES.sub("/", path).split("/")[:2])[:24] or "/"
