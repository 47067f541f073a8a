"""The real Codex in the jail, with a ChatGPT login outside of it: no token is in the jail's memory, files or
environment, nor in any record.

`chatgpt.com` and `auth.openai.com` are a stand-in here: a mount namespace of the run has another /etc/hosts and another
authority for TLS, so nothing of ThreeGate knows of it.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import certifi
import pytest

from tests.conftest import missing
from tests.plugins.agents.chatgpt import ACCOUNT, ACCOUNTS, RESPONSES, Asked, ChatGPT, Tokens, log_in
from tests.plugins.agents.conftest import jail_programs
from tests.plugins.agents.npm_agents import Unavailable, install
from tests.plugins.agents.people import Person, person
from tests.plugins.agents.real_agents import AGENTS
from tests.plugins.agents.scripted_model import Call, Model, NextStep, Say, Turn
from tests.plugins.agents.test_agent_run_command import wait_until_nothing_lives
from tests.support import children, processes

pytestmark = [pytest.mark.root, pytest.mark.slow]

CODEX = next(agent for agent in AGENTS if agent.name == "codex")
NAMES = ("chatgpt.com", "auth.openai.com")
LOOK_AROUND = (
    "env; cat /proc/*/environ /proc/*/cmdline; find $HOME /tmp /run /etc /dev . -name '[a]uth.json' 2>/dev/null; "
    "cat $HOME/.codex/*.toml $HOME/.codex/*.json 2>/dev/null; echo looked"
)


@dataclass
class Provider(ChatGPT):
    """ChatGPT in front of a scripted model."""

    model: str = ""

    def answer(self, asked: Asked) -> tuple[int, Mapping[str, str], list[bytes]]:
        if (asked.method, asked.path) != ("POST", RESPONSES) or self.status != 200:
            return super().answer(asked)
        connection = HTTPConnection(urlsplit(self.model).netloc, timeout=60)
        connection.request("POST", "/v1/responses", asked.body, {"content-type": "application/json"})
        reply = connection.getresponse()
        data = reply.read()
        return reply.status, {"content-type": reply.getheader("content-type", ""), "set-cookie": "a=CANARY"}, [data]


@dataclass
class Subscriber:
    """Somebody with a ChatGPT login in a folder, and what they see of the provider."""

    who: Person
    around: list[str]
    provider: Provider
    tokens: Tokens
    login: Path
    stack: ExitStack
    needles: list[bytes] = field(default_factory=list)

    def run(self, script: Sequence[NextStep], *options: str) -> tuple[Model, subprocess.CompletedProcess[str]]:
        """One prompt for Codex in the jail, to its end."""
        model = self.stack.enter_context(Model(script).serving())
        self.provider.model = model.url
        words = self.who.words("exec", "--skip-git-repo-check", "Do what the script says.", profile="codex")
        done = subprocess.run(
            [*self.around, *self.who.command(*words)], env=self.who.environ(), cwd=self.who.home, capture_output=True,
            text=True, timeout=120, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return model, done

    def has_token(self, data: bytes) -> bool:
        return any(needle in data for needle in self.needles)


@pytest.fixture
def subscriber(tmp_path: Path) -> Iterator[Subscriber]:
    jail_programs()
    try:
        folder = install("codex")
    except Unavailable as error:
        missing(str(error))
    with ExitStack() as stack:
        who = stack.enter_context(person("user"))
        key, authority = tmp_path / "key.pem", who.root / "authority.pem"
        names = ",".join(f"DNS:{name}" for name in NAMES)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
             "2", "-keyout", str(key), "-out", str(authority), "-subj", "/CN=stand-in",
             "-addext", f"subjectAltName={names}"],
            check=True, capture_output=True,
        )  # fmt: skip
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(authority, key)
        # An address of its own: port 443 of 127.0.0.1 may be somebody else's, and other tests run at the same time.
        address = f"127.{secrets.randbelow(250) + 2}.{secrets.randbelow(250) + 2}.{secrets.randbelow(250) + 2}"
        hosts = who.root / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name in NAMES))
        provider = Provider()
        stack.enter_context(provider.serving((address, 443), tls))
        login = who.home / ".config" / "threegate" / "codex"
        tokens = log_in(login)
        program = folder / "node_modules" / ".bin" / "codex"
        who.environment["PATH"] = f"{program.parent}:/usr/local/bin:/usr/bin:/bin"
        who.settings(f'\n[agents.codex]\nlogin = "{login}"\nprogram = "{program}"\nmodels = ["scripted"]\n')
        who.own()
        script = (
            'mount --bind "$0" /etc/hosts && mount --bind "$1" "$2" && account=$3 && shift 3 && '
            'exec setpriv --reuid "$account" --regid nogroup --clear-groups -- "$@"'
        )
        unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        around = [*unshare, str(hosts), str(authority), certifi.where(), who.account]
        made = Subscriber(who, around, provider, tokens, login, stack)
        # The end of each is what makes it worth anything.
        made.needles = [value[-48:].encode() for value in tokens.values]
        yield made


def family(pid: int) -> list[int]:
    """A process and all that it began."""
    return [pid, *(each for child in children(pid) for each in family(child))]


def in_jail(pid: int) -> list[int]:
    """The processes in the jail that a process of bubblewrap made."""
    return [each for each in family(pid) if os.readlink(f"/proc/{each}/ns/pid") != os.readlink(f"/proc/{pid}/ns/pid")]


def memory(pid: int) -> Iterator[bytes]:
    """What a process can have written into: each range of its memory."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as held:
        for line in maps:
            place, rights = line.split()[:2]
            if "w" in rights:
                low, high = (int(word, 16) for word in place.split("-"))
                held.seek(low)
                try:
                    yield held.read(high - low)
                except OSError:  # nothing is behind it
                    continue


