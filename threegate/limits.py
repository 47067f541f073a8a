"""Every bound of the system, named, with its unit. A bound that is not here does not exist."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * 1024

# ---- gate 1: the request file (spec 1)
REQUEST_BYTES: Final = 64 * KIB
REQUEST_LINES: Final = 2_000
FRONT_MATTER_BYTES: Final = 16 * KIB
FRONT_MATTER_DEPTH: Final = 4
REQUEST_ID_CHARS: Final = 128
REQUESTED_BY_CHARS: Final = 128
PURPOSE_CHARS: Final = 500
OUTPUT_ENTRIES: Final = 256
ALLOWLIST_ENTRIES: Final = 32
CREATED_AHEAD_SECONDS: Final = 300
INPUT_NAME_CHARS: Final = 128

# ---- strict JSON everywhere
JSON_DEPTH: Final = 64

# ---- input files
INPUT_FILE_BYTES: Final = 1024 * MIB
TAR_ENTRIES: Final = 20_000
TAR_BYTES: Final = 512 * MIB

# ---- approval (spec 2)
APPROVED_AHEAD_SECONDS: Final = 60
CLOCK_BEHIND_SECONDS: Final = 60
RSA_BITS: Final = 3072
SIGNATURE_FILE_BYTES: Final = 64 * KIB

# ---- a run (spec 6)
RUN_PROCESSES: Final = 128
RUN_OPEN_FILES: Final = 256
OUT_BYTES: Final = 256 * MIB
OUT_FILES: Final = 1024
OUT_FILE_BYTES: Final = 256 * MIB
STREAM_KEPT_BYTES: Final = 1 * MIB
STREAM_END_BYTES: Final = 64 * MIB

# ---- the trail and the results (spec 7)
TRAIL_STRING_CHARS: Final = 200
TRAIL_LINE_BYTES: Final = 64 * KIB
RESULT_STDOUT_LINES: Final = 200
