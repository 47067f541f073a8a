"""Nothing outside the closed tables is ever transparent; everyday commands are, and carry no mark."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adversarial.request_commands import honest_commands, opaque_commands
from tests.request.examples import ERA, KEYS, MONTY, RISK, ids, read, request
from threegate.core import limits
from threegate.core.settings import RequestSettings
from threegate.request.command.data_tools import TOOLS, why_opaque
from threegate.request.command.pinned_script import script_word
from threegate.request.command.read_command import read_command
from threegate.request.exposure import Exposure
from threegate.request.job import Platform, build_job
from threegate.request.report import Report

PROGRAMS = frozenset(RequestSettings().programs)
DIGEST = "0123456789abcdef" * 4

EVERYDAY = r"""
cat data.csv
cat -n data.csv
head -n 5 data.csv
head -5 data.csv
head -c 100 data.bin
tail -n +2 data.csv
tail -n -2 data.csv
sort data.csv
sort -t, -k2,2n data.csv
sort -u -o /out/sorted data.csv
sort --reverse --numeric-sort --key=2 data.csv
uniq -c data.csv
wc -l data.csv
cut -d, -f1,3 data.csv
cut -d ';' -f 1 data.csv
tr a-z A-Z
tr -d '\r'
grep -c error log.txt
grep -E 'a|b' data.csv
grep -rn 'import os' /in
grep -n 'sudo bash' log.txt
grep -A 3 -B 2 Traceback log.txt
grep --include='*.py' -r def /in
grep -f patterns.txt data.csv
grep docker data.csv
egrep '(a|b)' data.csv
fgrep -i a data.csv
jq . data.json
jq -r '.[] | select(.x > 3) | .name' data.json
jq --arg n 5 '.a == $n' data.json
cmp -s a b
diff -u a.txt b.txt
diff --brief --recursive /in/a /in/b
md5sum data.csv
sha256sum -c sums.txt
ls -la /in
ls --color=never -1 /in
find /in -name '*.csv'
find /in -type f -size +1k -printf '%p\n'
find /in '(' -name a -o -name b ')' -print0
tar -tf a.tar
tar -xzf a.tar.gz -C /tmp
tar xzf a.tar.gz -C /tmp
tar -czf /out/a.tar.gz -C /in data
tar --list --file a.tar
unzip -l a.zip
zipinfo a.zip
base64 -d a.txt
od -c data.bin
xxd -l 64 data.bin
hexdump -C data.bin
nl data.csv
paste -d, a.csv b.csv
join -t , -1 2 -2 1 a.csv b.csv
comm -12 a b
fold -w 80 data.txt
column -t -s, data.csv
date -u +%Y/%m/%d
date '+%H;%M'
seq 1 10
echo hello world
printf '%s\n' a b
printf '(%s)' a
true
sleep 1
test -f /in/a
stat -c %s data.bin
du -sh /in
file --mime-type data.bin
iconv -f latin1 -t utf-8 data.csv
rev data.csv
tac data.csv
shuf -n 5 data.csv
split -l 100 data.csv /out/part-
csplit -f /out/part- a.txt 10 20
expand -t 4 a.txt
basename /in/a/b.txt .txt
realpath /in/a
zcat data.gz
gzip -dc data.gz
xz -dc data.xz
tee /out/a
cp -r /in/a /out/b
mkdir -p /out/a
/usr/bin/sort data.csv
expr 1 + 2
curl -sSf -o /out/a https://example.org/a
curl 'https://example.org/?a=1&b=2'
curl -H 'Accept: application/json' --data @/in/body.json https://example.org/a
""".strip().split("\n")
"""What an agent writes every day for reading and reshaping data."""


@pytest.mark.parametrize("line", EVERYDAY)
def test_an_everyday_command_is_transparent_and_unmarked(line: str) -> None:
    command = read_command(line, programs=PROGRAMS)
    assert command.problems == () and command.argv is not None
    assert why_opaque(command.argv) == ""


def test_the_everyday_commands_are_many() -> None:
    assert len(set(EVERYDAY)) == len(EVERYDAY) >= 60


@pytest.mark.parametrize(("kind", "line"), opaque_commands.cases())
def test_a_command_that_may_run_unshown_code_is_refused_or_opaque(kind: str, line: str) -> None:
    command = read_command(line, programs=PROGRAMS)
    assert command.argv is None or (why_opaque(command.argv) and script_word(command.argv) is None)


def test_every_tool_is_among_the_usual_programs() -> None:
    assert set(TOOLS) <= set(limits.REQUEST_PROGRAMS)


_WORDS = st.one_of(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12),
    st.sampled_from(
        [
            "-exec",
            "-delete",
            "--filter=x",
            "--compress-program",
            "-I",
            "-F",
            "-c",
            "-e",
            "-K",
            "--config",
            "-L",
            "-f",
        ]
    ),
)


@given(
    st.sampled_from([shlex.split(line) for line in EVERYDAY]),
    st.lists(_WORDS, min_size=1, max_size=3),
    st.data(),
)
def test_no_word_with_a_dash_outside_the_table_is_ever_transparent(
    argv: list[str], new: list[str], data: st.DataObject
) -> None:
    for word in new:
        argv = argv.copy()
        argv.insert(data.draw(st.integers(1, len(argv))), word)
    tool = TOOLS[argv[0].rpartition("/")[2]]
    if why_opaque(argv) == "" and not tool.any_words:
        for word in argv[1:]:
            if word.startswith("--"):
                assert word == "--" or word[2:].partition("=")[0] in tool.longs
            elif word.startswith("-") and word != "-" and word not in tool.whole:
                assert word[1] in tool.flags + tool.values + "0123456789"


@given(st.text(min_size=1, max_size=10).filter(lambda name: name.rpartition("/")[2] not in TOOLS))
def test_no_program_outside_the_table_is_ever_transparent(name: str) -> None:
    assert why_opaque([name, "a"])


@given(
    st.sampled_from(["python3", "python", "node", "perl", "ruby", "awk", "sed", "jq"]),
    st.lists(_WORDS, max_size=4),
)
def test_an_interpreter_runs_a_script_only_by_its_closed_form(program: str, words: list[str]) -> None:
    script = script_word([program, *words])
    if script is not None:
        before = words[: words.index(script)]
        allowed = {
            "python3": r"-[uBIEsSqbO]+|-W.*|-X.*|error|ignore|default|always|once|utf8|dev",
            "sed": r"-[nEs]+|-f",
            "awk": "-f",
            "jq": "-f",
        }
        pattern = allowed.get(program.replace("python", "python3").replace("33", "3"), "(?!)")
        assert all(re.fullmatch(pattern, word) for word in before)
        assert script.endswith((".py", ".js", ".mjs", ".cjs", ".pl", ".rb", ".awk", ".sed", ".jq"))


def asked(command: str, *inputs: str, unpack: tuple[str, ...] = (), **keys: str) -> Report:
    """The report of a good request with this command and these inputs."""
    given = "".join(
        f"\n  - name: {name}\n    sha256: {DIGEST}" + ("\n    unpack: true" if name in unpack else "")
        for name in inputs
    )
    sections = {
        **ERA,
        "Command": f"\n{command}\n",
        "Input Files": "\n" + ("\n".join(f"- /in/{name}" for name in inputs) or "none") + "\n",
    }
    if "network" in keys:
        sections["Risk Assessment"] = RISK.replace("rationale: none", "rationale: the data is there")
    return read(request({**KEYS, **({"inputs": given} if given else {}), **keys}, sections))


def exposed(command: str, *inputs: str, unpack: tuple[str, ...] = (), **keys: str) -> Exposure:
    report = asked(command, *inputs, unpack=unpack, **keys)
    assert report.exposure is not None, report.findings
    assert ("TG332" in ids(report)) == report.exposure.opaque
    return report.exposure


@pytest.mark.parametrize(
    ("command", "inputs", "scripts"),
    [
        ("python3 script.py --all", ("script.py",), ("script.py",)),
        ("python -u -B /in/a.py x 'a; b'", ("a.py", "data.csv"), ("a.py",)),
        ("python3.11 -I -X utf8 -W error a.py", ("a.py", "b.py", "c.json"), ("a.py", "b.py")),
        ("/usr/bin/python3 -Werror a.py -c x", ("a.py",), ("a.py",)),
        ("node /in/a.js", ("a.js", "b.mjs"), ("a.js", "b.mjs")),
        ("perl a.pl x", ("a.pl",), ("a.pl",)),
        ("ruby a.rb", ("a.rb",), ("a.rb",)),
        ("awk -f a.awk data.csv", ("a.awk", "data.csv"), ("a.awk",)),
        ("sed -n -f /in/a.sed data.csv", ("a.sed", "data.csv"), ("a.sed",)),
        ("jq -f a.jq data.json", ("a.jq", "data.json"), ("a.jq",)),
        ("sort data.csv", ("data.csv", "model.bin"), ()),
    ],
)
def test_a_pinned_script_is_transparent_and_named(
    command: str, inputs: tuple[str, ...], scripts: tuple[str, ...]
) -> None:
    exposure = exposed(command, *inputs)
    assert (exposure.opacity, exposure.scripts) == ("transparent", scripts)


@pytest.mark.parametrize(
    ("command", "inputs"),
    [
        ("python3 script.py", ()),
        ("python3 /out/a.py", ("a.py",)),
        ("python3 /tmp/a.py", ("a.py",)),
        ("python3 b.py", ("a.py",)),
        ("python3 /in/sub/a.py", ("a.py",)),
        ("python3 a.py", ("a.py", "json.so")),
        ("python3 a.py", ("a.py", "json.pyc")),
        ("python3 a.py", ("a.py", "lib.zip")),
        ("python3 a.py", ("a.py", "module")),
        ("python3 a.zip", ("a.zip",)),
        ("python3 a", ("a",)),
        ("ruby a.rb", ("a.rb", ".rubyrc")),
        ("node a.json", ("a.json",)),
        ("python3 -c 'print(1)' a.py", ("a.py",)),
        ("python3 -m a a.py", ("a.py",)),
        ("python3 -X importtime a.py", ("a.py",)),
        ("python3 -W error::a.b a.py", ("a.py",)),
        ("python3 -i a.py", ("a.py",)),
        ("node -r ./b.js a.js", ("a.js", "b.js")),
        ("awk -f a.awk -f b.awk c.txt", ("a.awk", "b.awk", "c.txt")),
        ("env python3 a.py", ("a.py",)),
        ("/in/python3 a.py", ("python3", "a.py")),
    ],
)
def test_a_script_that_is_not_all_the_code_is_opaque(command: str, inputs: tuple[str, ...]) -> None:
    assert exposed(command, *inputs).opaque


def test_a_script_that_starts_elsewhere_or_beside_an_archive_is_opaque() -> None:
    assert exposed("python3 a.py", "a.py", workdir="/out").opaque
    assert not exposed("python3 /in/a.py", "a.py", workdir="/out").opaque
    assert exposed("python3 a.py", "a.py", "b.tar", unpack=("b.tar",)).opaque
    assert exposed("python3 b.tar", "b.tar", unpack=("b.tar",)).opaque


def test_the_code_of_a_monty_request_is_on_the_screen() -> None:
    report = read(request({**KEYS, "backend": "monty"}, MONTY))
    assert report.exposure == Exposure("transparent", "the code is in the request")


def test_a_file_that_is_no_request_has_neither_fact() -> None:
    value = asked("bash a.sh").to_json()
    assert [value[key] for key in ("opacity", "opacity_reason", "scripts", "reach")] == [None] * 4


ALLOWLIST = {"network": "allowlist", "network_allowlist": "\n  - b.example.com:8443\n  - a.example.com"}


@pytest.mark.parametrize(
    ("command", "inputs", "keys", "risk", "reach"),
    [
        ("sort data.csv", ("data.csv",), {}, "low", ()),
        ("awk '{print}' data.csv", ("data.csv",), {}, "medium", ()),
        ("python3 a.py", ("a.py",), {}, "low", ()),
        (
            "curl -sS https://a.example.com",
            (),
            ALLOWLIST,
            "medium",
            ("network a.example.com:443", "network b.example.com:8443"),
        ),
        (
            "python3 -c 'print(1)'",
            (),
            ALLOWLIST,
            "high",
            ("network a.example.com:443", "network b.example.com:8443"),
        ),
        ("frobnicate a", (), {}, "high", ()),
    ],
)
def test_the_effective_risk_follows_from_both_facts(
    command: str, inputs: tuple[str, ...], keys: dict[str, str], risk: str, reach: tuple[str, ...]
) -> None:
    report = asked(command, *inputs, **keys)
    assert report.request is not None and report.exposure is not None, report.findings
    assert report.exposure.reach == reach
    job = build_job(report.request, input_sizes={DIGEST: 10}, platform=Platform())
    assert job.effective_risk == risk


def test_a_script_that_cannot_be_shown_whole_is_opaque() -> None:
    report = asked("python3 a.py", "a.py", "data.csv")
    assert report.request is not None and report.exposure is not None, report.findings
    for unread, risk in (((), "low"), (("data.csv",), "low"), (("data.csv", "a.py"), "medium")):
        job = build_job(report.request, input_sizes={DIGEST: 10}, platform=Platform(), unread=unread)
        assert job.effective_risk == risk and job.unread == unread
        assert report.exposure.with_unread(unread).opaque is (risk == "medium")


def test_no_reason_repeats_a_secret() -> None:
    key = "AKIA" + "A1" * 8
    report = asked(f"sort --{key}=x data.csv")
    assert report.exposure is None, "what holds a secret is read no further"
    assert key not in str(report.to_json())


def test_the_table_of_the_page_is_the_table_of_the_code() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "commands.md").read_text("utf-8")
    shown = re.search(r"<!-- tools -->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert shown is not None and shown[1].split() == sorted(f"`{name}`" for name in TOOLS)


def test_honest_commands_are_seldom_marked_without_need() -> None:
    tools = [line for line in honest_commands.cases() if line.split()[0] in TOOLS]
    marked = [line for line in tools if read_command(line, programs=PROGRAMS).problems]
    assert marked == []
