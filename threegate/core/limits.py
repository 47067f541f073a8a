"""Every bound of the system, named, with its unit. A bound that is not here does not exist."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * 1024

# ---- gate 1: the request file (docs/spec/1-tool-request.md)
REQUEST_BYTES: Final = 64 * KIB
REQUEST_LINES: Final = 2_000
TOOL_ARGUMENTS_BYTES: Final = 48 * KIB
"""The arguments of one tool call, in canonical form."""
TOOL_SCHEMA_STEPS: Final = 100_000
"""Keywords that are looked at while arguments are held against a tool's schema."""
TOOL_SCHEMAS_KNOWN: Final = 128
"""Schemas of tools that a process knows to be schemas, so that it does not check them again."""
TOOL_SCHEMA_NODES: Final = 256
"""Parts of a tool's schema, alternatives and references followed, that are read for one argument of a grant."""
TOOL_SCHEMA_PATH_CHARS: Final = 120
TOOL_CALL_SECONDS: Final = 120
"""The time that a call of the door asks for."""
TOOL_RESULT_BYTES: Final = 16 * MIB
"""A tool's answer as the door reads it back: an answer of TOOL_ANSWER_BYTES, laid out."""
TOOL_ANSWER_BYTES: Final = 8 * MIB
"""All that a server writes while it answers one call."""
REMOTE_URL_CHARS: Final = 2_000
"""Of a tool server's URL, and of one that it names."""
REMOTE_BYTES: Final = MIB
"""An answer of a URL that a server names."""
REMOTE_SECONDS: Final = 10.0
"""For such an answer, the lookup of its name and all of its bytes included."""
REMOTE_END_SECONDS: Final = 3.0
"""For the end of a session at a server's URL, which nothing waits for."""
FRONT_MATTER_BYTES: Final = 16 * KIB
FRONT_MATTER_DEPTH: Final = 4
REQUEST_ID_CHARS: Final = 128
REQUESTED_BY_CHARS: Final = 128
PURPOSE_CHARS: Final = 500
OUTPUT_ENTRIES: Final = 256
ALLOWLIST_ENTRIES: Final = 32
CREATED_AHEAD_SECONDS: Final = 300
FINDINGS_PER_RULE: Final = 20

COMMAND_WORDS: Final = 2_000
CODE_PARTS: Final = 10_000
"""Words and marks of a Code block (a string counts as one); more cannot be parsed in the time that gate 1 has."""
FSTRING_DEPTH: Final = 20
"""f-strings in fields of f-strings."""

SCRIPT_CHECKED_BYTES: Final = 256 * KIB
"""Of all scripts of a command together, how much is parsed before anybody signs."""
SCRIPTS_CHECKED: Final = 64
"""Files of Python that are read for one command: its script and the modules that it imports from its inputs."""
SANDBOX_NAMES: Final = 20_000
"""Programs, and modules, that are read of an image's label or a root."""
SANDBOX_NAME_CHARS: Final = 60
"""How much of a program's, module's or file's name a finding repeats."""
SANDBOX_KNOWN_SECONDS: Final = 5.0
"""How old an answer of an engine may be for a draft's verdict."""
MODULES_SHOWN: Final = 12
"""Modules besides the standard library that a finding lists."""

# ---- gate 1: maxima and usual programs where the settings say nothing
REQUEST_MAX_CPU: Final = 4.0
REQUEST_MAX_MEMORY_MB: Final = 4096
REQUEST_MAX_TIME_SEC: Final = 3600
REQUEST_PROGRAMS: Final = tuple(
    """
    awk b2sum base32 base64 basename bunzip2 bzcat bzip2 cat cksum cmp column comm cp csplit curl cut date df diff
    dirname du echo egrep expand expr false fgrep file find fmt fold gawk git grep gunzip gzip head hexdump iconv
    join jq ls lua mawk md5sum mkdir mv nl node nproc numfmt od paste perl php printenv printf pwd python python3
    readlink realpath rev Rscript ruby sed seq sha1sum sha224sum sha256sum sha384sum sha512sum shuf sleep sort split
    stat strings sum tac tail tar tee test touch tr true tsort uname unexpand uniq unxz unzip wc xxd xz xzcat zcat
    zip zipinfo
    """.split()
)

# ---- strict JSON everywhere
JSON_DEPTH: Final = 64

# ---- input files
INPUT_FILE_BYTES: Final = 1024 * MIB
TAR_ENTRIES: Final = 20_000
TAR_BYTES: Final = 512 * MIB
TAR_DEPTH: Final = 32
TAR_PATH_BYTES: Final = 1024
TAR_NAME_BYTES: Final = 255
TAR_HEADER_BYTES: Final = 64 * KIB
"""A header of a tar that only says something about the next entry: a long name, attributes."""
SHOWN_BYTES: Final = 256 * KIB
"""So much of a request's inputs, all of them together, is shown on a screen. What does not fit is not shown whole."""
SHOWN_HEAD_BYTES: Final = 4 * KIB
"""So much is shown of an input that does not fit."""
INPUT_PAGE_BYTES: Final = 256 * KIB
"""So much of an input is in memory at a time while all of it is paged through."""

