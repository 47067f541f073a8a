"""Content rules: attempts in prose are found, honest mentions pass."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.core import limits
from threegate.core.secretscan.scan import find_secrets
from threegate.request.content import check_content

INSTALLING = """
First run pip install pandas.
pip3 install -r requirements.txt
pip3.11 install --user -q pandas
Run `pip install pandas` before.
python -m pip install x
python3 -Im pip install x
python -mensurepip
apt install jq
apt-get install -y jq
needs apt-get install jq before
apt-get update is run first
dnf install x
yum -y install x
apk add curl
brew install x
npm install express
npm ci
npm i express
npx create-app
yarn add x
pnpm add x
gem install x
bundle install
cargo install ripgrep
go install example.org/a@latest
go get example.org/a
uv pip install x
uv add x
uvx ruff
poetry add x
conda install x
conda create and then conda install x
snap install x
dpkg -i x.deb
rpm -ivh x.rpm
pacman -S x
make install
python setup.py install
install.packages("x")
remotes::install_github("a/b")
curl https://example.org/a.sh | sh
curl -fsSL https://example.org/a.sh | sudo bash
wget -qO- https://example.org/a | bash
Please install the requests package.
Install numpy first
Install the following packages: a, b
then install the missing dependencies
You must install the python requests library.
The operator should install ffmpeg.
needs to install pandas and numpy
It has to install some extra packages.
Be sure to install these tools.
Kindly install jq
- install the required libraries
requests must be installed
pandas needs to be installed before the run
requires installation of a driver
install it via pip
Do not forget to pip install pandas
Don't hesitate to install the required packages
Please set up the required toolchain
reinstall the package x
The script does not touch the disk. Install the pandas package.
It is not large, but then pip install pandas.
"""
HARMLESS_INSTALLING = """
counts the install base of each product
Reads the installed-packages report and counts versions.
nothing is installed; no pip install is needed
No packages are installed.
Does not install any packages.
It does not run pip install or apt-get install.
never installs software
without installing dependencies
There is no need to install the requests package.
plots how many users install updates late
Compare install rates per region
Sum of installs by month
the installation guide is summarised
Analyse the log of the installer
the package manager logs are read
parses requirements.txt and lists the packages
the solar panel install date
Install count per week
install.log is parsed
installs.csv holds one row for each install
The pip of an apple; npm is a name.
lists what was installed with which version
They install on Monday and remove on Friday.
the make target is read
a yarn of wool, and gems
go getters
The update of the model is small.
The software that people install is counted
reads the settings of install scripts as data
counts how often users had to reinstall
pip is not used
conda and apt are mentioned in the log
"""
PLACES = """
reads /etc/passwd to find the users
copies the result to /root/.ssh
looks at /home/user/data
uses /proc/cpuinfo
uses /sys/class/net
writes //etc//hosts
opens /./etc/hosts
opens file:///in/a
opens FILE:///c
path: "/etc/a"
(/etc/a)
see `/etc/a`
reads /var/run/secrets
reads /var/log/syslog
reads /mnt/data
uses /usr/../etc/x and /etc/x
the path is "../../secret"
reads /in/../etc/shadow
host:/etc/x
runs /bin/sh
It reads /in/a. It also reads /etc/b.
It does not read much, but /etc/b is read.
"""
DEVICES = """
reads /dev/mem
writes /dev/sda
uses /dev/kvm for speed
talks to /var/run/docker.sock
mounts docker.sock
uses podman.sock
set DOCKER_HOST before
/dev/null2 is opened
the file /dev is listed
"""
HARMLESS_PLACES = """
reads /in/a and writes /out/b and /tmp/c
does not read /etc or /home
No access to /etc, /root, /home or /dev.
never touches /dev or /proc
/etc is not read
/home stays untouched
nothing under /var/run is needed
It runs without /dev/kvm.
writes to /dev/null only
the device column of the table
the train/dev/test split
and/or, input/output, km/h
see https://example.org/home/page
see https://example.org/etc/passwd
see https://etc.example.org//dev
http://home/a
the ratio a/etc
and so on, etc.
the root of the tree; home office; media files
a file: and a colon
an API under /api/v1/users
a docker image is described
the socket.io docs
the /in folder
profile: //
"""


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def _rules(text: str) -> set[str]:
    return {problem.rule for problem in check_content(text)}


@pytest.mark.parametrize("text", _lines(INSTALLING))
def test_an_instruction_to_install_is_found(text: str) -> None:
    assert _rules(text) == {"TG502"}
    assert _rules(f"Justification: {text}\nData sensitivity: public\n") == {"TG502"}


@pytest.mark.parametrize("text", _lines(HARMLESS_INSTALLING))
def test_installing_mentioned_harmlessly_passes(text: str) -> None:
    assert check_content(text) == ()
    assert check_content(f"---\npurpose: {text}\n---\n\nJustification: {text}\n") == ()


@pytest.mark.parametrize("text", _lines(PLACES))
def test_a_host_path_is_found(text: str) -> None:
    assert _rules(text) == {"TG503"}


@pytest.mark.parametrize("text", _lines(DEVICES))
def test_a_device_or_socket_is_found(text: str) -> None:
    assert "TG504" in _rules(text)


@pytest.mark.parametrize("text", _lines(HARMLESS_PLACES))
def test_places_mentioned_harmlessly_pass(text: str) -> None:
    assert check_content(text) == ()


def test_places_are_lines_and_columns() -> None:
    problems = check_content("é a\n\nruns pip install x and\n  reads /etc/x\n")
    assert [(problem.rule, problem.line, problem.column) for problem in problems] == [
        ("TG502", 3, 6),
        ("TG503", 4, 9),
    ]


def test_sections_that_have_readers_are_searched_for_secrets_only() -> None:
    text = (
        "## Command\n\nsed '/root/d' /etc/a\n\n## Risk Assessment\n\nJustification: reads /etc/b\n"
        '## Code\n```\nopen(\'/etc/c\')\n```\n## Inputs (JSON)\n```\n{"a": "/dev/x", "password": "hunter2"}\n```\n'
    )
    assert [(problem.rule, problem.line) for problem in check_content(text)] == [("TG503", 7), ("TG501", 14)]


def test_a_secret_is_named_by_its_kind_and_never_shown() -> None:
    text = "x\nlog in with password=hunter2 and AKIA" + "A1" * 8
    problems = check_content(text)
    assert [(problem.rule, problem.line, problem.column) for problem in problems] == [
        ("TG501", 2, 22),
        ("TG501", 2, 34),
    ]
    assert "hunter2" not in str(problems)
    assert "(password)" in problems[0].message
    assert check_content(text, secrets=find_secrets(text)) == problems
    assert check_content(text, secrets=[]) == ()


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_an_answer(text: str) -> None:
    for problem in check_content(text):
        assert 1 <= problem.line <= text.count("\n") + 1
        assert problem.column >= 1


@pytest.mark.parametrize(
    "piece",
    ["install the package foo\n", "no /etc /etc\n", "/etc ", "install ", "pip install -q ", "to install the ", "npm -a -a ", "a/", "curl x |",  # noqa: E501
     "must be ", "/./", "/in/a/..", "docker.", "\n- ", "not ", "é/etc ", "## Command\n", "must be installed "],
)  # fmt: skip
def test_64_kib_of_anything_are_searched(piece: str) -> None:
    """Quadratic work would run into the suite's timeout; bench/request_worst.py has the figures."""
    assert len(check_content(piece * (limits.REQUEST_BYTES // len(piece)))) <= 1000


@pytest.mark.parametrize("piece", ["a ", "/in/", "pip x ", "install y ", "é", "/etcetera ", "docker ", "no "])
def test_an_attempt_behind_much_text_is_still_found(piece: str) -> None:
    """A pattern set that ran out of memory would answer that nothing is there."""
    text = piece * (limits.REQUEST_BYTES // len(piece)) + ".\n\nRun pip install x. It reads /etc/y and /dev/z."
    assert {"TG502", "TG503", "TG504"} <= _rules(text)
