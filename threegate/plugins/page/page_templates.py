"""The page's templates, and the headers sent with everything they render.

Invariant: every value is escaped by the template engine, and foreign texts went through `shown` before:
whatever a browser would hide or reverse appears as an escape. Style and script are ThreeGate's own, inline, allowed by
their hash.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from threegate import __version__
from threegate.approval.shown.escaped_lines import shown
from threegate.plugins.page.diff_pages import about_blocks
from threegate.review.code_descriptions import description

_FOLDER: Final = files(__package__) / "templates"
_STYLE: Final = (_FOLDER / "page.css").read_text("utf-8")
_SCRIPT: Final = (_FOLDER / "page.js").read_text("utf-8")
_PASSKEY_SCRIPT: Final = (_FOLDER / "passkey.js").read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _policy(*scripts: str) -> str:
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts)
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(_STYLE)}'",
            f"script-src {allowed}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types threegate",
        )
    )


CONTENT_SECURITY_POLICY: Final = _policy(_SCRIPT)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Origin-Agent-Cluster": "?1",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), clipboard-read=(), clipboard-write=(self)",
    "Cache-Control": "no-store",
}
"""Sent with every answer below /page, refusals included."""
PASSKEY_HEADERS: Final = {
    **HEADERS,
    "Content-Security-Policy": _policy(_SCRIPT, _PASSKEY_SCRIPT),
    "Permissions-Policy": (
        f"{HEADERS['Permissions-Policy']}, publickey-credentials-get=(self), publickey-credentials-create=(self)"
    ),
    "Strict-Transport-Security": "max-age=31536000",
}
"""The same for the page that accepts passkeys."""


def foreign(text: str) -> str:
    """Foreign text in a form safe for a page, line by line."""
    return "\n".join(shown(line) for line in text.split("\n"))


def _numbered(text: str) -> list[str]:
    return [shown(line) for line in text.removesuffix("\n").split("\n")]


def _meaning_of_value(value: str) -> str:
    """The meaning of the code that a value begins with."""
    return description(value.split(" ", 1)[0].split(",", 1)[0])


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["foreign"] = foreign
    environment.filters["numbered"] = _numbered
    environment.filters["blocks"] = about_blocks
    environment.filters["meaning"] = description
    environment.filters["meaning_of_value"] = _meaning_of_value
    environment.globals.update(
        style=_STYLE,
        script=_SCRIPT,
        passkey_script=_PASSKEY_SCRIPT,
        version=__version__,
        signing=None,
        unsigned=None,
        origin="",
    )
    return environment


_ENVIRONMENT: Final = _environment()


def render(template: str, **values: Any) -> str:
    """A complete page. Raises jinja2's UndefinedError for a missing value (an internal error)."""
    return _ENVIRONMENT.get_template(template).render(**values)
