"""What a root is named by: installed packages and alternatives of this machine, or the digest of an unpacked tree."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from threegate.core.errors import Unavailable
from threegate.core.settings import EraSettings
from threegate.runners.era import root_identity
from threegate.runners.era.root_identity import describe, identify

STATUS = """Package: dash
Status: install ok installed
Architecture: amd64
Version: 0.5

Package: python3
Status: install ok triggers-pending
Architecture: amd64
Version: 3.11

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
HOST = EraSettings()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two packages and one alternative; only programs and modules are this machine's."""
    monkeypatch.setattr(root_identity, "DPKG", tmp_path / "status")
    monkeypatch.setattr(root_identity, "DPKG_FOLDER", tmp_path / "status.d")
    monkeypatch.setattr(root_identity, "RPM", (tmp_path / "rpmdb.sqlite",))
    monkeypatch.setattr(root_identity, "ALTERNATIVES", tmp_path / "alternatives")
    (tmp_path / "status").write_text(STATUS)
    (tmp_path / "alternatives").mkdir()
    (tmp_path / "alternatives" / "awk").symlink_to("/usr/bin/mawk")
    return tmp_path


def rewrite(file: Path, old: str, new: str) -> None:
    """As dpkg does it: another file under the name."""
    file.with_suffix(".new").write_text(file.read_text().replace(old, new))
    file.with_suffix(".new").rename(file)


def test_packages_and_alternatives_name_this_machines_root(host: Path) -> None:
    first = identify(HOST)
    assert first.path is None and first.digest.startswith("root:sha256:") and len(first.digest) == 76
    assert identify(HOST) is first  # nothing that it was read from has changed
    rewrite(host / "status", "triggers-pending", "installed")
    assert identify(HOST).digest == first.digest  # a state is none of its names
    rewrite(host / "status", "Version: 1\n", "Version: 2\n")
    assert identify(HOST).digest == first.digest  # nothing of it is on the disk
    seen = {first.digest}
    rewrite(host / "status", "Version: 3.11", "Version: 3.12")
    seen.add(identify(HOST).digest)
    rewrite(host / "status", "Architecture: amd64\nVersion: 0.5", "Architecture: i386\nVersion: 0.5")
    seen.add(identify(HOST).digest)
    (host / "alternatives" / "awk").unlink()
    (host / "alternatives" / "awk").symlink_to("/usr/bin/gawk")
    seen.add(identify(HOST).digest)
    assert len(seen) == 4


def test_what_this_machines_root_has(host: Path) -> None:
    found = identify(HOST)
    assert {"sh", "python3"} <= found.programs and "README" not in found.programs
    assert {"json", "sys", "math"} <= found.modules and "no_such_module" not in found.modules
    assert found.python.startswith("3.")


def test_an_image_without_dpkg_lists_its_packages_in_files(host: Path) -> None:
    whole = identify(HOST).digest
    (host / "status.d").mkdir()
    (host / "status.d" / "dash").write_text("Package: dash\nArchitecture: amd64\nVersion: 0.5\n")
    (host / "status.d" / "dash.md5sums").write_text("0  usr/bin/dash\n")
    (host / "status.d" / "python3").write_text("Package: python3\nArchitecture: amd64\nVersion: 3.11\n")
    (host / "status").unlink()
    assert identify(HOST).digest == whole


def test_rpm_is_asked_where_it_has_the_database(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "status").unlink()
    (host / "rpmdb.sqlite").write_bytes(b"")
    monkeypatch.setattr(root_identity, "ASK_RPM", (sys.executable, "-c", "print('bash x86_64 0:5.2-1')"))
    named = identify(HOST).digest
    monkeypatch.setattr(root_identity, "ASK_RPM", (sys.executable, "-c", "print('bash x86_64 0:5.2-2')"))
    os.utime(host / "rpmdb.sqlite", ns=(1, 1))
    assert identify(HOST).digest != named
    monkeypatch.setattr(root_identity, "ASK_RPM", (str(host / "none"),))
    os.utime(host / "rpmdb.sqlite", ns=(2, 2))
    with pytest.raises(Unavailable, match="rpm -qa: does not answer"):
        identify(HOST)


def test_a_machine_without_a_database_needs_a_root_of_its_own(host: Path) -> None:
    (host / "status").unlink()
    with pytest.raises(Unavailable, match=r"no database of dpkg or rpm.*threegate settings images --rootfs"):
        identify(HOST)
    (host / "status").symlink_to(host / "elsewhere")
    with pytest.raises(Unavailable, match="cannot be read"):
        identify(HOST)


def unpacked(folder: Path) -> Path:
    """An unpacked root, as `threegate settings images --rootfs` leaves it."""
    tree = folder / "root" / "tree"
    for name in ("usr/bin", "usr/sbin", "usr/lib/python3/dist-packages/yaml", "etc/alternatives"):
        (tree / name).mkdir(parents=True, mode=0o755)
    (tree / "bin").symlink_to("usr/bin")
    (tree / "usr/bin/mawk").write_text("#!/bin/sh\n")
    (tree / "usr/bin/mawk").chmod(0o755)
    (tree / "usr/bin/notes").write_text("no program\n")
    (tree / "usr/bin/awk").symlink_to("/usr/bin/mawk")
    (tree / "usr/bin/broken").symlink_to("/usr/bin/none")
    (tree.parent / "root.json").write_bytes(describe(tree, "c" * 64, [sys.executable]))
    return tree.parent


def test_an_unpacked_root_is_named_by_its_digest(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    found = identify(EraSettings(root=str(folder)))
    assert (found.path, found.digest) == (folder / "tree", f"root:sha256:{'c' * 64}")
    assert found.programs == {"mawk", "awk"} and {"yaml", "sys"} <= found.modules and found.python
    (folder / "tree" / "usr" / "bin" / "more").write_text("#!/bin/sh\n")
    with pytest.raises(Unavailable, match="changed since it was unpacked"):
        identify(EraSettings(root=str(folder)))


def test_a_root_without_python_has_no_modules(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    (folder / "root.json").write_bytes(describe(folder / "tree", "c" * 64, [str(folder / "none")]))
    found = identify(EraSettings(root=str(folder)))
    assert (found.python, found.modules) == ("", frozenset())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"type":"threegate-root/1","digest":"root:sha256:1"}', "\xff"])
def test_a_description_that_is_none(tmp_path: Path, text: str) -> None:
    folder = unpacked(tmp_path)
    (folder / "root.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(Unavailable, match="does not describe a root of this version; make one"):
        identify(EraSettings(root=str(folder)))
    (folder / "root.json").unlink()
    with pytest.raises(Unavailable, match="cannot be read"):
        identify(EraSettings(root=str(folder)))


def test_a_folder_that_is_none_or_leads_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="is not a folder"):
        identify(EraSettings(root=str(tmp_path / "none")))
    folder = unpacked(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(Unavailable, match=f"leads through a link; write {folder}"):
        identify(EraSettings(root=str(tmp_path / "link")))
