"""Operators on texts that have a meaning outside JSON: prefixes and suffixes, paths, hosts, e-mail addresses.

Invariant: a text is judged only in a spelling that every reader understands alike; for any other, an operator
returns neither true nor false (None), so that it satisfies no rule, and no `not` of one. Each operator reads
a text once.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from threegate.core import limits
from threegate.core.json_operators import BUILDERS, BadPattern, Test, compile_pattern
from threegate.request.characters import has_hidden
from threegate.request.hosts import LABEL, NUMERIC, is_port

# The part of an e-mail address before the @. Quotes, comments and routes (`%`, `!`) are read differently.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9_+=-]+(?:\.[A-Za-z0-9_+=-]+)*")
_SCHEME_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_URL: Final = re.compile(r"(https?|wss?)://([^/?#]+)(?:[/?#].*)?", re.IGNORECASE | re.ASCII)
# Parts of a path that some readers take for something else than characters of a name.
_UNJUDGED: Final = ("\\", "%", "//", "$")
_WILDCARDS: Final = re.compile(r"(\*\*|\*|\?)")
_WILDCARD_PATTERNS: Final = {"**": ".+", "*": "[^/]+", "?": "[^/]"}


class BadOperand(ValueError):
    """An operand that no text could ever fulfil. `operator` is the operator's name."""

    def __init__(self, operator: str, message: str) -> None:
        super().__init__(message)
        self.operator = operator


def _is_clear(text: str) -> bool:
    """Whether a text shows what it says: NFC, nothing hidden but tabs and newlines."""
    return not has_hidden(text) and (text.isascii() or unicodedata.is_normalized("NFC", text))


def _is_line(text: str) -> bool:
    """Whether a text is clear, and on one line."""
    return "\n" not in text and "\t" not in text and _is_clear(text)


def all_clear(value: Any) -> bool:
    """Whether every text in a JSON value is clear."""
    if isinstance(value, str):
        return _is_clear(value)
    if isinstance(value, dict):
        return all(_is_clear(key) and all_clear(item) for key, item in value.items())
    return not isinstance(value, list) or all(map(all_clear, value))


def negation(tests: Sequence[Test]) -> Test:
    """Holds for a value that does not pass all of `tests`; no yes where one of them cannot judge it."""

    def test(value: Any) -> bool | None:
        if not all_clear(value):
            return None
        found = [test(value) for test in tests]
        return None if None in found else not all(found)

    return test


def _starts_with(operand: str) -> Test:
    return _on_line("starts_with", operand, lambda value: value.startswith(operand))


def _ends_with(operand: str) -> Test:
    return _on_line("ends_with", operand, lambda value: value.endswith(operand))


def _on_line(operator: str, operand: str, holds: Callable[[str], bool]) -> Test:
    if not _is_line(operand):
        raise BadOperand(operator, f"{operator}: the text is not in NFC, or has a control character")
    return lambda value: holds(value) if isinstance(value, str) and _is_line(value) else None


def path_parts(text: str) -> tuple[str, ...] | None:
    """The names of a path, the first one empty if it is absolute; None for a spelling that is not judged.

    ``.`` and a final ``/`` are normalized away. ``..`` is not, because it leads elsewhere if there is a link.
    """
    if (
        not 0 < len(text) <= limits.CONTRACT_PATH_CHARS
        or not _is_line(text)
        or text.startswith("~")
        or any(part in text for part in _UNJUDGED)
        or (not text.isascii() and _is_read_otherwise(text))
    ):
        return None
    first, *rest = text.split("/")
    parts = (first, *(part for part in rest if part not in ("", ".")))
    if ".." in parts:
        return None
    return parts[1:] if first == "." else parts


def _is_read_otherwise(text: str) -> bool:
    """Whether a reader that folds characters (NFKC, as databases and some file systems do) would find another path: a
    slash, a ``.`` or ``..``, or what is not judged, in full width (``．．``, ``／``) or in one character (``‥``).
    """
    folded = unicodedata.normalize("NFKC", text)
    dots = [[part in (".", "..") for part in spelled.split("/")] for spelled in (text, folded)]
    return dots[0] != dots[1] or folded.startswith("~") or any(part in folded for part in _UNJUDGED)


def _under(operand: str | list[str]) -> Test:
    folders = []
    for text in [operand] if isinstance(operand, str) else operand:
        parts = path_parts(text)
        if parts is None:
            raise BadOperand("under", f"{text[:80]!r} is not a folder in one plain spelling (no .., //, %, \\, ~, $)")
        folders.append(parts)

    def below(parts: tuple[str, ...], folder: tuple[str, ...]) -> bool | None:
        if (parts[:1] == ("",)) != (folder[:1] == ("",)):
            return None  # where a relative path starts is not known here
        return parts[: len(folder)] == folder

    def test(value: Any) -> bool | None:
        parts = path_parts(value) if isinstance(value, str) else None
        return None if parts is None else _any([below(parts, folder) for folder in folders])

    return test


