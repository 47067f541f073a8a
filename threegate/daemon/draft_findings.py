"""What only the daemon can say about a draft: whether its id is free and whether its inputs are what it says.

Invariant: these findings depend on the workspace, so they stand in the verdict and are checked again by
`approve`; gate 1 itself never reads another file.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from threegate.core import limits
from threegate.request.model import InputFile, Request
from threegate.request.report import Finding, Fix
from threegate.trail import TrailIndex

SURROUNDING_RULES = {
    "TG901": "Take a new request_id (threegate draft makes one): an id and a file name are used once, for ever.",
    "TG902": "Put the file into inbox/files/ under exactly this name, as a plain file.",
    "TG903": "Write the sha256 of the bytes that lie there (sha256sum), or put the right file there.",
}
"""What only a workspace can find, with the mend."""


@dataclass
class InputHashes:
    """sha256 of the files in inbox/files/, kept for as long as a file stays as it was."""

    folder: Path
    _known: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)

    def sha256(self, name: str) -> str | None:
        """The file's digest, or None when it is not there or cannot be taken as an input."""
        try:
            descriptor = os.open(
                self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
            )
        except OSError:
            return None
        try:
            facts = os.fstat(descriptor)
            if (
                not stat.S_ISREG(facts.st_mode)
                or facts.st_nlink != 1
                or facts.st_size > limits.INPUT_FILE_BYTES
            ):
                return None
            identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            known = self._known.get(name)
            if known is not None and known[0] == identity:
                return known[1]
            digest = _hash(descriptor)
            self._known[name] = (identity, digest)
            return digest
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def keep_only(self, names: set[str]) -> None:
        """Forget files that no draft names any more."""
        for name in self._known.keys() - names:
            del self._known[name]


def _hash(descriptor: int) -> str:
    digest = hashlib.sha256()
    left = limits.INPUT_FILE_BYTES
    while left > 0 and (chunk := os.read(descriptor, min(left, 1 << 20))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest()


def surrounding_findings(
    request: Request,
    index: TrailIndex,
    hashes: InputHashes,
    *,
    place: Callable[[InputFile], str] = lambda item: item.name,
) -> list[Finding]:
    """Findings about a draft that is well-formed in itself. `place`: under which name `hashes` knows an input."""
    findings = []
    if index.id_used(request.request_id):
        findings.append(_finding("TG901", f"request_id {request.request_id} was used before"))
    elif index.name_used(request.file_name):
        findings.append(_finding("TG901", f"the file name {request.file_name} was used before"))
    for item in request.inputs:
        found = hashes.sha256(place(item))
        if found is None:
            findings.append(_finding("TG902", f"inbox/files/{item.name} is not there or is no plain file"))
        elif found != item.sha256:
            findings.append(_finding("TG903", f"inbox/files/{item.name} has the sha256 {found}"))
    return findings


def _finding(rule: str, message: str) -> Finding:
    return Finding(rule, "error", 1, 1, message, SURROUNDING_RULES[rule])


def surrounding_fixes(
    request: Request,
    findings: Iterable[Finding],
    index: TrailIndex,
    hashes: InputHashes,
    *,
    place: Callable[[InputFile], str] = lambda item: item.name,
) -> tuple[Fix, ...]:
    """What answers such findings mechanically: a fresh id, the digest of the bytes that lie there."""
    rules = {finding.rule for finding in findings}
    lines = request.data.decode("utf-8").replace("\r\n", "\n").split("\n")
    fixes: list[Fix] = []
    fresh = f"{request.request_id[:100]}-{request.sha256[:8]}"
    if "TG901" in rules and index.id_used(request.request_id) and not index.id_used(fresh):
        number = next(at for at, line in enumerate(lines, start=1) if line.startswith("request_id:"))
        fixes.append(Fix("TG901", "replace", number, f"request_id: {fresh}"))
    if "TG903" in rules:
        there = {item.sha256: hashes.sha256(place(item)) for item in request.inputs}
        for number, line in enumerate(lines, start=1):
            new = line
            for declared, found in there.items():
                new = new.replace(declared, found) if found else new
            if new != line:
                fixes.append(Fix("TG903", "replace", number, new))
    return tuple(fixes)
