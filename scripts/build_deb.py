"""make deb: a Debian package in dist/, of what `pip install 'threegate[all]'` installs.

A virtual environment on Debian's own Python below /opt/threegate, with unit, man page, completions, sysusers and
tmpfiles (packaging/debian/). Needs /usr/bin/python3 with venv, dpkg-deb and a package index; no root. Version,
maintainer and licence are pyproject.toml's. The versions are those of requirements.lock.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from email.utils import formatdate
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from threegate import __version__  # noqa: E402
from threegate.setup.service_unit import UnitFacts, render_unit  # noqa: E402

PACKAGE = "threegate"
PREFIX = Path("/opt/threegate")
HOME = Path("/var/lib/threegate")
WORKSPACE = HOME / "workspace"
_SYSTEM_PYTHON = Path("/usr/bin/python3")
_SOURCE = ROOT / "packaging" / "debian"
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/threegate",
    "zsh": "usr/share/zsh/vendor-completions/_threegate",
    "fish": "usr/share/fish/vendor_completions.d/threegate.fish",
}
_COMMAND = f"""#!{PREFIX}/bin/python3 -I
import sys

from threegate.cli import main

sys.exit(main())
"""
_UNIT_HEAD = "# Of the package threegate. Your own changes go into a drop-in: systemctl edit threegate\n"
_KEPT_PROGRAMS = re.compile(r"python[0-9.]*|monty")


def main() -> int:
    """Build the package and print its path. Exit 3 with one line when a tool or the index does not do its part."""
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="threegate-deb-") as folder:
        tree = Path(folder) / "tree"
        try:
            lay_out(tree)
            install(tree, Path(folder))
            print(pack(tree, ROOT / "dist"))
        except subprocess.CalledProcessError as error:
            print(f"build_deb: exit {error.returncode}: {' '.join(map(str, error.cmd))}", file=sys.stderr)
            return 3
        except OSError as error:
            print(f"build_deb: {error}; on Debian: apt-get install dpkg python3-venv", file=sys.stderr)
            return 3
    return 0


def debian_version() -> str:
    """The version as Debian orders it: 0.2.0rc1 comes before 0.2.0, so it is 0.2.0~rc1."""
    return re.sub(r"(a|b|rc|\.dev)(\d+)", lambda found: f"~{found[1].lstrip('.')}{found[2]}", __version__)


def lay_out(tree: Path) -> None:
    """Everything of the package but the program itself and DEBIAN/control."""
    unit = render_unit(
        UnitFacts(
            version=__version__,
            workspace=WORKSPACE,
            program=(str(PREFIX / "bin" / "python3"), "-P", "-m", "threegate"),
            account="threegate",
            state=HOME / ".local" / "state" / "threegate",
            era=False,
            network=False,
        )
    )
    _, _, rest = unit.partition("[Unit]\n")
    _write(tree / "lib/systemd/system/threegate.service", f"{_UNIT_HEAD}[Unit]\n{rest}")
    for source, target in (
        ("threegate.sysusers", "usr/lib/sysusers.d/threegate.conf"),
        ("threegate.tmpfiles", "usr/lib/tmpfiles.d/threegate.conf"),
        ("lintian-overrides", "usr/share/lintian/overrides/threegate"),
    ):
        _write(tree / target, (_SOURCE / source).read_text("utf-8"))
    for script in ("postinst", "prerm", "postrm"):
        _write(tree / "DEBIAN" / script, (_SOURCE / script).read_text("utf-8"), 0o755)
    for shell, target in _COMPLETIONS.items():
        _write(tree / target, _completion(shell))
    _write_compressed(tree / "usr/share/man/man1/threegate.1.gz", (ROOT / "docs/man/threegate.1").read_bytes())
    documents = tree / "usr/share/doc/threegate"
    _write(documents / "copyright", _copyright())
    _write_compressed(documents / "changelog.gz", _changelog().encode())
    _write_compressed(documents / "NEWS.md.gz", (ROOT / "CHANGELOG.md").read_bytes())
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/threegate").symlink_to(PREFIX / "bin" / "threegate")


def install(tree: Path, scratch: Path) -> None:
    """The virtual environment, as it will be below PREFIX: nothing in it names the folder that it was made in."""
    target = tree / PREFIX.relative_to("/")
    python = target / "bin" / "python3"
    _run(sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", str(scratch), str(ROOT))
    [wheel] = scratch.glob("*.whl")
    _run(str(ROOT / "scripts" / "environment"), str(_SYSTEM_PYTHON), str(target), str(wheel), "all")
    build_tools = ("hatchling", "trove-classifiers", "pluggy", "editables")
    _run(str(python), "-m", "pip", "--quiet", "uninstall", "--yes", "uv", *build_tools, "setuptools", "pip")
    for path in (target / "bin").iterdir():
        if not _KEPT_PROGRAMS.fullmatch(path.name):
            path.unlink()
    for path in target.iterdir():
        if path.name not in ("bin", "lib", "pyvenv.cfg"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in target.glob("lib/*/site-packages/*.dist-info/direct_url.json"):
        path.unlink()
    _write(target / "bin" / "threegate", _COMMAND, 0o755)
    _write(target / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    for cache in target.rglob("__pycache__"):
        shutil.rmtree(cache)
    for path in target.rglob("*"):
        if path.is_file() and not path.is_symlink():
            program = path.parent.name == "bin" or path.open("rb").read(2) == b"#!"
            path.chmod(0o755 if program and path.stat().st_mode & 0o100 else 0o644)
        # What is compiled names its source's time, and dpkg brings that time along.
        os.utime(path, (_time(), _time()), follow_symlinks=False)
    _run(str(python), "-m", "compileall", "-q", "-s", str(tree), "-p", "/", str(target / "lib"))


def pack(tree: Path, where: Path) -> Path:
    """Write DEBIAN/control and the package, as root's whoever builds it; returns its path."""
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    shipped = [path for path in files if not path.is_relative_to(tree / "DEBIAN")]
    sums = (f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in shipped)
    _write(tree / "DEBIAN/md5sums", "".join(sums))
    architecture = _said("dpkg", "--print-architecture")
    _write(
        tree / "DEBIAN/control",
        _control(architecture, sum(path.stat().st_size for path in shipped) // 1024),
    )
    where.mkdir(exist_ok=True)
    made = where / f"{PACKAGE}_{debian_version()}_{architecture}.deb"
    words = ("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(tree), str(made))
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(_time())})
    return made


