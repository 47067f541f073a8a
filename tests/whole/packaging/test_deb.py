"""The Debian package: what it brings, and, in the long form, what it does on an empty Debian and what it leaves there.

The long form installs on a Debian made by debootstrap and boots it; `make test` holds the parts against systemd's
tools.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import build_deb
from tests.cli.test_completion import after_tab
from tests.conftest import missing
from tests.setup.booted import Machine
from tests.support import monty_draft, request_id
from threegate import __version__

ROOT = Path(__file__).resolve().parents[3]
LINES = re.findall(r"^sudo .*$", (ROOT / "docs" / "install.md").read_text("utf-8"), re.M)
BUILDS_IT = "make deb"
"""The page's lines for the package, typed as they stand: what a build needs, installing it, then the workspace."""
UNIT = "lib/systemd/system/threegate.service"
WS = build_deb.WORKSPACE
KEPT_FOLDERS = {
    "/var/lib/threegate",
    "/var/lib/threegate/.local",
    "/var/lib/threegate/.local/state",
    "/var/lib/threegate/.local/state/threegate",
}
"""All that tmpfiles may name: folders above or beside a workspace. An agent writes below a workspace only."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's files but for the program."""
    folder = tmp_path_factory.mktemp("deb") / "tree"
    before = os.umask(0o022)
    try:
        build_deb.lay_out(folder)
    finally:
        os.umask(before)
    return folder


