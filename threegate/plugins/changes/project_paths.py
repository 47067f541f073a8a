"""Paths of proposals, judged by their spelling alone: inside the project or not, protected or not.

Invariant: a path returned by `read_path` is relative, has no empty, `.` or `..` part, no character that hides
or separates on any system, and is inside the project as far as spelling shows. Links in it are checked on
disk (`project.py`). Names are compared ignoring case, Unicode compatibility forms and the final dots and
spaces that some systems drop.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from threegate.core import limits
from threegate.request.characters import JOINING, has_hidden

PROTECTED_FOLDERS: Final = frozenset({"secrets", "credentials", "data", "database", "db", "backup", "backups", ".git"})
PROTECTED_PATTERNS: Final = (".env*", "*.db", "*.sqlite", "*.sqlite3", "*.sql", "*.dump", "*.bak")
_PROTECTED_BEGINNINGS: Final = tuple(pattern[:-1] for pattern in PROTECTED_PATTERNS if pattern.endswith("*"))
_PROTECTED_ENDINGS: Final = tuple(pattern[1:] for pattern in PROTECTED_PATTERNS if pattern.startswith("*"))
_ENVIRONMENT: Final = re.compile(r"\.env(?:[._-].*)?", re.DOTALL)
_TEMPLATES: Final = tuple(f"{mark}{word}" for mark in "._-" for word in ("example", "sample", "template", "dist"))
_OWN: Final = frozenset({"tool-exec", "threegate.toml", ".threegate-backup", ".threegate-apply"})
_PROTECTED_NAMES: Final = PROTECTED_FOLDERS | _OWN
_GUARD: Final = frozenset({".clawguard.json", ".clawguard"})
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|clock\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.DOTALL)
_DRIVE: Final = re.compile(r"[A-Za-z]:")


class PathBlocked(ValueError):
    """The path may never be touched. `code` is stable; the message never repeats the path."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ProjectPath(NamedTuple):
    """A path inside the project: its parts (none for the project itself), and whether it is protected."""

    parts: tuple[str, ...]
    protected: bool

    @property
    def text(self) -> str:
        """The path with slashes; ``.`` for the project itself."""
        return "/".join(self.parts) or "."


def read_path(text: str, *, writing: bool = False) -> ProjectPath:
    """Judge a path. Raises PathBlocked; `writing` also guards the guards' own settings."""
    if len(text) > limits.PROJECT_PATH_CHARS:
        raise PathBlocked("path_too_long", f"a path has at most {limits.PROJECT_PATH_CHARS} characters")
    if has_hidden(text) or "\n" in text or "\t" in text:
        raise PathBlocked("path_hidden", "the path has a character that cannot be seen")
    parts = _parts(text)
    protected = _judge(parts, writing)
    for form in () if text.isascii() and "%" not in text else _other_forms(text):
        protected = _judge(_parts(form), writing) or protected
    return ProjectPath(parts, protected)


def is_protected(parts: tuple[str, ...]) -> bool:
    """Whether a path inside the project is protected, by any of its parts."""
    return _any_protected([folded(part) for part in parts])


def is_environment(name: str) -> bool:
    """Whether a name is that of a file with an environment, such as ``.env.local``, and not of a template of one."""
    plain = folded(name)
    return _ENVIRONMENT.fullmatch(plain) is not None and not plain.endswith(_TEMPLATES)


def _any_protected(names: list[str]) -> bool:
    for name in names:
        if name in _PROTECTED_NAMES or name.startswith(_PROTECTED_BEGINNINGS) or name.endswith(_PROTECTED_ENDINGS):
            return True
    return False


def is_own(parts: tuple[str, ...]) -> bool:
    """Whether a path is in what belongs to ThreeGate."""
    return not _OWN.isdisjoint(map(folded, parts))


def is_guard(parts: tuple[str, ...]) -> bool:
    """Whether a path is in the settings of a guard."""
    return any(folded(part) in _GUARD for part in parts)


@lru_cache(maxsize=1 << 14)
def collision_key(name: str) -> str:
    """What two names share that a file system without case or with Unicode normalisation takes for one, or that look
    the same because they differ in joiners.
    """
    if name.isascii():
        return name.lower()
    name = name.translate(JOINING)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


@lru_cache(maxsize=1 << 14)
def folded(name: str) -> str:
    """A name as the most forgiving file system would compare it."""
    key = collision_key(name)
    return key.partition(":")[0].rstrip(" .") or key


@lru_cache(maxsize=1 << 10)
def folded_parts(path: str) -> tuple[str, ...]:
    """Each part of a path, folded. Kept, because several rules in turn ask about the same path."""
    return tuple(map(folded, path.split("/")))


def _parts(text: str) -> tuple[str, ...]:
    """The parts of a path with `.` and inner `..` taken out. Raises PathBlocked."""
    if text.startswith(("/", "~")) or (":" in text and (_DRIVE.match(text) or "://" in text)):
        raise PathBlocked("path_outside", "the path is absolute; name one inside the project")
    if "\\" in text:
        raise PathBlocked("path_outside", "the path has a backslash; separate with slashes")
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            if not parts:
                raise PathBlocked("path_outside", "the path leaves the project")
            parts.pop()
        elif part not in ("", "."):
            if len(part.encode("utf-8")) > limits.PROJECT_NAME_BYTES:
                raise PathBlocked("path_too_long", f"a name has at most {limits.PROJECT_NAME_BYTES} bytes")
            parts.append(part)
    return tuple(parts)


def _judge(parts: tuple[str, ...], writing: bool) -> bool:
    names = [folded(part) for part in parts]
    if not _OWN.isdisjoint(names):
        raise PathBlocked("path_own", "the path belongs to ThreeGate; proposals never touch it")
    if writing and not _GUARD.isdisjoint(names):
        raise PathBlocked("path_guard", "the path is a guard's own settings; proposals never write them")
    if any(map(_DEVICES.fullmatch, names)):
        raise PathBlocked("path_device", "the path names a device")
    return _any_protected(names)


def _other_forms(text: str) -> list[str]:
    """What else the text would mean to a program that decodes percent signs or compatibility forms."""
    forms = []
    decoded = text
    for _ in range(limits.PROJECT_PATH_DECODINGS):
        again = unquote(decoded)
        if again == decoded:
            break
        decoded = again
        forms.append(decoded.replace("\x00", "/"))
    else:
        raise PathBlocked("path_hidden", "the path is percent-encoded over and over")
    forms.append(unicodedata.normalize("NFKC", text))
    return [form for form in forms if form != text]
