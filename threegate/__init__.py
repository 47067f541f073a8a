"""ThreeGate: a human-approved execution daemon between an AI agent and the machine.

Importing this package loads nothing else; ``from threegate import aana`` gives the Agent Action
Contract's Python API.
"""

__version__ = "0.1.0"