# ---- change sets (docs/spec/8-agents.md, "Change sets")
CHANGE_ROWS: Final = 15_000
"""Entries of one change set. With the folders above them they stay below TAR_ENTRIES in all but odd trees."""
CHANGE_TABLE_BYTES: Final = 16 * MIB
CHANGE_ROWS_LISTED: Final = 40
"""Rows that a request's `## Changes` repeats for people; the table has all of them."""
CHANGE_FITTINGS: Final = 32
"""How often rows are left out of a change set because of others that were, until it cannot be made."""
CHANGE_LEFT_OUT: Final = 1_000
"""Entries that could not be carried and are named one by one; the others are counted."""
CHANGE_WALK_ENTRIES: Final = 2_000_000
"""Names of a work copy that are looked at; the walk ends with an error after that."""
IGNORE_FILE_BYTES: Final = 1 * MIB
APPLY_JOURNAL_BYTES: Final = 64 * MIB
CHANGE_HEAD_BYTES: Final = 64
"""Of a changed file's start, to see whether it starts as a program."""
CALLS_AT_ONCE: Final = 4
"""Runs of backend mcp; each is a process of its server."""
APPLY_AT_ONCE: Final = 2
"""Changes that are made at once, in as many projects: one project has one at a time."""
APPLY_CHILD_SECONDS: Final = 60
"""What the child of a project owner may take beyond its time limit, until it is killed."""
APPLY_BACK_SECONDS: Final = 120
"""What a child may take to revert a change; after it, none is started again for that."""
APPLY_BACK_TRIES: Final = 3
"""Children that are started to revert a change, if the project's owner stops or kills them."""
PROJECTS_FILE_BYTES: Final = 1 * MIB
BRANCH_GIT_SECONDS: Final = 120
"""For one call of git for a project whose changes are delivered as a branch."""
BRANCH_GIT_SAID_CHARS: Final = 200
"""Of what git prints when it fails."""
BRANCH_NAMES: Final = 100
"""Branches of one run of an agent."""
COMMIT_MESSAGE_CHARS: Final = 4_000
COMMITS_NAMED: Final = 24
"""Commits of an agent whose messages are in its request; earlier ones are counted."""
COMMITS_READ: Final = 1_000
"""Commits that an agent made in one run and that are looked at."""
COMMIT_BRANCHES: Final = 8
"""Branches of an agent that are not checked out and whose files are proposed at the end of its run."""
COMMITS_CARRIED: Final = 24
"""Commits of an agent that can be delivered one by one; more are one commit."""
COMMITS_TAR_BYTES: Final = 8 * MIB
"""Of `commits.tar`, which has these commits with the bytes of what each changed."""
COPY_OBJECTS_BYTES: Final = 1024 * MIB
"""Unpacked bytes of git's objects that are read of one copy."""
PACKS_READ: Final = 64
"""Packs of a copy's repository that are looked at."""
PACK_DELTAS: Final = 250
"""Deltas that an object in a pack may be built from; git's default is 50."""
COMMIT_OBJECT_BYTES: Final = 1 * MIB
TREE_OBJECT_BYTES: Final = 64 * MIB
GIT_ATTRIBUTES_BYTES: Final = 1 * MIB
CHANGE_SHOWN_BYTES: Final = 4 * MIB
"""So many new bytes of a change set are shown as a diff, in the order of the table; of what is behind them size and
digest.
"""
CHANGE_LINK_NAMES: Final = 64
"""Names by which links lead to one file; one with more counts as running later."""
CHANGE_LINK_WALK: Final = 200_000
"""Names of a project that are looked at for links to what changes; of a larger one the screen says so."""
CHANGE_WORDS_BYTES: Final = 16 * KIB
"""Of what a person says when asking for changes: all words and paths together, as they are sent."""
PART_NAMED_CHARS: Final = 4 * KIB
"""Of the paths that the trail names when a part of a change is taken; those beyond are counted."""
CHANGE_ODD_SHARE: Final = 10
"""A file in which more than one character in so many is a control or is not UTF-8 is not shown as text."""
DIFF_CELLS: Final = 1 << 25
"""Pairs of an old and a new line, in a region that differs, up to which a diff is minimal: 5,792 lines against as many.
The comparison's table has a bit for each, 4 MiB.
"""
DIFF_DEPTH: Final = 16
"""How often a region is split at lines that occur once; what is left then is compared piece by piece."""
DIFF_WORD_CELLS: Final = 1 << 22
"""Pairs of an old and a new word up to which a region's words are compared at once; of a larger one its clauses are."""
DIFF_LINE_CHARS: Final = 2_000
"""Of a longer line, only what changed is shown, with DIFF_AROUND_CHARS before and behind it."""
DIFF_AROUND_CHARS: Final = 200
COLOUR_TEXT_BYTES: Final = 256 * KIB
"""Code in one piece on a screen; a longer one has no syntax colours."""
COLOUR_TEXT_SECONDS: Final = 0.2
COLOUR_START_SECONDS: Final = 2.0
COLOUR_ANSWER_BYTES: Final = 8 * MIB
COLOUR_CPU_SECONDS: Final = 10
"""What the process that runs lexers may use for one screen, if nobody ends it."""
COLOUR_MEMORY_BYTES: Final = 1024 * MIB

# ---- approval (docs/spec/2-approval.md)
APPROVED_AHEAD_SECONDS: Final = 60
CLOCK_BEHIND_SECONDS: Final = 60
RSA_BITS: Final = 3072
SIGNATURE_FILE_BYTES: Final = 64 * KIB
OPERATORS_FILE_BYTES: Final = 256 * KIB
CLIENT_DATA_BYTES: Final = 2 * KIB
"""What a browser may say around a passkey's signature; two hundred bytes are usual."""
CREDENTIAL_ID_BYTES: Final = 1023
"""WebAuthn level 3 section 4."""
COUNTERSIGNATURES: Final = 16
BATCH_MEMBERS: Final = 32
"""Statements that one signature covers at most; with their inputs they also have to fit into SIGNATURE_FILE_BYTES."""
BATCH_STATEMENT_BYTES: Final = KIB
"""What a statement without inputs takes in a batch at most; so much is reckoned for each."""
BATCH_INPUT_BYTES: Final = 224
"""The same for each input that it names."""
BATCH_ARMOR_BYTES: Final = 8 * KIB
"""What is left for the signature of a batch."""
GROUP_INPUT_BYTES: Final = 4 * KIB
"""Of an input that is not the same in all drafts of a group: so much is shown whole in the table of their
differences.
"""
GROUP_VALUE_CHARS: Final = 200
"""Of a plain value that may differ between drafts of a group."""
SSH_KEYGEN_SECONDS: Final = 20
SIGN_SECONDS: Final = 120
QUIET_SIGN_SECONDS: Final = 5
"""For an optional signature: a key whose agent waits for a person must not delay a rejection."""
AGENT_LIST_SECONDS: Final = 2.0
"""What ssh-agent may take to list its keys; a forwarded one over a slow line takes a second."""
AGENT_LIST_BYTES: Final = 256 * KIB
"""AGENT_KEYS of RSA with 16384 bits fit."""
AGENT_KEYS: Final = 64
"""Keys of an agent that are looked at."""
KEY_FILES: Final = 64
"""Files ~/.ssh/*.pub that are looked at."""
PRIVATE_KEY_BYTES: Final = 64 * KIB
"""A private key's file; RSA with 16384 bits has 13 KB."""
KEY_COMMENT_CHARS: Final = 60
"""Of a key's comment, what is shown."""

# ---- a daemon that commands share (core/own_daemon.py)
DAEMON_START_SECONDS: Final = 20
"""What it may take until it has the workspace's lock; and how long a command waits for one that is ending."""
DAEMON_END_SECONDS: Final = 5
"""How long the last command waits for its end, before it leaves it to itself."""
DAEMON_LOG_BYTES: Final = 1 * MIB
"""Its log is emptied at a start that finds more."""

# ---- a run (docs/spec/6-runners.md)
RUN_PROCESSES: Final = 128
RUN_OPEN_FILES: Final = 256
OUT_BYTES: Final = 256 * MIB
OUT_FILES: Final = 1024
OUT_FILE_BYTES: Final = 256 * MIB
OUT_DROPPED_LINES: Final = 256
"""What was left in /out is named up to here; the rest is counted."""
OUT_COLLECT_SECONDS: Final = 30
"""The engine may take so long to hand out /out; PID 1 waits three times as long."""
OUT_ARCHIVE_ENTRY_BYTES: Final = 8 * KIB
"""Of the engine's archive of /out, for each name beside its bytes: headers of a path as long as the kernel takes."""
KEEPER_GREETING_BYTES: Final = 4 * KIB
JAILED_DATA_BYTES: Final = 512 * MIB
"""Data (RLIMIT_DATA) of each process of a run in bubblewrap without a cgroup, beside twice the memory limit: above what
the watch allows, so that the watch decides, and 32 threads with their stacks have room.
"""
JAILED_RESERVE_BYTES: Final = 256 * MIB
"""Free memory of the machine (MemAvailable) below which a watched run ends; on a small machine the
JAILED_RESERVE_PART of its memory, if that is less.
"""
JAILED_RESERVE_PART: Final = 16
JAILED_TMP_NAMES: Final = 8192
"""Names in /tmp of a run."""
JAILED_SHM_NAMES: Final = 1024
JAILED_START_SECONDS: Final = 20
"""From the start of bubblewrap to the first word of its first program."""
STREAM_KEPT_BYTES: Final = 1 * MIB
STREAM_END_BYTES: Final = 64 * MIB

