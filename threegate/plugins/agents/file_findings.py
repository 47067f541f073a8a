"""What looks like a secret in the files of a project: where it is, what kind it is, and whether it is hidden unless a
person decides otherwise.

Invariant: a finding has no part of the value. Its digest is keyed with a key of the workspace, so that nobody who reads
the trail can try out passwords; it is made from the path, the kind and the value, so it is that of no other secret.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from threegate.core import limits
from threegate.core.secretscan.certain import find_certain
from threegate.core.secretscan.possible import find_possible
from threegate.core.secretscan.scan import Found, mask_secrets
from threegate.plugins.agents.secret_files import file_secret, is_key_name, is_secret_path, text_of
from threegate.plugins.changes.project_paths import folded, folded_parts

BY_NAME: Final = "by its name"
KEY: Final = "private-key"
MANY: Final = "many-secrets"
_FIXTURES: Final = frozenset(
    "test tests testing testdata testcase testcases spec specs fixture fixtures example examples sample samples "
    "demo demos doc docs documentation".split()
)
"""Words of folders whose keys are there for everybody to see."""
_WORD: Final = re.compile(r"[-_. ]+")
_OTHERS: Final = frozenset(
    "node_modules site-packages dist-packages bower_components vendor .tox .nox .venv venv".split()
)
"""Folders with code of others: what may be a secret there is not one of this project."""
_LOCKS: Final = re.compile(
    r"(?:.*[.-]lock(?:\.(?:json|ya?ml|hcl))?|go\.sum|.*-shrinkwrap\.json|.*\.min\.(?:js|css)|.*\.(?:map|snap|svg|po|ipynb))",
    re.DOTALL,
)
"""Files that programs write, full of hashes and encoded data."""
_TEMPLATES: Final = re.compile(r".*[._-](?:example|sample|template|dist|tpl|tmpl)(?:\.[a-z0-9]+)?", re.DOTALL)
_RUN: Final = re.compile(r"[A-Za-z0-9+/_=.~-]{16,}")
"""What might be the rest of a secret beside the one that was found."""


_CUT_BEGIN: Final = re.compile(r"^\S+")
_CUT_END: Final = re.compile(r"\S+$")
"""A word that was cut, and so is masked by no form."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One of them. `line` is 0 for a file that is a secret as a whole."""

    path: str
    line: int
    kind: str
    excerpt: str
    """Its line, with every secret in it masked."""
    digest: str
    certain: bool
    """Of high confidence; else it is only listed."""
    hides: bool
    """Whether its file is hidden unless somebody decided otherwise."""
    asks: bool
    """Whether a person is asked about it. Not about a file that is a secret by its name and in no repository."""

    @property
    def place(self) -> str:
        """Path and line."""
        return f"{self.path}:{self.line}" if self.line else self.path


def find_in_file(
    path: str, data: bytes, key: bytes, tracked: Callable[[str], bool], *, listing: bool = True
) -> Iterator[Finding]:
    """The findings in the first bytes of a file, those that hide it first. `tracked` is asked about keys in folders for
    tests and examples, and about files that are secrets by their name. Without `listing` only those of high confidence.
    """
    text = text_of(data)
    certain = find_certain(text)
    public = is_fixture(path)
    if is_secret_path(path):
        is_public = public and is_key_name(path) and {found.kind for found in certain} == {KEY} and tracked(path)
        if not is_public:
            yield Finding(path, 0, BY_NAME, "", _digest(key, path, BY_NAME, data), True, True, tracked(path))
            return
    if (kind := file_secret(path, data)) is not None:
        hides = not (public and kind == KEY and tracked(path))
        yield Finding(path, 0, kind, "", _digest(key, path, kind, data), True, hides, tracked(path))
        return
    if len(certain) > limits.AGENT_FINDINGS_LISTED:  # more than anybody is asked about one by one: the file as a whole
        yield Finding(path, 0, MANY, "", _digest(key, path, MANY, data), True, True, True)
        return
    for found in certain:
        hides = not (public and found.kind == KEY and tracked(path))
        yield _finding(path, text, found, key, certain=True, hides=hides)
    if listing and _may_list(path) and b"\0" not in data:
        for found in find_possible(text)[: limits.AGENT_FINDINGS_LISTED]:
            if not any(other.start < found.end and found.start < other.end for other in certain):
                yield _finding(path, text, found, key, certain=False, hides=False)


def _may_list(path: str) -> bool:
    """Whether what may be a secret in a file is worth a person's look: text that people of this project wrote."""
    *folders, name = folded_parts(path)
    return not (_OTHERS.intersection(folders) or _LOCKS.fullmatch(name) or _TEMPLATES.fullmatch(name))


def is_fixture(path: str) -> bool:
    """Whether a file is below a folder for tests, fixtures, examples or documents."""
    return _is_of_fixtures(path.rpartition("/")[0])


@lru_cache(maxsize=1 << 10)
def _is_of_fixtures(folder: str) -> bool:
    return any(not _FIXTURES.isdisjoint(_WORD.split(folded(part).strip("_."))) for part in folder.split("/"))


def _finding(path: str, text: str, found: Found, key: bytes, *, certain: bool, hides: bool) -> Finding:
    value = text[found.start : found.end].encode("utf-8", "surrogatepass")
    return Finding(
        path,
        text.count("\n", 0, found.start) + 1,
        found.kind,
        _excerpt(text, found),
        _digest(key, path, found.kind, value),
        certain,
        hides,
        True,
    )


def _excerpt(text: str, found: Found) -> str:
    """The line of a finding without its value, and without whatever else on it could be a part of a secret."""
    begin = text.rfind("\n", 0, found.start) + 1
    end = text.find("\n", found.end)
    before = text[max(begin, found.start - limits.AGENT_EXCERPT_CHARS) : found.start]
    after = text[found.end : min(len(text) if end < 0 else end, found.end + limits.AGENT_EXCERPT_CHARS)]
    if found.start - begin > limits.AGENT_EXCERPT_CHARS:
        before = _CUT_BEGIN.sub("…", before)
    if len(after) == limits.AGENT_EXCERPT_CHARS:
        after = _CUT_END.sub("…", after)
    shown = (_RUN.sub("…", mask_secrets(part)) for part in (before, after))
    return f"[{found.kind}]".join(shown).replace("\n", " ").strip()


def _digest(key: bytes, *parts: str | bytes) -> str:
    made = hmac.new(key, digestmod="sha256")
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "big") + data)
    return made.hexdigest()
