"""Hostile and honest files, cut and mixed: seeded, so that a failure can be seen again."""

from __future__ import annotations

import random

from tests.adversarial.request.honest import ALL
from tests.adversarial.request.hostile import APPROVAL, DRAFTS

PIECES = [
    b"\n", b"\r", b"\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"---\n", b"...\n", b"## Command\n", b"## Code\n", b"```\n", b"~~~\n", b"> ", b"- ", b"# ",  # noqa: E501
    b"&a ", b"*a", b"!!str ", b"<<: ", b"? ", b": ", b"[", b"{", b"]", b"}", b'"', b"'", b"\\", b"\\u202e", b"\\x00", b"|\n", b">\n", b"%YAML 1.1\n", b"<!--", b"-->",  # noqa: E501
    b"<b>", b"![", b"[a]: /b\n", b"===\n", b";", b"|", b"&", b"`", b"$(", b"${", b"\xe2\x80\xae", b"\xe2\x80\x8b", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", (b"Risk level: "  # noqa: E501
        b"low\n"),
    b"inputs: []\n", b"0x10", b"1e999", b"9" * 40, b"sh", b"pip install x", b"/etc/passwd", b"/dev/sda", b"../", b"password=x1y2z3w4", b"\t", b"    ", b"(" * 50, b"[" * 50,  # noqa: E501
]  # fmt: skip


def corpus() -> list[bytes]:
    """Every file that the tests have, as bytes, up to 8 KiB."""
    texts = [text for _, text in ALL] + [text for _, text, _ in (*DRAFTS, *APPROVAL)]
    files = [text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass") for text in texts]
    return [data for data in files if len(data) <= 8192]


def mutate(data: bytes, others: list[bytes], source: random.Random) -> bytes:
    """One to four changes: cut, doubled, swapped, a piece put in, a byte flipped, a part of another file."""
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        start = source.randrange(len(data) + 1)
        end = min(len(data), start + source.choice((0, 1, 1, 2, 8, 40, 400)))
        kind = source.randrange(6)
        if kind == 0:
            data = data[:start] + data[end:]
        elif kind == 1:
            data = data[:end] + data[start:end] * source.choice((1, 2, 30)) + data[end:]
        elif kind == 2:
            data = data[:start] + source.choice(PIECES) + data[start:]
        elif kind == 3 and data:
            place = source.randrange(len(data))
            data = data[:place] + bytes([source.randrange(256)]) + data[place + 1 :]
        elif kind == 4:
            other = source.choice(others)
            place = source.randrange(len(other) + 1)
            data = data[:start] + other[place : place + 200] + data[end:]
        else:
            lines = data.split(b"\n")
            first, second = source.randrange(len(lines)), source.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            data = b"\n".join(lines)
    return data[:70_000]
