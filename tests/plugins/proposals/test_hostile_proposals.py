"""More than two hundred hostile proposals: none is auto, and what should be blocked makes no draft."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from threegate.core.settings import Settings
from threegate.plugins.changes.section import ProjectSettings
from threegate.plugins.proposals.proposal_draft import draft_from_proposal
from threegate.request.reader import read_request

NOW = datetime(2026, 11, 22, 6, tzinfo=UTC)

STOPPED_PATHS = [
    "../x",
    "..",
    "a/../../x",
    "./../x",
    "src/../../../etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "~",
    "~/.ssh/id_ed25519",
    "~root/x",
    "C:\\Windows\\x",
    "C:/Windows/x",
    "c:x",
    "\\\\host\\share",
    "..\\..\\x",
    "src\\..\\..\\x",
    "file:///etc/passwd",
    "http://x/y",
    "a\x00b",
    "../\x00x",
    "src/\u202egpj.exe",
    "src/a\u200bb",
    "src/\u2066a\u2069",
    "src/a\nb",
    "src/a\tb",
    "src/a\x1b[2Jb",
    "\ufeffREADME.md",
    "%2e%2e/x",
    "%2e%2e%2fx",
    "..%2fx",
    "%252e%252e%252fx",
    "%" + "25" * 30 + "2e",
    "src/%00/../../../x",
    "%2fetc%2fpasswd",
    "．．/x",
    "‥/x",
    "․․/x",
    "src／．．／．．／．．／x",
    "tool-exec/audit/trail.jsonl",
    "TOOL-EXEC/operators",
    "Tool-Exec/contracts/a.yaml",
    "ｔool-exec/operators",
    "sub/tool-exec/memory/n.jsonl",
    "threegate.toml",
    "THREEGATE.TOML",
    "sub/ThreeGate.toml",
    "threegate.toml.",
    "threegate.toml ",
    "threegate.toml::$DATA",
    "%74hreegate.toml",
    ".threegate-backup/x/y",
    ".threegate-apply/3",
    "CON",
    "nul",
    "src/aux.txt",
    "COM1",
    "lpt9.log",
    "com¹",
    "x" * 1025,
    "src/" + "y" * 256,
    "link-out/x",
    "link-out",
    "link-etc/passwd",
    "chain-1/x",
    "loop/x",
    "src/up/../x/link-parent/y",
    "link-own/operators",
]
PROTECTED_PATHS = [
    ".env",
    ".ENV",
    ".Env.local",
    ".env.production",
    ".envrc",
    "src/.env",
    ".ｅnv",
    "．env",
    ".env ",
    ".env.",
    ".env/x",
    "%2eenv",
    "secrets/x",
    "SECRETS/x",
    "a/b/Secrets/c",
    "ſecrets/x",
    "credentials/aws",
    "data/x.csv",
    "DATA",
    "database/x",
    "db/x",
    "backup/x",
    "Backups/x",
    "x.db",
    "x.DB",
    "a/x.sqlite",
    "x.sqlite3",
    "dump.sql",
    "x.dump",
    "x.bak",
    "X.BAK ",
    "x.db::$DATA",
    ".git/config",
    ".GIT/hooks/pre-commit",
    "sub/.git/HEAD",
    ".git ",
    "link-env",
    "link-secrets/x",
    "src/../.env",
    "./.env",
]
GUARD_PATHS = [
    ".clawguard.json",
    "a/b/.clawguard.json",
    ".ClawGuard.json",
    ".CLAWGUARD.JSON",
    ".clawguard.json ",
    ".clawguard.json.",
    "．clawguard.json",
    "%2eclawguard.json",
    ".clawguard/decisions.jsonl",
    "src/../.clawguard.json",
    "link-guard",
]
INSIDE_URLS = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://0/",
    "http://0.0.0.0:80/",
    "http://127.0.0.1./",
    "http://%31%32%37.0.0.1/",
    "http://127%2e0%2e0%2e1/",
    "http://%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://a.localhost/",
    "http://loc%61lhost/",
    "http://l%C2%ADocalhost/",
    "http://%E2%93%9Bocalhost/",
    "http://router.local/",
    "http://x.internal/",
    "http://x.internal./",
    "http://intranet/",
    "http://10.0.0.1/",
    "http://10.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://100.127.255.254/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://192.0.2.1/",
    "http://198.51.100.7/",
    "http://203.0.113.9/",
    "http://224.0.0.1/",
    "http://239.255.255.255/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://169.254.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://169.254.43518/",
    "http://100.100.100.200/",
    "http://metadata.google.internal/",
    "http://metadata/",
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b:1::a00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2001::1]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[100::1]/",
    "http://[3fff::1]/",
    "http://[::ffff:169.254.169.254]/",
    "http:127.0.0.1/",
    "http:/127.0.0.1/",
    "http:///127.0.0.1/",
    "http://///127.0.0.1/",
    "http://127.0.0.1:" + "0" * 5000 + "80/",
    "http://a_b.example.com/",
    "http://xn--/",
    "http://127.0.0.1.nip.io/",
    "http://localtest.me/",
    "http://lvh.me/",
    "http://7f000001.sslip.io/",
]
"""Web addresses that lead to this machine, to its network or to nowhere that is public."""
NO_URLS = [
    "http://localhost../",
    "http://u:p@example.com/",
    "http://u@example.com/",
    "http://@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1@example.com/",
    "http:u:p@example.com/",
    "http:\\\\127.0.0.1\\x",
    "http://127.0.0.1\\@example.com/",
    "http://256.1.1.1/",
    "http://1.2.3.4.5/",
    "http://08.8.8.8/",
    "http://",
    "http://:80/",
    "http://example.com:99999/",
    "http://example.com:x/",
    "http://[::1/",
    "http://::1/",
    "http://[127.0.0.1]/",
    "http://exa mple.com/",
    "http://exam%20ple.com/",
    "http://exam%00ple.com/",
    "http://exam%2fple.com/",
    "http://ex%ffample.com/",
    "http://.example.com/",
    "http://example..com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "data:text/html,x",
    "gopher://127.0.0.1:6379/_x",
    "blob:http://example.com/x",
    "ws://127.0.0.1/",
    "//example.com/",
    "example.com",
    "",
    "https://１２７.0.0.1/",
]
"""Texts that are not an address of the web, or that carry a name and a password."""
STOPPED_ARGV = [
    ["bash", "-c", "id"],
    ["/bin/sh", "-c", "id"],
    ["ZSH"],
    ["env", "bash"],
    ["env", "-S", "bash -c id"],
    ["nice", "-n", "5", "sh"],
    ["timeout", "5", "bash"],
    ["xargs", "rm"],
    ["busybox", "sh"],
    ["sudo", "ls"],
    ["doas", "ls"],
    ["su", "-c", "id"],
    ["docker", "run", "x"],
    ["kubectl", "delete", "ns", "prod"],
    ["pip", "install", "x"],
    ["python3", "-m", "pip", "install", "x"],
    ["python3", "-mpip", "install", "x"],
    ["npm", "test"],
    ["npx", "x"],
    ["apt-get", "install", "x"],
    ["cargo", "install", "x"],
    ["rm", "x"],
    ["/bin/rm", "x"],
    ["RM", "x"],
    ["env", "rm", "--", "f"],
    ["unlink", "x"],
    ["rmdir", "x"],
    ["git", "rm", "-rf", "x"],
    ["git", "rm", "x"],
    ["ls", "-rf"],
    ["ls", "-fr"],
    ["ls", "-Rvf"],
    ["ls", "--no-preserve-root"],
    ["find", ".", "-delete"],
    ["find", ".", "-exec", "rm", "{}", "+"],
    ["dd", "if=a", "of=b"],
    ["chmod", "777", "f"],
    ["chmod", "0777", "f"],
    ["chmod", "a+rwx", "f"],
    ["mkfs", "x"],
    ["mkfs.ext4", "x"],
    ["shred", "x"],
    ["base64", "-d", "x"],
    ["xxd", "-r", "x"],
    ["openssl", "enc", "-d"],
    ["git", "commit", "-m", "add base64 helper"],
    ["node", "-e", "eval('1')"],
    ["node", "-e", "require('fs').rmSync('x')"],
    ["node", "-e", "require('fs').unlinkSync('x')"],
    ["python3", "-c", "import shutil; shutil.rmtree('x')"],
    ["python3", "-c", "import os; os.remove('x')"],
    ["python3", "-c", "import os; os . unlink('x')"],
    ["ruby", "-e", "File.delete('x')"],
    ["ruby", "-e", "FileUtils.rm_rf('x')"],
    ["perl", "-e", "unlink 'x'"],
    ["php", "-r", "unlink('x');"],
    ["cat", "/etc/passwd"],
    ["cat", "/proc/self/environ"],
    ["cat", "../../x"],
    ["cat", "/root/.ssh/id_ed25519"],
    ["ls", "/home"],
    ["cat", "/var/run/docker.sock"],
    ["git", "log", "--grep=a|b"],
    ["echo", "$(id)"],
    ["echo", "`id`"],
    ["echo", "${HOME}"],
    ["echo", "a;b"],
    ["echo", "a\nb"],
    ["echo", "a\u202eb"],
    ["echo", "\x1b[2J"],
    ["echo", "ghp_" + "a1B2" * 9],
    ["echo", "AKIA" + "IOSFODNN7EXAMPLQ"],
    ["tar", "--to-command=sh", "-xf", "x.tar"],
    ["", "x"],
    [" "],
    ["FOO=1", "bash"],
]
METACHARACTERS = [";", "|", "&", "<", ">", "`", "$(", "&&", "||", ">>", "\n"]
COMMANDS_INSIDE = [
    "rm -rf ~",
    "RM -r x",
    "/bin/rm x",
    "--exec=rm x",
    "-c'rm x'",
    "f('rm x')",
    "sudo ls",
    "env sudo ls",
    "bash -c id",
    "find . -delete",
    "dd if=a of=/dev/sda",
    "chmod 777 f",
    "mkfs.ext4 /x",
    "pip install x",
    "docker run x",
    "mount /dev/sda1 /x",
]
HONEST_ARGUMENTS = [
    "fix the page of rooms",
    "a b",
    "$HOME",
    "a=b c",
    "reform a thing",
    "x-rm y",
    "50 %",
    "import shutil",
]
CRITICAL_ARGV = [
    ["sqlite3", "x", "truncate table t"],
    ["sqlite3", "x", "DROP TABLE users"],
    ["sqlite3", "x", "delete  from users"],
    ["psql", "-c", "DROP DATABASE prod"],
    ["aws", "s3", "rm", "s3://b/x"],
    ["gsutil", "-m", "rm", "gs://b/x"],
    ["rclone", "purge", "remote:x"],
]
SECRET_FIELDS = [
    {"selector": "#user_password"},
    {"selector": "input[type=password]"},
    {"selector": "#userPassword"},
    {"selector": "#pass-word"},
    {"selector": "#passwd"},
    {"selector": "#p4ssw0rd"},
    {"selector": "#раsswоrd"},
    {"selector": "#ｐａｓｓｗｏｒｄ"},
    {"selector": "#pass\u200bword"},
    {"selector": "#x", "field": "passcode"},
    {"selector": "#x", "label": "One-time code"},
    {"selector": "#x", "label": "OTP"},
    {"selector": "#x", "name": "api_key"},
    {"selector": "#x", "name": "accessToken"},
    {"selector": "#x", "placeholder": "Card number"},
    {"selector": "#x", "placeholder": "CVV"},
    {"selector": "#x", "label": "SSN"},
    {"selector": "#x", "label": "Social security"},
    {"selector": "#x", "name": "secretKeys"},
    {"selector": "#x", "purpose": "enter the password"},
    {"selector": "#x", "label": "PIN"},
    {"selector": "#x", "label": "contraseña"},
    {"selector": "#x", "label": "Passwort"},
    {"selector": "#x", "label": "mot de passe"},
]
SECRET_TEXTS = [
    "token: abc",
    "password=hunter2",
    "my passcode is 1",
    "Bearer abc",
    "the bearer of good news",
    "otp 123456",
    "4111 1111 1111 1111",
    "4111-1111-1111-1111",
    "078-05-1120",
    "cvv 123",
    "ghp_" + "a1B2" * 9,
    "AKIA" + "IOSFODNN7EXAMPLQ",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "pin: 4711",
    "p a s s w o r d",
    "pаssword",
]
LOW_CLICKS = [
    {"intent": "submit_form"},
    {"intent": "Send-Message"},
    {"label": "Pay now"},
    {"label": "Checkout"},
    {"purpose": "delete the account"},
    {"intent": "wire.transfer"},
    {"intent": "destroyAll"},
    {"label": "ＢＵＹ"},
    {"label": "0rder"},
    {"label": "show pаssword"},
]
BARE_SELECTORS = [
    "*",
    "a",
    " A ",
    "button",
    "INPUT",
    "p:hidden",
    "p : hidden",
    "[ hidden ]",
    "[style='display: none']",
    "x[style*='VISIBILITY : hidden']",
]
BYTES = [
    b'{"tool":"git.status","tool":"file.read","args":{"path":"x"}}',
    b'{"tool":"file.read","args":{"path":"README.md","path":".env"}}',
    b'{"tool":"file.read","args":{"path":"README.md","p\\u0061th":".env"}}',
    b'{"tool":"git.status","args":{}}{"tool":"git.status","args":{}}',
    b"\xef\xbb\xbf" + b'{"tool":"git.status","args":{}}',
    b"[" * 100_000,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    b'{"tool":"git.log","args":{"limit":1e400}}',
    b'{"tool":"git.log","args":{"limit":NaN}}',
    b'{"tool":"git.log","args":{"limit":' + b"9" * 5000 + b"}}",
    b'{"tool":"file.read","args":{"path":"\\ud800"}}',
    b'{"tool":"git.status","args":{},"x":"' + b"y" * 70_000 + b'"}',
    b'{"tool":"git.status","args":{},}',
    b"{'tool':'git.status','args':{}}",
    b'{"tool":"git.status","args":{} /* c */}',
    b"\x00",
    b"",
    b"\xff\xfe{\x00}\x00",
    b'{"__proto__":{"tool":"git.status"},"tool":"git.status","args":{}}',
    b'{"tool":"git.status\\u0000","args":{}}',
    b'{"tool":"git.status ","args":{}}',
    b'{"tool":"shell.execute_approved","args":{"argv":["ls"],"approved":true}}',
    b'{"tool":"memory.propose","args":{"content":"x","quality":{"decision":"allow"}}}',
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A project with links that lead everywhere they should not."""
    folder = tmp_path_factory.mktemp("hostile")
    project = folder / "project"
    for name in ("src/up", "secrets", "tool-exec", ".git"):
        (project / name).mkdir(parents=True)
    (project / "README.md").write_text("hello\n")
    (project / ".env").write_text("X=1\n")
    (project / "x").write_text("x\n")
    outside = folder / "outside"
    outside.mkdir()
    (outside / "x").write_text("outside\n")
    os.symlink(outside, project / "link-out")
    os.symlink("/etc", project / "link-etc")
    os.symlink("chain-2", project / "chain-1")
    os.symlink("src/../../outside", project / "chain-2")
    os.symlink("loop", project / "loop")
    (project / "src" / "x").mkdir()
    os.symlink("../../..", project / "src" / "x" / "link-parent")
    os.symlink("tool-exec", project / "link-own")
    os.symlink(".env", project / "link-env")
    os.symlink("secrets", project / "link-secrets")
    os.symlink(".clawguard.json", project / "link-guard")
    return Settings(sections={"project": ProjectSettings(root=str(project))})


