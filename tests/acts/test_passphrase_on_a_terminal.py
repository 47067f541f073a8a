"""Passphrases as a person types them: real commands, ssh-keygen, ssh-add and ssh-agent on a pseudo-terminal.

While a command waits at a prompt, the command lines and environments of all processes are searched for the passphrase.
"""

from __future__ import annotations

import os
import pty
import secrets
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.approval.soft_agent import running_agent
from tests.support import make_key, processes, threegate
from threegate.approval.key_files import read_private
from threegate.cli.key_question import WITH, WITHOUT

PHRASE = f"open sesame {secrets.token_hex(8)}"
"""Tests in other processes have another one."""
ENTER = b"Enter passphrase"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def locked(bench: Bench, home: Path) -> Path:
    """The operator's key, with a passphrase, as ~/.ssh/id_ed25519."""
    for suffix in ("", ".pub"):
        (home / ".ssh" / f"id_ed25519{suffix}").write_bytes(Path(f"{bench.keys['alice']}{suffix}").read_bytes())
    key = home / ".ssh" / "id_ed25519"
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", PHRASE, "-f", key], check=True, capture_output=True)
    return key


def nobody_shows_it() -> None:
    for file in ("cmdline", "environ"):
        assert not [pid for pid, text in processes(file) if PHRASE.encode() in text], file


def typed(
    command: Sequence[str], answers: Sequence[tuple[bytes, str]], *, look: Callable[[], None] = nobody_shows_it
) -> tuple[bytes, int]:
    """Run a command on a terminal and answer its prompts in this order; `look` is called at each. What it wrote, and
    its exit code.
    """
    parent, child = pty.openpty()
    # A terminal of its own, which /dev/tty is: where ssh-keygen would ask by itself.
    words = ["env", "--default-signal=INT", "setsid", "-c", "-w", *command]  # a shell that runs tests may ignore Ctrl-C
    process = subprocess.Popen(words, stdin=child, stdout=child, stderr=child)
    os.close(child)
    output, seen = b"", 0
    waiting = list(answers)
    while select.select([parent], [], [], 60)[0]:
        try:
            chunk = os.read(parent, 65536)
        except OSError:
            break
        output += chunk
        if output.endswith(b"q leaves"):
            os.write(parent, b" ")
        if waiting and waiting[0][0] in output[seen:]:
            prompt, answer = waiting.pop(0)
            seen = output.index(prompt, seen) + len(prompt)
            look()
            os.write(parent, answer.encode())
    os.close(parent)
    code = process.wait(60)
    assert not waiting, (waiting, output[-2000:])
    return output, code


def command(bench: Bench, *words: str) -> list[str]:
    return [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), *words]


def test_a_review_of_several_drafts_asks_once(bench: Bench, locked: Path) -> None:
    for number in (1, 2, 3):
        bench.draft(f"req-{number}", slug=f"s{number}")
    question = b"[q]uit > "
    answers = [(question, "a\n"), (ENTER, "wrong\n"), (b"Bad passphrase", f"{PHRASE}\n")]
    output, code = typed(command(bench, "review", "--plain"), [*answers, (question, "a\n"), (question, "a\n")])
    assert code == 0 and b"approved: 3" in output or b"3 approved" in output
    assert output.count(ENTER) == 1 and PHRASE.encode() not in output
    assert len(list(bench.workspace.approved.glob("*.md"))) == 3


def test_who_gives_no_passphrase_approves_nothing(bench: Bench, locked: Path) -> None:
    path = bench.draft()
    answers = [(b"[y/N] ", "y\n"), (ENTER, "\n")]
    output, code = typed(command(bench, "approve", path.name), answers)
    assert code == 2 and f"threegate: {locked}: was not unlocked".encode() in output
    assert path.exists() and not list(bench.workspace.approved.glob("*.md"))


