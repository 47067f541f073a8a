"""What goes back: tool results (`TS-*.md`), the record of a run, and verdict files.

Public: `ResultFacts`, `render_result`, `deliver_result`, `write_record`, `read_record`, `validate_result`;
`Verdict`, `write_verdict`, `read_verdict`.
"""