def rejected(data: Any, settings: Settings) -> None:
    """It is not a proposal at all."""
    stopped(data, settings, "reject")


def blocked(data: Any, settings: Settings) -> None:
    """It is a proposal, and one that no human is asked about."""
    stopped(data, settings, "block")


def stopped(data: Any, settings: Settings, verdict: str) -> None:
    """The proposal has this verdict, with a reason, and makes no draft."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    result = draft_from_proposal(raw, settings=settings, now=NOW)
    assert result.verdict.verdict == verdict, result.verdict
    assert result.verdict.errors
    assert result.draft is None
    shown = json.dumps(result.verdict.to_json())
    assert shown.isascii()
    assert "ghp_" not in shown


def looked_at(data: Any, settings: Settings) -> Any:
    """The proposal is never auto."""
    result = draft_from_proposal(json.dumps(data).encode(), settings=settings, now=NOW)
    assert result.verdict.verdict == "approval", result.verdict
    return result


@pytest.mark.parametrize("path", STOPPED_PATHS)
@pytest.mark.parametrize("tool", ["file.read", "file.write_safe"])
def test_paths_that_leave_the_project(path: str, tool: str, settings: Settings) -> None:
    args = {"path": path} | ({"content": "x"} if tool == "file.write_safe" else {})
    blocked({"tool": tool, "args": args, "risk": "critical"}, settings)


@pytest.mark.parametrize("path", ["../x", "/etc", "tool-exec", "link-out", "~", "a\x00b"])
@pytest.mark.parametrize(
    "tool", ["file.list", "git.diff", "git.status", "shell.execute_approved", "project.cleanup_safe"]
)
def test_every_tool_with_a_path_keeps_inside(path: str, tool: str, settings: Settings) -> None:
    args: dict[str, Any] = {"path": path}
    if tool == "shell.execute_approved":
        args = {"argv": ["ls"], "cwd": path}
    blocked({"tool": tool, "args": args, "risk": "critical"}, settings)
    if tool == "project.cleanup_safe":
        blocked({"tool": tool, "args": {"include": ["dist", path]}, "risk": "critical"}, settings)


@pytest.mark.parametrize("path", PROTECTED_PATHS)
def test_protected_paths_are_never_auto(path: str, settings: Settings) -> None:
    result = looked_at({"tool": "file.read", "args": {"path": path, "optional": True}, "risk": "low"}, settings)
    assert result.verdict.risk == "high"


@pytest.mark.parametrize("path", GUARD_PATHS)
def test_guards_settings_are_not_written(path: str, settings: Settings) -> None:
    content = '{"agent":{"autoWriteMemory":true}}'
    blocked({"tool": "file.write_safe", "args": {"path": path, "content": content}, "risk": "critical"}, settings)


@pytest.mark.parametrize("tool", ["web.fetch", "browser.open"])
@pytest.mark.parametrize("url", INSIDE_URLS)
def test_urls_that_reach_inside(url: str, tool: str, settings: Settings) -> None:
    blocked({"tool": tool, "args": {"url": url}, "risk": "critical"}, settings)


@pytest.mark.parametrize("tool", ["web.fetch", "browser.open"])
@pytest.mark.parametrize("url", NO_URLS)
def test_urls_that_are_none(url: str, tool: str, settings: Settings) -> None:
    rejected({"tool": tool, "args": {"url": url}, "risk": "critical"}, settings)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://0xa9fea9fe/",
        "http://[::ffff:169.254.169.254]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://metadata.google.internal/",
        "http://100.100.100.200/",
        "http://[fd00:ec2::254]/",
    ],
)
def test_metadata_is_blocked_whatever_is_allowed(url: str, settings: Settings) -> None:
    blocked({"tool": "browser.open", "args": {"url": url, "allowPrivate": True}, "risk": "critical"}, settings)


@pytest.mark.parametrize("risk", [None, "low", "medium"])
def test_a_private_host_needs_a_declared_risk(risk: str | None, settings: Settings) -> None:
    data: dict[str, Any] = {"tool": "browser.open", "args": {"url": "http://10.0.0.1/", "allowPrivate": True}}
    if risk:
        data["risk"] = risk
    blocked(data, settings)
    data["risk"] = "high"
    looked_at(data, settings)
    data["args"]["allowPrivate"] = False
    blocked(data, settings)


@pytest.mark.parametrize("argv", STOPPED_ARGV, ids=lambda argv: " ".join(argv)[:40])
def test_argv_that_never_runs(argv: list[str], settings: Settings) -> None:
    blocked({"tool": "shell.execute_approved", "args": {"argv": argv}, "risk": "critical"}, settings)
    result = draft_from_proposal(
        json.dumps({"tool": "shell.dry_run", "args": {"argv": argv}}).encode(), settings=settings, now=NOW
    )
    assert result.draft is None
    assert any("would be blocked" in reason for reason in result.verdict.reasons)


@pytest.mark.parametrize("entry", ["*", "dist/*", "build/**", "a?", "[ab]", "**/*.pyc"])
def test_a_cleanup_by_a_glob_is_refused_and_says_so(entry: str, settings: Settings) -> None:
    result = draft_from_proposal(
        json.dumps({"tool": "project.cleanup_safe", "args": {"include": ["dist", entry]}, "risk": "high"}).encode(),
        settings=settings,
        now=NOW,
    )
    assert result.verdict.verdict == "reject"
    assert "globs" in result.verdict.errors[0].message


@pytest.mark.parametrize("program", ["python3", "node", "ls", "git", "echo", "psql"])
@pytest.mark.parametrize("character", METACHARACTERS)
def test_no_argument_has_what_a_shell_acts_on(program: str, character: str, settings: Settings) -> None:
    for word in (character, f"a{character}b", f"a {character} b"):
        for argv in ([program, word], [program, "x", "y", word]):
            blocked({"tool": "shell.execute_approved", "args": {"argv": argv}, "risk": "critical"}, settings)


@pytest.mark.parametrize("program", ["python3", "node", "ls", "echo", "git"])
@pytest.mark.parametrize("command", COMMANDS_INSIDE)
def test_no_argument_is_itself_a_command_that_may_not_run(program: str, command: str, settings: Settings) -> None:
    for argv in ([program, command], [program, "x", command], [program, "x", command, "y"]):
        blocked({"tool": "shell.execute_approved", "args": {"argv": argv}, "risk": "critical"}, settings)


@pytest.mark.parametrize("argument", HONEST_ARGUMENTS)
def test_an_honest_argument_is_looked_at_by_a_human(argument: str, settings: Settings) -> None:
    looked_at({"tool": "shell.execute_approved", "args": {"argv": ["echo", argument]}}, settings)


@pytest.mark.parametrize(
    "argv",
    [["git", "-c", "core.pager=id", "log"], ["awk", "-f", "prog.awk"]],
    ids=lambda argv: argv[0],
)
def test_argv_that_may_start_more_is_drafted_as_opaque_and_high(argv: list[str], settings: Settings) -> None:
    result = looked_at({"tool": "shell.execute_approved", "args": {"argv": argv}}, settings)
    assert result.verdict.risk == "high"
    report = read_request(result.draft, path=result.file_name, settings=settings.request, now=NOW, stage="draft")
    assert report.exposure is not None and report.exposure.opaque
    assert "TG332" in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("argv", CRITICAL_ARGV, ids=lambda argv: " ".join(argv)[:40])
def test_argv_that_is_critical(argv: list[str], settings: Settings) -> None:
    assert looked_at({"tool": "shell.execute_approved", "args": {"argv": argv}}, settings).verdict.risk == "critical"


@pytest.mark.parametrize("fields", SECRET_FIELDS, ids=str)
def test_fields_that_take_secrets(fields: dict[str, str], settings: Settings) -> None:
    args = {"url": "https://example.com/", "text": "hello", **fields}
    blocked({"tool": "browser.type_proposed", "args": args, "risk": "critical"}, settings)


@pytest.mark.parametrize("text", SECRET_TEXTS)
def test_texts_that_are_secrets(text: str, settings: Settings) -> None:
    args = {"url": "https://example.com/", "selector": "#q", "text": text}
    blocked({"tool": "browser.type_proposed", "args": args, "risk": "critical"}, settings)


@pytest.mark.parametrize("said", LOW_CLICKS, ids=str)
def test_clicks_that_say_low(said: dict[str, str], settings: Settings) -> None:
    for risk in ("low", "medium"):
        args = {"url": "https://example.com/", "selector": "#go", **said}
        rejected({"tool": "browser.click_proposed", "args": args, "risk": risk}, settings)
    rejected({"tool": "browser.click_proposed", "args": args}, settings)
    looked_at({"tool": "browser.click_proposed", "args": args, "risk": "high"}, settings)


@pytest.mark.parametrize("selector", BARE_SELECTORS)
def test_selectors_that_name_nothing(selector: str, settings: Settings) -> None:
    args = {"url": "https://example.com/", "selector": selector}
    rejected({"tool": "browser.click_proposed", "args": args, "risk": "critical"}, settings)


@pytest.mark.parametrize("data", BYTES, ids=lambda data: repr(data[:40]))
def test_bytes_with_two_meanings_or_too_much(data: bytes, settings: Settings) -> None:
    rejected(data, settings)


@pytest.mark.parametrize("source", ["x", "../x", "https://example.com/skill.zip"])
def test_nothing_is_installed(source: str, settings: Settings) -> None:
    blocked({"tool": "skill.install_guarded", "args": {"source": source}, "risk": "critical"}, settings)


@pytest.mark.parametrize(
    "repo", ["a", "a/b/c", "a/b\n", "../b", "a/..", "./b", "a/.", "a b/c", "a/ь", "/b", "a/", "", "a%2fb/c"]
)
def test_repositories_that_are_none(repo: str, settings: Settings) -> None:
    rejected({"tool": "github.repo_read", "args": {"repo": repo}, "risk": "critical"}, settings)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("file.read", {"path": " "}),
        ("file.read", {"path": "\u200b"}),
        ("file.list", {"path": ""}),
        ("memory.search", {"query": "\t"}),
        ("memory.propose", {"content": "\n"}),
        ("web.search", {"query": "\u2800"}),
        ("github.issue_draft", {"repo": "a/b", "title": " ", "body": "x"}),
        ("browser.extract", {"url": "https://example.com/", "selector": " "}),
        ("browser.type_proposed", {"url": "https://example.com/", "selector": "#x", "text": ""}),
        ("app.open_proposed", {"app": ""}),
        ("subagent.delegate", {"task": " "}),
        ("shell.dry_run", {}),
        ("shell.dry_run", {"command": " "}),
        ("project.cleanup_safe", {"include": [" "]}),
    ],
)
def test_blank_is_no_proposal(tool: str, args: dict[str, Any], settings: Settings) -> None:
    rejected({"tool": tool, "args": args, "risk": "critical"}, settings)


@pytest.mark.parametrize(
    ("tool", "args", "risk"),
    [
        ("app.open_proposed", {"app": "Notes"}, "low"),
        ("app.open_proposed", {"app": "Notes"}, None),
        ("app.action_proposed", {"app": "Mail", "action": "send"}, "medium"),
        ("app.action_proposed", {"app": "Mail", "action": "send"}, None),
        ("github.issue_create_approved", {"repo": "a/b", "title": "t", "body": "b"}, "medium"),
        ("github.issue_create_approved", {"repo": "a/b", "title": "t", "body": "b"}, None),
    ],
)
def test_a_risk_below_the_minimum(tool: str, args: dict[str, Any], risk: str | None, settings: Settings) -> None:
    rejected({"tool": tool, "args": args} | ({"risk": risk} if risk else {}), settings)


def test_there_are_more_than_two_hundred() -> None:
    lists = [STOPPED_PATHS, PROTECTED_PATHS, GUARD_PATHS, INSIDE_URLS, NO_URLS, STOPPED_ARGV, CRITICAL_ARGV]
    lists += [SECRET_FIELDS, SECRET_TEXTS, LOW_CLICKS, BARE_SELECTORS, BYTES]
    assert sum(map(len, lists)) >= 200


def test_what_lies_outside_is_never_read(settings: Settings, tmp_path: Path) -> None:
    """A link that is put in place after the verdict is met by O_NOFOLLOW."""
    from threegate.plugins.changes.project import Project, ProjectError
    from threegate.plugins.changes.project_paths import read_path

    project = Project.open(settings.section(ProjectSettings).root)
    for text in ("link-env", "link-out/x", "link-secrets/x"):
        with pytest.raises(ProjectError):
            project.read(read_path(text), max_bytes=100)
