"""make release-check: builds what would be published and proves it in empty environments, away from the checkout.

Writes wheel, sdist, SBOM, Debian package and their checksums to dist/. Needs a package index; everything else is in it.
Exit 1 at the first thing that does not hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
sys.path.insert(0, str(ROOT))

from scripts.type_tour import ANSWERS, tour, type_in_terminal  # noqa: E402

_STEPS = 0


def step(what: str) -> None:
    """Say what is proven next."""
    global _STEPS
    _STEPS += 1
    print(f"== {_STEPS}. {what}", flush=True)


def hold(truth: object, what: str) -> None:
    """End with one line when something does not hold."""
    if not truth:
        sys.exit(f"release-check: does not hold: {what}")


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None, expect: int = 0, seconds: int = 900) -> str:
    """Run a command and return what it printed on both channels; end when it ends otherwise than expected."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "THREEGATE", "VIRTUAL"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**clean, **(env or {})},
        capture_output=True,
        text=True,
        timeout=seconds,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != expect:
        print(done.stdout + done.stderr)
        sys.exit(f"release-check: exit {done.returncode}, not {expect}: {' '.join(map(str, words))}")
    return done.stdout + done.stderr


def install(python: Path, *what: str | Path, cwd: Path) -> None:
    """pip install, tried again when the index hiccups."""
    words = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries",
        "5",
        *what,
    ]
    for pause in (5, 20, 0):
        try:
            run(*words, cwd=cwd)
            return
        except SystemExit:
            if not pause:
                raise
            time.sleep(pause)


def empty_environment(folder: Path) -> Path:
    """A virtual environment with nothing but pip; returns its python."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def built() -> tuple[Path, Path]:
    """The one wheel and the one sdist in dist/."""
    [wheel], [sdist] = list(DIST.glob("*.whl")), list(DIST.glob("*.tar.gz"))
    return wheel, sdist


def main() -> int:
    """All steps, in a folder that is thrown away."""
    home = Path(tempfile.mkdtemp(prefix="threegate-release-"))
    try:
        check(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size:>9}  {path.relative_to(ROOT)}")
    print("release-check: all checks pass")
    return 0


def check(home: Path) -> None:
    """The steps, below `home`."""
    version = run(sys.executable, "-c", "import threegate; print(threegate.__version__)", cwd=ROOT).strip()
    commit = run("git", "-c", f"safe.directory={ROOT}", "rev-parse", "HEAD", cwd=ROOT).strip()

    step("the changelog has this version, and nothing is left uncommitted")
    hold(f"## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8"), f"CHANGELOG.md has a section {version}")
    dirty = run("git", "-c", f"safe.directory={ROOT}", "status", "--porcelain", cwd=ROOT).strip()
    if dirty and os.environ.get("THREEGATE_DIRTY") != "1":
        sys.exit("release-check: there are uncommitted changes (THREEGATE_DIRTY=1 tries all the same)")

    step("sdist, and the wheel from the sdist: the same as the one from the checkout")
    tools = empty_environment(home / "tools")
    install(tools, "build", "twine", "cyclonedx-bom", "pipx", cwd=home)
    shutil.rmtree(DIST, ignore_errors=True)
    run(tools, "-m", "build", "--outdir", DIST, ROOT, cwd=home)
    wheel, sdist = built()
    run(tools, "-m", "build", "--wheel", "--outdir", home / "again", ROOT, cwd=home)
    hold(
        files(home / "again" / wheel.name) == files(wheel),
        "a wheel from the checkout and one from the sdist hold the same files",
    )
    run(tools, "-m", "twine", "check", "--strict", wheel, sdist, cwd=home)
    contents(wheel, sdist, commit)

    step("the wheel in an empty environment: version, commit, no conflict")
    python = empty_environment(home / "plain")
    install(python, wheel, cwd=home)
    run(python, "-m", "pip", "check", cwd=home)
    command = python.parent / "threegate"
    said = run(command, "--version", cwd=home)
    hold(said.strip() == f"threegate {version} (commit {commit[:12]})", f"--version says so: {said!r}")
    where = run(python, "-c", "import threegate; print(threegate.__file__)", cwd=home)
    hold(str(home) in where, "the installed package is used, not the checkout")

    step("the demo: a request the whole way, another refused, the trail verifies")
    (home / "demo").mkdir()
    shutil.copy(ROOT / "scripts" / "demo.py", home / "demo" / "demo.py")
    said = run(python, home / "demo" / "demo.py", cwd=home / "demo")
    hold(said.rstrip().endswith("the trail verifies"), "the demo ends well")

    step("the first request of docs/first-request.md, typed as the page shows it")
    (home / "tour").mkdir()
    code, shown = type_in_terminal(tour().replace("/tmp/", f"{home}/tour/"), home / "tour", ANSWERS, 300, python.parent)
    hold(code == 0 and "trail verifies" in shown, f"the tour ends well:\n{shown}")

    step("every command of the documentation is there, and every --help")
    commands(command, home)

    step("what builds the sandbox is there and can be run")
    run(python, "-c", _SANDBOX, cwd=home)

    step("the extras")
    whole = empty_environment(home / "whole")
    install(whole, f"{wheel}[all]", cwd=home)
    run(whole, "-m", "pip", "check", cwd=home)
    run(whole, "-c", _EXTRAS, cwd=home)

    step("pipx")
    folders = {
        "PIPX_HOME": str(home / "pipx"),
        "PIPX_BIN_DIR": str(home / "bin"),
        "PIPX_MAN_DIR": str(home / "man"),
    }
    run(tools, "-m", "pipx", "install", wheel, cwd=home, env=folders)
    said = run(home / "bin" / "threegate", "--version", cwd=home)
    hold(version in said, "the pipx command runs")
    run(home / "bin" / "threegate", "init", home / "ws-of-pipx", cwd=home, env={"HOME": str(home)})
    run(
        home / "bin" / "threegate",
        "-w",
        home / "ws-of-pipx",
        "run",
        "--once",
        cwd=home,
        env={"HOME": str(home)},
    )

    step("the SBOM of what a user gets")
    bill = DIST / f"threegate-{version}.cdx.json"
    run(tools.parent / "cyclonedx-py", "environment", "--output-format", "JSON", "--output-reproducible",
        "--pyproject", ROOT / "pyproject.toml", "--output-file", bill, python, cwd=home)  # fmt: skip
    sbom(bill, python, home)

    step("the Debian package")
    package = Path(run(sys.executable, ROOT / "scripts" / "build_deb.py", cwd=ROOT).splitlines()[-1])
    hold(package.parent == DIST and package.is_file(), "the package is in dist/")

    made = (wheel, sdist, bill, package)
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made)
    (DIST / "SHA256SUMS").write_text(sums)


_SANDBOX = """
import os
from threegate.setup.sandbox import sandbox_folder
folder = sandbox_folder()
assert "_data" in str(folder), folder
for name in ("bootstrap", "runsc-in-cgroup", "era.Dockerfile", "egress/egress.Dockerfile"):
    assert (folder / name).is_file(), name
