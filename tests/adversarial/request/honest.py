"""What a working agent sends: (what it does, the file). All of it must pass; a false alarm is a defect."""

from __future__ import annotations

from tests.adversarial.request.builders import (
    ERA,
    KEYS,
    MONTY,
    RISK,
    A,
    B,
    Text,
    code,
    command,
    era,
    front,
    listed,
    monty,
    outputs,
    prose,
    request,
    risk,
    variables,
)

Honest = tuple[str, Text]
NET = {"network": "allowlist", "network_allowlist": "[api.example.com, 'files.example.org:8443']"}
RATIONALE = RISK.replace("rationale: none", "rationale: fetches today's rates from the bank")

COMMANDS = (
    "python3 -u script.py --in /in/input.csv --out /out/output.json",
    'python3 -c "print(1); print(2)"',
    "python3 -c 'import json; print(json.dumps({\"a\": [1, 2]}))'",
    'python3 -c "x = 1 if 2 > 1 else 0; print(x & 3 | 4)"',
    "python3 script.py --title 'Sales, 2026 (draft)'",
    "python3 script.py --in '/in/data.csv' --note \"it's fine\"",
    "python3.11 -m json.tool /in/data.json",
    "awk -F, '{ s += $3 } END { print s }' /in/data.csv",
    "awk 'NR > 1 && $2 == \"x\" { print $1 }' /in/data.csv",
    "sed -n '1,20p' /in/data.csv",
    "sed 's/;/,/g' /in/data.csv",
    "jq '.items[] | select(.price < 10) | .name' /in/data.json",
    "jq -r '.[] | [.a, .b] | @csv' /in/data.json",
    "grep -c error /in/log.txt",
    "grep -E '^[0-9]+ ok$' /in/log.txt",
    "sort -t, -k2,2n /in/data.csv -o /out/sorted.csv",
    "head -n 20 /in/data.csv",
    "wc -l /in/a.txt /in/b.txt",
    "tar -cf /out/all.tar -C /in .",
    "tar -tf /in/tree.tar",
    "diff -u /in/a.txt /in/b.txt",
    "sha256sum /in/data.csv",
    "cut -d, -f1,3 /in/data.csv",
    "node -e 'console.log([1,2,3].map(x => x * 2))'",
    "perl -ne 'print if /error/' /in/log.txt",
    "ruby -e 'puts (1..3).sum'",
    "Rscript /in/model.R --alpha 0.05",
    "git -C /in/repo log --oneline -20",
    "timeout 30 python3 /in/script.py",
    "env python3 /in/script.py",
    "nice -n 5 python3 /in/script.py",
    "/usr/bin/python3 /in/script.py",
    "python3 /in/script.py --date 2026-11-22 --limit=100 --ratio=0.5 --url 'https://api.example.com/v1/rates?base=EUR'",
    "python3 /in/script.py '--pattern=*.csv' 'a~tilde' '{a,b}'",
    "find /in -name '*.csv'",
    "printf '%s\\n' done",
    "python3 /in/install_report.py --docker-stats /in/docker.json",
    "python3 /in/rank.py /in/data.csv --out /out/r.json --verbose",
    "python3 -m csvstat /in/data.csv",
    "python3 /in/a.py --regex '^a.*b$' --sep ';'",
    "python3 /in/a.py --sep=';'",
    "awk 'BEGIN{FS=\",\"} {print $1}' /in/a.csv",
    "node /in/build.js --env production",
    "Rscript -e 'summary(read.csv(\"/in/a.csv\"))'",
    "jq . /in/a.json",
    "python3 /in/a.py --start 2026-01-01T00:00:00Z --tz Europe/Berlin",
    "git -C /in/repo diff HEAD~1 HEAD",
    "grep -rn TODO /in/src",
    "find /in/src -name '*.py' -type f",
    "sort -u /in/a.txt",
    "tr a-z A-Z",
    "python3 /in/a.py --email ada@example.com --ratio 1/3",
    "sed -e 's/a/b/' -e 's|x|y|' /in/a.txt",
    "python3 /in/a.py --expr 'a > b && c < d'",
    "python3 -c 'import sys; sys.stdout.write(\"hi\")'",
    "python3 /in/train.py --lr 1e-3 --layers '[64, 64]'",
    "diff /in/a /in/b",
    "curl -sS https://api.example.com/v1/x -o /out/x.json",
)
"""Commands that a request may have."""

