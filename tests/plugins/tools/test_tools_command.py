"""An operator adds a server in its jail, sees all of it, signs what changed in it, and removes it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.agents.people import Person
from tests.plugins.tools.little_servers import PYTHON, write_server


def refused(person: Person, *words: str, exit_code: int = 2) -> str:
    """The one line of a command that refuses."""
    done = person.threegate("tools", *words)
    assert done.returncode == exit_code, (done.stdout, done.stderr)
    (line,) = done.stderr.splitlines()
    return line


def answered(person: Person, *words: str) -> Any:
    done = person.threegate("tools", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.jail
def test_a_server_is_added_shown_changed_and_removed(somebody: Person, folder: Path) -> None:
    path = write_server(folder)
    command = ("--", PYTHON, str(path))
    unsigned = somebody.threegate("tools", "add", "notes", *command)
    assert unsigned.returncode == 2 and "--yes" in unsigned.stderr
    assert answered(somebody, "list") == {"servers": []}
    done = somebody.threegate("tools", "add", "notes", "--env", "MODE=quiet", "--yes", *command)
    assert done.returncode == 0, done.stderr
    for line in (
        "a jail of its own",
        "network: none",
        "Say it again.",
        "MODE=quiet",
        "notes__echo",
        "claims",
    ):
        assert line in done.stdout, line
    (row,) = answered(somebody, "list")["servers"]
    (event,) = somebody.events("tools_added")
    assert event["files"] == {"tools/notes.json": row["manifest_sha256"]} and event["server"] == "notes"
    assert event["key"].startswith("SHA256:") and event["tools"] == 1 and "hosts" not in event
    file = somebody.workspace / "tool-exec" / "tools" / "notes.json"
    assert json.loads(file.read_bytes())["env"] == {"MODE": "quiet"} and file.stat().st_mode & 0o777 == 0o600
    assert answered(somebody, "test", "notes")["tools"] == ["echo"]
    assert "looks like" in refused(somebody, "add", "n0tes", "--yes", *command)
    assert "already added; to" in refused(somebody, "add", "notes", "--yes", *command)
    assert answered(somebody, "refresh", "notes")["changed"] == []

    write_server(folder, "TOOLS[0]['description'] = 'Say it to \\u202everyone.'")
    assert "tools refresh notes" in refused(somebody, "test", "notes")
    done = somebody.threegate("tools", "refresh", "notes")
    assert done.returncode == 2 and f"program {folder}" in done.stdout
    assert "everyone" not in done.stdout, "a changed program is started only when its operator says so"
    done = somebody.threegate("tools", "refresh", "notes", "--yes")
    assert done.returncode == 0 and "everyone" in done.stdout and "\u202e" not in done.stdout
    (again,) = somebody.events("tools_refreshed")
    assert again["before_sha256"] == row["manifest_sha256"] and again["key"] == event["key"]
    assert again["changed"][0] == "tool echo: description"
    assert answered(somebody, "show", "notes")["manifest_sha256"] == again["files"]["tools/notes.json"]
    assert "Say it to" in somebody.threegate("tools", "show", "notes").stdout
    assert somebody.threegate("audit", "verify").returncode == 0
    lines = json.loads(somebody.threegate("doctor", "--no-probes", "--json").stdout)["lines"]
    assert [line["state"] for line in lines if line["name"] == "tools"] == ["ok"]

    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"quiet", b"noisy"))
    assert "differs from what the trail recorded" in refused(somebody, "test", "notes")
    assert somebody.threegate("audit", "verify").returncode != 0
    file.write_bytes(whole)
    assert answered(somebody, "remove", "notes") == {"removed": "notes"} and not file.exists()
    assert "no such server" in refused(somebody, "remove", "notes")
    assert somebody.threegate("audit", "verify").returncode == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["2notes"], "not a valid server name"),
        (["no.tes"], "not a valid server name"),
        (["n" * 65], "not a valid server name"),
        (["Three_Gate"], "looks like threegate"),
        (["CORE"], "looks like core"),
        (["no-te-"], "not a valid server name"),
        (["threegat3"], "added"),
        (["thr-eegate"], "looks like threegate"),
        (["c0re"], "looks like core"),
        (["notes", "--in", "era"], "no image; name one with --image"),
        (["notes", "--in", "moon"], "must be jail, era or host"),
        (["notes", "--image", "x"], "only with --in era"),
        (["notes", "--in", "era", "--allow", "a.example.com"], "has no network"),
        (["notes", "--in", "era", "--secret", "TOKEN"], "keeps a container's variables on its disk"),
        (["notes", "--in", "era", "--account", "nobody"], "runs as nobody"),
        (["notes", "--allow", "https://x.org"], "not a host name"),
        (["notes", "--bind", "/no/such"], "no such folder"),
        (["notes", "--bind", "/"], "contains"),
        (["notes", "--env", "LD_PRELOAD=/x"], "how programs are started"),
        (["notes", "--env", "X"], "NAME=VALUE"),
        (["notes", "--secret", "a b"], "not the name of a variable"),
        (["notes", "--secret", "TOKEN"], "secrets.TOKEN"),
    ],
)
@pytest.mark.jail
def test_what_cannot_be_is_said_in_one_line(words: list[str], why: str, folder: Path, plain_person: Person) -> None:
    done = plain_person.threegate("tools", "add", *words, "--yes", "--", PYTHON, str(write_server(folder)))
    if why == "added":
        assert done.returncode == 0  # a 3 is no e to a reader
        return
    assert (
        done.returncode == (3 if why == "secrets.TOKEN" else 2)
        and why in done.stderr
        and len(done.stderr.splitlines()) == 1
    )
    assert not (plain_person.workspace / "tool-exec" / "tools" / "notes.json").exists()


LONG = "My_Notes-" + "a" * 55


@pytest.mark.jail
def test_a_server_has_its_usual_name(folder: Path, plain_person: Person) -> None:
    """Also one that an operation of a proposal has, and the longest; what looks the same is refused."""
    program = ("--", PYTHON, str(write_server(folder)))
    for name in ("git", LONG):
        done = plain_person.threegate("tools", "add", name, "--yes", *program)
        assert done.returncode == 0, done
        done = plain_person.threegate("tools", "test", name)
        assert done.returncode == 0, done
    listed = plain_person.threegate("tools", "list").stdout
    assert "git" in listed and LONG in listed
    assert re.search(rf"{LONG[:14]}__echo_[0-9a-f]{{6}}$", plain_person.threegate("tools", "show", LONG).stdout, re.M)
    for name, like in (("Git", "git"), ("g_it", "git"), (LONG.lower(), LONG), (LONG.replace("_", ""), LONG)):
        done = plain_person.threegate("tools", "add", name, "--yes", *program)
        assert done.returncode == 2 and f"looks like the server {like}" in done.stderr, done
    assert plain_person.threegate("audit", "verify").returncode == 0


def test_what_a_server_lacks_is_named(folder: Path, plain_person: Person) -> None:
    """Its own interpreter, and the container that would have it; not a package that it has no use for."""
    container = "or add the server in a container that has it: --in era --image IMAGE\n"
    script = folder / "server"
    script.write_text("#!/usr/bin/env nosuchruby\n")
    script.chmod(0o755)
    for words, what in (
        ([str(script)], f"{script}: needs the interpreter nosuchruby, which is not installed; install nosuchruby, "),
        (["nosuchruby", str(script)], "nosuchruby: missing or not a program; install it first, "),
    ):
        done = plain_person.threegate("tools", "add", "notes", "--yes", "--", *words)
        assert (done.returncode, done.stderr) == (3, f"threegate: {what}{container}")


def test_on_the_host_without_an_account_it_has_the_daemons_rights(somebody: Person, folder: Path) -> None:
    done = somebody.threegate("tools", "add", "notes", "--in", "host", "--yes", "--", PYTHON, str(write_server(folder)))
    assert done.returncode == 0 and "runs with the daemon's rights" in done.stdout.replace("\n", " ")
    lines = json.loads(somebody.threegate("doctor", "--no-probes", "--json").stdout)["lines"]
    (line,) = [line for line in lines if line["name"] == "tools"]
    assert line["state"] == "warning" and "daemon's rights" in line["seen"]


def test_a_server_that_tells_its_secret_is_not_pinned(somebody: Person, folder: Path) -> None:
    token = folder / "token"
    token.write_text("SECRET-VALUE\n")
    token.chmod(0o644)
    somebody.settings(f'\n[secrets.TOKEN]\nfile = "{token}"\n')
    path = write_server(folder, "TOOLS[0]['description'] = os.environ['TOKEN']")
    words = ("add", "notes", "--secret", "TOKEN", "--yes", "--", PYTHON, str(path))
    line = refused(somebody, *words)
    assert "reports the value of a secret" in line and "SECRET-VALUE" not in line
    path = write_server(folder, "sys.stderr.write(os.environ['TOKEN']); sys.stderr.flush(); os._exit(1)", "loud.py")
    line = refused(somebody, *words[:-1], str(path), exit_code=3)
    assert "[secret]" in line and "SECRET-VALUE" not in line
    encoded = "__import__('base64').b64encode(b'x' + os.environ['TOKEN'].encode()).decode()"
    path = write_server(folder, f"TOOLS[0]['description'] = {encoded}", "encoded.py")
    assert "reports the value of a secret" in refused(somebody, *words[:-1], str(path))


def test_a_secret_that_could_not_be_masked_is_refused_when_it_is_set(somebody: Person, folder: Path) -> None:
    token = folder / "token"
    token.write_text("q7-_z\n")
    token.chmod(0o644)
    somebody.settings(f'\n[secrets.TOKEN]\nfile = "{token}"\n')
    words = ("add", "notes", "--secret", "TOKEN", "--yes", "--", PYTHON, str(write_server(folder)))
    line = refused(somebody, *words, exit_code=3)
    assert "secrets.TOKEN names has fewer than 6 characters" in line and "q7-_z" not in line


def test_a_word_that_is_longer_than_any_path_is_no_file(folder: Path, plain_person: Person) -> None:
    """Code on a command line is data of the program: it is pinned with the line, and looked for on no disk."""
    code = f"exec(open({str(write_server(folder))!r}).read())  # {'x' * 3000}"
    done = plain_person.threegate("tools", "add", "notes", "--yes", "--bind", str(folder), "--", PYTHON, "-c", code)
    assert done.returncode == 0, done.stderr
