"""A plugin that is there for a test only."""
