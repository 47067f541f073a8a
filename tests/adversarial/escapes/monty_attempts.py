"""What code in a Monty worker tries, and what it meets instead: the exception that ends the code, or the status of the
run.

`CANARY` in the code is a host file's path, `DIRECTORY` its folder.
"""

from __future__ import annotations

_WALKS = {
    # dunder walks from an object to the interpreter's own
    "class of a tuple": "().__class__.__bases__[0].__subclasses__()",
    "mro of a string": "''.__class__.__mro__",
    "globals of a function": "def f(): pass\nf.__globals__",
    "code of a function": "def f(): pass\nf.__code__",
    "closure of a function": "def f(): pass\nf.__closure__[0]",
    "builtins by attribute": "print.__self__",
    "reduce of an object": "(1).__reduce_ex__(2)",
    "init of a class": "class A: pass\nA.__init__.__globals__",
    "dict of a module": "import json\njson.__dict__['codecs']",
    "loader of a module": "import json\njson.__loader__.load_module('os')",
    "spec of a module": "import math\nmath.__spec__.loader",
    "file of a module": "import json\nopen(json.__file__).read()",
    "module inside a module": "import json\njson.decoder.scanner",
    "traceback's frame": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    error.__traceback__.tb_frame.f_globals"
    ),
    "subclass hook": "int.__subclasshook__.__self__.__subclasses__()",
    "format string walk": "'{0.__class__.__mro__}'.format(())",
    "getattr walk": "getattr(getattr((), '__class__'), '__bases__')",
}
_BUILTINS = {
    "__import__": "__import__('os')",
    "eval": 'eval(\'__import__("os").system("id")\')',
    "exec": "exec('import subprocess')",
    "exec with builtins": "exec('__builtins__', {})",
    "eval of a walk": "eval('().__class__.__base__')",
    "compile": "compile('1', 'x', 'eval')",
    "globals()": "globals()['__builtins__']",
    "locals()": "locals()['__builtins__']",
    "vars()": "vars()",
    "breakpoint": "breakpoint()",
    "input": "input('password: ')",
    "memoryview": "memoryview(b'x')",
    "__builtins__": "__builtins__",
    "help": "help()",
    "exit": "exit(0)",
    "setattr on a builtin": "setattr(int, 'real', 5)",
    "delattr": "delattr(int, 'real')",
}
_IMPORTS = {
    name: f"import {name}\n{name}.x"
    for name in [
        "subprocess",
        "socket",
        "ctypes",
        "ctypes.util",
        "importlib",
        "builtins",
        "pickle",
        "marshal",
        "shutil",
        "tempfile",
        "threading",
        "multiprocessing",
        "signal",
        "gc",
        "inspect",
        "code",
        "codeop",
        "pty",
        "fcntl",
        "mmap",
        "resource",
        "urllib.request",
        "http.client",
        "ssl",
        "sqlite3",
        "webbrowser",
        "io",
        "posix",
        "nt",
        "_io",
        "_posixsubprocess",
        "site",
        "runpy",
        "pydantic_monty",
    ]
}
_OS = {
    "os.system": "import os\nos.system('id')",
    "os.popen": "import os\nos.popen('id').read()",
    "os.execv": "import os\nos.execv('/bin/sh', ['sh'])",
    "os.fork": "import os\nos.fork()",
    "os.kill": "import os\nos.kill(1, 9)",
    "os.environ": "import os\nos.environ['PATH']",
    "os.getenv": "import os\nos.getenv('HOME') + 'x'",
    "os.open": "import os\nos.open('/etc/passwd', 0)",
    "os.symlink": "import os\nos.symlink('/etc', '/out/etc')",
    "os.link": "import os\nos.link('CANARY', '/out/x')",
    "os.mkfifo": "import os\nos.mkfifo('/out/x')",
    "os.mknod": "import os\nos.mknod('/out/x')",
    "os.chmod": "import os\nos.chmod('/out', 0o777)",
    "os.chown": "import os\nos.chown('/out', 0, 0)",
    "os.setuid": "import os\nos.setuid(0)",
    "os.chroot": "import os\nos.chroot('/')",
    "os.truncate": "import os\nos.truncate('CANARY', 0)",
    "sys.modules": "import sys\nsys.modules['os']",
    "sys._getframe": "import sys\nsys._getframe()",
    "sys.settrace": "import sys\nsys.settrace(None)",
    "sys.exit": "import sys\nsys.exit(0)",
}
_FILES = {
    "read a host file": "open('CANARY').read()",
    "read by pathlib": "from pathlib import Path\nPath('CANARY').read_text()",
    "read bytes by pathlib": "from pathlib import Path\nPath('CANARY').read_bytes()",
    "append to a host file": "open('CANARY', 'a').write('gone')",
    "overwrite a host file": "open('CANARY', 'w').write('gone')",
    "delete a host file": "from pathlib import Path\nPath('CANARY').unlink()",
    "rename a host file in": "from pathlib import Path\nPath('CANARY').rename('/out/stolen')",
    "rename out of /out": "from pathlib import Path\nopen('/out/x', 'w').write('x')\nPath('/out/x').rename('CANARY')",
    "list a host folder": "from pathlib import Path\nlist(Path('DIRECTORY').iterdir())",
    "make a host folder": "from pathlib import Path\nPath('DIRECTORY/made').mkdir()",
    "dots out of /in": "open('/in/../CANARY').read()",
    "many dots out of /out": "open('/out/../../../../../../../../CANARY').read()",
    "dots in the middle": "open('/out/./x/../../in/../CANARY').read()",
    "proc": "open('/proc/self/environ').read()",
    "proc maps": "open('/proc/self/maps').read()",
    "proc root": "open('/proc/self/root/etc/passwd').read()",
    "file descriptor": "open('/dev/fd/0').read()",
    "standard input": "open('/dev/stdin').read()",
    "passwd": "open('/etc/passwd').read()",
    "shadow": "open('/etc/shadow').read()",
    "double slash": "open('//etc/passwd').read()",
    "name with a NUL": "open('/in/x\\x00/../../etc/passwd').read()",
    "write to /in": "open('/in/x', 'w').write('x')",
    "folder in /in": "from pathlib import Path\nPath('/in/x').mkdir()",
    "file outside": "open('/x', 'w').write('x')",
    "change to the root": "import os\nos.chdir('/etc')\nopen('passwd').read()",
    "glob outside": "from pathlib import Path\nlist(Path('/etc').glob('*'))[0]",
    "home": "from pathlib import Path\nopen(Path.home()).read()",
    "expand the user": "from pathlib import Path\nopen(Path('~/.ssh/id_ed25519').expanduser()).read()",
    "link by pathlib": "from pathlib import Path\nPath('/out/l').symlink_to('CANARY')",
    "hard link by pathlib": "from pathlib import Path\nPath('/out/l').hardlink_to('CANARY')",
    "chmod by pathlib": "from pathlib import Path\nPath('/out').chmod(0o4777)",
}
_LINKS = {
    "absolute link in /in": "open('/in/absolute').read()",
    "relative link out of /in": "open('/in/relative').read()",
    "link to a folder": "open('/in/folder/canary').read()",
    "write through a link": "open('/in/absolute', 'w').write('gone')",
}

