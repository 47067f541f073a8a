"""Files as an agent in a hurry writes them: each is a valid request with what such agents get wrong.

`MENDED`: what is offered makes it valid. `LEFT`: after what is offered only findings of these rules are left, which
only whoever wrote the file can answer.
"""

# ruff: noqa: E501  (a file in a line, so that the list can be read as one)

from __future__ import annotations

from tests.request.examples import ERA, KEYS, MONTY, RISK, era, monty, request

FOUND = "b" * 64
WITH_INPUT = {**KEYS, "inputs": f'\n  - name: sales.csv\n    sha256: "{FOUND}"'}
ALLOWED = {**KEYS, "network": "allowlist", "network_allowlist": "\n  - api.example.com"}
REASON = RISK.replace("rationale: none", "rationale: the rates are there")
ERA_OUT = {**ERA, "Output Expectations": "\n- /out/ranked.json\n"}


def era_body(**sections: str) -> str:
    return request(KEYS, {**ERA, **{name.replace("_", " "): text for name, text in sections.items()}})


def monty_body(**sections: str) -> str:
    return request({**KEYS, "backend": "monty"}, {**MONTY, **{k.replace("_", " "): v for k, v in sections.items()}})


def with_input(listed: str) -> str:
    return request(WITH_INPUT, {**ERA, "Command": "\nsort /in/sales.csv\n", "Input Files": listed})


def reaching(allowlist: str) -> str:
    return request({**ALLOWED, "network_allowlist": allowlist}, {**ERA, "Risk Assessment": REASON})


def risk(text: str) -> str:
    return era_body(Risk_Assessment=text)


