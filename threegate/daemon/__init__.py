"""The daemon: watches the folders, writes verdicts, runs approved requests, and settles interrupted ones."""

from threegate.daemon.loop import Daemon, run_daemon

__all__ = ["Daemon", "run_daemon"]