# ---- the trail and the results (docs/spec/7-trail-and-results.md)
TRAIL_STRING_CHARS: Final = 200
TRAIL_MASKED_CHARS: Final = 4096
"""Characters of a foreign string that are looked through for secrets before it is cut to TRAIL_STRING_CHARS."""
TRAIL_LINE_BYTES: Final = 64 * KIB
TRAIL_LIST_ITEMS: Final = 256
TRAIL_RESERVED_BYTES: Final = 1 * MIB
"""Space that is reserved behind the trail's end, whenever less than TRAIL_KEPT_BYTES is left of it."""
TRAIL_KEPT_BYTES: Final = 256 * KIB
"""Of the reserved space, what only those events may use that the disk reserve is for (`durable.disk_reserve`)."""
RESERVE_FILES: Final = 48
"""Spare files of a workspace (core/durable.py): a rejection on a full disk takes three."""
RESERVE_KEPT_FILES: Final = 16
"""Those that only a small new file is made of, so that a long one does not use them all up."""
RESERVE_FILE_BYTES: Final = 32 * KIB
FOLDER_DEPTH: Final = 64
"""Folders below tool-exec/ within each other, as deep as verification goes."""
SINGLE_FILE_BYTES: Final = 64 * MIB
"""Of a file that the trail announces as a whole (operators, notes, a torn end of the trail), when it is verified."""
TRAIL_INDEX_LINES: Final = 10_000
"""So many new lines before the index of a long trail is saved again."""
TRAIL_EVENTS_PER_OWNER_MINUTE: Final = 600
REPORT_REQUESTS: Final = 10_000
"""So many requests, the newest ones, are listed in a report with their stories; all are counted."""
RESULT_BYTES: Final = 8 * MIB
RESULT_RESERVED_BYTES: Final = 2 * MIB
"""Taken before an end is promised: 200 lines of either stream and a thousand outputs fit."""
RESULT_LINE_CHARS: Final = 2_000
RESULT_HOSTS: Final = 8
"""Hosts of a kind that a result's network line names; the front matter has all."""
COMMAND_ANSWERS: Final = 124
"""The highest exit code of a command that counts as its answer (`exited`): 125 is our keeper's, 126 and 127 say that
it could not be started, and from 128 on a signal ended it.
"""
RECORD_BYTES: Final = 4 * MIB
RECORD_REST_BYTES: Final = 256 * KIB
"""For the daemon's own part of a record about a run on a worker: inputs, earlier attempts, where it ran."""
VERDICT_BYTES: Final = 1 * MIB
RESULT_STDOUT_LINES: Final = 200

# ---- gate 3a: the Agent Action Contract (docs/spec/3-aana.md)
AANA_EVENT_BYTES: Final = 64 * KIB
AANA_EVENT_DEPTH: Final = 64
AANA_MAX_AGE_HOURS: Final = 168
AANA_AHEAD_SECONDS: Final = 300
AANA_NAME_CHARS: Final = 200
SERVE_REQUESTS_PER_MINUTE: Final = 600
SERVE_CLIENTS: Final = 4096
SERVE_TOKEN_CHARS: Final = 20
"""A token of at least this length cannot be guessed, so who presents it is counted apart from those who do not."""
SERVE_BODY_SECONDS: Final = 10
SERVE_CONTRACT_SESSIONS: Final = 10_000
"""Contract sessions, and open claims, that one HTTP server keeps."""
SERVE_CONTRACT_STATE_BYTES: Final = 32 * MIB
"""What these sessions hold besides (labels, distinct values, artifacts), as JSON; full from half of it on."""
MCP_LINE_BYTES: Final = 1 * MIB
"""One message; a request file with every character escaped fits."""
MCP_DEPTH: Final = 68
"""An event of AANA_EVENT_DEPTH, inside a message, its params and their arguments."""
MCP_LAST_ANSWERS_SECONDS: Final = 2
"""How long the end of stdin waits for answers that are due."""
MCP_BATCH_ANSWERS: Final = 100
"""Errors for one line that holds a batch of messages."""

# ---- the operator's page
PAGE_LOGIN_SECONDS: Final = 600
PAGE_SESSION_SECONDS: Final = 12 * 3600
PAGE_SESSIONS: Final = 16
PAGE_ROWS: Final = 50
PAGE_FIRST_ROWS: Final = 10
PAGE_STREAM_CHARS: Final = 32_000
PAGE_FIRST_CHARS: Final = 4_000
PAGE_QUERY_CHARS: Final = 200
PAGE_DIFF_ROWS: Final = 500
"""Rows of one page of a file's change; a longer one has pages of its own."""
PAGE_DIFF_CHARS: Final = 200_000
"""Characters of one page of a file's change."""
PAGE_DIFF_CELL_CHARS: Final = 8_000
"""Characters of one row; a longer line goes on in the next one."""
PAGE_DIFFS_ROWS: Final = 2_000
"""Rows of all changes on the page of a request; files behind them have pages of their own."""
PASSKEY_REQUEST_BYTES: Final = 64 * KIB
"""What a browser sends with a passkey's signature, the statement included."""
PASSKEY_REQUEST_SECONDS: Final = 10
PASSKEY_LOGINS: Final = 256
"""Logins within PASSKEY_LOGIN_SECONDS: that many challenges are remembered as used."""
PASSKEY_LOGIN_SECONDS: Final = 300
PASSKEY_STATEMENT_SECONDS: Final = 3600
"""How long after a draft was shown its statement may be signed there."""
PASSKEY_VERIFIED_SECONDS: Final = 300
"""How long after a passkey confirmed who uses it a draft may be refused, or changes asked for, without a signature."""
PASSKEY_UNSIGNED_ACTS: Final = 50
"""Refusals and requests for changes of one login, those that failed included."""
DRAFT_LINK_BYTES: Final = 1 * KIB
"""What is stored about a link in a notice."""
DRAFT_LINK_MISS_SECONDS: Final = 0.1
"""How long the answer to a link that leads nowhere takes: longer than any look-up, so its time tells nothing."""
PAGE_CERTIFICATE_DAYS: Final = 800
"""A certificate of `serve passkeys --make-ca`; browsers take at most 825 days."""

# ---- gate 3b: the contract language (docs/spec/4-contracts.md)
CONTRACT_FILE_BYTES: Final = 256 * KIB
CONTRACT_FOLDER_BYTES: Final = 32 * MIB
CONTRACT_FILES: Final = 20_002
CONTRACT_DEPTH: Final = 32
CONTRACT_NODES: Final = 50_000
CONTRACT_JSONPATH_CHARS: Final = 500
CONTRACT_JSONPATH_NODES: Final = 10_000
CONTRACT_REGEX_CHARS: Final = 1_000
CONTRACT_PATH_CHARS: Final = 4_096
"""A path, URL or e-mail address that `under`, `glob`, `host_in` or `email_domain_in` judges."""
CONTRACT_LOOP_WINDOW: Final = 1_000
CONTRACT_SCHEMA_RULES: Final = 1_000
CONTRACT_VALUE_BYTES: Final = 1 * MIB
CONTRACT_OUTPUT_VALUES: Final = 1_000
"""Values that a session remembers for one `from_output` source, as digests; older ones are forgotten."""
CONTRACT_DIAGNOSTICS: Final = 200
CONTRACT_STATE_BYTES: Final = 256 * MIB
CONTRACT_EVENTS_UNSAVED: Final = 16
"""Events that are folded again at most when the sessions are read from their file."""
CONTRACT_ATTEMPTS: Final = 10
CONTRACT_ATTEMPT_PAUSE_SECONDS: Final = 0.5
RETRY_UNKNOWN_SECONDS: Final = 365 * 24 * 3600