BACKTICKS = "```"
MENDED = {
    # around the file
    "wrapped": f"{BACKTICKS}markdown\n{era()}{BACKTICKS}\n",
    "wrapped-code": f"{BACKTICKS}markdown\n{monty()}{BACKTICKS}\n",
    "wrapped-md-no-end": f"{BACKTICKS}md\n{era()}",
    "wrapped-four": f"````\n{monty()}````",
    "wrapped-tildes": f"~~~markdown\n{monty()}~~~\n",
    "wrapped-and-words": f"Here is the request:\n\n{BACKTICKS}markdown\n{monty()}{BACKTICKS}\n\nIt waits for approval now.\n",
    "words-first": f"Sure! I will write the request file.\n\n{era()}",
    "words-and-title-first": f"# Tool request\n\nThis asks to rank the sales.\n\n{era()}",
    "wrapped-front-matter": era().replace("---\n", f"{BACKTICKS}yaml\n---\n", 1).replace("\n---\n", f"\n---\n{BACKTICKS}\n", 1),
    "fence-for-front-matter": era().replace("---\n", f"{BACKTICKS}yaml\n", 1).replace("\n---\n", f"\n{BACKTICKS}\n", 1),
    "no-fences": era().replace("---\n", "", 1).replace("\n---\n", "\n", 1),
    "no-closing-fence": era().replace("\n---\n", "\n", 1),
    "no-closing-fence-but-a-rule": era().replace("\n---\n", "\n", 1).replace("\n## Risk", "\n---\n\n## Risk"),
    "no-closing-fence-and-a-title": era().replace("\n---\n", "\n\n# Rank the sales\n", 1),
    "dashes": era().replace("---\n", "----\n", 1).replace("\n---\n", "\n------\n", 1),
    "em-dash": era().replace("---\n", "\u2014\n", 1),
    "stars": era().replace("\n---\n", "\n***\n", 1),
    "mark-and-windows": "\ufeff" + era(backend="era").replace("\n", "\r\n"),
    "mark-and-wrapped": f"\ufeff{BACKTICKS}markdown\n{era(network='off')}{BACKTICKS}\n",
    "old-mac": era().replace("\n", "\r"),
    # front matter
    "python-3": era(language="Python 3"),
    "monty-python-311": monty(language="Python 3.11"),
    "limits-with-units": era(cpu_limit="500m", memory_limit_mb="1GB", time_limit_sec="5 minutes"),
    "limits-in-words": era(cpu_limit="2 cores", memory_limit_mb="256 MB", time_limit_sec="30s"),
    "limits-quoted": era(cpu_limit="1", memory_limit_mb='"256"', time_limit_sec='"60"'),
    "colon-in-purpose": era(purpose="Rank sales: best first"),
    "brackets-in-purpose": era(purpose="[urgent] rank the sales"),
    "quotes-in-purpose": era(purpose='"Rank" the sales'),
    "quotes-in-quotes": era(purpose='"Rank the "best" sales"'),
    "apostrophe": era(purpose="'Rank this month's sales'"),
    "ticks-in-purpose": era(purpose="`rank.py` over the sales"),
    "at-sign": era(requested_by="@core-agent"),
    "percent": era(purpose="%-share of each region"),
    "no-blank-after-colon": era().replace("network: none", "network:none").replace("backend: ERA", "backend:ERA"),
    "capital-keys": era().replace("request_type:", "Request_Type:").replace("purpose:", "Purpose:"),
    "dashes-in-keys": era().replace("cpu_limit:", "cpu-limit:").replace("time_limit_sec:", "time-limit-sec:"),
    "other-keys": era().replace("request_id:", "id:").replace("requested_by:", "author:"),
    "other-limits": era().replace("time_limit_sec:", "timeout_sec:").replace("memory_limit_mb:", "memory_mb:"),
    "indented-keys": "---\n" + "".join(f"  {key}: {value}\n" for key, value in KEYS.items()) + "---\n" + era().split("\n---\n")[1],
    "tab-in-list": with_input("\n- /in/sales.csv\n").replace("  - name", "\t- name").replace("    sha256", "\t  sha256"),
    "empty-optional-keys": era(session_id="null", workflow='""', role="", labels="none", risk_domain="null"),
    "empty-allowlist": era(network_allowlist="[]"),
    "no-allowlist": era(network_allowlist="null"),
    "approval-guessed": era(approved_by="pending", approved_utc="pending"),
    "risk-in-front-matter": era(risk_level="low", data_sensitivity="public"),
    "version-1.0": era(schema_version="v1.0"),
    "time-with-a-blank": era(created_utc="2026-11-22 05:00:00"),
    "time-with-fraction": era(created_utc="2026-11-22T05:00:00.123456+00:00 "),
    "time-ahead": era(created_utc="2031-01-01T00:00:00Z"),
    "no-network": era(network="disabled"),
    "twice": era().replace("network: none\n", "network: none\nnetwork: none\nnetwork: none\n"),
    "three-kinds-at-once": era(purpose="a: b", network="false", backend="era", language="Python 3").replace("\n---\n", "\n", 1),
    "hash-with-prefix": with_input("\n- /in/sales.csv\n").replace(f'"{FOUND}"', f"sha256:{FOUND.upper()}"),
    "name-with-folder": with_input("\n- /in/sales.csv\n").replace("name: sales", "name: /in/sales"),
    "name-with-inbox": with_input("\n- /in/sales.csv\n").replace("name: sales", "name: inbox/files/sales"),
    "url": reaching("\n  - https://api.example.com/v1/rates"),
    "urls-in-brackets": reaching("[https://api.example.com, 'http://b.example.com/x']"),
    "one-host": reaching("api.example.com"),
    "hosts-by-comma": reaching("api.example.com, b.example.com:8443"),
    "outputs-as-texts": request({**KEYS, "outputs_expected": "\n  - /out/ranked.json"}, ERA_OUT),
    "outputs-in-brackets": request({**KEYS, "outputs_expected": "[/out/ranked.json]"}, ERA_OUT),
    "monty-not-named": request({k: v for k, v in KEYS.items() if k != "backend"}, MONTY),
    # body
    "title": era().replace("\n---\n", "\n---\n\n# Rank the sales\n", 1),
    "title-of-level-2-and-bold": era().replace("\n---\n", "\n---\n\n### Request\n", 1).replace("## Command", "**Command**"),
    "levels": era().replace("## Command", "# Command").replace("## Risk", "### Risk"),
    "all-levels": monty().replace("## ", "### "),
    "bold": monty().replace("## Code", "**Code:**").replace("## Risk Assessment", "__Risk Assessment__"),
    "numbered": era().replace("## Command", "## 1. Command").replace("## Risk Assessment", "## 4) Risk assessment:"),
    "underlined-sections": era().replace("## Command", "Command\n-------"),
    "rules-between": era().replace("\n## ", "\n---\n\n## "),
    "rules-close": era().replace("\n\n## ", "\n---\n## "),
    "rule-at-the-end": monty() + "\n---\n",
    "stray-fence-at-the-end": monty() + f"{BACKTICKS}\n",
    "other-names": era().replace("## Output Expectations", "## Outputs").replace("## Input Files", "## Inputs"),
    "order": request(KEYS, {name: ERA[name] for name in ("Command", "Output Expectations", "Input Files", "Risk Assessment")}),
    "risk-first": request({**KEYS, "backend": "monty"}, {name: MONTY[name] for name in ("Risk Assessment", "Code", "Output Expectations")}),
    "input-files-of-monty": request({**KEYS, "backend": "monty"}, {"Code": MONTY["Code"], "Input Files": "\nnone\n", **MONTY}),
    "comment": era().replace("## Command\n", "## Command\n\n<!-- one line -->\n"),
    "less-than": risk(RISK.replace("reads one file", "x<y in each row")),
    "command-as-code": era_body(Command=f"\n{BACKTICKS}bash\n$ python3 -u a.py\n{BACKTICKS}\n"),
    "command-in-ticks": era_body(Command="\n`python3 -u a.py`\n"),
    "command-continued": era_body(Command="\npython3 -u a.py \\\n  --by region \\\n  --best 3\n"),
    "command-with-prompt": era_body(Command="\n- $ python3 -u a.py\n"),
    "code-in-py": monty_body(Code=f"\n{BACKTICKS}py\nprint(1)\n{BACKTICKS}\n"),
    "code-in-python3": monty_body(Code=f"\n{BACKTICKS}Python3\nprint(1)\n{BACKTICKS}\n"),
    "code-without-fence": monty_body(Code="\nfor n in range(3):\n    print(n)\n"),
    "code-indented-fence": monty_body(Code=f"\n  {BACKTICKS}python\nprint(1)\n  {BACKTICKS}\n"),
    "code-never-closed": monty_body(Code=f"\n{BACKTICKS}python\nprint(1)\n"),
    "inputs-json-none": monty_body(**{"Inputs_(JSON)": "\nnone\n"}),
    "inputs-json-bare": monty_body(**{"Inputs_(JSON)": '\n{"limit": 3}\n'}),
    "outputs-n-a": era_body(Output_Expectations="\nN/A\n"),
    "outputs-no-files": era_body(Output_Expectations="\n- No output files.\n"),
    "outputs-stdout": era_body(Output_Expectations="\nNone (stdout only)\n"),
    "outputs-without-folder": era_body(Output_Expectations="\n- ranked.json: the ranking\n"),
    "outputs-bold": era_body(Output_Expectations="\n- **/out/ranked.json**\n"),
    "outputs-no-bullet": era_body(Output_Expectations="\n/out/ranked.json\n/out/log.txt\n"),
    "no-outputs-section": request(KEYS, {k: v for k, v in ERA.items() if k != "Output Expectations"}),
    "inputs-without-folder": with_input("\n- sales.csv\n"),
    "inputs-in-ticks": with_input("\n- `sales.csv` (the sales)\n"),
    "inputs-none": with_input("\nnone\n"),
    "inputs-missing": request(WITH_INPUT, {k: v for k, v in {**ERA, "Command": "\nsort /in/sales.csv\n"}.items() if k != "Input Files"}),
    "risk-bold": risk("\n- **Risk level:** Low\n- **Justification:** reads one file\n- **Data sensitivity:** Public.\n"),
    "risk-labels": risk("\nRisk: low\nRationale: reads one file\nSensitivity: public\n"),
    "risk-case": risk("\nRISK LEVEL: LOW\njustification: reads one file\nData Sensitivity: PUBLIC\n"),
    # several at once: no first finding hides a later one
    "everything": f"Here it is:\n\n{BACKTICKS}markdown\n"
    + era(backend="era", network="off", purpose="a: b", cpu_limit="500m").replace("## Command", "### Command:").replace("\n## Risk", "\n---\n\n## Risk")
    + f"{BACKTICKS}\n",
    "front-and-body": era(network="off", purpose="a: b").replace("## Input Files", "# Input files").replace("Risk level: low", "Risk level: **Low**"),
}  # fmt: skip

