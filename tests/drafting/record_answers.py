"""Write answers.json: what CPython and the programs of this host say to the requests. Neither Monty nor ERA is asked.

python -m tests.drafting.record_answers
"""

from __future__ import annotations

import ast
import io
import json
import shlex
import subprocess
import tarfile
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.drafting.corpus import HERE, Answer, Drafted, requests

VALUE = "__value__.json"


def script_of(code: str) -> str:
    """The code, and the value of its last line as JSON in a file beside its outputs."""
    tree = ast.parse(code)
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        written = ast.parse(f"import json as _json; open('/out/{VALUE}', 'w').write(_json.dumps(_value))").body
        tree.body[-1:] = [ast.Assign([ast.Name("_value", ast.Store())], last.value), *written]
    return ast.unparse(ast.fix_missing_locations(tree))


def answer_of(drafted: Drafted) -> Answer:
    """What the host says: its /usr, the inputs in /in, and an empty /out."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, out = Path(folder, "in"), Path(folder, "out")
        inputs.mkdir()
        out.mkdir()
        for name, data in drafted.inputs().items():
            (inputs / name).write_bytes(data)
            if name in drafted.unpack:
                (inputs / name).unlink()
                with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                    tar.extractall(inputs / name.removesuffix(".tar"))
        words = "bwrap --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64"
        words += " --ro-bind /etc/alternatives /etc/alternatives --proc /proc --dev /dev --tmpfs /tmp --unshare-net"
        words += f" --ro-bind {inputs} /in --bind {out} /out --chdir {drafted.front.get('workdir', '/in')}"
        words += " --clearenv --setenv PATH /usr/bin --setenv LC_ALL C.UTF-8 --setenv PYTHONDONTWRITEBYTECODE 1"
        argv = ["python3", "-c", script_of(drafted.code)] if drafted.code else shlex.split(drafted.command)
        done = subprocess.run([*shlex.split(words), "--", *argv], capture_output=True, text=True)
        assert done.returncode == drafted.exit_code, f"{drafted.key}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert drafted.stderr in done.stderr, f"{drafted.key}: {done.stderr}"
        value = out / VALUE
        return Answer(
            done.returncode,
            done.stdout,
            {path: None if drafted.binary else (out / path).read_bytes().decode() for path in drafted.outputs},
            json.loads(value.read_text()) if value.exists() else None,
        )


def main() -> None:
    """Those that a person wrote by hand stay: programs and modules that this host lacks."""
    known = json.loads((HERE / "answers.json").read_text()) if (HERE / "answers.json").exists() else {}
    for drafted in requests():
        if not drafted.answer or drafted.refused:
            continue
        try:
            known[drafted.key] = asdict(answer_of(drafted))
        except AssertionError as error:
            print(f"kept as it is: {error}")
    (HERE / "answers.json").write_text(json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
