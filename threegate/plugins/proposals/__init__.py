"""JSON action proposals: what an agent wants, judged once, and turned into an ordinary draft of a tool
request.

Invariant: a proposal has one verdict (`reject`, `block`, `approval`, `auto`); only the last two become a
draft, and the draft's bytes follow only from the proposal's bytes and the pinned files, so that `approve` can
derive them again. Source: docs/spec/5-proposals.md.
"""
