"""The rules of the body: sections, the Markdown that may be in them, and the lists of files."""

from __future__ import annotations

from threegate.request.rules.rule import Rule

_A = "a" * 64
_RISK = "## Risk Assessment\n\nRisk level: low\nJustification: reads one file\nData sensitivity: public\n"
_MONTY = "backend: monty\n\n"
_CHANGES = (
    f"{{apply}}\n\n## Changes\n\n- digest: sha256:{_A}\n- add: 1\n- modify: 1\n- delete: 0\n- mode: 0\n- type: 0\n"
)
_ARGUMENTS = '{mcp}\n\n## Arguments (JSON)\n\n```json\n{"id":7,"text":"a b"}\n```\n'
_INPUTS = f"inputs: [{{name: data.csv, sha256: {_A}}}]\n\n## Input Files\n\n"


def _rule(number: str, name: str, message: str, text: str, accepted: tuple[str, ...], refused: tuple[str, ...]) -> Rule:
    return Rule(number, name, "error", message, text, "body", accepted, refused)


RULES = (
    _rule(
        "TG201",
        "section-unknown",
        "a section that this backend does not have",
        "ERA: Command, Input Files, Output Expectations, Risk Assessment. monty: Code, Inputs (JSON) (optional), "
        "Output Expectations, Risk Assessment. apply: Changes, Output Expectations, Risk Assessment. mcp: Arguments "
        "(JSON), Output Expectations, Risk Assessment.",
        (_RISK,),
        ("## Notes\n\nx\n", "## risk assessment\n", "## Code\n\n```python\nx = 1\n```\n", "## A\n" * 9),
    ),
    _rule(
        "TG202",
        "section-missing",
        "a required section is missing",
        "Every section of the backend stands once; only Inputs (JSON) may be left out.",
        (_MONTY,),
        ("-## Risk Assessment", "-## Input Files", "-## Command"),
    ),
    _rule(
        "TG203",
        "section-twice",
        "a section stands twice",
        "Nobody could say which one counts. Keep one.",
        (_RISK,),
        (f"{_RISK}\n{_RISK}",),
    ),
    _rule(
        "TG204",
        "section-order",
        "the sections are out of order",
        "They are in the order of the schema, so that every request reads the same way.",
        (_RISK,),
        ("## Risk Assessment\n\n-\n\n## Output Expectations\n\nnone\n\n=order",),
    ),
    _rule(
        "TG205",
        "heading-form",
        "a heading of another form than '## Name' at column 1",
        "No other level, no underlined headings, no headings in lists or quotes.",
        (_RISK,),
        (
            f"{_RISK}\n# Title\n",
            f"{_RISK}\nTitle\n=====\n",
            f"{_RISK}\n> ## Command\n",
            f"{_RISK}\n### More\n",
            f"{_RISK}\n - ## Command\n",
        ),
    ),
    _rule(
        "TG206",
        "text-before",
        "text before the first section",
        "The body starts with its first section; an introduction belongs into purpose or the justification.",
        ("",),
        ("^Hello.\n",),
    ),
    _rule(
        "TG207",
        "heading-doubt",
        "a line that is a heading to one reader and none to another",
        "Whether it starts a section depends on who reads. Take the line out or indent it as code.",
        (f"{_RISK}\n```\n## Command\n```\n",),
        (f"{_RISK}\n- ```\n  ```\n## Command\n", f"{_RISK}\n<pre>\n## Command\n</pre>\n"),
    ),
    _rule(
        "TG208",
        "raw-html",
        "raw HTML is not allowed",
        "HTML and comments can hide text from the one who reads a rendered page. Put a blank after '<'.",
        (f"{_RISK}\nKeeps rows with price < 10 and a <= b.\n",),
        (
            f"{_RISK}\n<!-- hidden -->\n",
            f"{_RISK}\nsee <b>this</b>\n",
            f"{_RISK}\n<div>\n",
            f"{_RISK}\na<b\n",
        ),
    ),
    _rule(
        "TG209",
        "link-definition",
        "a link reference definition is not allowed",
        "It is invisible when rendered. Write the address into the text.",
        (f"{_RISK}\nsee https://example.com/[1]\n",),
        (f"{_RISK}\n[hidden]: https://example.com 'text'\n",),
    ),
    _rule(
        "TG210",
        "image",
        "images are not allowed",
        "A viewer would load them. Name the file in words.",
        (f"{_RISK}\nsee [the page](https://example.com)!\n",),
        (f"{_RISK}\n![x](https://example.com/x.png)\n",),
    ),
    _rule(
        "TG211",
        "rule-line",
        "a horizontal rule is not allowed",
        "--- ends the front matter and nothing else. Take the line out.",
        (f"{_RISK}\na --- b\n",),
        (f"{_RISK}\n\n---\n", f"{_RISK}\n\n* * *\n"),
    ),
    _rule(
        "TG212",
        "nesting",
        "nested too deeply",
        "Markdown readers drop what is nested deeply. Make it flatter.",
        (f"{_RISK}\n> - quoted\n",),
        (f"{_RISK}\n{'> ' * 30}x\n",),
    ),
    _rule(
        "TG213",
        "fence-open",
        "a fenced block is never closed",
        "Everything below it would be swallowed. End it with the fence that opens it.",
        (f"{_RISK}\n```\nx\n```\n",),
        (f"{_RISK}\n```\nx\n", f"{_RISK}\n- ```\n  x\n"),
    ),
    _rule(
        "TG220",
        "command-form",
        "the command is one line of plain text",
        "One program with its arguments: no code fence, no list, no second line. It runs without a shell.",
        ("## Command\n\npython3 -u script.py --in /in/input.csv\n",),
        (
            "## Command\n\n```\nls\n```\n",
            "## Command\n\nls\npwd\n",
            "## Command\n\n- ls\n",
            "## Command\n\n    ls\n",
            "## Command\n\n> ls\n",
            "## Command\n",
            "## Command\n\nls\n\npwd\n",
        ),
    ),
    _rule(
        "TG221",
        "code-form",
        "the code is exactly one block fenced with ```",
        "The info string is python or empty, the fence starts at column 1 and is closed.",
        (f"{_MONTY}## Code\n\n```python\nx = 1\n```\n", f"{_MONTY}## Code\n\n````\nx = '```'\n````\n"),
        (
            f"{_MONTY}## Code\n\nx = 1\n",
            f"{_MONTY}## Code\n\n~~~python\nx = 1\n~~~\n",
            f"{_MONTY}## Code\n\n```bash\nls\n```\n",
            f"{_MONTY}## Code\n\n```\nx\n```\n\n```\ny\n```\n",
            f"{_MONTY}## Code\n\n```\n\n```\n",
        ),
    ),
    _rule(
        "TG222",
        "vars-form",
        "Inputs (JSON) is exactly one block fenced with ```",
        "The info string is json or empty; the block holds one JSON object. Leave the section out when there are none.",
        (f'{_MONTY}## Inputs (JSON)\n\n```json\n{{"limit": 3}}\n```\n',),
        (
            f'{_MONTY}## Inputs (JSON)\n\n{{"limit": 3}}\n',
            f"{_MONTY}## Inputs (JSON)\n",
            f"{_MONTY}## Inputs (JSON)\n\n```python\n{{}}\n```\n",
        ),
    ),
    _rule(
        "TG223",
        "changes-form",
        "Changes is a list of the digest and five counts, and perhaps one block of paths",
        "'- digest: sha256:…', then add, modify, delete, mode and type with their counts; up to 40 paths in a block "
        "fenced with ```. approve holds it against changes.tar.",
        (_CHANGES, f"{_CHANGES}\n```\nmodify src/a.py\nadd    b\n```\n"),
        (
            "{apply}\n\n## Changes\n\n- digest: sha256:abc\n",
            "{apply}\n\n## Changes\n\nnone\n",
            "{apply}\n\n## Changes\n",
            _CHANGES.replace("- add: 1\n", ""),
            f"{_CHANGES}- more: 1\n",
            f"{_CHANGES}\n```\nrename a\n```\n",
            f"{_CHANGES}\n~~~\nadd a\n~~~\n",
            f"{_CHANGES}\n```\n" + "add a\n" * 41 + "```\n",
            f"{_CHANGES}\n```\nadd a\n```\n\nAnd more.\n",
        ),
    ),
    _rule(
        "TG224",
        "arguments-form",
        "Arguments (JSON) is exactly one block fenced with ```",
        "The info string is json or empty; the block holds one JSON object on one line.",
        (_ARGUMENTS, "{mcp}\n\n## Arguments (JSON)\n\n```\n{}\n```\n"),
        (
            "{mcp}\n\n## Arguments (JSON)\n\n{}\n",
            "{mcp}\n\n## Arguments (JSON)\n",
            "{mcp}\n\n## Arguments (JSON)\n\n```yaml\n{}\n```\n",
        ),
    ),
    _rule(
        "TG225",
        "arguments-canonical",
        "the arguments are not one JSON object in canonical form",
        "RFC 8785: one line, no blanks between tokens, keys sorted, numbers and strings in their shortest spelling, at "
        "most 48 KiB. The signed bytes are the ones that the server gets.",
        (_ARGUMENTS,),
        (
            '{mcp}\n\n## Arguments (JSON)\n\n```json\n{"id": 7}\n```\n',
            '{mcp}\n\n## Arguments (JSON)\n\n```json\n{"b":1,"a":2}\n```\n',
            '{mcp}\n\n## Arguments (JSON)\n\n```json\n{"a":1,"a":2}\n```\n',
            '{mcp}\n\n## Arguments (JSON)\n\n```json\n{"a":9007199254740993}\n```\n',
            "{mcp}\n\n## Arguments (JSON)\n\n```json\n[]\n```\n",
            "{mcp}\n\n## Arguments (JSON)\n\n```json\n{\n```\n",
        ),
    ),
    _rule(
        "TG230",
        "input-list",
        "Input Files is a list of '- /in/<name>', or the word none",
        "One file a line, with the name that it has in the front matter; 'sha256:<hex>' may follow.",
        (
            f"{_INPUTS}- /in/data.csv\n",
            f"{_INPUTS}- `/in/data.csv` sha256:{_A}\n",
            "## Input Files\n\nnone\n",
        ),
        (
            f"{_INPUTS}/in/data.csv\n",
            f"{_INPUTS}- data.csv\n",
            f"{_INPUTS}- /in/../etc/passwd\n",
            f"{_INPUTS}1. /in/data.csv\n",
            f"{_INPUTS}- a\n  - /in/data.csv\n",
            "## Input Files\n",
        ),
    ),
    _rule(
        "TG231",
        "input-mismatch",
        "Input Files and inputs do not name the same files",
        "What the person reads in the body is what the front matter declares.",
        (f"{_INPUTS}- /in/data.csv\n",),
        (
            f"{_INPUTS}none\n",
            f"{_INPUTS}- /in/data.csv\n- /in/other.csv\n",
            f"{_INPUTS}- /in/data.csv\n- /in/data.csv\n",
        ),
    ),
    _rule(
        "TG232",
        "input-hash-mismatch",
        "a sha256 in Input Files is not the one of the front matter",
        "Write 'sha256:' and the same 64 hex digits, or leave it out.",
        (
            f"{_INPUTS}- /in/data.csv sha256:{_A}\n",
            f"{_INPUTS}- /in/data.csv sha256: {_A}\n",
            f"{_INPUTS}- /in/data.csv (sha256: {_A})\n",
            f"{_INPUTS}- /in/data.csv SHA-256 = `{_A.upper()}`\n",
        ),
        (
            f"{_INPUTS}- /in/data.csv sha256:{'b' * 64}\n",
            f"{_INPUTS}- /in/data.csv (SHA-256: {'b' * 64})\n",
            f"{_INPUTS}- /in/data.csv sha256: {_A[:63]}\n",
            f"{_INPUTS}- /in/data.csv sha256: {_A} sha256: {_A}\n",
        ),
    ),
    _rule(
        "TG240",
        "output-list",
        "Output Expectations is a list of '- /out/<path>', or the word none",
        "One file a line; a description may follow. At most 256 entries.",
        ("## Output Expectations\n\n- /out/report.md the report\n", "## Output Expectations\n\nnone\n"),
        (
            "## Output Expectations\n\nSome files.\n",
            "## Output Expectations\n",
            "## Output Expectations\n\n```\n- /out/x\n```\n",
            "## Output Expectations\n\n" + "".join(f"- /out/{n}\n" for n in range(257)),
        ),
    ),
    _rule(
        "TG241",
        "output-list-path",
        "an output is listed as /out/<path>",
        "Below /out/, without '.', '..' or empty segments, each once.",
        ("## Output Expectations\n\n- `/out/a b.txt`\n",),
        (
            "## Output Expectations\n\n- report.md\n",
            "## Output Expectations\n\n- /etc/passwd\n",
            "## Output Expectations\n\n- /out/../etc/x\n",
            "## Output Expectations\n\n- /out/a\n- /out/a\n",
        ),
    ),
    _rule(
        "TG242",
        "output-mismatch",
        "Output Expectations and outputs_expected do not name the same files",
        "Where both are given they agree.",
        ("outputs_expected: [{path: a}]\n\n## Output Expectations\n\n- /out/a\n",),
        (
            "outputs_expected: [{path: a}]\n\n## Output Expectations\n\n- /out/b\n",
            "outputs_expected: [{path: a}]\n\n## Output Expectations\n\nnone\n",
        ),
    ),
    _rule(
        "TG243",
        "change-outputs",
        "a change of a project leaves no files in /out",
        "What it leaves is in the project. Write the word none.",
        (_CHANGES,),
        ("{apply}\n\n## Output Expectations\n\n- /out/a\n",),
    ),
    _rule(
        "TG244",
        "call-outputs",
        "the answer of a call is its only output",
        "It is /out/result.json by itself. Write the word none.",
        (_ARGUMENTS,),
        ("{mcp}\n\n## Output Expectations\n\n- /out/a\n",),
    ),
    _rule(
        "TG250",
        "risk-line-missing",
        "a line of the risk assessment is missing",
        (
            "Risk level:, Justification: and Data sensitivity: each stand once; Network rationale: when network is "
            "allowlist."
        ),
        (_RISK,),
        ("## Risk Assessment\n\nRisk level: low\n", "## Risk Assessment\n\n```\nRisk level: low\n```\n"),
    ),
    _rule(
        "TG251",
        "risk-line-twice",
        "a line of the risk assessment stands twice",
        "Nobody could say which one counts. Keep one.",
        (_RISK,),
        (f"{_RISK}Risk level: high\n", f"{_RISK}\n> - **risk level**: high\n"),
    ),
    _rule(
        "TG252",
        "risk-value",
        "a line of the risk assessment has no allowed value",
        (
            "Risk level: low, medium or high. Data sensitivity: public, internal or confidential. Justification: some "
            "text."
        ),
        ("## Risk Assessment\n\n- **Risk level:** high\n- **Justification**: x\n- Data sensitivity: internal\n",),
        (
            _RISK.replace("low", "tiny"),
            _RISK.replace("public", "Public"),
            _RISK.replace("reads one file", ""),
            _RISK.replace("low", "low|medium|high"),
        ),
    ),
    _rule(
        "TG253",
        "network-rationale",
        "Network rationale: must say why the network is needed",
        "The person who approves must know why these hosts are reached.",
        (f"network: allowlist\nnetwork_allowlist: [api.example.com]\n\n{_RISK}Network rationale: fetches the rates\n",),
        (
            f"network: allowlist\nnetwork_allowlist: [api.example.com]\n\n{_RISK}",
            f"network: allowlist\nnetwork_allowlist: [api.example.com]\n\n{_RISK}Network rationale: none\n",
            f"network: allowlist\nnetwork_allowlist: [api.example.com]\n\n{_RISK}Network rationale: Not needed.\n",
        ),
    ),
)