_OTHER_WALLS = {
    "exec": "ModuleNotFoundError",
    "eval of a walk": "AttributeError",
    "locals()": "KeyError",
    "setattr on a builtin": "AttributeError",
    "os.environ": "RuntimeError",
    "os.getenv": "RuntimeError",
    "rename a host file in": "OSError",
    "rename out of /out": "OSError",
    "name with a NUL": "ValueError",
    "glob outside": "IndexError",
    "home": "AttributeError",
    "expand the user": "AttributeError",
    "link by pathlib": "AttributeError",
    "hard link by pathlib": "AttributeError",
    "chmod by pathlib": "AttributeError",
}
"""Attempts that meet another exception than the rest of their group."""

REFUSED: dict[str, tuple[str, str]] = {
    f"{group}: {name}": (code, _OTHER_WALLS.get(name, error))
    for group, error, attempts in (
        ("walk", "AttributeError", _WALKS),
        ("builtin", "NameError", _BUILTINS),
        ("import", "ModuleNotFoundError", _IMPORTS),
        ("os", "AttributeError", _OS),
        ("file", "PermissionError", _FILES),
    )
    for name, code in attempts.items()
}
"""Attempts that must end the code with an exception, and which one."""
LINKS = _LINKS
"""Attempts over links that are in /in (put there by the test, as no staging would)."""

