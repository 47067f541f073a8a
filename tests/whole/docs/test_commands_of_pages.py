"""Every command line that a page shows is run here as it is shown, or is in NOT_RUN with the reason.

Only names that a reader would fill in are filled in (`ID`, `TR-….md`, key files). The commands are run in this process,
in one workspace that a day of work goes through.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.suggested_lines import lines_in, problem
from tests.support import make_key, monty_draft, request_id
from threegate import cli
from threegate.cli import invocation
from threegate.plugins.proposals.prompt import EXAMPLE
from threegate.plugins.serve.event_examples import EXAMPLES
from threegate.setup.settings_file import set_values

ROOT = Path(__file__).resolve().parents[3]
MADE = {"cli.md", "rules.md", "codes.md", "settings.md"}
_PROGRAMS = r"(?:sudo |\.venv/bin/)?(?:threegate|ssh-keygen|make|pipx?|curl|systemctl|apt-get|git|scripts/\w+)"

NOT_RUN = {
    'threegate grant new TR-20261122-101500Z-turnover --widen \'vars.month one_of ["2026-10", "2026-11"]\''
    " --widen 'vars.most gte 10 lte 43' --max-uses 12 --expires 21d": (
        "what a suggestion ends with: tests/plugins/grants/test_grant_suggest.py runs such a line"
    ),
    "threegate agent run codex --project ~/app --tools git --tools 'memory/read_*'": (
        "starts an agent: tests/plugins/agents/test_tools_of_a_run.py does it"
    ),
    "threegate tools test tracker": (
        "needs a server at a public address: tests/plugins/tools/end_to_end/test_remote_calls.py has one"
    ),
    "threegate tools add pay --functions functions.json": (
        "needs the page's file: tests/plugins/tools/end_to_end/test_decisions.py does what the page says"
    ),
    "threegate settings images --rootfs ~/threegate-root": "downloads: tests/setup/test_root_folder.py does it",
    "threegate serve passkeys --make-ca": (
        "needs a host name: tests/plugins/page/test_passkey_in_a_browser.py types these three"
    ),
    "threegate serve passkeys": "the same",
    "threegate operator passkey": "the same",
    "threegate project survey DIR --ask": "asks on a terminal: tests/plugins/agents/test_what_agents_see.py answers",
    "threegate approve inbox/TR-1.md --as alice --key ~/.ssh/id_ed25519": (
        "needs three drafts in turn: tests/whole/docs/test_arriving.py types the lines of this page"
    ),
    "threegate approve inbox/TR-1.md --as alice --print-statement > statement.json": "the same",
    "ssh-keygen -Y sign -n threegate-approval -f ~/.ssh/id_ed25519 statement.json": "the same",
    "threegate approve inbox/TR-1.md --signature statement.json.sig": "the same",
    "make demo": "tests/whole/docs/test_demo.py runs it, and scripts/try_readme on an empty machine",
    "make test": "is what runs this",
    "make lint": "is the first half of it",
    "make test-slow": "takes as long again",
    "make soak": "takes hours",
    "make lock": "changes the checkout: tests/whole/packaging/test_lock.py compares what it wrote",
    "make newest": "installs what is not locked; a step of docs/release.md",
    "make deb": "takes half a minute: tests/whole/packaging/test_deb.py, the long form",
    "sudo apt-get install git make python3-venv": "changes the machine: scripts/try_readme has these in its Debian",
    "sudo apt-get install python3-venv git make openssh-client bubblewrap socat": "the same",
    "git clone URL threegate": "needs an address; scripts/try_readme makes the clone",
    "threegate init ws --operator alice --key ~/key.pub": (
        "needs a key in an ssh-agent: tests/approval/test_keys_for_real.py"
    ),
    "threegate approve ID --as alice --key ~/key.pub": "the same",
    "sudo apt-get install ./dist/threegate_*.deb": (
        "changes the machine: tests/whole/packaging/test_deb.py types it on an empty one"
    ),
    "sudo systemctl enable --now threegate": "the same",
    "make wheel": "writes into dist/: tests/whole/packaging/test_install_lines.py runs what it runs",
    "pipx install .": "changes the environment: tests/whole/packaging/test_install_lines.py types it",
    "pipx install '.[agents,era,http,mcp,tui]'": "the same",
    "pipx install dist/*.whl": "the same",
    'pipx install "$(ls dist/*.whl)[agents,era,http,mcp,tui]"': "the same",
    "pipx runpip threegate install 'threegate[tui]'": "the same",
    "make docs": "tests/whole/docs/test_site.py builds the site and compares the pages",
    "threegate grant tool notes read_text_file --where 'path under /srv/notes' --absent head --absent tail --by agent"
    " --max-uses 200 --expires 8h": "tests/plugins/grants/test_giving_tool_grants.py",
    "threegate tools add notes --bind /srv/notes -- /opt/files/node_modules/.bin/mcp-server-filesystem /srv/notes": (
        "needs an installed server: tests/plugins/tools/test_tools_command.py"
    ),
    "threegate tools add db --bind /srv/db:rw --data /srv/db/notes.db -- /opt/db/bin/mcp-server-sqlite --db-path"
    " /srv/db/notes.db": "needs an installed server: tests/plugins/tools/adversarial/test_exchanged_code.py",
    "threegate tools add mind --stateful -- /opt/mind/node_modules/.bin/mcp-server-mind": "the same",
    "threegate tools add mind --in era --image mind:1.2 -- /usr/local/bin/mcp-server-mind": "needs an image:"
    " tests/plugins/tools/test_container_servers.py",
    "threegate tools add tracker --url https://mcp.example.com/mcp": (
        "needs a server and a browser: tests/plugins/tools/test_login_command.py"
    ),
    "threegate tools add hub --url https://hub.example.com/mcp --bearer hub": "the same",
    "threegate tools login tracker": "the same",
    "threegate tools list": "the same",
    "threegate tools test notes": "the same",
    "threegate tools show notes": "the same",
    "threegate tools refresh notes": "the same",
    "threegate project add web /srv/web": "needs a project: tests/plugins/changes/end_to_end/test_change_sets.py",
    "threegate project add web /srv/web --deliver branch": "the same: tests/plugins/changes/test_branch_delivery.py",
    "threegate approve ID --deliver tree": "the same: tests/plugins/changes/test_delivery_choice.py",
    "threegate approve ID --deliver branch": "the same",
    "threegate approve ID --deliver commits": "needs commits: tests/plugins/agents/test_commits_one_by_one.py",
    "threegate project list": "the same",
    "threegate project remove web": "the same",
    "threegate project survey DIR": "needs a project: tests/plugins/agents/test_what_agents_see.py",
    "threegate project undo REQUEST_ID": "the same",
    "threegate project take ID src/app.py tests": (
        "needs a change set: tests/plugins/changes/adversarial/test_a_part_and_the_whole.py"
    ),
    "threegate project take ID --without Makefile": "the same",
    "threegate request-changes ID --at src/app.py:12 --words 'Keep the old timeout.'": (
        "ends a draft: tests/acts/test_request_changes.py"
    ),
    "threegate request-changes ID --words - < review.txt": "the same",
    "threegate project redraft ID": "needs a project that moved on: tests/plugins/agents/test_redraft.py",
    "threegate init ws && cd ws": "tests/whole/docs/test_readme.py types the page from top to bottom",
    "threegate draft --backend monty --code /tmp/sum.py --input /tmp/numbers.json \\": "the same",
    "threegate validate inbox/TR-*-sum.md": "the same",
    "threegate approve inbox/TR-*-sum.md": "the same",
    "threegate draft --command 'python3 /in/median.py' --input /tmp/median.py --input /tmp/numbers.json \\": "the same",
    "threegate approve inbox/TR-*-median.md": "the same",
    "threegate draft --proposal /tmp/change.json --drop": "the same",
    "threegate approve tool-exec/drafts/TR-*-file-write-safe-*.md": "the same",
    "threegate project undo proposal": "the same",
    "threegate contracts decide DIR --calls calls.jsonl --format json": (
        "needs a session's calls: tests/contracts/test_cli.py"
    ),
    "threegate contracts sessions [S]": "needs sessions: tests/contracts/test_daemon.py",
    "threegate contracts open S [--requester R] [--workflow W --role R [--parent P]]": "the same",
    "threegate contracts close S": "the same",
    "threegate contracts workflows [W]": "the same",
    "threegate contracts kill session|subtree|workflow ID": "the same",
    "threegate contracts kill session ID": "the same",
    "threegate contracts allow ID": "the same",
    "threegate draft --proposal FILE|-": "needs a project: tests/plugins/proposals/test_cli.py",
    "threegate settings adopt --as NAME --key KEY": "needs a moved workspace: tests/end_to_end/test_ten_faults.py",
    "threegate review": "asks on a terminal: tests/adversarial/approval/test_terminal.py",
    "threegate --install-completion": (
        "writes into the user's shell set-up: tests/whole/docs/test_site.py shows the page of it"
    ),
    "threegate serve http": "serves until it is stopped: tests/plugins/serve/test_http.py",
    "threegate serve page": "serves until it is stopped: tests/plugins/page/adversarial",
    "pip install 'threegate[notify]'": "the same as below: changes the environment",
    "threegate settings notify": "sends to the URLs of the settings; tests/plugins/page/test_notices.py does",
    "pip install 'threegate[tui]'": "changes the environment: the tests run in one that has it",
    "threegate status --watch": "runs until it is stopped: tests/plugins/tui",
    "curl -s http://127.0.0.1:8766/pre-tool-check \\": "needs that server: tests/plugins/serve/test_http.py",
    "curl -s http://127.0.0.1:8766/proposals/validate \\": (
        "needs that server: tests/whole/docs/test_arriving.py sends it"
    ),
    "sudo threegate -w /srv/gate/ws settings service install": (
        "changes the machine: tests of the service run it on a root of their own"
    ),
    "apt-get install rabbitmq-server": "changes the machine: tests/plugins/cluster/test_cluster_page.py types it",
    "systemctl restart rabbitmq-server": "the same",
    "systemctl enable --now threegate-worker": "the same",
    "sudo threegate -w /srv/gate/ws settings service install --yes": "the same",
    "sudo apt-get install bubblewrap socat": "changes the machine",
    "pip install 'threegate[agents,mcp]'": "changes the environment",
    "sudo apt-get install bubblewrap socat pipx": "the same",
    "threegate agent run codex": "needs an empty home: tests/plugins/agents/first_run/test_first_run.py",
    "threegate agent run codex --project ~/app": "tests/plugins/agents/test_real_agents_session.py",
    "threegate agent run generic --project ~/app -- sh -c 'echo hello >notes.txt'": "tests/plugins/agents/test_agent_run_command.py",  # noqa: E501
    "threegate agent list": "the same",
    "threegate agent show RUN": "the same",
    "threegate agent stop RUN": "the same",
    "threegate agent close RUN HOST": "tests/plugins/agents/test_request_host.py",
    "threegate agent propose RUN --only src": "tests/plugins/agents/test_propose_again.py",
    "threegate agent continue RUN": "tests/plugins/agents/test_continue_run.py",
    "threegate agent remove RUN": "tests/plugins/agents/test_agent_remove.py",
    "threegate agent connect codex": "writes below the user's home: tests/plugins/agents/test_client_entry.py",
    "threegate agent connect codex --write": "the same",
    "threegate agent connect claude --write --file ~/app/.mcp.json": "the same",
    "threegate agent connect codex --undo": "the same",
    **{
        f"threegate agent run {line}": "needs the agent: tests/whole/docs/test_agent_pages.py"
        for line in (
            "codex --project ~/app -- exec --skip-git-repo-check 'Fix the failing test'",
            "opencode --project ~/app",
            "opencode --project ~/app -- run 'Fix the failing test'",
            "gemini --project ~/app",
            "gemini --project ~/app -- -p 'Fix the failing test'",
            "claude --project ~/app",
            "claude --project ~/app -- -p 'Fix the failing test'",
            "qwen --project ~/app",
            "qwen --project ~/app -- -p 'Fix the failing test'",
        )
    },
    "threegate serve witness --log other.pub --host 10.0.0.2": (
        "serves until it is stopped: tests/plugins/evidence/test_two_workspaces.py"
    ),
    "threegate audit verify --witness KEY": "the same",
    "curl -s http://10.0.0.2:8767/ORIGIN-SHA256/checkpoint -o seen": "the same",
    "threegate audit verify --checkpoint seen": "the same",
    "threegate audit checkpoint --out new": "run as it stands by tests/whole/docs/test_outside_checks.py",
    "threegate audit prove 5 > proof": "the same",
    "threegate audit export --format in-toto --out statements": "the same",
    "ssh-keygen -Y verify -n threegate-approval -I alice -f tool-exec/operators -s armor < statement": "the same",
    "ssh-keygen -Y sign -n threegate-approval -f ~/.ssh/id_ed25519 statement": (
        "run with a key of ours, under approval.md"
    ),
}


def shown() -> Iterator[tuple[str, str]]:
    """(page, command line) of every shell block, without comments and explanations beside them."""
    for page in [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "agents").glob("*.md")),
    ]:
        if page.name in MADE:
            continue
        text = page.read_text()
        fenced = re.findall(r"^```([a-z]*)\n(.*?)^```", text, re.M | re.S)
        blocks = [block for language, block in fenced if language in ("", "sh", "bash", "console")]
        blocks += re.findall(r"(?:^ {4}\S.*\n)+", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
        for line in "".join(blocks).splitlines():
            if re.match(rf"\s*{_PROGRAMS}\b", line):
                for part in re.split(r"\s{3,}(?=threegate )", line.strip()):
                    yield page.name, re.split(r"\s+#|\s{3,}", part)[0].strip()


class Day:
    """A workspace in which each kind of thing is there to be named."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = make_key(folder / "key")
        self.root = folder / "ws"
        self.number = 0
        self.run(f"threegate init {self.root} --operator alice --key {self.key}.pub", folder)
        set_values(self.root / "threegate.toml", {"grants.allow": True})
        self.first = self.finished()

    def run(self, line: str, folder: Path | None = None) -> str:
        """One command line, with `<`, `>` and `2>` as a shell has them; ends with 0 or 2 where a check may say no."""
        words = shlex.split(line)
        invocation.ROOT.workspace, invocation.ROOT.json = "", False
        out, err, stdin = io.TextIOWrapper(io.BytesIO()), io.StringIO(), sys.stdin
        target = source = None
        for sign in (">", "<"):
            if sign in words:
                at = words.index(sign)
                name = words[at + 1]
                del words[at : at + 2]
                target, source = (name, source) if sign == ">" else (target, name)
        with contextlib.chdir(folder or self.root):
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                sys.stdin = io.TextIOWrapper(io.BytesIO(Path(source).read_bytes() if source else b""))
                try:
                    code = cli.execute(words[1:])
                finally:
                    sys.stdin = stdin
            out.seek(0)
            printed = out.read()
            if target:
                Path(target).write_text(printed)
        assert code == 0, f"{line}: exit {code}\n{printed}\n{err.getvalue()}"
        return printed

    def draft(self) -> str:
        """A fresh draft; returns its file name."""
        self.number += 1
        name = request_id(f"day-{self.number}")
        data = b"1\n"
        (self.root / "inbox" / "files" / "data.csv").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        text = monty_draft(name, "open('/in/data.csv').read()", inputs={"data.csv": digest})
        (self.root / "inbox" / f"{name}.md").write_text(text)
        return f"{name}.md"

    def approved(self) -> str:
        """A fresh approved request; returns its file name."""
        name = self.draft()
        self.run(f"threegate approve inbox/{name} --as alice --key {self.key} --yes")
        return name

    def finished(self) -> str:
        """A request that ran; returns its id."""
        name = self.approved()
        self.run("threegate run --once")
        return name.removesuffix(".md")