# ---- Monty (docs/spec/6-runners.md)
MONTY_SUSPENSIONS: Final = 200_000
MONTY_RECURSION: Final = 1_000
MONTY_PARSE_SEC: Final = 5
"""For Monty to read a draft's code, in clock time and in CPU time; 10,000 parts take 0.1 s."""
MONTY_PARSE_BYTES: Final = 1024 * MIB
"""Address space of the process that reads it."""
RESULT_VALUE_BYTES: Final = 16 * MIB
RESULT_VALUE_NODES: Final = 1_000_000
RESULT_VALUE_DEPTH: Final = 200

# ---- the inbox
INBOX_ENTRIES: Final = 100_000
INBOX_SLICE_SECONDS: Final = 0.2
"""So long the daemon looks through its inbox before it looks at controls, stop and approved requests again."""
HASH_PIECE_BYTES: Final = 16 * MIB
"""So much of one owner's input files is hashed before another owner's turn."""
OPEN_HASHES: Final = 64
"""So many input files of one owner are open at a time, waiting to be hashed; the others are asked for again later."""
VERDICT_BATCH: Final = 64
ONCE_HASHES: Final = 3
"""So often `run --once` hashes an input that changes meanwhile; after that the change is its draft's finding."""
ONCE_LOOKS: Final = 6
"""So often `run --once` looks at one file of the inbox that changes; the next run looks again."""

# ---- action proposals (docs/spec/5-proposals.md)
PROPOSAL_BYTES: Final = 64 * KIB
PROPOSAL_DEPTH: Final = 16
PROPOSAL_DELEGATED_BYTES: Final = 60 * KIB
"""Arguments of subagent.delegate in args.json, which has them twice and all else that a proposal says: it fits into
SHOWN_BYTES."""
PROPOSAL_FILE_BYTES: Final = 16 * MIB
SNAPSHOT_BYTES: Final = 256 * MIB
SNAPSHOT_ENTRIES: Final = 20_000
MEMORY_BYTES: Final = 16 * MIB
MEMORY_NOTE_BYTES: Final = 4 * PROPOSAL_BYTES
"""One note in ASCII JSON, where two bytes of a proposal become six, and the id of its request."""
APPLY_SECONDS: Final = 600

# ---- notices
NOTICE_CHARS: Final = 160
"""Of the requester's words (each of purpose, name and reach) in a notice."""

# ---- metrics
METRICS_LABELS: Final = 200
"""Values that one label may have; what comes after them is counted as `other`."""
METRICS_OPEN_REQUESTS: Final = 100_000

# ---- the cluster (docs/cluster.md). A worker ends its runs `cluster.away_sec` after the daemon's last beat, which
# takes at most 3 s; the daemon counts a silent worker's runs as lost only CLUSTER_AFTER_AWAY_SECONDS later than that.
CLUSTER_HEARTBEAT_SECONDS: Final = 10
CLUSTER_BEAT_SECONDS: Final = 2.0
CLUSTER_LIVE_SECONDS: Final = 7.0
"""A worker that was not heard for longer gets no job."""
CLUSTER_AWAY_LEAST: Final = 7
CLUSTER_AWAY_MOST: Final = 120
CLUSTER_AFTER_AWAY_SECONDS: Final = 15.0
CLUSTER_REFUSALS: Final = 3
"""So many jobs in a row that a worker refused make it unfit."""
CLUSTER_REFUSED_SECONDS: Final = 60.0
"""How long a worker is not offered a job that it refused, unless its status changes."""
CLUSTER_LEAD_SECONDS: Final = 8.0
"""How long a daemon leads after the broker last gave it the message; a broker notices a lost connection later."""
CLUSTER_SILENCE_SECONDS: Final = 30.0
CLUSTER_GRACE_SECONDS: Final = 4.0
"""How long a worker must report that it has neither a run nor its result before the run counts as lost."""
CLUSTER_START_SECONDS: Final = 120
CLUSTER_SLOWEST_BYTES_PER_SECOND: Final = 2 * MIB
CLUSTER_TOKEN_SECONDS: Final = 15.0
"""How long a worker waits for the start token, besides `cluster.away_sec`."""
CLUSTER_END_SECONDS: Final = 60
"""What a run may take beyond its own time limit, on its worker, before it is given up as lost."""
CLUSTER_CHUNK_BYTES: Final = 1 * MIB
CLUSTER_INLINE_BYTES: Final = 128 * KIB
CLUSTER_SEALED_BYTES: Final = 8 * MIB
CLUSTER_MESSAGE_BYTES: Final = 8 * MIB
"""What the broker takes at most (`max_message_size`), and what a listener looks at."""
CLUSTER_NOTE_BYTES: Final = 64 * KIB
"""Every note but a result: a status with CLUSTER_RUNS runs, whose ids have REQUEST_ID_CHARS, fits."""
CLUSTER_NOTE_PARTS: Final = 256 * 1024
"""Commas and opening brackets in a result, as each costs memory and time to read. The largest has a quarter of it."""
CLUSTER_MESSAGES_PER_SECOND: Final = 200
"""What a listener takes of one queue: ten times what a worker sends that starts and ends a request every 50 ms."""
CLUSTER_NAME_CHARS: Final = 64
CLUSTER_TEXT_CHARS: Final = 300
CLUSTER_IMAGES: Final = 16
CLUSTER_ROWS: Final = 4096
CLUSTER_MEMORY_MB: Final = 64 * 1024 * 1024
CLUSTER_ANSWERS: Final = 256
"""What a listener leaves to be answered; more than that is dropped, and asked for again."""
CLUSTER_LARGE_NOTES: Final = 2
"""Results of one worker above CLUSTER_NOTE_BYTES that wait to be read."""
CLUSTER_MAILBOX: Final = 32
CLUSTER_LATE_RESULTS: Final = 100
"""How many late results of one worker are logged."""
CLUSTER_BOOTS: Final = 64
"""Lives of a worker that the daemon remembers, so that none of them comes back."""
CLUSTER_CHUNK_TRIES: Final = 4
"""How often one worker is sent the same chunk of an input."""
CLUSTER_FETCH_SECONDS: Final = 60.0
"""For the outputs of a run, besides what their size takes at CLUSTER_SLOWEST_BYTES_PER_SECOND."""
CLUSTER_CANCEL_SECONDS: Final = 30.0
"""How long a worker may take to end a run that was cancelled, before nothing more is expected of it."""
CLUSTER_STOP_SECONDS: Final = 4.0
"""How long a daemon that stops waits for the ends of what it interrupted on workers."""
OUTCOME_TEXT_CHARS: Final = 2_000
OUTCOME_LIMIT_CHARS: Final = 10_000
"""One value of `effective_limits`; that of the network names up to ALLOWLIST_ENTRIES hosts."""
OUTCOME_LINES: Final = 4_096
OUTCOME_NOTES: Final = 64
CLUSTER_ENVELOPE_BYTES: Final = 2 * MIB
CLUSTER_CLOCK_SECONDS: Final = 60
CLUSTER_STORE_BYTES: Final = 4096 * MIB
CLUSTER_OUTBOX_SECONDS: Final = 24 * 3600
CLUSTER_SLOTS: Final = 1024
"""The most that `cluster.slots` can be: requests that one daemon has on its workers at once, each with a thread."""
CLUSTER_RUNS: Final = 256
"""Requests that one worker has at once."""

