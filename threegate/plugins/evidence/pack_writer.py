"""Where a pack is written: a folder or a zip, each file once, with its digest.

Invariant: every file but the page goes through `open`, which adds its line to SHA256SUMS; SHA256SUMS is
signed by the workspace's key; the pack appears under its name when it is complete. Foreign text goes through
`add`, which masks secrets.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput
from threegate.core.secretscan.scan import find_secrets, mask_secrets
from threegate.trail.workspace_key import SigningKey

SUMS: Final = "SHA256SUMS"
SEAL: Final = "SHA256SUMS.note"
_CHUNK: Final = 1 << 20


class Sink(Protocol):
    """Bytes on their way into one file of the pack."""

    def write(self, data: bytes, /) -> object: ...


class _Summed:
    """Writes through, and knows the digest of what went through."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def write(self, data: bytes, /) -> None:
        self.digest.update(data)
        self._stream.write(data)


class PackWriter:
    """One pack while it is made. What is missing from it, and what was masked in it, is collected here."""

    def __init__(self, out: Path) -> None:
        self.out = out.absolute()
        self.missing: list[dict[str, str]] = []
        """`file`, as it would be called in the pack, and `why` it is not there."""
        self.masked: list[dict[str, object]] = []
        """`file`, and the kinds of `secrets` that were masked in it."""
        self._part = self.out.with_name(f".{self.out.name}.part")
        self._zip: zipfile.ZipFile | None = None
        self._sums = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> PackWriter:
        """Raises InvalidInput when something has that name already, OSError."""
        if os.path.lexists(self.out):
            raise InvalidInput(f"{self.out}: already exists; give --out another name, or remove it")
        self._remove_part()
        if self.out.suffix == ".zip":
            self._zip = zipfile.ZipFile(self._part, "x", zipfile.ZIP_DEFLATED)
        else:
            self._part.mkdir(mode=0o700)
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._sums.close()
        if self._zip is not None:
            self._zip.close()
        if kind is None:
            self._part.rename(self.out)
        else:
            self._remove_part()

    @contextmanager
    def open(self, name: str) -> Iterator[Sink]:
        """A new file of the pack, and its line in SHA256SUMS. Raises OSError."""
        with self._open(name) as stream:
            summed = _Summed(stream)
            yield summed
        self._sums.write(f"{summed.digest.hexdigest()}  ./{name}\n".encode("ascii"))

    def put(self, name: str, data: bytes) -> None:
        """A file that ThreeGate wrote, as it is. Raises OSError."""
        with self.open(name) as sink:
            sink.write(data)

    def add(self, name: str, data: bytes, *, digest: str | None, signed: bool = False) -> None:
        """Foreign text with its secrets masked. Bytes without the digest that the trail names are listed as
        missing, and so is a `signed` file with a secret, because its signature could not be checked after
        masking. Raises OSError.
        """
        if digest is not None and sha256_hex(data) != digest:
            self.lacks(name, "it was changed: its digest is not the one in the trail")
            return
        text = data.decode("utf-8", "surrogateescape")
        if found := find_secrets(text):
            if signed:
                self.lacks(name, "it has a secret, and what is signed cannot be masked")
                return
            # The index says which files differ from their digests, and why.
            self.masked.append({"file": name, "secrets": sorted({item.kind for item in found})})
            data = mask_secrets(text).encode("utf-8", "surrogateescape")
        self.put(name, data)

    def lacks(self, name: str, why: str) -> None:
        """Say that a file is missing."""
        self.missing.append({"file": name, "why": why})

    def seal(self, key: SigningKey, page: bytes) -> None:
        """Write SHA256SUMS, the workspace's signed note over it, and the page. Raises OSError."""
        digest = hashlib.sha256()
        self._sums.seek(0)
        with self._open(SUMS) as stream:
            while chunk := self._sums.read(_CHUNK):
                digest.update(chunk)
                stream.write(chunk)
        with self._open(SEAL) as stream:
            stream.write(_note(key, f"{key.name}\nevidence sha256:{digest.hexdigest()}\n"))
        with self._open("HOW-TO-CHECK.md") as stream:
            stream.write(page)

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        if self._zip is not None:
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
            # How large it becomes is not known yet.
            with self._zip.open(entry, "w", force_zip64=True) as stream:
                yield stream
            return
        path = self._part / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("xb") as stream:
            yield stream

    def _remove_part(self) -> None:
        """What is left of this pack, or of one that was stopped."""
        if self._part.is_dir() and not self._part.is_symlink():
            shutil.rmtree(self._part)
        else:
            self._part.unlink(missing_ok=True)


def _note(key: SigningKey, text: str) -> bytes:
    """A C2SP signed note. Its second line is not a number, so it can never pass for a checkpoint."""
    signature = base64.b64encode(key.public.key_id + key.sign(text.encode())).decode("ascii")
    return f"{text}\n\u2014 {key.name} {signature}\n".encode()
