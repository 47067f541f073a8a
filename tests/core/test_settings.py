"""Settings: defaults are safe, mistakes are refused whole and named."""

import re
from pathlib import Path

import pytest

from threegate.core.errors import InvalidInput
from threegate.core.settings import Settings, parse_duration, parse_settings
from threegate.setup.settings_file import render_settings, set_values

ID = "ws-" + "0" * 32


def test_the_written_file_says_every_default() -> None:
    text = render_settings({"workspace.id": ID})
    assert parse_settings(text.encode()).workspace.id == ID
    uncommented = re.sub(r"(?m)^# ([a-z_0-9]+ = [^{])", r"\1", text)
    assert uncommented != text
    assert parse_settings(uncommented.encode()) == parse_settings(text.encode())


@pytest.mark.parametrize(
    ("text", "place", "key"),
    [
        ("[approval]\nsignatur = 'optional'", ":2:", "approval.signatur"),
        ("[approval]\nsignature = 'off'", ":2:", "approval.signature"),
        ("\n\n[runners.monty]\nworkers = 0", ":4:", "runners.monty.workers"),
        ("[runners.era]\nimage = 'debian:latest'", ":2:", "runners.era.image"),
        ("[requesters]\nroot = 'x'", "", "requesters"),
        ("surprise = 1", ":1:", "surprise"),
        ("[approval]\nttl = '1 day'", ":2:", "approval.ttl"),
        ("[approval]\nttl = '100d'", ":2:", "approval.ttl"),
        ("[audit]\ncheckpoint_every = true", ":2:", "audit.checkpoint_every"),
        (f"[runners]\ncpu_budget = 1{'0' * 400}", ":2:", "runners.cpu_budget"),
        (f"[runners]\ncpu_budget = 1{'0' * 5000}", "", "no TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, place: str, key: str) -> None:
    with pytest.raises(InvalidInput) as found:
        parse_settings(text.encode(), "threegate.toml")
    assert place in str(found.value)
    assert key in str(found.value)


def test_no_value_of_a_setting_is_repeated_in_a_message() -> None:
    with pytest.raises(InvalidInput) as found:
        parse_settings(b"[secrets]\ngithub = 'ghp_0123456789abcdef'", "threegate.toml")
    assert "ghp_" not in str(found.value)


@pytest.mark.parametrize("data", [b"\xff", b"= 1", b"[" * 100_000, b"x" * 300_000])
def test_no_toml_is_one_line(data: bytes) -> None:
    with pytest.raises(InvalidInput) as found:
        parse_settings(data)
    assert "\n" not in str(found.value)


def test_durations() -> None:
    assert [parse_duration(text) for text in ("90s", "15m", "24h", "7d", 5)] == [90, 900, 86400, 604800, 5]
    for bad in ("0s", "1w", "h", "", "٣h", True, -1, 1.5, None):
        with pytest.raises(ValueError, match="duration"):
            parse_duration(bad)


def test_cosmetic_settings_do_not_decide() -> None:
    base = Settings().deciding()
    other = parse_settings(b"[audit]\ncheckpoint_every = 5\n[runners.monty]\nworkers = 7\n")
    assert other.deciding() == base
    assert parse_settings(b"[approval]\nttl = '1h'").deciding() != base
    assert parse_settings(b"[request]\nmax_cpu = 2.0").deciding() != base


def test_set_values_changes_only_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "threegate.toml"
    path.write_text(render_settings({"workspace.id": ID}))
    before = path.read_text().splitlines()
    image = "sha256:" + "a" * 64
    set_values(path, {"runners.era.image": image, "approval.quorum.high": 2})
    after = path.read_text().splitlines()
    assert len(before) == len(after)
    assert sum(1 for old, new in zip(before, after, strict=True) if old != new) == 2
    settings = parse_settings(path.read_bytes())
    assert settings.runners.era.image == image
    assert settings.approval.quorum.high == 2
    with pytest.raises(InvalidInput):
        set_values(path, {"approval.signature": "never"})
    assert path.read_text().splitlines() == after


def test_set_values_adds_a_missing_table(tmp_path: Path) -> None:
    path = tmp_path / "threegate.toml"
    path.write_text("[workspace]\n")
    set_values(path, {"workspace.id": ID, "approval.ttl": "2h"})
    assert parse_settings(path.read_bytes()).approval.ttl == 7200
