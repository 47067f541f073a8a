"""What the trail says of grants, in words."""

from __future__ import annotations

from threegate.plugins.grants.grants_kinds import Granted, GrantRevoked


def test_a_grant_says_how_often_and_how_wide() -> None:
    wide = Granted(grant="c" * 64, max_uses=3, widened=("vars.day", "argv.2"))
    assert wide.sentence() == (f"gave the standing grant {'c' * 12}, for at most 3 runs, with vars.day, argv.2 widened")
    assert GrantRevoked(grant="c" * 64).sentence() == f"revoked the standing grant {'c' * 12}"
