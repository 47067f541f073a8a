"""What an agent sees of a project: secrets are hidden and named, a person decides once, and all else is there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import few
from tests.plugins.agents.people import Person, as_account
from tests.plugins.agents.person_at_terminal import on_terminal

TOKEN = "ghp_" + "n4Kd9Zq2Lw8Xr5Tb7Vm3Yc6Hj1Gf0SpQaRuE"
OTHER = "ghp_" + "Q7Rm2Xc8Vb4Nl1Kj6Hg3Fd9Sa5Pz0OiUyTrE"
PASSWORD = "x7Kp2mQ9vL3z"
NEVER = ["--propose", "never"]


def build(who: Person, files: dict[str, str], *, git: bool = True) -> None:
    """Put files into their project, all of them in git."""
    for path, text in files.items():
        (who.project / path).parent.mkdir(parents=True, exist_ok=True)
        (who.project / path).write_text(text)
    who.own()
    if git:
        subprocess.run(
            "git init -q . && echo .env >.git/info/exclude && git add -A && "
            "git -c user.name=a -c user.email=a@b commit -qm a",
            shell=True, cwd=who.project, check=True, env=who.environ(), **as_account(who.account),
        )  # fmt: skip


def key() -> str:
    return subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, check=True, text=True).stdout


def suspicious(who: Person) -> None:
    """A project with one file of each kind."""
    build(
        who,
        {
            "config/prod.yml": f"a: 1\ntoken: {TOKEN}\n",
            "src/settings.py": f'DB_PASSWORD = "{PASSWORD}"\n',
            "tests/key.pem": key(),
            "src/key.pem": key(),
            **{f"deploy/{number:02}.sh": f"X={TOKEN}\n" for number in range(12)},
        },
    )


HIDDEN = [".env", "config/prod.yml", *(f"deploy/{number:02}.sh" for number in range(12)), "src/key.pem"]


def named(said: str) -> list[str]:
    return said.partition("hidden from the agent: ")[2].partition(";")[0].split(", ")


def test_without_a_terminal_what_is_certain_is_hidden_and_each_name_is_printed(somebody: Person) -> None:
    suspicious(somebody)
    (somebody.project / "sub" / ".git").mkdir(parents=True)
    somebody.own()
    done = somebody.run(
        "/bin/sh", "-c", "find . -type f -not -path './.git/*' | sort; git status --short", options=NEVER
    )
    there = ["./README", "./app.py", "./src/settings.py", "./tests/key.pem"]
    assert done.stdout.splitlines() == there, done
    assert named(done.stderr) == HIDDEN
    assert "not in its copy: sub/.git (a repository of its own)" in done.stderr
    seen = "the agent sees what may be secrets: src/settings.py:1 (password), tests/key.pem:1 (private-key)"
    assert seen in done.stderr
    assert TOKEN not in done.stderr and PASSWORD not in done.stderr
    assert somebody.events("findings_decided") == []
    assert not (somebody.workspace / "tool-exec" / "findings.json").exists()


@pytest.mark.slow
def test_a_key_that_is_not_tracked_is_hidden_wherever_it_is(user: Person) -> None:
    build(user, {"tests/old.pem": key()})
    (user.project / "tests" / "mine.pem").write_text(key())
    user.own()
    done = user.run("ls", "tests", options=NEVER)
    assert done.stdout == "old.pem\n" and named(done.stderr) == [".env", "tests/mine.pem"]


@pytest.mark.slow
def test_a_person_at_a_terminal_decides_once(user: Person) -> None:
    """The answer is for this value; with another one there is another question."""
    build(user, {"config/prod.yml": f"token: {TOKEN}\n", "src/settings.py": f'DB_PASSWORD = "{PASSWORD}"\n'})
    show = ["/bin/sh", "-c", "cat config/prod.yml src/settings.py; echo done"]
    with on_terminal(user, *show) as screen:
        screen.wait_for(b"Hide config/prod.yml? [Y/n]")
        assert b"config/prod.yml:1" in screen.seen and b"token: [github-token]" in screen.seen
        screen.press(b"what\n")
        screen.wait_for(b"[Y/n]", count=2)
        screen.press(b"n\n")
        screen.wait_for(b"Show src/settings.py? [Y/n]")
        screen.press(b"no\n")
        assert screen.end() == 0
        assert TOKEN.encode() in screen.seen and PASSWORD.encode() not in screen.seen
    [event] = user.events("findings_decided")
    assert (event["root"], len(event["hidden"]), len(event["shown"])) == (str(user.project), 1, 1)
    kept = user.workspace / "tool-exec" / "findings.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    trail = (user.workspace / "tool-exec" / "audit" / "trail.jsonl").read_text()
    assert not any(secret in text for secret in (TOKEN, PASSWORD) for text in (kept.read_text(), trail))
    assert user.threegate("audit", "verify").returncode == 0
    again = user.run(*show, options=NEVER)
    assert again.stdout == f"token: {TOKEN}\ndone\n" and named(again.stderr) == [".env", "src/settings.py"]
    with on_terminal(user, "true") as screen:
        assert screen.end() == 0 and b"[Y/n]" not in screen.seen
    build(user, {"config/prod.yml": f"token: {OTHER}\n"}, git=False)
    assert OTHER not in user.run(*show, options=NEVER).stdout
    with on_terminal(user, *show) as screen:
        screen.wait_for(b"Hide config/prod.yml? [Y/n]")
        screen.press(b"\n")
        screen.end()
        assert OTHER.encode() not in screen.seen
    assert [len(event["hidden"] or ()) for event in user.events("findings_decided")] == [1, 1]
    kept.write_text(kept.read_text().replace("hide", "show"))
    assert user.threegate("audit", "verify").returncode != 0


def test_a_person_may_answer_for_each_file(user: Person) -> None:
    build(user, dict.fromkeys(("a.yml", "b.yml"), f"token: {TOKEN}\n"))
    with on_terminal(user, "/bin/sh", "-c", "ls *.yml") as screen:
        screen.wait_for(b"Hide these 2 files? [Y/n/each]")
        screen.press(b"e\n")
        screen.wait_for(b"Hide a.yml?")
        screen.press(b"y\n")
        screen.wait_for(b"Hide b.yml?")
        screen.press(b"n\n")
        assert screen.end() == 0 and b"[Hb.yml\r\n" in screen.seen and b"a.yml\r\n" not in screen.seen


def test_an_answer_that_was_wrong_can_be_taken_back(user: Person) -> None:
    build(user, {"prod.yml": f"token: {TOKEN}\n", "settings.py": f'DB_PASSWORD = "{PASSWORD}"\n'})
    ask = ["project", "survey", str(user.project), "--ask"]
    first = [(b"Hide prod.yml?", b"n"), (b"Show settings.py?", b"y")]
    second = [(b"Show these 2 files?", b"each"), (b"Show prod.yml?", b"n"), (b"Show settings.py?", b"y")]
    for number, (steps, how) in enumerate(((first, b"shown   prod.yml:1"), (second, b"hidden  prod.yml:1")), 1):
        with on_terminal(user, words=ask) as screen:
            for question, answer in steps:
                screen.wait_for(question)
                screen.press(answer + b"\n")
            assert screen.end() == 0 and how in screen.seen, screen.seen
        assert len(user.events("findings_decided")) == number
    done = user.threegate(*ask)
    assert (done.returncode, done.stderr) == (2, "threegate: --ask asks a person: use it in a terminal\n")


@pytest.mark.slow
def test_a_tracked_file_that_is_a_secret_by_its_name_is_asked_about(user: Person) -> None:
    """In most projects it is in no repository, and then there is nothing to ask; those of a parser's tests are."""
    build(user, {"tests/.env.basic": "A=1\n"})
    with on_terminal(user, "cat", "tests/.env.basic") as screen:
        screen.wait_for(b"Hide tests/.env.basic? [Y/n]")
        screen.press(b"n\n")
        assert screen.end() == 0 and b"A=1" in screen.seen
    done = user.run("cat", "tests/.env.basic", options=NEVER)
    assert done.stdout == "A=1\n" and named(done.stderr) == [".env"]
    assert "the agent sees what may be secrets: tests/.env.basic (by its name)" in done.stderr


