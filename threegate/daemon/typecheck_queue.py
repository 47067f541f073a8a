"""Monty's type checker for drafts: run after the verdict is written, which then gets its findings as warnings.

Invariant: no draft waits for the type checker, and its findings never make a draft invalid; a verdict that changed
meanwhile is left alone.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace

from threegate.core.errors import InvalidInput
from threegate.core.workspace import RequesterFolders
from threegate.launch.results.verdict import Verdict, read_verdict, write_verdict
from threegate.request.model import Request
from threegate.request.typecheck import type_findings


@dataclass
class TypecheckQueue:
    """Drafts whose code is still to be checked, oldest first."""

    _waiting: deque[tuple[RequesterFolders, Verdict, Request]] = field(default_factory=deque)

    def add(self, requester_folders: RequesterFolders, verdict: Verdict, request: Request) -> None:
        """Queue a valid Monty draft; others have nothing to check."""
        if request.action.source and verdict.valid:
            self._waiting.append((requester_folders, verdict, request))

    def work(self, seconds: float) -> int:
        """Check drafts for up to `seconds`; return how many. Raises OSError; the draft is checked again."""
        until = time.monotonic() + seconds
        done = 0
        while self._waiting and time.monotonic() < until:
            requester_folders, verdict, request = self._waiting.popleft()
            done += 1
            found = type_findings(request)
            if found and _unchanged(requester_folders, verdict):
                findings = [*verdict.findings, *(finding.to_json() for finding in found)]
                findings.sort(key=lambda item: (item["line"], item["column"]))
                try:
                    write_verdict(requester_folders, replace(verdict, findings=tuple(findings)))
                except OSError:
                    self._waiting.appendleft((requester_folders, verdict, request))
                    raise
        return done


def _unchanged(requester_folders: RequesterFolders, verdict: Verdict) -> bool:
    """Whether the file still contains this verdict; an unreadable one counts as changed."""
    try:
        return read_verdict(requester_folders, verdict.file) == verdict
    except InvalidInput:
        return False
