"""The command line of a server as an operator gives it.

Invariant: its first word is a program with a full path, no launcher that fetches or builds code when it starts, and no
program that only starts another one: what they start could not be pinned.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.plugins.tools.reached_code import modules_of
from threegate.runners.jail.program_folder import NoInterpreter, first_line

_NODE_WAY: Final = "npm install --prefix DIR PACKAGE"
_PYTHON_WAY: Final = "python3 -m venv DIR && DIR/bin/pip install PACKAGE"
_FETCHERS: Final = {
    **dict.fromkeys(("npx", "pnpx", "bunx", "npm", "pnpm", "yarn", "corepack", "bun x", "bun run", "deno"), _NODE_WAY),
    **dict.fromkeys(("docker", "podman", "nerdctl", "flatpak", "snap"), _NODE_WAY),
    **dict.fromkeys(("uvx", "uv", "pipx", "poetry", "pdm", "hatch", "rye", "pixi", "conda", "mamba"), _PYTHON_WAY),
    **dict.fromkeys(("go", "cargo", "make", "just", "task", "nix", "nix-shell", "bazel"), "go build -o DIR/NAME"),
}
"""Launchers that fetch or build code when they start, or run what a file elsewhere says, and the command that installs
it first.
"""
_SHELLS: Final = frozenset(
    """sh bash dash zsh ksh fish env busybox xargs sudo su doas runuser setpriv unshare nsenter chroot bwrap firejail
    proot systemd-run start-stop-daemon nice ionice chrt taskset nohup setsid setarch stdbuf timeout time flock watch
    script strace ltrace gdb parallel find ssh prlimit xvfb-run dbus-run-session""".split()
)

_CONTAINER: Final = ", or add the server in a container that has it: --in era --image IMAGE"


def pinned_command(words: Sequence[str], *, in_image: bool = False) -> tuple[str, ...]:
    """The command line with an absolute program. Raises Refused `tools_fetched`, InvalidInput, Unavailable."""
    _refuse_words(words)
    if in_image:
        if not words[0].startswith("/"):
            raise InvalidInput(f"{words[0]}: give the full path in the image")
        return tuple(words)
    place = shutil.which(words[0])
    if place is None:
        raise Unavailable(f"{words[0]}: missing or not a program; install it first{_CONTAINER}")
    try:
        first_line(Path(place).resolve())
    except NoInterpreter as error:
        raise Unavailable(f"{error}{_CONTAINER}") from None
    relative = next((word for word in words[1:] if not Path(word).is_absolute() and _is_file(word)), None)
    if relative is not None:
        raise InvalidInput(f"{relative}: a file in this folder; give its full path: {Path.cwd() / relative}")
    return (str(Path(place).absolute()), *words[1:])


def _refuse_words(words: Sequence[str]) -> None:
    """A command line that pins nothing, wherever it runs. Raises Refused `tools_fetched`, InvalidInput."""
    if not words:
        raise InvalidInput(
            "no command; give it after --, as in: threegate tools add NAME -- /opt/server/bin/server (or: --url)"
        )
    if len(words) > limits.TOOLS_ARGUMENTS or any(
        len(word) > limits.TOOLS_ARGUMENT_CHARS or "\0" in word for word in words
    ):
        raise InvalidInput("the command line is too long")
    for started in (words, *modules_of(words)):
        name, first = os.path.basename(started[0]), next((word for word in started[1:] if not word.startswith("-")), "")
        install = _FETCHERS.get(name) or _FETCHERS.get(f"{name} {first}")
        if install is None:
            continue
        raise Refused(
            "tools_fetched",
            f"{started[0]}: fetches code when it starts, so nothing could be pinned; install the server first"
            f" ({install}) and add the program that this installs",
        )
    if os.path.basename(words[0]) in _SHELLS:
        raise InvalidInput(
            f"{words[0]}: starts another program; name the server's own program; for variables use --env"
        )


def _is_file(word: str) -> bool:
    """Also for a word that is too long to be a path."""
    return os.path.isfile(word)  # noqa: PTH113
