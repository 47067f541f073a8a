"""What a person must not miss in the lines that a change adds: each with its line, in our words.

Invariant: marks only warn. A line without one is not said to be harmless, and nothing is decided by them. Each line is
looked at once, by its names and by patterns without nested repetition, so the time grows with the text alone. A line
counts as added also where it was only moved: what it does there is new. Source: docs/spec/8-agents.md, "Marks".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from threegate.core.file_diff import DiffLine, Mark, TextChange
from threegate.plugins.changes.file_kinds import ending_of, kind_of
from threegate.plugins.changes.project_paths import collision_key

PROCESS: Final = "starts a process"
SHELL: Final = "starts a shell"
NETWORK: Final = "uses the network"
CODE: Final = "runs text or data as code"
DECODES: Final = "decodes text"
ENCODED: Final = "has encoded text"
HOST: Final = "names a host that the old text does not have"
INSTALL: Final = "runs when the package is installed"
SKIPS: Final = "skips a test"
UNCHECKED: Final = "a check of a test is gone"
TEST: Final = "is a test that changes"
ORDER: Final = (PROCESS, SHELL, NETWORK, CODE, DECODES, ENCODED, HOST, INSTALL, SKIPS)
"""What a line can be marked with, in the order in which it is said."""

_NAMES: Final[tuple[tuple[str, str], ...]] = (
    (
        PROCESS,
        """subprocess Popen os.system os.popen os.execl os.execle os.execlp os.execlpe os.execv os.execve os.execvp
        os.execvpe os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp os.spawnvpe os.fork
        os.forkpty os.posix_spawn os.posix_spawnp os.startfile pty.spawn posix_spawn posix_spawnp pexpect
        create_subprocess_exec create_subprocess_shell child_process execSync execFile execFileSync spawnSync execa
        Deno.run Deno.Command Bun.spawn exec.Command exec.CommandContext os.StartProcess syscall.Exec
        syscall.ForkExec Command.new process.Command Kernel.system Kernel.exec Kernel.spawn Process.spawn Open3
        IO.popen Runtime.getRuntime ProcessBuilder Process.Start shell_exec passthru proc_open pcntl_exec
        ShellExecute CreateProcess CreateProcessA CreateProcessW system() popen() execl()
        execlp() execle() execv() execvp() execve() fork() vfork() spawn() WinExec() os.execute io.popen""",
    ),
    (
        NETWORK,
        """requests.get requests.post requests.put requests.patch requests.delete requests.request requests.Session
        httpx urllib.request urllib2 urllib3 urlopen urlretrieve aiohttp paramiko ftplib smtplib telnetlib poplib
        imaplib xmlrpc http.client HTTPConnection HTTPSConnection socket.socket socket.create_connection
        socket.create_server asyncio.open_connection websockets pycurl XMLHttpRequest WebSocket sendBeacon EventSource
        axios http.get http.request https.get https.request net.connect net.createConnection net.Socket
        dgram.createSocket dns.resolve dns.lookup undici net.Dial net.DialTimeout net.Listen http.Get
        http.Post http.PostForm http.NewRequest http.NewRequestWithContext http.ListenAndServe reqwest ureq
        TcpStream TcpListener UdpSocket Net.HTTP TCPSocket UDPSocket HTTParty Faraday HttpClient HttpURLConnection
        URLConnection DatagramSocket curl_easy_init curl_exec curl_init fsockopen WebClient RestMethod
        WebRequest gethostbyname getaddrinfo fetch() socket()""",
    ),
    (
        CODE,
        """eval() exec() Function() compile() execfile() __import__ __builtins__ exec_module spec_from_file_location
        import_module runpy
        pickle.load pickle.loads pickle.Unpickler cPickle dill.load dill.loads marshal.load marshal.loads
        Marshal.load shelve.open jsonpickle joblib.load torch.load yaml.load yaml.unsafe_load yaml.full_load
        ctypes.CDLL ctypes.cdll CDLL cffi dlopen LoadLibrary LoadLibraryA LoadLibraryW System.load
        System.loadLibrary vm.runInContext vm.runInNewContext vm.runInThisContext vm.Script runInThisContext
        instance_eval class_eval module_eval instance_exec loadstring unserialize ObjectInputStream ScriptEngine
        defineClass Assembly.Load create_function() InteractiveInterpreter
        __subclasses__ sys.meta_path sys.path_hooks globalThis.eval window.eval self.eval""",
    ),
    (
        DECODES,
        """b64decode urlsafe_b64decode standard_b64decode b32decode b16decode b85decode a85decode unhexlify
        bytes.fromhex bytearray.fromhex codecs.decode zlib.decompress lzma.decompress bz2.decompress gzip.decompress
        atob() String.fromCharCode fromCharCode fromCodePoint base64_decode gzinflate gzuncompress
        str_rot13 hex2bin Base64.decode64 Base64.strict_decode64 Base64.getDecoder Base64.decode
        base64.StdEncoding base64.URLEncoding hex.DecodeString FromBase64String""",
    ),
    (
        SKIPS,
        """pytest.skip mark.skip mark.skipif mark.xfail unittest.skip unittest.skipIf it.skip test.skip describe.skip
        xit() xdescribe() t.Skip t.SkipNow t.Skipf it.only test.only describe.only it.todo test.todo""",
    ),
)
"""`word` is that name anywhere; `one.other` the second name right behind the first, joined by `.`, `::` or `->`;
`word()` a call of that name which is neither a member of something nor defined there.
"""

_PATTERNS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        SHELL,
        "sh bash zsh dash ksh python python3 perl ruby node",
        r"""(?x)
        \| \s* (?:sudo \s+ (?:-\S+ \s+)?)? (?:/\S+/)? (?:(?:ba|z|da|k)?sh|python3?|perl|ruby|node) \b
        (?: \s* (?:$ | [;&)"'`\\]) | \s+ - )
      | \b (?:ba|z|da|k)?sh \s+ (?:-\w+ \s+)? -\w*c \b
      | ["'] (?:/\S+/)? (?:ba|z|da|k)?sh ["'] \s* , \s* ["'] -\w*c ["']""",
    ),
    (SHELL, "shell", r"""shell["']?\s*[=:]\s*(?:True|true)\b|\$\(shell\s"""),
    (
        SHELL,
        "cmd powershell pwsh",
        r"""(?i)\bcmd(?:\.exe)?["']?[\s,]+["']?/c\b|\b(?:powershell|pwsh)(?:\.exe)?\b.{0,200}\s-""",
    ),
    (SHELL, "x", r"""(?:^|[=(,\s])%x[\[({|!]"""),
    (
        PROCESS,
        "nohup setsid crontab schtasks systemctl",
        r"""\b(?:nohup|setsid|crontab|schtasks|systemctl)\s+[-./$"'\w]""",
    ),
    (
        NETWORK,
        "curl wget nc ncat netcat socat ssh scp sftp rsync telnet ftp",
        r"""(?x)
        (?: ^ | [\s;&|("'`$=@] ) (?:curl|wget|nc|ncat|netcat|socat|ssh|scp|sftp|rsync|telnet|ftp) ["']?
        (?: [\s,]+ ["']? -{1,2}[A-Za-z0-9] | [\s,]+ ["']? (?:https?://|\$|\w+@|\d+\.\d+\.\d+\.\d+) )""",
    ),
    (NETWORK, "tcp udp", r"""/dev/(?:tcp|udp)/"""),
    (
        NETWORK,
        "socket requests http https net dgram tls dns http2",
        r"""(?x)
        \b (?:import|from) \s+ (?:socket|requests) \b
      | (?:\brequire \s* \( \s* | \bfrom \s+ | \bimport \s+) ["'] (?:node:)? (?:https?|http2|net|dgram|tls|dns) ["']
      | ^ \s* (?:import \s+)? "net(?:/http)?" \s* $""",
    ),
    (CODE, "eval", r"""(?x) (?: ^ | [;&|(){}] | \b(?:then|do|else) \s ) \s* eval \s+ ["'$`(\w] """),
    (CODE, "source", r"""(?:^|[;&|]|\s)(?:source|\.)\s+<\("""),
    (CODE, "setTimeout setInterval", r"""\bset(?:Timeout|Interval)\s*\(\s*["'`]"""),
    (CODE, "getattr", r"""\bgetattr\s*\(\s*(?:os|sys|builtins|__builtins__|__import__|importlib)\s*,"""),
    (CODE, "iex", r"""(?i)(?:^|[|;(])\s*iex\b\s*[($"']"""),
    (
        DECODES,
        "base64 xxd openssl uudecode",
        r"""\bbase64\s+(?:-d|-D|--decode)\b|\bxxd\s+-r|\bopenssl\s+(?:enc|base64)\s|\buudecode\s""",
    ),
    (DECODES, "Buffer", r"""\bBuffer\.from\s*\([^)]*,\s*["'](?:base64|hex)"""),
    (
        INSTALL,
        "preinstall install postinstall prepare prepublish cmd",
        r"""^\s*["'](?:(?:pre|post)?install|prepare|prepublish|(?:pre|post)-(?:install|update)-cmd)["']\s*:""",
    ),
    (SKIPS, "Ignore Disabled ignore", r"""@(?:Ignore|Disabled)\b|#\[ignore\b"""),
)
"""What is found, names of which one must be in the line, and what the line looks like."""

_ENCODED: Final = re.compile(
    r"(?:\\x[0-9a-fA-F]{2}){6}|(?:\\u00[0-7][0-9a-fA-F]){4}|(?:\\[0-3][0-7]{2}){6}|(?:%[0-9a-fA-F]{2}){8}"
    r"|(?:0[xX][0-9a-fA-F]{1,2}\s{0,4},\s{0,4}){16}|(?:[cC]hr\s{0,4}\(\s{0,4}\d{1,3}\s{0,4}\)\s{0,4}[+.,&]{0,2}\s{0,4}){4}"
)
_RUN: Final = re.compile(r"[A-Za-z0-9+/=_-]{60,}")
"""What base64 and hexadecimal text are made of."""
_DIGEST: Final = re.compile(r"(?i)sha-?\d|md5|integrity|digest|checksum|hash")
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_SHA256_HEX: Final = 64
"""Hexadecimal digits of a SHA-256, which is in many texts."""
_SHA512_BASE64: Final = 100
"""A SHA-512 in base64 is shorter."""
_URL_HOST: Final = re.compile(
    r"(?i)\b[a-z][a-z0-9+.-]{1,15}://(?:[^\s/@\"'<>]{1,100}@)?([a-z0-9][a-z0-9.-]{0,252}|\[[0-9a-f:.]{2,45}\])"
)
_BARE_HOST: Final = re.compile(
    r"(?i)[\"'`=]((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}"
    r"(?:com|net|org|io|dev|app|ai|co|me|info|biz|xyz|site|online|top|club|shop|cloud|sh|cc|tk|ru|cn|de|uk|fr|eu|us|in|to|ly|gg|tv|su|pw|onion))"
    r"(?=[\"'`/:\s]|$)"
)
_ADDRESS: Final = re.compile(r"(?<![\d.\w-])((?:\d{1,3}\.){3}\d{1,3})(?![\d.\w-])")
_NO_HOST: Final = re.compile(
    r"[\d.]+\.dev|www\.w3\.org|(?:.*\.)?(?:example|test|invalid|localhost|local)(?:\.(?:com|net|org))?|127\.\d+\.\d+\.\d+|0\.0\.0\.0|255\.\S+"
    r"|\[::1?\]|192\.0\.2\.\d+|198\.51\.100\.\d+|203\.0\.113\.\d+"
)
"""Names that lead nowhere or to this machine (RFC 2606, 5737, 6761), the names of forms of XML, and versions."""

_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_LAST: Final = re.compile(r"\w{1,40}$")
_REACH: Final = 60
"""Characters before a name that are looked at."""
_CALLED: Final = re.compile(r"\s{0,8}\(\s{0,8}[^\s)]")
_DEFINED: Final = re.compile(r"(?:\b(?:def|function|func|fn|sub|fun|int|static)\s{1,8}\*?|\.\s{0,8})$")
_OF_NO_VALUE: Final = re.compile(r"\bvoid\s{1,8}\*?$")
"""In JavaScript a call whose value is not used, elsewhere a definition."""
_SCRIPTED: Final = frozenset(("fetch", "spawn", "eval", "Function"))
"""Names of calls in JavaScript."""
_COMMENTS: Final = {
    "#": frozenset("py pyi rb sh bash yml yaml toml pl r ex exs jl nim".split()),
    "//": frozenset("js mjs cjs jsx ts mts cts tsx go rs java kt c h cc cpp hpp cs swift scala dart".split()),
}
"""What a line begins with that is a comment, and the endings of files in which it is."""
_CHECK: Final = re.compile(
    r"\b(?:assert\w*|expect|should\w*|EXPECT_\w+|ASSERT_\w+|require\.\w+|t\.(?:Error|Fatal)f?)\b\s{0,8}[(\s.!]"
)
_LOCK: Final = re.compile(r"(?:.*/)?[^/]*(?:\.lock|-lock\.\w+|\.sum)")
"""Names of packages and their digests. Why such a file runs later is said of the whole of it."""
_TEST_NAME: Final = re.compile(
    r"(?:.*/)?(?:tests?|specs?|__tests__|testing)/.*|(?:.*/)?(?:test_[^/]*|[^/]*_test\.\w+|[^/]*[._-](?:test|spec)\.\w+"
    r"|[^/]*tests?\.(?:java|kt|cs|php|swift)|[^/]*_spec\.rb)"
)


def _by_last() -> dict[str, list[tuple[str, str, bool]]]:
    """The table by the last name of each entry: what it means, the name before, whether it has to be a call."""
    found: dict[str, list[tuple[str, str, bool]]] = {}
    for what, names in _NAMES:
        for name in names.split():
            before, _, last = name.removesuffix("()").rpartition(".")
            found.setdefault(last, []).append((what, before, name.endswith("()")))
    return found


_BY_LAST: Final = _by_last()
_LOOKS: Final = tuple((what, frozenset(words.split()), re.compile(pattern)) for what, words, pattern in _PATTERNS)
_PIPED: Final = _LOOKS[0][2]
"""What a person might copy from a text and run."""
_WORDS: Final = frozenset(_BY_LAST) | frozenset().union(*(words for _, words, _ in _LOOKS))


def is_test(path: str) -> bool:
    """Whether a path is that of a test, by its name and folders."""
    name = collision_key(path)
    return _TEST_NAME.fullmatch(name) is not None and (kind_of(name) == "source" or "test" in name.rpartition("/")[2])


def marks_of(path: str, text: TextChange, *, runs: bool = False) -> Iterator[Mark]:
    """The marks of a file's lines, in their order. `runs` is whether it runs by itself, whatever its name says."""
    name = collision_key(path)
    comment = next((f"{sign} " for sign, endings in _COMMENTS.items() if ending_of(name) in endings), "")
    prose = _LOCK.fullmatch(name) is not None or (not runs and kind_of(name) == "inert")
    test = is_test(path)
    if test and text.removed:
        yield Mark(0, TEST)
    known: frozenset[str] | None = None
    for piece in text.pieces:
        added = text.new[piece.new_start : piece.new_end]
        if test:
            gone = [place for place in range(piece.old_start, piece.old_end) if _CHECK.search(text.old[place])]
            if len(gone) > sum(_CHECK.search(line) is not None for line in added):
                yield from (Mark(place + 1, UNCHECKED, removed=True) for place in gone)
        for number, whole in enumerate(added, piece.new_start + 1):
            spans = DiffLine("+", 0, number, whole, changed=text.new_changed.get(number - 1, ())).shown()
            line = "\n".join(whole[start:end] for start, end in spans)  # of a long one what is on the screen
            found = set(_looks(line, prose or (bool(comment) and line.lstrip().startswith(comment))))
            if named := _hosts(line):
                known = _hosts("\n".join(text.old)) if known is None else known
                found |= {HOST} if named - known else set()
            yield from (Mark(number, what) for what in ORDER if what in found)


def _looks(line: str, quiet: bool) -> Iterator[str]:
    """What a line does. In a `quiet` one, a comment or prose, only what a person might copy and run."""
    if _ENCODED.search(line) or any(_encoded(run[0], line) for run in _RUN.finditer(line)):
        yield ENCODED
    words = frozenset(_WORD.findall(line))
    if words.isdisjoint(_WORDS):
        return
    for what, names, pattern in _LOOKS:
        if (pattern is _PIPED or not quiet) and not words.isdisjoint(names) and pattern.search(line):
            yield what
    if quiet or words.isdisjoint(_BY_LAST):
        return
    for word in _WORD.finditer(line):
        for what, before, call in _BY_LAST.get(word[0], ()):
            if _means(line, word.start(), word.end(), before, call):
                yield what


def _means(line: str, start: int, end: int, before: str, call: bool) -> bool:
    """Whether a name of the table, which is at this place, is what its entry means."""
    head = line[max(0, start - _REACH) : start]
    if before:
        joined = head.rstrip()
        if not joined.endswith((".", "::", "->")):
            return False
        found = _LAST.search(joined.rstrip(".:>-?").rstrip())
        return found is not None and found[0] == before
    if not call:
        return True
    defined = _DEFINED.search(head) or (line[start:end] not in _SCRIPTED and _OF_NO_VALUE.search(head))
    return _CALLED.match(line, end) is not None and not defined


def _encoded(run: str, line: str) -> bool:
    """Whether a long run of letters and digits is text in another form, and not a name, a path or a digest."""
    digest = _DIGEST.search(line) is not None
    if _HEX.fullmatch(run):
        return len(run) > _SHA256_HEX and not digest
    signs = sum(map(run.count, "/_-="))
    digits, upper = sum(map(str.isdigit, run)), sum(map(str.isupper, run))
    lower = len(run) - digits - upper - signs - run.count("+")
    mixed = 30 * digits >= len(run) and 10 * min(upper, lower) >= len(run) and 10 * signs <= len(run)
    return mixed and not (digest and len(run) <= _SHA512_BASE64)


def _hosts(text: str) -> frozenset[str]:
    """The hosts that a text names, in lower case, but for those that lead nowhere."""
    found = {
        match[1].lower().rstrip(".") for form in (_URL_HOST, _BARE_HOST, _ADDRESS) for match in form.finditer(text)
    }
    return frozenset(host for host in found if _NO_HOST.fullmatch(host) is None)
