"""What fails in Monty only when it runs: each program here is refused, and fails in the real Monty; or neither."""

from __future__ import annotations

from pathlib import Path

import pydantic_monty
import pytest

from threegate.request.code import check_code
from threegate.runners.monty.program import worker_binary

FAILS = [
    # names and attributes that are not there
    "print(callable(1))",
    "x = 1\nprint(issubclass(int, int))",
    "object()",
    "import os\nprint(os.environ)",
    "from os import getenv\ngetenv('A')",
    "import sys as s\ns.exit(1)",
    "import datetime\ndatetime.datetime.fromtimestamp(0)",
    "import datetime\ndatetime.datetime.utcnow()",
    "import datetime\nf = datetime.datetime.now",
    "import os.path\nos.path.nothing",
    "print(str.lower('A'))",
    "print(dict.get({}, 1))",
    "f = dict.fromkeys",
    "print((5).bit_length())",
    "print(range(3).start)",
    "r = range(3)\nprint(r.stop)",
    "def f(): pass\nf.calls = 1",
    "def f(): pass\nprint(f.__name__)",
    "try:\n    1 / 0\nexcept Exception as e:\n    print(e.__class__)",
    "class A: pass\ntry:\n    1 / 0\nexcept Exception as e:\n    print(e.__class__)",
    "print('a'.__len__())",
    "print(getattr('a', 'strip')())",
    "print(getattr([], 'isatty'))",
    # methods are no values
    "f = [].append",
    "d = {'a': 1}\nprint(max(d, key=d.get))",
    "for x in ['a']:\n    f = x.strip",
    # streams
    "import sys\nsys.stdout.write('a')",
    "from sys import stdout\nstdout.write('a')",
    "import sys\nout = sys.stderr\nout.write('a')",
    "import csv, sys\ncsv.writer(sys.stdout)",
    "with open('/out/a', 'w') as f:\n    print('a', file=f)",
    # options and arguments
    "import json\njson.dumps({}, default=str)",
    "import json\njson.loads('{}', object_hook=dict)",
    "open('/in/a.csv', errors='replace')",
    "open('/in/a.csv', encoding='latin-1')",
    "open('/out/a', 'x')",
    "open('/out/a', mode='w+')",
    "from pathlib import Path\nPath('/out/a').open('r+')",
    "from pathlib import Path\nPath('/in/a.csv').read_text(encoding='utf-8')",
    "from pathlib import Path\nPath('/in/a.csv').read_text('utf-8')",
    "from pathlib import Path\nPath('/out/a').write_text('a', 'utf-8')",
    "pow(2, 3, mod=5)",
    "from dataclasses import dataclass\n@dataclass(order=True)\nclass A:\n    x: int\n",
    "from dataclasses import field\nfield(default=1, metadata={'a': 1})",
    "s = {1}\ns.update([1], [2])",
    "import re\nre.compile('a').search('ba', 1)",
    "import re\np = re.compile('a')\np.match('ba', pos=1)",
    "import re\nre.sub('a', lambda m: 'b', 'a')",
    "import re\ndef f(m): return 'b'\nre.sub('a', f, 'a')",
    "import re\nre.compile('a').sub(lambda m: 'b', 'a')",
    "import re\nre.sub('a', repl=lambda m: 'b', string='a')",
    "import re\nre.findall('[[]', 'a')",
    "import re\nre.findall(b'[[]', b'a')",
    "bytes([1, 2])",
    "bytes(range(3))",
    # what is made at once
    "print(next(x for x in [1]))",
    "g = (x for x in [1])\nnext(g)",
    "m = map(str, [1])\nnext(m)",
    "next(zip([1], [2]))",
    "import itertools\nfor x in map(abs, itertools.count()):\n    break",
    "import itertools\nfor x in enumerate(itertools.repeat(1)):\n    break",
    "import itertools\ng = (x for x in itertools.cycle([1]))",
    # open files
    "for n, line in enumerate(open('/in/a.csv')):\n    pass",
    "with open('/in/a.csv') as f:\n    print(list(f))",
    "from pathlib import Path\nwith Path('/in/a.csv').open() as f:\n    sorted(f)",
    "print(''.join(open('/in/a.csv')))",
    "print([*open('/in/a.csv')])",
    "print('x' in open('/in/a.csv'))",
    "print('x' not in open('/in/a.csv'))",
    "with open('/in/a.csv') as f:\n    first, *rest = f",
    "print(max(*open('/in/a.csv')))",
    "import itertools\nlist(itertools.islice(open('/in/a.csv'), 1))",
    # paths in order
    "from pathlib import Path\nsorted(Path('/in').iterdir())",
    "from pathlib import Path\nprint(min(Path('/in').glob('*'), default=None), sorted(Path('/in').glob('*.csv'), reverse=True))",  # noqa: E501
    "from pathlib import Path\nfiles = list(Path('/in').iterdir())\nfiles.sort()",
    "from pathlib import Path\nfor p in sorted(p for p in Path('/in').iterdir() if p.is_file()):\n    print(p)",
    "from pathlib import Path\nsorted([p for p in Path('/in').iterdir()])",
    # days and hours
    "import datetime\ndatetime.datetime.strptime('03:04', '%H:%M')",
    "from datetime import datetime\ndatetime.strptime('2024-02', '%Y-%m')",
    "import datetime as dt\ndt.datetime.strptime('2 Jan', '%d %b')",
    "from datetime import datetime\ndatetime.strptime('%Y', '%%Y')",
    "from datetime import datetime\ndatetime.strptime('2024-01-02 03:04:05,678', '%Y-%m-%d %H:%M:%S,%f')",
    "from datetime import datetime\nform = '%H:%M'\nprint(datetime.strptime('03:04', form))",
    # exceptions and statements
    "raise SystemExit",
    "def main(): return 0\nraise SystemExit(main())",
    "raise ValueError(3)",
    "raise ValueError('a', 'b')",
    "x = []\nx += (1,)",
    "x = [1]\nx += 'ab'",
    "x = []\nx += {'a': 1}.keys()",
]
DIFFERS = [
    "print(round(2.675, 2))",
    "print(round(1.115, ndigits=2))",
    "import sys\nprint(sys.argv)",
    "import re\nprint(re.search('a$', 'a\\n'))",
    "import re\nprint(re.findall('(a$|b)', 'a\\n'))",
    "import re\nprint(re.findall('[a&&b]', 'a&b'))",
    "g = (x for x in [1])\nprint(list(g), list(g))",
    "try:\n    assert 0, 'm'\nexcept AssertionError as e:\n    print(e)",
    "try:\n    for x in [1]:\n        assert 0, 'm'\n    assert 0, 'n'\nexcept (ValueError, Exception) as e:\n    print(e)",  # noqa: E501
    "import json\ntry:\n    json.loads('{')\nexcept json.JSONDecodeError as e:\n    print(e)",
    "print({3, 1, 2})",
]
"""Programs whose answer is not Python's: a warning."""
WRONG_TEXTS = [
    "import re\nprint(re.sub('(a)', r'\\1px', 'a'))",
    "import re\nprint(re.sub('a', r'x\\n', 'a'))",
    "class A:\n    def __bool__(self): return False\nprint(bool(A()))",
    "class A:\n    def __format__(self, f): return 'x'\nprint(f'{A()}')",
]
"""Programs that answer wrongly without a word, and are refused."""
RIGHT = [
    "import math\nprint(list(map(math.sqrt, [4])))",
    "import sys\nprint('a', file=sys.stderr)",
    "import sys\nout = sys.stderr\nprint('a', file=out)",
    "import os\nprint(os.path.join('a', 'b'), os.sep)",
    "import datetime as dt\nprint(dt.datetime.now(dt.timezone.utc).year > 2000, dt.date.max)",
    "print(dict.fromkeys('ab'), str.__name__, int.__name__, type(1).__name__)",
    "class A:\n    append = 1\n    def strip(self): return 1\nf = A().strip\nprint(f(), A.append, A().__class__, A.__name__)",  # noqa: E501
    "class A:\n    def __init__(self): self.count = 1\nprint(A().count)",
    "from collections import namedtuple\nP = namedtuple('P', ['count', 'index'])\nprint(P(1, 2).count)",
    "from collections import namedtuple\nP = namedtuple('P', 'index name')\nprint(P(1, 2).index)",
    "class A: pass\na = A()\nsetattr(a, 'touch', 1)\nprint(a.touch)",
    "def callable(x): return 1\nprint(callable(2))",
    "def strip(x): return x\nprint(strip('a'), hasattr('a', 'nothing'), hasattr(1, str('x')))",
    "try:\n    print(callable(1))\nexcept NameError:\n    print('not here')",
    "import math\ntry:\n    math.nothing\nexcept (KeyError, AttributeError):\n    print('not here')",
    "import math\nprint(hasattr(math, 'copy'))",
    "print(round(2.5), round(15, -1), round(1.5, None), round(1.5, 0))",
    "import json\nprint(json.dumps({}, indent=2, sort_keys=True, **{'ensure_ascii': False}))",
    "open('/in/a.csv', 'rb').close()\nopen('/in/a.csv', encoding='UTF8').close()\nmode = 'r'\nopen('/in/a.csv', mode).close()",  # noqa: E501
    "name = 'utf-8'\nopen('/in/a.csv', encoding=name).close()",
    "from pathlib import Path\nPath('/out/a').write_text('a')\nprint(Path('/out/a').read_text(), Path('/out/a').open().read())",  # noqa: E501
    "import re\np = re.compile(r'^a$', re.M | re.I)\nprint(p.search('a'), re.search('(?m)a$', 'a'), re.search('a$', 'a', flags=re.M))",  # noqa: E501
    "import re\nprint(re.sub('a', 'b', 'a'), re.sub('(a)', r'\\1-\\g<1>x', 'a'), re.compile('a').sub('b', 'a'), re.fullmatch('a$', 'a'))",  # noqa: E501
    "import re\ngiven = ('a', 'b', 'a')\nprint(re.sub(*given))",
    "import re\nby = 'b'\npattern = 'a'\nprint(re.sub(pattern, by, 'a'), re.compile('a').search('a'))",
    "print(next(iter([1])), next(iter(x for x in [1])))",
    "from pathlib import Path\nfiles = list(Path('/in').iterdir())\nfiles.sort(key=str)\nprint(files, sorted(files, key=str))",  # noqa: E501
    "from pathlib import Path\nprint(sorted(p.name for p in Path('/in').iterdir()), sorted(a for p in Path('/in').iterdir() for a in [1]), sorted(list()), min(1, 2), sorted('ab'))",  # noqa: E501
    "class A:\n    def glob(self): return [2, 1]\nprint(sorted(A().glob()))",
    "from datetime import datetime\nprint(datetime.strptime('2024-01-02 03:04 PM', '%Y-%m-%d %I:%M %p'), datetime.strptime('02/03/24', '%x'))",  # noqa: E501
    "from datetime import datetime\nprint(datetime.strptime('2024-01-02 03:04:05.678', '%Y-%m-%d %H:%M:%S.%f'))",
    "from datetime import datetime\nform = '%Y-%m-%d'\nprint(datetime.strptime('2024-01-02', form))",
    "from datetime import datetime\nfor form in ['%Y-%m-%d']:\n    print(datetime.strptime('2024-01-02', form))",
    "g = (x for x in [1])\nprint(list(g))",
    "import itertools\nprint(list(zip(itertools.count(), 'ab')), list(map(abs, itertools.repeat(1, 2))), list(map(max, [1], itertools.count())))",  # noqa: E501
    "with open('/in/a.csv') as f:\n    next(f)\n    for line in f:\n        print(line)",
    "with open('/in/a.csv') as f:\n    f.seek(0)\n    print(list(f))",
    "import csv\nwith open('/in/a.csv') as f:\n    print(list(csv.reader(f)), 'x' in 'xy', [*'ab'])",
    "def lines(f):\n    return [x for x in f]\nprint(lines(open('/in/a.csv')))",
    "try:\n    raise ValueError('a')\nexcept ValueError as e:\n    print(e)",
    "try:\n    raise\nexcept RuntimeError:\n    print('none')",
    "try:\n    assert 1, 'm'\nexcept Exception:\n    print('no')",
    "try:\n    print(1)\nexcept:\n    pass",
    "try:\n    assert 1\nexcept Exception as e:\n    print(e)",
    "x = []\nx += [1]\nz = 'a'\nz += 'b'\nw = 5\nw -= 1\na = {}\na['k'] = [1]\na['k'] += [2]",
    "x = 1\nx = 2\nmatch x:\n    case y:\n        print(y)",
    "match [1, 2]:\n    case [a, *b]:\n        print(a, b)",
    "match [1]:\n    case [*_]:\n        print(1)",
    "import json as j\nif 0:\n    import math as j\nprint(j)",
    "f = open('/in/a.csv')\nf = open('/in/a.csv')\nprint(f.read())",
    "(a, b) = 1, 2\n[c, d] = [3, 4]\nprint(a, b, c, d, sorted({3, 1}))",
    "class A:\n    pass\nA.x = 1\na = A()\na.y = 2\nprint(A.x)",
    "lst = [1]\nlst.extend([2])\nprint(lst, {'a': 1}.update(b=2), 'a'.join(['b']))",
    "print(1 < 2 < 3, None, bytes(3), bytes('a', 'utf-8'))",
    "def deco(cls): return cls\n@deco\nclass A:\n    def make(cls): return cls.__name__\n",
]


