"""Which files are later run automatically: tools execute or obey their content although no one types their name.

Invariant: three classes. A file *runs by itself* if the table names it, if it is a script, executable or starts as
one, or if nothing says what it is (file_kinds.py): a tool that is not known here may load it. It is *program source*
if its ending is that of a language: it runs when someone runs the project. It is *inert* if nothing runs it. Names are
compared ignoring case, and each name counts by which the file can be reached. The answer depends only on the
change set's bytes and the project's links, so it can be part of the signed Job. Source: docs/spec/8-agents.md,
"Files that run later".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Final

from threegate.core import limits
from threegate.plugins.changes.file_kinds import SETTINGS, ending_of, kind_of
from threegate.plugins.changes.project_paths import collision_key

AGENT: Final = "an agent obeys it"
HOOK: Final = "a hook of git or of another tool"
_TABLE: Final[tuple[tuple[str, str], ...]] = (
    (
        "code that is not text: programs load it, and nobody reads it here",
        """**/__pycache__/** **/*.pyc **/*.pyo **/*.so **/*.so.* **/*.dll **/*.dylib **/*.exe **/*.class **/*.jar
        **/*.war **/*.ear **/*.wasm **/*.node **/*.o **/*.a **/*.lib **/*.elc **/*.beam **/*.luac **/*.rdata
        **/*.rds **/*.pkl **/*.pickle **/*.joblib **/*.pt **/*.ckpt **/*.whl **/*.egg **/*.egg-info/** **/*.deb
        **/*.rpm **/*.apk **/*.msi **/*.com **/*.scr **/*.pif **/*.hta **/*.lnk **/*.url **/*.reg **/*.inf **/*.jnlp
        **/*.docm **/*.xlsm **/*.xlam **/*.pptm **/*.dotm **/*.app/** **/*.bundle/**""",
    ),
    (
        "continuous integration runs it",
        """.github/workflows/** .github/actions/** .github/dependabot.yml .gitlab-ci.yml .gitlab-ci/**
        **/.gitlab-ci.yml .circleci/** .travis.yml **/azure-pipelines* **/bitbucket-pipelines.yml **/jenkinsfile*
        .drone.yml .woodpecker/** .woodpecker.yml .buildkite/** **/appveyor.y*ml **/cloudbuild*.y*ml .cirrus.yml
        .cirrus.star .forgejo/** .gitea/** .teamcity/** **/codemagic.yaml .semaphore/** **/buildspec*.y*ml
        **/wercker.yml **/shippable.yml **/dagger.json **/dangerfile.* **/ci_scripts/** ci/** **/_config.y*ml
        **/zuul.d/** **/concourse*.y*ml **/action.y*ml **/codefresh.y*ml **/sonar-project.properties **/.tekton/**""",
    ),
    (
        HOOK,
        """.githooks/** .husky/** hooks/** scripts/hooks/** **/githooks/** **/git-hooks/** .pre-commit-config.yaml
        .pre-commit-hooks.yaml **/lefthook*.y*ml .lefthook.yml .overcommit.yml .lintstagedrc* **/.gitattributes
        .lefthook/** **/.hgrc **/cvs/** **/hook/build.dart **/hook/link.dart **/pre_gen_project.*
        **/post_gen_project.* **/captainhook.json **/grumphp.y*ml""",
    ),
    (
        "a build or a task runner runs it",
        """**/makefile **/gnumakefile **/bsdmakefile **/*.mk **/makefile.* **/justfile **/.justfile **/taskfile.y*ml
        **/taskfile.dist.y*ml **/rakefile **/*.rake **/dockerfile* **/containerfile* **/*.dockerfile
        **/docker-compose*.y*ml **/compose*.y*ml **/docker-bake.* **/cmakelists.txt **/*.cmake **/cmake*presets.json
        **/meson.build **/meson_options.txt **/meson.options **/*.bazel **/*.bzl **/sconstruct **/sconscript
        **/site_scons/** **/wscript **/*.gradle **/*.gradle.kts **/*.main.kts **/gradlew* **/gradle/**
        **/gradle.properties **/local.properties **/buildsrc/** **/build-logic/** **/pom.xml **/mvnw* **/.mvn/**
        **/build.xml **/ivy*.xml **/lombok.config **/*.sbt **/project/*.scala **/project/*.properties **/build.sc
        **/build.mill **/project.scala **/configure.* **/autogen.* **/*.ac **/*.am **/*.m4 **/procfile*
        **/vagrantfile **/tiltfile **/*.nix **/flake.lock **/noxfile.py **/tasks.py **/tasks/__init__.py
        **/fabfile.py **/fabfile/** **/tox.ini **/tox.toml **/toxfile.py **/dodo.py **/pavement.py **/build.rs
        **/build.zig **/magefile*.go **/magefiles/** **/mage.go **/*.csproj **/*.fsproj **/*.vbproj **/*.props
        **/*.targets **/*.vcxproj **/*.sln **/launchsettings.json **/gulpfile.* **/gruntfile.* **/jakefile.*
        **/cakefile **/herebyfile.* **/mix.exs **/rebar.config* **/config/*.exs **/*.cabal **/cabal.project*
        **/stack.yaml **/setup.hs **/setup.lhs **/shakefile.hs **/package.swift **/package@*.swift **/podfile
        **/fastfile **/fastlane/** **/tuist/** **/earthfile **/mise*.toml **/.mise.toml **/.mise/** **/devbox.json
        **/ansible.cfg **/playbook*.y*ml **/roles/*/tasks/** **/roles/*/handlers/** **/xmake.lua **/premake*.lua
        **/config.nims **/*.nims **/nim.cfg **/dune-project **/makefile.pl **/build.pl **/dist.ini **/cpanfile
        **/project.clj **/profiles.clj **/build.clj **/build.boot **/user.clj **/deps.edn **/bb.edn
        **/shadow-cljs.edn **/snakefile* **/*.smk **/nextflow.config **/dvc.yaml **/mlproject **/build.py
        **/build.jl **/deps/build.jl **/docs/make.jl **/extconf.rb **/mkrf_conf.rb **/guardfile **/capfile
        **/thorfile **/robofile.php **/castor.php **/deploy.php **/phinx.* **/arara.yaml **/latexmkrc **/build.lua
        **/makevars* **/sdkconfig* **/platformio.ini **/boards.txt **/renv/** **/packrat/** **/_targets.r
        **/_quarto.y*ml **/_pkgdown.y*ml **/_bookdown.y*ml **/book.toml **/mkdocs.y*ml **/conf.py **/pelicanconf.py
        **/publishconf.py **/_plugins/** **/antora*.y*ml **/hugo.*ml **/hugo.json **/hugo.toml **/site.y*ml
        **/compile_flags.txt **/compile_commands.json **/binding.gyp **/*.gypi **/ember-cli-build.* **/brocfile.*
        **/brunch-config.* **/gatsby-*.* **/webpack.*.* **/rollup.*.* **/esbuild.*.* **/webpack.*js
        **/config-overrides.js **/truffle*.js **/plopfile.* **/knexfile.* **/ormconfig.* **/codegen.y*ml
        **/turbo.json **/nx.json **/project.json **/workspace.json **/lerna.json **/rush.json **/angular.json
        **/moon.yml **/ecosystem.json **/electron-builder.* **/tauri*.conf.* **/hardhat.* **/foundry.toml
        **/fpm.toml **/dub.json **/shard.yml **/gleam.toml **/alire.toml **/v.mod **/build.yaml **/melos.yaml
        **/skaffold.y*ml **/devspace.y*ml **/garden.y*ml **/helmfile*.y*ml **/pulumi*.y*ml **/cdk*.json **/sam*.toml
        *file.js *file.cjs *file.mjs *file.ts *file.py *file.rb *file.lua *file.coffee *file.php **/guix.scm
        **/manifest.scm **/channels.scm **/project.swift **/workspace.swift **/metadata.rb **/werf*.y*ml
        **/pants*.toml **/build **/workspace **/buck **/waf **/dune **/opam **/configure""",
    ),
    (
        "a package's scripts or settings, which its tools run or obey",
        """**/package.json **/package.json5 **/package.yaml **/.npmrc **/npmrc **/.yarnrc* **/.yarn/** **/.pnpmfile.cjs
        **/pnpmfile.* **/pnpm-workspace.yaml **/bunfig.toml **/deno.json* **/import_map.json **/bower.json
        **/jsr.json **/pyproject.toml **/setup.py **/setup.cfg **/hatch_build.py **/hatch.toml **/pdm_build.py
        **/versioneer.py **/ez_setup.py **/bootstrap.py **/pip.conf **/pip.ini **/.pdm.toml **/pdm.toml **/uv.toml
        **/pixi.toml **/poetry.toml **/manifest.in **/*requirements*.txt **/*requirements*.in **/requirements/**
        **/constraints*.txt **/environment*.y*ml **/meta.yaml **/recipe.yaml **/pipfile **/cargo.toml **/.cargo/**
        **/rust-toolchain* **/go.mod **/go.work **/gemfile* **/gems.rb **/*.gemspec **/*.podspec **/.bundle/**
        **/composer.json **/auth.json **/conanfile.* **/vcpkg*.json **/pubspec*.yaml **/nuget.config
        **/packages.config **/paket.dependencies **/global.json **/dotnet-tools.json **/runtime.txt **/apt.txt
        **/packages.txt **/project.toml **/manifest.toml **/localpreferences.toml **/elm.json **/renovate.json*
        **/node_modules/** **/site-packages/** **/venv/** **/formula/** **/casks/** **/pkgbuild **/apkbuild
        **/*.spec **/*.ebuild **/snapcraft.yaml **/debian/** **/*.opam **/*.rockspec **/*.nimble **/spack.yaml
        **/meta-inf/services/** **/buildout*.cfg **/esy.json **/eas.json""",
    ),
    (
        "a lock file: it says which foreign code is fetched and run",
        """**/*.lock **/package-lock.json **/npm-shrinkwrap.json **/pnpm-lock.yaml **/bun.lockb **/go.sum
        **/go.work.sum **/packages.lock.json **/pdm.lock **/gradle.lockfile **/package.resolved **/pip.lock
        **/conda-lock.yml **/lock.json **/*-lock.json **/*.lock.json **/*.lock.hcl **/pylock*.toml **/modules.txt""",
    ),
    (
        "tests and tools load it without being asked",
        """**/conftest.py **/pytest.ini **/pytest.toml **/*.pth **/sitecustomize.py **/usercustomize.py **/.pythonrc*
        **/.pdbrc* **/.pylintrc **/pylintrc* **/mypy.ini **/.mypy.ini **/.flake8 **/.coveragerc **/*.config.js
        **/*.config.cjs **/*.config.mjs **/*.config.ts **/*.config.mts **/*.config.cts **/*.config.json
        **/*.config.y*ml **/*.conf.js **/*.conf.cjs **/*.conf.mjs **/*.conf.ts **/*.conf.py **/*.conf.json
        **/*-config.js **/*-config.cjs **/.eslintrc* **/.prettierrc* **/.babelrc* **/babel.config.* **/.mocharc*
        **/jest.* **/jest-*.js **/jest-*.ts **/vitest.* **/playwright.* **/cypress.json **/karma.* **/testem.*
        **/wallaby.* **/setuptests.* **/commitlint* **/lint-staged* **/lighthouserc.* **/.nycrc* **/.stylelintrc*
        **/.rspec **/.irbrc **/.pryrc **/spec_helper.rb **/rails_helper.rb **/test_helper.rb **/test_helper.exs
        **/features/support/** **/.swcrc **/tsconfig*.json **/jsconfig*.json **/tslint.json **/biome.json*
        **/dprint.json **/typedoc.json **/nodemon.json **/pm2.json **/phpunit*.xml* **/phpcs.xml* **/psalm.xml*
        **/phpstan*.neon* **/rector.php **/ecs.php **/scoper.inc.php **/pint.json **/behat.y*ml **/codeception.y*ml
        **/infection.json* **/.rubocop.yml **/ruff.toml **/.ruff.toml **/rustfmt.toml **/clippy.toml
        **/analysis_options.yaml **/dart_test.yaml **/flutter_test_config.dart **/checkstyle*.xml **/detekt*.yml
        **/xunit.runner.json **/omnisharp.json **/lit.cfg* **/lit.site.cfg* **/.bashrc **/.profile **/.zshrc
        **/.inputrc **/.gdbinit **/.lldbinit **/gdbinit **/*-gdb.* **/*.dsym/** **/ipython*_config.py
        **/jupyter*_config.* **/gunicorn*conf* **/celeryconfig.py **/locustfile.py **/airflow_local_settings.py
        **/dags/** **/ycm_extra_conf.py **/cookiecutter.json **/copier.y*ml **/cucumber.y*ml *rc.js *rc.cjs *rc.mjs
        *rc.ts **/*.setup.js **/*.setup.ts **/*.preset.js **/*.preset.ts **/*.workspace.ts **/*.workspace.js
        **/pyrightconfig.json **/jasmine.json **/hie.y*ml **/cake.config""",
    ),
    (
        "a shell or an editor loads or runs it when the folder is opened",
        """**/.envrc **/.vscode/** **/.idea/** **/.vs/** **/*.code-workspace **/.devcontainer/** **/.devcontainer.json
        **/.vimrc **/.nvimrc **/.exrc **/_vimrc **/_exrc **/session.vim **/.nvim.lua **/.dir-locals*
        **/dir-locals.el **/.projectile **/.zed/** **/.fleet/** **/*.sublime-project **/*.sublime-build
        **/*.sublime-settings **/*.sublime-commands **/.editorconfig **/.netrwhist **/.tool-versions
        **/.python-version **/.ruby-version **/.node-version **/.nvmrc **/.sdkmanrc **/.autoenv* **/.gitpod.yml
        **/.replit **/replit.nix **/*.desktop **/.project **/.settings/** **/*.run.xml **/nbproject/** **/*.iml
        **/*.ipr **/tasks.vs.json **/launch.vs.json **/autorun.inf **/desktop.ini **/.tmux.conf **/init.vim""",
    ),
    (
        AGENT,
        """**/agents.md **/agent.md **/agents.*.md **/claude.md **/claude.*.md **/gemini.md **/qwen.md **/codex.md
        **/copilot.md **/crush.md **/warp.md **/jules.md **/iflow.md **/grok.md **/conventions.md **/replit.md
        **/.mcp.json **/mcp*.json **/.claude/** **/.codex/** **/.gemini/** **/.qwen/** **/.opencode/**
        **/opencode.json* **/.cursor/** **/.cursorrules **/*.mdc **/.windsurf/** **/.windsurfrules **/.clinerules*
        **/.clinerules/** **/.roo/** **/.roomodes **/.aider* **/.continue/** **/.github/copilot-instructions.md
        **/copilot-instructions.md **/.github/instructions/** **/.github/prompts/** **/.github/agents/**
        **/.github/chatmodes/** **/*.instructions.md **/*.prompt.md **/*.chatmode.md **/*.agent.md **/.junie/**
        **/.kiro/** **/.amazonq/** **/.goosehints **/.agents/** **/crush.json **/.crush.json **/.rules **/llms*.txt
        **/skill.md **/.factory/** **/.augment/** **/.trae/** **/.pi/** **/memory-bank/**""",
    ),
    (
        "a service or a scheduler runs it",
        """**/*.service **/*.timer **/*.socket **/*.path **/crontab* **/cron.d/** **/*.cron **/systemd/**
        **/supervisord.conf **/*.plist **/kustomization.y*ml **/nginx*.conf **/caddyfile **/.htaccess **/.user.ini
        **/php.ini **/web.config **/config.ru **/uwsgi.ini **/serverless.* **/netlify.toml **/vercel.json
        **/now.json **/app.json **/app.yaml **/fly.toml **/render.yaml **/railway.* **/nixpacks.toml **/wrangler.*
        **/firebase.json **/amplify.yml **/appspec.y*ml **/chart.yaml **/values*.yaml **/init.d/** **/rc.local
        **/udev/** **/*.rules **/puma.rb **/unicorn.rb **/k8s/** **/kubernetes/**""",
    ),
)
_SCRIPTS: Final = frozenset(
    "sh bash zsh fish csh tcsh ksh nu ps1 psm1 psd1 bat cmd vbs awk command applescript scpt".split()
)


_PROGRAMS: Final = (b"#!", b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa")


def why_runs_later(path: str, *, executable: bool, head: bytes) -> str | None:
    """Why a file runs by itself, in our words, or None. `head` are its first CHANGE_HEAD_BYTES bytes."""
    name = collision_key(path)
    base = name.rpartition("/")[2]
    ending = ending_of(base)
    if (why := _named(name)) is not None:
        return why
    if ending in _SCRIPTS:
        return "a script"
    if executable:
        return "it is executable"
    kind = kind_of(name)
    if kind is None:
        return _unknown(name, ending)
    if kind != "source" and head.startswith(_PROGRAMS):
        return "it starts as a program or a script"
    return None


def why_link_runs_later(path: str, target: str) -> str | None:
    """Why a link is as good as a file or folder that runs by itself; None for one that is not. `target` is where it
    leads to, from the project's root.
    """
    # A name is used as that of a file and as that of a folder, whatever is behind the link today.
    why = why_runs_later(path, executable=False, head=b"") or _named(f"{collision_key(path)}/-")
    if why is None and target and (found := why_runs_later(target, executable=False, head=b"")) is not None:
        why = f"it leads to {'what runs later' if found.startswith(('a ', 'it ')) else 'such a file'}: {found}"
    return why


PACKAGES: Final = frozenset(
    {"node_modules", "site-packages", "venv", ".venv", ".tox", ".nox", ".git", ".hg", ".jj", ".svn"}
)
"""Folders of package managers and of version control. Links in them lead to sources by design (`npm` workspaces)."""


class LinkNames:
    """Under which other names a file is reached. `links` is path → where it leads to, both from the project's root."""

    def __init__(self, links: Mapping[str, str]) -> None:
        self._into: dict[str, list[str]] = {}
        for link, target in links.items():
            self._into.setdefault(target, []).append(link)

    def why_runs_later(self, path: str, *, executable: bool, head: bytes) -> str | None:
        """Why a file runs by itself under another name than its own; None if it does not."""
        names = [path]
        for name in names:  # which grows: a name may lead through another link
            for other in self._others(name):
                if other not in names:
                    names.append(other)
            if len(names) > limits.CHANGE_LINK_NAMES:
                return f"links lead to it by more than {limits.CHANGE_LINK_NAMES} names"
        found = (why_runs_later(name, executable=executable, head=head) for name in names[1:])
        why = next((why for why in found if why is not None), None)
        return why and f"a link leads to it; by that name: {why}"

    def _others(self, name: str) -> Iterator[str]:
        parts = name.split("/")
        for depth in range(len(parts) + 1):
            for link in self._into.get("/".join(parts[:depth]), ()):
                if not f"{name}/".startswith(f"{link}/"):
                    yield "/".join((link, *parts[depth:]))


def _named(name: str) -> str | None:
    """What the table says of a path."""
    *folders, base = name.split("/")
    named = {number for folder in folders for number in _folders_named(folder)}
    for number, (why, of_base, _, of_path) in enumerate(_patterns()):
        if number in named or of_base.fullmatch(base) or of_path.fullmatch(name):
            return why
    return None


@lru_cache(maxsize=1 << 14)
def _folders_named(folder: str) -> tuple[int, ...]:
    """The rows of the table that a folder's name is in. Most paths of a change share their folders."""
    return tuple(number for number, row in enumerate(_patterns()) if row[2].fullmatch(folder))


def _unknown(name: str, ending: str) -> str:
    """Why a file without a kind counts as running."""
    if any(part.startswith(".") for part in name.split("/")):
        return "the settings of some tool, by its dot"
    if ending in SETTINGS:
        return "settings, outside of the folders of sources, tests and documents: a tool may load it"
    return "nothing here knows what reads such a file"


def is_source(path: str) -> bool:
    """Whether a path that does not run by itself is program source."""
    return kind_of(collision_key(path)) == "source"


_Patterns = tuple[str, re.Pattern[str], re.Pattern[str], re.Pattern[str]]


@cache
def _patterns() -> tuple[_Patterns, ...]:
    """The table compiled, once and only when a change set is read: why, and what a file's own name, the name of a
    folder above it, and its whole path look like.
    """
    return tuple(_compiled(why, names.split()) for why, names in _TABLE)


def _compiled(why: str, names: Iterable[str]) -> _Patterns:
    """``**/`` begins at any depth, ``/**`` ends in whatever is in the folder, and ``*`` is part of one name."""
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    for name in names:
        inner = name.removeprefix("**/").removesuffix("/**")
        pattern = re.escape(inner).replace(r"\*", "[^/]*")
        if name == f"**/{inner}" and "/" not in inner:
            found[0].append(pattern)
        elif name == f"**/{inner}/**" and "/" not in inner:
            found[1].append(pattern)
        else:
            before, behind = "(?:.*/)?" * name.startswith("**/"), "/.*" * name.endswith("/**")
            found[2].append(f"{before}{pattern}{behind}")
    of_base, of_folder, of_path = (re.compile("|".join(patterns) or "(?!)", re.DOTALL) for patterns in found)
    return why, of_base, of_folder, of_path


def table() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The table, for its documentation: why, and the patterns."""
    for why, names in _TABLE:
        yield why, tuple(names.split())
