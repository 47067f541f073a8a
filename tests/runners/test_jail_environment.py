"""What a jail's command line shows to everybody on this machine: no value of a variable; and what it is made of."""

from __future__ import annotations

import os
import subprocess

import pytest

from threegate.core.errors import Unavailable
from threegate.runners.jail.jail import Account, Jail, missing_packages


def test_no_value_of_a_variable_is_on_the_command_line() -> None:
    jail = Jail(Account.own(), environment={"TOKEN": "SECRET-VALUE"})
    with jail.command(["/bin/true"], begin=False) as (line, descriptors):
        assert not any("SECRET-VALUE" in word for word in line)
        assert any(b"SECRET-VALUE\0" in os.pread(descriptor, 1 << 20, 0) for descriptor in descriptors)


def test_only_a_jail_with_relays_needs_socat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: path != "/usr/bin/socat")
    assert missing_packages() == ["socat"] and missing_packages(relays=False) == []
    jail = Jail(Account.own())
    with jail.command(["/bin/true"], begin=False) as (line, _):
        assert line
    with pytest.raises(Unavailable, match="apt-get install socat"), jail.command(["/bin/true"]):
        pass


@pytest.mark.jail
@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyError("no"), OSError(1, "no")], ids=lambda one: type(one).__name__
)
def test_a_jail_whose_limits_cannot_be_set_starts_nothing(error: Exception) -> None:
    """Whatever goes wrong: bubblewrap goes on, too, when the pipe that it waits for is closed."""

    def fail(pid: int) -> None:
        raise error

    read, write = os.pipe()
    with open(read, "rb") as output:
        with open(write, "wb") as given, pytest.raises(Unavailable, match="cannot be limited"):
            Jail(Account.own()).start(
                ["/bin/echo", "ran"], stdin=subprocess.DEVNULL, stdout=given, stderr=None, begin=False, limited=fail
            )
        assert output.read() == b""
