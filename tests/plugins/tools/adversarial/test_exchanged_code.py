"""Code that a signed command line reaches is exchanged after the signature: what was not signed never runs.

Each way of reaching code is tried on real files. The server's own account can write where it is bound, so it is the
first who would exchange code; the others are local accounts.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import few
from tests.plugins.tools.little_servers import (
    NODE,
    PYTHON,
    described,
    nowhere,
    open_folder,
    pinned_server,
    write_server,
)
from tests.support import Place, make_place
from threegate.core.errors import Refused
from threegate.core.settings import Settings
from threegate.plugins.tools.manifest import Manifest, ServerFolder
from threegate.plugins.tools.manifest import Place as Where
from threegate.plugins.tools.program_tree import program_digests
from threegate.plugins.tools.server_process import Server
from threegate.plugins.tools.server_start import start_server


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


def make(path: Path, text: str = "1\n", mode: int = 0o644) -> Path:
    """A file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def signed(argv: list[object], place: Where = "host", **fields: Any) -> Manifest:
    """A manifest with what is pinned when it is signed."""
    return described(Path("/nonexistent"), argv=tuple(map(str, argv)), place=place, **fields)


def app(folder: Path) -> Path:
    """A script, with a module and a package beside it."""
    make(folder / "app" / "helper.py")
    make(folder / "app" / "package" / "deep.py")
    return make(folder / "app" / "server.py")


def node_app(folder: Path) -> Path:
    make(folder / "package.json", '{"type": "module"}')
    make(folder / "lib" / "helper.js")
    make(folder / "node_modules" / "x" / "index.js")
    return make(folder / "dist" / "index.js")


