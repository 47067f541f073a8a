"""Which files are secrets by what they are: by their name, or by content that is not plain UTF-8.

Invariant: a name counts in any case and spelling that some file system takes for it. A name that other files have too,
as ``*.key`` has, counts only with content that is a key.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from threegate.core.secretscan.certain import is_typed_value
from threegate.plugins.changes.project_paths import folded_parts, is_environment

_KEY_NAMES: Final = frozenset({"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_xmss", "id_ecdsa_sk", "id_ed25519_sk"})
_NAMES: Final = _KEY_NAMES | frozenset(
    {
        ".netrc", "_netrc", ".pgpass", "pgpass.conf", ".git-credentials", ".dockercfg", ".dockerconfigjson", ".my.cnf",
        ".mylogin.cnf", ".s3cfg", ".boto", ".vault-token", ".vault_pass", ".vault-pass", "wallet.dat",
        "credentials.tfrc.json", "application_default_credentials.json", "msal_token_cache.json",
    }
)  # fmt: skip
_ENDINGS: Final = (
    ".p12", ".pfx", ".jks", ".keystore", ".bcfks", ".kdb", ".kdbx", ".psafe3", ".keychain", ".keychain-db", ".tfstate",
    ".tfstate.backup",
)  # fmt: skip
_ORDINARY: Final = frozenset({"debug.keystore"})
"""The one of each Android project, with a password that is known."""
_PATHS: Final = (
    ".aws/credentials", ".azure/accesstokens.json", ".cargo/credentials", ".cargo/credentials.toml",
    ".codex/auth.json",
    ".composer/auth.json", ".config/gcloud/access_tokens.db", ".config/gcloud/credentials.db", ".config/gh/hosts.yml",
    ".docker/config.json", ".gem/credentials", ".kube/config",
)  # fmt: skip
_PATH_ENDINGS: Final = tuple(f"/{path}" for path in _PATHS)
_LAST: Final = frozenset(path.rpartition("/")[2] for path in _PATHS)
_REGISTRIES: Final = re.compile(
    rb"(?i)_?(?:authToken|auth|_password|npmAuthToken|npmAuthIdent)\"?\s*[=:]\s*[\"']?[^\s\"'$%<{]{8}"
)
_PYPIRC: Final = re.compile(rb"(?im)^[ \t]*password[ \t]*[=:][ \t]*[^\s$%<{]{4}")
_CLUSTER: Final = re.compile(rb"(?m)^[ -]*(?:client-key-data|token|password): *[^\s$%<{]{8}")
_ONE_WORD: Final = re.compile(rb"\s*(\S{8,4096})\s*")
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
    parts = folded_parts(path)
    name = parts[-1]
    if name in _ORDINARY:
        return False
    if name in _NAMES or name.endswith(_ENDINGS) or is_environment(name):
        return True
    if ".password-store" in parts[:-1] and name.endswith(".gpg"):
        return True
    return name in _LAST and f"/{'/'.join(parts)}".endswith(_PATH_ENDINGS)


def is_key_name(path: str) -> bool:
    """Whether a file has the name that OpenSSH gives to a private key."""
    return folded_parts(path)[-1] in _KEY_NAMES


def file_secret(path: str, data: bytes) -> str | None:
    """The kind of secret that a file is by its name and its content together; None for any other."""
    *folders, name = folded_parts(path)
    if is_key_file(path, data):
        return "private-key"
    if name in (".npmrc", ".yarnrc", ".yarnrc.yml") and _REGISTRIES.search(data):
        return "registry-credentials"
    if name == ".pypirc" and _PYPIRC.search(data):
        return "password"
    if name.endswith("kubeconfig") and _CLUSTER.search(data):
        return "cluster-credentials"
    if folders and folders[-1] in ("secrets", ".secrets") and ("." not in name or name.endswith(".txt")):
        word = _ONE_WORD.fullmatch(data)  # as secrets are given to containers: a file for each
        if word is not None and not is_typed_value(word[1]):
            return "password"
    return None


def is_key_file(path: str, data: bytes) -> bool:
    """Whether a file called ``*.key`` is a key: one long token, or bytes of no known format."""
    name = folded_parts(path)[-1]
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
    if b"\0" not in head:
        return data.decode("utf-8", "replace")
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[first::2], head[1 - first :: 2]
        if zeros and zeros.count(0) * 5 > len(zeros) * 4 and others.count(0) * 5 < len(others):
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "replace")
