"""Whether a jail works here: a trial run of the same command line, before any agent or tool server is started.

Invariant: what is said to hold was measured in a jail of this account.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.runners.jail.jail import Account, Jail, Layered, refuse_missing, why_not

_TRIAL_PROCESSES: Final = 12
WALLS: Final = (
    "mount namespace",
    "pid namespace",
    "net namespace",
    "ipc namespace",
    "user namespace",
    "seccomp",
    "no capabilities",
    "no new privileges",
    "empty environment",
    "closed descriptors",
    "read-only system",
    "memory files limit",
    "processes limit",
)
"""The restrictions without which no agent is started, by their names in the trail."""


_MEASURE: Final = r"""
printf '\0status\n'; cat /proc/self/status
printf '\0namespaces\n'; for name in mnt pid net ipc user; do readlink /proc/self/ns/$name; done
printf '\0environment\n'; wc -c </proc/1/environ
printf '\0descriptors\n'; ls /proc/self/fd
printf '\0mounts\n'; cat /proc/self/mountinfo
printf '\0sizes\n'; stat -f -c '%b %S %c' /tmp /dev/shm
printf '\0writable\n'
for name in /proc/[!0-9]* /proc/sys/kernel/* /dev; do [ ! -w "$name" ] || [ -L "$name" ] || echo "$name"; done
printf '\0processes\n'
prlimit --nproc="$1" -- /bin/sh -c 'n=0; while [ $n -le "$1" ]; do sleep 9 & n=$((n + 1)); echo $n; done' - "$1"
exit 0
"""
"""The trial's report about itself; `ls` has one descriptor of its own. The last part starts more processes than a lower
limit allows, and lists those that it could start.
"""


def measure_walls(account: Account) -> dict[str, bool]:
    """Whether each of WALLS is in force for this account, measured in a jail without an agent. Raises Unavailable."""
    jail = Jail(account)
    said = _trial(jail, ["/bin/sh", "-c", _MEASURE, "measure", str(_TRIAL_PROCESSES)])
    parts = dict(part.split("\n", 1) for part in said.split("\0")[1:])
    status = dict(line.split(":\t", 1) for line in parts["status"].splitlines() if ":\t" in line)
    places = dict(line.split(":", 1) for line in parts["namespaces"].splitlines())
    capabilities = {status.get(name, "?").strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    found = {
        f"{name} namespace": bool(places.get(short))
        and places[short] != Path(f"/proc/self/ns/{short}").readlink().name.partition(":")[2]
        for name, short in (("mount", "mnt"), ("pid", "pid"), ("net", "net"), ("ipc", "ipc"), ("user", "user"))
    }
    return {
        **found,
        "seccomp": status.get("Seccomp") == "2" and int(status.get("Seccomp_filters", "0")) >= 2,
        "no capabilities": capabilities == {""},
        "no new privileges": status.get("NoNewPrivs") == "1",
        "empty environment": parts["environment"].strip() == "0",
        "closed descriptors": parts["descriptors"].split() == ["0", "1", "2", "3"],
        "read-only system": parts["writable"] == "",
        "memory files limit": _bounded(parts["mounts"], parts["sizes"], jail.tmp_bytes),
        "processes limit": 0 < len(parts["processes"].split()) < _TRIAL_PROCESSES,
    }


_DEVICES: Final = frozenset(f"/dev/{name}" for name in ("console", "full", "null", "random", "tty", "urandom", "zero"))
"""What bubblewrap binds into /dev: in a container they come from a tmpfs, and are devices all the same."""


def _bounded(mounts: str, sizes: str, tmp_bytes: int) -> bool:
    """Whether every writable tmpfs of the jail is /tmp or /dev/shm, with its bounds."""
    writable = []
    for line in mounts.splitlines():
        here, _, super_block = line.partition(" - ")
        place, options = here.split()[4:6]
        if super_block.startswith("tmpfs ") and "ro" not in options.split(",") and place not in _DEVICES:
            writable.append(place)
    measured = [tuple(map(int, line.split())) for line in sizes.splitlines()]
    held = {(blocks * size, names) for blocks, size, names in measured}
    return sorted(writable) == ["/dev/shm", "/tmp"] and held == {(tmp_bytes, tmp_bytes // limits.TMP_BYTES_PER_NAME)}


def check_walls(account: Account) -> None:
    """Raises Unavailable with the reason if the jail cannot be created here, or one of WALLS is not in force in it."""
    refuse_missing(relays=True)  # an agent's jail needs them, the one that is measured does not
    wrong = [name for name, holds in measure_walls(account).items() if not holds]
    if wrong:
        raise Unavailable(
            f"the jail is incomplete here: {', '.join(wrong)}; no agent is started without a complete one"
        )


def layers_work(account: Account, layered: Layered, probe: str) -> bool:
    """Whether such an overlay can be had here, tested by mounting one: its file `probe` has to have one word in it,
    its own name, and a file can be made if it is writable.
    """
    tree = layered.target
    write = "" if layered.work is None else f": >{tree}/.threegate-trial && rm {tree}/.threegate-trial && "
    try:
        return _trial(Jail(account, layered=(layered,)), ["/bin/sh", "-c", f"{write}cat {tree}/{probe}"]) == probe
    except Unavailable:
        return False


def _trial(jail: Jail, argv: Sequence[str]) -> str:
    with jail.command(argv, begin=False) as (line, descriptors):
        try:
            done = subprocess.run(
                line,
                env={},
                cwd="/",
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limits.AGENT_TRIAL_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"the jail cannot be tested ({type(error).__name__})") from None
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace")
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    raise Unavailable(why_not(said[-1] if said else f"exit code {done.returncode}"))
