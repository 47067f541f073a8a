"""Open a link in the person's browser.

Invariant: the program gets the link as one argument, without a shell, and only if it leads to the host that the person
accepted and has no character that means something to a shell: xdg-open is a script.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

from threegate.plugins.tools.remote.guarded_http import origin_of
from threegate.plugins.tools.remote.oauth_documents import check_plain, refused

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")


def check_link(link: str, accepted: str) -> None:
    """`accepted`: the origin that the person said yes to. Raises Refused (`login_refused`, `url_refused`)."""
    check_plain(link)
    if origin_of(link) != accepted:
        raise refused("the link of the login leads elsewhere")


def open_browser(link: str, accepted: str) -> bool:
    """Whether a browser was started; it is not where there is no screen. Raises Refused as `check_link`."""
    check_link(link, accepted)
    program = shutil.which("xdg-open")
    if program is None or not any(os.environ.get(name) for name in _DISPLAYS):
        return False
    nothing = subprocess.DEVNULL
    try:
        subprocess.Popen(
            [program, link], stdin=nothing, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True
        )
    except OSError:
        return False
    return True
