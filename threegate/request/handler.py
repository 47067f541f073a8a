"""The strict reading of front matter as a handler for python-frontmatter, for programs that use that library.

Invariant: what this handler loads is what gate 1 reads: the same fence, the same YAML with one meaning. It takes the
library's interface only; its own `parse` strips the text before it splits it, so gate 1 itself does not call it.
"""

from __future__ import annotations

import re
from typing import Any

from frontmatter.default_handlers import BaseHandler

from threegate.core import limits
from threegate.request.render_draft import scalar
from threegate.request.source import FENCE, find_front_matter, read_source
from threegate.request.yaml_nodes import plain_value, read_mapping


class StrictYAMLHandler(BaseHandler):  # type: ignore[misc]
    """``frontmatter.loads(text, handler=StrictYAMLHandler())``: YAML as docs/spec/1-tool-request.md has it, and nothing else."""

    FM_BOUNDARY = re.compile(r"\A---\n")
    START_DELIMITER = END_DELIMITER = FENCE

    def split(self, text: str) -> tuple[str, str]:
        """Front matter and body. Raises SourceRefused when the text is not fenced exactly as a request is."""
        source = read_source(text.encode("utf-8"))
        end = find_front_matter(source)
        return "\n".join(source.lines[1:end]), "\n".join(source.lines[end + 1 :])

    def load(self, fm: str) -> dict[str, Any]:
        """The front matter's values. Raises YAMLRefused."""
        loaded = plain_value(read_mapping(fm, first_line=2, max_depth=limits.FRONT_MATTER_DEPTH))
        return dict(loaded)

    def export(self, metadata: dict[str, object], **_options: object) -> str:
        """The values as lines of front matter, each as `load` reads it. Raises ValueError for NaN and infinities."""
        return "\n".join(f"{scalar(key)}: {scalar(value)}" for key, value in metadata.items())
