"""Where cleared jobs run. A runner knows no gate: it takes a Clearance and a Job and returns an Outcome.

`interface.py` defines what a runner is, `backend.py` how each backend comes to one. This package imports no runner by
itself, because docker and monty are heavy.
"""
