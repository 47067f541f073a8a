"""Which files are secrets by what they are: by their name, or by content that is not plain UTF-8.

Invariant: a name counts in any case and spelling that some file system takes for it. A name that other files have too,
as ``*.key`` has, counts only with content that is a key.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from threegate.changes.project_paths import folded

_NAMES: Final = frozenset(
    {
        ".netrc", "_netrc", ".pgpass", ".git-credentials", ".dockercfg", ".vault-token", ".vault_pass",
        "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "credentials.tfrc.json",
        "application_default_credentials.json",
    }
)  # fmt: skip
_ENDINGS: Final = (".p12", ".pfx", ".kdbx", ".tfstate", ".tfstate.backup")
_ENVIRONMENT: Final = re.compile(r"\.env(?:\.(?!(?:example|sample|template|dist)$).*)?", re.DOTALL)
_PATHS: Final = (".aws/credentials", ".docker/config.json", ".kube/config", ".config/gh/hosts.yml")
_KEY_TEXT: Final = re.compile(rb"\s*([A-Za-z0-9+/_=-]{16,})\s*")
"""The whole of a file with one key, in hex or base64."""
_KEY_BYTES: Final = (16, 4096)
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_GUESSED_BYTES: Final = 4096


def is_secret_path(path: str) -> bool:
    """Whether a file of this name is a secret whatever is in it."""
    *above, last = path.split("/")
    name = folded(last)
    if name in _NAMES or name.endswith(_ENDINGS) or _ENVIRONMENT.fullmatch(name):
        return True
    return "/".join([*map(folded, above), name]).endswith(tuple(f"/{ending}" for ending in _PATHS)) or (
        "/".join([*map(folded, above), name]) in _PATHS
    )


def is_key_file(path: str, data: bytes) -> bool:
    """Whether a file called ``*.key`` is a key: one long token, or bytes of no known format."""
    name = folded(path.rpartition("/")[2])
    if not name.endswith(".key") or "pub" in name:
        return False
    text = _KEY_TEXT.fullmatch(data)
    if text is not None:
        return any(48 <= byte <= 57 for byte in text[1])
    least, most = _KEY_BYTES
    return (
        least <= len(data) <= most and sum(byte < 9 or 14 <= byte < 32 or byte > 126 for byte in data) > len(data) // 4
    )


def text_of(data: bytes) -> str:
    """The text of a file, also in UTF-16 and UTF-32, with and without a mark. What is not text has replacements."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    head = data[:_GUESSED_BYTES]
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[first::2], head[1 - first :: 2]
        if zeros and zeros.count(0) * 5 > len(zeros) * 4 and others.count(0) * 5 < len(others):
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "replace")
