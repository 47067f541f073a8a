"""The TypeScript client: built from a clean tree, type-checked, packed, and run in Node against a real server."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plugins.serve.clients.conftest import ROOT, npm
from tests.plugins.serve.test_workspace_gates import RULES, lay
from tests.servers import TOKEN, start, stop
from tests.support import make_place
from threegate import __version__

SOURCE = ROOT / "clients" / "typescript"


@dataclass(frozen=True)
class Servers:
    """What the client's own tests find in their environment."""

    url: str
    limited_url: str


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A real server of a workspace with contracts, and one that takes a single request a minute."""
    place = make_place(tmp_path_factory.mktemp("place"))
    lay(place.root, RULES)
    many = start(tmp_path_factory.mktemp("many"), "--rate", "100000", workspace=place.root)
    one = start(tmp_path_factory.mktemp("one"), "--rate", "1")
    yield Servers(many.url, one.url)
    stop(many)
    stop(one)


@pytest.mark.slow
def test_in_node_against_a_real_server(package: Path, servers: Servers) -> None:
    environment = {
        **os.environ,
        "THREEGATE_URL": servers.url,
        "THREEGATE_LIMITED_URL": servers.limited_url,
        "THREEGATE_TOKEN": TOKEN,
    }
    files = sorted(path.name for path in (package / "tests").glob("*.test.mjs"))
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", *(f"tests/{name}" for name in files)],
        cwd=package, capture_output=True, text=True, timeout=280, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    counts = dict(line[2:].split() for line in done.stdout.splitlines() if line.startswith("# ") and len(line.split()) == 3)  # fmt: skip  # noqa: E501
    assert len(files) == 2 and int(counts["tests"]) >= 40
    assert counts["fail"] == counts["skipped"] == counts["todo"] == "0"
    for secret in (TOKEN, "canary-value"):
        assert secret not in done.stdout + done.stderr


@pytest.mark.slow
def test_the_types_hold_on_the_examples(package: Path) -> None:
    npm(package, "run", "check")
    wrong = package / "examples" / "wrong.ts"
    wrong.write_text('import { gateTool } from "@threegate/client";\ngateTool(1);\n')
    try:
        assert "wrong.ts" in npm(package, "run", "check", expect=2)
    finally:
        wrong.unlink()


@pytest.mark.slow
def test_what_the_package_holds(package: Path, tmp_path: Path) -> None:
    told = json.loads(npm(package, "pack", "--dry-run", "--json", "--ignore-scripts"))
    (packed,) = told.values() if isinstance(told, dict) else told
    names = {item["path"] for item in packed["files"]}
    modules = {path.stem for path in (package / "src").glob("*.ts")} | {
        f"generated/{name}" for name in ("types", "schemas")
    }
    built = {f"dist/{name}{end}" for name in modules for end in (".js", ".d.ts")}
    assert names == {"LICENSE", "README.md", "package.json"} | built
    npm(package, "pack", "--ignore-scripts", "--pack-destination", str(tmp_path))
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as opened:
        manifest = json.load(opened.extractfile("package/package.json"))  # type: ignore[arg-type]
    assert "dependencies" not in manifest and manifest["type"] == "module"
    assert manifest["license"] == "Apache-2.0" and manifest["exports"]["."]["types"] == "./dist/index.d.ts"
    for script in ("install", "preinstall", "postinstall", "prepare"):
        assert script not in manifest["scripts"]
    user = tmp_path / "user"
    user.mkdir()
    npm(user, "install", "--offline", "--no-save", "--prefix", str(user), str(archive))
    code = "import('@threegate/client').then((client) => console.log(Object.keys(client).sort().join(' ')))"
    done = subprocess.run(["node", "-e", code], cwd=user, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [
        "CONTRACT_VERSION", "checkProposal", "checkToolPrecheck", "decideCall", "gateCall", "gateTool", "mayBecomeDraft",  # noqa: E501
        "shouldExecuteCall", "shouldExecuteTool", "toolPrecheckEvent", "validateCall", "validateEvent", "validateProposal",  # noqa: E501
    ], done.stderr  # fmt: skip


@pytest.mark.slow
def test_it_is_of_this_version_and_licence() -> None:
    manifest = json.loads((SOURCE / "package.json").read_text())
    lock = json.loads((SOURCE / "package-lock.json").read_text())
    assert manifest["version"] == lock["version"] == __version__
    assert (SOURCE / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert "dependencies" not in manifest
    assert all(part["integrity"] for name, part in lock["packages"].items() if name)
    assert all(part["dev"] for name, part in lock["packages"].items() if name)