def tool(*words: str | Path, root: Path | None = None) -> str:
    name = str(words[0])
    if shutil.which(name) is None:
        missing(f"{name} (apt-get install systemd)")
    at = [f"--root={root}"] if root else []
    done = subprocess.run([name, *at, *map(str, words[1:])], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def sections(unit: str) -> dict[str, list[str]]:
    pairs = (line.split("=", 1) for line in unit.splitlines() if re.match(r"[A-Z]\w+=", line))
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def test_no_unit_runs_as_root_and_systemd_accepts_it(tree: Path) -> None:
    units = [path for path in tree.rglob("*") if path.suffix in (".service", ".socket", ".timer", ".path")]
    assert [str(path.relative_to(tree)) for path in units] == [UNIT]
    said = sections((tree / UNIT).read_text())
    assert said["User"] == ["threegate"] and "Group" not in said
    assert said["CapabilityBoundingSet"] == said["AmbientCapabilities"] == [""]
    assert said["ProtectHome"] == ["yes"] and said["NoNewPrivileges"] == ["yes"]
    assert said["ExecStart"] == [f"/opt/threegate/bin/python3 -P -m threegate --workspace {WS} run"]
    assert not [key for key in said if key.startswith("Exec") and any(value[0] in "+!" for value in said[key])]
    unit = (tree / UNIT).read_text().replace("/opt/threegate/bin/python3", "/usr/bin/python3")
    at = tree.parent / "verify" / "threegate.service"
    at.parent.mkdir()
    at.write_text(unit)
    assert "threegate.service" not in tool("systemd-analyze", "verify", at)


@pytest.mark.root
def test_account_and_folders_are_made_in_an_empty_root(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for name in ("sysusers.d", "tmpfiles.d"):
        shutil.copytree(tree / "usr/lib" / name, tmp_path / "usr/lib" / name)
    tool("systemd-sysusers", "threegate.conf", root=tmp_path)
    [account] = (tmp_path / "etc/passwd").read_text().splitlines()
    name, _, uid, gid, _, home, shell = account.split(":")
    assert (name, home, shell) == ("threegate", "/var/lib/threegate", "/usr/sbin/nologin") and int(uid) > 0
    tool("systemd-tmpfiles", "--create", "threegate.conf", root=tmp_path)
    state = tmp_path / "var/lib/threegate/.local/state/threegate"
    assert (state.stat().st_uid, state.stat().st_gid) == (int(uid), int(gid))
    assert state.stat().st_mode & 0o777 == 0o700
    home_folder = tmp_path / "var/lib/threegate"
    assert home_folder.stat().st_mode & 0o777 == 0o755
    home_folder.chmod(0o750)
    workspace = home_folder / "workspace" / "inbox"
    workspace.mkdir(parents=True)
    workspace.chmod(0o1770)
    (workspace / "TR.md").write_text("an agent's")
    before = [path.stat() for path in (workspace, workspace / "TR.md")]
    tool("systemd-tmpfiles", "--create", "--remove", "--clean", "threegate.conf", root=tmp_path)
    assert [path.stat() for path in (workspace, workspace / "TR.md")] == before
    assert home_folder.stat().st_mode & 0o777 == 0o750, "what the operator has closed stays closed"


def test_tmpfiles_names_no_folder_of_a_workspace(tree: Path) -> None:
    [file] = (tree / "usr/lib/tmpfiles.d").iterdir()
    lines = [line.split() for line in file.read_text().splitlines() if not line.startswith("#")]
    assert {line[1] for line in lines} == KEPT_FOLDERS
    assert {line[0] for line in lines} == {"d"}, "made, never emptied, never walked"
    assert {line[5] for line in lines} == {"-"}, "nothing is removed for its age"


def test_the_scripts_remove_nothing_and_stop_before_files_go(tree: Path) -> None:
    for name in ("postinst", "prerm", "postrm"):
        path = tree / "DEBIAN" / name
        subprocess.run(["sh", "-n", str(path)], check=True)
        text = path.read_text()
        assert path.stat().st_mode & 0o777 == 0o755 and "\nset -e\n" in text
        assert not re.search(r"\b(rm|rmdir|userdel|deluser|chown|chmod|find)\b", re.sub(r"#.*", "", text))
    assert "enable" not in re.sub(r"#.*", "", (tree / "DEBIAN/postinst").read_text())


def test_manual_completions_and_papers(tree: Path) -> None:
    manual = gzip.decompress((tree / "usr/share/man/man1/threegate.1.gz").read_bytes())
    assert manual == (ROOT / "docs/man/threegate.1").read_bytes()
    for shell, path in {
        "bash": "bash-completion/completions/threegate",
        "zsh": "zsh/vendor-completions/_threegate",
        "fish": "fish/vendor_completions.d/threegate.fish",
    }.items():
        text = (tree / "usr/share" / path).read_text()
        assert f"complete_{shell}" in text
        assert not re.search(r"/(tmp|root|home|work)/", text)
    assert (tree / "usr/share/zsh/vendor-completions/_threegate").read_text().startswith("#compdef threegate\n")
    subprocess.run(["bash", "-n", str(tree / "usr/share/bash-completion/completions/threegate")], check=True)
    assert "License: Apache-2.0" in (tree / "usr/share/doc/threegate/copyright").read_text()
    changelog = gzip.decompress((tree / "usr/share/doc/threegate/changelog.gz").read_bytes()).decode()
    assert changelog.startswith(f"threegate ({build_deb.debian_version()}) ")
    for path in tree.rglob("*"):
        assert path.is_symlink() or path.stat().st_mode & 0o7022 == 0, f"{path}: only root may write it"


@pytest.mark.parametrize(
    ("shell", "start"),
    [
        ("bash", "source {0}/bash-completion/completions/threegate"),
        ("zsh", "fpath=({0}/zsh/vendor-completions $fpath); autoload -Uz compinit; compinit -u"),
    ],
)
@pytest.mark.slow
def test_the_shells_complete_commands(tree: Path, tmp_path: Path, shell: str, start: str) -> None:
    if shutil.which(shell) is None:
        missing(f"{shell} (apt-get install {shell})")
    (tmp_path / f".{shell}rc").write_text(start.format(tree / "usr/share") + "\n")
    assert "audit" in after_tab([shell, "-i"], tmp_path, "threegate aud", "audit")


def test_a_version_before_the_release_sorts_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for ours, debian in (
        ("1.2.3", "1.2.3"),
        ("1.2.3rc1", "1.2.3~rc1"),
        ("1.2.3a2", "1.2.3~a2"),
        ("1.2.3.dev4", "1.2.3~dev4"),
    ):
        monkeypatch.setattr(build_deb, "__version__", ours)
        assert build_deb.debian_version() == debian


# ---- the long form


@pytest.fixture(scope="module")
def package() -> Path:
    """What `make deb` makes."""
    done = subprocess.run(BUILDS_IT.split(), cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    path = Path(done.stdout.splitlines()[-1])
    assert path.parent == ROOT / "dist" and f"_{__version__}_" in path.name
    return path


class Debian:
    """An empty Debian 12 in a folder; commands run in it by chroot, as root, with this machine's network."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *words: str) -> str:
        inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        done = subprocess.run(
            [
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                inside,
                str(self.root),
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=900,
            stdin=subprocess.DEVNULL,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND": "noninteractive",
                "LANG": "C.UTF-8",
            },
        )
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def debian(package: Path) -> Iterator[Debian]:
    """An empty Debian with the package on it, and what apt added for it."""
    for name in ("debootstrap", "systemd-nspawn"):
        if shutil.which(name) is None:
            missing(f"{name} (apt-get install debootstrap systemd-container)")
    # Not below pytest's own folder: apt's unprivileged user cannot look into it.
    root = Path("/var/tmp") / f"threegate-deb-{os.getpid()}"
    try:
        words = ["debootstrap", "--variant=minbase", "bookworm", str(root)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        (root / "dist").mkdir()
        shutil.copy(package, root / "dist")
        (root / "etc/apt/apt.conf.d/yes").write_text('APT::Get::Assume-Yes "true"; APT::Install-Recommends "false";')
        # The machine is thrown away: dpkg need not wait for its disk.
        (root / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
        machine = Debian(root)
        machine.run("apt-get", "update", "-q")
        machine.run("apt-get", "install", "-q", "sudo")
        machine.run("sh", "-ec", LINES[1])
        yield machine
    finally:
        shutil.rmtree(root, ignore_errors=True)


LONG = [pytest.mark.soak, pytest.mark.root, pytest.mark.timeout(1800)]


class TestOnAnEmptyDebian:
    pytestmark = LONG

    def test_the_command_runs_and_nothing_is_writable_or_left_from_the_build(self, debian: Debian) -> None:
        assert "Usage: threegate" in debian.run("threegate", "--help")
        assert debian.run("threegate", "--version").startswith(f"threegate {__version__} (commit ")
        debian.run(
            "/opt/threegate/bin/python3",
            "-c",
            (
                "import apprise, celery, docker, fastapi, in_toto_attestation, mcp, securesystemslib, textual, "
                "prometheus_client"
            ),
        )
        opt = debian.root / "opt/threegate"
        for path in opt.rglob("*"):
            assert path.is_symlink() or (path.stat().st_mode & 0o7022 == 0 and path.stat().st_uid == 0), path
        built = subprocess.run(["grep", "-rlE", "threegate-deb-[a-z0-9_]{8}", str(opt)], capture_output=True, text=True)
        assert built.stdout == ""
        left = debian.run(
            "sh", "-c", "find /opt/threegate -name '*.so*' -type f -exec ldd {} + | grep 'not found' || true"
        )
        assert left == ""

    def test_it_serves_stops_and_leaves_what_is_the_operators(self, debian: Debian) -> None:
        """Installed, started under systemd, a request run; removed and purged: the workspace and its trail stay."""
        with Machine(debian.root) as machine:
            verified = machine.run("systemd-analyze", "verify", "threegate.service")
            assert "threegate.service" not in verified.stderr, verified.stderr
            assert machine.run("systemctl", "is-enabled", "threegate", check=False).stdout.strip() == "disabled"
            machine.run("mkdir", "-p", "-m", "700", "/root/.ssh")
            machine.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/.ssh/id_ed25519")
            machine.run("useradd", "--create-home", "agent")
            for line in LINES[2:]:
                machine.run("bash", "-ec", line)
            as_account = ("sudo", "-H", "-u", "threegate", "threegate")
            assert machine.run("systemctl", "show", "-P", "User", "threegate").stdout.strip() == "threegate"
            pid = machine.run("systemctl", "show", "-P", "MainPID", "threegate").stdout.strip()
            owner = machine.run("stat", "-c", "%U", f"/proc/{pid}").stdout.strip()
            assert owner == "threegate"

            name = request_id("packaged")
            (machine.root / "tmp/draft.md").write_text(monty_draft(name, "sum(range(10))", memory_mb=64))
            machine.run("runuser", "-u", "agent", "--", "cp", "/tmp/draft.md", f"{WS}/inbox/{name}.md")
            machine.run("sh", "-ec", SIGNING.format(ws=WS, name=name, command=" ".join(as_account)))
            machine.run(
                "sh",
                "-c",
                f"for i in $(seq 600); do ls {WS}/tool-exec/results/TS-*.md && exit; sleep 0.2; done; exit 1",
            )
            [result] = (machine.root / str(WS).lstrip("/") / "tool-exec/results").glob("TS-*.md")
            assert "\nstatus: succeeded\n" in result.read_text()

            inbox = machine.root / str(WS).lstrip("/") / "inbox"
            before = rights(inbox)
            machine.run("systemd-tmpfiles", "--create", "--remove", "--clean")
            assert rights(inbox) == before

            machine.run("apt-get", "remove", "-q", "-y", "threegate")
            assert machine.run("systemctl", "is-active", "threegate", check=False).stdout.strip() == "inactive"
            assert not (machine.root / "opt/threegate").exists()
            assert not (machine.root / "etc/systemd/system/multi-user.target.wants/threegate.service").exists()
            kept = whole(machine.root / str(WS).lstrip("/"))
            assert any(path.endswith("trail.jsonl") for path in kept)
            state = whole(machine.root / "var/lib/threegate/.local")
            said = machine.run("dpkg", "--purge", "threegate").stdout
            assert "are kept" in said
            assert whole(machine.root / str(WS).lstrip("/")) == kept
            assert whole(machine.root / "var/lib/threegate/.local") == state
            assert "threegate" in (machine.root / "etc/passwd").read_text()

            machine.run("sh", "-ec", "dpkg --install /dist/threegate_*.deb")
            assert machine.run("systemctl", "is-enabled", "threegate", check=False).stdout.strip() == "disabled"
            assert "verifies" in machine.run(*as_account, "-w", str(WS), "audit", "verify").stdout

    def test_an_upgrade_stops_the_daemon_and_starts_it_again(self, debian: Debian) -> None:
        with Machine(debian.root) as machine:
            machine.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/key")
            machine.run("install", "-m", "644", "/root/key.pub", "/tmp/operator.pub")
            as_account = ("runuser", "-u", "threegate", "--", "env", "HOME=/var/lib/threegate", "threegate")
            machine.run(*as_account, "init", str(WS), "--key", "/tmp/operator.pub")
            machine.run("systemctl", "enable", "--now", "threegate")
            first = machine.run("systemctl", "show", "-P", "MainPID", "threegate").stdout.strip()
            machine.run("sh", "-ec", "dpkg --install /dist/threegate_*.deb")
            second = machine.run("systemctl", "show", "-P", "MainPID", "threegate").stdout.strip()
            assert "0" not in (first, second) and first != second
            assert machine.run("systemctl", "is-active", "threegate").stdout.strip() == "active"

    def test_what_the_build_needs_can_be_installed(self, debian: Debian) -> None:
        debian.run("sh", "-ec", LINES[0])
        debian.run("sh", "-ec", "git --version && make --version && python3 -c 'import ensurepip'")

    def test_lintian_finds_no_error(self, debian: Debian) -> None:
        debian.run("apt-get", "install", "-q", "-y", "--no-install-recommends", "lintian")
        said = debian.run("sh", "-ec", "lintian --allow-root --fail-on error /dist/threegate_*.deb")
        assert "E: " not in said


SIGNING = """
{command} -w {ws} approve {ws}/inbox/{name}.md --print-statement --as alice >/tmp/statement
ssh-keygen -q -Y sign -n threegate-approval -f /root/.ssh/id_ed25519 /tmp/statement
(cat /tmp/statement; echo; cat /tmp/statement.sig) >/tmp/TR.sig
{command} -w {ws} approve {ws}/inbox/{name}.md --signature /tmp/TR.sig --yes
"""
"""As docs/service.md has it: the operator's key is not the account's."""


def whole(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Each file below a folder: its mode, owner and bytes."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.stat().st_uid, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def rights(folder: Path) -> dict[str, tuple[int, int, int, list[bytes]]]:
    """A folder and everything below it: mode, owner, group and access control lists."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode,
            path.stat().st_uid,
            path.stat().st_gid,
            [os.getxattr(path, name) for name in sorted(os.listxattr(path))],
        )
        for path in (folder, *folder.rglob("*"))
    }
