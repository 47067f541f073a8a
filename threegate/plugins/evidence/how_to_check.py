"""HOW-TO-CHECK.md: what an auditor reads first, with the one code block that checks a pack without ThreeGate.

Invariant: the block is the same in every pack except for its default fingerprints; docs/evidence.md shows it
too, so that an auditor need not take it from the pack.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

_PAGE = """# How to check this pack

Requests in it: {requests}. Workspace: `{workspace}`. {extent}

A zip is unpacked into an empty folder first; nothing else may be in the folder when it is checked.

You need a POSIX shell, `sha256sum` (GNU coreutils), `ssh-keygen` (OpenSSH 8.9 or later), and Python 3.10 or later in an environment
of its own with three libraries from the package index, which know nothing of ThreeGate:

    python3 -m venv ~/check && . ~/check/bin/activate
    pip install pymerkle==7.0.0 'securesystemslib>=1.1' 'cryptography>=42'

**Compare the fingerprints first, over another channel** (by telephone, on paper, from an earlier pack): whoever made this pack
could have made up the keys too. `threegate audit pack` printed these:

{fingerprints}

The log's key is the SHA-256 of its line in `log-keys`; the operators' are those that `ssh-keygen -l` prints. If yours differ, set
`LOG_KEYS` and `OPERATOR_KEYS` to yours before you run the block. Take the block itself from `docs/evidence.md` of a ThreeGate that
you trust: but for these defaults it is the same in every pack. `WITNESS_KEYS` may name witnesses whose cosignatures you want to see.

Run it in this folder. It ends with 0 when everything was there and every check passed; with 1 and one line at the first check that
failed; with 2 when every check passed and something is missing, which it names.

```sh
{block}```

What it proves, and what it does not: see docs/evidence.md. `index.json` lists the requests, what is `missing` and why, what was
`masked` because it looked like a secret (such a file's digest cannot be checked), and the policies that were not kept.
"""  # noqa: E501


def check_block(log_keys: Sequence[str], operator_keys: Sequence[str]) -> str:
    """The program that checks a pack, for /bin/sh, with these fingerprints as defaults."""
    text = resources.files("threegate.plugins.evidence").joinpath("check.sh").read_text("utf-8")
    return text.replace("@LOG_KEYS@", " ".join(log_keys)).replace("@OPERATOR_KEYS@", " ".join(operator_keys))


def render_page(
    *,
    workspace_id: str,
    requests: int,
    whole: bool,
    log_keys: Sequence[str],
    operator_keys: Sequence[str],
) -> bytes:
    """The page of one pack."""
    extent = (
        "`trail.jsonl` is the whole trail."
        if whole
        else "`trail.jsonl` has the events of these requests only, and those of keys and settings; of all others "
        "there are only hashes, in `proofs.jsonl`."
    )
    fingerprints = [
        *(f"    log       {item}" for item in log_keys),
        *(f"    operator  {item}" for item in operator_keys),
    ]
    text = _PAGE.format(
        requests=requests,
        workspace=workspace_id,
        extent=extent,
        fingerprints="\n".join(fingerprints),
        block=check_block(log_keys, operator_keys),
    )
    return text.encode()
