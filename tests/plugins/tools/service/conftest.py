"""The machine that systemd booted."""

from tests.setup.test_systemd import machine

__all__ = ["machine"]