@pytest.mark.slow
def test_a_run_that_is_stopped_at_the_question_decides_nothing(user: Person) -> None:
    build(user, {"a.yml": f"token: {TOKEN}\n"})
    with on_terminal(user, "true") as screen:
        screen.wait_for(b"Hide a.yml? [Y/n]")
        screen.process.terminate()
        assert screen.end() != 0
    assert user.events("findings_decided") == [] == user.events("agent_started")


def test_answers_that_somebody_changed_are_refused(user: Person) -> None:
    kept = user.workspace / "tool-exec" / "findings.json"
    kept.write_text("{}\n")
    user.own()
    done = user.run("true")
    assert done.returncode == 2 and f"{kept}: cannot be read" in done.stderr
    [line] = done.stderr.splitlines()
    assert "remove it" in line


def test_a_survey_without_a_run(user: Person) -> None:
    suspicious(user)
    done = user.threegate("project", "survey", str(user.project))
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and f"{len(HIDDEN)} are hidden from it" in lines[0], done
    assert [line.split()[1].partition(":")[0] for line in lines if line.startswith("hidden")] == HIDDEN
    assert any(
        line.split() == ["shown", "src/settings.py:1", "password", "DB_PASSWORD", "=", '"[password]"'] for line in lines
    )
    found = json.loads(user.threegate("project", "survey", str(user.project), "--json").stdout)
    assert [row["path"] for row in found["hidden"]] == HIDDEN
    [row] = [row for row in found["findings"] if row["path"] == "config/prod.yml"]
    assert row == {
        "path": "config/prod.yml", "line": 2, "kind": "github-token", "excerpt": "token: [github-token]",
        "confidence": "high", "hidden": True, "decided": False,
    }  # fmt: skip
    assert TOKEN not in done.stdout and PASSWORD not in done.stdout
    with_ = user.threegate("project", "survey", str(user.project), "--with", "deploy")
    assert len([line for line in with_.stdout.splitlines() if line.startswith("hidden")]) == 3
    assert not list((user.workspace / "tool-exec").glob("agents/*"))


