"""An agent in a jail, on a copy of a project; anything that reaches outside is a request that a person signs
(docs/spec/8-agents.md).
"""
