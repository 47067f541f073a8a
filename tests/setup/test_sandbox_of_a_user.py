"""`settings images` as an ordinary user: each way to an image, and that it says which it took. The build ways are
soak.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine_fixtures import ENGINE, IMAGE, docker
from tests.ordinary_user import UID, home
from threegate.setup.sandbox import sandbox_folder

pytestmark = [pytest.mark.engine, pytest.mark.root]


class Recipe:
    """A recipe that no image was made from yet, and a user who builds it."""

    def __init__(self, folder: Path, base: str) -> None:
        self.folder = folder / "sandbox"
        shutil.copytree(sandbox_folder(), self.folder)
        with open(self.folder / "bootstrap", "a") as file:
            file.write(f"# {uuid.uuid4().hex}\n")
        self.base = base

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder.parent),
            "TMPDIR": "/var/tmp",
            "DOCKER_HOST": ENGINE,
            "THREEGATE_BASE_IMAGE": self.base,
        }
        return subprocess.run(
            ["/bin/sh", str(self.folder / "bootstrap"), *words],
            capture_output=True,
            text=True,
            timeout=280,
            env=environment,
            cwd="/",
            user=UID,
            group=UID,
            extra_groups=[os.stat(ENGINE.removeprefix("unix://")).st_gid],
        )

    def tag(self) -> str:
        return self.run("--print-tags").stdout.split()[0]


@pytest.fixture
def recipe() -> Iterator[Recipe]:
    with home() as folder:
        made = Recipe(folder, "threegate/no-such-base:1")
        tag = made.tag()
        yield made
        subprocess.run(["docker", "-H", ENGINE, "rmi", "-f", tag], capture_output=True)


def marked(tag: str, label: str, changes: tuple[str, ...] = ()) -> None:
    """Our image once more, under a tag and with a label."""
    container = docker("create", IMAGE, "true").strip()
    docker("commit", "--change", f"LABEL {label}", *changes, container, tag)
    docker("rm", container)


def test_an_image_that_the_engine_has_is_taken_by_its_labels(recipe: Recipe) -> None:
    tag = recipe.tag()
    other = f"threegate/other:{uuid.uuid4().hex}"
    marked(other, f"threegate.kind=era threegate.recipe={tag.rpartition(':')[2]}")
    try:
        done = recipe.run("--only", "era")
        assert done.returncode == 0, done.stderr
        assert done.stderr == f"bootstrap: {tag}: taken, the engine has it\n"
        assert docker("image", "inspect", "--format", "{{.Id}}", other).strip() in done.stdout
    finally:
        docker("rmi", other)


def test_an_image_that_was_made_from_ours_is_not_taken_for_it(recipe: Recipe) -> None:
    """It has our labels and is newer; ours has the tag."""
    tag = recipe.tag()
    marked(tag, f"threegate.kind=era threegate.recipe={tag.rpartition(':')[2]}")
    ours = docker("image", "inspect", "--format", "{{.Id}}", tag).strip()
    other = f"threegate/other:{uuid.uuid4().hex}"
    container = docker("create", tag, "true").strip()
    docker("commit", container, other)
    docker("rm", container)
    try:
        assert ours in recipe.run("--only", "era").stdout
    finally:
        docker("rmi", other)


def test_without_apt_it_says_what_to_do(recipe: Recipe) -> None:
    recipe.folder.joinpath("bootstrap").write_text(
        recipe.folder.joinpath("bootstrap").read_text().replace("apt-get dpkg-deb;", "no-such-apt;")
    )
    done = recipe.run("--only", "era")
    assert done.returncode == 3
    assert "no no-such-apt here to unpack packages with" in done.stderr.splitlines()[-1]


@pytest.mark.soak
def test_it_is_built_on_a_base_image(recipe: Recipe) -> None:
    """The base has an apt-get that has nothing to do: the engine's own network is not what is tested."""
    base = f"threegate/base:{uuid.uuid4().hex}"
    stub = recipe.folder / "apt-get"
    stub.write_text("#!/bin/sh\n")
    stub.chmod(0o755)
    container = docker("create", IMAGE, "true").strip()
    docker("cp", str(stub), f"{container}:/usr/bin/apt-get")
    docker("commit", container, base)
    docker("rm", container)
    stub.unlink()
    recipe.base = base
    try:
        done = recipe.run("--only", "era")
        assert done.returncode == 0, done.stderr
        assert done.stderr == f"bootstrap: {recipe.tag()}: built from the engine's image {base}\n"
        labels = docker("image", "inspect", "--format", "{{json .Config.Labels}}", recipe.tag())
        assert " python3 " in labels and "threegate.recipe" in labels
    finally:
        docker("rmi", "-f", recipe.tag(), base)


@pytest.mark.soak
def test_it_is_made_of_packages_without_root(recipe: Recipe) -> None:
    done = recipe.run("--only", "era")
    assert done.returncode == 0, done.stderr
    assert "made of Debian packages from http" in done.stderr and "unpacked without root" in done.stderr
    image = docker("image", "inspect", "--format", "{{.Id}}", recipe.tag()).strip()
    said = docker(
        "run",
        "--rm",
        "--network",
        "none",
        "--user",
        "65534",
        image,
        "sh",
        "-c",
        "git --version; python -V; find / -xdev -type f -perm /6000 2>/dev/null; true",
    )
    assert said.splitlines()[0].startswith("git version") and len(said.splitlines()) == 2