def test_an_excerpt_has_nothing_of_any_secret(user: Person) -> None:
    """Neither of the one that was found nor of its neighbours on the line."""
    words = [TOKEN, OTHER, "Zx9Yw8Vu7Ts6Rq5Pz4", PASSWORD]
    build(user, {"one": f"a {words[0]} password={words[3]} {words[1]} k={words[2]} " * 3 + "\n"})
    said = user.threegate("project", "survey", str(user.project), "--json").stdout
    assert json.loads(said)["findings"]
    for word in words:
        for begin in range(len(word) - 6):
            assert word[begin : begin + 6] not in said, word


@pytest.mark.parametrize("folder", few(["db", "data", "database", "backups", "secrets", "credentials"], 1))
def test_ordinary_folders_are_seen_changed_and_proposed(user: Person, folder: str) -> None:
    """Field script 09: nothing but a new file below such a folder was lost without a word."""
    build(user, {f"{folder}/1.rb": "class A;end\n"})
    script = f"mkdir -p {folder}/migrate; echo 'class B;end' >{folder}/migrate/2.rb; echo '# x' >>{folder}/1.rb"
    done = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert "drafted TR-" in done.stderr and f"{folder}/1.rb" in done.stderr, done
    assert "2 added, 1 changed" in done.stderr


