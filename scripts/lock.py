"""make lock: write requirements.lock, each version that is developed, tested and packaged with, and the hashes of all
its files.

It is one file in four parts, and `scripts/environment` installs as far as the end of one: `uv` (the installer), `base`
(what a plain install brings, and the build backend), `all` (every extra), `dev` (what tests, documentation and
benchmarks take besides). Versions that are locked already stay while pyproject.toml allows them; --upgrade takes the
newest. It holds for CPython from 3.11 on, on Linux.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PARTS = ("uv", "base", "all", "dev")
PYTHONS = ("3.11.2", "3.11.14", "3.12.12", "3.13.12", "3.14.4")
"""Versions of Python on both sides of where markers make a difference."""
_HEAD = """\
# Written by `make lock` from pyproject.toml; `make lock UPGRADE=1` takes the newest versions.
# CPython 3.11 and newer on Linux. Install with: pip install --require-hashes -r requirements.lock
"""
_EDITABLE = "editables"
"""hatchling asks for it when an installation is to stay where it is."""


def main() -> int:
    """Write the lock. Exit 3 with uv's own words when it finds no versions."""
    parser = argparse.ArgumentParser(description="Write requirements.lock.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that are allowed")
    upgrade = parser.parse_args().upgrade
    with tempfile.TemporaryDirectory(prefix="threegate-lock-") as folder:
        whole, build = Path(folder, "whole.txt"), Path(folder, "build.in")
        if LOCK.exists() and not upgrade:
            whole.write_text(LOCK.read_text("utf-8"), "utf-8")  # uv keeps what is in its output
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        build.write_text("\n".join((*project["build-system"]["requires"], _EDITABLE)), "utf-8")
        try:
            _compile(build, "--extra", "dev", "--extra", "bench", "--generate-hashes", "--output-file", whole)
            locked = entries(whole.read_text("utf-8"))
            parts = {
                "uv": {"uv"},
                "base": set(entries(_compile(build, "--constraints", whole))),
                "all": set(entries(_compile(build, "--extra", "all", "--constraints", whole))),
                "dev": set(locked),
            }
        except subprocess.CalledProcessError as error:
            print(f"lock: {error.stderr.strip()}", file=sys.stderr)
            return 3
    written: set[str] = set()
    lines = [_HEAD]
    for part in PARTS:
        lines.append(f"\n# part: {part}\n")
        lines += [locked[name] for name in sorted(parts[part] - written)]
        written |= parts[part]
    LOCK.write_text("".join(lines), "utf-8")
    print(f"{LOCK.name}: {len(locked)} packages")
    return 0


def entries(text: str) -> dict[str, str]:
    """Each package's lines in a file of requirements, by its name: an entry for each version that CPython on Linux
    gets.
    """
    found: dict[str, str] = {}
    for entry in re.findall(r"^[a-z0-9].*\n(?:    .*\n)*", text, re.M):
        requirement = _requirement(entry)
        if any(_holds(requirement.marker, python) for python in PYTHONS):
            found[requirement.name] = found.get(requirement.name, "") + entry
    return found


def unfit(project: dict[str, Any], lock: str) -> Iterator[str]:
    """One line for each requirement of pyproject.toml that the lock does not meet, in the part that must have it."""
    name, extras = project["project"]["name"], project["project"]["optional-dependencies"]
    asked = {
        "base": [*project["project"]["dependencies"], *project["build-system"]["requires"], _EDITABLE],
        "all": [f"{name}[all]"],
        "dev": [f"{name}[{','.join(extras)}]"],
    }
    for part, requirements in asked.items():
        head, _, _ = lock.partition(f"# part: {(*PARTS, 'end')[PARTS.index(part) + 1]}\n")
        versions = [
            _requirement(entry) for text in entries(head).values() for entry in re.findall(r"^\S.*\n", text, re.M)
        ]
        for requirement in _own(requirements, name, extras):
            for python in PYTHONS:
                if not _holds(requirement.marker, python):
                    continue
                locked = [
                    str(item.specifier).removeprefix("==")
                    for item in versions
                    if item.name == canonicalize_name(requirement.name) and _holds(item.marker, python)
                ]
                if len(locked) != 1 or not requirement.specifier.contains(locked[0], prereleases=True):
                    yield (
                        f"{requirement} of part {part}: locked is {', '.join(locked) or 'none'} (Python {python}); "
                        "run: make lock"
                    )


def _own(requirements: list[str], name: str, extras: dict[str, list[str]]) -> Iterator[Requirement]:
    """The requirements, with our own extras as what they are made of."""
    for requirement in map(Requirement, requirements):
        if requirement.name != name:
            yield requirement
        for extra in requirement.extras if requirement.name == name else ():
            yield from _own(extras[extra], name, extras)


def _requirement(entry: str) -> Requirement:
    return Requirement(entry.split("\n", 1)[0].removesuffix("\\"))


def _holds(marker: Marker | None, python: str) -> bool:
    """Whether a marker holds for CPython of this version on Linux."""
    linux = {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "python_full_version": python,
        "python_version": python.rpartition(".")[0],
    }
    return marker is None or marker.evaluate(linux)


def _compile(build: Path, *words: str | Path) -> str:
    command = (Path(sys.executable).parent / "uv", "pip", "compile", "pyproject.toml", build, "--quiet", "--no-config", "--universal",  # noqa: E501
               "--native-tls", "--python-version", "3.11", "--no-header", "--no-annotate", *words)  # fmt: skip
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
