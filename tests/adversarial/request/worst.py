"""Files made to be slow: 64 KiB of what parsers like least."""

from __future__ import annotations

from tests.adversarial.request.builders import code, command, era, front, listed, outputs, prose, variables

SIZE = 63_000


def _fill(piece: str, room: int = SIZE) -> str:
    return piece * (room // len(piece.encode()))


def _lines(piece: str, count: int = 1900) -> str:
    return "\n".join([piece] * min(count, SIZE // (len(piece) + 1)))


WORST: list[tuple[str, str]] = [
    *(
        (f"one line of {piece!r}", prose(_fill(piece)))
        for piece in (
            "a", "a ", "<", "[", "]", "*", "_", "`", "` ", "> ", "- ", "#", "# ", "/", "\\", "![", "[a](", "&", "|", "~", "=", "1. ",  # noqa: E501
            "\u00e9", "\u65e5", "\u200b", "\x01", "install ", "pip ", "pip install ", "to install a ", "the ", "password", "password=", "key: ",  # noqa: E501
            "/etc/", "../", "AKIA", "eyJ.", "-----BEGIN ", "https://a:", "no ", "not install ", "do not ", ". ", "a.", "Risk level:", "**", "\t",  # noqa: E501
        )
    ),
    *(
        (f"lines of {piece!r}", prose(_lines(piece)))
        for piece in (
            "a", "- a", "> a", "1. a", "```", "~~~", "# a", "## Command", "---", "===", "[a]: b", "<a>", "|a|b|", "    a", "  - a", "* * *",  # noqa: E501
            "Risk level: low", "- **Justification:** x", "pip install x", "reads /etc/passwd", "install the package", ("> > > > > "  # noqa: E501
        "a"), "`", "- ```",
            "\t- a", "a  ", "a\\", "password=hunter2" , "x" * 30, "<!-- a", "![a](b)", "[a]", "install " * 4,
        )
    ),
    *((f"nested list of {step}", prose("\n".join(" " * (depth * step % 400) + "- a" for depth in range(1900)))) for step in (1, 2, 3)),  # noqa: E501
    *(
        (f"front matter of {piece!r}", front(_fill(piece, 15_500)))
        for piece in ("a: b\n", "a", "? ", "- ", "[", "{", "{a: ", "[a, ", "# ", "&", "!", "*", "%", '"', "'", "|", "a: |\n b\n", "  ", "\\")  # noqa: E501
    ),
    ("front matter: many keys", front("\n".join(f"k{n}: v" for n in range(1200)))),
    ("front matter: long flow list", front("labels: [" + _fill("a, ", 15_000) + "]")),
    ("front matter: list of numbers", front("evidence: [{a: [" + _fill("1, ", 15_000) + "1]}]")),
    ("front matter: escapes", front('constraints: ["' + _fill("\\u202e", 15_000) + '"]')),
    ("front matter: many escaped texts", front('constraints: [' + _fill('"\\x41\\x42", ', 15_000) + '"a"]')),
    *((f"command of {piece!r}", command("python3 " + _fill(piece))) for piece in ("a", "a ", "'", '"', "\\", "''", "/etc/ ", "'a' ", "-", "-a ", "=", "../", "$", "a=b ", "env ", "/in/a ", "(", "'(' ", "--a=/in/x ")),  # noqa: E501
    *((f"awk of {piece!r}", command("awk '" + _fill(piece) + "'")) for piece in ("{", "system", "print ", "|", '"a" ', "/a/ ", "a ")),  # noqa: E501
    *((f"python -c of {piece!r}", command("python3 -c '" + _fill(piece) + "'")) for piece in ("(", "a+", "a;", "[", "x=1;", '"a" ', "-", "f(")),  # noqa: E501
    ("launchers in a row", command("env " * 15_000 + "ls")),
    ("nice in a row", command("nice " * 12_000 + "ls")),
    ("timeout in a row", command("timeout 5 " * 6_000 + "ls")),
    *((f"code of {piece!r}", code(_fill(piece))) for piece in ("(", "[", "a+", "-", "not ", "a.", "a\n", "'a'\n", "'/etc/a'\n", "import a\n", "x=1;", "f(", "{", "lambda:", "#", "'a' ", "a,", "a if b else ", "0x", "9", "\\\n")),  # noqa: E501
    ("code: 1,900 imports", code(_lines("import socket"))),
    ("code: long string of paths", code("x = '" + _fill("/etc/a ") + "'")),
    ("variables: brackets", variables('{"a": ' + _fill("[") + "}")),
    ("variables: braces", variables('{"a": ' + _fill('{"a":'))),
    ("variables: numbers", variables('{"a": [' + _fill("1,") + "1]}")),
    ("variables: many keys", variables("{" + ",".join(f'"k{n}": 1' for n in range(6000)) + "}")),
    ("variables: escapes", variables('{"a": "' + _fill("\\u202e") + '"}')),
    ("variables: many escaped strings", variables('{"a": [' + _fill('"\\u0041",') + "1]}")),
    ("variables: digits", variables('{"a": ' + _fill("9") + "}")),
    ("inputs listed many times", listed(_lines("- /in/data.csv"))),
    ("outputs with long names", outputs(_lines("- /out/" + "a/" * 100, 250))),
    ("secrets everywhere", prose(_lines("password=hunter2secret" + "x"))),
    ("AWS keys everywhere", prose(_fill("AKIA" + "IOSFODNN7" + "QRSTUVW "))),
    ("every character hidden", prose(_fill("\u200b"))),
    ("blank lines", era() + "\n" * 1900),
]  # fmt: skip
"""By name. All stay below the limits of size and lines, so that every reader gets to see them."""
