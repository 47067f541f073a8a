"""The rules of the Code and Inputs (JSON) sections of Monty requests."""

from __future__ import annotations

from typing import Literal

from threegate.request.report import Severity
from threegate.request.rules.rule import Rule


def _rule(
    number: str,
    name: str,
    message: str,
    text: str,
    accepted: tuple[str, ...],
    refused: tuple[str, ...],
    where: Literal["code", "vars"] = "code",
    severity: Severity = "error",
) -> Rule:
    return Rule(number, name, severity, message, text, where, accepted, refused)


RULES = (
    _rule(
        "TG401",
        "code-syntax",
        "the code is not Python",
        "It is read as Python 3 before anybody is asked to approve it.",
        ("x = 1\nprint(x)\n",),
        ("x = = 1\n", "print 'a'\n", "def f(:\n    pass\n"),
    ),
    _rule(
        "TG402",
        "code-nesting",
        "the code is nested too deeply, or has too many parts, to be read",
        "Code that makes its reader run out of stack or time is refused unread. Make it flatter or shorter.",
        ("x = ((1 + 2) * 3)\n",),
        ("x = " + "-" * 6000 + "1\n", "x = " + "[" * 300 + "\n", "a = 1\n" * 1900 + "a, " * 5000 + "a\n"),
    ),
    _rule(
        "TG403",
        "code-import",
        "Monty does not have this module",
        "It has asyncio, base64, collections, csv, dataclasses, datetime, decimal, functools, hashlib, itertools, "
        "json, math, os (files only), pathlib, random, re, time, tomllib, typing and a few more; use backend ERA for "
        "others.",
        ("import json, math\nfrom pathlib import Path\n",),
        ("import socket\n", "from subprocess import run\n", "import numpy as np\n", "from . import x\n"),
    ),
    _rule(
        "TG404",
        "code-installs",
        "the code installs software",
        "Monty has no way to do it; the attempt is refused before anybody is asked.",
        ("print('install base')\n",),
        ("print('pip install x')\n", "__import__('pip')\n", "exec('import pip')\n"),
    ),
    _rule(
        "TG405",
        "code-host-path",
        "the code names a path of the host",
        "Monty sees /in and /out only.",
        ("open('/in/a').read()\n", "x = 1 / 2\n"),
        ("open('/etc/passwd')\n", "open('/in/../x')\n", "p = 'file:///in/x'\n"),
    ),
    _rule(
        "TG406",
        "code-device",
        "the code names a device or a container engine's socket",
        "Neither is there.",
        ("x = 'device'\n",),
        ("open('/dev/mem')\n", "s = 'docker.sock'\n"),
    ),
    _rule(
        "TG407",
        "code-unsupported",
        "a statement that Monty does not support",
        "yield, del, async with, async for, except*, import * and classes with bases do not run there. "
        "Write it another way, or use backend ERA.",
        ("class A:\n    def f(self):\n        return [x for x in range(3)]\n",),
        (
            "def f():\n    yield 1\n",
            "x = 1\ndel x\n",
            "from json import *\n",
            "class E(Exception):\n    pass\n",
            "async def f(x):\n    async with x:\n        pass\n",
        ),
    ),
    _rule(
        "TG411",
        "vars-json",
        "the inputs are not JSON",
        "One JSON value, at most 64 levels deep.",
        ('{"a": [1, 2.5, null]}\n',),
        ("{'a': 1}\n", '{"a": 1,}\n', "{\n", '{"a": ' + "[" * 70 + "]" * 70 + "}\n"),
        "vars",
    ),
    _rule(
        "TG412",
        "vars-duplicate",
        "a key stands twice in one object",
        "Readers disagree about which one counts. Keep one.",
        ('{"a": {"b": 1}, "b": 2}\n',),
        ('{"a": 1, "a": 2}\n', '{"x": [{"a": 1, "\\u0061": 2}]}\n'),
        "vars",
    ),
    _rule(
        "TG413",
        "vars-number",
        "NaN, Infinity or a number that JSON cannot carry",
        "Write such a value as a string.",
        ('{"a": 1e300}\n',),
        (
            '{"a": NaN}\n',
            '{"a": -Infinity}\n',
            '{"a": 1e999}\n',
            '{"a": 9007199254740992}\n',
            '{"a": ' + "9" * 5000 + "}\n",
        ),
        "vars",
    ),
    _rule(
        "TG414",
        "vars-object",
        "the inputs are no object",
        "The keys of the object become the variables of the code.",
        ("{}\n",),
        ("[]\n", "1\n", '"a"\n', "null\n"),
        "vars",
    ),
    _rule(
        "TG415",
        "vars-key",
        "a key is no free Python name",
        (
            "Keys are identifiers of ASCII letters, digits and _, no keywords, no builtins and no module names, so that "  # noqa: E501
            "they hide nothing."
        ),
        ('{"rows": 1, "max_rows_2": 2}\n',),
        ('{"a b": 1}\n', '{"class": 1}\n', '{"open": 1}\n', '{"json": 1}\n', '{"": 1}\n', '{"__x__": 1}\n'),
        "vars",
    ),
    _rule(
        "TG416",
        "code-input",
        "the code opens a file of /in that inputs does not declare",
        "Only declared inputs are in /in: add the file's name and sha256 to inputs, or correct the name.",
        ("open('/out/result.txt', 'w').write('1')\n", "name = 'data'\nprint(f'/in/{name}')\n"),
        (
            "print(open('/in/not-declared.csv').read())\n",
            "with open(file='/in/not-declared.csv') as f:\n    print(f.read())\n",
            "from pathlib import Path\nprint(Path('/in/folder/x').read_text())\n",
        ),
        severity="warning",
    ),
)

TYPES = Rule(
    "TG409",
    "code-types",
    "warning",
    "Monty's type checker doubts the code",
    "Told by the daemon's verdict and by approve only, never by validate; nothing is run for it. Look twice.",
    "code",
    ("x: int = 1\n",),
    ("x: int = 'a'\n",),
)
"""Not in RULES: gate 1 is a pure function and cannot ask Monty. `request.typecheck` tells it."""