CODES = (
    "print('hello')",
    "import json\nfrom pathlib import Path\ndata = json.loads(Path('/in/data.json').read_text())\nprint(len(data))",
    "rows = [line.split(',') for line in open('/in/data.csv')]\nprint(sorted(rows)[:3])",
    "# ## Load\n## Rank\nx = {'a': 1}\nprint(f\"{x['a']:>10}\")",
    "text = '''\n---\n## Command\n'''\nprint(text)",
    'def mean(values: list[float]) -> float:\n    """The mean."""\n    return sum(values) / len(values)\n\nprint(mean([1, 2]))',  # noqa: E501
    "import re\nprint(re.findall(r'<b>(.*?)</b>', '<b>x</b>'))",
    "fence = '```'\nprint(fence)",
    "with open('/out/report.md', 'w') as out:\n    out.write('# Report\\n')",
    "import math, random, datetime, hashlib, collections, itertools\nprint(math.pi)",
    "print('größer', '東京', '😀')",
)
"""Code that monty runs."""

VARIABLES = (
    "{}",
    '{"limit": 3, "names": ["a", "b"], "nested": {"x": [1, 2.5, null, true]}}',
    '{\n  "title": "Größe — 東京",\n  "query": "a < b && c > d; -- x"\n}',
    '{"text": "line\\nline", "quote": "\\"", "path": "/in/data.csv"}',
    '{"escaped": ["\\u0041\\n", {"b": "\\t", "n": 1}]}',
    '{"small": -1.5e-7, "big": 9007199254740991}',
)

PROSE = (
    "The install base is counted by region; nothing is installed.",
    "Größe, façade, naïve, Ελληνικά, русский, 日本語, العربية, emoji 😀: names stay as they are.",
    "Keeps rows with price < 10 and a <= b, drops those > 100.",
    "Uses `python3`, **bold** words, _emphasis_ and [a link](https://example.com/a_b).",
    "The file has three parts:\n\n1. head\n2. body\n3. tail\n\n- one\n- two\n  - nested",
    "As the table shows:\n\n| region | sales |\n|---|---|\n| north | 10 |\n| south | 7 |",
    'It prints:\n\n```json\n{"a": [1, 2]}\n```\n\nand ends.',
    "It prints:\n\n~~~\nplain\n~~~",
    "> The operator asked for it on Monday.",
    "Costs are about $5 & 3% of the budget; see ticket #42.",
    "Reads /in/data.csv and writes /out/ranked.csv only.",
    "No network, no secrets, no personal data. The sha256 is " + A + ".",
    "Text with \"quotes\", 'apostrophes', (brackets), {braces} and a\u00a0no-break space.",
    "Indented sample:\n\n    a,b\n    1,2\n\nwith text after it.",
    "The risk is low since the data are public; justification is given in the ticket.",
    "Runs weekly; the password policy report lists ages, never passwords.",
    "Counts how often the words install, mount and sudo are in the logs.",
    (
        "We need this to reconcile the March invoices; see TICKET-42 (opened by Ada). The script only reads CSV columns "  # noqa: E501
        "1-3."
    ),
    "Low risk: the code is pure Python, uses no network, and its output is < 1 MB.",
    "The dataset includes user agents such as Mozilla/5.0 (X11; Linux x86_64).",
    "Uses a 10/90 train/test split and writes metrics.json.",
    "Cost: 5 $ per run & 2% CPU. Contact: ops@example.com.",
    "Steps:\n1. parse the file\n2. drop rows where status == 'bad'\n3. write the summary",
    "The input came from the /in folder; results go to /out/summary.md.",
    "It runs in under 10s; memory stays < 100 MB; see RFC 8785 / JCS.",
    "Compare versions 1.2.3 -> 1.3.0 and list the changed APIs.",
    'The user asked: "please rank these". No PII is included.',
    "Handles tokens (words) and secrets of the trade; passwords are never read.",
    "Regex: `^[a-z]+$`; glob: `*.csv`; path: `data/2026/11/`.",
    "The package `statistics` is in the standard library.",
    "Docker is not used. The container has no network.",
    "Reads key=value lines, e.g. token=abc or user=bob.",
    "a/b testing of the on/off switch; and/or logic; 24/7 service",
    "It reproduces bug #77: `KeyError: 'home'` when the home page is missing.",
    "dev team and prod team both asked; the dev/prod parity check needs it",
)

