"""Gate 2: did a human allow exactly these bytes, recently, once?

Public: `LaunchFacts` with `check_launch` and `launch_checks`, `load_operators`, the statements and `sign_statement`.
"""