AS = "--as alice --key {key} --yes"
RUN = {
    "threegate validate --as aana event.json": "",
    "threegate validate --as aana - --jsonl < events": "",
    "threegate validate --as aana event.json --evidence production --now 2026-05-10T00:00:00Z --log decisions.jsonl": "",  # noqa: E501
    "threegate audit aana decisions.jsonl": "",
    "threegate approve inbox/TR-….md": f"threegate approve inbox/{{draft}} {AS}",
    'threegate approve inbox/TR-….md --as alice --key ~/.ssh/id_ed25519 --yes --reason "weekly numbers"': (
        f'threegate approve inbox/{{draft}} {AS} --reason "weekly numbers"'
    ),
    'threegate reject inbox/TR-….md --reason "too wide"': 'threegate reject inbox/{draft} --reason "too wide"',
    "threegate cancel ID": "threegate cancel {waiting}",
    "threegate draft --again ID": "threegate draft --again {first}",
    "threegate show A --against B": "threegate show inbox/{draft} --against inbox/{draft}",
    "threegate approve --group inbox/TR-….md": f"threegate approve --group inbox/{{draft}} {AS}",
    'threegate reject --group inbox/TR-….md --reason "too wide"': (
        'threegate reject --group inbox/{draft} --reason "too wide"'
    ),
    "threegate audit approval tool-exec/approved/TR-….md": "threegate audit approval tool-exec/approved/{approved}",
    "threegate approve inbox/TR-….md --as alice --print-statement > statement.json": (
        "threegate approve inbox/{apart} --as alice --print-statement > statement.json"
    ),
    "ssh-keygen -Y sign -n threegate-approval -f KEY statement.json": (
        "ssh-keygen -Y sign -n threegate-approval -f {key} statement.json"
    ),
    "threegate approve inbox/TR-….md --signature statement.json.sig": (
        "threegate approve inbox/{apart} --signature statement.json.sig --yes"
    ),
    "threegate grant new REQUEST_ID --widen 'vars.month regex 2026-(0[1-9]|1[0-2])'"
    " --widen 'inputs.data.csv gte 0 lte 1048576'"
    " --max-uses 30 --expires 30d": (
        f"threegate grant new {{first}} --widen 'inputs.data.csv gte 0 lte 1048576' --max-uses 30 --expires 30d {AS}"
    ),
    "threegate grant suggest": "",
    "threegate grant list": "",
    "threegate grant show ID": "threegate grant show {grant}",
    "threegate grant revoke ID": "threegate grant revoke {grant}",
    "threegate contracts new my_tool > tool-exec/contracts/my_tool.yaml": (
        "threegate contracts new my_tool > my_tool.yaml"
    ),
    "threegate contracts check": "",
    "threegate contracts test": "",
    "threegate contracts graph --out graph.svg": "",
    "threegate agent prompt > prompt.md": "",
    "threegate validate --as proposal FILE|-": "threegate validate --as proposal proposal.json",
    "threegate status": "",
    "threegate status --all": "",
    "threegate status --ended 20": "",
    "threegate show ID": "threegate show {first}",
    "threegate show --follow ID": "threegate show --follow {first}",
    "threegate show TR-….md --input=data.csv": "threegate show {draft} --input=data.csv",
    "threegate status --results": "",
    "threegate show ID --result": "threegate show {first} --result",
    "threegate contracts checkpoints": "",
    "threegate audit show": "",
    "threegate audit verify": "",
    "threegate audit stats --since 90d": "",
    "threegate audit report --out q4.html": "",
    "threegate audit export --format ack --out trace.jsonl": "",
    "threegate audit checkpoint --out point": "",
    "threegate audit pack --out evidence": "",
    "threegate audit pack --since 30d --out evidence.zip": "",
    "threegate audit pack ID --out pack": "threegate audit pack {first} --out pack",
    "threegate operator drills on": "threegate operator drills on --as alice --key {key}",
    "threegate operator drills status": "",
    "threegate operator drills off": "threegate operator drills off --as alice --key {key}",
    "threegate audit prune --older-than 90d": "",
    "threegate run --once": "",
}
"""What is typed for a line, in this order; empty: the line as it stands."""