WHOLE: list[Honest] = [
    ("the shortest ERA request", era()),
    ("the shortest monty request", monty()),
    ("windows line ends", era().replace("\n", "\r\n").encode()),
    ("no newline at the end", era().rstrip("\n")),
    ("many newlines at the end", era() + "\n\n\n"),
    ("backend missing means ERA", request({k: v for k, v in KEYS.items() if k != "backend"})),
    ("keys in another order", request(dict(reversed(KEYS.items())))),
    ("values in quotes", era(purpose="'it''s: fine'", request_id='"rank-1"')),
    ("purpose over lines", era(purpose=">-\n  Rank the sales\n  of this year")),
    ("purpose that folds", era(purpose="Rank the sales\n  of this year")),
    ("purpose that mentions install harmlessly", era(purpose="Count how many users install updates late")),
    ("purpose in Japanese", era(purpose="売上を地域別に並べる")),
    ("purpose with symbols", era(purpose='"R&D: 50% off #1 @home *now* [x] {y} !"')),
    ("comments in the front matter", front("# written by hand")),
    ("empty approval keys", era(approved_by="", approved_utc='""')),
    ("version as an integer", era(schema_version="1")),
    ("cores as a number", era(cpu_limit="1.5")),
    ("time with +00:00", era(created_utc='"2026-11-22T05:00:00+00:00"')),
    ("time with a fraction", era(created_utc="2026-11-22T05:00:00.123456Z")),
    ("time a little ahead", era(created_utc="2026-11-22T05:34:00Z")),
    ("words that YAML 1.1 misreads", era(requested_by="no", role="on")),
    ("constraints", front("constraints:\n  - keep the order\n  - 'no floats: integers only'")),
    (
        "contract keys",
        front("session_id: s-1\ntool: threegate.ERA\nlabels: [batch]\nworkflow: nightly\nrole: ranker"),
    ),
    (
        "evidence",
        front(
            'risk_domain: finance\nevidence:\n  - source_id: ticket-7\n    kind: user_message\n    summary: "asked for it; 3 < 5"'  # noqa: E501
        ),
    ),
    ("network with a rationale", request({**KEYS, **NET}, {**ERA, "Risk Assessment": RATIONALE})),
    ("one input", listed("- /in/data.csv")),
    ("one input with its hash", listed(f"- /in/data.csv sha256:{A}")),
    ("one input in backquotes", listed(f"- `/in/data.csv` sha256:{A}")),
    ("an input with words", listed("* /in/data.csv the sales of 2026\n  by region")),
    (
        "inputs in block style",
        listed(
            "- /in/a.csv\n- /in/b.tar",
            f'\n  - name: a.csv\n    sha256: {A}\n  - name: b.tar\n    sha256: "{B}"\n    unpack: true',
        ),
    ),
    (
        "an unpacked input by its folder",
        listed("- /in/tree/", f"[{{name: tree.tar, sha256: {A}, unpack: true}}]"),
    ),
    (
        "work in an unpacked folder",
        request(
            {**KEYS, "workdir": "/in/tree/src", "inputs": f"[{{name: tree.tar, sha256: {A}, unpack: true}}]"},
            {**ERA, "Input Files": "\n- /in/tree\n"},
        ),
    ),
    ("work in /out", era(workdir="/out")),
    ("inputs none, said twice", listed("none", "[]")),
    ("one output", outputs("- /out/ranked.json")),
    (
        "outputs with words",
        outputs("- /out/ranked.json: the ranking\n- `/out/by region.csv` — one row a region"),
    ),
    (
        "outputs in both places",
        outputs(
            "- /out/a.txt\n- /out/b/c.txt",
            outputs_expected="[{path: a.txt, description: 'the list'}, {path: /out/b/c.txt}]",
        ),
    ),
    ("outputs none as a bullet", outputs("- none")),
    ("outputs none as a sentence", outputs("None.")),
    (
        "risk lines as bullets in bold",
        risk(
            "- **Risk level:** medium\n- **Justification:** reads two files\n- **Data sensitivity**: internal\n- "
            "**Network rationale:** none"
        ),
    ),
    (
        "risk lines without rationale",
        risk("Risk level: high\n\nJustification: long\n\nData sensitivity: confidential"),
    ),
    ("risk lines in another order", risk("Data sensitivity: public\nJustification: x\nRisk level: low")),
    (
        "introduction before the risk lines",
        risk("This is a small run.\n\nRisk level: low\nJustification: x\nData sensitivity: public"),
    ),
    (
        "monty without inputs",
        request({**KEYS, "backend": "monty"}, {k: v for k, v in MONTY.items() if k != "Inputs (JSON)"}),
    ),
    ("monty in Python with a capital", monty(language="Python")),
    ("monty with an input file", monty(inputs=f"[{{name: data.csv, sha256: {A}}}]")),
    (
        "monty code without an info string",
        request({**KEYS, "backend": "monty"}, {**MONTY, "Code": "\n```\nprint(1)\n```\n"}),
    ),
    ("heading with blanks after it", era().replace("## Command\n", "## Command  \n")),
    ("no blank lines between", era().replace("\n\n", "\n")),
]

ALL: list[Honest] = [
    *WHOLE,
    *((f"command: {line}", command(line)) for line in COMMANDS),
    *((f"code: {text}", code(text)) for text in CODES),
    *((f"variables: {text}", variables(text)) for text in VARIABLES),
    *((f"prose: {text}", prose(text)) for text in PROSE),
]
"""Every honest request, read as a draft."""