assert os.access(folder / "bootstrap", os.X_OK), "bootstrap cannot be run"
import subprocess
tags = subprocess.run([str(folder / "bootstrap"), "--print-tags"], capture_output=True, text=True, check=True).stdout
assert len(tags.split()) == 2, tags
"""

_EXTRAS = """
import threegate.runners.era.engine_runner, in_toto_attestation, securesystemslib
import threegate.plugins.serve.http_app, threegate.plugins.serve.mcp_server
import threegate.plugins.serve.metrics, apprise, textual
"""


def files(wheel: Path) -> dict[str, bytes]:
    """What is in a wheel, whatever its order."""
    with zipfile.ZipFile(wheel) as archive:
        read = {name: archive.read(name) for name in archive.namelist()}
    return {
        name: b"\n".join(sorted(data.splitlines())) if name.endswith("/RECORD") else data for name, data in read.items()
    }


def contents(wheel: Path, sdist: Path, commit: str) -> None:
    """What the two archives must and must not hold."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        hold(archive.read("threegate/_data/commit").decode().strip() == commit, "the wheel names its commit")
    for path in sorted((ROOT / "schemas").iterdir()):
        hold(f"threegate/_data/schemas/{path.name}" in names, f"the wheel has schemas/{path.name}")
    hold("threegate/py.typed" in names, "the wheel is typed")
    stray = [name for name in names if not name.startswith(("threegate/", "threegate-"))]
    hold(not stray, f"nothing else is in the wheel: {stray}")
    with tarfile.open(sdist) as archive:
        parts = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "SECURITY.md",
        "hatch_build.py",
        "Makefile",
        "requirements.lock",
    }
    hold(wanted <= parts, f"the sdist has {sorted(wanted - parts)}")
    hold(any(name.startswith("tests/") for name in parts), "the sdist has the tests")
    private = [
        name for name in parts if re.search(r"(^|/)(\.venv|__pycache__|\.git)(/|$)|workspace\.key|trail\.jsonl$", name)
    ]
    private = [name for name in private if not name.startswith("tests/data/upgrade/")]
    hold(not private, f"nothing private is in the sdist: {private}")


def commands(command: Path, home: Path) -> None:
    """Every `threegate WORD` that a page names is a command whose help can be had."""
    named: set[str] = set()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        named |= set(re.findall(r"(?:^|[`$ ])threegate ([a-z]+)\b", page.read_text("utf-8"), re.M))
    listed = set(re.findall(r"^[│ ]+([a-z]+) {2,}", run(command, "--help", cwd=home), re.M))
    known = {name for name in named if name in listed}
    hold(len(known) > 20, f"the pages name commands: {sorted(known)}")
    for name in sorted(listed):
        run(command, name, "--help", cwd=home)


def sbom(bill: Path, python: Path, home: Path) -> None:
    """The bill of materials names everything that is installed, with its version."""
    value = json.loads(bill.read_text())
    hold(value["bomFormat"] == "CycloneDX", "the SBOM is CycloneDX")
    told = {(part["name"].lower().replace("_", "-"), part["version"]) for part in value["components"]}
    installed = json.loads(
        run(python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check", cwd=home)
    )
    wanted = {(part["name"].lower().replace("_", "-"), part["version"]) for part in installed}
    missing = {part for part in wanted - told if part[0] not in ("pip", "setuptools", "threegate")}
    hold(not missing, f"the SBOM names {sorted(missing)}")


if __name__ == "__main__":
    sys.exit(main())