def test_every_command_line_is_run_or_accounted_for() -> None:
    lines = {line: page for page, line in shown()}
    assert len(lines) > 50
    unknown = {line: page for line, page in lines.items() if line not in RUN and line not in NOT_RUN}
    assert not unknown, "run it in RUN, or say in NOT_RUN why not"
    gone = (RUN.keys() | NOT_RUN.keys()) - lines.keys()
    assert not gone, "no page shows this any more"
    named = {path for reason in NOT_RUN.values() for path in re.findall(r"tests/[\w/.]*\w|scripts/\w+", reason)}
    assert not [path for path in named if not (ROOT / path).exists()]


def test_the_commands_take_every_line_that_a_page_shows() -> None:
    lines = {line.partition(" && ")[0].rstrip(" \\"): page for page, line in shown() if line.startswith("threegate ")}
    plain = {re.sub(r"[\[\]]|\s[<>] .*", "", line).partition(" | ")[0]: page for line, page in lines.items()}
    wrong = [f"{page}: {line}: {why}" for line, page in plain.items() if (why := problem(line, named="|" in line))]
    assert len(plain) > 100 and not wrong, "\n".join(wrong)


def test_every_command_that_a_page_names_is_one() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = {
        (page.relative_to(ROOT).as_posix(), words)
        for page in pages
        if page.name not in ("CHANGELOG.md", "upgrade.md")  # they name what is gone
        for code in re.findall(r"(?<!`)`(threegate [^`]*)`(?!`)", page.read_text())
        for words in lines_in(code)
    }
    assert len(found) > 200
    wrong = [f"{page}: {line}: {why}" for page, line in sorted(found) if (why := problem(line, named=True))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_the_day(tmp_path: Path) -> None:
    day = Day(tmp_path)
    event = next(one["value"] for name, one in EXAMPLES.items() if name.endswith("accept"))
    (day.root / "event.json").write_text(json.dumps(event))
    (day.root / "events").write_text(json.dumps(event) + "\n")
    (day.root / "proposal.json").write_text(EXAMPLE.text)
    names: dict[str, str] = {"first": day.first, "key": str(day.key)}
    for line, typed in RUN.items():
        if line == "threegate contracts check":
            examples = ROOT / "docs" / "examples" / "contracts" / "threegate"
            shutil.copytree(examples, day.root / "tool-exec" / "contracts", dirs_exist_ok=True)
        for name in re.findall(r"\{(\w+)\}", typed):
            if name == "draft" or name not in names:
                names[name] = made(day, name)
        words = (typed or line).format(**names)
        if words.startswith("ssh-keygen"):
            subprocess.run(shlex.split(words), cwd=day.root, check=True, capture_output=True)
        else:
            day.run(words)


def made(day: Day, name: str) -> str:
    """Something to name in a command."""
    if name == "waiting":
        return day.approved().removesuffix(".md")
    if name == "approved":
        return day.approved()
    if name == "grant":
        return day.run("threegate grant list").split()[0]
    return day.draft()
