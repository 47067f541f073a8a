"""The rules of the front matter: YAML with one meaning, known keys, values within their grammar."""

from __future__ import annotations

from threegate.request.report import Severity
from threegate.request.rules.rule import Rule

_A = "a" * 64
_B = "b" * 64
_NETWORK = "network: allowlist\nnetwork_allowlist: "


def _rule(
    number: str,
    name: str,
    message: str,
    text: str,
    accepted: tuple[str, ...],
    refused: tuple[str, ...],
    severity: Severity = "error",
) -> Rule:
    return Rule(number, name, severity, message, text, "front matter", accepted, refused)


RULES = (
    _rule(
        "TG110",
        "yaml-syntax",
        "the front matter is no YAML",
        "Write 'key: value' lines; put a value with ': ' or ' #' in it into double quotes.",
        ('purpose: "Rank: the best first"',),
        (
            "purpose: Rank: the best first",
            'purpose: "unclosed',
            "\tpurpose: x",
            'purpose: "x"# y',
            "constraints: [-]",
        ),
    ),
    _rule(
        "TG111",
        "yaml-depth",
        "the front matter is nested deeper than 4 levels",
        "Deep nesting serves only to attack parsers. Make the value flatter.",
        ("evidence: [{source_id: a, more: {kind: b}}]",),
        ("evidence: [{a: {b: {c: d}}}]", "purpose: [[[[[[[[[[[[[[["),
    ),
    _rule(
        "TG112",
        "yaml-reference",
        "anchors, aliases and merge keys are not allowed",
        "They let one text stand for another, or for gigabytes. Write the value out where it belongs.",
        ('purpose: "R&D: 3 * 4 & more"',),
        ("purpose: &a x", "purpose: *a", "evidence: [{<<: {a: b}}]"),
    ),
    _rule(
        "TG113",
        "yaml-tag",
        "tags are not allowed",
        "A tag changes the type of a value. Write the plain value.",
        ('purpose: "!important"',),
        ("purpose: !!str x", "purpose: ! x", "purpose: !!python/object:os.system x"),
    ),
    _rule(
        "TG114",
        "duplicate-key",
        "a key stands twice",
        "Parsers differ in which one counts. Keep one.",
        ("role: a",),
        ("role: a\nrole: b", "evidence: [{a: b, a: c}]", 'role: a\n"role": b'),
    ),
    _rule(
        "TG115",
        "yaml-style",
        "the front matter is one block mapping with its keys at column 1",
        "One 'key: value' a line, at the left edge, without directives, '...' or a second document.",
        ("constraints:\n  - a\n  - b",),
        ("...\n", "? [a]\n: b", "role: a\n...\n---", "? role\n: b"),
    ),
    _rule(
        "TG116",
        "number-range",
        "a number is not exact",
        "Integers beyond 2**53 - 1 and numbers that overflow mean different things to different readers. Quote it.",
        ("evidence: [{a: 9007199254740991}]", 'evidence: [{a: "1e999"}]'),
        ("evidence: [{a: 9007199254740992}]", "evidence: [{a: 1e999}]"),
    ),
    _rule(
        "TG120",
        "unknown-key",
        "the key is not known",
        (
            "An unknown key would be ignored by one reader and obeyed by another. The keys are listed in "
            "schemas/tool-request.schema.md."
        ),
        ("constraints: [a]",),
        ("priority: high", "Purpose: x", "outputs_expected: [{path: a.txt, mode: x}]"),
    ),
    _rule(
        "TG121",
        "missing-key",
        "a required key is missing",
        "request_type, schema_version, request_id, created_utc, requested_by, purpose, language, network, cpu_limit, "
        "memory_limit_mb and time_limit_sec are required; version 2 has no language, cpu_limit and memory_limit_mb.",
        ("-backend",),
        ("-purpose", "-requested_by", "-time_limit_sec"),
    ),
    _rule(
        "TG122",
        "wrong-type",
        "the value has another type than the key asks for",
        (
            "Text is quoted where it could be read as a number, true, false or null; whole numbers stand without quotes; "  # noqa: E501
            "lists use '- '."
        ),
        ('purpose: "42"', "memory_limit_mb: 64"),
        (
            "purpose: 42",
            'memory_limit_mb: "64"',
            "time_limit_sec: true",
            "constraints: a",
            "requested_by: null",
            "cpu_limit: [1]",
        ),
    ),
    _rule(
        "TG130",
        "request-type",
        "request_type must be tool_request",
        "It is the only type of request that there is.",
        ("request_type: tool_request",),
        ("request_type: Tool_Request", "request_type: result"),
    ),
    _rule(
        "TG131",
        "schema-version",
        "schema_version must be 1, or 2 for the backends that are new in it",
        "Changes of the schema come with a new number. Version 2 is for backend apply, version 1 for all others.",
        ('schema_version: "1"', "schema_version: 1"),
        (
            "schema_version: 2",
            'schema_version: "1.0"',
            "schema_version: 1.0",
            "schema_version: true",
            '{apply}\nschema_version: "1"',
            "{apply}\n-backend",
        ),
    ),
    _rule(
        "TG132",
        "request-id",
        "request_id must be 3 to 128 of A-Z a-z 0-9 . _ - and start with a letter or digit",
        "The id names folders and events. It is used once in a workspace, for ever.",
        ("request_id: sales-rank-7",),
        ("request_id: ../etc", "request_id: ab", 'request_id: "a b c"', "request_id: .hidden"),
    ),
    _rule(
        "TG133",
        "created-utc",
        "created_utc must be a UTC time that is not in the future",
        "Write it as 2026-11-22T05:00:00Z or 20261122T050000Z, with or without seconds; +00:00 is the only offset.",
        (
            "created_utc: 2026-11-22T05:00:00Z",
            "created_utc: 2026-11-22T05:00:00.5+00:00",
            "created_utc: 2026-11-22T05:00Z",
            "created_utc: 20261122T050000Z",
            "created_utc: 20261122T0500+00:00",
        ),
        (
            "created_utc: 2026-11-22",
            "created_utc: 20261122T05:00:00Z",
            "created_utc: 2026-W47-7T05:00:00Z",
            "created_utc: 2026-11-21T24:00:00Z",
            "created_utc: 2026-11-22T05:00:60Z",
            "created_utc: 2026-11-22T05:00:00-00:00",
            "created_utc: 2026-11-22T05:00:00.1234567Z",
            "created_utc: 2026-11-22T05:00:00+01:00",
            "created_utc: 2026-02-30T05:00:00Z",
            "created_utc: 2999-01-01T00:00:00Z",
            "created_utc: 2026-11-22T05:00:00",
        ),
    ),
    _rule(
        "TG134",
        "requested-by",
        "requested_by must be one line of 1 to 128 characters",
        "It says who asks: an agent's or a person's name.",
        ("requested_by: core-agent",),
        ('requested_by: ""', 'requested_by: " "', 'requested_by: "a\\nb"'),
    ),
    _rule(
        "TG135",
        "purpose",
        "purpose must be one line of 1 to 500 characters",
        "One sentence that tells the operator what the run is for.",
        ("purpose: Rank the sales of 2026 by region", "purpose: >\n  Rank the sales of 2026\n  by region"),
        ('purpose: ""', 'purpose: "a\\nb"', 'purpose: " padded"'),
    ),
    _rule(
        "TG136",
        "backend",
        "backend must be ERA, monty or apply",
        "ERA is a hardened container and the default; monty is the embedded Python sandbox; apply changes "
        "a project. The spelling is exact.",
        ("backend: ERA",),
        ("backend: era", "backend: Apply", "backend: Monty", "backend: docker", 'backend: ""'),
    ),
    _rule(
        "TG137",
        "language",
        "language must name what the code is written in, and no shell",
        "A request runs one program without a shell. For monty the language is python.",
        ("language: python", "language: Node.js 20"),
        (
            "language: shell",
            "language: Bash",
            "language: /bin/sh",
            "language: bash5",
            "backend: monty\nlanguage: javascript",
        ),
    ),
    _rule(
        "TG138",
        "network",
        "network must be none or allowlist",
        "Write none unless the run must reach a host; allowlist comes with network_allowlist. monty has no network.",
        ("network: none",),
        (
            "network: full",
            "network: None",
            "backend: monty\nnetwork: allowlist\nnetwork_allowlist: [a.example.com]",
        ),
    ),
    _rule(
        "TG139",
        "cpu-limit",
        "cpu_limit must be a decimal number of cores within the maximum",
        'Between 0.05 and request.max_cpu of the settings (4 unless set). Thousandths are written out: 500m is "0.5".',
        ('cpu_limit: "0.5"', "cpu_limit: 2"),
        (
            'cpu_limit: "0"',
            'cpu_limit: "1e1"',
            'cpu_limit: "64"',
            'cpu_limit: "-1"',
            "cpu_limit: one",
            "cpu_limit: 500m",
            'cpu_limit: "01"',
        ),
    ),
    _rule(
        "TG140",
        "memory-limit",
        "memory_limit_mb must lie within the maximum",
        "Between 8 and request.max_memory_mb of the settings (4096 unless set), in MiB.",
        ("memory_limit_mb: 8", "memory_limit_mb: 4096"),
        ("memory_limit_mb: 7", "memory_limit_mb: 4097", "memory_limit_mb: -1"),
    ),
    _rule(
        "TG141",
        "time-limit",
        "time_limit_sec must lie within the maximum",
        "Between 1 and request.max_time_sec of the settings (3600 unless set), in seconds.",
        ("time_limit_sec: 1", "time_limit_sec: 3600"),
        ("time_limit_sec: 0", "time_limit_sec: 3601"),
    ),
    _rule(
        "TG142",
        "approval-missing",
        "an approved request names approved_by and approved_utc",
        (
            "Only a person approves: threegate approve FILE writes both keys and signs. A draft is checked with --stage "  # noqa: E501
            "draft."
        ),
        ("{approved}",),
        ("{approved}\n-approved_by", "{approved}\napproved_utc:", '{approved}\napproved_by: ""'),
    ),
    _rule(
        "TG143",
        "approved-by",
        "approved_by must be one line of at most 128 characters",
        "It is the name under which the operator is in tool-exec/operators.",
        ("{approved}\napproved_by: ada",),
        ('{approved}\napproved_by: " ada"', '{approved}\napproved_by: "a\\nb"'),
    ),
    _rule(
        "TG144",
        "approved-utc",
        "approved_utc must be a UTC time that is not before created_utc",
        "Write it as 2026-11-22T05:10:00Z; threegate approve does.",
        ("{approved}\napproved_utc: 2026-11-22T05:00:00Z",),
        ("{approved}\napproved_utc: yesterday", "{approved}\napproved_utc: 2020-01-01T00:00:00Z"),
    ),
    _rule(
        "TG145",
        "approval-in-draft",
        "approval keys mean nothing in a draft",
        "Who drafts cannot approve. Leave approved_by and approved_utc out or empty.",
        ("approved_by:\napproved_utc:", 'approved_by: ""'),
        ("approved_by: ada", "approved_utc: 2026-11-22T05:00:00Z"),
        "warning",
    ),
    _rule(
        "TG150",
        "inputs",
        "each input is a mapping with name and sha256",
        "Write '- name: data.csv' and below it '  sha256: <64 hex digits>'.",
        (f"inputs: [{{name: data.csv, sha256: {_A}}}]", "inputs: []"),
        ("inputs: [data.csv]", f"inputs: [{{sha256: {_A}}}]"),
    ),
    _rule(
        "TG151",
        "input-name",
        "an input's name is a bare file name",
        "1 to 128 of A-Z a-z 0-9 . _ -; no folders, not '.' or '..'. The file is in inbox/files/ and appears in /in/.",
        (f"inputs: [{{name: data_v1.2.csv, sha256: {_A}}}]",),
        (
            f"inputs: [{{name: ../data.csv, sha256: {_A}}}]",
            f"inputs: [{{name: .., sha256: {_A}}}]",
            f"inputs: [{{name: a b, sha256: {_A}}}]",
            f"inputs: [{{name: 7, sha256: {_A}}}]",
        ),
    ),
    _rule(
        "TG152",
        "input-hash",
        "an input needs its sha256 as 64 lower-case hex digits",
        "The approval binds the bytes of every input. Take the hash from: sha256sum FILE.",
        (f"inputs: [{{name: data.csv, sha256: {_A}}}]",),
        (
            "inputs: [{name: data.csv}]",
            "inputs: [{name: data.csv, sha256: abc}]",
            f"inputs: [{{name: data.csv, sha256: {_A.upper()}}}]",
            f"inputs: [{{name: data.csv, sha256: {'1' * 16}}}]",
        ),
    ),
    _rule(
        "TG153",
        "input-unpack",
        "only a <stem>.tar can be unpacked",
        "unpack: true shows the regular files and folders of a plain tar below /in/<stem>/.",
        (f"inputs: [{{name: tree.tar, sha256: {_A}, unpack: true}}]",),
        (
            f"inputs: [{{name: tree.zip, sha256: {_A}, unpack: true}}]",
            f"inputs: [{{name: .tar, sha256: {_A}, unpack: true}}]",
            f"inputs: [{{name: tree.tar, sha256: {_A}, unpack: yes}}]",
        ),
    ),
    _rule(
        "TG154",
        "input-twice",
        "two inputs would appear under one name in /in",
        "Names are unique, and an unpacked tar's stem is a name too.",
        (f"inputs: [{{name: a, sha256: {_A}}}, {{name: b, sha256: {_A}}}]",),
        (
            f"inputs: [{{name: a, sha256: {_A}}}, {{name: a, sha256: {_B}}}]",
            f"inputs: [{{name: a, sha256: {_A}}}, {{name: a.tar, sha256: {_B}, unpack: true}}]",
        ),
    ),
    _rule(
        "TG155",
        "workdir",
        "workdir must be /in, a folder of an unpacked input below it, or /out",
        "It is where the command starts; /in unless it is set.",
        ("workdir: /out", f"workdir: /in/tree/src\ninputs: [{{name: tree.tar, sha256: {_A}, unpack: true}}]"),
        ("workdir: /tmp", "workdir: in", "workdir: /in/../etc", "workdir: /in/tree"),
    ),
    _rule(
        "TG156",
        "outputs-expected",
        "each expected output is a mapping with path and perhaps a description",
        "Write '- path: /out/report.md' and below it '  description: …'.",
        ("outputs_expected: [{path: report.md, description: the report}]",),
        (
            "outputs_expected: [report.md]",
            "outputs_expected: [{description: x}]",
            "outputs_expected: [{path: 7}]",
            'outputs_expected: [{path: report.md, description: ""}]',
        ),
    ),
    _rule(
        "TG157",
        "output-path",
        "an output is under /out/",
        "A path without '.', '..' or empty segments, below /out/; a bare path means /out/<path>.",
        ("outputs_expected: [{path: /out/report.md}]",),
        (
            "outputs_expected: [{path: /tmp/x}]",
            "outputs_expected: [{path: ../x}]",
            "outputs_expected: [{path: /out/}]",
            "outputs_expected: [{path: a//b}]",
            "outputs_expected: [{path: report.md}, {path: /out/report.md}]",
            'outputs_expected: [{path: "a\\\\b"}]',
        ),
    ),
    _rule(
        "TG158",
        "allowlist",
        "network_allowlist is there exactly when network is allowlist, with 1 to 32 hosts",
        "Name each host that the run must reach, one line '  - api.example.com:443' each, or set network: none and "
        "leave the list out.",
        (f"{_NETWORK}[api.example.com]",),
        ("network: allowlist", "network_allowlist: [api.example.com]", f"{_NETWORK}[]"),
    ),
    _rule(
        "TG159",
        "allowlist-host",
        "an entry of the allowlist is no public host name",
        (
            "Lower-case ASCII names with at least one dot, with ':port' unless it is 443; no address, wildcard, or "
            "private name; each once."
        ),
        (f"{_NETWORK}[api.example.com, 'files.example.org:8443', xn--mnchen-3ya.example]",),
        (
            f"{_NETWORK}['*.example.com']",
            f"{_NETWORK}[127.0.0.1]",
            f"{_NETWORK}['0x7f.1']",
            f"{_NETWORK}[localhost]",
            f"{_NETWORK}['[::1]:443']",
            f"{_NETWORK}[Example.com]",
            f"{_NETWORK}['a.example.com:0']",
            f"{_NETWORK}[db.internal]",
            f"{_NETWORK}[7]",
            f"{_NETWORK}[a.example.com, 'a.example.com:443']",
        ),
    ),
    _rule(
        "TG161",
        "text-list",
        "constraints and labels are lists of one-line texts",
        "At most 64 entries; a constraint has at most 500 characters, a label 128.",
        ("constraints: [no floats]\nlabels: [batch, finance]",),
        ('constraints: [""]', 'labels: ["a\\nb"]'),
    ),
    _rule(
        "TG162",
        "contract-text",
        "session_id, tool, workflow and role are one line of 1 to 128 characters",
        "The contract gate looks them up by name.",
        ("session_id: s-1\ntool: threegate.rank",),
        ('session_id: ""', 'tool: " x"', 'role: "a\\nb"'),
    ),
    _rule(
        "TG163",
        "evidence",
        "evidence is a list of mappings",
        "Each reference says at least source_id and kind; strings alone prove nothing.",
        ("evidence: [{source_id: ticket-7, kind: user_message}]",),
        ("evidence: [ticket-7]",),
    ),
    _rule(
        "TG164",
        "risk-domain",
        "risk_domain is not one of the known domains",
        "devops, finance, education, hr, legal, pharma, healthcare, commerce, customer_support, security, research, "
        "personal_productivity, public_information or unknown.",
        ("risk_domain: finance",),
        ("risk_domain: Finance", "risk_domain: cooking"),
    ),
    _rule(
        "TG170",
        "key-of-another-version",
        "the key belongs to another version of the schema",
        "language, cpu_limit, memory_limit_mb and workdir are keys of version 1, where a program runs; of version 2, "
        "project is one of apply, server and manifest_sha256 are those of mcp. Leave the key out.",
        ("{apply}", "workdir: /out", "{mcp}"),
        (
            "project: web",
            "{apply}\nlanguage: python",
            '{apply}\ncpu_limit: "1"',
            "{apply}\nworkdir: /out",
            "{apply}\nserver: notes",
            "{mcp}\nproject: web",
        ),
    ),
    _rule(
        "TG171",
        "project",
        "project must be the name of a registered project",
        "1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit; threegate project list shows the names.",
        ("{apply}\nproject: web-2.0",),
        ("{apply}\nproject: ../web", "{apply}\nproject: /srv/web", '{apply}\nproject: ""'),
    ),
    _rule(
        "TG172",
        "changes-input",
        "the one input of an apply request is changes.tar",
        (
            "The archive is the change: its first member is the table, and it is read by ThreeGate, never unpacked by a "  # noqa: E501
            "run."
        ),
        ("{apply}",),
        (
            "{apply}\n-inputs",
            "{apply}\ninputs: []",
            f"{{apply}}\ninputs: [{{name: tree.tar, sha256: {_A}}}]",
            f"{{apply}}\ninputs: [{{name: changes.tar, sha256: {_A}, unpack: true}}]",
            f"{{apply}}\ninputs: [{{name: changes.tar, sha256: {_A}}}, {{name: a, sha256: {_B}}}]",
        ),
    ),
    _rule(
        "TG173",
        "server",
        "server must be the name of a server that the operator added",
        "1 to 16 of a-z 0-9 -, starting with a letter, and not threegate. Offered are the tools of added servers only.",
        ("{mcp}\nserver: notes-2",),
        ("{mcp}\nserver: Notes", "{mcp}\nserver: threegate", '{mcp}\nserver: ""', "{mcp}\nserver: a_b"),
    ),
    _rule(
        "TG174",
        "tool-name",
        "tool must be a tool's name at its server",
        "1 to 64 of A-Z a-z 0-9 _ . -. Contracts know it as server.tool.",
        ("{mcp}\ntool: notes.add-one",),
        ("{mcp}\ntool: add note", "{mcp}\ntool: a/b", f"{{mcp}}\ntool: {'a' * 65}"),
    ),
    _rule(
        "TG175",
        "manifest-digest",
        "manifest_sha256 must be the digest of the server's pinned manifest",
        (
            "64 lower-case hex digits, as the server is pinned now. A call is made of the tool as its caller saw it, or "  # noqa: E501
            "not at all."
        ),
        (f"{{mcp}}\nmanifest_sha256: {_B}",),
        ("{mcp}\nmanifest_sha256: abc", f"{{mcp}}\nmanifest_sha256: {_A.upper()}"),
    ),
    _rule(
        "TG176",
        "call-files",
        "a call has neither inputs nor outputs_expected",
        "What the tool is given is in Arguments (JSON); its answer is the output.",
        ("{mcp}", "{mcp}\ninputs: []"),
        (
            f"{{mcp}}\ninputs: [{{name: a, sha256: {_A}}}]",
            "{mcp}\noutputs_expected: [{path: a}]",
        ),
    ),
)
