"""The daemon: watches the folders, gives verdicts, runs what is approved, and settles what was left half-way."""

from threegate.daemon.loop import Daemon, run_daemon

__all__ = ["Daemon", "run_daemon"]
