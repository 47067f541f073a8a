"""Files that run later by themselves: the table, what nothing classifies, and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from threegate.plugins.changes.path_rules import path_problem
from threegate.plugins.changes.run_later import is_source, table, why_link_runs_later, why_runs_later

RUNS = """.github/workflows/ci.yml .gitlab-ci.yml sub/Jenkinsfile .circleci/config.yml azure-pipelines.yml
.woodpecker.yml .githooks/pre-commit .husky/pre-push .pre-commit-config.yaml hooks/post-receive
.gitattributes a/.gitattributes lefthook.yml Makefile a/b/GNUmakefile x.mk justfile Dockerfile
docker/Dockerfile.dev docker-compose.yml CMakeLists.txt BUILD a/BUILD.bazel x.bzl build.gradle.kts pom.xml
gradlew Rakefile noxfile.py tox.ini build.rs flake.nix app.csproj Vagrantfile Taskfile.yml WORKSPACE
package.json web/package.json .npmrc .yarnrc.yml pyproject.toml setup.py setup.cfg requirements.txt
requirements/dev.txt Cargo.toml .cargo/config.toml go.mod Gemfile composer.json deno.jsonc
package-lock.json yarn.lock pnpm-lock.yaml poetry.lock uv.lock Cargo.lock go.sum Gemfile.lock conftest.py
tests/conftest.py evil.pth sitecustomize.py vite.config.ts .eslintrc.js jest.config.js pytest.ini
tsconfig.json .envrc .vscode/tasks.json .idea/x.xml .devcontainer/devcontainer.json .vimrc .dir-locals.el
.editorconfig .tool-versions AGENTS.md sub/AGENTS.md CLAUDE.md GEMINI.md QWEN.md .mcp.json
.claude/settings.json .cursor/rules/x.md .cursorrules .github/copilot-instructions.md opencode.json
.codex/config.toml .aider.conf.yml x.service x.timer crontab x.desktop .htaccess run.sh bin/deploy.bash
x.ps1 x.bat""".split()
QUIET = """
src/a.py README.md docs/x.rst data.csv src/hooks/useThing.ts a/b.c index.html build/x.txt src/__init__.py LICENSE
src/a.json lib/workspace/x.py tests/test_a.py style.css
""".split()


@pytest.mark.parametrize("path", RUNS)
def test_what_runs_later(path: str) -> None:
    assert why_runs_later(path, executable=False, head=b"") is not None
    assert why_runs_later(path.upper(), executable=False, head=b"") is not None


@pytest.mark.parametrize("path", QUIET)
def test_what_does_not(path: str) -> None:
    assert why_runs_later(path, executable=False, head=b"x = 1\n") is None


@pytest.mark.parametrize("head", [b"#!/bin/sh\n", b"\x7fELF\x02", b"MZ\x90", b"\xca\xfe\xba\xbe"])
def test_programs_that_nothing_names(head: bytes) -> None:
    assert why_runs_later("tool", executable=False, head=head) is not None
    assert why_runs_later("src/tool.py", executable=False, head=head) is None  # it runs when somebody runs it
    assert why_runs_later("notes.txt", executable=False, head=head) is not None


def test_whatever_is_executable_runs() -> None:
    for path in QUIET:
        assert why_runs_later(path, executable=True, head=b"") is not None


def test_the_table_has_reasons_and_names() -> None:
    rows = list(table())
    assert len({why for why, _ in rows}) == len(rows) and all(names for _, names in rows)


def test_names_of_many_tools_and_of_none() -> None:
    """Version control, builds, packages, editors, shells, agents: none is missed, alone or in a package's folder."""
    names = (Path(__file__).with_name("names_that_run_later.txt")).read_text().split()
    assert len(names) > 650
    for name in names:
        for path in (name, f"packages/web/{name}"):
            assert path_problem(path) or why_runs_later(path, executable=False, head=b""), path


def test_what_nothing_classifies_runs() -> None:
    for path in (
        "tool.zzz",
        "tool",
        ".toolrc",
        "_toolrc",
        ".tool/a.py",
        "src/.tool/a.js",
        "tool.toml",
        "a/b/tool.yaml",
    ):
        assert why_runs_later(path, executable=False, head=b"") is not None, path


def test_at_most_one_in_twenty_ordinary_edits_is_flagged() -> None:
    """Paths that commits of nine public projects in nine languages changed, without manifests, locks and dot files."""
    paths = (Path(__file__).with_name("ordinary_edits.txt")).read_text().splitlines()
    flagged = [path for path in paths if why_runs_later(path, executable=False, head=b"")]
    assert len(paths) > 600 and len(flagged) <= len(paths) / 20, flagged


def test_three_classes() -> None:
    assert is_source("src/a.py") and is_source("web/index.html") and is_source("config.h.in")
    assert not is_source("doc/a.md") and not is_source("src/a.json") and not is_source("tests/fixtures/a.odd")
    for path in (
        "src/a.json",
        "tests/fixtures/a.odd",
        "man/tool.1",
        ".gitignore",
        "LICENSE.MIT",
        ".github/CONTRIBUTING.md",
    ):
        assert why_runs_later(path, executable=False, head=b"") is None, path


@pytest.mark.parametrize(
    ("path", "target", "runs"),
    [
        (".vscode", "assets/v", True),
        ("sub/.vscode", "assets/v", True),
        ("AGENTS.md", "doc/a.md", True),
        ("hooks", "docs", True),
        ("a.txt", "run.sh", True),
        ("a.txt", "Makefile", True),
        ("current", "v2", True),
        ("README.md", "doc/readme.md", False),
        ("a.py", "src/a.py", False),
    ],
)
def test_links(path: str, target: str, runs: bool) -> None:
    assert (why_link_runs_later(path, target) is not None) is runs
