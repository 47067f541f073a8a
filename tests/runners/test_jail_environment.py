"""What a jail's command line shows to everybody on this machine: no value of a variable."""

from __future__ import annotations

import os

from threegate.runners.jail.jail import Account, Jail


def test_no_value_of_a_variable_is_on_the_command_line() -> None:
    jail = Jail(Account.own(), environment={"TOKEN": "SECRET-VALUE"})
    with jail.command(["/bin/true"], begin=False) as (line, descriptors):
        assert not any("SECRET-VALUE" in word for word in line)
        assert any(b"SECRET-VALUE\0" in os.pread(descriptor, 1 << 20, 0) for descriptor in descriptors)