# ---- gate 1: the fields of a request
PATH_CHARS: Final = 1024
SEGMENT_BYTES: Final = 255
FILE_NAME_CHARS: Final = 128
NAME_CHARS: Final = 128
HOST_CHARS: Final = 253
INPUT_ENTRIES: Final = 256
LIST_ENTRIES: Final = 64
"""Entries of a list of texts (constraints, labels, evidence and the like)."""
LIST_TEXT_CHARS: Final = 500
LABEL_CHARS: Final = 128
SLUG_CHARS: Final = 64
BODY_NESTING: Final = 10
"""Blocks may stand this deep in lists and quotes; markdown-it-py itself silently drops what is deeper than 20."""
CONTENT_PLACES: Final = 150
"""Places of one kind that the rules for prose look at."""
CONTENT_DENIALS: Final = 100
"""How many places in prose are checked for denials; no honest text has more."""
VARS_INTEGER_DIGITS: Final = 17
FIX_LINE_CHARS: Final = 2_000
FRAME_LINE_CHARS: Final = 80
"""A line that is looked for as a fence or heading in a broken file; none that was meant as one is longer."""
FIX_ROUNDS: Final = 6
"""Rounds of fixes of one file: what can be seen only after some findings are gone is answered in the next."""
FIX_READINGS: Final = 12
"""Readings of one file after which no further fixes are tried."""

# ---- witnesses of the trail (docs/witnesses.md)
WITNESSES: Final = 16
"""Witnesses that one workspace asks, each in a thread of its own; and cosignatures that a note may have."""
WITNESS_LOGS: Final = 1_000
"""Logs that one witness cosigns."""
WITNESS_BODY_BYTES: Final = 72 * KIB
"""One `add-checkpoint`: a checkpoint of TRAIL_CHECKPOINT_BYTES and 63 proof lines fit."""
WITNESS_STATE_BYTES: Final = 4 * MIB
"""WITNESS_LOGS checkpoints with two signatures, each with names of 128 characters, fit."""
WITNESS_ANSWER_BYTES: Final = 64 * KIB
WITNESS_SAID_CHARS: Final = 120
"""Of a refusal's own words, what is repeated."""
WITNESS_SECONDS: Final = 10.0
"""One answer of a witness, from the connection to its last byte."""
WITNESS_PAUSE_SECONDS: Final = 60.0
"""Between two looks for a checkpoint that a witness has not cosigned; a new checkpoint of the daemon's is asked for
at once.
"""

# ---- stopping the daemon
STOP_GRACE_SECONDS: Final = 5.0
"""So long what runs may go on when the daemon is asked to stop, before it is interrupted."""
STOP_RECORD_SECONDS: Final = 90.0
"""So long what was interrupted may take until it is recorded; with the grace less than the unit's TimeoutStopSec."""

# ---- settings, grants, texts that are searched
SETTINGS_BYTES: Final = 256 * KIB
KEY_FILE_BYTES: Final = 1 * KIB
KEY_TEXT_BYTES: Final = 16 * KIB
"""A public key of ssh-keygen, with its comment."""
USER_STATE_BYTES: Final = 64 * KIB
MADE_FILE_BYTES: Final = 4 * MIB
"""The list of what `agent run` made for a user, with settings files as they were before."""
CLIENT_SETTINGS_BYTES: Final = 1 * MIB
"""The settings file of an agent outside of the jail, which `agent connect --write` adds an entry to."""
AUDIT_FILE_BYTES: Final = 1 * MIB
"""A file that is given to `threegate audit`: a checkpoint or a proof."""
GRANT_USES: Final = 10_000
GRANTS_KNOWN: Final = 256
"""Grants that a process remembers by the bytes of their files."""
GRANT_PARTS: Final = 16
NAME_BEGINNING_CHARS: Final = 3
"""Least of an id, a file name or a slug that names a request."""
NAMES_LISTED: Final = 5
"""Requests that a message names where a name is not one request's alone."""
NAMES_COMPARED: Final = 2_000
"""Names that are looked at for what was probably meant."""
NEAR_CALLS: Final = 3
"""Calls of a tool that the screen of a grant shows, and that it does not cover."""
GRANT_CHOICES: Final = 50
"""Values of a list that a widened value may be one of."""
GRANT_WORD_CHARS: Final = 200
"""Of a text that a constraint takes, and of a pattern."""
SUGGESTION_REQUESTS: Final = 500
"""Newest requests that ran, from which `grant suggest` is made."""
SUGGESTION_DRAFTS: Final = 50
"""Waiting drafts that it counts."""
SUGGESTION_PARTS: Final = 64
"""Values of one request that it compares with those of others."""
SUGGESTION_LEAST: Final = 3
"""Requests of one shape from which a grant is suggested."""
SUGGESTION_CHOICES: Final = 5
"""So many different values are no list any more, but a range or a folder."""
SUGGESTION_APART: Final = 10
"""One call in so many may stand apart from the others: the grant is then suggested without it."""
SUGGESTION_LEAST_SECONDS: Final = 3600
SUGGESTION_SECONDS: Final = 30 * 24 * 3600
"""Longest life of a suggested grant; what was not asked for in so long a time is not suggested."""
SUGGESTION_TRIED: Final = 4096
"""Calls that are tried for the most harmful one that a suggested grant would newly cover."""
FREE_TEXT_BITS: Final = 64
"""A text of so many bits that may be chosen freely carries out anything, in a few calls."""
TRAIL_CHECKPOINT_BYTES: Final = 64 * KIB
VERIFY_PROBLEMS: Final = 100
"""Problems that `audit verify` keeps; all are counted."""

# ---- gate 3a and 3b, besides
AANA_LOG_KEYS: Final = 100
AANA_LOG_KEY_CHARS: Final = 64
CONTRACT_SCHEMA_DEPTH: Final = 16
CONTRACT_REGEX_MEMORY_BYTES: Final = 8 * MIB
CONTRACT_REASON_CHARS: Final = 500
CONTRACT_LABEL_CHARS: Final = 100
CONTRACT_CALL_BYTES: Final = 1 * MIB
CONTRACT_CALLS_BYTES: Final = 256 * MIB
"""A file of calls that `contracts decide` plays."""
CONTRACT_TRAFFIC_BYTES: Final = 16 * MIB
"""A request to a model provider, or its response, that is held against contracts."""