def files_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path, path.read_bytes()


def relay_of(who: Person) -> int:
    """The relay of the run that is alive; its environment has no path of the person."""
    [launcher] = {pid for pid, line in processes() if str(who.workspace).encode() in line and b"\0agent\0run\0" in line}
    mine = set(family(launcher))
    [relay] = [pid for pid, line in processes() if pid in mine and b"threegate.plugins.agents.model_relay" in line]
    return relay


def look_through(subscriber: Subscriber) -> None:
    """All that the processes in the jail have in memory, environment and files that are no project's."""
    jail = subscriber.who.facts()["jail"]
    inside = in_jail(jail)
    assert len(inside) >= 3, inside
    size = 0
    for pid in [jail, *inside]:
        for data in memory(pid):
            size += len(data)
            assert not subscriber.has_token(data), f"the memory of {pid}"
        for file in ("environ", "cmdline"):
            assert not subscriber.has_token(Path(f"/proc/{pid}/{file}").read_bytes())
    assert size > 1 << 20, size
    for place in ("tmp", "run", "dev/shm", "home/agent"):
        for path, data in files_below(Path(f"/proc/{inside[0]}/root", place)):
            assert not subscriber.has_token(data), path
    assert any(subscriber.has_token(data) for data in memory(relay_of(subscriber.who))), "this would find it"


def test_no_token_of_the_login_gets_into_the_jail_or_a_record(subscriber: Subscriber) -> None:
    """The provider repeats all tokens as a text of the model, and the agent writes what it gets into a file. While
    Codex waits for the model, everything that it has is looked through, before and after that.
    """
    who, tokens = subscriber.who, subscriber.tokens

    def repeat(turn: Turn) -> Call:
        look_through(subscriber)
        return Call("exec_command", {"cmd": f"cat >got.txt <<'END'\n{' '.join(tokens.values)}\nEND\ncat got.txt"})

    def end(turn: Turn) -> Say:
        look_through(subscriber)
        return Say(f"Done: {tokens.access}")

    model, done = subscriber.run([Call("exec_command", {"cmd": LOOK_AROUND}), repeat, end])
    model.check()
    assert done.returncode == 0 and "Done: [secret]" in done.stdout, (done.stdout, done.stderr)
    around, written = model.turns[1].result, model.turns[2].result
    assert "looked" in around and "auth.json" not in around and "CANARY" not in around, around
    assert not subscriber.has_token(around.encode()) and written.count("[secret]") == 3, written
    assert set(subscriber.provider.paths()) == {f"GET {ACCOUNTS}", f"POST {RESPONSES}"}
    sent = {(asked.headers["authorization"], asked.headers["chatgpt-account-id"]) for asked in subscriber.provider.seen}
    assert sent == {(f"Bearer {tokens.access}", ACCOUNT)}
    texts = [json.dumps(dict(asked.headers)).encode() + asked.body for asked in subscriber.provider.seen]
    assert not any(value.encode() in text for text in texts for value in (tokens.refresh, tokens.identity))
    wait_until_nothing_lives(who)
    [started], [ended] = who.events("agent_started"), who.events("agent_ended")
    assert started["endpoint"] == "chatgpt.com" and (ended["requests"], ended["refused_requests"]) == (3, 0)
    assert not subscriber.has_token((done.stdout + done.stderr).encode())
    found = [path for path, data in files_below(who.root) if subscriber.has_token(data)]
    assert found == [subscriber.login / "auth.json"], "the workspace, its trail and the kept home have none"
    assert [path.name for path in subscriber.login.iterdir()] == ["auth.json"], "nothing was written there"


def test_an_expired_login_is_said_before_and_in_the_middle(subscriber: Subscriber) -> None:
    """A run does not start with one. If it ends in the middle, Codex shows the line that says what to type."""
    who = subscriber.who

    def expire(turn: Turn) -> Call:
        log_in(subscriber.login, "later", ends_in=-1)
        who.own()
        return Call("exec_command", {"cmd": "echo still here >notes.txt"})

    model, done = subscriber.run([expire])
    model.check()
    assert done.returncode != 0, done.stdout
    assert (
        "the ChatGPT login has expired; outside of the jail it is renewed with: codex login"
        in done.stdout + done.stderr
    )
    assert str(subscriber.login) not in done.stdout + done.stderr, "the agent does not know where it is"
    [ended] = who.events("agent_ended")
    assert ended["changed"] == 1 and len(subscriber.provider.seen) == 2, "its work is kept"
    _, done = subscriber.run([])
    said = f"{subscriber.login}: the login has expired; log in with: CODEX_HOME={subscriber.login} codex login"
    assert done.returncode == 3 and said in done.stderr, done.stderr
    assert len(who.events("agent_started")) == 1
