"""What the text for agents says of Monty: its modules, and what of Python is refused there.

Invariant: names come from the tables that the rules of gate 1 use. `IDIOMS` has for each further idiom a piece of code;
a test reads it with gate 1, which must refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from threegate.request.code_modules import MONTY_NAMES
from threegate.request.monty_lacks import MISSING_BUILTINS

IDIOMS: Final[Mapping[str, str]] = {
    "`yield`": "def f():\n    yield 1\nprint(list(f()))\n",
    "`del`": "a = {1: 2}\ndel a[1]\n",
    "`@property`": "class A:\n    @property\n    def b(self):\n        return 1\nprint(A().b)\n",
    "nested classes": "class A:\n    class B:\n        pass\n",
    "`@dataclass(order=True)`": "from dataclasses import dataclass\n@dataclass(order=True)\nclass A:\n    b: int\n",
    "methods as values (`map(str.strip, x)`, `key=d.get`)": "d = {'a': 1}\nprint(max(d, key=d.get))\n",
    "`re.sub` with a function": "import re\nprint(re.sub('a', lambda m: m[0], 'a'))\n",
    "`json.dumps(default=…)`": "import json\nprint(json.dumps({}, default=str))\n",
    "`sys.exit`": "import sys\nsys.exit(1)\n",
    "`str.maketrans`": "print('a'.translate(str.maketrans('a', 'b')))\n",
    "a class with a base": "class A(Exception):\n    pass\n",
    "`enumerate(open(…))`": "for number, line in enumerate(open('/in/a')):\n    print(number, line)\n",
    "`sorted` of paths without `key=str`": "from pathlib import Path\nprint(sorted(Path('/in').iterdir()))\n",
    "`,%f`": "from datetime import datetime\ndatetime.strptime('08:01,250', '%H:%M,%f')\n",
    "`strptime` without year, month and day": "from datetime import datetime\ndatetime.strptime('2026-02', '%Y-%m')\n",
    "`isocalendar`": "from datetime import date\nprint(date(2026, 1, 1).isocalendar())\n",
    "`datetime.fromtimestamp`": "from datetime import datetime\nprint(datetime.fromtimestamp(0))\n",
    "`os.environ`": "import os\nprint(os.environ)\n",
    "`__lt__`, `__len__` and `__bool__` of a class": (
        "class A:\n    def __lt__(self, other):\n        return True\nprint(sorted([A(), A()]))\n"
    ),
}
"""What an agent in a hurry writes and Monty refuses, in words, with code that does it."""
_TOLD_BUILTIN: Final = re.compile("[a-z]+")
_RARE: Final = frozenset("aiter anext ascii breakpoint compile copyright credits help license quit".split())


def monty_lines() -> Iterator[str]:
    """What there is, and what there is not."""
    modules = sorted(name for name in MONTY_NAMES if "." not in name)
    yield "`monty` runs a part of Python, without processes or network; it starts at once. The value of the last"
    yield f"expression becomes `/out/result.json`. Its only modules: {' '.join(modules)}."
    missing = sorted(name for name in MISSING_BUILTINS if _TOLD_BUILTIN.fullmatch(name) and name not in _RARE)
    yield f"Refused there: {', '.join(IDIOMS)}, and the builtins {' '.join(missing)}."