# ---- what proposals may ask for
PROPOSAL_KEY_CHARS: Final = 64
PROJECT_PATH_CHARS: Final = 1024
PROJECT_NAME_BYTES: Final = 255
PROJECT_PATH_DECODINGS: Final = 8
"""How often a path is percent-decoded before it is refused."""
PROJECT_LINKS: Final = 40
PROPOSAL_LIST_DEPTH: Final = 2
PROPOSAL_LIST_ENTRIES: Final = 200
PROPOSAL_READ_BYTES: Final = 64 * KIB
PROPOSAL_GIT_BYTES: Final = 256 * KIB
PROPOSAL_SHELL_SECONDS: Final = 30
PROPOSAL_WEB_BYTES: Final = 256 * KIB
PROPOSAL_WEB_SECONDS: Final = 60
PROPOSAL_MONTY_SECONDS: Final = 20
PROPOSAL_REASON_CHARS: Final = 300

# ---- what comes from a run, a worker or the network
OUT_DEPTH: Final = 32
"""Folders below /out that are read."""
RUN_SHM_BYTES: Final = 16 * MIB
MONTY_PATH_CHARS: Final = 4096
TRAIL_OUTPUTS: Final = 64
"""Output files that the event of a run's end names; the record has all."""
EGRESS_REFUSED: Final = 64
"""Refused destinations that are listed; the allowed ones are all listed, and are as few as the request lists."""
EGRESS_LOG_BYTES: Final = 4 * MIB
SECRET_BYTES: Final = 4096
SECRET_CHARS_MIN: Final = 6
"""A shorter secret is refused: masking it would mask parts of ordinary words and numbers."""
SHOWN_TEXT_BYTES: Final = 16 * MIB
"""The text that an approval covers: a request of REQUEST_BYTES, each character escaped, takes less than a tenth."""
COMPARE_TEXT_BYTES: Final = 64 * KIB
DRAFTS_LOOK_SECONDS: Final = 10.0
"""Between two looks for drafts that are due to expire."""
DRAFTS_EXPIRED: Final = 16
"""Drafts that expire in one turn of the daemon."""
DRILLS_LOOK_SECONDS: Final = 10.0
"""Between two looks for a drill that is due or over."""
DRILL_PLAN_BYTES: Final = 64 * KIB
DRILL_SOURCES: Final = 50
"""Newest finished requests that a drill is made from."""
DRILL_RUNS: Final = 20
"""Newest runs of agents on a project that a drill of a change set may seem to come from."""
DRILL_PROJECT_NAMES: Final = 5_000
"""Names of a project that are looked at for one."""
DRILL_PROJECT_TEXTS: Final = 200
"""Texts of a project that are read for one."""
DRILL_TEXT_BYTES: Final = 64 * KIB
"""A longer file of a project is not read for one."""
PRACTICE_DECISIONS: Final = 10_000
"""Decisions whose seconds, and different reasons, that records of practice keep in memory."""
PRACTICE_REASONS: Final = 20
"""Reasons of rejections that `audit stats` lists, the most frequent ones."""
ENGINE_ANSWER_BYTES: Final = 256 * KIB
"""Of a container engine's answer about its version, or about an image with its labels."""
ROOT_DATABASE_BYTES: Final = 64 * MIB
"""Of the file in which dpkg lists the packages, and of what describes an unpacked root."""
ROOT_ANSWER_SECONDS: Final = 20
"""How long `rpm -qa`, or a root's Python about its modules, may take."""
HEALTH_SECONDS: Final = 10
"""How old a screen's information about the engine and the trail may be, as far as they answer."""
HEALTH_WAIT_SECONDS: Final = 1.5
"""So long the first screen waits for them."""
STATUS_ROWS_READ: Final = 2000
"""Request files that one list reads for what they ask; those beyond are listed by name and state."""
LISTED_CHANGE_BYTES: Final = 2 * MIB
"""Of an input that a list looks through, and of the old files that a change set in it replaces, together."""
LISTED_ADDED_CHARS: Final = 256 * KIB
"""Of a change set's added lines a list looks through so many; a larger one comes first."""
LISTED_INPUTS_SECONDS: Final = 3.0
"""A list looks through inputs so long in LISTED_INPUTS_AGAIN_SECONDS; drafts that are left come first until then."""
LISTED_INPUTS_AGAIN_SECONDS: Final = 10.0
VOID_SHOWN_SECONDS: Final = 24 * 3600
"""So long `threegate status` counts an approval that became void without being asked for what has ended."""
LIVE_TAIL_BYTES: Final = 4 * KIB
"""Of each stream of a run, kept for its last line."""
LIVE_LINE_CHARS: Final = 400
"""Of the last line of a running request's output, on every screen."""
LIVE_FILE_BYTES: Final = 1 * MIB
LIVE_SECONDS: Final = 0.5
"""Between two looks at the output of what runs."""
QUESTION_ROWS: Final = 4
"""Rows of a terminal that a question takes below a screen that is read page by page."""
PAST_USES: Final = 10_000
"""Counts of what ran before that are kept: one for each requester with each host, program and folder."""
USES_CHARS: Final = 4096
"""Of the hosts of one request, as an approval keeps them, together."""
URL_HOST_CHARS: Final = 300
"""Of an address in a text, behind its scheme, how much is looked at for its host."""
URLS_READ: Final = 200
"""Addresses of one request whose hosts are read."""
USED_SCRIPT_BYTES: Final = 256 * KIB
"""Of the scripts among a request's inputs together, how much is looked through for addresses."""
HOSTS_COMPARED: Final = 1_000
"""Hosts that ran before, those of most runs, that a new one is compared with for looking alike."""
FEW_RUNS: Final = 3
"""A host that could be reached by fewer runs than this counts as new for the order of lists."""
PAST_READ_SECONDS: Final = 1.0
"""A list that is recreated reads what ran before at most this often."""
COMPARED_REQUESTS: Final = 50
"""Newest approved requests among which the last one of the same shape is looked for."""
WORKERS_FILE_BYTES: Final = 16 * MIB
OUTCOME_DEPTH: Final = 32
JOURNAL_LINE_BYTES: Final = 4096
WORKER_FREE_BYTES: Final = 256 * MIB
"""Free space that a worker wants before it takes work."""
BROKER_USER_CONNECTIONS: Final = 16
"""Of one certificate at a time: a worker has 5, and again as many while the broker counts lost ones."""
BROKER_USER_CHANNELS: Final = 32
BROKER_BEATS: Final = 4
"""Beats that wait for one worker; the oldest go first."""
BROKER_NOTE_BYTES: Final = 1 * MIB
BROKER_CHUNK_BYTES: Final = 8 * MIB
"""Chunks of inputs or outputs that wait for one worker, or for the daemon from one worker."""
BROKER_RESULT_BYTES: Final = 32 * MIB
BROKER_RESULTS: Final = 1024
"""Notes and results of one worker that wait, however short: five seconds of what the daemon takes."""
BROKER_CHUNKS: Final = 16
BROKER_WAL_BYTES: Final = 32 * MIB
SERVE_CONNECTIONS: Final = 256
"""Of one HTTP server at a time."""
SERVE_CONNECTIONS_EACH: Final = 128
"""Of one address (IPv6: of one /64) at a time."""
SERVE_HEAD_BYTES: Final = 16 * KIB
SERVE_HEAD_SECONDS: Final = 10
"""From accept, the TLS handshake included, to the last byte of the first request's head."""
SERVE_SEND_SECONDS: Final = 30
"""For a client to read an answer, and to send the next head after it."""
MCP_NAME_BYTES: Final = 256

