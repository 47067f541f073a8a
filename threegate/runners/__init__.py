"""Where cleared jobs run. A runner knows no gate: it takes a Clearance and a Job and gives an Outcome.

`interface.py` says what a runner is, `registry.py` which ones there are. This folder imports none of them by itself: docker and
monty are heavy.
"""