def _any(found: Sequence[bool | None]) -> bool | None:
    """Yes beats unknown, unknown beats no."""
    return True if True in found else None if None in found else False


def _glob(operand: str) -> Test:
    if path_parts(operand) is None or "." in operand.split("/"):
        raise BadOperand("glob", f"{operand[:80]!r} is not a path in one plain spelling (no ., .., //, %, \\, ~, $)")
    pattern = "".join(_WILDCARD_PATTERNS.get(part) or re.escape(part) for part in _WILDCARDS.split(operand))
    try:
        match = compile_pattern(pattern, whole=True)
    except BadPattern as problem:
        raise BadOperand("glob", f"glob: {problem}") from None

    def test(value: Any) -> bool | None:
        if not isinstance(value, str) or path_parts(value) is None or "." in value.split("/"):
            return None
        return match(value) is not None

    return test


class _Hosts:
    """Hosts as a contract lists them: a name, ``*.name`` for every name below it, an address; each may have a port."""

    def __init__(self, operator: str, listed: Sequence[str], *, ports: bool) -> None:
        self._exact: dict[str, set[int | None]] = {}
        self._below: dict[str, set[int | None]] = {}
        for text in listed:
            wild = text.startswith("*.")
            found = _read_authority(text.removeprefix("*."))
            if found is None or (wild and _is_address(found[0])) or (not ports and not _is_name(found)):
                kind = "host" if ports else "domain"
                raise BadOperand(operator, f"{text[:80]!r} is not a {kind} in one plain spelling")
            host, port = found
            (self._below if wild else self._exact).setdefault(host, set()).add(port)

    def has(self, host: str, port: int | None, default: int | None) -> bool | None:
        """Whether a host and the port that was written are listed; `default` is the scheme's port.

        Unknown: a listed host at another port, and an address or a punycode name (each may be another host's) that
        is not listed as such.
        """
        ports = set(self._exact.get(host, ()))
        labels = host.split(".")
        only_exact = _is_address(host) or any(label.startswith("xn--") for label in labels)
        for at in range(1, 0 if only_exact else len(labels)):
            ports |= self._below.get(".".join(labels[at:]), set())
        if (default if port is None else port) in {default if item is None else item for item in ports}:
            return True
        return None if ports or only_exact else False


def _is_address(host: str) -> bool:
    return host.startswith("[") or host.replace(".", "").isdigit()


def _is_name(found: tuple[str, int | None]) -> bool:
    """Whether it is the name of a domain: no address, no port."""
    return found[1] is None and not _is_address(found[0])


def _read_authority(text: str) -> tuple[str, int | None] | None:
    """Host and port as they are written; None for a spelling that is not judged. Names are folded to lower case."""
    if not text.isascii() or "%" in text:
        return None
    if text.startswith("["):
        host, bracket, port = text.partition("]")
        try:
            address = ipaddress.IPv6Address(host[1:])
        except ValueError:
            return None
        if not bracket:
            return None
        name = f"[{address.compressed}]"
    else:
        name, colon, port = text.lower().partition(":")
        port = colon + port
        if not _is_host_name(name):
            return None
    if not port:
        return name, None
    if not port.startswith(":") or not is_port(port[1:]):
        return None
    return name, int(port[1:])


def _is_host_name(name: str) -> bool:
    """Whether it is a lower-case name of a host, or an IPv4 address as every reader writes it."""
    if len(name) > limits.HOST_CHARS:
        return False
    labels = name.split(".")
    if NUMERIC.fullmatch(labels[-1]):
        try:
            ipaddress.IPv4Address(name)
        except ValueError:
            return False
        return True
    return all(LABEL.fullmatch(label) for label in labels)


def _host_in(operand: list[str]) -> Test:
    hosts = _Hosts("host_in", operand, ports=True)

    def test(value: Any) -> bool | None:
        if not isinstance(value, str) or len(value) > limits.CONTRACT_PATH_CHARS:
            return None
        if not _is_line(value) or "\\" in value or " " in value:
            return None
        url = _URL.fullmatch(value)
        found = _read_authority(value if url is None else url[2])
        if found is None:
            return None
        return hosts.has(*found, None if url is None else _SCHEME_PORTS[url[1].lower()])

    return test


def _email_domain_in(operand: list[str]) -> Test:
    hosts = _Hosts("email_domain_in", operand, ports=False)

    def test(value: Any) -> bool | None:
        if not isinstance(value, str) or len(value) > limits.CONTRACT_PATH_CHARS:
            return None
        local, _, domain = value.partition("@")
        found = _read_authority(domain)
        if not _ADDRESS.fullmatch(local) or found is None or not _is_name(found):
            return None
        return hosts.has(*found, None)

    return test


OPERATORS: Final[Mapping[str, Callable[[Any], Test]]] = {
    **BUILDERS,
    "starts_with": _starts_with,
    "ends_with": _ends_with,
    "glob": _glob,
    "under": _under,
    "host_in": _host_in,
    "email_domain_in": _email_domain_in,
}
"""Every operator that looks at one value, by name: its test for an operand. Raises BadOperand or BadPattern."""
