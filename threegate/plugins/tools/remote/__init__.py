"""Tool servers at a URL: one guarded exchange, the call, and the login."""
