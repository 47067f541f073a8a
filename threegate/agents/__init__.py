"""An agent in a jail, on a copy of a project; what reaches outside is a request that a person signs (docs/spec/8-agents.md)."""