# ---- servers of tools (docs/spec/9-tools.md)
TOOLS_SERVERS: Final = 64
DOOR_NAME_CHARS: Final = 40
"""Of a tool's name at the door; clients take 64, and put a name of their own before it."""
DOOR_NAME_DIGEST_CHARS: Final = 6
"""Hexadecimal digits that distinguish names shortened for the door."""
DOOR_NAME_SERVER_CHARS: Final = 14
"""What a shortened name keeps of its server's."""
TOOLS_MANIFEST_BYTES: Final = 4 * MIB
TOOLS_PINNED: Final = 512
"""Tools of one server."""
TOOLS_PAGES: Final = 64
"""Of a server's list of tools, behind the first one."""
TOOLS_START_SECONDS: Final = 30
"""For each answer before a call: `initialize`, and a page of the list."""
TOOLS_START_BYTES: Final = 4 * MIB
"""Of each such answer, and all that the server writes meanwhile."""
TOOLS_END_SECONDS: Final = 1.0
"""So long a server may take to end when its input has ended, before it is killed."""
TOOLS_CONTAINER_END_SECONDS: Final = 20.0
"""How long the process next to a server's container may take to have the engine remove it."""
TOOLS_MEMORY_MB: Final = 2048
"""Of each process of a server in a jail; where root can make a cgroup, and in a container, of all of them together."""
TOOLS_PROCESSES: Final = 256
"""Processes and threads of a server in a jail or a container."""
TOOLS_TMP_BYTES: Final = 256 * MIB
"""/tmp and /dev/shm of a server's jail, each; /tmp of its container."""
TOOLS_STDERR_BYTES: Final = 4 * KIB
"""Of what a server writes to standard error, kept for its last line."""
TOOLS_WORDS_CHARS: Final = 200
"""Of a server's own words in one of our messages."""
TOOLS_KEPT: Final = 8
"""Processes of stateful servers that a daemon has at once."""
TOOLS_IDLE_SECONDS: Final = 900.0
"""So long such a process may be there without a call."""
TOOLS_EARLIER_CALLS: Final = 100
"""Calls of such a process that the card of the next one lists; older ones are counted."""
TOOLS_EARLIER_CHARS: Final = 200
"""Of the arguments of each call in that list."""
TOOLS_STATE_BYTES: Final = 4 * MIB
"""The file that lists these processes with their calls."""
TOOLS_TREE_ENTRIES: Final = 200_000
TOOLS_TREE_BYTES: Final = 4096 * MIB
"""Files of one program that are pinned."""
TOOLS_IMAGE_HEAD_BYTES: Final = 64 * KIB
"""Of the archive of a folder of an image, to see whether anything is in it."""
TOOLS_SHELL_SCRIPT_BYTES: Final = 64 * KIB
"""Of a shell script that starts a server, read for the files that it names."""
TOOLS_ARGUMENT_CHARS: Final = 4_096
TOOLS_ARGUMENTS: Final = 256
CALLER_FILE_BYTES: Final = 4 * KIB
"""What a process writes that makes an approved call itself: that it asks, and how it ended."""
CALLER_GO_BYTES: Final = TOOL_ARGUMENTS_BYTES + 4 * KIB
"""What it gets: the signed arguments."""
CALLER_GO_SECONDS: Final = 30.0
"""So long it waits for the daemon to claim the request."""
CALLER_RECORD_SECONDS: Final = 30.0
"""So long it waits for the daemon to record the end."""
REMOTE_HEADERS: Final = 16
LOGIN_SECONDS: Final = 300.0
"""From the link to a browser's answer."""
LOGIN_EARLY_SECONDS: Final = 60
"""So long before its end a token is refreshed: the call that gets it takes time."""
LOGIN_EXPIRES_SECONDS: Final = 10 * 366 * 86400
LOGIN_LOCK_SECONDS: Final = 30.0
"""How long a call waits for another one that refreshes a token, which takes REMOTE_SECONDS at most."""
LOGIN_FILE_BYTES: Final = 64 * KIB
LOGIN_TOKEN_CHARS: Final = 16 * KIB
"""Of a token, and of a client's secret."""
LOGIN_CLIENT_ID_CHARS: Final = 2_000
LOGIN_SCOPES: Final = 256
"""Scopes, and entries of the other lists in a metadata document."""
LOGIN_SCOPE_CHARS: Final = 256
LOGIN_CALLBACK_BYTES: Final = 32 * KIB
LOGIN_CALLBACK_SECONDS: Final = 10
"""Between two pieces of the head of a browser's request with the answer, which has at most so many bytes."""