WAYS: dict[str, tuple[Callable[[Path], tuple[list[object], dict[str, Any]]], str]] = {
    "script": (lambda f: ([PYTHON, app(f)], {}), "app/server.py"),
    "module-beside": (lambda f: ([PYTHON, app(f)], {}), "app/helper.py"),
    "package-beside": (lambda f: ([PYTHON, "-u", app(f)], {}), "app/package/deep.py"),
    "new-module-beside": (lambda f: ([PYTHON, app(f)], {}), "app/json.py"),
    "package-above": (
        lambda f: ([PYTHON, make(f / "p" / "sub" / "__main__.py", "1", make(f / "p" / "__init__.py") and 0o644)], {}),
        "p/util.py",
    ),
    "script-folder": (lambda f: ([PYTHON, app(f).parent], {}), "app/__main__.py"),
    "script-after-options": (lambda f: ([PYTHON, "-W", "ignore", "-Xutf8", "-B", app(f)], {}), "app/helper.py"),
    "module-in-slash": (lambda f: ([PYTHON, "-m", str(app(f))[1:-3].replace("/", ".")], {}), "app/server.py"),
    "relative-to-slash": (lambda f: ([PYTHON, str(app(f))[1:]], {}), "app/helper.py"),
    "pythonpath": (
        lambda f: ([PYTHON, "-m", "server"], {"env": {"PYTHONPATH": f"{app(f).parent}:/x"}}), "app/helper.py",
    ),
    "relative-pythonpath": (
        lambda f: ([PYTHON, "-m", "server"], {"env": {"PYTHONPATH": str(app(f).parent)[1:]}}), "app/helper.py",
    ),
    "inline-code": (lambda f: ([PYTHON, "-c", f"exec(open('{make(f / 'blob')}').read())"], {}), "blob"),
    "inline-search-path": (
        lambda f: ([PYTHON, "-Ic", f"import sys; sys.path.insert(0, '{app(f).parent}'); import helper"], {}),
        "app/helper.py",
    ),
    "app-of-another-module": (lambda f: ([PYTHON, "-m", "uvicorn", "--app-dir", app(f).parent], {}), "app/helper.py"),
    "script-of-another-module": (lambda f: ([PYTHON, "-m", "mcp", "run", f"{app(f)}:mcp"], {}), "app/helper.py"),
    "plugin-folder": (lambda f: (["/usr/bin/true", f"--plugins={app(f).parent}"], {}), "app/helper.py"),
    "relative-plugin-folder": (lambda f: (["/usr/bin/true", "--plugins", str(app(f).parent)[1:]], {}), "app/helper.py"),
    "plugin-file": (lambda f: (["/usr/bin/true", "--plugin", app(f)], {}), "app/helper.py"),
    "config": (lambda f: ([PYTHON, app(f), "--config", make(f / "etc" / "a.toml")], {}), "etc/a.toml"),
    "variable": (lambda f: ([PYTHON, app(f)], {"env": {"CONFIG": str(make(f / "etc" / "a.toml"))}}), "etc/a.toml"),
    "variable-folder": (lambda f: ([PYTHON, app(f)], {"env": {"HOOKS": str(make(f / "h" / "x").parent)}}), "h/new"),
    "first-line": (
        lambda f: ([make(f / "s" / "run", f"#!{make(f / 'i' / 'py', '#!/bin/sh', 0o755)}\n", 0o755)], {}), "i/py",
    ),
    "first-line-options": (
        lambda f: ([make(f / "s" / "run", f"#!/usr/bin/env -S node --require={node_app(f / 'n')}\n", 0o755)], {}),
        "n/lib/helper.js",
    ),
    "first-line-variables": (
        lambda f: (
            [make(f / "s" / "run", f"#!/usr/bin/env -S PYTHONPATH={app(f).parent} {PYTHON}\n", 0o755)], {},
        ),
        "app/helper.py",
    ),
    "beside-the-program": (lambda f: ([make(f / "s" / "run", "#!/bin/sh\n", 0o755)], {}), "s/other"),
    "shell-script": (
        lambda f: ([make(f / "s" / "run", f'#!/bin/sh\nexec {PYTHON} "{app(f)}" "$@"\n', 0o755)], {}), "app/helper.py",
    ),
    "node-script": (lambda f: ([NODE, node_app(f)], {}), "lib/helper.js"),
    "node-without-ending": (lambda f: ([NODE, str(node_app(f))[:-3]], {}), "dist/index.js"),
    "node-modules-above": (lambda f: ([NODE, node_app(f / "a" / "b")], {}), "node_modules/x/index.js"),
    "package-json-above": (lambda f: ([NODE, make(f / "a" / "b" / "x.js")], {}), "a/package.json"),
    "require": (lambda f: ([NODE, "--require", node_app(f / "n"), "-e", "1"], {}), "n/lib/helper.js"),
    "require-short": (lambda f: ([NODE, "-r", node_app(f / "n"), app(f)], {}), "n/lib/helper.js"),
    "require-without-ending": (lambda f: ([NODE, "-r", str(node_app(f / "n"))[:-3], app(f)], {}), "n/dist/index.js"),
    "import-url": (lambda f: ([NODE, f"--import=file://{node_app(f / 'n')}", app(f)], {}), "n/lib/helper.js"),
    "import-escaped-url": (
        lambda f: ([NODE, f"--import=file://{str(node_app(f / 'n')).replace('x', '%78')}", app(f)], {}),
        "n/lib/helper.js",
    ),
    "env-file": (lambda f: ([NODE, "--env-file", make(f / "x" / ".env"), app(f)], {}), "x/.env"),
    "node-options": (
        lambda f: ([NODE, app(f)], {"env": {"NODE_OPTIONS": f"--no-warnings --require '{node_app(f / 'n')}'"}}),
        "n/lib/helper.js",
    ),
    "node-path": (lambda f: ([NODE, app(f)], {"env": {"NODE_PATH": str(node_app(f).parent)}}), "dist/new.js"),
    "perl-include": (lambda f: (["/usr/bin/perl", "-I", make(f / "l" / "X.pm").parent, app(f)], {}), "l/X.pm"),
    "perl-include-short": (lambda f: (["/usr/bin/perl", f"-I{make(f / 'l' / 'X.pm').parent}", app(f)], {}), "l/X.pm"),
    "nested-command": (
        lambda f: (["/usr/bin/true", "--", "python3", "-u", str(make(app(f).with_name("main")))], {}), "app/helper.py",
    ),
    "java": (lambda f: (["/usr/bin/java", "-jar", make(f / "j" / "a.jar")], {}), "j/lib/b.jar"),
    "class-path": (
        lambda f: (["/usr/bin/java", "-cp", f"/x.jar:{make(f / 'j' / 'A.class').parent}", "A"], {}), "j/B.class",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_code_is_pinned(folder: Path, way: str) -> None:
    make_line, exchanged = WAYS[way]
    argv, fields = make_line(folder)
    before = signed(argv, **fields)
    assert program_digests(before) == before.program
    path = folder / exchanged
    make(path, "exchanged", path.stat().st_mode & 0o777 if path.exists() else 0o644)
    assert program_digests(before) != before.program


def link(path: Path, target: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def site(folder: Path) -> Path:
    """A virtual environment's folder for packages; its interpreter is a link to the system's."""
    for name in ("bin", "lib/python3.11/site-packages"):
        (folder / "venv" / name).mkdir(parents=True)
    link(folder / "venv" / "bin" / "python", Path(PYTHON))
    return folder / "venv" / "lib" / "python3.11" / "site-packages"


@pytest.mark.parametrize(
    "kind", ["link", "pth", "pth-relative", "pth-code", "finder", "egg-link", "link-of-npm", "home", "chain"]
)
def test_what_an_installed_tree_leads_to_is_pinned(folder: Path, kind: str) -> None:
    """Editable installs, linked packages, and the Python that a virtual environment was made of."""
    source = app(folder / "src").parent
    python = folder / "venv" / "bin" / "python"
    argv: list[object] = [python, "-m", "server"]
    packages = site(folder)
    if kind == "link":
        link(packages / "server", source)
    elif kind in ("pth", "egg-link"):
        make(packages / f"server.{kind}", f"{source}\n")
    elif kind == "pth-relative":
        make(packages / "server.pth", f"{os.path.relpath(source, packages)}\n")
    elif kind == "pth-code":
        make(packages / "server.pth", f"import sys; sys.path.append('{source}')\n")
    elif kind == "finder":
        make(packages / "__editable___server_finder.py", f"MAPPING: dict[str, str] = {{'server': '{source}'}}\n")
    elif kind == "home":
        (source / "lib").mkdir()
        make(source / "bin" / "python3", mode=0o755)
        make(folder / "venv" / "pyvenv.cfg", f"home = {source}/bin\n")
    elif kind == "chain":
        link(packages / "server", link(folder / "between" / "x", source))
    else:
        script = make(folder / "node_modules" / "a" / "index.js")
        link(folder / "node_modules" / "server", source)
        argv = [NODE, script]
    before = signed(argv)
    assert program_digests(before) == before.program
    make(source / "helper.py", "exchanged")
    assert program_digests(before) != before.program


def test_a_link_that_is_exchanged_is_another_program(folder: Path) -> None:
    one, other = app(folder / "one").parent, app(folder / "other").parent
    used = link(folder / "used", one)
    before = signed([PYTHON, used / "server.py"])
    used.unlink()
    used.symlink_to(other)
    assert program_digests(before) != before.program


# ---- the whole way: signed, exchanged, refused


MARKS = "\nopen({mark!r}, 'w').close()\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def add(place: Place, *words: object, expect: int = 0) -> Any:
    """`threegate tools add little`."""
    key = ("--as", "operator", "--key", str(place.key), "--yes")
    return place.run("tools", "add", "little", *key, *map(str, words), expect=expect)


@pytest.mark.parametrize("where", ["jail", "host"])
@pytest.mark.parametrize("name", ["server.py", "helper.py"])
def test_code_in_a_bound_folder_is_not_run_after_it_was_exchanged(
    place: Place, folder: Path, where: str, name: str
) -> None:
    path = write_server(folder, "import helper")
    make(path.parent / "helper.py")
    add(place, "--bind", path.parent, "--in", where, "--", PYTHON, path)
    place.run("tools", "test", "little", expect=0)
    mark = folder / "mark"
    (path.parent / name).write_text((path.parent / name).read_text() + MARKS.format(mark=str(mark)))
    done = place.run("tools", "test", "little", expect=2)
    assert "its program changed since it was signed" in done.err and not mark.exists()


@pytest.mark.parametrize("where", ["jail", "host"])
@pytest.mark.parametrize("bound", [".", "program", "program/data"])
def test_a_folder_that_the_server_writes_holds_no_code(place: Place, folder: Path, where: str, bound: str) -> None:
    path = write_server(folder)
    (path.parent / "data").mkdir()
    done = add(place, "--bind", f"{folder / bound}:rw", "--in", where, "--", PYTHON, path, expect=2)
    assert "the server may write there" in done.err and len(done.err.splitlines()) == 1
    if bound == "program/data":  # unless it is said to be data: then it is not pinned, and the card says so
        done = add(place, "--bind", f"{folder / bound}:rw", "--data", folder / bound, "--in", where, "--", PYTHON, path)
        assert f"not pinned  | {folder / bound}: data" in done.out
        make(folder / bound / "notes.db")
        place.run("tools", "test", "little", expect=0)


def test_a_named_file_is_pinned_unless_it_is_data(place: Place, folder: Path) -> None:
    path, data = write_server(folder), folder / "data"
    named = make(data / "notes.db")
    words = ("--bind", f"{data}:rw", "--", PYTHON, path, "--db", named)
    assert f"add --data {data}" in add(place, *words, expect=2).err
    missing = data / "new.db"
    done = add(place, *words[:-1], missing, expect=2)
    assert "does not exist yet, and the server may write it" in done.err
    shown = add(place, "--data", named, "--data", missing, *words, missing).out
    assert f"not pinned  | {named}: data" in shown and f"not pinned  | {missing}: data" in shown
    named.write_text("2\n")
    missing.write_text("2\n")
    place.run("tools", "test", "little", expect=0)


def test_a_named_file_elsewhere_is_pinned_and_seen(folder: Path) -> None:
    """As before: a file that is in no bound folder is in the jail, and is what was signed."""
    config = make(folder / "etc" / "little.conf", "quiet")
    path = write_server(folder, "TOOLS[0]['description'] = open(sys.argv[1]).read()")
    manifest = pinned_server(path, argv=(PYTHON, str(path), str(config)))
    assert manifest.tools[0].description == "quiet"
    config.write_text("loud")
    with pytest.raises(Refused) as changed:
        start_server(nowhere(path), Settings(), manifest)
    assert changed.value.code == "tools_changed"


def test_a_path_through_a_data_folder_is_no_data(folder: Path) -> None:
    """A word may go through the folder and out of it."""
    path, data = app(folder), folder / "data"
    make(data / "notes.db")
    before = signed([PYTHON, write_server(folder), "--plugin", f"{data}/../app/server.py"], data=(str(data),))
    (path.parent / "helper.py").write_text("exchanged")
    assert program_digests(before) != before.program


@pytest.mark.parametrize("what", ["program", "program/server.py", "."])
def test_the_code_itself_is_never_data(place: Place, folder: Path, what: str) -> None:
    path = write_server(folder)
    assert "own code" in add(place, "--data", folder / what, "--", PYTHON, path, expect=2).err


@pytest.mark.parametrize("words", [("--data", "notes.db"), ("--data", "")])
def test_data_is_a_full_path(place: Place, folder: Path, words: tuple[str, ...]) -> None:
    assert "give the full path" in add(place, *words, "--", PYTHON, write_server(folder), expect=2).err


# ---- variables


@pytest.mark.parametrize(
    "variable",
    few(
        """LD_PRELOAD ld_library_path BASH_ENV PATH HOME PYTHONSTARTUP PYTHONUSERBASE PYTHONWARNINGS PYTHONBREAKPOINT
    PYTHONPYCACHEPREFIX PYTHONDONTWRITEBYTECODE NODE_COMPILE_CACHE PERL5OPT PERL5DB RUBYOPT JAVA_TOOL_OPTIONS
    _JAVA_OPTIONS JDK_JAVA_OPTIONS DOTNET_STARTUP_HOOKS LUA_INIT LUA_INIT_5_4 R_PROFILE_USER OPENSSL_CONF GCONV_PATH
    GIT_SSH_COMMAND GIT_CONFIG_GLOBAL EDITOR PAGER BROWSER SHELL LESSOPEN XDG_CONFIG_HOME NPM_CONFIG_USERCONFIG
    BUNDLE_GEMFILE QT_PLUGIN_PATH GTK_MODULES BUN_OPTIONS HTTPS_PROXY""".split(),
        4,
    ),
)
def test_a_variable_that_chooses_what_runs_is_refused(place: Place, folder: Path, variable: str) -> None:
    path = write_server(folder)
    assert "controls how programs are started" in add(place, "--env", f"{variable}=x", "--", PYTHON, path, expect=2).err
    assert "may get" in add(place, "--secret", variable, "--", PYTHON, path, expect=2).err


@pytest.mark.parametrize(
    "variable", few(["PYTHONPATH", "NODE_OPTIONS", "NODE_PATH", "CLASSPATH", "PERL5LIB", "RUBYLIB"], 2)
)
def test_a_secret_never_names_code(place: Place, folder: Path, variable: str) -> None:
    """The value of a secret is in no manifest."""
    path = write_server(folder)
    assert "may get" in add(place, "--secret", variable, "--", PYTHON, path, expect=2).err


@pytest.mark.parametrize("where", ["jail", "host"])
def test_no_bytecode_is_written_whatever_the_manifest_says(folder: Path, where: Where) -> None:
    path = write_server(folder, "import helper\nTOOLS[0]['description'] = str(sys.dont_write_bytecode)")
    make(path.parent / "helper.py")
    manifest = pinned_server(path, place=where, env={"PYTHONDONTWRITEBYTECODE": ""})
    assert manifest.tools[0].description == "True" and not (path.parent / "__pycache__").exists()


def test_on_the_host_no_code_is_loaded_from_a_home_that_others_write(folder: Path) -> None:
    """Python and Node.js load from the home folder; /tmp was one, in which every account may write."""
    look = "TOOLS[0]['description'] = json.dumps([os.environ['HOME'], os.stat(os.environ['HOME']).st_mode & 0o777])"
    manifest = pinned_server(write_server(folder, look), place="host")
    home, mode = __import__("json").loads(str(manifest.tools[0].description))
    assert home != "/tmp" and mode == 0o700 and not Path(home).exists()


# ---- others who may write


def shared(path: Path, mode: int) -> Callable[[], None]:
    return lambda: path.chmod(mode)


@pytest.mark.parametrize("what", ["program/server.py", "program", "program/helper.py", "."])
def test_code_that_others_may_write_is_refused(place: Place, folder: Path, what: str) -> None:
    path = write_server(folder)
    make(path.parent / "helper.py")
    add(place, "--", PYTHON, path)
    (folder / what).chmod(0o777)
    done = place.run("tools", "test", "little", expect=2)
    assert f"{(folder / what).resolve()}: everybody may write to it" in done.err and len(done.err.splitlines()) == 1
    place.run("tools", "remove", "little", expect=0)
    assert "everybody may write to it" in add(place, "--", PYTHON, path, expect=2).err


@pytest.mark.root
@pytest.mark.parametrize("what", ["program/server.py", "program", "."])
def test_code_of_another_account_is_refused(folder: Path, what: str) -> None:
    """Also of the account that the server runs as."""
    path = write_server(folder)
    os.chown(folder / what, 65534, 65534)
    with pytest.raises(Refused, match="belongs to nobody") as refused:
        described(path)
    assert refused.value.code == "tools_unsafe"


@pytest.mark.root
def test_code_that_a_group_may_write_is_refused_if_it_has_others(folder: Path) -> None:
    path = write_server(folder)
    path.chmod(0o664)
    described(path)  # the group of root has no other member
    os.chown(path, 0, 65534)
    with pytest.raises(Refused, match="others of its group"):
        described(path)


def test_a_folder_that_is_nobodys_own_is_not_a_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_server(folder)
    monkeypatch.setenv("HOME", str(path.parent))
    with pytest.raises(Refused, match="much more in it"):
        described(path)
    monkeypatch.setenv("HOME", str(path.parent / "alice"))
    with pytest.raises(Refused, match="much more in it"):
        described(path)
    with pytest.raises(Refused, match="much more in it"):
        signed([PYTHON, make(Path("/tmp") / f"threegate-{os.getpid()}.py")])
    (Path("/tmp") / f"threegate-{os.getpid()}.py").unlink()


def test_env_finds_the_pinned_interpreter_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`env` in a first line searches the server's PATH and not that of whoever signed."""
    tools = folder / "bin"
    link(tools / "python3", Path(sys.executable).resolve())
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    path = write_server(folder)
    path.write_text(f"#!/usr/bin/env python3\n{path.read_text()}")
    if Path(sys.executable).resolve() == Path(PYTHON).resolve():
        shutil.copy(PYTHON, tools / "python")
        (tools / "python3").unlink()
        link(tools / "python3", tools / "python")
    manifest = described(path, argv=(str(path),))
    with (
        pytest.raises(Refused, match="is not in a folder of its own"),
        Server(nowhere(path), Settings(), manifest),
    ):
        pass


@pytest.mark.parametrize("path", few(["/usr/lib", "/usr/local/lib", "/etc"], 1))
def test_the_systems_folders_are_never_written(place: Place, folder: Path, path: str) -> None:
    done = add(place, "--bind", f"{path}:rw", "--", PYTHON, write_server(folder), expect=2)
    assert "contains the system's programs" in done.err


@pytest.mark.parametrize("name", [".local", ".node_modules"])
def test_the_home_folder_of_a_jail_is_never_bound(place: Place, folder: Path, name: str, request: Any) -> None:
    """It is /tmp, which begins empty: what is in the one of this machine, everybody may write."""
    path = Path("/tmp") / name
    if not path.exists():
        path.mkdir()
        request.addfinalizer(path.rmdir)
    done = add(place, "--bind", path, "--", PYTHON, write_server(folder), expect=2)
    assert "home folder, from where programs load code" in done.err


def test_the_lock_of_an_environment_that_uv_made_is_no_code(folder: Path) -> None:
    """It is there for everybody in each; without an environment it is a file like any other."""
    site(folder)
    make(folder / "venv" / ".lock", mode=0o666)
    argv: list[object] = [folder / "venv" / "bin" / "python", "-m", "server"]
    with pytest.raises(Refused, match="everybody may write"):
        signed(argv)
    make(folder / "venv" / "pyvenv.cfg", "home = /usr/bin\n")
    signed(argv)


@pytest.mark.parametrize(
    "words",
    [
        ["uv", "--directory", "/srv/x", "run", "server"], ["npm", "--prefix", "/srv/x", "start"],
        ["poetry", "run", "x"],
        ["python3", "-m", "pipx", "run", "x"], ["python3", "-Im", "uv", "tool", "run", "x"], ["cargo", "run"],
        ["/usr/bin/nice", "server"], ["timeout", "9", "server"], ["make", "-C", "/srv/x"],
    ],
)  # fmt: skip
def test_a_program_that_starts_another_one_is_refused(place: Place, words: list[str]) -> None:
    assert "tools add" not in add(place, "--", *words, expect=2).out


def test_a_folder_to_work_on_needs_no_word(folder: Path) -> None:
    """What was never code is as before: the folder of files that a server is for."""
    data = folder / "data"
    make(data / "notes.txt")
    script = make(folder / "node_modules" / "files" / "index.js")
    bound = (ServerFolder(str(data), True),)
    for argv in ([NODE, script, data], [NODE, "--no-warnings", script, data], [PYTHON, "-I", "-c", "1", data]):
        before = signed(argv, "jail", binds=bound)
        make(data / "new.txt")
        assert program_digests(before) == before.program and str(data) not in before.program
