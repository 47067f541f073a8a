"""`threegate contracts new TOOL`: a commented contract that compiles, with every field."""

from __future__ import annotations

_TEXT = """\
# What the tool {tool} may do. Every field: docs/spec/4-contracts.md. Check: threegate contracts check
tool: {tool}
# schema_version: "1.1"         # adds not, starts_with, ends_with, glob, under, host_in, email_domain_in,
#                               # equals_arg, from_output
side_effect: read               # read | write | destructive | admin | financial
evidence_class: local_transaction # success needs /out/result.json; or ack_only, unverifiable
commit_requirement: acknowledged  # state moves after a proven success; none: at launch
timeouts: {{total_ms: 60000}}
retries: {{max_attempts: 1, retry_on: []}}
rate_limits: {{on_429: {{respect_retry_after: true, max_sleep_seconds: 60}}}}
assertions:
  input_invariants: []          # full operators over the arguments, before
  output_invariants: []         # full operators over /out/result.json, after
golden_cases: []                # - {{id: small, arguments: {{}}, expect_ok: true}}
allowed_errors: []              # - {{exit_code: 3, reason: "nothing found"}}

# gate: block                   # overrides risk_defaults of session.yaml
# transitions: {{valid_in_phases: [start], advances_to: done}}
# preconditions:
#   - requires_prior_tool: other_tool
#     with_output: [{{path: "$.approved", equals: true}}]
#     resource: {{bind_from: arguments, path: "$.order_id"}}
#   - requires_step_count: {{gte: 1}}
# forbids_after: []             # tools that may not run after this one
# argument_value_invariants:
#   - {{path: "$.amount", gte: 0, lte: 100}}
#   - {{path: "$.shares", ref: approved_shares, tolerance: 0.01}}
# execution_constraints: {{arguments: [{{path: "$.recursive", equals: false}}]}}
# response_format_invariants: {{tool_calls_present: true}}
# policy:
#   allow: [{{principal: {{path: "$.department", equals: finance}}}}]
#   deny: [{{principal: {{path: "$.type", equals: readonly}}}}]
# binds: [{{name: approved_shares, source: arguments, path: "$.shares"}}]
# schema_derived: true          # rules from {tool}.schema.json
# schema_derived_exclude: []
# checkpoint: {{when: always, timeout_seconds: 300}}
# adds_labels: []               # extension: labels that a run of this tool adds to the session
# arguments_from: vars          # extension: the request's Inputs object is the root
# implements: {{argv_prefix: [python3, tool.py]}}  # extension: which requests may name this tool
"""


def skeleton(tool: str) -> str:
    """The text of a new contract."""
    return _TEXT.format(tool=tool)