# ---- agents (docs/spec/8-agents.md)
AGENT_RUNS: Final = 10_000
"""Folders of agents' runs that are looked at."""
RELEASED_BYTES: Final = 16 * MIB
"""Outputs of one request that are returned to the requester."""
OUTPUTS_BYTES: Final = 16 * MIB
"""An outputs.json."""
DOOR_FILES: Final = 64
DOOR_FILES_BYTES: Final = 64 * MIB
"""Files that one call of the door names, together."""
DOOR_WAIT_SECONDS: Final = 3_600
DOOR_USUAL_WAIT_SECONDS: Final = 45
"""So long a call waits that does not say: less than the shortest limit of a known client."""
DOOR_READ_BYTES: Final = 256 * KIB
"""What one `read_output` returns at most, if it asks for so much."""
DOOR_ANSWER_BYTES: Final = 64 * KIB
"""An answer to a tool call, as JSON with both of its forms; `read_output` has the rest."""
DOOR_TOOL_LIST_CHARS: Final = 7_000
"""The tools that the MCP server lists by default, as JSON: an agent has them in its context all the time."""
DOOR_STREAM_BYTES: Final = 16 * KIB
"""What an answer has of stdout, as much of stderr, the size of an output that is in it, and half of all of them."""
DOOR_WHY_CHARS: Final = 300
"""What an answer says about where a call runs and why."""
DOOR_FINDINGS: Final = 20
"""What a refusal names."""
DOOR_LONG_CHARS: Final = 2_000
"""Of one text in an answer of the door that is too long as a whole."""
DOOR_LISTED: Final = 64
"""Requests that one answer of `requests` has: those that are open, then the newest."""
DOOR_CALLS: Final = 1_000
"""Calls of one requester that the door remembers; the oldest answered ones are forgotten first."""
DOOR_CALL_BYTES: Final = 4 * KIB
"""What it remembers of one."""
DOOR_CONNECTIONS: Final = 16
"""Clients of one door at a time."""
DOOR_SEND_SECONDS: Final = 30
"""A client that takes no byte for so long is gone."""
AGENT_INBOX_ENTRIES: Final = 1_000
"""Names in the inbox of one run that are looked at."""
AGENT_COPY_ENTRIES: Final = 500_000
AGENT_COPY_BYTES: Final = 16 * 1024 * MIB
"""A project that a plain work copy is made of."""
AGENT_SMALL_BYTES: Final = 32 * MIB
AGENT_SMALL_ENTRIES: Final = 2_000
"""A project that is copied whole for its owner's agent, in about 0.2 s, and is not an overlay."""
AGENT_PATH_DEPTH: Final = 64
AGENT_TMP_BYTES: Final = 1024 * MIB
"""/tmp and /dev/shm of a jail, each."""
TMP_BYTES_PER_NAME: Final = 4 * KIB
"""/tmp and /dev/shm of a jail can have one name (file, folder or link) for this many bytes of their size."""
JAIL_PROCESSES: Final = 2_048
"""Processes and threads in a jail, where nothing else is set."""
AGENT_OPEN_FILES: Final = 16_384
AGENT_PROGRAM_HEAD_BYTES: Final = 256
"""Of an agent's program, for the interpreter that its first line names."""
AGENT_SEQUENCE_CHARS: Final = 128
"""Of one control sequence that an agent writes to the terminal; a longer one is left out."""
AGENT_ANSWER_BYTES: Final = 1024
"""Answers to the questions of an agent's terminal application between two reads of its output; more are left out."""
AGENT_TYPED_BYTES: Final = 64 * 1024
"""What a person typed and an agent does not read; what is typed then is left out, except Ctrl-C, which stops it."""
SILENCE_SECONDS: Final = 0.3
"""Nobody types for so long before a question at the end of a run."""
TYPED_AHEAD_SECONDS: Final = 5
"""What is waited for that; a key may be stuck."""
AGENT_TRIAL_SECONDS: Final = 20
"""For the trial run of a jail."""
AGENT_END_SECONDS: Final = 20
"""How long the end waits for the last process of a jail that was killed."""
DOCTOR_NAMES: Final = 1_000
"""Files that can still be made on the workspace's disk: with less, `threegate doctor` reports a failure."""
CLUSTER_OPERATORS_BYTES: Final = 32 * KIB
"""The operators files together that are sent to workers: with the signature they fit into CLUSTER_NOTE_BYTES."""
CLUSTER_OPERATORS_EVERY_SECONDS: Final = 10.0
CLUSTER_OPERATORS_SECONDS: Final = 30 * 86400
"""How long after its signature a worker takes operators files, so that one that was away gets them."""
DOCTOR_BROKER_SECONDS: Final = 4.0
"""How long `threegate doctor` waits for each answer of a cluster's broker."""
CERTIFICATE_LOW_DAYS: Final = 30
"""A certificate that ends sooner is a warning."""
AGENT_FREE_BYTES: Final = 256 * MIB
"""What a run of an agent must leave free on the workspace's disk, at most: the AGENT_FREE_PART of it, if that is
less.
"""
AGENT_FREE_NAMES: Final = 10_000
AGENT_FREE_PART: Final = 8
AGENT_HEADROOM_FILES: Final = 128
"""Files that each live run holds and gives back when it ends."""
AGENT_HEADROOM_FILE_BYTES: Final = 64 * KIB
AGENT_DISK_LOOK_SECONDS: Final = 0.05
"""Between two looks at a disk's free space."""
AGENT_DISK_MEASURE_SECONDS: Final = 1.0
"""Between two measurements of a run's files, at least; and AGENT_DISK_PAUSES times as long as the last one took."""
AGENT_DISK_PAUSES: Final = 20
AGENT_SCANNED_BYTES: Final = 1 * MIB
"""Of each file of a project, for secrets, before an agent sees it."""
AGENT_SCANNED_LIST_BYTES: Final = 256 * MIB
"""The list of files that were scanned before."""
AGENT_FINDINGS_LISTED: Final = 200
"""Of one file, of what is a secret, and of what may be one; one that is hides the file."""
AGENT_EXCERPT_CHARS: Final = 40
"""Of a line, before and behind what was found in it."""
FINDINGS_FILE_BYTES: Final = 16 * MIB
"""tool-exec/findings.json."""
AGENT_MANIFEST_BYTES: Final = 512 * MIB
AGENT_HISTORY_SECONDS: Final = 10
"""For the history of a project without hidden files; the agent gets one commit where it takes longer."""
AGENT_GIT_OBJECT_BYTES: Final = 64 * MIB
"""Of one object of a project's repository; a tree or commit is never so large."""
AGENT_KEPT_PACKS: Final = 16
AGENT_KEPT_PACK_BYTES: Final = 256 * MIB
"""Objects of a project's history that were written anew for earlier runs; more of them are removed and made again."""
AGENT_READS: Final = 5
"""How often the changes of a run are read whose processes go on meanwhile."""
AGENT_BASE_BYTES: Final = 64 * MIB
"""A file of which the bytes at the start are kept."""
MERGE_SECONDS: Final = 60
"""For `git merge-file` on one file."""
CHANGE_CONFLICTS_NAMED: Final = 10
"""Paths in conflict that a refusal names."""
AGENT_MODEL_REQUEST_BYTES: Final = 32 * MIB
AGENT_MODEL_SECONDS: Final = 600
"""Between two pieces of a model's answer."""
AGENT_MODEL_CONNECTIONS: Final = 64
AGENT_MODEL_BRACKETS: Final = 1_000_000
"""Opening brackets and braces of one request, those in texts included: each may become a value in memory."""
AGENT_MODEL_HELD_BYTES: Final = 64 * MIB
"""Bodies that one relay holds at a time, from their first byte to the end of the answer; the next one waits."""
AGENT_MODEL_MEMORY_MB: Final = 512
"""Data of one relay's process (RLIMIT_DATA). A body of AGENT_MODEL_REQUEST_BYTES takes about 200 of it."""
AGENT_MODEL_TOKEN_BYTES: Final = 4
"""Bytes of a request and its answer that count as one token if the provider reports no number."""
MASKED_PIECE_CHARS: Final = 2_048
"""A longer value, such as a token with claims, is masked in pieces: one pattern for all of it would be too large."""
AGENT_MASKED_CHARS: Final = 192
"""A key or token that is not longer is masked in every form in what a model answers."""
AGENT_MASKED_END_CHARS: Final = 64
"""Of a longer one this much of its end is: without it a token is worth nothing, and all of it would take seconds."""
AGENT_LOGIN_BYTES: Final = 256 * KIB
"""Of a file below the folder of a login (`agents.NAME.login`)."""
AGENT_LOGIN_TOKEN_CHARS: Final = 16_384
AGENT_LOGIN_ANSWER_BYTES: Final = MIB
"""What a provider answers about an account."""
AGENT_LOGIN_SECONDS: Final = 20
"""For such an answer."""
AGENT_HOST_CONNECTIONS: Final = 256
"""To allowed hosts at a time, half-sent ones included; each may hold some 256 KiB outside of the jail."""
AGENT_HOST_ASKS: Final = 8
"""Hosts that a run may have asked for (`request_host`) while nobody has decided about them."""
AGENT_HOST_OPEN_SECONDS: Final = 15
"""For the launcher of a run to open, or close, a host that the trail names."""
HOST_LIST_BYTES: Final = ALLOWLIST_ENTRIES * (HOST_CHARS + 8)
"""The list that a proxy is given at once: pairs of host and port, with a blank after each."""
AGENT_CONNECT_SECONDS: Final = 30
"""For a connection to a host that a person allowed, up to its first byte."""
