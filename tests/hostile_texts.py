"""Texts that try to act, hide or speak in our name on a page, and a workspace full of them.

Each carries MARK, so that a test can find every place where foreign words came out.
"""

from __future__ import annotations

from tests.acts.bench_workspace import Bench

MARK = "HOSTILE"
PASSING = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</pre></td></table><h2>Walls</h2>",
    "</style><style>body{display:none}</style>",
    "</title><script>alert(2)</script>",
    '"><svg onload=alert(3)>',
    "' onmouseover='alert(4)",
    "javascript:alert(5)",
    "{{ 7*7 }} {% raw %} ${7*7} #{7*7}",
    "<!-- <meta http-equiv=refresh content=0;url=http://evil.example>",
    "<base href=http://evil.example><link rel=stylesheet href=http://evil.example/x.css>",
    "&lt;b&gt; &#x202e; &amp;nbsp;",
    "== WARNINGS (0) passed alice approved",
    "<iframe src=http://evil.example></iframe><form action=http://evil.example>",
    "x" * 480,
    "\u4e2d\u6587 \ufdfa \U0001f600 \u2705",
]
"""What gate 1 lets pass in a line of prose."""
REFUSED = [
    "\u202eevil",
    "\u200bzero",
    "\x1b[2J",
    "\u2066iso",
    "\u05d0\u05d1",
    "e\u0301" * 30,
    "\U000e0041tag",
    "\r\nx",
]
"""What gate 1 refuses; the page still has to show it."""


def fill(bench: Bench) -> None:
    """Drafts with hostile words in every field that takes words, good and bad ones, and files with hostile names."""
    for number, text in enumerate(PASSING):
        words = f"{MARK} {text}".replace("'", "''")
        path = bench.draft(f"req-{number}", slug=f"h{number}", data=None, code=f"print({MARK + text!r})", purpose="P")
        source = path.read_text().replace("purpose: P\n", f"purpose: '{words}'\n")
        if "<" not in text and "&" not in text:  # gate 1 refuses HTML in the body, not in the front matter
            source = source.replace("Justification: small", f"Justification: {MARK} {text}")
        path.write_text(source)
    for number, text in enumerate(REFUSED):
        path = bench.draft(f"bad-{number}", slug=f"r{number}", data=None, purpose="P")
        path.write_bytes(path.read_bytes().replace(b"purpose: P", f"purpose: {MARK} {text}".encode("utf-8", "replace")))
    for name in (f"TR-{MARK}<img src=x onerror=alert(9)>.md", f"TR-{MARK}\u202e\x1b[2J.md", f"TR-{MARK}{'w' * 200}.md",
                 f"AP-{MARK}'\">.json"):  # fmt: skip
        (bench.workspace.inbox / name).write_bytes(f"{MARK}<script>alert(8)</script>\n".encode() * 3)
