"""What is not a secret hides no file: those of the packages that these tests are run with, and what people report."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from tests.core.secretscan.test_false_alarms import NO_FINDING
from threegate.core import limits
from threegate.plugins.agents.file_findings import find_in_file

MOST = 1 / 10_000
REAL = {"apprise/plugins/google_chat.py": "google-api-key"}
"""Files with real keys, by the paths in the packages: published ones, but nothing in them says so."""


@pytest.mark.parametrize("text", NO_FINDING, ids=range(len(NO_FINDING)))
@pytest.mark.parametrize("path", ["src/app.py", "tests/test_app.py"])
def test_what_only_looks_like_a_secret_is_no_finding(path: str, text: str) -> None:
    assert list(find_in_file(path, f"{text}\n".encode(), b"", lambda _: False)) == []


@pytest.mark.soak
def test_hardly_a_file_of_the_installed_packages_is_hidden() -> None:
    """At most one in 10,000, each with a real key, and listed here."""
    root = Path(sysconfig.get_path("purelib"))
    count, hidden = 0, {}
    for place, _, names in os.walk(root):
        for name in names:
            path = Path(place, name)
            if name.endswith(".pyc") or path.is_symlink():
                continue
            with path.open("rb") as file:
                data = file.read(limits.AGENT_SCANNED_BYTES)
            if b"\0" in data:
                continue
            count += 1
            relative = str(path.relative_to(root))
            found = [item for item in find_in_file(relative, data, b"", lambda _: False, listing=False) if item.hides]
            if found:
                hidden[relative] = found[0].kind
    print(f"{len(hidden)} of {count} files: {hidden}")
    assert count > 10_000, "too few files to say anything"
    assert len(hidden) <= count * MOST and hidden.items() <= REAL.items(), hidden