@pytest.mark.slow
def test_what_the_settings_protect_is_neither_seen_nor_changed(user: Person) -> None:
    """Field scripts 08 and 09: an edit below it is named; nor does a hand-made change set get past the gates."""
    build(user, {"db/1.rb": "class A;end\n", "a.sql": "x\n", "a.rb": "a\n"})
    script = "ls; mkdir -p db/migrate; echo b >db/migrate/2.rb; echo y >b.sql; echo c >>a.rb"
    free = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert "drafted TR-" in free.stderr and "a.sql" in free.stdout
    settings = user.workspace / "threegate.toml"
    settings.write_text(settings.read_text().replace("# protected = []", 'protected = ["DB/", "*.sql"]'))
    done = user.run("/bin/sh", "-c", script, options=["--propose", "always"])
    assert done.stdout == "README\na.rb\napp.py\n" and named(done.stderr) == [".env", "a.sql", "db"]
    assert "in its copy: 1 changed (a.rb)" in done.stderr and "left out: b.sql" in done.stderr
    drafts = (user.workspace / "tool-exec" / "agents").glob("*/inbox/TR-*.md")
    # Both may be of the same second, so their names do not say which was first.
    first, second = sorted(drafts, key=lambda draft: "b.sql\n" not in draft.read_text())
    refused = user.threegate("approve", str(first), "--as", "operator", "--key", str(user.key), "--yes")
    assert refused.returncode == 2 and "is protected by agents.protected" in refused.stderr + refused.stdout, refused
    signed = user.threegate("approve", str(second), "--as", "operator", "--key", str(user.key), "--yes")
    assert signed.returncode == 0, signed


def test_placeholders_hide_nothing(user: Person) -> None:
    """Field script 04."""
    build(
        user,
        {
            "compose.yaml": "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: example\n",
            "app/settings.py": 'DATABASE_URL = "postgres://postgres:postgres@localhost:5432/app"\n',
            "tests/test_a.py": 'def test(): assert login({"password": "hunter2"})\n',
            "tests/test_aws.py": 'KEY = "AKIA' + 'IOSFODNN7EXAMPLE"  # the example of the AWS documentation\n',
            "app/urls.py": 'url = httpx.URL("https://jo%40email.com:a%20secret@müller.de:1234/pa%20th")\n',
        },
    )
    done = user.run("git", "status", "--short", options=NEVER)
    assert done.stdout == "" and named(done.stderr) == [".env"] and "may be secrets" not in done.stderr


def test_the_index_names_what_is_tracked(tmp_path: Path) -> None:
    """In each version of the format, with long names and both kinds of ids; what is no index tracks nothing."""
    from threegate.plugins.agents.git_repository import tracked_paths

    names = {"a", "b/c", "b/d", "é", "x" * 200 + "/" + "y" * 200, "long/" * 900 + "z"}
    for form in ("sha1", "sha256"):
        for version in ("2", "3", "4"):
            root = tmp_path / f"{form}-{version}"
            root.mkdir()
            blob = subprocess.run(
                f"git init -q --object-format={form} . && git config index.version {version} && "
                "git hash-object -w --stdin </dev/null",
                shell=True, cwd=root, capture_output=True, check=True, text=True,
            ).stdout.strip()  # fmt: skip
            lines = "".join(f"100644 {blob}\t{name}\n" for name in names)
            subprocess.run(
                ["git", "-c", "core.quotePath=false", "update-index", "--add", "--index-info"],
                input=lines.encode(), cwd=root, check=True,
            )  # fmt: skip
            if version == "3":
                (root / "later").write_text("x\n")
                subprocess.run(["git", "add", "-N", "later"], cwd=root, check=True)
            assert tracked_paths(root) == names | ({"later"} if version == "3" else set()), root
            (root / ".git" / "index").write_bytes(b"DIRC" + bytes(100))
            assert tracked_paths(root) == frozenset()
    assert tracked_paths(tmp_path) == frozenset()
