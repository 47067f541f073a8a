"""ERA: a request's command in a hardened container."""