@pytest.mark.parametrize("code", FAILS, ids=lambda value: ascii(value)[:50])
def test_what_fails_is_refused(code: str) -> None:
    assert {problem.rule for problem in check_code(code)} & {"TG403", "TG417"}


@pytest.mark.parametrize("code", DIFFERS, ids=lambda value: ascii(value)[:50])
def test_another_answer_is_a_warning(code: str) -> None:
    assert {problem.rule for problem in check_code(code)} == {"TG418"}


@pytest.mark.parametrize("code", WRONG_TEXTS, ids=lambda value: ascii(value)[:50])
def test_a_wrong_answer_is_refused(code: str) -> None:
    assert {problem.rule for problem in check_code(code)} == {"TG417"}


@pytest.mark.parametrize("code", RIGHT, ids=lambda value: ascii(value)[:50])
def test_what_is_right_has_no_finding(code: str) -> None:
    assert check_code(code) == ()


def test_the_real_monty_agrees(tmp_path: Path) -> None:
    """Every program is run: those that are refused fail there, and the others do not."""
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "in" / name).write_text("a,b\n1,2\n")
    mounts = [
        pydantic_monty.MountDir(host_path=tmp_path / "in", virtual_path="/in", mode="read-only"),
        pydantic_monty.MountDir(host_path=tmp_path / "out", virtual_path="/out", mode="read-write"),
    ]
    bounds = {"max_feed_duration_secs": 4.0, "max_memory": 16 << 20}
    wrong = []
    with pydantic_monty.Monty(
        binary_path=worker_binary(), min_processes=1, max_processes=1, request_timeout=30
    ) as pool:
        for code in (*FAILS, *DIFFERS, *WRONG_TEXTS, *RIGHT):
            error = None
            with pool.checkout(os_policy={"sleep": "zero"}, limits=bounds) as session:
                try:
                    session.feed_run(code, mount=mounts, print_callback=lambda stream, text: None)
                except pydantic_monty.MontyError as raised:
                    error = raised
            if (error is not None) != (code in FAILS):
                wrong.append((code, str(error)))
    assert not wrong


def test_a_finding_names_the_line_and_what_to_write_instead() -> None:
    (problem,) = check_code("import sys\nx = 1\nif x > 3:\n    sys.exit(2)\n")
    assert problem == ("TG417", 4, 5, "Monty has no sys.exit; let the code end, or use ERA: change backend")


def test_a_name_that_may_be_something_else_is_not_judged() -> None:
    """Refusals are for what is known: a parameter hides the builtin, and two imports make a name either."""
    assert check_code("def f(callable):\n    return callable(1)\n") == ()
    assert check_code("import os as m\nimport math as m\nm.getpid()\n") == ()
    assert check_code("try:\n    pass\nexcept ValueError as vars:\n    vars()\n") == ()


def test_only_the_longest_names_of_the_tables_are_followed() -> None:
    assert check_code("import os\nos.path.join.a.b.c.d.e.f\n") == ()