def _control(architecture: str, kibibytes: int) -> str:
    major, minor = _said(str(_SYSTEM_PYTHON), "-c", "import sys; print(*sys.version_info[:2])").split()
    # Compiled extensions belong to one minor version of Python.
    python = f"python3 (>= {major}.{minor}), python3 (<< {major}.{int(minor) + 1})"
    systemd = "systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles"
    return (
        f"Package: {PACKAGE}\nVersion: {debian_version()}\nArchitecture: {architecture}\n"
        f"Maintainer: {_maintainer()}\nInstalled-Size: {kibibytes}\n"
        f"Depends: {python}, libc6, libgcc-s1, libstdc++6, openssh-client, procps, {systemd}\n"
        "Suggests: docker.io, debootstrap, iproute2\n"
        f"Section: admin\nPriority: optional\nHomepage: {_PROJECT['urls']['Repository']}\n"
        f"Description: {_synopsis()}\n"
        " An agent drops a request into a folder; an operator reads it and signs\n"
        " it with an SSH key; it runs once, in a sandbox, on exactly the bytes that\n"
        " were signed.\n"
        " Nothing runs that nobody signed.\n"
    )


def _synopsis() -> str:
    """The project's one line as Debian writes it: without an article and a capital letter."""
    return re.sub(r"^An? ", "", _PROJECT["description"])


def _maintainer() -> str:
    author = _PROJECT["authors"][0]
    return f"{author['name']} <{author['email']}>"


def _copyright() -> str:
    licence = _PROJECT["license"]
    return (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        f"Upstream-Name: {PACKAGE}\nSource: {_PROJECT['urls']['Repository']}\n"
        "Comment: The libraries below /opt/threegate have their own licences, each in its .dist-info folder.\n\n"
        f"Files: *\nCopyright: © {_PROJECT['authors'][0]['name']}\nLicense: {licence}\n"
        f" On Debian systems the full text is in /usr/share/common-licenses/{licence}.\n"
    )


def _changelog() -> str:
    date = formatdate(_time(), localtime=False)
    return (
        f"{PACKAGE} ({debian_version()}) stable; urgency=medium\n\n  * What changed: NEWS.md.gz in this folder.\n\n"
        f" -- {_maintainer()}  {date}\n"
    )


def _completion(shell: str) -> str:
    """The script that `threegate --show-completion` prints for a shell."""
    environment = {**os.environ, "_THREEGATE_COMPLETE": f"source_{shell}"}
    code = "import sys; sys.argv = ['threegate']; from threegate.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    # zsh looks for #compdef in the first line, and calls what it has loaded only the next time.
    return done.stdout.strip() + ('\n_threegate_completion "$@"\n' if shell == "zsh" else "\n")


def _time() -> int:
    """When this commit was made, in seconds since 1970; outside of a repository, now."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    words = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        os.environ["SOURCE_DATE_EPOCH"] = _said(*words)
    except (OSError, subprocess.CalledProcessError):
        os.environ["SOURCE_DATE_EPOCH"] = str(int(time.time()))
    return int(os.environ["SOURCE_DATE_EPOCH"])


def _run(*words: str) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))}
    # A link into uv's cache would share its times with what is installed from there elsewhere.
    subprocess.run(words, cwd=ROOT, check=True, env={**clean, "UV_LINK_MODE": "copy"})


def _said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)


def _write_compressed(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    sys.exit(main())
