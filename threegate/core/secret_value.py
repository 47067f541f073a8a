"""The value of an operator's secret, read when it is needed: from an environment variable of this process, or
from a file.

Invariant: it is one token of known characters, so that it cannot become two lines or two words anywhere, and long
enough to be masked wherever a server repeats it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.errors import Unavailable
from threegate.core.settings import SecretReference

_VALUE: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}")


def read_secret(name: str, reference: SecretReference) -> str:
    """The value. Raises Unavailable if it is missing, too short, or not a token; the message never contains it."""
    if reference.env:
        text = os.environ.get(reference.env, "")
    else:
        try:
            data = durable.read_regular(Path(reference.file), max_bytes=limits.SECRET_BYTES)
        except OSError as error:
            raise Unavailable(f"no secret: the file of secrets.{name} cannot be read ({error.strerror})") from None
        text = data.decode("ascii", "replace").strip()
    return check_secret(f"what secrets.{name} names", text)


def check_secret(what: str, text: str) -> str:
    """The value itself. Raises Unavailable if it is empty, too short, or not a token; the message never contains it."""
    if not _VALUE.fullmatch(text):
        raise Unavailable(f"no secret: {what} is missing or is not a token")
    if len(text) < limits.SECRET_CHARS_MIN:
        raise Unavailable(
            f"no secret: {what} has fewer than {limits.SECRET_CHARS_MIN} characters and could not be masked; use a "
            "longer one"
        )
    return text
