"""mkdocs hooks: links that leave docs/ lead to the repository, so that one source serves it and the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

REPOSITORY = "https://github.com/threegate/threegate/blob/main/"


def on_config(config: Any) -> Any:
    """A page that the navigation forgot stands under "More": no page is lost, and none breaks the build."""
    named = set(re.findall(r"[\w/-]+\.md", str(config.nav)))
    more = sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in named)
    config.nav = [*config.nav, {"More": more}] if more else config.nav
    return config


def on_page_markdown(markdown: str, *, page: Any, **_more: Any) -> str:
    """Rewrite ``](../x)`` of pages directly below docs/ and ``](../../x)`` of those below docs/adr/."""
    depth = page.file.src_uri.count("/")
    prefix = "../" * (depth + 1)
    return re.sub(rf"\]\({re.escape(prefix)}([^)\s]+)\)", rf"]({REPOSITORY}\1)", markdown)
