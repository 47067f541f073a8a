"""Which files are later run automatically: tools execute their content although no one types their name.

Invariant: a closed table over spellings, and a closed list of harmless names. A file in neither that is
executable or starts as a script is assumed to run. Names are compared ignoring case. The answer depends only
on the change set's bytes, so it can be part of the signed Job. Source: docs/spec/8-agents.md, "Screen".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from threegate.changes.path_rules import collision_key

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_BASES: Final = frozenset({"build", "workspace"})
"""Files of Bazel: the names are those of folders as well, so they count where they are the file itself."""
_TABLE: Final[tuple[tuple[str, str], ...]] = (
    (
        "continuous integration runs it",
        """.github/workflows/** .github/actions/** .github/dependabot.yml .gitlab-ci.yml .gitlab-ci/** **/.gitlab-ci.yml
        .circleci/** .travis.yml azure-pipelines*.yml bitbucket-pipelines.yml **/jenkinsfile* .drone.yml .woodpecker/**
        .woodpecker.yml .buildkite/** appveyor.yml .appveyor.yml cloudbuild.yaml .cirrus.yml .forgejo/** .gitea/** .teamcity/**
        codemagic.yaml .semaphore/** buildspec.yml""",  # noqa: E501
    ),
    (
        "a hook of git or of another tool",
        """.githooks/** .husky/** hooks/** scripts/hooks/** **/githooks/** **/git-hooks/** .pre-commit-config.yaml .pre-commit-hooks.yaml lefthook.yml .lefthook.yml
        lefthook-local.yml .overcommit.yml .lintstagedrc* **/.gitattributes .lefthook/**""",  # noqa: E501
    ),
    (
        "a build or a task runner runs it",
        """**/makefile **/gnumakefile **/*.mk **/makefile.* **/justfile **/.justfile **/taskfile.y*ml **/rakefile **/*.rake
        **/dockerfile* **/containerfile* **/*.dockerfile **/docker-compose*.y*ml **/compose*.y*ml **/cmakelists.txt **/*.cmake
        **/meson.build **/build.bazel **/workspace.bazel **/module.bazel **/*.bzl **/sconstruct **/sconscript
        **/wscript **/build.gradle* **/settings.gradle* **/gradlew* **/gradle/** **/gradle.properties **/pom.xml **/mvnw* **/.mvn/**
        **/build.xml **/build.sbt **/project/*.sbt **/configure **/configure.ac **/*.am **/procfile* **/vagrantfile **/tiltfile
        **/*.nix **/flake.lock **/noxfile.py **/tasks.py **/fabfile.py **/tox.ini **/dodo.py **/build.rs **/build.zig
        **/magefile.go **/*.csproj **/*.fsproj **/*.vbproj **/*.props **/*.targets **/*.vcxproj **/*.sln **/gulpfile.*
        **/gruntfile.* **/mix.exs **/*.cabal **/setup.hs **/package.swift **/podfile **/fastfile **/earthfile **/mise.toml **/.mise.toml
        **/.mise/** **/devbox.json **/ansible.cfg **/playbook*.y*ml""",  # noqa: E501
    ),
    (
        "a package's scripts or settings, which its tools run or obey",
        """**/package.json **/.npmrc **/.yarnrc* **/.yarn/** **/.pnpmfile.cjs **/pnpm-workspace.yaml **/bunfig.toml **/deno.json*
        **/pyproject.toml **/setup.py **/setup.cfg **/hatch_build.py **/hatch.toml **/pip.conf **/.pdm.toml **/pdm.toml **/uv.toml
        **/manifest.in **/requirements*.txt **/requirements/*.txt **/constraints*.txt **/environment.y*ml **/pipfile
        **/cargo.toml **/.cargo/** **/rust-toolchain* **/go.mod **/go.work **/gemfile **/*.gemspec **/.bundle/** **/composer.json
        **/conanfile.* **/vcpkg.json **/pubspec.yaml **/nuget.config **/paket.dependencies **/global.json""",  # noqa: E501
    ),
    (
        "a lock file: it says which foreign code is fetched and run",
        """**/*.lock **/package-lock.json **/npm-shrinkwrap.json **/pnpm-lock.yaml **/bun.lockb **/go.sum **/go.work.sum
        **/packages.lock.json **/pdm.lock **/gradle.lockfile **/package.resolved **/pip.lock **/conda-lock.yml""",
    ),
    (
        "tests and tools load it without being asked",
        """**/conftest.py **/pytest.ini **/*.pth **/sitecustomize.py **/usercustomize.py **/.pythonrc*
        **/.pylintrc **/pylintrc **/mypy.ini **/.mypy.ini **/.flake8 **/.coveragerc **/*.config.js **/*.config.cjs **/*.config.mjs
        **/*.config.ts **/*.config.mts **/*.config.cts **/.eslintrc* **/.prettierrc* **/.babelrc* **/babel.config.* **/.mocharc*
        **/.nycrc* **/.stylelintrc* **/.rspec **/.irbrc **/.pryrc **/spec_helper.rb **/.swcrc **/tsconfig*.json **/nodemon.json
        **/phpunit.xml* **/.rubocop.yml **/ruff.toml **/.ruff.toml **/.bashrc **/.profile **/.zshrc **/.inputrc **/.gdbinit **/.lldbinit""",  # noqa: E501
    ),
    (
        "a shell or an editor loads or runs it when the folder is opened",
        """**/.envrc **/.vscode/** **/.idea/** **/.vs/** **/*.code-workspace **/.devcontainer/** **/.devcontainer.json **/.vimrc **/.nvimrc
        **/.exrc **/.nvim.lua **/.dir-locals* **/.projectile **/.zed/** **/.fleet/** **/*.sublime-project **/.editorconfig **/.netrwhist
        **/.tool-versions **/.python-version **/.ruby-version **/.node-version **/.nvmrc **/.sdkmanrc **/.autoenv* **/.gitpod.yml
        **/.replit **/replit.nix **/*.desktop **/.project **/.settings/**""",  # noqa: E501
    ),
    (
        "an agent obeys it",
        """**/agents.md **/agents.override.md **/claude.md **/claude.local.md **/gemini.md **/qwen.md **/.mcp.json **/mcp.json **/.claude/**
        **/.codex/** **/.gemini/** **/.qwen/** **/.opencode/** **/opencode.json* **/.cursor/** **/.cursorrules **/.windsurf/**
        **/.windsurfrules **/.clinerules* **/.clinerules/** **/.roo/** **/.roomodes **/.aider* **/.continue/** **/.github/copilot-instructions.md
        **/.github/instructions/** **/.github/prompts/** **/.github/agents/** **/.junie/** **/.kiro/** **/.amazonq/** **/.goosehints
        **/.agents/** **/crush.json **/.crush.json **/.rules **/llms.txt **/skill.md **/.factory/** **/.augment/** **/.trae/** **/.pi/**""",  # noqa: E501
    ),
    (
        "a service or a scheduler runs it",
        """**/*.service **/*.timer **/*.socket **/*.path **/crontab **/cron.d/** **/*.cron **/systemd/** **/supervisord.conf
        **/*.plist **/kustomization.yaml **/nginx*.conf **/.htaccess **/web.config **/serverless.y*ml
        **/netlify.toml **/vercel.json **/fly.toml **/render.yaml **/wrangler.toml""",  # noqa: E501
    ),
)
_CODE: Final = frozenset(
    """py pyi js mjs cjs jsx ts mts cts tsx rb pl pm php lua r jl go rs c h cc cpp cxx hpp hh java kt kts
    scala swift m mm cs fs vb dart ex exs erl hrl clj cljs hs ml mli elm vue svelte sql sol zig nim d pas
    f90 toml yaml yml ini cfg conf properties ipynb graphql proto tex bib scss sass less""".split()
)
"""Suffixes of code and settings that run when someone runs the project: they are the usual content of a
change.
"""
_SCRIPTS: Final = frozenset("sh bash zsh fish csh ksh ps1 psm1 bat cmd vbs awk command applescript".split())


def why_runs_later(path: str, *, executable: bool, head: bytes) -> str | None:
    """Why a file runs by itself, in words of ours; None for one that does not. `head` are its first
    CHANGE_HEAD_BYTES bytes.
    """
    name = collision_key(path)
    for why, spec in _specs():
        if spec.match_file(name):
            return why
    base = name.rpartition("/")[2]
    ending = base.rpartition(".")[2] if "." in base.lstrip(".") else ""
    if ending in _SCRIPTS:
        return "a script"
    starts_as_program = head.startswith((b"#!", b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe"))
    if base in _BASES:
        return "a build or a task runner runs it"
    if executable:
        return "it is executable"
    if starts_as_program and ending not in _CODE:
        return "it starts as a program or a script"
    return None


@cache
def _specs() -> tuple[tuple[str, GitIgnoreSpec], ...]:
    """The table compiled; 20 ms, and only where a change set is looked at."""
    from pathspec import GitIgnoreSpec

    lines = ((why, [f"/{line}" for line in names.split()]) for why, names in _TABLE)
    return tuple((why, GitIgnoreSpec.from_lines(patterns)) for why, patterns in lines)


def table() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The table, for its documentation: why, and the patterns."""
    for why, names in _TABLE:
        yield why, tuple(names.split())