LEFT = {
    "prose-in-outputs": (era_body(Output_Expectations="\nThe ranking is printed to stdout.\n"), {"TG240"}),
    "prose-in-a-bullet": (era_body(Output_Expectations="\n- The ranking as JSON\n"), {"TG241"}),
    "prose-and-a-rule": (era_body(Output_Expectations="\nA table of regions\n---\n"), {"TG240"}),
    "two-commands": (era_body(Command="\ncd /in && python3 a.py\n"), {"TG304"}),
    "two-lines": (era_body(Command="\nls /in\npython3 a.py\n"), {"TG220"}),
    "no-code": (monty_body(Code="\nSum the amounts and print them.\n"), {"TG221"}),
    "code-and-words": (monty_body(Code=f"\nThe code:\n\n{BACKTICKS}python\nprint(1)\n{BACKTICKS}\n"), {"TG221"}),
    "unknown-key": (era(priority="high", purpose="a: b"), {"TG120"}),
    "unknown-section": (era(network="off") + "\n## Notes\n\nPlease be quick.\n", {"TG201"}),
    "risk-word": (risk(RISK.replace("level: low", "level: minimal")), {"TG252"}),
    "no-justification": (risk("\nRisk level: low\nData sensitivity: public\n"), {"TG250"}),
    "network-unclear": (era(network="full", language="Python 3"), {"TG138"}),
    "input-without-hash": (request({**KEYS, "inputs": "\n  - name: sales.csv"}, ERA), {"TG152"}),
    "unclosed-quote": (era(purpose='"Rank the sales', network="off"), {"TG110"}),
    "two-values": (era(backend="era").replace("network: none", "network: none\nnetwork: allowlist"), {"TG114"}),
    "two-requests": (f"{era()}\n{era()}", {"TG205", "TG203", "TG252", "TG211"}),
    "shell": (era(language="bash", backend="era"), {"TG137"}),
    "missing-command": (request(KEYS, {k: v for k, v in ERA.items() if k != "Command"}), {"TG202"}),
}  # fmt: skip
"""Each with the rules that are left."""
