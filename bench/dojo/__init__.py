"""AgentDojo behind the gates: how many of its injected calls are made unseen, and how often a person is asked."""
