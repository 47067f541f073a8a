"""The page at /docs: the OpenAPI document as plain HTML, without a script and without another server."""

from __future__ import annotations

import json
from html import escape
from typing import Any

CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;"
    "background:#fff}pre{background:#f3f3f3;padding:.8rem;overflow:auto}table{border-collapse:collapse}"
    "td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}code{white-space:nowrap}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}pre{background:#262626}a{color:#8cf}}"
)


def render_docs(document: dict[str, Any]) -> str:
    """The whole page. Every text of the document is escaped."""
    info = document["info"]
    parts = [
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(info['title'])}</title>"
        f"<style>{_STYLE}</style></head><body><h1>{escape(info['title'])}</h1><p>{escape(info['description'])}</p>"
        '<p>The document itself: <a href="openapi.json">openapi.json</a></p>'
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation(method, path, operation))
    parts.append("</body></html>")
    return "".join(parts)


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2><p>{escape(operation['description'])}</p>",
        "<table><tr><th>status</th><th>meaning</th></tr>",
    ]
    for status, response in operation["responses"].items():
        parts.append(f"<tr><td>{escape(status)}</td><td>{escape(response['description'])}</td></tr>")
    parts.append("</table>")
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    for example in content.get("examples", {}).values():
        shown = json.dumps(example["value"], indent=2)
        parts.append(f"<h3>{escape(example['summary'])}</h3><pre>{escape(shown)}</pre>")
    return "".join(parts)
