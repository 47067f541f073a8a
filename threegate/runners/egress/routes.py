"""The second restriction of a proxy, below squid's own rules: unreachable routes in its network namespace.

Invariant: what `block_routes` reports as enforced was read back; private, shared, link-local and metadata
addresses, the proxy's neighbours on a private network and this host's own addresses are unreachable there.
Only the resolver that the namespace needs stays reachable.
"""

from __future__ import annotations

import ipaddress
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from threegate.core.public_address import own_addresses

_BLOCKED = ("10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
TOOLS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where `nsenter` and `ip` are searched."""
_SECONDS = 10


def block_routes(pid: int) -> str | None:
    """Add the routes in the namespace of process `pid`; None if they are in force, else one line for the result.

    Needs nsenter and ip on the host; without them only squid's rules apply. Raises OSError, ValueError.
    """
    nsenter, ip = (shutil.which(name, path=TOOLS) for name in ("nsenter", "ip"))
    if not nsenter or not ip:
        return "Private addresses are refused only by the proxy (nsenter and ip are not installed)."
    enter = [nsenter, f"--net=/proc/{pid}/ns/net", ip]
    wanted = [*_BLOCKED, *_own()]
    batch = [f"route add unreachable {route} metric 5" for route in wanted]
    routes = _routes(enter)
    default = next((route for route in routes if route.get("dst") == "default" and "gateway" in route), None)
    if default is not None:
        way = f"via {default['gateway']} dev {default['dev']} onlink"
        # The neighbours first: the route of a connected network would be more specific.
        near = [str(route["dst"]) for route in routes if route.get("scope") == "link" and _private(route)]
        if near:
            batch.append(f"route replace default {way}")
        batch += [f"route del {network}" for network in near]
        # The resolver may have a private address: only it stays reachable.
        batch += [f"route replace {server}/32 {way}" for server in _name_servers()]
    _run([*enter, "-force", "-batch", "-"], "\n".join(batch) + "\n")
    found = {str(route.get("dst")) for route in _routes(enter) if route.get("type") == "unreachable"}
    left = [str(route["dst"]) for route in _routes(enter) if route.get("scope") == "link" and _private(route)]
    servers = set(_name_servers())
    lacking = [route for route in wanted if route not in found and route not in servers]
    if lacking or left:
        return (
            "Private addresses are refused only by the proxy (no route could be added for "
            f"{' '.join([*lacking, *left])})."
        )
    return None


def _own() -> list[str]:
    return [item for item in own_addresses() if ":" not in item and not item.startswith("127.")]


def _private(route: dict[str, Any]) -> bool:
    """Whether a connected network is inside a blocked one."""
    network = ipaddress.ip_network(str(route["dst"]))
    return any(
        isinstance(network, ipaddress.IPv4Network) and network.subnet_of(ipaddress.IPv4Network(blocked))
        for blocked in _BLOCKED
    )


def _routes(enter: list[str]) -> list[dict[str, Any]]:
    found = json.loads(_run([enter[0], enter[1], enter[2], "-j", "-4", "route", "show"]) or "[]")
    return [route for route in found if isinstance(route, dict)]


def _run(words: list[str], given: str = "") -> str:
    done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=_SECONDS, check=False)
    return done.stdout


def _name_servers() -> list[str]:
    """The host's IPv4 resolvers, except those on the host itself."""
    lines = Path("/etc/resolv.conf").read_text(encoding="utf-8", errors="replace").splitlines()
    found = [line.split()[1] for line in lines if line.startswith("nameserver ") and len(line.split()) > 1]
    return [server for server in found if ":" not in server and not server.startswith("127.")]
