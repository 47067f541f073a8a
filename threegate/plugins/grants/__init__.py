"""Standing grants: one signature that covers several requests, or calls of a tool, for a limited time."""
