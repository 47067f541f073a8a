"""Words that install software, recognized in any text: an argument, code or prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from threegate.core.secretscan.scan import PatternSet, one_byte_each, spans

_GAP: Final = r"\s{1,4}"
_OPTIONS: Final = r"(?:--?[a-z][-=a-z]{0,30}\s{1,4}){0,4}"

_COMMANDS: Final = (
    r"(?i)\b(?:pip|pipx|conda|mamba|micromamba|poetry|pipenv|pdm|gem|bundle|npm|yarn|pnpm|bun|brew|snap|flatpak|cargo|choco|winget|scoop"
    r"|dnf|yum|zypper|apk|apt|apt-get|aptitude|opam|luarocks|cpan|cpanm|composer|tlmgr|nix-env|helm|opkg|microdnf|tdnf)[0-9.]{0,5}"
    + _GAP
    + _OPTIONS
    + r"(?:(?:install|reinstall|groupinstall|localinstall|add|ci)\b|i[ \t]+[@a-z])",
    r"(?i)\b(?:apt|apt-get|dnf|yum|zypper|apk|snap|brew)" + _GAP + _OPTIONS + r"(?:update|upgrade|dist-upgrade)\b",
    (
        r"(?i)\b(?:uv[ \t]{1,4}(?:pip|add|sync|tool[ \t]{1,4}install)\b|uvx[ \t]{1,4}[a-z]|npx[ \t]{1,4}(?:--?[a-z]+[ "
        r"\t])?[@a-z])"
    ),
    r"\bgo[ \t]{1,4}(?:get|install)[ \t]{1,4}[a-z0-9.-]+/",
    r"(?i)\bpython[0-9.]{0,5}"
    + _GAP
    + (
        r"(?:-[A-Za-z]{1,6}[ \t]{1,4}){0,3}-[A-Za-z]{0,6}m[ "
        r"\t]{0,4}(?:pip|ensurepip|easy_install|pipx|virtualenv|venv)\b"
    ),
    r"(?i)\bpython[0-9.]{0,5}[ \t]{1,4}(?:[^ \t\n]{0,200}/)?setup\.py[ \t]{1,4}(?:install|develop)",
    (
        r"\b(?:dpkg[ \t]{1,4}(?:-i|--install)|rpm[ \t]{1,4}-[iU][a-z]{0,3}|pacman[ \t]{1,4}-S[a-z]{0,3}|easy_install[ "
        r"\t]{1,4}[a-z]|make[ \t]{1,4}install)\b"
    ),
    (
        r"(?i)\binstall\.packages[ "
        r"\t]{0,2}\(|\bBiocManager::install\b|\b(?:devtools|remotes|pak|renv)::(?:install|pkg_install)\w{0,20}|\bPkg\.add\b"
    ),
    r"(?i)\b(?:curl|wget)[ \t][^\n|]{1,300}\|[ \t]{0,3}(?:sudo[ \t]{1,3})?(?:ba|z|da|k|a)?sh\b",
)
_SET: Final = PatternSet(_COMMANDS)
_CODE: Final = (
    r"\b(?:import|from)\s{1,4}(?:pip|ensurepip|venv|virtualenv)\b",
    r"\b(?:__import__|import_module|run_module|m)\s{0,2}\(\s{0,2}[\"'](?:pip|ensurepip|venv)\b",
    r"(?:\b|-M)CPAN\b|\bApp::cpanminus\b|\bGem\.install\b|\bGem::(?:DependencyInstaller|Commands|Installer)\b|\bBundler\.(?:setup|require)\b",
    r"[\"'](?:pip3?|uv|conda|npm|yarn|pnpm|apt|apt-get|dnf|yum|apk|gem)[\"']\s{0,3},\s{0,3}[\"'](?:install|add|i)[\"']",
    r"[\"']-m[\"']\s{0,3},\s{0,3}[\"'](?:pip|ensurepip|venv)[\"']",
    r"\binstall_(?:github|version|local|url|git|cran|bioc|gitlab|bitbucket)\b|\bbiocLite\b|\b(?:update|download)\.packages\b",
)
_CODE_SET: Final = PatternSet(_CODE)
_ANY: Final = PatternSet(_COMMANDS + _CODE)
_MODULE: Final = re.compile(
    r"(?:-[A-Za-z]*m)?(?:pip|ensurepip|venv|virtualenv|pipx|uv|conda|easy_install|poetry|pipenv|pdm|hatch|get-pip|ez_setup|get-poetry|(?:npm|npx)-cli|yarn|pnpm)(?:\.[a-z_.]+)?"
)


def find_installs(text: str, *, most: int = 400) -> Iterator[tuple[int, int]]:
    """Places of the commands in `text` that would install software, at most `most` of a kind. Linear time."""
    data = one_byte_each(text)
    for number in _SET.which(data):
        yield from spans(_COMMANDS[number], data, most=most)


def find_code_installs(text: str, *, most: int = 400) -> Iterator[tuple[int, int]]:
    """Places of the calls of a language's own installer in code. Linear time."""
    data = one_byte_each(text)
    for number in _CODE_SET.which(data):
        yield from spans(_CODE[number], data, most=most)


def installs(text: str) -> bool:
    """Whether there is a command or a call in `text` that would install software."""
    return bool(_ANY.which(one_byte_each(text)))


def names_installer(word: str) -> bool:
    """Whether a word is an installer's module or script: ``-mpip``, ``pip._internal``, ``get-pip.py``."""
    return _MODULE.fullmatch(word.rpartition("/")[2]) is not None
