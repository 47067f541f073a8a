"""Who runs agents in these tests."""

from tests.plugins.agents.conftest import project, somebody, user

__all__ = ["project", "somebody", "user"]
