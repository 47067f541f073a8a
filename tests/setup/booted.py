"""A real systemd: a machine's files, by default this one's, under an overlay, booted by systemd-nspawn, thrown away
afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from tests.support import wait_until

_UNIT = "sysinit.target"


class Machine:
    """Boots on entry, is gone on exit. Commands run in it as root; nothing of them stays on the host."""

    def __init__(self, lower: Path = Path("/")) -> None:
        self._lower = lower
        self._home = Path(tempfile.mkdtemp(prefix="threegate-boot-", dir="/var/tmp"))
        self.root = self._home / "root"
        self._log = (self._home / "console").open("wb")
        self._process: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def __enter__(self) -> Machine:
        for name in ("upper", "work", "root"):
            (self._home / name).mkdir(mode=0o755)
        self._home.chmod(0o755)
        # A checkout may lie below /tmp: it is seen in the machine too, and its boot does not clear it away.
        kept = self._home / "upper" / "etc" / "tmpfiles.d"
        kept.mkdir(mode=0o755, parents=True)
        (kept / "tmp.conf").symlink_to("/dev/null")
        options = f"lowerdir={self._lower},upperdir={self._home}/upper,workdir={self._home}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(self.root)], check=True)
        try:
            self._boot()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _boot(self) -> None:
        words = ["systemd-nspawn", "-D", str(self.root), "--register=no", "--keep-unit", "--private-network"]
        more = [
            "--link-journal=no",
            "--machine=threegate-test",
            "--console=pipe",
            "--boot",
            "--",
            f"--unit={_UNIT}",
        ]
        self._process = subprocess.Popen(
            [*words, *more],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            # A machine of its own has a /proc that can be written to, as jails need it.
            env={
                **os.environ,
                "SYSTEMD_NSPAWN_TMPFS_TMP": "0",
                "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes",
            },
        )
        wait_until(self._is_up, self.console, 90)

    def _is_up(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.console()
        self._leader = self._leader or self._child()
        if not self._leader:
            return False
        return self.run("systemctl", "is-active", _UNIT, check=False).stdout.strip() == "active"

    def _child(self) -> int:
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
        return 0

    def console(self) -> str:
        """What was printed while it booted."""
        return (self._home / "console").read_text(errors="replace")

    def run(
        self, *words: str, check: bool = True, timeout: float = 120, cwd: str | Path = "/"
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine's namespaces."""
        inside = ["nsenter", "-t", str(self._leader), "-m", "-u", "-i", "-n", "-p", "--", "env", "-i"]
        environment = ["HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
        place = ["sh", "-c", 'cd "$0" && exec "$@"', str(cwd)]
        done = subprocess.run(
            [*inside, *environment, *place, *words],
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()
        subprocess.run(["umount", "-R", "-l", str(self.root)], check=False)
        shutil.rmtree(self._home, ignore_errors=True)