BOMBS: dict[str, tuple[str, str]] = {
    "recursion": ("def f(n): return f(n + 1)\nf(0)", "failed"),
    "mutual recursion": ("def f(): return g()\ndef g(): return f()\nf()", "failed"),
    "huge power": ("x = 10 ** 10 ** 10", "out_of_memory"),
    "huge shift": ("x = 1 << (1 << 40)", "out_of_memory"),
    "factorial": ("n = 1\nfor i in range(1, 10 ** 7): n *= i", "timed_out"),
    "string bomb": ("x = 'a'\nwhile True: x += x", "out_of_memory"),
    "list bomb": ("x = [0]\nwhile True: x += x", "out_of_memory"),
    "dict bomb": ("x = {}\ni = 0\nwhile True:\n    x[i] = i\n    i += 1", "out_of_memory"),
    "nested list bomb": ("x = []\nwhile True: x = [x, x, 'a' * 1000]", "out_of_memory"),
    "bytes bomb": ("x = b'a' * 10 ** 10", "out_of_memory"),
    "join bomb": ("x = ','.join(['a' * 10 ** 6] * 10 ** 6)", "out_of_memory"),
    "format bomb": ("x = '{:1000000000}'.format(1)", "out_of_memory"),
    "percent bomb": ("x = '%1000000000d' % 1", "out_of_memory"),
    "ljust bomb": ("x = 'a'.ljust(10 ** 11)", "out_of_memory"),
    "replace bomb": ("x = ('a' * 10 ** 6).replace('a', 'b' * 10 ** 6)", "out_of_memory"),
    "range list": ("x = list(range(10 ** 11))", "out_of_memory"),
    "regex bomb": ("import re\nre.match('(a+)+$', 'a' * 40 + 'b')", "succeeded"),
    "regex of repeats": (
        "import re\nre.compile('(((a{1,100}){1,100}){1,100}){1,100}')",
        "failed",
    ),
    "json bomb": ("import json\njson.loads('[' * 10 ** 6)", "failed"),
    "endless loop": ("while True: pass", "timed_out"),
    "endless sleep": ("import time\nwhile True: time.sleep(10)", "timed_out"),
    "endless async sleep": (
        "import asyncio\nasync def f():\n    while True: await asyncio.sleep(1)\nawait f()",
        "timed_out",
    ),
    "endless except": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "timed_out",
    ),
    "catch the memory limit": (
        "x = []\nwhile True:\n    try:\n        x.append('a' * 10 ** 6)\n    except MemoryError: pass",
        "out_of_memory",
    ),
    "print flood": ("while True: print('a' * 10 ** 6)", "output_exceeded"),
    "print flood in small lines": ("while True: print('a')", "output_exceeded"),
    "stderr flood": (
        "import sys\nwhile True: print('a' * 10 ** 6, file=sys.stderr)",
        "output_exceeded",
    ),
    "write flood": ("f = open('/out/x', 'w')\nwhile True: f.write('a' * 10 ** 6)", "output_exceeded"),
    "rewrite flood": ("while True: open('/out/x', 'w').write('a' * 10 ** 6)", "output_exceeded"),
    "file flood": ("i = 0\nwhile True:\n    open(f'/out/{i}', 'w').write('')\n    i += 1", "output_exceeded"),
    "folder flood": (
        "from pathlib import Path\ni = 0\nwhile True:\n    Path(f'/out/{i}').mkdir()\n    i += 1",
        "output_exceeded",
    ),
    "deep folder": (
        "from pathlib import Path\nPath('/out/' + 'a/' * 1200).mkdir(parents=True)",
        "output_exceeded",
    ),
    "value bomb": ("a = [1] * 100\nfor i in range(6): a = [a] * 100\na", "output_exceeded"),
    "deep value": ("a = 1\nfor i in range(100000): a = [a]\na", "output_exceeded"),
    "cyclic value": ("a = []\na.append(a)\na", "succeeded"),
    "value's name taken": ("open('/out/result.json', 'w').write('{}')\n5", "failed"),
    "suspension flood": ("while True: open('/in/a', 'r')", "failed"),
    "unbalanced": ("(" * 20000, "failed"),
    "deep expression": ("x = " + "-" * 20000 + "1", "failed"),
    "deep nesting": (
        "\n".join(" " * i + "if 1:" for i in range(300)) + "\n" + " " * 300 + "pass",
        "failed",
    ),
}
"""Attempts to take too much, and the status that ends each. Some take nothing from this interpreter and succeed."""