def test_ctrl_c_at_the_passphrase_leaves_nothing(bench: Bench, locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bench.draft()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # the path of a socket is short
        monkeypatch.setenv("TMPDIR", folder)

        def agent_is_there() -> None:
            assert [entry.name for entry in Path(folder).glob("threegate-key-*/*")] == ["agent"]

        answers = [(b"[y/N] ", "y\n"), (ENTER, "\x03")]
        looks = iter([lambda: None, agent_is_there])
        _, code = typed(command(bench, "approve", path.name), answers, look=lambda: next(looks)())
        assert code == 130 and path.exists()
        assert list(Path(folder).glob("threegate-key-*")) == []


def test_off_a_terminal_nothing_asks(bench: Bench, locked: Path) -> None:
    """Though there is one, as /dev/tty."""
    path = bench.draft()
    line = f"{' '.join(command(bench, 'approve', path.name, '--yes'))} </dev/null 2>&1 | cat"
    output, _ = typed(["/bin/sh", "-c", line], [])
    assert b"its passphrase, which is not asked for here" in output and ENTER not in output
    done = threegate(*command(bench, "approve", path.name, "--yes")[3:], cwd=bench.workspace.root)
    assert done.code == 2 and len(done.err.splitlines()) == 1 and f"ssh-add {locked}" in done.err


AFTER_AN_AGENT = """
import sys
from pathlib import Path
from threegate.approval.signature import never_asking, sign_statement
from threegate.core.errors import InvalidInput
key = Path(sys.argv[1])
with never_asking():
    try:
        sign_statement(b"x", key, "threegate-approval")
        print("SIGNED")
    except InvalidInput as error:
        print(error)
"""


@pytest.mark.parametrize("held", [False, True])
def test_on_the_terminal_of_an_agent_nothing_asks(
    locked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """There ssh-agent signs, or a key without a passphrase; the program cannot ask on /dev/tty either."""
    script = [sys.executable, "-c", AFTER_AN_AGENT, str(locked)]
    if not held:
        output, _ = typed(script, [])
        assert b"not asked for here" in output and ENTER not in output
        return
    key = make_key(tmp_path / "held")
    with running_agent(tmp_path, key) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        output, _ = typed([*script[:-1], f"{key}.pub"], [])
    assert output == b"SIGNED\r\n"


def test_a_token_on_the_terminal_of_an_agent_cannot_ask_for_its_pin(tmp_path: Path) -> None:
    """A program in the place of ssh-keygen asks as OpenSSH's programs do, on /dev/tty, and by SSH_ASKPASS."""
    asks = tmp_path / "asks"
    asks.write_text(
        "#!/bin/sh\ncat >/dev/null\n(echo PIN? >/dev/tty) 2>/dev/null\n$SSH_ASKPASS 'PIN?' && exit 0\nexit 1\n"
    )
    asks.chmod(0o700)
    script = AFTER_AN_AGENT.replace(
        "key =", f"import threegate.approval.signature as s; s.SSH_KEYGEN = {str(asks)!r}\nkey ="
    )
    key = make_key(tmp_path / "key")
    output, _ = typed([sys.executable, "-c", script, str(key)], [])
    assert b"did not sign" in output and b"PIN?" not in output


def own_key(home: Path) -> Path:
    return home / ".config" / "threegate" / "operator_ed25519"


def init(tmp_path: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "threegate", "init", str(tmp_path / "new"), *words]


def test_init_offers_a_passphrase(home: Path, tmp_path: Path) -> None:
    answers = [(b"Set a passphrase? [y/N] ", "y\n"), (ENTER, f"{PHRASE}\n"), (b"again", f"{PHRASE}\n")]
    output, code = typed(init(tmp_path), answers)
    assert code == 0 and output.count(WITH.encode()) == 2 and output.count(WITHOUT.encode()) == 1
    assert PHRASE.encode() not in output
    private = read_private(own_key(home))
    assert private is not None and private.asks == "passphrase"
    opened = subprocess.run(["ssh-keygen", "-y", "-P", PHRASE, "-f", own_key(home)], capture_output=True)
    assert opened.returncode == 0


@pytest.mark.parametrize(
    "answers", [[(b"[y/N] ", "n\n")], [(b"[y/N] ", "y\n"), (ENTER, "\n"), (b"again", "\n")]], ids=["no", "empty"]
)
def test_init_says_what_a_key_without_one_means(home: Path, tmp_path: Path, answers: list[tuple[bytes, str]]) -> None:
    output, code = typed(init(tmp_path), answers)
    assert code == 0 and f"without a passphrase. {WITHOUT} To set one: ssh-keygen -p -f".encode() in output
    private = read_private(own_key(home))
    assert private is not None and private.asks == "nothing"


def test_a_passphrase_that_is_not_given_makes_no_workspace(home: Path, tmp_path: Path) -> None:
    """Ctrl-C at ssh-keygen's prompt; the same command then starts again."""
    _, code = typed(init(tmp_path), [(b"[y/N] ", "y\n"), (ENTER, "\x03")])
    assert code == 130
    assert not (tmp_path / "new").exists() and not own_key(home).exists()
    test_init_offers_a_passphrase(home, tmp_path)


@pytest.mark.parametrize("how", ["--key", "a usual key", "--json"])
def test_init_asks_nothing_where_there_is_nothing_to_ask(home: Path, tmp_path: Path, how: str) -> None:
    if how == "a usual key":
        make_key(home / ".ssh" / "id_ed25519")
    words = {"--key": ("--key", f"{make_key(tmp_path / 'key')}.pub"), "--json": ("--json",)}.get(how, ())
    output, code = typed(init(tmp_path, *words), [])
    assert code == 0 and b"[y/N]" not in output
    assert own_key(home).exists() is (how == "--json")


def test_init_asks_nothing_off_a_terminal(home: Path, tmp_path: Path) -> None:
    done = threegate("init", str(tmp_path / "new"), cwd=tmp_path)
    assert done.code == 0 and WITHOUT in done.out and "[y/N]" not in done.out + done.err
    private = read_private(own_key(home))
    assert private is not None and private.asks == "nothing"


def test_the_pages_say_the_same_in_the_same_words() -> None:
    docs = Path(__file__).parents[2] / "docs"
    for page in ("operators-day.md", "security.md"):
        text = " ".join((docs / page).read_text().split())
        assert WITH in text and WITHOUT in text, page
